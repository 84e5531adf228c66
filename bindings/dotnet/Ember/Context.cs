using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Runtime.InteropServices;
using System.Threading;
using System.Threading.Tasks;
using Ember.Interop;

namespace Ember
{
    /// <summary>A text that is worked on, by one thread at a time; a second one gets an EmberException with Status.Busy.</summary>
    public sealed class Context : IDisposable
    {
        /// <summary>In place of a sequence's number, for states: all sequences of the context.</summary>
        public const uint AllSequences = Native.EMBER_ALL_SEQUENCES;

        private readonly EmberHandle handle;
        private readonly EmberHandle model;

        internal Context(IntPtr pointer, EmberHandle model)
        {
            handle = new EmberHandle("context", pointer, Native.ember_context_free);
            this.model = model;
        }

        /// <summary>The ember_context, for functions of Ember.Interop.Native. It stays this object's.</summary>
        public EmberHandle Handle => handle.Open;

        /// <summary>
        /// The answer to messages, by the model's chat template, as events. Give all of the conversation each time: what the context holds of it
        /// already is not run again. No text of a message can spell a control token.
        /// </summary>
        public Generation Chat(
            IEnumerable<Message> messages, GenerateOptions options = null, ChatOptions chat = null, CancellationToken cancellation = default(CancellationToken))
        {
            GC.KeepAlive(Handle);
            return Continue(Model.TokenizeChat(model, messages, chat), options, true, cancellation);
        }

        /// <summary>The answer to one message of a user's.</summary>
        public Generation Chat(
            string message, GenerateOptions options = null, ChatOptions chat = null, CancellationToken cancellation = default(CancellationToken))
        {
            return Chat(new[] { Message.User(message) }, options, chat, cancellation);
        }

        /// <summary>A conversation that keeps what was said. `system` is the system text, if there is one; `options` say how replies are generated.</summary>
        public Conversation CreateConversation(string system = "", ChatOptions chat = null, GenerateOptions options = null)
        {
            var bytes = Calls.Utf8(system, nameof(system));
            return new Conversation(this, chat, options, (EmberHandle its, EmberHandle read, EmberHandle how, out IntPtr made, out IntPtr error) =>
                Native.ember_conversation_new(its, bytes, bytes.Size(), read, how, out made, out error));
        }

        /// <summary>What Conversation.Save gave goes on, with options of its own.</summary>
        public Conversation LoadConversation(byte[] saved, ChatOptions chat = null, GenerateOptions options = null)
        {
            Calls.Given(saved, nameof(saved));
            return new Conversation(this, chat, options, (EmberHandle its, EmberHandle read, EmberHandle how, out IntPtr made, out IntPtr error) =>
                Native.ember_conversation_load(its, saved, saved.Size(), read, how, out made, out error));
        }

        /// <summary>Continues the context by a prompt and by what the model says to it.</summary>
        public Generation Generate(string prompt, GenerateOptions options = null, CancellationToken cancellation = default(CancellationToken))
        {
            var bytes = Calls.Utf8(prompt, nameof(prompt));
            return new Generation(this, options, false, cancellation, (EmberHandle its, EmberHandle how, EmberHandle sampler, out IntPtr made, out IntPtr error) =>
                Native.ember_generator_new(its, bytes, bytes.Size(), how, sampler, out made, out error));
        }

        /// <summary>As Generate, for a prompt of tokens, to which nothing is added.</summary>
        public Generation Generate(uint[] prompt, GenerateOptions options = null, CancellationToken cancellation = default(CancellationToken))
        {
            return Continue(Calls.Given(prompt, nameof(prompt)), options, false, cancellation);
        }

        private Generation Continue(uint[] prompt, GenerateOptions options, bool reusePrefix, CancellationToken cancellation)
        {
            return new Generation(this, options, reusePrefix, cancellation, (EmberHandle its, EmberHandle how, EmberHandle sampler, out IntPtr made, out IntPtr error) =>
                Native.ember_generator_new_tokens(its, prompt, prompt.Size(), how, sampler, out made, out error));
        }

        /// <summary>As Generate: all of it, on a thread of its own. `each` gets every event there. A cancelled generation is a cancelled task.</summary>
        public Task<Completion> GenerateAsync(
            string prompt, GenerateOptions options = null, Action<Event> each = null, CancellationToken cancellation = default(CancellationToken))
        {
            Calls.Given(prompt, nameof(prompt));
            return Tasks.Run(() => Generation.ReadToEnd(Generate(prompt, options, cancellation), each, cancellation), cancellation);
        }

