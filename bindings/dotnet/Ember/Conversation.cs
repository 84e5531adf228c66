using System;
using System.Collections.Generic;
using System.Text;
using System.Threading;
using System.Threading.Tasks;
using Ember.Interop;

namespace Ember
{
    /// <summary>
    /// A conversation with a model in a context, which Context.CreateConversation makes. A reply runs only what the context does not hold. Text from
    /// a user can never spell a control token. One thread at a time.
    /// </summary>
    public sealed class Conversation : IDisposable
    {
        private readonly Context context;
        private readonly EmberHandle cancel; // of copies too
        private readonly Sampler sampler;
        private readonly bool ownsSampler;
        private readonly EmberHandle handle;
        private Callbacks onFull = Callbacks.None;
        private CancellationTokenRegistration registration;

        internal delegate Status Making(EmberHandle context, EmberHandle chat, EmberHandle options, out IntPtr made, out IntPtr error);

        internal Conversation(Context context, ChatOptions chat, GenerateOptions options, Making make)
        {
            this.context = context;
            options = options ?? new GenerateOptions();
            sampler = options.Sampler;
            cancel = Cancelling.Make();
            using (var read = (chat ?? new ChatOptions()).Make())
            using (var how = options.Make(cancel, false))
            {
                IntPtr pointer, error;
                Calls.Check(make(context.Handle, read, how, out pointer, out error), error);
                handle = Owned(pointer);
            }
        }

        private Conversation(Conversation other, uint sequence)
        {
            IntPtr pointer, error;
            context = other.context;
            cancel = other.cancel;
            Calls.Check(Native.ember_conversation_fork(other.Handle, sequence, out pointer, out error), error);
            handle = Owned(pointer);
            sampler = other.sampler?.Copy();
            ownsSampler = sampler != null;
        }

        private static EmberHandle Owned(IntPtr pointer) => new EmberHandle("conversation", pointer, Native.ember_conversation_free);

        /// <summary>The ember_conversation, for functions of Ember.Interop.Native. It stays this object's.</summary>
        public EmberHandle Handle => handle.Open;

        /// <summary>
        /// The same conversation in another sequence of the context, which gets what this one's holds: both go on by themselves, also their random
        /// numbers. The copy does not have the function of SetOnFull. Cancelling a reply of one ends a reply of the other that is under way.
        /// </summary>
        public Conversation Fork(uint sequence) => new Conversation(this, sequence);

        /// <summary>Adds a message without having it answered: the result of a tool, say.</summary>
        public void Add(Message message) => AddJson(Calls.Given(message, nameof(message)).Json());

        /// <summary>As Add, for a JSON object, which may have tool calls and what else the template looks at.</summary>
        public void AddJson(string message)
        {
            var bytes = Calls.Utf8(message, nameof(message));
            IntPtr error;
            Calls.Check(Native.ember_conversation_add(Handle, bytes, bytes.Size(), out error), error);
        }

        /// <summary>
        /// Adds a user's message, and gives the reply; an empty one has the messages answered that were added. A reply that is left early becomes no
        /// message. One that is cancelled ends with an event whose Finish is FinishReason.Cancelled.
        /// </summary>
        public Reply Send(string message, CancellationToken cancellation = default(CancellationToken))
        {
            var bytes = Calls.Utf8(message, nameof(message));
            GC.KeepAlive(context.Handle); // which must not be disposed of
            var its = Handle;
            registration.Dispose();
            Native.ember_cancel_token_reset(cancel);
            registration = Cancelling.Register(cancellation, cancel);
            try
            {
                IntPtr error;
                var status = Native.ember_conversation_begin(its, bytes, bytes.Size(), SamplerHandle, out error);
                Calls.Check(status, error, cancellation, onFull, sampler?.Callbacks);
            }
            catch
            {
                registration.Dispose();
                throw;
            }
            return new Reply(this);
        }

        /// <summary>
        /// As Send, but calls of tools are answered by what `answer` gives for each, until a reply has none; after `mostReplies` that is an
        /// InvalidOperationException. The events are those of all replies.
        /// </summary>
        public IEnumerable<ReplyEvent> Send(
            string message, Func<ReplyEvent, string> answer, uint mostReplies = 8, CancellationToken cancellation = default(CancellationToken))
        {
            Calls.Given(message, nameof(message));
            Calls.Given(answer, nameof(answer));
            return Replies(message, answer, mostReplies, cancellation);
        }

