using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Runtime.InteropServices;
using System.Threading;
using Ember;
using Ember.Interop;

/// <summary>How models are loaded and what they say; contexts' options, sequences, states and timings; tokenizers.</summary>
public static class ModelTest
{
    private const string Prompt = "Once upon a time";
    private static readonly string Want = Test.Lines("generate").First(fields => fields[0] == Prompt)[7];

    private static void Golden(string what, Model model)
    {
        using (model)
        using (var context = model.CreateContext(new ContextOptions { Positions = 64, Threads = 1 }))
        {
            Test.Equal(what, context.Generate(Prompt, new GenerateOptions { MaxTokens = 32 }).ReadToEnd().Text, Want);
        }
    }

    public static void Library()
    {
        Test.True("build", Ember.Library.BuildInfo.Contains(Ember.Library.Version));
        Test.Same("features", new[] { "chat", "telepathy" }.Select(Ember.Library.HasFeature), new[] { true, false });
        // A text with NUL at its end, in place of its length.
        Test.Equal("up to the NUL", Native.ember_has_feature(new[] { (byte)'h', (byte)'f', (byte)0 }, Native.EMBER_NUL_TERMINATED), 1);
        var e = Test.Thrown<EmberException>(() => Model.Load("no.gguf"));
        Test.Equal("status", e.Status, Status.Io);
        Test.Equal("name", e.StatusName, "EMBER_E_IO");
        Test.True("sentence: " + e.Message, e.Message.Contains("no.gguf"));
    }

    public static void Metadata()
    {
        var set = new ModelOptions { Metadata = { { "a.text", "Grüße" }, { "a.yes", true }, { "a.whole", -7 }, { "a.real", 0.5 } } };
        using (var model = Model.Load(Test.Tales, set))
        {
            Test.Same("set", new[] { "a.text", "a.yes", "a.whole", "a.real" }.Select(model.Metadata), new object[] { "Grüße", true, -7L, 0.5 });
            Test.Equal("architecture", model.Metadata("general.architecture"), "gpt2");
            var tokens = (string[])model.Metadata("tokenizer.ggml.tokens");
            Test.Equal("tokens", (uint)tokens.Length, model.Info.VocabularySize);
            Test.Equal("types", ((long[])model.Metadata("tokenizer.ggml.token_type")).Length, tokens.Length);
            // All keys can be read, and are those that the file is said to have.
            var inspected = Model.Inspect(Test.Tales);
            Test.True("supported", inspected.Contains("\"supported\":true"));
            foreach (var key in model.MetadataKeys)
            {
                Test.True(key, model.Metadata(key) != null && (key.StartsWith("a.") || inspected.Contains("\"" + key + "\":")));
            }
            var info = model.Info;
            Test.Equal("heads", (long)info.Heads, model.Metadata("gpt2.attention.head_count"));
            Test.Equal("layers", (long)info.Layers, model.Metadata("gpt2.block_count"));
            Test.Equal("width", info.HeadLength * info.Heads, info.EmbeddingLength);
            Test.Refused(Status.NotFound, "general.colour", () => model.Metadata("general.colour"));
        }
        Test.Refused(Status.Format, "block_count", () => Model.Load(Test.Tales, new ModelOptions { Metadata = { { "gpt2.block_count", 0 } } }));
        var wrong = new ModelOptions { Metadata = { { "a.date", new DateTime(2024, 1, 1) } } };
        Test.True("names the key", Test.Thrown<ArgumentException>(() => Model.Load(Test.Tales, wrong)).Message.Contains("a.date"));
        Test.Refused(Status.Io, "no.gguf", () => Model.Inspect("no.gguf"));
    }