        /// <summary>As Chat: all of it, on a thread of its own. `each` gets every event there. A cancelled answer is a cancelled task.</summary>
        public Task<Completion> ChatAsync(
            IEnumerable<Message> messages, GenerateOptions options = null, ChatOptions chat = null, Action<Event> each = null,
            CancellationToken cancellation = default(CancellationToken))
        {
            var all = Calls.Given(messages, nameof(messages)).ToArray();
            return Tasks.Run(() => Generation.ReadToEnd(Chat(all, options, chat, cancellation), each, cancellation), cancellation);
        }

        /// <summary>`n` completions of a prompt, which runs once. The context needs as many sequences.</summary>
        public Completions Complete(string prompt, uint n, GenerateOptions options = null, CancellationToken cancellation = default(CancellationToken))
        {
            var bytes = Calls.Utf8(prompt, nameof(prompt));
            return new Completions(this, options, cancellation, (EmberHandle its, EmberHandle how, EmberHandle sampler, out IntPtr made, out IntPtr error) =>
                Native.ember_completions_new(its, bytes, bytes.Size(), n, how, sampler, out made, out error));
        }

        /// <summary>As Complete, for a prompt of tokens, to which nothing is added.</summary>
        public Completions Complete(uint[] prompt, uint n, GenerateOptions options = null, CancellationToken cancellation = default(CancellationToken))
        {
            Calls.Given(prompt, nameof(prompt));
            return new Completions(this, options, cancellation, (EmberHandle its, EmberHandle how, EmberHandle sampler, out IntPtr made, out IntPtr error) =>
                Native.ember_completions_new_tokens(its, prompt, prompt.Size(), n, how, sampler, out made, out error));
        }

        /// <summary>What a call gives that the token may end. A context that another thread is using stays as it is.</summary>
        private T Cancellable<T>(CancellationToken cancellation, Func<T> call)
        {
            if (!cancellation.CanBeCanceled) return call();
            cancellation.ThrowIfCancellationRequested();
            using (var cancel = new Cancelling(cancellation))
            {
                IntPtr error;
                Calls.Check(Native.ember_context_set_cancel_token(Handle, cancel.Handle, out error), error);
                try
                {
                    return call();
                }
                finally
                {
                    Calls.Check(Native.ember_context_set_cancel_token(handle, EmberHandle.None, out error), error);
                }
            }
        }

        /// <summary>A vector for each text, in their order; with Pooling.None one for each token of each text. Give many in one call.</summary>
        public float[][] Embed(IEnumerable<string> texts, EmbedOptions options = null, CancellationToken cancellation = default(CancellationToken))
        {
            using (var all = new Texts(texts, nameof(texts)))
            {
                return Embed(all.Pointers.Length, options, cancellation, (EmberHandle how, float[] buffer, UIntPtr capacity, out UIntPtr needed, out IntPtr error) =>
                    Native.ember_embed(Handle, all.Pointers, all.Lengths, all.Count, how, buffer, capacity, out needed, out error));
            }
        }

        /// <summary>The vector of one text.</summary>
        public float[] Embed(string text, EmbedOptions options = null, CancellationToken cancellation = default(CancellationToken))
        {
            var rows = Embed(new[] { text }, options, cancellation);
            if (rows.Length != 1) throw new ArgumentException("the options ask for a vector per token: give a list of texts", nameof(options));
            return rows[0];
        }

        /// <summary>As Embed for texts that are tokens already, to which nothing is added.</summary>
        public float[][] EmbedTokens(IEnumerable<uint[]> texts, EmbedOptions options = null, CancellationToken cancellation = default(CancellationToken))
        {
            var each = Calls.Given(texts, nameof(texts)).Select(one => Calls.Given(one, nameof(texts))).ToArray();
            var all = each.SelectMany(one => one).ToArray();
            var lengths = each.Select(one => one.Size()).ToArray();
            return Embed(each.Length, options, cancellation, (EmberHandle how, float[] buffer, UIntPtr capacity, out UIntPtr needed, out IntPtr error) =>
                Native.ember_embed_tokens(Handle, all, all.Size(), lengths, lengths.Size(), how, buffer, capacity, out needed, out error));
        }

        /// <summary>As Embed, on a thread of its own.</summary>
        public Task<float[][]> EmbedAsync(IEnumerable<string> texts, EmbedOptions options = null, CancellationToken cancellation = default(CancellationToken))
        {
            var all = Calls.Given(texts, nameof(texts)).ToArray();
            return Tasks.Run(() => Embed(all, options, cancellation), cancellation);
        }

