import ember.*;

import java.util.stream.Collectors;

/** Tests of several completions of one prompt: CompletionsTest MODEL. */
public class CompletionsTest {
    static Options drawn(long seed) {
        return new Options().maxTokens(12).logprobs(true).temperature(1.1f).seed(seed);
    }

    public static void main(String[] arguments) {
        var prompt = "Once upon a time";
        int n = 3;
        try (var model = Model.load(arguments[0]); var context = model.context(128, 0, n)) {
            var texts = new String[] {"", "", ""};
            var sums = new double[n];
            int ends = 0;
            int[] order;
            try (var all = context.completions(prompt, n, drawn(21))) {
                EmberTest.refused(1, "has not ended", all::rank);
                EmberTest.equal("under way", all.usage(2).finish() == null, true);
                for (var turn = all.next(); turn.isPresent(); turn = all.next()) {
                    var event = turn.get().event();
                    texts[turn.get().index()] += event.text();
                    if (event.isEnd()) ends++;
                    else sums[turn.get().index()] += event.logprob();
                }
                for (int i = 0; i < n; i++) EmberTest.equal("whole text", all.text(i), texts[i]);
                EmberTest.refused(1, "no completion 3", () -> all.text(n));
                order = all.rank();
                for (int i = 0; i < n; i++) {
                    EmberTest.equal("usage", all.usage(i).generatedTokens(), 12);
                    EmberTest.equal("finish", all.usage(i).finish(), Event.Finish.MAX_TOKENS);
                }
                EmberTest.refused(1, "no completion 3", () -> all.usage(n));
            }
            EmberTest.equal("ends", ends, n);
            for (int i = 0; i < n; i++) {
                try (var own = model.context(128, 0); var events = own.generate(prompt, drawn(21 + i))) {
                    EmberTest.equal("alone", events.map(Event::text).collect(Collectors.joining()), texts[i]);
                }
            }
            EmberTest.equal("different", texts[0].equals(texts[1]) && texts[0].equals(texts[2]), false);
            EmberTest.equal("ranked", order.length, n); // all have 12 tokens
            for (int i = 1; i < n; i++) EmberTest.equal("order", sums[order[i - 1]] >= sums[order[i]], true);
            try (var greedy = context.completions(prompt, 2, new Options().maxTokens(6))) {
                greedy.finish();
                EmberTest.equal("greedy", greedy.text(0), greedy.text(1));
            }
            for (int i = 0; i < n; i++) context.rewind(i, 0);
            try (var after = context.completions(prompt, 2, new Options().maxTokens(6).sequence(1))) {
                after.finish();
                EmberTest.equal("sequences", context.past(0) == 0 && context.past(2) > 6, true);
            }
            EmberTest.refused(1, "4 completions", () -> context.completions(prompt, 4, new Options()));
        }
        System.out.println("completions of Java are fine");
    }
}
