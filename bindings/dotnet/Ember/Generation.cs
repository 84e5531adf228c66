using System;
using System.Text;
using System.Threading;
using Ember.Interop;

namespace Ember
{
    /// <summary>
    /// A generation under way: its events. One that is cancelled ends with an event whose Finish is FinishReason.Cancelled, and keeps what it has.
    /// </summary>
    public sealed class Generation : EventStream<Event>
    {
        private readonly Context context;
        private readonly Cancelling cancel;
        private readonly EmberHandle generator;

        internal delegate Status Making(EmberHandle context, EmberHandle options, EmberHandle sampler, out IntPtr made, out IntPtr error);

        internal Generation(Context context, GenerateOptions options, bool reusePrefix, CancellationToken cancellation, Making make)
        {
            this.context = context;
            options = options ?? new GenerateOptions();
            if (cancellation.CanBeCanceled) cancel = new Cancelling(cancellation);
            try
            {
                using (var how = options.Make(cancel?.Handle, reusePrefix))
                {
                    IntPtr pointer, error;
                    Calls.Check(make(context.Handle, how, options.SamplerHandle, out pointer, out error), error, cancellation);
                    generator = new EmberHandle("generation", pointer, Native.ember_generator_free, options.SamplerCallbacks);
                }
            }
            catch
            {
                cancel?.Dispose();
                throw;
            }
        }

        internal override Event Next(out bool last)
        {
            var raw = new ember_event { struct_size = Calls.SizeOf<ember_event>() };
            IntPtr error;
            GC.KeepAlive(context.Handle); // which must not be disposed of
            var status = Native.ember_generator_next(generator, ref raw, out error);
            Calls.Check(status, error, CancellationToken.None, generator.Callbacks);
            if (raw.finish_reason == (int)FinishReason.Cancelled) generator.Callbacks.Check();
            last = raw.kind == (int)EventKind.End;
            return new Event(raw, () => Usage);
        }

        /// <summary>What the generation did so far.</summary>
        public Usage Usage => Ember.Usage.Of((ref ember_generate_result result, out IntPtr error) =>
            Native.ember_generator_usage(generator.Open, ref result, out error));

        internal override void End()
        {
            generator.Dispose();
            cancel?.Dispose();
        }

        /// <summary>Takes all events; gives the whole text, and what the generation did.</summary>
        public Completion ReadToEnd() => ReadToEnd(this, null);

        internal static Completion ReadToEnd(EventStream<Event> events, Action<Event> each)
        {
            var text = new StringBuilder();
            Usage usage = null;
            foreach (var one in events)
            {
                text.Append(one.Text);
                usage = one.Usage;
                each?.Invoke(one);
            }
            return new Completion(text.ToString(), usage);
        }

        /// <summary>As ReadToEnd, for a task that was perhaps cancelled.</summary>
        internal static Completion ReadToEnd(EventStream<Event> events, Action<Event> each, CancellationToken cancellation)
        {
            var all = ReadToEnd(events, each);
            if (all.Finish == FinishReason.Cancelled) cancellation.ThrowIfCancellationRequested();
            return all;
        }
    }
}