        private delegate Status Scoring(EmberHandle options, float[] buffer, UIntPtr capacity, out UIntPtr needed, out IntPtr error);

        private float[][] Embed(int n, EmbedOptions options, CancellationToken cancellation, Scoring embed)
        {
            GC.KeepAlive(Handle); // which must not be disposed of
            options = options ?? new EmbedOptions();
            var info = Model.InfoOf(model);
            using (var how = options.Make())
            {
                return Calls.Rows(Scored((long)n * options.Whole(info), how, cancellation, embed), options.Width(info));
            }
        }

        private float[] Scored(long length, EmberHandle options, CancellationToken cancellation, Scoring score)
        {
            return Cancellable(cancellation, () => Calls.Filled(length, (float[] buffer, UIntPtr capacity, out UIntPtr needed, out IntPtr error) =>
                score(options, buffer, capacity, out needed, out error), cancellation));
        }

        /// <summary>The scores of each text, one for each of Model.Labels. Give many in one call.</summary>
        public float[][] Classify(IEnumerable<string> texts, ClassifyOptions options = null, CancellationToken cancellation = default(CancellationToken))
        {
            using (var all = new Texts(texts, nameof(texts)))
            using (var how = (options ?? new ClassifyOptions()).Make())
            {
                var n = all.Pointers.Length;
                var scores = Scored(n, how, cancellation, (EmberHandle o, float[] buffer, UIntPtr capacity, out UIntPtr needed, out IntPtr error) =>
                    Native.ember_classify(Handle, all.Pointers, all.Lengths, all.Count, o, buffer, capacity, out needed, out error));
                return Calls.Rows(scores, n == 0 ? 0 : scores.Length / n);
            }
        }

        /// <summary>How well each document answers the query: a score for each, the higher the better.</summary>
        public float[] Rerank(
            string query, IEnumerable<string> documents, ClassifyOptions options = null, CancellationToken cancellation = default(CancellationToken))
        {
            var bytes = Calls.Utf8(query, nameof(query));
            using (var all = new Texts(documents, nameof(documents)))
            using (var how = (options ?? new ClassifyOptions()).Make())
            {
                return Scored(all.Pointers.Length, how, cancellation, (EmberHandle o, float[] buffer, UIntPtr capacity, out UIntPtr needed, out IntPtr error) =>
                    Native.ember_rerank(Handle, bytes, bytes.Size(), all.Pointers, all.Lengths, all.Count, o, buffer, capacity, out needed, out error));
            }
        }

        /// <summary>How likely a continuation is after a prompt; scoring many continuations of one prompt runs the prompt once.</summary>
        public Score Score(string prompt, string continuation, uint sequence = 0, CancellationToken cancellation = default(CancellationToken))
        {
            var before = Calls.Utf8(prompt, nameof(prompt));
            var after = Calls.Utf8(continuation, nameof(continuation));
            return Score(after.Length + 8L, sequence, cancellation, (
                EmberHandle how, ember_token_score[] buffer, UIntPtr capacity, out UIntPtr needed, ref ember_score_result raw, out IntPtr error) =>
                Native.ember_score(Handle, before, before.Size(), after, after.Size(), how, buffer, capacity, out needed, ref raw, out error));
        }

        /// <summary>As Score, for tokens, to which nothing is added.</summary>
        public Score Score(uint[] prompt, uint[] continuation, uint sequence = 0, CancellationToken cancellation = default(CancellationToken))
        {
            var all = Calls.Given(prompt, nameof(prompt)).Concat(Calls.Given(continuation, nameof(continuation))).ToArray();
            return Score(continuation.Length, sequence, cancellation, (
                EmberHandle how, ember_token_score[] buffer, UIntPtr capacity, out UIntPtr needed, ref ember_score_result raw, out IntPtr error) =>
                Native.ember_score_tokens(Handle, all, all.Size(), prompt.Size(), how, buffer, capacity, out needed, ref raw, out error));
        }

        private delegate Status Likelihood(
            EmberHandle options, ember_token_score[] buffer, UIntPtr capacity, out UIntPtr needed, ref ember_score_result result, out IntPtr error);

        private Score Score(long length, uint sequence, CancellationToken cancellation, Likelihood score)
        {
            using (var how = new GenerateOptions { Sequence = sequence }.Make(null, false))
            {
                var raw = new ember_score_result { struct_size = Calls.SizeOf<ember_score_result>() };
                var tokens = Cancellable(cancellation, () => Calls.Filled(length, (ember_token_score[] buffer, UIntPtr capacity, out UIntPtr needed, out IntPtr error) =>
                    score(how, buffer, capacity, out needed, ref raw, out error), cancellation));
                return new Score(tokens, raw);
            }
        }

