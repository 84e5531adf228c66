import ember.*;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;

/** Tests of samplers: their stages, logits that are sampled by hand, and stages of one's own: SamplerTest MODEL. */
public class SamplerTest {
    static Model model;
    static Context context;

    static List<Integer> draw(String prompt, Options options) {
        context.rewind(0);
        try (var events = context.generate(prompt, options)) {
            return events.filter(event -> !event.isEnd()).map(Event::token).toList();
        }
    }

    static List<Integer> draw(Options options) {
        return draw("The wolf said", options.maxTokens(12));
    }

    static int token(String text) {
        return model.tokenize(text, false, false)[0];
    }

    static void choices() {
        var greedy = draw(new Options());
        int first = greedy.getFirst();
        EmberTest.equal("greedy", draw(new Options().greedy()), greedy);
        EmberTest.equal("denied", draw(new Options().deny(first).greedy()).contains(first), false);
        EmberTest.equal("ruled out", draw(new Options().logitBias(Map.of(first, Float.NEGATIVE_INFINITY)).greedy()).contains(first), false);
        int sea = token(" sea");
        EmberTest.equal("biased", draw(new Options().logitBias(Map.of(sea, 100f)).greedy()), java.util.Collections.nCopies(12, sea));
        int[] allowed = model.tokenize(" the wolf", false, false);
        var some = draw(new Options().allow(allowed).temperature(1).seed(5));
        EmberTest.equal("allowed", Arrays.stream(allowed).boxed().toList().containsAll(some), true);
        EmberTest.refused(1, "", () -> draw(new Options().allow()));

        // In the order of the calls.
        float[] logits = {1, 2, 3};
        try (var before = new Sampler(new Options().topK(1).logitBias(Map.of(0, 10f)));
                var after = new Sampler(new Options().logitBias(Map.of(0, 10f)).topK(1))) {
            EmberTest.equal("order", List.of(before.sample(logits), after.sample(logits)), List.of(2, 0));
        }
        var few = draw(new Options().mirostat1(0.01f, 1, 50).seed(5));
        EmberTest.equal("Mirostat 1", few.equals(draw(new Options().mirostat1(9, 0.1f, 100).seed(5))), false);
        EmberTest.refused(1, "1", () -> draw(new Options().mirostat1(5, 0.1f, 1)));
    }

    static void repetitions() {
        var passage = " one two three four five";
        var repeated = "Count:" + passage + "." + passage + ". one two three";
        int four = token(" four");
        EmberTest.equal("carried on", draw(repeated, towards(four)), List.of(four));
        EmberTest.equal("DRY", draw(repeated, towards(four).dry(model, 50, 2, 1, 1024)).equals(List.of(four)), false);
        EmberTest.equal("a breaker", draw(repeated, towards(four).dry(model, 50, 2, 1, 1024, List.of(" three"))), List.of(four));
        var lines = "Count: one two\n four five. one two three four five. one two\n";
        EmberTest.equal("the usual breakers", draw(lines, towards(four).dry(model, 50, 2, 1, 1024)), List.of(four));
        EmberTest.equal("no breakers", draw(lines, towards(four).dry(model, 50, 2, 1, 1024, List.of())).equals(List.of(four)), false);

        // The prompt's tokens count, unless only those that were generated do.
        int wolf = token(" wolf");
        for (boolean generated : new boolean[] {false, true}) {
            var options = new Options().logitBias(Map.of(wolf, 50f)).penalties(64, 1, 0, 100).penaltiesOfGenerated(generated).greedy();
            var two = draw(options).subList(0, 2);
            EmberTest.equal("penalties", List.of(two.get(0) == wolf, two.get(1) == wolf), List.of(generated, false));
        }

        // An end that is likely is taken, however likely another token is.
        var logits = new float[model.info().vocabularySize()];
        Arrays.fill(logits, -20);
        int eos = model.info().eos().orElseThrow();
        logits[token(" sea")] = 1;
        logits[token(" the")] = 0.5f;
        logits[eos] = 0.9f;
        try (var plain = new Sampler(new Options().greedy()); var infill = new Sampler(new Options().infill(model).greedy())) {
            EmberTest.equal("infill", List.of(plain.sample(logits), infill.sample(logits)), List.of(token(" sea"), eos));
        }
    }

    static Options towards(int token) {
        return new Options().maxTokens(1).logitBias(Map.of(token, 20f));
    }

    static void byHand() {
        var greedy = draw(new Options()).subList(0, 6);
        int[] prompt = model.tokenize("The wolf said", true, false);
        context.rewind(0);
        var tokens = new ArrayList<Integer>();
        try (var sampler = new Sampler(new Options().greedy())) {
            for (var logits = context.decode(prompt); tokens.size() < 6; logits = context.decode(tokens.getLast())) {
                tokens.add(sampler.sample(logits));
                sampler.accept(tokens.getLast());
            }
        }
        EmberTest.equal("by hand", tokens, greedy);
        EmberTest.refused(10, "", () -> context.logits(1));
        try (var other = model.context(64, 1, 2); var sampler = new Sampler(new Options().greedy())) {
            var both = new int[] {prompt[0], prompt[0], prompt[1]};
            other.decode(both, new int[] {0, 0, 1}, new int[] {0, 1, 1}, new boolean[] {true, false, true});
            EmberTest.equal("sequences", List.of(other.past(0), other.past(1)), List.of(1, 2));
            var last = other.logits(2);
            EmberTest.refused(10, "", () -> other.logits(1));
            other.rewind(1, 0);
            EmberTest.equal("in another sequence", sampler.sample(other.decode(1, Arrays.copyOf(prompt, 2))), sampler.sample(last));
            EmberTest.refused(1, "position", () -> other.decode(new int[] {1}, new int[] {5}, null, null));
            EmberTest.refused(1, "7", () -> other.decode(7, prompt));
            illegal("2 numbers are given for 1", () -> other.decode(new int[] {1}, new int[] {1, 2}, null, null));
        }
    }

