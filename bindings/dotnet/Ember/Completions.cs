using System;
using System.Threading;
using Ember.Interop;

namespace Ember
{
    /// <summary>What happened in one of several completions.</summary>
    public sealed class Turn
    {
        internal Turn(uint index, Event what)
        {
            Index = index;
            Event = what;
        }

        /// <summary>Which completion, from 0 on.</summary>
        public uint Index { get; }

        /// <summary>What happened.</summary>
        public Event Event { get; }
    }

    /// <summary>
    /// Several completions of one prompt under way, which take turns, a token each. Completion i is in sequence s + i of the context, where s is
    /// that of the options, and draws with the seed of the sampler + i. Texts, usages and ranks can be had until it is disposed of.
    /// </summary>
    public sealed class Completions : IDisposable
    {
        private readonly Context context;
        private readonly Cancelling cancel;
        private readonly EmberHandle handle;

        internal delegate Status Making(EmberHandle context, EmberHandle options, EmberHandle sampler, out IntPtr made, out IntPtr error);

        internal Completions(Context context, GenerateOptions options, CancellationToken cancellation, Making make)
        {
            this.context = context;
            options = options ?? new GenerateOptions();
            if (cancellation.CanBeCanceled) cancel = new Cancelling(cancellation);
            try
            {
                using (var how = options.Make(cancel?.Handle, false))
                {
                    IntPtr pointer, error;
                    Calls.Check(make(context.Handle, how, options.SamplerHandle, out pointer, out error), error, cancellation);
                    handle = new EmberHandle("completions object", pointer, Native.ember_completions_free, options.SamplerCallbacks);
                }
            }
            catch
            {
                cancel?.Dispose();
                throw;
            }
        }

        /// <summary>The ember_completions, for functions of Ember.Interop.Native. It stays this object's.</summary>
        public EmberHandle Handle => handle.Open;

        /// <summary>
        /// The next event, and which completion it is of; null when all have ended. Each ends with one event, which says FinishReason.Cancelled where
        /// they were cancelled.
        /// </summary>
        public Turn Next()
        {
            GC.KeepAlive(context.Handle); // which must not be disposed of
            var raw = new ember_event { struct_size = Calls.SizeOf<ember_event>() };
            uint index;
            IntPtr error;
            var status = Native.ember_completions_next(Handle, ref raw, out index, out error);
            Calls.Check(status, error, CancellationToken.None, handle.Callbacks);
            if (raw.finish_reason == (int)FinishReason.Cancelled) handle.Callbacks.Check();
            return raw.kind == (int)EventKind.None ? null : new Turn(index, new Event(raw, () => Usage(index)));
        }

        /// <summary>Takes all events that are left.</summary>
        public void Finish()
        {
            while (Next() != null)
            {
            }
        }

        /// <summary>The text of a completion so far.</summary>
        public string Text(uint index)
        {
            return Calls.FilledText(256, (byte[] buffer, UIntPtr capacity, out UIntPtr needed, out IntPtr error) =>
                Native.ember_completions_text(Handle, index, buffer, capacity, out needed, out error));
        }

        /// <summary>What a completion did so far.</summary>
        public Usage Usage(uint index)
        {
            return Ember.Usage.Of((ref ember_generate_result raw, out IntPtr error) =>
                Native.ember_completions_usage(Handle, index, ref raw, out error));
        }

        /// <summary>All completions by the mean log-probability of their tokens, the likeliest first, when all have ended. Needs GenerateOptions.Logprobs.</summary>
        public uint[] Rank()
        {
            return Calls.Filled(8, (uint[] buffer, UIntPtr capacity, out UIntPtr needed, out IntPtr error) =>
                Native.ember_completions_rank(Handle, buffer, capacity, out needed, out error));
        }

        /// <summary>Frees the completions. The context's sequences keep the generated tokens.</summary>
        public void Dispose()
        {
            handle.Dispose();
            cancel?.Dispose();
        }
    }
}