        private IEnumerable<ReplyEvent> Replies(string message, Func<ReplyEvent, string> answer, uint mostReplies, CancellationToken cancellation)
        {
            for (var i = 0u; i < mostReplies; i++)
            {
                var calls = new List<ReplyEvent>();
                foreach (var one in Send(i == 0 ? message : "", cancellation))
                {
                    if (one.IsCall) calls.Add(one);
                    yield return one;
                }
                if (calls.Count == 0) yield break;
                foreach (var call in calls) Add(Message.Tool(call, answer(call)));
            }
            throw new InvalidOperationException("the model called tools in " + mostReplies + " replies in a row");
        }

        /// <summary>As Send, on a thread of its own: the whole reply. `each` gets every event there. A cancelled reply is a cancelled task.</summary>
        public Task<Answer> SendAsync(
            string message, Action<ReplyEvent> each = null, CancellationToken cancellation = default(CancellationToken))
        {
            Calls.Given(message, nameof(message));
            return Tasks.Run(() =>
            {
                var all = Send(message, cancellation).ReadToEnd(each);
                if (all.Finish == FinishReason.Cancelled) cancellation.ThrowIfCancellationRequested();
                return all;
            }, cancellation);
        }

        private EmberHandle SamplerHandle => sampler == null ? EmberHandle.None : sampler.Handle;

        internal ReplyEvent Next()
        {
            GC.KeepAlive(context.Handle); // which must not be disposed of
            var raw = new ember_chat_event { struct_size = Calls.SizeOf<ember_chat_event>() };
            IntPtr error;
            var status = Native.ember_conversation_next(Handle, ref raw, out error);
            Calls.Check(status, error, CancellationToken.None, sampler?.Callbacks);
            if (raw.finish_reason == (int)FinishReason.Cancelled) sampler?.Callbacks.Check();
            return new ReplyEvent(raw);
        }

        internal void EndReply(bool complete)
        {
            registration.Dispose();
            if (complete || handle.IsClosed) return;
            IntPtr error;
            Calls.Check(Native.ember_conversation_abandon(handle, out error), error);
        }

        /// <summary>Forgets the last turn: the user's last message and all after it.</summary>
        public void Undo()
        {
            IntPtr error;
            Calls.Check(Native.ember_conversation_undo(Handle, out error), error);
        }

        /// <summary>All messages so far as a JSON array, those that were dropped included.</summary>
        public string Messages => Calls.FilledText(4096, (byte[] buffer, UIntPtr capacity, out UIntPtr needed, out IntPtr error) =>
            Native.ember_conversation_messages(Handle, buffer, capacity, out needed, out error));

        /// <summary>The conversation as bytes, for Context.LoadConversation.</summary>
        public byte[] Save()
        {
            return Calls.Filled(8192, (byte[] buffer, UIntPtr capacity, out UIntPtr needed, out IntPtr error) =>
                Native.ember_conversation_save(Handle, buffer, capacity, out needed, out error));
        }

        /// <summary>What the last reply took.</summary>
        public ReplyUsage Usage
        {
            get
            {
                var raw = new ember_conversation_usage { struct_size = Calls.SizeOf<ember_conversation_usage>() };
                IntPtr error;
                Calls.Check(Native.ember_conversation_usage_get(Handle, ref raw, out error), error);
                return new ReplyUsage(raw);
            }
        }

        /// <summary>Ends a thought after n tokens; 0: none does.</summary>
        public void SetThinkingBudget(uint n)
        {
            IntPtr error;
            Calls.Check(Native.ember_conversation_set_thinking_budget(Handle, n, out error), error);
        }

        /// <summary>Whether replies from now on have to call a tool: "auto", "none", "required", a tool's name. It holds until another choice is set.</summary>
        public void SetToolChoice(string choice)
        {
            var bytes = Calls.Utf8(choice, nameof(choice));
            IntPtr error;
            Calls.Check(Native.ember_conversation_set_tool_choice(Handle, bytes, bytes.Size(), out error), error);
        }

