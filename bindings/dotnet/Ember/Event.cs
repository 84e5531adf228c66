using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;
using Ember.Interop;

namespace Ember
{
    /// <summary>What happens in a generation: the prompt's text (GenerateOptions.Echo), a token, or the end.</summary>
    public sealed class Event
    {
        /// <summary>What the library wrote; `usage` gives that of an end.</summary>
        internal Event(ember_event raw, Func<Usage> usage)
        {
            Text = Calls.Text(raw.text, raw.text_len);
            Token = Calls.Token(raw.token);
            Logprob = raw.logprob;
            Finish = Calls.Finish(raw.finish_reason);
            Usage = Finish == null ? null : usage();
            Progress = Usage?.Progress;
            var top = new Likely[Calls.Int(raw.n_tops)];
            var size = Marshal.SizeOf(typeof(ember_token_logprob));
            for (var i = 0; i < top.Length; i++)
            {
                top[i] = new Likely((ember_token_logprob)Marshal.PtrToStructure(IntPtr.Add(raw.tops, i * size), typeof(ember_token_logprob)));
            }
            Top = top;
        }

        /// <summary>New text, of whole code points, perhaps none; the texts of all events in a row are the whole text.</summary>
        public string Text { get; }

        /// <summary>The token; null for the prompt and at the end.</summary>
        public uint? Token { get; }

        /// <summary>Its log-probability, or NaN when not asked for.</summary>
        public float Logprob { get; }

        /// <summary>The likeliest tokens at its place, the likeliest first, as many as GenerateOptions.TopLogprobs says.</summary>
        public IReadOnlyList<Likely> Top { get; }

        /// <summary>Why the generation ended; null before.</summary>
        public FinishReason? Finish { get; }

        /// <summary>How far the text is that follows a constraint; null before the end.</summary>
        public ConstraintProgress? Progress { get; }

        /// <summary>What the generation did; null before the end.</summary>
        public Usage Usage { get; }

        /// <summary>Whether this is the prompt's text.</summary>
        public bool IsEcho => Token == null && Finish == null;

        /// <summary>Whether this is the last event.</summary>
        public bool IsEnd => Finish != null;
    }

    /// <summary>A token that was likely.</summary>
    public sealed class Likely
    {
        internal Likely(ember_token_logprob raw)
        {
            Token = raw.token;
            Logprob = raw.logprob;
        }

        /// <summary>The token.</summary>
        public uint Token { get; }

        /// <summary>Its log-probability.</summary>
        public float Logprob { get; }
    }

    /// <summary>What a generation did.</summary>
    public sealed class Usage
    {
        internal delegate Status Get(ref ember_generate_result raw, out IntPtr error);

        internal static Usage Of(Get get)
        {
            var raw = new ember_generate_result { struct_size = Calls.SizeOf<ember_generate_result>() };
            IntPtr error;
            Calls.Check(get(ref raw, out error), error);
            return new Usage(raw);
        }

        private Usage(ember_generate_result raw)
        {
            PromptTokens = raw.n_prompt;
            ReusedTokens = raw.n_reused;
            GeneratedTokens = raw.n_generated;
            DraftedTokens = raw.n_drafted;
            AcceptedTokens = raw.n_accepted;
            ShiftedTokens = raw.n_shifted;
            ForcedTokens = raw.n_forced;
            Prefill = Calls.Time(raw.prefill_ns);
            Decode = Calls.Time(raw.decode_ns);
            SumLogprob = raw.sum_logprob;
            MeanLogprob = raw.mean_logprob;
            Finish = Calls.Finish(raw.finish_reason);
            Progress = (ConstraintProgress)raw.progress;
        }

        /// <summary>Tokens of the prompt, BOS included.</summary>
        public uint PromptTokens { get; }

        /// <summary>Of these, those that the sequence held already.</summary>
        public uint ReusedTokens { get; }

        /// <summary>Tokens generated, an end-of-generation token not counted.</summary>
        public uint GeneratedTokens { get; }

        /// <summary>Draft tokens that were run ahead (GenerateOptions.Lookup, GenerateOptions.Draft).</summary>
        public uint DraftedTokens { get; }

        /// <summary>Of these, those that were accepted.</summary>
        public uint AcceptedTokens { get; }

        /// <summary>Tokens that were forgotten because the sequence was full (GenerateOptions.Shift).</summary>
        public ulong ShiftedTokens { get; }

        /// <summary>Tokens that a constraint left no choice for and that were run together with others.</summary>
        public uint ForcedTokens { get; }

        /// <summary>Time spent on the prompt.</summary>
        public TimeSpan Prefill { get; }

        /// <summary>Time spent on the generated tokens, the caller's own work between them not counted.</summary>
        public TimeSpan Decode { get; }

        /// <summary>Sum of the log-probabilities of the generated tokens; NaN without GenerateOptions.Logprobs.</summary>
        public double SumLogprob { get; }

        /// <summary>Their mean.</summary>
        public double MeanLogprob { get; }

        /// <summary>Why it ended; null while it has not.</summary>
        public FinishReason? Finish { get; }

        /// <summary>How far the text is that follows a constraint.</summary>
        public ConstraintProgress Progress { get; }
    }

    /// <summary>All of a generation.</summary>
    public sealed class Completion
    {
        internal Completion(string text, Usage usage)
        {
            Text = text;
            Usage = usage;
        }

        /// <summary>The text.</summary>
        public string Text { get; }

        /// <summary>Why it ended.</summary>
        public FinishReason Finish => Usage.Finish.Value;

        /// <summary>What the generation did.</summary>
        public Usage Usage { get; }
    }
}
