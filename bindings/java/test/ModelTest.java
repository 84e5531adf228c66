import static java.lang.foreign.ValueLayout.*;

import ember.*;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.math.BigInteger;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Tests of how models are loaded and what they say, and of contexts' options, sequences, states and timings: ModelTest MODEL ROTARY_MODEL
 * PROMPT N TEXT, as for BlocksTest.
 */
public class ModelTest {
    static String path;
    static String prompt;
    static int n;
    static String want;

    static void golden(String what, Model model) {
        try (model; var context = model.context(64, 1)) {
            EmberTest.equal(what, EmberTest.text(context.generate(prompt, new Options().maxTokens(n))), want);
        }
    }

    static void metadata() {
        var set = new ModelOptions().metadata("a.text", "Grüße").metadata("a.yes", true).metadata("a.whole", -7).metadata("a.real", 0.5);
        try (var model = Model.load(path, set)) {
            EmberTest.equal("set", List.of(model.metadata("a.text"), model.metadata("a.yes"), model.metadata("a.whole"), model.metadata("a.real")),
                    List.of("Grüße", true, -7L, 0.5));
            EmberTest.equal("architecture", model.metadata("general.architecture"), "gpt2");
            var tokens = (List<?>) model.metadata("tokenizer.ggml.tokens");
            EmberTest.equal("tokens", tokens.size(), model.info().vocabularySize());
            EmberTest.equal("a token", tokens.get(5) instanceof String, true);
            var types = (List<?>) model.metadata("tokenizer.ggml.token_type");
            EmberTest.equal("types", types.size() == tokens.size() && types.stream().allMatch(type -> type instanceof Long), true);
            // All keys can be read, and are those that the file is said to have.
            var inspected = Model.inspect(path);
            for (var key : model.metadataKeys()) {
                EmberTest.equal(key, model.metadata(key) instanceof BigInteger, false);
                EmberTest.equal(key, key.startsWith("a.") || inspected.contains("\"" + key + "\":"), true);
            }
            var info = model.info();
            EmberTest.equal("heads", (long) info.heads(), model.metadata("gpt2.attention.head_count"));
            EmberTest.equal("layers", (long) info.layers(), model.metadata("gpt2.block_count"));
            EmberTest.equal("width", info.headLength() * info.heads(), info.embeddingLength());
            EmberTest.refused(10, "general.colour", () -> model.metadata("general.colour"));
        }
        EmberTest.refused(3, "block_count", () -> Model.load(path, new ModelOptions().metadata("gpt2.block_count", 0)));
    }

    static void loading() throws Throwable {
        var seen = new ArrayList<Double>();
        var options = new ModelOptions().mmap(false).pack(ModelOptions.Pack.NEVER).isa("scalar").checkTensors(true).progress(seen::add);
        try (var model = Model.load(path, options)) {
            EmberTest.equal("progress", !seen.isEmpty() && seen.stream().sorted().toList().equals(seen) && seen.getLast() <= 1, true);
            EmberTest.equal("isa", model.isa(), "scalar");
            EmberTest.equal("read", model.memory().weights() >= model.info().fileSize(), true);
        }
        try (var model = Model.load(path, new ModelOptions().pack(ModelOptions.Pack.NEVER))) {
            EmberTest.equal("mapped", model.memory().weights(), 0L);
        }
        var reason = new IllegalStateException("enough");
        SamplerTest.thrown(reason, () -> Model.load(path, new ModelOptions().progress(done -> { throw reason; })));
        EmberTest.refused(5, "1000", () -> Model.load(path, new ModelOptions().mmap(false).memoryLimit(1000)));
        EmberTest.refused(1, "mmx", () -> Model.load(path, new ModelOptions().isa("mmx")));
        try (var token = new CancelToken()) {
            EmberTest.equal("not cancelled", token.isCancelled(), false);
            token.cancel();
            EmberTest.equal("cancelled", token.isCancelled(), true);
            EmberTest.refused(12, "", () -> Model.load(path, new ModelOptions().cancelToken(token)));
            token.reset();
            Model.load(path, new ModelOptions().cancelToken(token)).close();
        }

        // A part of an open file.
        var linker = Linker.nativeLinker();
        var open = linker.downcallHandle(linker.defaultLookup().find("open").orElseThrow(), FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT));
        var close = linker.downcallHandle(linker.defaultLookup().find("close").orElseThrow(), FunctionDescriptor.of(JAVA_INT, JAVA_INT));
        var bytes = Files.readAllBytes(Path.of(path));
        var file = Files.createTempFile("ember", ".pack");
        try (var arena = Arena.ofConfined()) {
            var packed = new byte[bytes.length + 96];
            System.arraycopy(bytes, 0, packed, 64, bytes.length);
            Files.write(file, packed);
            int descriptor = (int) open.invokeExact(arena.allocateFrom(file.toString()), 0);
            var model = Model.load(descriptor, 64, bytes.length, new ModelOptions());
            EmberTest.refused(1, "", () -> Model.load(descriptor, 64, bytes.length + 96L, new ModelOptions()));
            EmberTest.equal("closed", (int) close.invokeExact(descriptor), 0);
            golden("of a descriptor", model);
        } finally {
            Files.delete(file);
        }
        EmberTest.refused(2, "<fd 9999>", () -> Model.load(9999, 0, 0, new ModelOptions()));