        /// <summary>What happens where the conversation becomes too long, and how many tokens must be free for a reply; 0: as many as it may have.</summary>
        public void SetWhenFull(WhenFull when, uint reserve = 0)
        {
            IntPtr error;
            Calls.Check(Native.ember_conversation_set_when_full(Handle, (int)when, reserve, out error), error);
        }

        /// <summary>
        /// Where the conversation becomes too long, Send asks `drop` how many turns are dropped, the oldest first. It gets the number of the
        /// conversation's tokens, of the sequence's positions, and of the turns that may go. 0 ends the reply, null: as few turns as need be. An
        /// exception from it ends Send and is rethrown.
        /// </summary>
        public void SetOnFull(Func<uint, uint, uint, uint> drop)
        {
            IntPtr error;
            var callbacks = new Callbacks();
            ember_full_callback callback = null;
            if (drop != null)
            {
                callback = callbacks.Add<ember_full_callback>((tokens, positions, turns, data) => callbacks.Run(() => drop(tokens, positions, turns), 0u));
            }
            Calls.Check(Native.ember_conversation_set_on_full(Handle, callback, IntPtr.Zero, out error), error);
            onFull = callbacks;
        }

        /// <summary>Frees the conversation, once a call that is using it has ended.</summary>
        public void Dispose()
        {
            registration.Dispose();
            handle.Dispose();
            if (ownsSampler) sampler.Dispose();
        }
    }

    /// <summary>A reply under way: its events.</summary>
    public sealed class Reply : EventStream<ReplyEvent>
    {
        private readonly Conversation conversation;
        private bool complete;

        internal Reply(Conversation conversation)
        {
            this.conversation = conversation;
        }

        internal override ReplyEvent Next(out bool last)
        {
            var next = conversation.Next();
            last = complete = next.IsEnd;
            return next;
        }

        internal override void End() => conversation.EndReply(complete);

        /// <summary>Takes all events; gives the whole reply.</summary>
        public Answer ReadToEnd() => ReadToEnd(null);

        internal Answer ReadToEnd(Action<ReplyEvent> each)
        {
            var text = new StringBuilder();
            var thinking = new StringBuilder();
            var calls = new List<ReplyEvent>();
            var finish = FinishReason.None;
            foreach (var one in this)
            {
                if (one.IsText) text.Append(one.Text);
                else if (one.IsThinking) thinking.Append(one.Text);
                else if (one.IsCall) calls.Add(one);
                finish = one.Finish ?? finish;
                each?.Invoke(one);
            }
            return new Answer(text.ToString(), thinking.ToString(), calls, finish);
        }
    }

    /// <summary>What a reply took.</summary>
    public sealed class ReplyUsage
    {
        internal ReplyUsage(ember_conversation_usage raw)
        {
            PromptTokens = raw.n_prompt;
            ReusedTokens = raw.n_reused;
            GeneratedTokens = raw.n_generated;
            ThinkingTokens = raw.n_thinking;
            DroppedTurns = raw.n_dropped_turns;
            ForgottenTokens = raw.n_forgotten;
            Prefill = Calls.Time(raw.prefill_ns);
            Decode = Calls.Time(raw.decode_ns);
            Finish = Calls.Finish(raw.finish_reason);
        }

        /// <summary>Tokens of the whole conversation, as it was when the reply began.</summary>
        public uint PromptTokens { get; }

        /// <summary>Of these, those that the context held already.</summary>
        public uint ReusedTokens { get; }

        /// <summary>Tokens generated.</summary>
        public uint GeneratedTokens { get; }

        /// <summary>Of these, those of thoughts.</summary>
        public uint ThinkingTokens { get; }

        /// <summary>Turns that were dropped before the reply, because the conversation had become too long.</summary>
        public uint DroppedTurns { get; }

        /// <summary>Tokens that the context forgot with them, without running what stands after them again.</summary>
        public uint ForgottenTokens { get; }

        /// <summary>Time spent on the prompt.</summary>
        public TimeSpan Prefill { get; }

        /// <summary>Time spent on the generated tokens.</summary>
        public TimeSpan Decode { get; }

        /// <summary>Why the reply ended; null while it is under way.</summary>
        public FinishReason? Finish { get; }
    }
}
