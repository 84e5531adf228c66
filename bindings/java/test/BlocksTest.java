import ember.*;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.stream.Collectors;

/**
 * Tests of tokenizers, the parser of replies, and what else an app is built from: BlocksTest MODEL ROTARY_MODEL PROMPT N TEXT, where the last
 * three are the golden text of all bindings, and the second is a model whose tokens can be moved.
 */
public class BlocksTest {
    static void tokenizers(String path, Model model) throws Exception {
        var text = "Once upon a time, Grüße 🌙";
        int[] tokens = model.tokenize(text, true, false);
        var closed = Model.load(path);
        var own = closed.tokenizer();
        closed.close(); // the tokenizer outlives it
        for (var tokenizer : List.of(own, Tokenizer.load(path), Tokenizer.load(Files.readAllBytes(Path.of(path))))) {
            EmberTest.equal("tokens", Arrays.equals(tokenizer.tokenize(text, true, false), tokens), true);
            EmberTest.equal("count", tokenizer.count(text, true, false), (long) tokens.length);
            EmberTest.equal("text", tokenizer.detokenize(tokens, false), text);
            var bytes = new ByteArrayOutputStream();
            for (int token : tokens) bytes.write(tokenizer.bytes(token));
            EmberTest.equal("bytes", bytes.toString(StandardCharsets.UTF_8).strip().endsWith("🌙"), true);
            var info = tokenizer.info();
            EmberTest.equal("vocabulary", info.vocabularySize(), model.info().vocabularySize());
            EmberTest.equal("eos", info.eos(), model.info().eos());
            EmberTest.equal("no gap", info.fimMiddle().isEmpty(), true);
            int end = tokenizer.tokenize("<|endoftext|>", false, true)[0];
            int last = tokens[tokens.length - 1];
            EmberTest.equal("control", tokenizer.isControl(end) && !tokenizer.isControl(last), true);
            EmberTest.equal("ends", tokenizer.isEndOfGeneration(end) && !tokenizer.isEndOfGeneration(last), true);
            EmberTest.equal("left out", tokenizer.detokenize(new int[] {end}, false), "");
            EmberTest.equal("rendered", tokenizer.detokenize(new int[] {end}, true), "<|endoftext|>");
            EmberTest.refused(4, "fill", () -> tokenizer.fimPrompt("a", "b"));
            EmberTest.refused(1, "" + info.vocabularySize(), () -> tokenizer.bytes(info.vocabularySize()));
            tokenizer.close();
            EmberTest.refused(0, "tokenizer is closed", tokenizer::info);
        }
        EmberTest.refused(2, "no.gguf", () -> Tokenizer.load("no.gguf"));
        EmberTest.refused(3, "<buffer>", () -> Tokenizer.load(new byte[8]));
    }

    static String joined(List<ReplyEvent> events, ReplyEvent.Kind kind) {
        return events.stream().filter(event -> event.kind() == kind).map(ReplyEvent::text).collect(Collectors.joining());
    }

    static void parser(Model model) {
        var template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{% endfor %}"
                + "{% if tools %}<tool_call>{{ tools | tojson }}</tool_call>{% endif %}{% if enable_thinking %}<think>{% endif %}</think>";
        var options = new ChatOptions().template(template).tools(ChatTest.TOOLS);
        var parser = model.chatParser("", options);
        EmberTest.equal("calls", parser.format().calls(), "hermes");
        EmberTest.equal("thoughts", parser.format().thinkingClose(), "</think>");
        var reply = "<think>Hm.</think>Let me see.<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Bern\"}}\n</tool_call>";
        var events = new ArrayList<ReplyEvent>();
        boolean thought = false;
        for (int i = 0; i < reply.length(); i += 3) {
            events.addAll(parser.push(reply.substring(i, Math.min(i + 3, reply.length()))));
            thought |= parser.isThinking();
        }
        events.addAll(parser.finish(Event.Finish.EOG));
        EmberTest.equal("thought", thought && !parser.isThinking(), true);
        EmberTest.equal("thinking", joined(events, ReplyEvent.Kind.THINKING), "Hm.");
        EmberTest.equal("text", joined(events, ReplyEvent.Kind.TEXT), "Let me see.");
        var call = events.stream().filter(ReplyEvent::isCall).findFirst().orElseThrow();
        EmberTest.equal("name", call.name(), "weather");
        EmberTest.equal("arguments", call.text(), "{\"city\": \"Bern\"}");
        EmberTest.equal("pieces", joined(events, ReplyEvent.Kind.CALL_ARGUMENTS), call.text());
        parser.close();
        EmberTest.refused(0, "parser is closed", () -> parser.push("a"));
        EmberTest.refused(4, "template", () -> model.chatParser("", new ChatOptions()));
        EmberTest.refused(1, "tool_choice", () -> model.chatParser("", options.toolChoice("sing")));
    }

