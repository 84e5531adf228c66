import ember.*;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** Tests of the package: EmberTest MODEL CHAT_MODEL PROMPT N TEXT, where the last three are the golden text of all bindings. */
public class EmberTest {
    static void equal(String what, Object got, Object want) {
        if (!want.equals(got)) throw new AssertionError(what + ": " + got + " instead of " + want);
    }

    static void refused(int status, String says, Runnable call) {
        try {
            call.run();
        } catch (EmberException e) {
            if (e.status() == status && e.getMessage().contains(says)) return;
            throw e;
        }
        throw new AssertionError("not refused: " + says);
    }

    static String text(Stream<Event> events) {
        try (events) {
            return events.map(Event::text).collect(Collectors.joining());
        }
    }

    public static void main(String[] arguments) throws Exception {
        var path = arguments[0];
        var prompt = arguments[2];
        int n = Integer.parseInt(arguments[3]);
        var want = arguments[4];
        var model = Model.load(path);
        var context = model.context();
        model.close(); // the context keeps it
        var events = context.generate(prompt, new Options().maxTokens(n).logprobs(true)).toList();
        equal("text", events.stream().map(Event::text).collect(Collectors.joining()), want);
        equal("tokens", events.size(), n + 1);
        equal("the end", events.getLast().finish(), Event.Finish.MAX_TOKENS);
        if (!(events.getFirst().logprob() < 0)) throw new AssertionError("no log-probability");
        refused(0, "model is closed", () -> model.tokenize("a", true, false));

        // Seeds and stop texts.
        var drawn = new ArrayList<String>();
        for (long seed : new long[] {3, 3, 4}) {
            context.rewind(0);
            drawn.add(text(context.generate("The wolf said", new Options().topK(40).topP(0.95f).temperature(0.9f).seed(seed).maxTokens(20))));
        }
        equal("the same seed", drawn.get(1), drawn.get(0));
        equal("another seed", drawn.get(2).equals(drawn.get(0)), false);
        context.rewind(0);
        var stop = want.strip().split(" ")[1];
        var stopped = context.generate(prompt, new Options().stop("never").stop(stop)).toList();
        equal("before the stop text", stopped.stream().map(Event::text).collect(Collectors.joining()), want.substring(0, want.indexOf(stop)));
        equal("the end", stopped.getLast().finish(), Event.Finish.STOP_STRING);

        // Leaving early, and going on with the same context.
        context.rewind(0);
        try (var early = context.generate("The sea", new Options().maxTokens(400).ignoreEog(true))) {
            equal("three events", early.limit(3).count(), 3L);
        }
        context.rewind(0);
        equal("again", text(context.generate(prompt, new Options().maxTokens(n))), want);

        // An interrupted thread.
        context.rewind(0);
        Thread.currentThread().interrupt();
        equal("interrupted", context.generate("The sea", new Options()).toList().getLast().finish(), Event.Finish.CANCELLED);
        equal("stays interrupted", Thread.interrupted(), true);

        // Contexts of threads.
        var again = Model.load(path);
        var texts = Stream.of(1, 2, 3).parallel().map(i -> {
            try (var own = again.context(128, 1)) {
                return text(own.generate(prompt, new Options().maxTokens(n)));
            }
        }).toList();
        equal("of threads", texts, List.of(want, want, want));

        // Closed while it runs: the stream ends with a sentence.
        var closing = again.context(0, 0);
        refused(0, "context is closed", () -> closing.generate("The sea", new Options().ignoreEog(true)).forEach(event -> closing.close()));

        // Refusals.
        refused(2, "no.gguf", () -> Model.load("no.gguf"));
        refused(1, "5", () -> context.generate("a", new Options().topP(5)));
        refused(4, "template", () -> context.chat(List.of(Message.user("Hi"))));
        var small = again.context(64, 1);
        refused(6, "64", () -> text(small.generate("The sea. ".repeat(200), new Options())));

        var chatModel = Path.of(arguments[1]);
        if (!Files.exists(chatModel)) {
            System.out.println("SKIPPED: the chat, for " + chatModel + " is not there");
            return;
        }
        try (var chat = Model.load(arguments[1]); var c = chat.context()) {
            // Its default system text comes before; what is quoted arrives as it is.
            var said = "\"Grüße\" \\ 🌙\n\t<&>\u0001";
            var template = chat.applyChatTemplate(List.of(Message.system("Be brief."), Message.user(said), Message.assistant("x"), Message.user("y".repeat(900))));
            equal("quoted", template.contains(said), true);
            var messages = new ArrayList<>(List.of(Message.user("What is the capital of France?")));
            var answer = text(c.chat(messages, new Options().maxTokens(6)));
            equal("answer", answer, "L'Étoile,"); // llama.cpp begins this answer in the same way
            messages.add(Message.assistant(answer));
            messages.add(Message.user("And of Italy?"));
            equal("goes on", text(c.chat(messages, new Options().maxTokens(6))).isEmpty(), false);
        }
        System.out.println("the Java package is fine");
    }
}
