using System;
using System.Collections.Generic;
using System.Linq;
using System.Runtime.InteropServices;
using System.Threading;
using System.Threading.Tasks;
using Ember;
using Ember.Interop;

/// <summary>Streams of events, how they end early, tasks, draft tokens, completions and engines.</summary>
public static class GenerateTest
{
    private const string Prompt = "Once upon a time";
    private static readonly string Want = Test.Lines("generate").First(fields => fields[0] == Prompt)[7];

    private static ContextOptions Small => new ContextOptions { Positions = 128, Threads = 1 };

    public static void Streams()
    {
        using (var model = Model.Load(Test.Tales))
        using (var context = model.CreateContext())
        {
            var events = context.Generate(Prompt, new GenerateOptions { MaxTokens = 32, Logprobs = true });
            var all = events.ToList();
            Test.Equal("events", all.Count, 33);
            Test.True("log-probability", all[0].Logprob < 0);
            Test.True("taken once", Test.Thrown<InvalidOperationException>(() => events.ToList()).Message.Contains("once"));
            Test.Disposed("generation", () => Test.Equal("none", events.Usage, null));

            // Seeds and stop texts.
            var drawn = new List<string>();
            foreach (var seed in new ulong[] { 3, 3, 4 })
            {
                context.Rewind(0);
                var sampler = new Sampler(seed).TopK(40).TopP(0.95f).Temperature(0.9f);
                drawn.Add(context.Generate("The wolf said", new GenerateOptions { MaxTokens = 20, Sampler = sampler }).ReadToEnd().Text);
            }
            Test.Equal("the same seed", drawn[1], drawn[0]);
            Test.True("another seed", drawn[2] != drawn[0]);
            context.Rewind(0);
            var stop = Want.Trim().Split(' ')[1];
            var stopped = context.Generate(Prompt, new GenerateOptions { Stop = { "never", stop } }).ReadToEnd();
            Test.Equal("before the stop text", stopped.Text, Want.Substring(0, Want.IndexOf(stop, StringComparison.Ordinal)));
            Test.Equal("the end", stopped.Finish, FinishReason.StopString);
            context.Rewind(0);
            Test.True("with it", context.Generate(Prompt, new GenerateOptions { Stop = { stop }, IncludeStop = true }).ReadToEnd().Text.EndsWith(stop));

            // Leaving early, and going on with the same context.
            context.Rewind(0);
            Test.Equal("three events", context.Generate("The sea", new GenerateOptions { MaxTokens = 400, IgnoreEog = true }).Take(3).Count(), 3);
            context.Rewind(0);
            Test.Equal("again", context.Generate(Prompt, new GenerateOptions { MaxTokens = 32 }).ReadToEnd().Text, Want);
            context.Rewind(0);
            var late = context.Generate(Prompt, new GenerateOptions { MaxTokens = 1000, IgnoreEog = true, TimeLimit = TimeSpan.FromMilliseconds(1) });
            Test.Equal("late", late.ReadToEnd().Finish, FinishReason.TimeLimit);
            Test.Thrown<ArgumentOutOfRangeException>(() => context.Generate("a", new GenerateOptions { TimeLimit = TimeSpan.FromSeconds(-1) }));

            // Contexts of threads.
            var texts = Enumerable.Range(0, 3).Select(i => Task.Run(() =>
            {
                using (var own = model.CreateContext(Small)) return own.Generate(Prompt, new GenerateOptions { MaxTokens = 32 }).ReadToEnd().Text;
            })).ToArray();
            Test.Same("of threads", texts.Select(text => text.Result), Enumerable.Repeat(Want, 3));
        }
    }