    static String text(List<Event> events) {
        return events.stream().map(Event::text).collect(Collectors.joining());
    }

    static void sequences(String path, Model model, String prompt, String want) {
        var context = model.context(128, 1, 2);
        var likely = context.generate(prompt, new Options().maxTokens(1).topLogprobs(3).logprobs(true)).toList().getFirst();
        EmberTest.equal("likely", likely.top().size(), 3);
        EmberTest.equal("the likeliest", likely.top().getFirst(), new Event.Likely(likely.token(), likely.logprob()));
        context.rewind(0);
        var first = context.generate(prompt, new Options().maxTokens(8).sequence(1)).toList();
        EmberTest.equal("sequence 0", context.past(0), 0);
        EmberTest.equal("sequence 1", context.past(1), first.getLast().usage().promptTokens() + 8);
        EmberTest.equal("generated", first.getLast().usage().generatedTokens(), 8);
        EmberTest.equal("why", first.getLast().usage().finish(), Event.Finish.MAX_TOKENS);
        context.copySequence(1, 0, context.past(1));
        var state = context.saveState(1);
        var rest = text(context.generate("", new Options().maxTokens(8)).toList());
        EmberTest.equal("goes on", want.startsWith(text(first) + rest), true);
        context.loadState(1, state);
        EmberTest.equal("from the state", text(context.generate("", new Options().maxTokens(8).sequence(1)).toList()), rest);
        context.rewind(1, 0);
        EmberTest.equal("rewound", context.past(1), 0);
        EmberTest.refused(3, "", () -> context.loadState(0, Arrays.copyOf(state, 40)));
        EmberTest.refused(1, "2", () -> context.saveState(2));
        EmberTest.refused(1, "7", () -> context.generate("a", new Options().sequence(7)));
        var estimate = Model.estimateMemory(path, 128, 1, 2);
        EmberTest.equal("estimate", estimate.kv(), context.memory().kv());
        EmberTest.equal("weights", estimate.kv() > 0 && estimate.file() > 0 && estimate.workspace() > 0, true);
        EmberTest.refused(2, "no.gguf", () -> Model.estimateMemory("no.gguf", 0, 0, 1));
        context.close();
    }

    static void drafts(Model model, Model rotary, String prompt, int n, String want) {
        var context = model.context(0, 1);
        var draft = model.context(0, 1);
        for (var options : List.of(new Options().lookup(4, 3), new Options().draft(draft, 0, 3))) {
            context.rewind(0);
            var events = context.generate(prompt, options.maxTokens(n)).toList();
            EmberTest.equal("the same text", text(events), want);
            var usage = events.getLast().usage();
            EmberTest.equal("accepted", usage.acceptedTokens() <= usage.draftedTokens(), true);
        }
        context.rewind(0);
        var drafted = context.generate(prompt, new Options().draft(draft, 0, 3).maxTokens(n)).toList().getLast().usage();
        EmberTest.equal("accepted", drafted.acceptedTokens() > 0, true);
        try (var small = rotary.context(32, 1)) {
            var shifted = small.generate(new int[] {4, 72, 41, 96}, new Options().maxTokens(60).ignoreEog(true).shift(4, 12)).toList();
            EmberTest.equal("shifted", shifted.getLast().usage().shiftedTokens() > 0, true);
            EmberTest.equal("all", shifted.getLast().usage().generatedTokens(), 60);
        }
        context.rewind(0);
        var late = context.generate(prompt, new Options().maxTokens(1000).ignoreEog(true).timeLimit(1)).toList();
        EmberTest.equal("late", late.getLast().finish(), Event.Finish.TIME_LIMIT);

        // Stages in a row, and a stop text that stays.
        var drawn = new ArrayList<String>();
        for (var options : List.of(stages(), stages(), new Options().temperature(1.2f))) {
            context.rewind(0);
            drawn.add(text(context.generate(prompt, options.seed(5).maxTokens(12)).toList()));
        }
        EmberTest.equal("the same stages", drawn.get(1), drawn.get(0));
        EmberTest.equal("other stages", drawn.get(2).equals(drawn.get(0)), false);
        context.rewind(0);
        var stop = want.strip().split(" ")[1];
        EmberTest.equal("stop text", EmberTest.text(context.generate(prompt, new Options().stop(stop).includeStop(true))).endsWith(stop), true);
        EmberTest.refused(1, "0", () -> context.generate(prompt, new Options().penalties(8, 0, 0, 0)));
    }

    static Options stages() {
        return new Options().penalties(64, 1.3f, 0, 0).topNSigma(1.5f).typicalP(0.9f).xtc(0.5f, 0.1f).temperature(1.2f);
    }

