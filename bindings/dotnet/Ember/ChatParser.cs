using System;
using System.Collections.Generic;
using Ember.Interop;

namespace Ember
{
    /// <summary>
    /// Reads a reply of a model while it streams, for generations of your own: the answer, what is thought before it, and calls of tools.
    /// Model.CreateChatParser makes it. One thread at a time. Have the generation write control tokens (GenerateOptions.RenderSpecial), of which
    /// marks often are made.
    /// </summary>
    public sealed class ChatParser : IDisposable
    {
        private readonly EmberHandle handle;

        internal ChatParser(IntPtr pointer)
        {
            handle = new EmberHandle("parser", pointer, Native.ember_chat_parser_free);
        }

        /// <summary>The ember_chat_parser, for functions of Ember.Interop.Native. It stays this object's.</summary>
        public EmberHandle Handle => handle.Open;

        /// <summary>Takes more of the reply, the text of an Event, and gives the events that are certain now.</summary>
        public IReadOnlyList<ReplyEvent> Push(string text)
        {
            var bytes = Calls.Utf8(text, nameof(text));
            IntPtr error;
            Calls.Check(Native.ember_chat_parser_push(Handle, bytes, bytes.Size(), out error), error);
            return Events();
        }

        /// <summary>Ends the reply and gives the events that waited for more.</summary>
        public IReadOnlyList<ReplyEvent> Finish(FinishReason finish)
        {
            IntPtr error;
            Calls.Check(Native.ember_chat_parser_finish(Handle, (int)finish, out error), error);
            return Events();
        }

        private IReadOnlyList<ReplyEvent> Events()
        {
            var all = new List<ReplyEvent>();
            while (true)
            {
                var raw = new ember_chat_event { struct_size = Calls.SizeOf<ember_chat_event>() };
                IntPtr error;
                Calls.Check(Native.ember_chat_parser_next(Handle, ref raw, out error), error);
                if (raw.kind == (int)ChatEventKind.None) return all;
                all.Add(new ReplyEvent(raw));
            }
        }

        /// <summary>Whether the reply is inside a thought now.</summary>
        public bool IsThinking
        {
            get
            {
                uint thinking;
                IntPtr error;
                Calls.Check(Native.ember_chat_parser_is_thinking(Handle, out thinking, out error), error);
                return thinking != 0;
            }
        }

        /// <summary>How the model writes replies.</summary>
        public ChatFormat Format
        {
            get
            {
                var raw = new ember_chat_format { struct_size = Calls.SizeOf<ember_chat_format>() };
                IntPtr error;
                Calls.Check(Native.ember_chat_parser_format(Handle, ref raw, out error), error);
                return new ChatFormat(raw);
            }
        }

        /// <summary>Frees the parser.</summary>
        public void Dispose() => handle.Dispose();
    }

    /// <summary>How a model writes thoughts and calls, as its chat template says.</summary>
    public sealed class ChatFormat
    {
        internal ChatFormat(ember_chat_format raw)
        {
            Calls = Ember.Calls.Text(raw.name, raw.name_len);
            ThinkingOpen = Ember.Calls.Text(raw.thinking_open, raw.thinking_open_len);
            ThinkingClose = Ember.Calls.Text(raw.thinking_close, raw.thinking_close_len);
            ThinkingVariable = Ember.Calls.Text(raw.thinking_variable, raw.thinking_variable_len);
            ThinkingOn = Ember.Calls.Text(raw.thinking_on, raw.thinking_on_len);
            ThinkingOff = Ember.Calls.Text(raw.thinking_off, raw.thinking_off_len);
        }

        /// <summary>The form of calls, "hermes" for example; "": none is known, calls come as text.</summary>
        public string Calls { get; }

        /// <summary>The mark before a thought; "": there are none.</summary>
        public string ThinkingOpen { get; }

        /// <summary>The mark after it.</summary>
        public string ThinkingClose { get; }

        /// <summary>The variable of the template that switches thinking; "": there is none.</summary>
        public string ThinkingVariable { get; }

        /// <summary>Its value in JSON with which the model thinks.</summary>
        public string ThinkingOn { get; }

        /// <summary>And with which it does not.</summary>
        public string ThinkingOff { get; }
    }
}