        /// <summary>Runs tokens through the model, and gives the logits after the last one, whose index is the token: for a Sampler.</summary>
        public float[] Decode(uint[] tokens, uint sequence = 0, CancellationToken cancellation = default(CancellationToken))
        {
            var sequences = Calls.Given(tokens, nameof(tokens)).Select(token => sequence).ToArray();
            Decode(tokens, null, sequences, null, cancellation);
            return Logits((uint)tokens.Length - 1);
        }

        /// <summary>
        /// Runs tokens through the model: each in its sequence, at its position, which is checked, and with logits after it if they are wanted. All but
        /// the tokens may be null: sequence 0, any position, logits after the last one.
        /// </summary>
        public void Decode(
            uint[] tokens, uint[] positions, uint[] sequences, bool[] logits, CancellationToken cancellation = default(CancellationToken))
        {
            Calls.Given(tokens, nameof(tokens));
            foreach (var array in new Array[] { positions, sequences, logits })
            {
                if (array != null && array.Length != tokens.Length)
                {
                    throw new ArgumentException(array.Length + " values are given for " + tokens.Length + " tokens");
                }
            }
            var wanted = logits?.Select(one => (byte)(one ? 1 : 0)).ToArray();
            Cancellable(cancellation, () =>
            {
                IntPtr error;
                Calls.Check(Native.ember_context_decode(Handle, tokens, positions, sequences, wanted, tokens.Size(), out error), error, cancellation);
                return 0;
            });
        }

        /// <summary>The logits after token `index` of the last Decode, a copy; an EmberException with Status.NotFound where they are gone.</summary>
        public float[] Logits(uint index)
        {
            IntPtr logits, error;
            var its = Handle;
            var added = false;
            its.DangerousAddRef(ref added); // so that nobody frees them meanwhile
            try
            {
                Calls.Check(Native.ember_context_logits(its, (UIntPtr)index, out logits, out error), error);
                var all = new float[Model.InfoOf(model).VocabularySize];
                Marshal.Copy(logits, all, 0, all.Length);
                return all;
            }
            finally
            {
                its.DangerousRelease();
            }
        }

        /// <summary>Forgets what is after position n of a sequence.</summary>
        public void Rewind(uint n, uint sequence = 0)
        {
            IntPtr error;
            Calls.Check(Native.ember_context_rewind(Handle, sequence, n, out error), error);
        }

        /// <summary>The number of tokens in a sequence.</summary>
        public uint Past(uint sequence = 0)
        {
            uint n;
            IntPtr error;
            Calls.Check(Native.ember_context_n_past(Handle, sequence, out n, out error), error);
            return n;
        }

        /// <summary>The tokens in a sequence.</summary>
        public uint[] Tokens(uint sequence = 0)
        {
            return Calls.Filled(256, (uint[] buffer, UIntPtr capacity, out UIntPtr needed, out IntPtr error) =>
                Native.ember_context_tokens(Handle, sequence, buffer, capacity, out needed, out error));
        }

        /// <summary>Makes sequence `to` the first n tokens of sequence `from`, at next to no cost: for several answers to one prompt.</summary>
        public void CopySequence(uint from, uint to, uint n)
        {
            IntPtr error;
            Calls.Check(Native.ember_context_sequence_copy(Handle, from, to, n, out error), error);
        }

        /// <summary>Empties all sequences but one.</summary>
        public void KeepSequence(uint sequence)
        {
            IntPtr error;
            Calls.Check(Native.ember_context_sequence_keep(Handle, sequence, out error), error);
        }

        /// <summary>
        /// Makes a sequence as much of the beginning of these tokens as the context has, but no more than `most`, and returns their number. The
        /// sequence may have them already; with ContextOptions.KeepPrefixes, pages that were kept may have them too. Run the rest then, one token at
        /// least.
        /// </summary>
        public ulong ReusePrefix(uint sequence, uint[] tokens, ulong most)
        {
            UIntPtr reused;
            IntPtr error;
            Calls.Check(Native.ember_context_sequence_reuse(
                Handle, sequence, Calls.Given(tokens, nameof(tokens)), tokens.Size(), (UIntPtr)most, out reused, out error), error);
            return (ulong)reused;
        }

        /// <summary>Forgets `drop` tokens after the first `keep` of a sequence; those after them move forward.</summary>
        public void Shift(uint sequence, uint keep, uint drop)
        {
            IntPtr error;
            Calls.Check(Native.ember_context_sequence_shift(Handle, sequence, keep, drop, out error), error);
        }

