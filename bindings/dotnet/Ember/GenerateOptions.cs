using System;
using System.Collections.Generic;
using Ember.Interop;

namespace Ember
{
    /// <summary>How to generate. A property that is null keeps the library's default.</summary>
    public sealed class GenerateOptions
    {
        /// <summary>The most tokens to generate; by default 128.</summary>
        public uint? MaxTokens { get; set; }

        /// <summary>Texts before which the generation ends.</summary>
        public IList<string> Stop { get; } = new List<string>();

        /// <summary>Chooses the tokens; null: the likeliest. It keeps its random numbers from one generation to the next.</summary>
        public Sampler Sampler { get; set; }

        /// <summary>What the generated text has to follow; Event.Progress of the last event says whether it is complete.</summary>
        public Constraint Constraint { get; set; }

        /// <summary>Which sequence of the context goes on, from 0 on; completions take this one and those after it.</summary>
        public uint? Sequence { get; set; }

        /// <summary>
        /// Whether the text of control tokens in a prompt stands for these tokens, as it does in what Model.ApplyChatTemplate gave; by default it
        /// is text.
        /// </summary>
        public bool? ParseSpecial { get; set; }

        /// <summary>Writes the control tokens that the model generates, which are left out by default: for ChatParser.</summary>
        public bool? RenderSpecial { get; set; }

        /// <summary>Goes on after an end-of-generation token.</summary>
        public bool? IgnoreEog { get; set; }

        /// <summary>Keeps the stop text at the end of the text.</summary>
        public bool? IncludeStop { get; set; }

        /// <summary>Takes the prompt for all that the context shall hold and runs what is new of it; by default for Context.Chat alone.</summary>
        public bool? ReusePrefix { get; set; }

        /// <summary>Has the first event be the prompt's text.</summary>
        public bool? Echo { get; set; }

        /// <summary>Has events tell the log-probability of their token.</summary>
        public bool? Logprobs { get; set; }

        /// <summary>Has events tell as many of the likeliest tokens at the place of their token.</summary>
        public uint? TopLogprobs { get; set; }

        /// <summary>Ends the generation after this time, of whole milliseconds; zero: never.</summary>
        public TimeSpan? TimeLimit { get; set; }

        /// <summary>Which of the requests that wait in an engine's queue begins first: that of the highest priority; 0 by default.</summary>
        public int? Priority { get; set; }

        /// <summary>What happens when the context is full; null: the generation ends.</summary>
        public Shift Shift { get; set; }

        /// <summary>Proposes draft tokens by looking for the last ones in the text; the text stays what it is, and comes faster where it repeats.</summary>
        public Lookup Lookup { get; set; }

        /// <summary>Has a context of a smaller model propose draft tokens; the text stays what it is.</summary>
        public Draft Draft { get; set; }

        /// <summary>The sampler's handle, or none for the likeliest tokens.</summary>
        internal EmberHandle SamplerHandle => Sampler == null ? EmberHandle.None : Sampler.Handle;

        /// <summary>What C calls for the sampler.</summary>
        internal Callbacks SamplerCallbacks => Sampler == null ? Callbacks.None : Sampler.Callbacks;

        /// <summary>The ember_generate_options, until the token is cancelled, if there is one.</summary>
        internal EmberHandle Make(EmberHandle cancel, bool reusePrefix)
        {
            IntPtr pointer, error;
            Calls.Check(Native.ember_generate_options_new(out pointer, out error), error);
            var made = new EmberHandle("options", pointer, Native.ember_generate_options_free);
            try
            {
                Set(made, cancel, reusePrefix);
                return made;
            }
            catch
            {
                made.Dispose();
                throw;
            }
        }

