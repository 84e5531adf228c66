using System;
using System.Collections.Generic;
using System.Linq;
using Ember.Interop;

namespace Ember
{
    /// <summary>How to embed. A property that is null keeps the library's default.</summary>
    public sealed class EmbedOptions
    {
        /// <summary>Which hidden states make a text's vector; by default as the model's file says, or the mean.</summary>
        public Pooling? Pooling { get; set; }

        /// <summary>Whether each vector is scaled to length 1; by default where the model does, and not for one vector per token.</summary>
        public bool? Normalize { get; set; }

        /// <summary>Whether a text that is too long is cut instead of refused; by default false.</summary>
        public bool? Truncate { get; set; }

        /// <summary>How many numbers of each vector are kept, the first ones; 0: all.</summary>
        public uint? Dimensions { get; set; }

        /// <summary>The name of the model's prompt that is put before each text, such as "query"; by default the model's default prompt.</summary>
        public string Prompt { get; set; }

        /// <summary>Numbers of a model's vector before Dimensions of them are kept.</summary>
        internal int Whole(ModelInfo info)
        {
            var pooling = Pooling.HasValue && Pooling.Value != Ember.Pooling.Auto ? Pooling.Value : info.Pooling;
            return checked((int)(pooling == Ember.Pooling.None ? info.EmbeddingLength : info.VectorLength));
        }

        /// <summary>Numbers of a model's vector.</summary>
        internal int Width(ModelInfo info) => Dimensions.HasValue && Dimensions.Value > 0 ? checked((int)Dimensions.Value) : Whole(info);

        /// <summary>The ember_embed_options.</summary>
        internal EmberHandle Make()
        {
            IntPtr pointer, error;
            Calls.Check(Native.ember_embed_options_new(out pointer, out error), error);
            var to = new EmberHandle("options", pointer, Native.ember_embed_options_free);
            try
            {
                if (Pooling.HasValue) Calls.Check(Native.ember_embed_options_set_pooling(to, (int)Pooling.Value, out error), error);
                if (Normalize.HasValue) Calls.Check(Native.ember_embed_options_set_normalize(to, Normalize.Value, out error), error);
                if (Truncate.HasValue) Calls.Check(Native.ember_embed_options_set_truncate(to, Truncate.Value, out error), error);
                if (Dimensions.HasValue) Calls.Check(Native.ember_embed_options_set_dimensions(to, (UIntPtr)Dimensions.Value, out error), error);
                if (Prompt != null)
                {
                    var name = Calls.Utf8(Prompt, nameof(Prompt));
                    Calls.Check(Native.ember_embed_options_set_prompt(to, name, name.Size(), out error), error);
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

    /// <summary>How texts are scored by Context.Classify and Context.Rerank. A property that is null keeps the library's default.</summary>
    public sealed class ClassifyOptions
    {
        /// <summary>What is done to the head's outputs.</summary>
        public ClassifyActivation? Activation { get; set; }

        /// <summary>Whether a text that is too long is cut instead of refused; by default false.</summary>
        public bool? Truncate { get; set; }

        /// <summary>The prompt of rerankers that are decoders, with the places `{query}` and `{document}`.</summary>
        public string Template { get; set; }

        /// <summary>Whether scores are those of the answers "yes" and "no" of a decoder.</summary>
        public bool? YesNo { get; set; }

        /// <summary>The ember_classify_options.</summary>
        internal EmberHandle Make()
        {
            IntPtr pointer, error;
            Calls.Check(Native.ember_classify_options_new(out pointer, out error), error);
            var to = new EmberHandle("options", pointer, Native.ember_classify_options_free);
            try
            {
                if (Activation.HasValue) Calls.Check(Native.ember_classify_options_set_activation(to, (int)Activation.Value, out error), error);
                if (Truncate.HasValue) Calls.Check(Native.ember_classify_options_set_truncate(to, Truncate.Value, out error), error);
                if (Template != null)
                {
                    var text = Calls.Utf8(Template, nameof(Template));
                    Calls.Check(Native.ember_classify_options_set_template(to, text, text.Size(), out error), error);
                }
                if (YesNo.HasValue) Calls.Check(Native.ember_classify_options_set_yes_no(to, YesNo.Value, out error), error);
                return to;
            }
            catch
            {
                to.Dispose();
                throw;
            }
        }
    }

    /// <summary>How likely a text is after another one.</summary>
    public sealed class Score
    {
        internal Score(IEnumerable<ember_token_score> tokens, ember_score_result raw)
        {
            Tokens = tokens.Select(one => new TokenScore(one)).ToArray();
            Logprob = raw.logprob;
            PromptTokens = raw.n_prompt;
            ReusedTokens = raw.n_reused;
            IsGreedy = raw.is_greedy != 0;
        }

        /// <summary>What each token of the continuation scores.</summary>
        public IReadOnlyList<TokenScore> Tokens { get; }

        /// <summary>The sum of their log-probabilities.</summary>
        public double Logprob { get; }

        /// <summary>Tokens before them.</summary>
        public uint PromptTokens { get; }

        /// <summary>Of these, those that the sequence held already.</summary>
        public uint ReusedTokens { get; }

        /// <summary>Whether taking the likeliest token each time would have given the continuation.</summary>
        public bool IsGreedy { get; }
    }

    /// <summary>What a token scores.</summary>
    public sealed class TokenScore
    {
        internal TokenScore(ember_token_score raw)
        {
            Token = raw.token;
            Logprob = raw.logprob;
            Rank = raw.rank;
        }

        /// <summary>The token.</summary>
        public uint Token { get; }

        /// <summary>Its log-probability given all tokens before it.</summary>
        public float Logprob { get; }

        /// <summary>How many tokens are likelier at its place.</summary>
        public uint Rank { get; }
    }
}
