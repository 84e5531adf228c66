using System.Collections.Generic;
using Ember.Interop;

namespace Ember
{
    /// <summary>A part of a reply as it streams.</summary>
    public sealed class ReplyEvent
    {
        internal ReplyEvent(ember_chat_event raw)
        {
            Kind = (ChatEventKind)raw.kind;
            Text = Calls.Text(raw.text, raw.text_len);
            Index = raw.index;
            Name = Calls.Text(raw.name, raw.name_len);
            Id = Calls.Text(raw.id, raw.id_len);
            Reason = Calls.Text(raw.reason, raw.reason_len);
            Finish = Calls.Finish(raw.finish_reason);
        }

        /// <summary>What it is.</summary>
        public ChatEventKind Kind { get; }

        /// <summary>Of the answer, of a thought, of arguments (JSON), or what the model wrote of a call that is broken.</summary>
        public string Text { get; }

        /// <summary>The place of the call among those of the reply.</summary>
        public uint Index { get; }

        /// <summary>The name of the tool that is called.</summary>
        public string Name { get; }

        /// <summary>The id of the call.</summary>
        public string Id { get; }

        /// <summary>Why a call is broken.</summary>
        public string Reason { get; }

        /// <summary>Why the reply ended; null before.</summary>
        public FinishReason? Finish { get; }

        /// <summary>Whether it is more of the answer. Text that began as a call but is none belongs to the answer.</summary>
        public bool IsText => Kind == ChatEventKind.Text || Kind == ChatEventKind.CallBroken;

        /// <summary>Whether it is more of a thought.</summary>
        public bool IsThinking => Kind == ChatEventKind.Thinking;

        /// <summary>Whether a call is complete, with all arguments as Text.</summary>
        public bool IsCall => Kind == ChatEventKind.CallDone;

        /// <summary>Whether this is the last event.</summary>
        public bool IsEnd => Kind == ChatEventKind.End;
    }

    /// <summary>All of a reply.</summary>
    public sealed class Answer
    {
        internal Answer(string text, string thinking, IReadOnlyList<ReplyEvent> calls, FinishReason finish)
        {
            Text = text;
            Thinking = thinking;
            Calls = calls;
            Finish = finish;
        }

        /// <summary>The answer's text.</summary>
        public string Text { get; }

        /// <summary>What was thought before it.</summary>
        public string Thinking { get; }

        /// <summary>The calls, complete.</summary>
        public IReadOnlyList<ReplyEvent> Calls { get; }

        /// <summary>Why the reply ended.</summary>
        public FinishReason Finish { get; }
    }
}