    public static void Loading()
    {
        var seen = new List<float>();
        var options = new ModelOptions { Mmap = false, Pack = Pack.Never, Isa = "scalar", CheckTensors = true, Progress = seen.Add };
        using (var model = Model.Load(Test.Tales, options))
        {
            Test.True("progress", seen.Count > 0 && seen.OrderBy(done => done).SequenceEqual(seen) && seen.Last() <= 1);
            Test.Equal("isa", model.Isa, "scalar");
            Test.True("read", model.Memory.Weights >= model.Info.FileSize);
        }
        using (var model = Model.Load(Test.Tales, new ModelOptions { Pack = Pack.Never })) Test.Equal("mapped", model.Memory.Weights, 0ul);
        var reason = new InvalidOperationException("enough");
        var thrown = Test.Thrown<InvalidOperationException>(() => Model.Load(Test.Tales, new ModelOptions { Progress = done => { throw reason; } }));
        Test.Equal("thrown", thrown, reason);
        Test.Refused(Status.NoMemory, "1000", () => Model.Load(Test.Tales, new ModelOptions { Mmap = false, MemoryLimit = 1000 }));
        Test.Refused(Status.InvalidArgument, "mmx", () => Model.Load(Test.Tales, new ModelOptions { Isa = "mmx" }));
        using (var source = new CancellationTokenSource())
        {
            source.Cancel();
            var cancelled = Test.Thrown<OperationCanceledException>(() => Model.Load(Test.Tales, null, source.Token));
            Test.Equal("token", cancelled.CancellationToken, source.Token);
            Test.True("task", Test.Thrown<AggregateException>(() => Model.LoadAsync(Test.Tales, null, source.Token).Wait()).InnerException is OperationCanceledException);
        }
        Golden("in a task", Model.LoadAsync(Test.Tales).Result);
        var bytes = File.ReadAllBytes(Test.Tales);
        Golden("of bytes", Model.Load(bytes));
        Test.Refused(Status.Format, "<buffer>", () => Model.Load(new byte[8]));

        // A part of an open file.
        var path = Path.Combine(Test.Work, "part.pack");
        File.WriteAllBytes(path, new byte[64].Concat(bytes).Concat(new byte[32]).ToArray());
        var descriptor = open(path, 0);
        var part = Model.Load(descriptor, 64, (ulong)bytes.Length);
        Test.Refused(Status.InvalidArgument, "", () => Model.Load(descriptor, 64, (ulong)bytes.Length + 96));
        Test.Equal("closed", close(descriptor), 0);
        Golden("of a descriptor", part);
        Test.Refused(Status.Io, "<fd 9999>", () => Model.Load(9999, 0, 0));
    }

    [DllImport("libc", CharSet = CharSet.Ansi)]
    private static extern int open(string path, int flags);

    [DllImport("libc")]
    private static extern int close(int descriptor);

    /// <summary>Bytes where they are.</summary>
    public static void Borrowed()
    {
        var bytes = File.ReadAllBytes(Test.Tales);
        var memory = Marshal.AllocHGlobal(bytes.Length + 64);
        var at = (IntPtr)(((long)memory + 63) / 64 * 64);
        Marshal.Copy(bytes, 0, at, bytes.Length);
        var released = 0;
        ulong copied;
        using (var model = Model.Load(bytes)) copied = model.Memory.Weights;
        var borrowing = Model.LoadBorrowed(at, (ulong)bytes.Length, () => released++);
        Test.True("not copied", copied - borrowing.Memory.Weights >= (ulong)bytes.Length);
        using (var context = borrowing.CreateContext(new ContextOptions { Positions = 64, Threads = 1 }))
        {
            borrowing.Dispose();
            Test.Equal("text", context.Generate(Prompt, new GenerateOptions { MaxTokens = 32 }).ReadToEnd().Text, Want);
            Test.Equal("in use", released, 0);
        }
        Test.Equal("given back", released, 1);
        Test.Refused(Status.Format, "<buffer>", () => Model.LoadBorrowed(at, 8, () => released++));
        Test.Equal("given back once", released, 1);
        Marshal.FreeHGlobal(memory);
    }

