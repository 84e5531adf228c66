using System;
using System.Collections.Generic;
using System.Linq;
using System.Runtime.InteropServices;
using System.Threading;
using Ember.Interop;

namespace Ember
{
    /// <summary>A stage of one's own: may change the logits of these tokens, which the stages before have left; -infinity rules one out.</summary>
    public delegate void ChangeLogits(uint[] tokens, float[] logits);

    /// <summary>
    /// Draws tokens: by hand from logits (Context.Decode), or in generations that get it by GenerateOptions.Sampler. Stages come in the order of the
    /// calls that add them. It keeps its random numbers and what it accepted from one generation to the next. One thread at a time.
    /// </summary>
    public sealed class Sampler : IDisposable
    {
        private readonly EmberHandle handle;

        /// <summary>A sampler without stages. The same seed gives the same text; null: a random one.</summary>
        public Sampler(ulong? seed = null)
        {
            IntPtr pointer, error;
            Calls.Check(Native.ember_sampler_new(seed ?? Native.EMBER_SEED_RANDOM, out pointer, out error), error);
            handle = new EmberHandle("sampler", pointer, Native.ember_sampler_free, new Callbacks());
        }

        internal Sampler(IntPtr pointer, Callbacks callbacks)
        {
            handle = new EmberHandle("sampler", pointer, Native.ember_sampler_free, callbacks);
        }

        /// <summary>The ember_sampler, for functions of Ember.Interop.Native. It stays this object's.</summary>
        public EmberHandle Handle => handle.Open;

        internal Callbacks Callbacks => handle.Callbacks;

        private Sampler Added(Status status, IntPtr error)
        {
            Calls.Check(status, error);
            return this;
        }

        /// <summary>Takes the likeliest token.</summary>
        public Sampler Greedy()
        {
            IntPtr error;
            return Added(Native.ember_sampler_add_greedy(Handle, out error), error);
        }

        /// <summary>Divides the logits by t; 0 takes the likeliest token.</summary>
        public Sampler Temperature(float t)
        {
            IntPtr error;
            return Added(Native.ember_sampler_add_temperature(Handle, t, out error), error);
        }

        /// <summary>Keeps the k likeliest tokens.</summary>
        public Sampler TopK(uint k)
        {
            IntPtr error;
            return Added(Native.ember_sampler_add_top_k(Handle, k, out error), error);
        }

        /// <summary>Keeps the likeliest tokens that make up p.</summary>
        public Sampler TopP(float p)
        {
            IntPtr error;
            return Added(Native.ember_sampler_add_top_p(Handle, p, out error), error);
        }

        /// <summary>Keeps tokens at least p times as likely as the likeliest.</summary>
        public Sampler MinP(float p)
        {
            IntPtr error;
            return Added(Native.ember_sampler_add_min_p(Handle, p, out error), error);
        }

        /// <summary>Keeps the tokens whose surprise is closest to the expected one, until their probabilities add up to more than p.</summary>
        public Sampler TypicalP(float p)
        {
            IntPtr error;
            return Added(Native.ember_sampler_add_typical_p(Handle, p, out error), error);
        }

        /// <summary>Keeps the tokens whose logits are at most so many standard deviations of all below the largest; 0 keeps all.</summary>
        public Sampler TopNSigma(float n)
        {
            IntPtr error;
            return Added(Native.ember_sampler_add_top_n_sigma(Handle, n, out error), error);
        }

        /// <summary>A temperature between t - range and t + range, which grows with the entropy of the distribution to the power `exponent`.</summary>
        public Sampler DynamicTemperature(float t, float range, float exponent)
        {
            IntPtr error;
            return Added(Native.ember_sampler_add_dynamic_temperature(Handle, t, range, exponent, out error), error);
        }

        /// <summary>As often as `probability` says, removes all tokens at least as probable as `threshold` but the least likely of them.</summary>
        public Sampler Xtc(float probability, float threshold)
        {
            IntPtr error;
            return Added(Native.ember_sampler_add_xtc(Handle, probability, threshold, out error), error);
        }

        /// <summary>
        /// Makes tokens less likely that are among the last n. A positive logit is divided by `repeat` (1 changes nothing), another one multiplied.
        /// `frequency` is taken off for each time the token occurred, and `presence` once.
        /// </summary>
        public Sampler Penalties(uint n, float repeat, float frequency, float presence)
        {
            IntPtr error;
            return Added(Native.ember_sampler_add_penalties(Handle, n, repeat, frequency, presence, out error), error);
        }

        /// <summary>Whether `frequency` and `presence` count the tokens that were generated and no others; by default all.</summary>
        public Sampler PenaltiesOfGenerated(bool only)
        {
            IntPtr error;
            return Added(Native.ember_sampler_set_penalties_generated_only(Handle, only, out error), error);
        }

        /// <summary>
        /// Makes tokens less likely that would continue a passage which the last n tokens have already. It takes `multiplier` times `base` to the
        /// power of (length of the passage - `allowedLength`) off their logits. No passage goes beyond a breaker; null: line end, colon, quotation
        /// mark, asterisk. The model is the one to sample for.
        /// </summary>
        public Sampler Dry(Model model, float multiplier, float @base, uint allowedLength, uint n, IEnumerable<string> breakers = null)
        {
            IntPtr error;
            var its = Calls.Given(model, nameof(model)).Handle;
            if (breakers == null)
            {
                return Added(Native.ember_sampler_add_dry(
                    Handle, its, multiplier, @base, allowedLength, n, null, null, UIntPtr.Zero, out error), error);
            }
            using (var texts = new Texts(breakers, nameof(breakers)))
            {
                return Added(Native.ember_sampler_add_dry(
                    Handle, its, multiplier, @base, allowedLength, n, texts.Pointers, texts.Lengths, texts.Count, out error), error);
            }
        }