    /// <summary>A function that the package has no form of its own for: events are pushed to a callback, which ends the generation.</summary>
    public static void Raw()
    {
        using (var model = Model.Load(Test.Tales))
        using (var context = model.CreateContext(Small))
        {
            IntPtr pointer, error;
            Test.Equal("options", Native.ember_generate_options_new(out pointer, out error), Status.Ok);
            var options = EmberHandle.Borrow(pointer);
            Test.Equal("most", Native.ember_generate_options_set_max_tokens(options, 32, out error), Status.Ok);
            var prompt = System.Text.Encoding.UTF8.GetBytes(Prompt + "\0");
            var text = new System.Text.StringBuilder();
            var left = 100;
            ember_event_callback callback = (raw, data) =>
            {
                var one = (ember_event)Marshal.PtrToStructure(raw, typeof(ember_event));
                var bytes = new byte[(int)one.text_len];
                if (bytes.Length > 0) Marshal.Copy(one.text, bytes, 0, bytes.Length);
                text.Append(System.Text.Encoding.UTF8.GetString(bytes));
                return --left == 0 ? 1 : 0;
            };
            var result = new ember_generate_result { struct_size = (UIntPtr)Marshal.SizeOf(typeof(ember_generate_result)) };
            var status = Native.ember_generate(
                context.Handle, prompt, Native.EMBER_NUL_TERMINATED, options, EmberHandle.None, callback, IntPtr.Zero, ref result, out error);
            Test.Equal("status", status, Status.Ok);
            Test.Equal("text", text.ToString(), Want);
            Test.Equal("finish", (FinishReason)result.finish_reason, FinishReason.MaxTokens);
            context.Rewind(0);
            left = 3;
            status = Native.ember_generate(
                context.Handle, prompt, Native.EMBER_NUL_TERMINATED, options, EmberHandle.None, callback, IntPtr.Zero, ref result, out error);
            Test.Equal("stopped", (FinishReason)result.finish_reason, FinishReason.Stopped);
            Native.ember_generate_options_free(pointer);
        }
    }

    public static void Cancelled()
    {
        using (var model = Model.Load(Test.Tales))
        using (var context = model.CreateContext(Small))
        {
            // Within the events, and before the first.
            var source = new CancellationTokenSource();
            var events = new List<Event>();
            foreach (var one in context.Generate(Prompt, new GenerateOptions { MaxTokens = 100, IgnoreEog = true }, source.Token))
            {
                events.Add(one);
                if (events.Count == 3) source.Cancel();
            }
            Test.Equal("the end", events.Last().Finish, FinishReason.Cancelled);
            Test.True("early", events.Count < 10);
            Test.Equal("generated", events.Last().Usage.GeneratedTokens, (uint)events.Count - 1);
            context.Rewind(0);
            Test.Equal("before", context.Generate(Prompt, null, source.Token).ReadToEnd().Finish, FinishReason.Cancelled);
            context.Rewind(0);
            Test.Equal("again", context.Generate(Prompt, new GenerateOptions { MaxTokens = 32 }, new CancellationTokenSource().Token).ReadToEnd().Text, Want);
        }
    }

    public static void Tasks()
    {
        using (var model = Model.Load(Test.Tales))
        using (var context = model.CreateContext(Small))
        {
            var pieces = new List<string>();
            var done = context.GenerateAsync(Prompt, new GenerateOptions { MaxTokens = 32 }, one => pieces.Add(one.Text)).Result;
            Test.Equal("text", done.Text, Want);
            Test.Equal("pieces", string.Concat(pieces), Want);
            Test.Equal("usage", done.Usage.GeneratedTokens, 32u);
            context.Rewind(0);
            var source = new CancellationTokenSource();
            var endless = context.GenerateAsync(Prompt, new GenerateOptions { MaxTokens = 100, IgnoreEog = true }, one => source.Cancel(), source.Token);
            Test.Thrown<OperationCanceledException>(() => endless.GetAwaiter().GetResult());
            Test.True("cancelled", endless.IsCanceled);
            context.Rewind(0);
            var reason = new InvalidOperationException("not so");
            Test.Equal("thrown", Test.Thrown<InvalidOperationException>(() => context.GenerateAsync(Prompt, null, one => { throw reason; }).GetAwaiter().GetResult()), reason);
            Test.Refused(Status.InvalidArgument, "7", () => context.GenerateAsync("a", new GenerateOptions { Sequence = 7 }).GetAwaiter().GetResult());
            // A second thread in a busy context is refused.
            context.Rewind(0);
            using (var began = new ManualResetEventSlim())
            using (var refused = new ManualResetEventSlim())
            {
                var sampler = new Sampler(1).Candidates((tokens, logits) =>
                {
                    began.Set();
                    refused.Wait();
                });
                var busy = context.GenerateAsync(Prompt, new GenerateOptions { MaxTokens = 2, Sampler = sampler });
                began.Wait();
                Test.Refused(Status.Busy, "", () => context.Past());
                refused.Set();
                Test.Equal("went on", busy.Result.Usage.GeneratedTokens, 2u);
            }
        }
    }