        private void Set(EmberHandle to, EmberHandle cancel, bool reusePrefix)
        {
            IntPtr error;
            if (MaxTokens.HasValue) Calls.Check(Native.ember_generate_options_set_max_tokens(to, MaxTokens.Value, out error), error);
            foreach (var stop in Stop)
            {
                var bytes = Calls.Utf8(stop, nameof(Stop));
                Calls.Check(Native.ember_generate_options_add_stop(to, bytes, bytes.Size(), out error), error);
            }
            if (Constraint != null) Calls.Check(Native.ember_generate_options_set_constraint(to, Constraint.Handle, out error), error);
            if (Sequence.HasValue) Calls.Check(Native.ember_generate_options_set_sequence(to, Sequence.Value, out error), error);
            if (ParseSpecial.HasValue) Calls.Check(Native.ember_generate_options_set_parse_special(to, ParseSpecial.Value, out error), error);
            if (RenderSpecial.HasValue) Calls.Check(Native.ember_generate_options_set_render_special(to, RenderSpecial.Value, out error), error);
            if (IgnoreEog.HasValue) Calls.Check(Native.ember_generate_options_set_ignore_eog(to, IgnoreEog.Value, out error), error);
            if (IncludeStop.HasValue) Calls.Check(Native.ember_generate_options_set_include_stop(to, IncludeStop.Value, out error), error);
            Calls.Check(Native.ember_generate_options_set_reuse_prefix(to, ReusePrefix ?? reusePrefix, out error), error);
            if (Echo.HasValue) Calls.Check(Native.ember_generate_options_set_echo(to, Echo.Value, out error), error);
            if (Logprobs.HasValue) Calls.Check(Native.ember_generate_options_set_logprobs(to, Logprobs.Value, out error), error);
            if (TopLogprobs.HasValue) Calls.Check(Native.ember_generate_options_set_n_top(to, TopLogprobs.Value, out error), error);
            if (TimeLimit.HasValue)
            {
                if (TimeLimit.Value < TimeSpan.Zero) throw new ArgumentOutOfRangeException(nameof(TimeLimit), TimeLimit.Value, "a time limit is not negative");
                var milliseconds = (ulong)Math.Ceiling(TimeLimit.Value.TotalMilliseconds);
                Calls.Check(Native.ember_generate_options_set_time_limit(to, milliseconds, out error), error);
            }
            if (Priority.HasValue) Calls.Check(Native.ember_generate_options_set_priority(to, Priority.Value, out error), error);
            if (Shift != null) Calls.Check(Native.ember_generate_options_set_shift(to, Shift.Keep, Shift.Drop, out error), error);
            if (Lookup != null) Calls.Check(Native.ember_generate_options_set_lookup(to, Lookup.Tokens, Lookup.Ngram, out error), error);
            if (Draft != null)
            {
                Calls.Check(Native.ember_generate_options_set_draft(to, Draft.Context.Handle, Draft.Sequence, Draft.Tokens, out error), error);
            }
            if (cancel != null) Calls.Check(Native.ember_generate_options_set_cancel_token(to, cancel, out error), error);
        }
    }

    /// <summary>When the context is full, keeps the first tokens, forgets some after them, and goes on.</summary>
    public sealed class Shift
    {
        /// <summary>Keeps `keep` tokens and forgets `drop` after them.</summary>
        public Shift(uint keep, uint drop)
        {
            Keep = keep;
            Drop = drop;
        }

        /// <summary>How many are kept.</summary>
        public uint Keep { get; }

        /// <summary>How many are forgotten each time.</summary>
        public uint Drop { get; }
    }

    /// <summary>Draft tokens that are looked up in the text.</summary>
    public sealed class Lookup
    {
        /// <summary>Up to `tokens` of them, where the last `ngram` are found.</summary>
        public Lookup(uint tokens, uint ngram)
        {
            Tokens = tokens;
            Ngram = ngram;
        }

        /// <summary>The most that are proposed.</summary>
        public uint Tokens { get; }

        /// <summary>How many are looked for.</summary>
        public uint Ngram { get; }
    }

    /// <summary>Draft tokens of a smaller model with the same vocabulary.</summary>
    public sealed class Draft
    {
        /// <summary>Up to `tokens` of them, proposed by a context in a sequence of its own.</summary>
        public Draft(Context context, uint tokens, uint sequence = 0)
        {
            Context = Calls.Given(context, nameof(context));
            Tokens = tokens;
            Sequence = sequence;
        }

        /// <summary>The context of the smaller model.</summary>
        public Context Context { get; }

        /// <summary>The most that are proposed.</summary>
        public uint Tokens { get; }

        /// <summary>The sequence that it proposes in.</summary>
        public uint Sequence { get; }
    }
}
