using System;
using System.Collections.Generic;
using Ember.Interop;

namespace Ember
{
    /// <summary>
    /// What a text has to follow, compiled for the tokens of a model: for GenerateOptions.Constraint. It is made once and used by many generations of
    /// the model, on any number of threads. Ember refuses what it cannot enforce: an EmberException names it.
    /// </summary>
    public sealed class Constraint : IDisposable
    {
        private readonly EmberHandle handle;

        private Constraint(IntPtr pointer)
        {
            handle = new EmberHandle("constraint", pointer, Native.ember_constraint_free);
        }

        /// <summary>The ember_constraint, for functions of Ember.Interop.Native. It stays this object's.</summary>
        public EmberHandle Handle => handle.Open;

        private delegate Status Making(EmberHandle model, EmberHandle options, out IntPtr made, out IntPtr error);

        private static Constraint Make(Model model, ConstraintOptions options, Making make)
        {
            using (var how = (options ?? new ConstraintOptions()).Make())
            {
                IntPtr pointer, error;
                Calls.Check(make(Calls.Given(model, nameof(model)).Handle, how, out pointer, out error), error);
                return new Constraint(pointer);
            }
        }

        /// <summary>JSON that a JSON Schema describes.</summary>
        public static Constraint JsonSchema(Model model, string schema, ConstraintOptions options = null)
        {
            var bytes = Calls.Utf8(schema, nameof(schema));
            return Make(model, options, (EmberHandle m, EmberHandle how, out IntPtr made, out IntPtr error) =>
                Native.ember_constraint_new_json_schema(m, bytes, bytes.Size(), how, out made, out error));
        }

        /// <summary>A JSON object, whatever it holds.</summary>
        public static Constraint JsonObject(Model model, ConstraintOptions options = null)
        {
            return Make(model, options, (EmberHandle m, EmberHandle how, out IntPtr made, out IntPtr error) =>
                Native.ember_constraint_new_json_object(m, how, out made, out error));
        }

        /// <summary>What a regular expression matches as a whole, in the syntax of Rust's crate regex.</summary>
        public static Constraint Regex(Model model, string regex, ConstraintOptions options = null)
        {
            var bytes = Calls.Utf8(regex, nameof(regex));
            return Make(model, options, (EmberHandle m, EmberHandle how, out IntPtr made, out IntPtr error) =>
                Native.ember_constraint_new_regex(m, bytes, bytes.Size(), how, out made, out error));
        }

        /// <summary>What a grammar in the syntax of Lark derives from its rule "start".</summary>
        public static Constraint Lark(Model model, string grammar, ConstraintOptions options = null)
        {
            var bytes = Calls.Utf8(grammar, nameof(grammar));
            return Make(model, options, (EmberHandle m, EmberHandle how, out IntPtr made, out IntPtr error) =>
                Native.ember_constraint_new_lark(m, bytes, bytes.Size(), how, out made, out error));
        }

        /// <summary>One of these texts.</summary>
        public static Constraint Choices(Model model, IEnumerable<string> texts, ConstraintOptions options = null)
        {
            using (var all = new Texts(texts, nameof(texts)))
            {
                return Make(model, options, (EmberHandle m, EmberHandle how, out IntPtr made, out IntPtr error) =>
                    Native.ember_constraint_new_choices(m, all.Pointers, all.Lengths, all.Count, how, out made, out error));
            }
        }

        /// <summary>
        /// What holds the calls of a reply to the schemas of their tools; null where there is nothing to hold: without tools, say. `prompt` is what
        /// Model.ApplyChatTemplate gave with the same options, or "". For generations of your own; a conversation does this by itself.
        /// </summary>
        public static Constraint Chat(Model model, ChatOptions options, string prompt = "")
        {
            var bytes = Calls.Utf8(prompt, nameof(prompt));
            using (var how = Calls.Given(options, nameof(options)).Make())
            {
                IntPtr pointer, error;
                Calls.Check(Native.ember_chat_constraint(
                    Calls.Given(model, nameof(model)).Handle, how, bytes, bytes.Size(), out pointer, out error), error);
                return pointer == IntPtr.Zero ? null : new Constraint(pointer);
            }
        }

        /// <summary>Frees the constraint; generations that have it keep what they need.</summary>
        public void Dispose() => handle.Dispose();
    }

    /// <summary>How to make a constraint.</summary>
    public sealed class ConstraintOptions
    {
        /// <summary>Most characters of white space between two parts of JSON, at most 256; by default 32.</summary>
        public uint? Whitespace { get; set; }

        /// <summary>Texts that leave the text free until one of them was generated; the constraint begins after it.</summary>
        public IList<string> Triggers { get; } = new List<string>();

        /// <summary>The same for tokens.</summary>
        public IList<uint> TriggerTokens { get; } = new List<uint>();

        /// <summary>Leaves the text free again after the constraint's end, until the next trigger; otherwise the text ends there.</summary>
        public bool? Repeat { get; set; }

        /// <summary>Bounds on work and memory. Where one is reached, making the constraint fails, or the generation ends with an error.</summary>
        public IDictionary<ConstraintLimit, ulong> Limits { get; } = new Dictionary<ConstraintLimit, ulong>();

        internal EmberHandle Make()
        {
            IntPtr pointer, error;
            Calls.Check(Native.ember_constraint_options_new(out pointer, out error), error);
            var to = new EmberHandle("options", pointer, Native.ember_constraint_options_free);
            try
            {
                if (Whitespace.HasValue) Calls.Check(Native.ember_constraint_options_set_whitespace(to, Whitespace.Value, out error), error);
                foreach (var text in Triggers)
                {
                    var bytes = Calls.Utf8(text, nameof(Triggers));
                    Calls.Check(Native.ember_constraint_options_add_trigger_text(to, bytes, bytes.Size(), out error), error);
                }
                foreach (var token in TriggerTokens)
                {
                    Calls.Check(Native.ember_constraint_options_add_trigger_token(to, token, out error), error);
                }
                if (Repeat.HasValue) Calls.Check(Native.ember_constraint_options_set_repeat(to, Repeat.Value, out error), error);
                foreach (var limit in Limits)
                {
                    Calls.Check(Native.ember_constraint_options_set_limit(to, (int)limit.Key, limit.Value, out error), error);
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
