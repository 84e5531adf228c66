using System;
using System.Threading;
using System.Threading.Tasks;
using Ember.Interop;

namespace Ember
{
    /// <summary>
    /// Runs many requests together, which takes far less time than one after the other; each gives what it would give alone. For any number of
    /// threads; a thread of the engine's own does the work. Model.CreateEngine makes it.
    /// </summary>
    public sealed class Engine : IDisposable
    {
        private readonly EmberHandle handle;

        internal Engine(IntPtr pointer)
        {
            handle = new EmberHandle("engine", pointer, Native.ember_engine_free);
        }

        /// <summary>The ember_engine, for functions of Ember.Interop.Native. It stays this object's.</summary>
        public EmberHandle Handle => handle.Open;

        /// <summary>
        /// Has a prompt continued, the whole text, and gives the events. The request is under way from now on, whether they are taken or not; a
        /// thread that takes them waits. Leaving them early, or cancelling, ends the request. Sequence, ReusePrefix, Lookup and Draft of the options
        /// mean nothing here.
        /// </summary>
        public Request Submit(string prompt, GenerateOptions options = null, CancellationToken cancellation = default(CancellationToken))
        {
            var bytes = Calls.Utf8(prompt, nameof(prompt));
            return Submit(options, cancellation, (EmberHandle how, EmberHandle sampler, out IntPtr made, out IntPtr error) =>
                Native.ember_engine_submit(Handle, bytes, bytes.Size(), how, sampler, null, IntPtr.Zero, out made, out error));
        }

        /// <summary>As Submit for a prompt of tokens, such as Model.TokenizeChat gives, to which nothing is added.</summary>
        public Request Submit(uint[] prompt, GenerateOptions options = null, CancellationToken cancellation = default(CancellationToken))
        {
            Calls.Given(prompt, nameof(prompt));
            return Submit(options, cancellation, (EmberHandle how, EmberHandle sampler, out IntPtr made, out IntPtr error) =>
                Native.ember_engine_submit_tokens(Handle, prompt, prompt.Size(), how, sampler, null, IntPtr.Zero, out made, out error));
        }

        /// <summary>As Submit: all of it, on a thread of its own. `each` gets every event there. A cancelled request is a cancelled task.</summary>
        public Task<Completion> SubmitAsync(
            string prompt, GenerateOptions options = null, Action<Event> each = null, CancellationToken cancellation = default(CancellationToken))
        {
            var request = Submit(prompt, options, cancellation);
            return Tasks.Run(() => Generation.ReadToEnd(request, each, cancellation), CancellationToken.None);
        }

        private delegate Status Submitting(EmberHandle options, EmberHandle sampler, out IntPtr made, out IntPtr error);

        private static Request Submit(GenerateOptions options, CancellationToken cancellation, Submitting submit)
        {
            options = options ?? new GenerateOptions();
            // A step may be under way when the request is freed, and still call them.
            if (options.SamplerCallbacks.Any) throw new ArgumentException("a request of an engine takes no candidates: use Context.Generate", nameof(options));
            using (var how = options.Make(null, false))
            {
                IntPtr pointer, error;
                Calls.Check(submit(how, options.SamplerHandle, out pointer, out error), error);
                return new Request(pointer, cancellation);
            }
        }

        /// <summary>What the engine has done.</summary>
        public EngineMetrics Metrics
        {
            get
            {
                var raw = new ember_engine_metrics { struct_size = Calls.SizeOf<ember_engine_metrics>() };
                IntPtr error;
                Calls.Check(Native.ember_engine_metrics_get(Handle, ref raw, out error), error);
                return new EngineMetrics(raw);
            }
        }

        /// <summary>The options in force in the engine's context: positions are those of each request, sequences how many run together.</summary>
        public ContextInfo Info
        {
            get
            {
                var raw = new ember_context_info { struct_size = Calls.SizeOf<ember_context_info>() };
                IntPtr error;
                Calls.Check(Native.ember_engine_info_get(Handle, ref raw, out error), error);
                return new ContextInfo(raw);
            }
        }

        /// <summary>Cancels all requests and frees the engine; events that were not taken stay.</summary>
        public void Dispose() => handle.Dispose();
    }

    /// <summary>A request under way: its events. One that is cancelled ends with an event whose Finish is FinishReason.Cancelled.</summary>
    public sealed class Request : EventStream<Event>
    {
        private readonly EmberHandle handle;
        private readonly CancellationTokenRegistration registration;

        internal Request(IntPtr pointer, CancellationToken cancellation)
        {
            var request = handle = new EmberHandle("request", pointer, Native.ember_request_free);
            registration = cancellation.Register(() => Native.ember_request_cancel(request));
        }

        internal override Event Next(out bool last)
        {
            var raw = new ember_event { struct_size = Calls.SizeOf<ember_event>() };
            IntPtr error;
            Calls.Check(Native.ember_request_next(handle, Native.EMBER_FOREVER, ref raw, out error), error);
            last = raw.kind == (int)EventKind.End;
            return new Event(raw, () => Usage);
        }