    public static void Drafts()
    {
        using (var model = Model.Load(Test.Tales))
        using (var context = model.CreateContext(Small))
        using (var drafting = model.CreateContext(Small))
        {
            foreach (var options in new[] { new GenerateOptions { Lookup = new Lookup(4, 3) }, new GenerateOptions { Draft = new Draft(drafting, 3) } })
            {
                options.MaxTokens = 32;
                context.Rewind(0);
                var all = context.Generate(Prompt, options).ReadToEnd();
                Test.Equal("the same text", all.Text, Want);
                Test.True("accepted", all.Usage.AcceptedTokens <= all.Usage.DraftedTokens && (options.Draft == null || all.Usage.AcceptedTokens > 0));
            }
        }
    }

    public static void Completions()
    {
        const uint n = 3;
        using (var model = Model.Load(Test.Tales))
        using (var context = model.CreateContext(new ContextOptions { Positions = 128, Sequences = n }))
        {
            Func<ulong, GenerateOptions> drawn = seed => new GenerateOptions { MaxTokens = 12, Logprobs = true, Sampler = new Sampler(seed).Temperature(1.1f) };
            var texts = new[] { "", "", "" };
            var sums = new double[n];
            var ends = 0;
            using (var all = context.Complete(Prompt, n, drawn(21)))
            {
                Test.Refused(Status.InvalidArgument, "has not ended", () => all.Rank());
                Test.Equal("under way", all.Usage(2).Finish, null);
                for (var turn = all.Next(); turn != null; turn = all.Next())
                {
                    texts[turn.Index] += turn.Event.Text;
                    if (turn.Event.IsEnd) ends++;
                    else sums[turn.Index] += turn.Event.Logprob;
                }
                for (var i = 0u; i < n; i++)
                {
                    Test.Equal("whole text", all.Text(i), texts[i]);
                    Test.Equal("usage", all.Usage(i).GeneratedTokens, 12u);
                }
                Test.Refused(Status.InvalidArgument, "no completion 3", () => all.Text(n));
                Test.Same("ranked", all.Rank(), Enumerable.Range(0, 3).OrderByDescending(i => sums[i]).Select(i => (uint)i));
                Test.Equal("ends", ends, 3);
            }
            for (var i = 0u; i < n; i++)
            using (var own = model.CreateContext(Small)) Test.Equal("alone", own.Generate(Prompt, drawn(21 + i)).ReadToEnd().Text, texts[i]);
            context.Rewind(0);
            var source = new CancellationTokenSource();
            using (var cancelled = context.Complete(model.Tokenize(Prompt), 2, new GenerateOptions { MaxTokens = 100 }, source.Token))
            {
                cancelled.Next();
                source.Cancel();
                cancelled.Finish();
                Test.Equal("cancelled", cancelled.Usage(1).Finish, FinishReason.Cancelled);
            }
            Test.Refused(Status.InvalidArgument, "4 completions", () => context.Complete(Prompt, 4));
        }
    }

