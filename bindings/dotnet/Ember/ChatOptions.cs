using System;
using Ember.Interop;

namespace Ember
{
    /// <summary>How messages become text, and how replies to them are read. A property that is null keeps the library's default.</summary>
    public sealed class ChatOptions
    {
        /// <summary>The tools that the model may call, a JSON array.</summary>
        public string Tools { get; set; }

        /// <summary>"auto", as by default, "none", "required", or a tool's name.</summary>
        public string ToolChoice { get; set; }

        /// <summary>Whether a reply may have several calls, as by default.</summary>
        public bool? ParallelCalls { get; set; }

        /// <summary>Whether calls in conversations follow the schemas of the tools, so that they always parse, as by default.</summary>
        public bool? StrictTools { get; set; }

        /// <summary>Whether the model thinks before it answers; by default as the template has it.</summary>
        public Thinking? Thinking { get; set; }

        /// <summary>More variables for the template, a JSON object.</summary>
        public string Variables { get; set; }

        /// <summary>A template in place of the model's.</summary>
        public string Template { get; set; }

        /// <summary>One of the model's templates.</summary>
        public string TemplateName { get; set; }

        /// <summary>What time it is for templates that write the date, as a clock shows it; by default the system's universal time.</summary>
        public DateTime? Now { get; set; }

        /// <summary>Whether Model.ApplyChatTemplate and Model.TokenizeChat end with what comes before an answer; by default true.</summary>
        public bool? AddGenerationPrompt { get; set; }

        private delegate Status Setting(EmberHandle to, byte[] text, UIntPtr length, out IntPtr error);

        private static void Set(EmberHandle to, string text, string name, Setting set)
        {
            if (text == null) return;
            var bytes = Calls.Utf8(text, name);
            IntPtr error;
            Calls.Check(set(to, bytes, bytes.Size(), out error), error);
        }

        /// <summary>The ember_chat_options.</summary>
        internal EmberHandle Make()
        {
            IntPtr pointer, error;
            Calls.Check(Native.ember_chat_options_new(out pointer, out error), error);
            var to = new EmberHandle("options", pointer, Native.ember_chat_options_free);
            try
            {
                Set(to, Template, nameof(Template), Native.ember_chat_options_set_template);
                Set(to, TemplateName, nameof(TemplateName), Native.ember_chat_options_set_template_name);
                Set(to, Tools, nameof(Tools), Native.ember_chat_options_set_tools);
                Set(to, ToolChoice, nameof(ToolChoice), Native.ember_chat_options_set_tool_choice);
                Set(to, Variables, nameof(Variables), Native.ember_chat_options_set_variables);
                if (ParallelCalls.HasValue) Calls.Check(Native.ember_chat_options_set_parallel_calls(to, ParallelCalls.Value, out error), error);
                if (StrictTools.HasValue) Calls.Check(Native.ember_chat_options_set_strict_tools(to, StrictTools.Value, out error), error);
                if (Thinking.HasValue) Calls.Check(Native.ember_chat_options_set_thinking(to, (int)Thinking.Value, out error), error);
                if (Now.HasValue)
                {
                    var seconds = (long)Math.Floor((Now.Value - new DateTime(1970, 1, 1)).TotalSeconds);
                    Calls.Check(Native.ember_chat_options_set_now(to, seconds, out error), error);
                }
                if (AddGenerationPrompt.HasValue)
                {
                    Calls.Check(Native.ember_chat_options_set_add_generation_prompt(to, AddGenerationPrompt.Value, out error), error);
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
}