    static void illegal(String says, Runnable call) {
        try {
            call.run();
        } catch (IllegalArgumentException e) {
            if (e.getMessage().contains(says)) return;
            throw e;
        }
        throw new AssertionError("not refused: " + says);
    }

    static void kept() {
        var how = new Options().temperature(1.3f).seed(11);
        var sampler = new Sampler(how);
        EmberTest.equal("seed", sampler.seed(), 11L);
        var copy = sampler.copy();
        var first = draw(new Options().sampler(sampler));
        var second = draw(new Options().sampler(sampler));
        EmberTest.equal("goes on", first.equals(second), false);
        EmberTest.equal("the copy", List.of(draw(new Options().sampler(copy)), draw(new Options().sampler(copy))), List.of(first, second));
        sampler.reset();
        EmberTest.equal("anew", draw(new Options().sampler(sampler)), first);
        EmberTest.equal("as by options", draw(new Options().temperature(1.3f).seed(11)), first);
        illegal("has the stages", () -> draw(new Options().sampler(sampler).topK(3)));
        illegal("max_tokens", () -> new Sampler(new Options().maxTokens(3)));
        sampler.close();
        sampler.close();
        EmberTest.refused(0, "sampler is closed", () -> sampler.accept(1));
        EmberTest.refused(0, "sampler is closed", () -> draw(new Options().sampler(sampler)));
    }

    static void ownStages() {
        int sea = token(" sea");
        var calls = new AtomicInteger();
        var options = new Options().candidates((tokens, logits) -> {
            calls.incrementAndGet();
            EmberTest.equal("candidates", tokens.length, logits.length);
            for (int i = 0; i < tokens.length; i++) logits[i] = tokens[i] == sea ? 1 : Float.NEGATIVE_INFINITY;
        });
        EmberTest.equal("candidates", draw(options), java.util.Collections.nCopies(12, sea));
        EmberTest.equal("calls", calls.get(), 12);
        var reason = new IllegalStateException("not so");
        Options.Candidates failing = (tokens, logits) -> { throw reason; };
        thrown(reason, () -> draw(new Options().candidates(failing)));
        var context = SamplerTest.context;
        context.rewind(0);
        thrown(reason, () -> {
            try (var all = context.completions("The sea", 1, new Options().candidates(failing))) {
                all.finish();
            }
        });
        // By hand it runs within the call; a copy has it after the sampler was closed, and what it needs is not collected.
        Sampler copy;
        try (var sampler = new Sampler(new Options().candidates((tokens, logits) -> logits[2] = 1000))) {
            copy = sampler.copy();
        }
        System.gc();
        EmberTest.equal("the copy", copy.sample(new float[] {100, 0, -100}), 2);
        copy.close();
        thrown(reason, () -> new Sampler(new Options().candidates(failing)).sample(new float[3]));
        try (var engine = model.engine(1, 8, 64, 1)) {
            illegal("candidates", () -> engine.submit("a", new Options().candidates(failing)));
        }
    }

    static void thrown(Throwable reason, Runnable call) {
        try {
            call.run();
        } catch (Throwable e) {
            if (e == reason) return;
            throw e;
        }
        throw new AssertionError("not thrown: " + reason);
    }

    static void constraintsAndProposals(String path) {
        Sampler sampler;
        try (var constraint = Constraint.choices(model, List.of(" the sea"), new ConstraintOptions())) {
            sampler = new Sampler(new Options().constrained(constraint).greedy());
        }
        EmberTest.equal("unfinished", sampler.progress(), Event.Progress.UNFINISHED);
        context.rewind(0);
        EmberTest.equal("constrained", EmberTest.text(context.generate("He saw", new Options().sampler(sampler).maxTokens(9))), " the sea");
        EmberTest.equal("complete", sampler.progress(), Event.Progress.COMPLETE);
        EmberTest.refused(10, "", () -> model.proposedSampler(-1));
        try (var proposing = Model.load(path, new ModelOptions().metadata("general.sampling.top_k", 1));
                var proposed = proposing.proposedSampler(1); var plain = new Sampler(new Options().seed(1))) {
            var drawn = new HashSet<Integer>();
            var without = new HashSet<Integer>();
            for (int i = 0; i < 50; i++) {
                drawn.add(proposed.sample(new float[] {1, 2, 1.9f, 1.8f}));
                without.add(plain.sample(new float[] {1, 2, 1.9f, 1.8f}));
            }
            EmberTest.equal("proposed", List.copyOf(drawn), List.of(1));
            EmberTest.equal("drawn from all", without.size() > 1, true);
        }
    }

    public static void main(String[] arguments) {
        model = Model.load(arguments[0]);
        context = model.context(256, 1);
        choices();
        repetitions();
        byHand();
        kept();
        ownStages();
        constraintsAndProposals(arguments[0]);
        System.out.println("samplers of Java are fine");
    }
}