    public static void Contexts()
    {
        var options = new ContextOptions { Positions = 96, Sequences = 2, Batch = 32, Threads = 2, KvType = KvType.F32, KeepPrefixes = true };
        using (var model = Model.Load(Test.Tales))
        using (var context = model.CreateContext(options))
        using (var scalar = model.CreateContext(new ContextOptions { Backend = Backend.Scalar }))
        using (var half = model.CreateContext(new ContextOptions { Positions = 96, Sequences = 2, KvType = KvType.F16 }))
        {
            var info = context.Info;
            Test.Same("in force", new[] { info.Positions, info.Sequences, info.Batch, info.Threads }, new uint[] { 96, 2, 32, 2 });
            Test.Equal("free", info.FreePages, info.Pages);
            Test.Same("backends", new[] { info.Backend, scalar.Info.Backend }, new[] { Backend.Auto, Backend.Scalar });
            Test.True("F32", context.Memory.Kv > 1.9 * half.Memory.Kv);
            var estimate = Model.EstimateMemory(Test.Tales, null, options);
            Test.Equal("estimate", estimate.Kv, context.Memory.Kv);
            Test.True("all of it", estimate.Kv > 0 && estimate.File > 0 && estimate.Workspace > 0);
            context.Generate(Prompt, new GenerateOptions { MaxTokens = 3 }).ReadToEnd();
            Test.True("taken", context.Info.FreePages < info.Pages);
            Test.Refused(Status.InvalidArgument, "9000", () => model.CreateContext(new ContextOptions { WorkerCpus = new uint[] { 9000 } }));
            Test.Refused(Status.NoMemory, "1000", () => model.CreateContext(new ContextOptions { MemoryLimit = 1000 }));
        }
        Test.Refused(Status.Io, "no.gguf", () => Model.EstimateMemory("no.gguf"));
    }

    public static void Sequences()
    {
        using (var model = Model.Load(Test.Tales))
        using (var rotary = Model.Load(Test.Rotary))
        using (var context = model.CreateContext(new ContextOptions { Positions = 256, Sequences = 2, Threads = 1, KeepPrefixes = true }))
        using (var other = model.CreateContext(new ContextOptions { Positions = 256, Sequences = 2, Threads = 1 }))
        using (var moving = rotary.CreateContext(new ContextOptions { Positions = 64, Threads = 1 }))
        {
            var tokens = model.Tokenize(string.Concat(Enumerable.Repeat("The sea was calm, and the moon stood over the boat. ", 6)));
            context.Decode(tokens);
            Test.Same("tokens", context.Tokens(), tokens);
            context.Decode(tokens.Take(3).ToArray(), 1);
            context.KeepSequence(1);
            Test.Same("kept", new[] { context.Past(0), context.Past(1) }, new uint[] { 0, 3 });
            var reused = context.ReusePrefix(0, tokens, (ulong)tokens.Length - 1);
            Test.True("reused", reused >= 32 && context.Past(0) == reused);
            Test.Equal("at most", context.ReusePrefix(0, tokens, 32), 32ul);
            Test.Refused(Status.Unsupported, "", () => context.Shift(0, 1, 2)); // learned positions
            moving.Decode(new uint[] { 4, 72, 41, 96, 5 });
            moving.Shift(0, 1, 2);
            Test.Same("moved", moving.Tokens(), new uint[] { 4, 96, 5 });

            // All sequences, as bytes, files and streams.
            other.LoadState(Context.AllSequences, context.SaveState(Context.AllSequences));
            for (uint i = 0; i < 2; i++) Test.Same("all", other.Tokens(i), context.Tokens(i));
            var state = context.SaveState(0);
            var stream = new MemoryStream();
            context.SaveState(0, stream);
            Test.Same("as bytes", stream.ToArray(), state);
            other.Rewind(0, 1);
            Test.Equal("rewound", other.Past(1), 0u);
            other.LoadState(1, new MemoryStream(state));
            Test.Same("of a stream", other.Tokens(1), context.Tokens(0));
            var path = Path.Combine(Test.Work, "state");
            context.SaveState(0, path);
            other.Rewind(0, 1);
            other.LoadState(1, path);
            Test.Same("of a file", other.Tokens(1), context.Tokens(0));
            Test.Refused(Status.Io, "none.state", () => other.LoadState(0, "none.state"));
            Test.Refused(Status.Format, "", () => other.LoadState(0, state.Take(40).ToArray()));
            Test.Refused(Status.InvalidArgument, "2", () => context.SaveState(2));
            Test.Refused(Status.Format, "", () => other.LoadState(0, new MemoryStream()));
            Test.Thrown<NotSupportedException>(() => context.SaveState(0, new MemoryStream(state, false)));
            Test.Thrown<ObjectDisposedException>(() => { stream.Dispose(); other.LoadState(0, stream); });
            other.CopySequence(1, 0, 4);
            Test.Same("copied", other.Tokens(0), context.Tokens(0).Take(4));
        }
    }