    public static void Engines()
    {
        using (var model = Model.Load(Test.Tales))
        {
            var engine = model.CreateEngine(new EngineOptions { Parallel = 3, Queue = 8, Context = Small });
            Test.Same("in force", new[] { engine.Info.Positions, engine.Info.Sequences }, new uint[] { 128, 3 });
            var some = new GenerateOptions { MaxTokens = 32, Priority = 1 };
            var prompts = new[] { Prompt, "The wolf said", Prompt, "The sea", Prompt };
            var requests = prompts.Select(one => engine.Submit(one, some)).ToList();
            var texts = requests.Select(request => request.ReadToEnd().Text).ToList();
            foreach (var i in new[] { 0, 2, 4 }) Test.Equal("of the engine", texts[i], Want);
            using (var alone = model.CreateContext(Small)) Test.Equal("as alone", texts[1], alone.Generate("The wolf said", some).ReadToEnd().Text);
            Func<GenerateOptions> drawn = () => new GenerateOptions { MaxTokens = 6, Sampler = new Sampler(4).Temperature(1.1f) };
            Test.Equal("drawn", engine.Submit(model.Tokenize(Prompt), drawn()).ReadToEnd().Text, engine.Submit(Prompt, drawn()).ReadToEnd().Text);
            var endless = new GenerateOptions { MaxTokens = 100, IgnoreEog = true };
            Test.Equal("three events", engine.Submit(Prompt, endless).Take(3).Count(), 3);
            // Cancelled while a thread waits for events.
            var source = new CancellationTokenSource();
            var waiting = engine.SubmitAsync(Prompt, endless, one => source.Cancel(), source.Token);
            Test.Thrown<OperationCanceledException>(() => waiting.GetAwaiter().GetResult());
            var cancelled = engine.Submit(Prompt, endless);
            cancelled.Cancel();
            Test.Equal("cancelled", cancelled.ReadToEnd().Finish, FinishReason.Cancelled);
            Test.Equal("in a task", engine.SubmitAsync(Prompt, some).Result.Text, Want);
            var metrics = engine.Metrics;
            Test.Equal("submitted", metrics.Submitted, 11ul);
            Test.True("counted", metrics.GeneratedTokens >= 5 * 32 && metrics.PromptTokens > 0 && metrics.Steps > 2 && metrics.Busy > TimeSpan.Zero);
            Test.Refused(Status.InvalidArgument, "empty", () => engine.Submit(""));
            Test.Refused(Status.ContextFull, "128", () => engine.Submit(string.Concat(Enumerable.Repeat("The sea. ", 200))));
            var candidates = new GenerateOptions { Sampler = new Sampler().Candidates((tokens, logits) => { }) };
            Test.True("no candidates", Test.Thrown<ArgumentException>(() => engine.Submit("a", candidates)).Message.Contains("candidates"));
            engine.Dispose();
            Test.Disposed("engine", () => engine.Submit("a"));
            Test.Refused(Status.InvalidArgument, "0", () => model.CreateEngine(new EngineOptions { Parallel = 0 }));
        }
    }

    /// <summary>What is forgotten is freed, and what C calls is kept as long as it may call it.</summary>
    public static void Garbage()
    {
        var model = Model.Load(Test.Tales);
        var calls = 0;
        var events = Forgotten(model, () => calls++);
        for (var i = 0; events.MoveNext(); i++)
        {
            if (i % 4 == 0)
            {
                GC.Collect();
                GC.WaitForPendingFinalizers();
            }
        }
        Test.Equal("calls", calls, 20);
        model.Dispose();
    }

    private static IEnumerator<Event> Forgotten(Model model, Action called)
    {
        for (var i = 0; i < 20; i++) model.CreateContext(Small); // none is disposed of
        var sampler = new Sampler(1).Candidates((tokens, logits) => called());
        return model.CreateContext(Small).Generate(Prompt, new GenerateOptions { MaxTokens = 20, IgnoreEog = true, Sampler = sampler }).GetEnumerator();
    }

    /// <summary>Rounds of everything that is freed, and of what is refused, do not make the process grow.</summary>
    public static void Growth()
    {
        using (var model = Model.Load(Test.Tales))
        {
            Action<int> rounds = n =>
            {
                for (var i = 0; i < n; i++)
                {
                    using (var context = model.CreateContext(Small))
                    using (var sampler = new Sampler(1).Candidates((tokens, logits) => { }))
                    {
                        context.Generate(Prompt, new GenerateOptions { MaxTokens = 2, Sampler = sampler }, new CancellationTokenSource().Token).ReadToEnd();
                        context.Generate(Prompt).Take(1).Count();
                        context.Embed("The sea");
                        for (var j = 0; j < 300; j++) Test.Refused(Status.InvalidArgument, "7", () => context.Past(7));
                    }
                }
                GC.Collect();
                GC.WaitForPendingFinalizers();
            };
            rounds(120);
            var before = Resident();
            rounds(120);
            var grown = Resident() - before;
            Test.True("grown by " + grown + " kB", grown < 4000);
        }
    }

    private static long Resident()
    {
        var line = System.IO.File.ReadLines("/proc/self/status").First(one => one.StartsWith("VmRSS:"));
        return long.Parse(new string(line.Where(char.IsDigit).ToArray()));
    }
}