    static void engine(Model model, String prompt, int n, String want) throws Exception {
        var engine = model.engine(3, 8, 128, 1);
        try (engine) {
            var prompts = List.of(prompt, "The wolf said", prompt, "The sea", prompt);
            var streams = prompts.stream().map(one -> engine.submit(one, new Options().maxTokens(n).priority(1))).toList();
            var texts = streams.stream().map(events -> EmberTest.text(events)).toList();
            for (int i : new int[] {0, 2, 4}) EmberTest.equal("of the engine", texts.get(i), want);
            try (var alone = model.context(128, 1)) {
                EmberTest.equal("as alone", texts.get(1), EmberTest.text(alone.generate("The wolf said", new Options().maxTokens(n))));
            }
            var drawn = new Options().maxTokens(6).temperature(1.1f).seed(4);
            var tokens = engine.submit(model.tokenize(prompt, true, false), drawn).toList();
            EmberTest.equal("drawn", text(tokens), EmberTest.text(engine.submit(prompt, drawn)));
            EmberTest.equal("usage", tokens.getLast().usage().generatedTokens(), 6);
            var endless = new Options().maxTokens(100).ignoreEog(true);
            try (var early = engine.submit(prompt, endless)) {
                EmberTest.equal("three events", early.limit(3).count(), 3L);
            }
            Thread.currentThread().interrupt();
            EmberTest.equal("interrupted", engine.submit(prompt, endless).toList().getLast().finish(), Event.Finish.CANCELLED);
            EmberTest.equal("stays interrupted", Thread.interrupted(), true);
            var metrics = engine.metrics();
            EmberTest.equal("submitted", metrics.submitted(), 9L);
            EmberTest.equal("counted", metrics.generatedTokens() >= 5L * n && metrics.promptTokens() > 0, true);
            EmberTest.refused(1, "empty", () -> engine.submit("", new Options()));
            EmberTest.refused(6, "128", () -> engine.submit("The sea. ".repeat(200), new Options()));
        }
        EmberTest.refused(0, "engine is closed", engine::metrics);
        EmberTest.refused(1, "0", () -> model.engine(0, 8, 128, 1));
    }

    static void scoresAndFiles(String path, Model model, String prompt) throws Exception {
        var file = Files.createTempFile("ember", ".state");
        try (var context = model.context(128, 1); var other = model.context(128, 1)) {
            var king = context.score(prompt + " there was a", " king.");
            var odd = context.score(prompt + " there was a", " xylophone.");
            EmberTest.equal("likelier", king.logprob() > odd.logprob(), true);
            EmberTest.equal("once", odd.reusedTokens() > 0, true);
            EmberTest.equal("sum", Math.abs(king.tokens().stream().mapToDouble(Score.Token::logprob).sum() - king.logprob()) < 1e-3, true);
            EmberTest.refused(1, "", () -> context.score(prompt, ""));
            context.rewind(0);
            EmberTest.text(context.generate(prompt, new Options().maxTokens(4)));
            context.saveState(0, file.toString());
            other.loadState(0, file.toString());
            EmberTest.equal("of the file", EmberTest.text(other.generate("", new Options().maxTokens(4))),
                    EmberTest.text(context.generate("", new Options().maxTokens(4))));
            EmberTest.refused(2, "none.state", () -> other.loadState(0, "none.state"));
        } finally {
            Files.delete(file);
        }
        EmberTest.equal("inspected", Model.inspect(path).contains("\"supported\":true"), true);
        EmberTest.refused(2, "no.gguf", () -> Model.inspect("no.gguf"));
    }

    static void logs(String path) {
        var lines = new CopyOnWriteArrayList<String>();
        Log.to(Log.Level.DEBUG, (level, text) -> lines.add(level + " " + text));
        Model.load(path).close();
        Log.off();
        int said = lines.size();
        EmberTest.equal("said something", said > 0, true);
        EmberTest.equal("names the file", lines.stream().anyMatch(line -> line.contains("ember-tales")), true);
        Model.load(path).close();
        EmberTest.equal("silent", lines.size(), said);
    }

    public static void main(String[] arguments) throws Exception {
        var path = arguments[0];
        var prompt = arguments[2];
        int n = Integer.parseInt(arguments[3]);
        try (var model = Model.load(path); var rotary = Model.load(arguments[1])) {
            tokenizers(path, model);
            parser(model);
            sequences(path, model, prompt, arguments[4]);
            engine(model, prompt, n, arguments[4]);
            scoresAndFiles(path, model, prompt);
            drafts(model, rotary, prompt, n, arguments[4]);
        }
        logs(path);
        try (var model = Model.load(Files.readAllBytes(Path.of(path))); var context = model.context()) {
            EmberTest.equal("of bytes", EmberTest.text(context.generate(prompt, new Options().maxTokens(n))), arguments[4]);
        }
        EmberTest.refused(3, "<buffer>", () -> Model.load(new byte[8]));
        System.out.println("tokenizers, the parser of replies and more of Java are fine");
    }
}