    public static void Timings()
    {
        using (var model = Model.Load(Test.Tales))
        using (var context = model.CreateContext(new ContextOptions { Positions = 128, Threads = 1 }))
        {
            context.Generate(Prompt, new GenerateOptions { MaxTokens = 5, IgnoreEog = true }).ReadToEnd();
            var timings = context.Timings;
            var length = (ulong)model.Tokenize(Prompt).Length;
            Test.Same("counted", new[] { timings.PrefillTokens, timings.DecodeTokens, timings.EmbedTokens }, new[] { length, 5ul, 0ul });
            Test.True("took", timings.Prefill > TimeSpan.Zero && timings.Decode > TimeSpan.Zero && timings.Load > TimeSpan.Zero);
            context.ResetTimings();
            Test.Equal("reset", context.Timings.PrefillTokens, 0ul);
            Test.Equal("stays", context.Timings.Load, timings.Load);
            context.Embed(Prompt);
            Test.Equal("embedded", context.Timings.EmbedTokens, length);
        }
    }

    /// <summary>A CancellationToken ends what a context computes.</summary>
    public static void Tokens()
    {
        using (var model = Model.Load(Test.Tales))
        using (var context = model.CreateContext(new ContextOptions { Positions = 128, Threads = 1 }))
        {
            var source = new CancellationTokenSource();
            var one = new uint[] { 1 };
            Test.Equal("not cancelled", context.Embed("The sea", null, source.Token).Length, 192);
            source.Cancel();
            Test.Thrown<OperationCanceledException>(() => context.Embed("The sea", null, source.Token));
            Test.Thrown<OperationCanceledException>(() => context.Decode(one, 0, source.Token));
            Test.Thrown<OperationCanceledException>(() => context.Score("The", " sea", 0, source.Token));
            // From another thread, while it is at work as a rule: the texts would take seconds.
            var late = new CancellationTokenSource(50);
            Test.Thrown<OperationCanceledException>(() => context.Embed(Enumerable.Repeat("Once upon a time", 50000), null, late.Token));
            Test.Thrown<OperationCanceledException>(() => context.EmbedAsync(Enumerable.Repeat("Once upon a time", 50000), null, new CancellationTokenSource(50).Token).GetAwaiter().GetResult());
            Test.Equal("again", context.EmbedAsync(new[] { "The", "sea" }).Result.Length, 2);
        }
    }

    public static void Prompts()
    {
        using (var model = Model.Load(Test.Tales))
        using (var context = model.CreateContext(new ContextOptions { Positions = 128, Threads = 1 }))
        {
            var events = context.Generate("The sea", new GenerateOptions { MaxTokens = 2, Echo = true, Logprobs = true, TopLogprobs = 3 }).ToList();
            Test.True("echo", events[0].IsEcho && events[0].Text == "The sea" && events.Count == 4);
            Test.Equal("likely", events[1].Top.Count, 3);
            Test.Equal("the likeliest", events[1].Top[0].Token, events[1].Token.Value);
            var sum = events[1].Logprob + events[2].Logprob;
            var usage = events[3].Usage;
            Test.True("sum", sum < 0 && Math.Abs(usage.SumLogprob - sum) < 1e-4 && Math.Abs(usage.MeanLogprob - sum / 2) < 1e-4);
            foreach (var parse in new[] { false, true })
            {
                context.Rewind(0);
                context.Generate("<|endoftext|>", new GenerateOptions { MaxTokens = 1, ParseSpecial = parse }).ReadToEnd();
                Test.Equal("control tokens", context.Tokens()[0] == model.Info.Eos, parse);
            }
            const string template = "{{ strftime_now('%Y-%m-%d %H:%M') }}{% if add_generation_prompt %}>{% endif %}";
            var chat = new ChatOptions { Template = template, Now = new DateTime(2024, 2, 29, 13, 5, 0) };
            var messages = new[] { Message.User("x") };
            Test.Equal("now", model.ApplyChatTemplate(messages, chat), "2024-02-29 13:05>");
            chat.AddGenerationPrompt = false;
            Test.Equal("no beginning", model.ApplyChatTemplate(messages, chat), "2024-02-29 13:05");
            Test.Refused(Status.Unsupported, "template", () => model.ChatTemplate());
            var set = new ModelOptions { Metadata = { { "tokenizer.chat_template", template } } };
            using (var templated = Model.Load(Test.Tales, set)) Test.Equal("template", templated.ChatTemplate(), template);
        }
    }