        /// <summary>What the request did so far.</summary>
        public Usage Usage => Ember.Usage.Of((ref ember_generate_result result, out IntPtr error) =>
            Native.ember_request_usage(handle.Open, ref result, out error));

        /// <summary>Ends the request, from any thread.</summary>
        public void Cancel() => Native.ember_request_cancel(handle.Open);

        /// <summary>Takes all events; gives the whole text, and what the request did.</summary>
        public Completion ReadToEnd() => Generation.ReadToEnd(this, null);

        internal override void End()
        {
            registration.Dispose();
            handle.Dispose();
        }
    }

    /// <summary>How an engine is made. A property that is null keeps the library's default.</summary>
    public sealed class EngineOptions
    {
        /// <summary>How many requests run together; by default 8.</summary>
        public uint? Parallel { get; set; }

        /// <summary>How many requests may wait; by default 256.</summary>
        public uint? Queue { get; set; }

        /// <summary>Whether requests that begin alike share what was computed for the first of them; by default true.</summary>
        public bool? SharePrefixes { get; set; }

        /// <summary>How the engine's context is made; its sequences and KeepPrefixes are the engine's own to say.</summary>
        public ContextOptions Context { get; set; }

        /// <summary>The ember_engine_options.</summary>
        internal EmberHandle Make()
        {
            IntPtr pointer, error;
            Calls.Check(Native.ember_engine_options_new(out pointer, out error), error);
            var to = new EmberHandle("options", pointer, Native.ember_engine_options_free);
            try
            {
                using (var context = (Context ?? new ContextOptions()).Make())
                {
                    Calls.Check(Native.ember_engine_options_set_context_options(to, context, out error), error);
                }
                Calls.Check(Native.ember_engine_options_set_thread(to, true, out error), error);
                if (Parallel.HasValue) Calls.Check(Native.ember_engine_options_set_n_parallel(to, Parallel.Value, out error), error);
                if (Queue.HasValue) Calls.Check(Native.ember_engine_options_set_max_queue(to, Queue.Value, out error), error);
                if (SharePrefixes.HasValue)
                {
                    Calls.Check(Native.ember_engine_options_set_share_prefixes(to, SharePrefixes.Value, out error), error);
                }
                return to;
            }
            catch
            {
                to.Dispose();
                throw;
            }
        }
    }

    /// <summary>What an engine has done.</summary>
    public sealed class EngineMetrics
    {
        internal EngineMetrics(ember_engine_metrics raw)
        {
            Submitted = raw.n_submitted;
            Refused = raw.n_refused;
            Finished = raw.n_finished;
            Cancelled = raw.n_cancelled;
            Failed = raw.n_failed;
            Preempted = raw.n_preempted;
            PromptTokens = raw.n_prompt;
            ReusedTokens = raw.n_reused;
            PrefilledTokens = raw.n_prefilled;
            GeneratedTokens = raw.n_generated;
            Steps = raw.n_steps;
            Busy = Calls.Time(raw.busy_ns);
            TokensPerSecond = raw.tokens_per_s;
            CacheHitRate = raw.cache_hit_rate;
            Queued = raw.n_queued;
            Active = raw.n_active;
            Pages = raw.n_pages;
            FreePages = raw.n_free_pages;
        }

        /// <summary>Requests taken.</summary>
        public ulong Submitted { get; }

        /// <summary>Requests that found the queue full.</summary>
        public ulong Refused { get; }

        /// <summary>Requests that ended by themselves, by a stop text, or in a full context.</summary>
        public ulong Finished { get; }

        /// <summary>Requests that were cancelled, or ended by their time limit.</summary>
        public ulong Cancelled { get; }

        /// <summary>Requests that an error ended.</summary>
        public ulong Failed { get; }

        /// <summary>How often a request gave its pages up for others and was run again later.</summary>
        public ulong Preempted { get; }

        /// <summary>Tokens of prompts.</summary>
        public ulong PromptTokens { get; }

        /// <summary>Of these, those that the cache held already.</summary>
        public ulong ReusedTokens { get; }

        /// <summary>Tokens of prompts that were run.</summary>
        public ulong PrefilledTokens { get; }

        /// <summary>Tokens generated.</summary>
        public ulong GeneratedTokens { get; }

        /// <summary>Steps that ran something.</summary>
        public ulong Steps { get; }

        /// <summary>Time spent in steps.</summary>
        public TimeSpan Busy { get; }

        /// <summary>Tokens generated for each second of that.</summary>
        public double TokensPerSecond { get; }

        /// <summary>ReusedTokens for each of PromptTokens.</summary>
        public double CacheHitRate { get; }

        /// <summary>Requests that wait.</summary>
        public uint Queued { get; }

        /// <summary>Requests that run.</summary>
        public uint Active { get; }

        /// <summary>Pages of the KV cache.</summary>
        public uint Pages { get; }

        /// <summary>Pages that no request has.</summary>
        public uint FreePages { get; }
    }
}