        /// <summary>A sequence as bytes, or all (AllSequences), for LoadState, in another process too.</summary>
        public byte[] SaveState(uint sequence)
        {
            return Calls.Filled(0, (byte[] buffer, UIntPtr capacity, out UIntPtr needed, out IntPtr error) =>
                Native.ember_context_state_save(Handle, sequence, buffer, capacity, out needed, out error));
        }

        /// <summary>Makes a sequence what SaveState gave, of the same model. On an error all is as it was.</summary>
        public void LoadState(uint sequence, byte[] state)
        {
            IntPtr error;
            Calls.Check(Native.ember_context_state_load(Handle, sequence, Calls.Given(state, nameof(state)), state.Size(), out error), error);
        }

        /// <summary>As SaveState, to a file; one that was there before stays as it was when that fails.</summary>
        public void SaveState(uint sequence, string path)
        {
            var bytes = Calls.Utf8(path, nameof(path));
            IntPtr error;
            Calls.Check(Native.ember_context_state_save_file(Handle, sequence, bytes, bytes.Size(), out error), error);
        }

        /// <summary>As LoadState, from a file.</summary>
        public void LoadState(uint sequence, string path)
        {
            var bytes = Calls.Utf8(path, nameof(path));
            IntPtr error;
            Calls.Check(Native.ember_context_state_load_file(Handle, sequence, bytes, bytes.Size(), out error), error);
        }

        /// <summary>As SaveState, part by part to a stream; no copy is held.</summary>
        public void SaveState(uint sequence, Stream to)
        {
            Calls.Given(to, nameof(to));
            var callbacks = new Callbacks();
            var callback = callbacks.Add<ember_write_callback>((data, length, none) => callbacks.Run(() =>
            {
                var bytes = Calls.Bytes(data, length);
                to.Write(bytes, 0, bytes.Length);
                return 0;
            }, 1));
            IntPtr error;
            var status = Native.ember_context_state_write(Handle, sequence, callback, IntPtr.Zero, out error);
            Streamed(status, error, callbacks);
        }

        /// <summary>As LoadState, from a stream, which is read to its end.</summary>
        public void LoadState(uint sequence, Stream from)
        {
            Calls.Given(from, nameof(from));
            var callbacks = new Callbacks();
            var callback = callbacks.Add<ember_read_callback>((buffer, capacity, none) => callbacks.Run(() =>
            {
                var bytes = new byte[(int)Math.Min((ulong)capacity, 1 << 20)];
                var n = from.Read(bytes, 0, bytes.Length);
                Marshal.Copy(bytes, 0, buffer, n);
                return (long)n;
            }, -1L));
            IntPtr error;
            var status = Native.ember_context_state_read(Handle, sequence, callback, IntPtr.Zero, out error);
            Streamed(status, error, callbacks);
        }

        private static void Streamed(Status status, IntPtr error, Callbacks callbacks)
        {
            Calls.Check(status, error, CancellationToken.None, callbacks);
            GC.KeepAlive(callbacks);
        }

        /// <summary>The options in force.</summary>
        public ContextInfo Info
        {
            get
            {
                var raw = new ember_context_info { struct_size = Calls.SizeOf<ember_context_info>() };
                IntPtr error;
                Calls.Check(Native.ember_context_info_get(Handle, ref raw, out error), error);
                return new ContextInfo(raw);
            }
        }

        /// <summary>Bytes that the context takes, and its model.</summary>
        public Memory Memory
        {
            get
            {
                var raw = new ember_memory { struct_size = Calls.SizeOf<ember_memory>() };
                IntPtr error;
                Calls.Check(Native.ember_context_memory(Handle, ref raw, out error), error);
                return new Memory(raw);
            }
        }

        /// <summary>What the context has run, and how long that took.</summary>
        public Timings Timings
        {
            get
            {
                var raw = new ember_timings { struct_size = Calls.SizeOf<ember_timings>() };
                IntPtr error;
                Calls.Check(Native.ember_context_timings_get(Handle, ref raw, out error), error);
                return new Timings(raw);
            }
        }

        /// <summary>Sets the counters of Timings to 0; Load stays.</summary>
        public void ResetTimings()
        {
            IntPtr error;
            Calls.Check(Native.ember_context_timings_reset(Handle, out error), error);
        }

        /// <summary>Frees the context, once what is running with it has ended.</summary>
        public void Dispose()
        {
            handle.Dispose();
            model.Dispose();
        }
    }
}