    public static void Tokenizers()
    {
        const string text = "Once upon a time, Grüße 🌙";
        var model = Model.Load(Test.Tales);
        var tokens = model.Tokenize(text);
        var info = model.Info;
        var own = model.CreateTokenizer();
        model.Dispose(); // the tokenizer outlives it
        foreach (var tokenizer in new[] { own, Tokenizer.Load(Test.Tales), Tokenizer.Load(File.ReadAllBytes(Test.Tales)) })
        {
            Test.Same("tokens", tokenizer.Tokenize(text), tokens);
            Test.Equal("count", tokenizer.Count(text), (ulong)tokens.Length);
            Test.Equal("text", tokenizer.Detokenize(tokens), text);
            Test.True("bytes", System.Text.Encoding.UTF8.GetString(tokens.SelectMany(tokenizer.Bytes).ToArray()).EndsWith("🌙"));
            Test.Equal("vocabulary", tokenizer.Info.VocabularySize, info.VocabularySize);
            Test.Equal("eos", tokenizer.Info.Eos, info.Eos);
            Test.Equal("no gap", tokenizer.Info.FimMiddle, null);
            var end = tokenizer.Tokenize("<|endoftext|>", false, true)[0];
            Test.True("control", tokenizer.IsControl(end) && !tokenizer.IsControl(tokens.Last()));
            Test.True("ends", tokenizer.IsEndOfGeneration(end) && !tokenizer.IsEndOfGeneration(tokens.Last()));
            Test.Equal("left out", tokenizer.Detokenize(new[] { end }), "");
            Test.Equal("rendered", tokenizer.Detokenize(new[] { end }, true), "<|endoftext|>");
            Test.Refused(Status.Unsupported, "fill", () => tokenizer.FimPrompt("a", "b"));
            Test.Refused(Status.InvalidArgument, "" + info.VocabularySize, () => tokenizer.Bytes(info.VocabularySize));
            var raw = new byte[] { (byte)'s', (byte)'e', (byte)'a', 0xff, 0xfe };
            Test.Same("bytes", tokenizer.Tokenize(raw, false).SelectMany(tokenizer.Bytes), raw);
            tokenizer.Dispose();
            Test.Disposed("tokenizer", () => tokenizer.Count("a"));
        }
        Test.Refused(Status.Io, "no.gguf", () => Tokenizer.Load("no.gguf"));
        Test.Refused(Status.Format, "<buffer>", () => Tokenizer.Load(new byte[8]));
        var marks = new ModelOptions();
        var names = new[] { "pre", "suf", "mid", "rep", "sep" };
        for (var i = 0; i < names.Length; i++) marks.Metadata["tokenizer.ggml.fim_" + names[i] + "_token_id"] = 300 + i;
        using (var marked = Model.Load(Test.Tales, marks))
        using (var tokenizer = marked.CreateTokenizer())
        {
            Test.Equal("marks", tokenizer.Info.FimFile, 304u);
            var a = tokenizer.Tokenize("a", false)[0];
            var b = tokenizer.Tokenize("b", false)[0];
            Test.Same("a gap", tokenizer.FimPrompt("a", "b"), new uint[] { 300, a, 301, b, 302 });
            Test.Same("suffix first", tokenizer.FimPrompt("a", "b", new FimOptions { Order = FimOrder.Spm }), new uint[] { 301, b, 300, a, 302 });
            var fim = new FimOptions { Repository = "tales", File = "a.txt", Files = { new KeyValuePair<string, string>("b.txt", "The sea") } };
            var whole = tokenizer.FimPrompt("a", "b", fim);
            Test.True("files", whole[0] == 303 && whole.Count(token => token == 304) == 2);
        }
    }