        /// <summary>Keeps tokens whose surprise is below a bound, which follows `tau` bits at the rate `eta`. It is the last stage as a rule.</summary>
        public Sampler Mirostat(float tau, float eta)
        {
            IntPtr error;
            return Added(Native.ember_sampler_add_mirostat(Handle, tau, eta, out error), error);
        }

        /// <summary>Mirostat's first version, which looks at the m likeliest tokens; 100 is usual.</summary>
        public Sampler Mirostat1(float tau, float eta, uint m)
        {
            IntPtr error;
            return Added(Native.ember_sampler_add_mirostat_1(Handle, tau, eta, m, out error), error);
        }

        /// <summary>Makes tokens the likelier, the nearer their probability is to a target, which moves so that `target` is their average.</summary>
        public Sampler AdaptiveP(float target, float decay)
        {
            IntPtr error;
            return Added(Native.ember_sampler_add_adaptive_p(Handle, target, decay, out error), error);
        }

        /// <summary>Adds to the logits of tokens; -infinity rules one out.</summary>
        public Sampler Bias(IDictionary<uint, float> biases)
        {
            IntPtr error;
            var pairs = Calls.Given(biases, nameof(biases)).ToArray();
            var tokens = pairs.Select(pair => pair.Key).ToArray();
            return Added(Native.ember_sampler_add_bias(
                Handle, tokens, pairs.Select(pair => pair.Value).ToArray(), tokens.Size(), out error), error);
        }

        /// <summary>Keeps these tokens only.</summary>
        public Sampler Allow(params uint[] tokens)
        {
            IntPtr error;
            return Added(Native.ember_sampler_add_allow(Handle, Calls.Given(tokens, nameof(tokens)), tokens.Size(), out error), error);
        }

        /// <summary>Rules these tokens out.</summary>
        public Sampler Deny(params uint[] tokens)
        {
            IntPtr error;
            return Added(Native.ember_sampler_add_deny(Handle, Calls.Given(tokens, nameof(tokens)), tokens.Size(), out error), error);
        }

        /// <summary>Keeps the tokens that may be next in a text that follows this: a constraint as a stage. Make it the first.</summary>
        public Sampler Constrained(Constraint constraint)
        {
            IntPtr error;
            return Added(Native.ember_sampler_add_constraint(Handle, Calls.Given(constraint, nameof(constraint)).Handle, out error), error);
        }

        /// <summary>
        /// For filling a gap, after TopK and TopP: ends the text rather than go on with something unlikely. The model is the one to sample for.
        /// </summary>
        public Sampler Infill(Model model)
        {
            IntPtr error;
            return Added(Native.ember_sampler_add_infill(Handle, Calls.Given(model, nameof(model)).Handle, out error), error);
        }

        /// <summary>
        /// A stage of one's own, on the thread that samples. An exception from it ends the generation and is rethrown. Not for requests of an engine.
        /// </summary>
        public Sampler Candidates(ChangeLogits change)
        {
            Calls.Given(change, nameof(change));
            var callbacks = Callbacks;
            var callback = callbacks.Add<ember_candidates_callback>((tokens, logits, n, data) => callbacks.Run(() =>
            {
                var ids = new int[Calls.Int(n)];
                var values = new float[ids.Length];
                Marshal.Copy(tokens, ids, 0, ids.Length);
                Marshal.Copy(logits, values, 0, values.Length);
                change(Array.ConvertAll(ids, id => unchecked((uint)id)), values);
                Marshal.Copy(values, 0, logits, values.Length);
                return 0;
            }, 1));
            IntPtr error;
            return Added(Native.ember_sampler_add_callback(Handle, callback, IntPtr.Zero, out error), error);
        }

        /// <summary>Chooses a token from logits, whose index is the token. It accepts nothing.</summary>
        public uint Sample(float[] logits)
        {
            uint token;
            IntPtr error;
            var status = Native.ember_sampler_sample(Handle, Calls.Given(logits, nameof(logits)), logits.Size(), out token, out error);
            Calls.Check(status, error, CancellationToken.None, Callbacks);
            return token;
        }

        /// <summary>Tells the stages that look back that a token is part of the text now.</summary>
        public void Accept(uint token)
        {
            IntPtr error;
            Calls.Check(Native.ember_sampler_accept(Handle, token, out error), error);
        }

        /// <summary>Starts over, as if it were new; the stages stay.</summary>
        public void Reset()
        {
            IntPtr error;
            Calls.Check(Native.ember_sampler_reset(Handle, out error), error);
        }

        /// <summary>Another one with the same stages and their state, and random numbers that go on from where these are.</summary>
        public Sampler Copy()
        {
            IntPtr pointer, error;
            Calls.Check(Native.ember_sampler_clone(Handle, out pointer, out error), error);
            return new Sampler(pointer, Callbacks);
        }

        /// <summary>The seed of its random numbers.</summary>
        public ulong Seed
        {
            get
            {
                ulong seed;
                IntPtr error;
                Calls.Check(Native.ember_sampler_seed(Handle, out seed, out error), error);
                return seed;
            }
        }

        /// <summary>How far the text is that follows a constraint (Constrained).</summary>
        public ConstraintProgress Progress
        {
            get
            {
                int progress;
                IntPtr error;
                Calls.Check(Native.ember_sampler_progress(Handle, out progress, out error), error);
                return (ConstraintProgress)progress;
            }
        }

        /// <summary>Frees the sampler; generations that have it keep what they need.</summary>
        public void Dispose() => handle.Dispose();
    }
}