        // Bytes where they are.
        var released = new AtomicInteger();
        long copied;
        try (var model = Model.load(bytes)) {
            copied = model.memory().weights();
        }
        try (var channel = FileChannel.open(Path.of(path))) {
            var mapped = channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size(), Arena.ofAuto());
            var model = Model.load(mapped, released::incrementAndGet, new ModelOptions());
            EmberTest.equal("not copied", copied - model.memory().weights() >= bytes.length, true);
            var context = model.context(64, 1);
            model.close();
            mapped = null;
            System.gc(); // the loan keeps the mapping
            EmberTest.equal("of a mapping", EmberTest.text(context.generate(prompt, new Options().maxTokens(n))), want);
            EmberTest.equal("in use", released.get(), 0);
            context.close();
            EmberTest.equal("given back", released.get(), 1);
        }
        try (var arena = Arena.ofConfined()) {
            EmberTest.refused(3, "<buffer>", () -> Model.load(arena.allocate(8), released::incrementAndGet, new ModelOptions()));
            SamplerTest.illegal("heap", () -> Model.load(MemorySegment.ofArray(bytes), released::incrementAndGet, new ModelOptions()));
        }
        EmberTest.equal("given back once", released.get(), 1);
    }

    static void contexts(Model model) {
        var options = new ContextOptions().positions(96).sequences(2).batch(32).threads(2).kvType(ContextOptions.KvType.F32).keepPrefixes(true);
        try (var context = model.context(options); var scalar = model.context(new ContextOptions().backend(ContextOptions.Backend.SCALAR));
                var half = model.context(new ContextOptions().positions(96).sequences(2).kvType(ContextOptions.KvType.F16))) {
            var info = context.info();
            EmberTest.equal("in force", List.of(info.positions(), info.sequences(), info.batch(), info.threads()), List.of(96, 2, 32, 2));
            EmberTest.equal("free", info.freePages(), info.pages());
            EmberTest.equal("backends", List.of(info.backend(), scalar.info().backend()),
                    List.of(ContextOptions.Backend.AUTO, ContextOptions.Backend.SCALAR));
            EmberTest.equal("F32", context.memory().kv() > 1.9 * half.memory().kv(), true);
            EmberTest.equal("estimate", Model.estimateMemory(path, new ModelOptions(), options).kv(), context.memory().kv());
            EmberTest.text(context.generate(prompt, new Options().maxTokens(3)));
            EmberTest.equal("taken", context.info().freePages() < info.pages(), true);
        }
        EmberTest.refused(1, "9000", () -> model.context(new ContextOptions().workerCpus(9000)));
        EmberTest.refused(5, "1000", () -> model.context(new ContextOptions().memoryLimit(1000)));
        SamplerTest.illegal("kvLimit", () -> new ContextOptions().kvLimit(-1));
        var how = new EngineOptions().parallel(2).sharePrefixes(false).context(new ContextOptions().positions(64).threads(1));
        try (var engine = model.engine(how)) {
            EmberTest.equal("of the engine", List.of(engine.info().positions(), engine.info().sequences()), List.of(64, 2));
            for (int i = 0; i < 2; i++) EmberTest.text(engine.submit(prompt + " and the sea".repeat(15), new Options().maxTokens(2)));
            var metrics = engine.metrics();
            EmberTest.equal("nothing shared", List.of(metrics.reusedTokens(), metrics.cacheHitRate()), List.of(0L, 0.0));
            EmberTest.equal("prefilled", metrics.prefilledTokens(), metrics.promptTokens());
            EmberTest.equal("finished", List.of(metrics.finished(), metrics.cancelled(), metrics.failed()), List.of(2L, 0L, 0L));
            EmberTest.equal("busy", metrics.steps() > 2 && !metrics.busy().isZero(), true);
        }
    }

    static void sequences(Model model, Model rotary) throws IOException {
        var options = new ContextOptions().positions(256).sequences(2).threads(1).keepPrefixes(true);
        try (var context = model.context(options); var other = model.context(256, 1, 2); var moving = rotary.context(64, 1)) {
            int[] tokens = model.tokenize("The sea was calm, and the moon stood over the boat. ".repeat(6), true, false);
            context.decode(tokens);
            EmberTest.equal("tokens", Arrays.equals(context.tokens(0), tokens), true);
            context.decode(1, Arrays.copyOf(tokens, 3));
            context.keepSequence(1);
            EmberTest.equal("kept", List.of(context.past(0), context.past(1)), List.of(0, 3));
            int reused = context.reusePrefix(0, tokens, tokens.length - 1);
            EmberTest.equal("reused", reused >= 32 && context.past(0) == reused, true);
            EmberTest.equal("at most", context.reusePrefix(0, tokens, 32), 32);
            EmberTest.refused(4, "", () -> context.shift(0, 1, 2)); // learned positions
            moving.decode(4, 72, 41, 96, 5);
            moving.shift(0, 1, 2);
            EmberTest.equal("moved", Arrays.equals(moving.tokens(0), new int[] {4, 96, 5}), true);

            // All sequences, as bytes and as streams.
            other.loadState(Context.ALL_SEQUENCES, context.saveState(Context.ALL_SEQUENCES));
            for (int i : new int[] {0, 1}) EmberTest.equal("all", Arrays.equals(other.tokens(i), context.tokens(i)), true);
            var out = new ByteArrayOutputStream();
            context.saveState(0, out);
            EmberTest.equal("as bytes", Arrays.equals(out.toByteArray(), context.saveState(0)), true);
            other.rewind(1, 0);
            other.loadState(1, new ByteArrayInputStream(out.toByteArray()));
            EmberTest.equal("of a stream", Arrays.equals(other.tokens(1), context.tokens(0)), true);
            var full = new IOException("the disk is full");
            try {
                context.saveState(0, new OutputStream() {
                    @Override
                    public void write(int b) throws IOException {
                        throw full;
                    }
                });
                throw new AssertionError("saved");
            } catch (IOException e) {
                EmberTest.equal("thrown", e, full);
            }
            EmberTest.refused(3, "", () -> {
                try {
                    other.loadState(0, InputStream.nullInputStream());
                } catch (IOException e) {
                    throw new AssertionError(e);
                }
            });
        }
    }

    static void timings(Model model) {
        try (var context = model.context(128, 1)) {
            EmberTest.text(context.generate(prompt, new Options().maxTokens(5).ignoreEog(true)));
            var timings = context.timings();
            int length = model.tokenize(prompt, true, false).length;
            EmberTest.equal("counted", List.of(timings.prefillTokens(), timings.decodeTokens(), timings.embedTokens()), List.of((long) length, 5L, 0L));
            EmberTest.equal("took", timings.prefill().isPositive() && timings.decode().isPositive() && timings.load().isPositive(), true);
            context.resetTimings();
            EmberTest.equal("reset", List.of(context.timings().prefillTokens(), context.timings().load()), List.of(0L, timings.load()));
            context.embed(List.of(prompt));
            EmberTest.equal("embedded", context.timings().embedTokens(), (long) length);
        }
    }

    static void tokens(Model model) {
        try (var context = model.context(128, 1, 2)) {
            var texts = List.of("The sea", "Once upon a time");
            var tokens = texts.stream().map(text -> model.tokenize(text, true, false)).toList();
            EmberTest.equal("embedded", Arrays.deepEquals(context.embedTokens(tokens, new EmbedOptions()), context.embed(texts)), true);
            EmberTest.refused(1, "99999999", () -> context.embedTokens(List.of(new int[] {99999999}), new EmbedOptions()));
            var asText = context.score(1, "The wolf", " said");
            EmberTest.equal("sequence 0", context.past(0), 0);
            var asTokens = context.score(0, model.tokenize("The wolf", true, false), model.tokenize(" said", false, false));
            EmberTest.equal("scores", asTokens.tokens(), asText.tokens());
            EmberTest.refused(1, "", () -> context.score(0, new int[] {1}, new int[0]));

            // A token of the context's ends what it computes.
            try (var token = new CancelToken()) {
                context.cancelToken(token);
                token.cancel();
                EmberTest.refused(12, "", () -> context.embed(texts));
                EmberTest.refused(12, "", () -> context.decode(1, 2));
                // From another thread, while it is at work as a rule: the texts would take seconds.
                token.reset();
                var cancelling = Thread.ofPlatform().start(() -> {
                    java.util.concurrent.locks.LockSupport.parkNanos(50_000_000);
                    token.cancel();
                });
                EmberTest.refused(12, "", () -> context.embed(java.util.Collections.nCopies(50000, texts.get(1))));
                join(cancelling);
                context.cancelToken(null);
                EmberTest.equal("again", context.embed(texts).length, 2);
            }
        }
        var marks = new ModelOptions();
        var names = List.of("pre", "suf", "mid", "rep", "sep");
        for (int i = 0; i < names.size(); i++) marks.metadata("tokenizer.ggml.fim_" + names.get(i) + "_token_id", 300 + i);
        try (var marked = Model.load(path, marks); var tokenizer = marked.tokenizer()) {
            EmberTest.equal("marks", tokenizer.info().fimFile().getAsInt(), 304);
            int a = tokenizer.tokenize("a", false, false)[0];
            int b = tokenizer.tokenize("b", false, false)[0];
            EmberTest.equal("a gap", Arrays.equals(tokenizer.fimPrompt("a", "b"), new int[] {300, a, 301, b, 302}), true);
            var suffixFirst = tokenizer.fimPrompt("a", "b", new FimOptions().order(FimOptions.Order.SPM));
            EmberTest.equal("suffix first", Arrays.equals(suffixFirst, new int[] {301, b, 300, a, 302}), true);
            var whole = tokenizer.fimPrompt("a", "b", new FimOptions().repository("tales").file("a.txt").addFile("b.txt", "The sea"));
            EmberTest.equal("files", List.of(whole[0], (int) Arrays.stream(whole).filter(token -> token == 304).count()), List.of(303, 2));
            var bytes = new byte[] {'s', 'e', 'a', (byte) 0xff, (byte) 0xfe};
            var out = new ByteArrayOutputStream();
            for (int token : tokenizer.tokenize(bytes, false, false)) out.writeBytes(tokenizer.bytes(token));
            EmberTest.equal("bytes", Arrays.equals(out.toByteArray(), bytes), true);
        }
    }

    static void join(Thread thread) {
        try {
            thread.join();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    static void prompts(Model model) {
        int eos = model.info().eos().orElseThrow();
        try (var context = model.context(128, 1)) {
            var events = context.generate("The sea", new Options().maxTokens(2).echo(true).logprobs(true)).toList();
            EmberTest.equal("echo", List.of(events.getFirst().isEcho(), events.getFirst().text(), events.size()), List.of(true, "The sea", 4));
            double sum = events.subList(1, 3).stream().mapToDouble(Event::logprob).sum();
            var usage = events.getLast().usage();
            EmberTest.equal("sum", Math.abs(usage.sumLogprob() - sum) < 1e-4 && Math.abs(usage.meanLogprob() - sum / 2) < 1e-4, true);
            for (boolean parse : new boolean[] {false, true}) {
                context.rewind(0);
                EmberTest.text(context.generate("<|endoftext|>", new Options().maxTokens(1).parseSpecial(parse)));
                EmberTest.equal("control tokens", context.tokens(0)[0] == eos, parse);
            }
        }
        // After a text there is no second BOS, as there would be if each prompt were a text of its own.
        var withBos = new ModelOptions().metadata("tokenizer.ggml.add_bos_token", true).metadata("tokenizer.ggml.bos_token_id", eos);
        try (var bos = Model.load(path, withBos); var context = bos.context(128, 1)) {
            for (var text : List.of("The sea", " was calm")) EmberTest.text(context.generate(text, new Options().maxTokens(1).deny(eos)));
            var tokens = context.tokens(0);
            EmberTest.equal("BOS", List.of(tokens[0], (int) Arrays.stream(tokens).filter(token -> token == eos).count()), List.of(eos, 1));
        }
        var template = "{{ strftime_now('%Y-%m-%d %H:%M') }}{% if add_generation_prompt %}>{% endif %}";
        var chat = new ChatOptions().template(template).now(LocalDateTime.of(2024, 2, 29, 13, 5));
        var messages = List.of(Message.user("x"));
        EmberTest.equal("now", model.applyChatTemplate(messages, chat), "2024-02-29 13:05>");
        EmberTest.equal("no beginning", model.applyChatTemplate(messages, chat.addGenerationPrompt(false)), "2024-02-29 13:05");
        EmberTest.refused(4, "template", () -> model.chatTemplate(""));
        try (var templated = Model.load(path, new ModelOptions().metadata("tokenizer.chat_template", template))) {
            EmberTest.equal("template", templated.chatTemplate(""), template);
        }
    }

    public static void main(String[] arguments) throws Throwable {
        path = arguments[0];
        prompt = arguments[2];
        n = Integer.parseInt(arguments[3]);
        want = arguments[4];
        EmberTest.equal("build", Library.buildInfo().contains(Library.version()), true);
        EmberTest.equal("features", List.of(Library.hasFeature("chat"), Library.hasFeature("telepathy")), List.of(true, false));
        metadata();
        loading();
        try (var model = Model.load(path); var rotary = Model.load(arguments[1])) {
            contexts(model);
            sequences(model, rotary);
            timings(model);
            tokens(model);
            prompts(model);
        }
        try {
            Model.load("no.gguf");
        } catch (EmberException e) {
            EmberTest.equal("status", e.statusName(), "EMBER_E_IO");
        }
        System.out.println("models and contexts of Java are fine");
    }
}