    public static void Logs()
    {
        var lines = new List<string>();
        Log.To(LogLevel.Debug, (level, text) => lines.Add(level + " " + text));
        Model.Load(Test.Tales).Dispose();
        Log.Off();
        var said = lines.Count;
        Test.True("names the file", lines.Any(line => line.Contains("ember-tales")));
        Model.Load(Test.Tales).Dispose();
        Test.Equal("silent", lines.Count, said);
        // What a handler throws goes to standard error, and not through C.
        var errors = Console.Error;
        var caught = new StringWriter();
        Console.SetError(caught);
        Log.To(LogLevel.Debug, (level, text) => { throw new InvalidOperationException("no lines please"); });
        Model.Load(Test.Tales).Dispose();
        Log.Off();
        Console.SetError(errors);
        Test.True("standard error", caught.ToString().Contains("no lines please"));
    }

    public static void Misuse()
    {
        Test.Thrown<ArgumentNullException>(() => Model.Load((string)null));
        Test.Thrown<ArgumentNullException>(() => Model.Load((byte[])null));
        Test.True("half of a pair", Test.Thrown<ArgumentException>(() => Model.Load("\ud83c")).Message.Contains("surrogate"));
        var model = Model.Load(Test.Tales);
        var context = model.CreateContext(new ContextOptions { Positions = 64, Threads = 1 });
        var free = model.CreateContext(new ContextOptions { Positions = 64, Threads = 1 });
        model.Dispose(); // contexts keep it
        model.Dispose();
        Test.Disposed("model", () => model.Tokenize("a"));
        Test.Disposed("model", () => model.CreateContext());
        Test.Disposed("model", () => Test.Equal("none", model.Info, null));
        Test.Equal("still there", context.Generate(Prompt, new GenerateOptions { MaxTokens = 32 }).ReadToEnd().Text, Want);
        Test.Thrown<ArgumentNullException>(() => context.Generate((string)null));
        Test.Thrown<ArgumentNullException>(() => context.Generate((uint[])null));
        Test.Thrown<ArgumentNullException>(() => context.Embed(new string[] { null }));
        Test.Thrown<ArgumentNullException>(() => context.Embed((IEnumerable<string>)null));
        Test.Thrown<ArgumentNullException>(() => context.Decode(null));
        Test.Thrown<ArgumentNullException>(() => Constraint.JsonObject(null));
        Test.Thrown<ArgumentNullException>(() => Message.User(null));
        Test.Refused(Status.InvalidArgument, "5", () => context.Generate("a", new GenerateOptions { Sampler = new Sampler().TopP(5) }));
        Test.Refused(Status.Unsupported, "template", () => context.Chat("Hi"));
        Test.Refused(Status.ContextFull, "64", () => context.Generate(string.Concat(Enumerable.Repeat("The sea. ", 200))).ReadToEnd());
        context.Rewind(0);
        Test.Disposed("context", () =>
        {
            foreach (var one in context.Generate("The sea", new GenerateOptions { IgnoreEog = true })) context.Dispose();
        });
        Test.Disposed("context", () => context.Past());
        Test.Disposed("context", () => context.Embed("a"));
        // NULL where the library needs an object.
        IntPtr made, error;
        Test.Equal("no model", Native.ember_context_new(EmberHandle.None, EmberHandle.None, out made, out error), Status.InvalidArgument);
        Native.ember_error_free(error);
        // An object of another type.
        uint n;
        Test.Equal("a foreign object", Native.ember_context_n_past(new Sampler(1).Handle, 0, out n, out error), Status.InvalidArgument);
        Native.ember_error_free(error);
        free.Dispose();
    }
}
