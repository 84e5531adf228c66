using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Text;

namespace Ember
{
    /// <summary>A part of a conversation.</summary>
    public sealed class Message
    {
        /// <summary>A message of a role: "system", "user", "assistant", or "tool" for the result of a call.</summary>
        public Message(string role, string content, string name = null, string toolCallId = null)
        {
            Role = Calls.Given(role, nameof(role));
            Content = Calls.Given(content, nameof(content));
            Name = name;
            ToolCallId = toolCallId;
        }

        /// <summary>Who says it.</summary>
        public string Role { get; }

        /// <summary>The text.</summary>
        public string Content { get; }

        /// <summary>Of the tool that was called, or null.</summary>
        public string Name { get; }

        /// <summary>The id of the call, or null.</summary>
        public string ToolCallId { get; }

        /// <summary>What a user says.</summary>
        public static Message User(string content) => new Message("user", content);

        /// <summary>What the model hears first.</summary>
        public static Message System(string content) => new Message("system", content);

        /// <summary>What the model said.</summary>
        public static Message Assistant(string content) => new Message("assistant", content);

        /// <summary>The result of a call that a reply had.</summary>
        public static Message Tool(ReplyEvent call, string content)
        {
            return new Message("tool", content, Calls.Given(call, nameof(call)).Name, call.Id);
        }

        /// <summary>The messages as a JSON array.</summary>
        internal static string Json(IEnumerable<Message> messages)
        {
            return "[" + string.Join(",", Calls.Given(messages, nameof(messages)).Select(one => Calls.Given(one, nameof(messages)).Json())) + "]";
        }

        /// <summary>The message as a JSON object.</summary>
        internal string Json()
        {
            var members = new[] { Member("role", Role), Member("content", Content), Member("name", Name), Member("tool_call_id", ToolCallId) };
            return "{" + string.Join(",", members.Where(member => member != null)) + "}";
        }

        private static string Member(string name, string value) => value == null ? null : "\"" + name + "\":" + Quoted(value);

        private static string Quoted(string text)
        {
            var quoted = new StringBuilder("\"");
            foreach (var c in text)
            {
                if (c == '"' || c == '\\') quoted.Append('\\').Append(c);
                else if (c < ' ') quoted.Append("\\u").Append(((int)c).ToString("x4", CultureInfo.InvariantCulture));
                else quoted.Append(c);
            }
            return quoted.Append('"').ToString();
        }
    }
}
