using System;
using Ember.Interop;

namespace Ember
{
    /// <summary>How a context is made. A property that is null keeps the library's default.</summary>
    public sealed class ContextOptions
    {
        /// <summary>Positions of each sequence; by default what the model was trained on, but no more than 4096.</summary>
        public uint? Positions { get; set; }

        /// <summary>Threads, the calling one included; by default one for each core.</summary>
        public uint? Threads { get; set; }

        /// <summary>Number of sequences; by default 1.</summary>
        public uint? Sequences { get; set; }

        /// <summary>Rows run through the model at a time.</summary>
        public uint? Batch { get; set; }

        /// <summary>The CPUs, by the system's numbers, that the context's own threads run on; by default the system chooses.</summary>
        public uint[] WorkerCpus { get; set; }

        /// <summary>What keys and values are rounded to.</summary>
        public KvType? KvType { get; set; }

        /// <summary>As KvType, for keys alone.</summary>
        public KvType? KType { get; set; }

        /// <summary>As KvType, for values alone.</summary>
        public KvType? VType { get; set; }

        /// <summary>Implementation of the mathematics: the fastest there is, or the plain scalar definition.</summary>
        public Backend? Backend { get; set; }

        /// <summary>Most bytes of the KV cache.</summary>
        public ulong? KvLimit { get; set; }

        /// <summary>Whether pages are kept that no sequence has, so that texts which begin alike need not be computed again.</summary>
        public bool? KeepPrefixes { get; set; }

        /// <summary>Whether sequences keep all their positions in layers with a window.</summary>
        public bool? KeepAllPositions { get; set; }

        /// <summary>How many snapshots of recurrent states there can be.</summary>
        public uint? Snapshots { get; set; }

        /// <summary>How many tokens lie between two of them within a prompt.</summary>
        public uint? SnapshotDistance { get; set; }

        /// <summary>Most bytes of the context's large buffers.</summary>
        public ulong? MemoryLimit { get; set; }

        /// <summary>The ember_context_options.</summary>
        internal EmberHandle Make()
        {
            IntPtr pointer, error;
            Calls.Check(Native.ember_context_options_new(out pointer, out error), error);
            var to = new EmberHandle("options", pointer, Native.ember_context_options_free);
            try
            {
                if (Positions.HasValue) Calls.Check(Native.ember_context_options_set_n_ctx(to, Positions.Value, out error), error);
                if (Sequences.HasValue) Calls.Check(Native.ember_context_options_set_n_seq(to, Sequences.Value, out error), error);
                if (Batch.HasValue) Calls.Check(Native.ember_context_options_set_n_batch(to, Batch.Value, out error), error);
                if (Threads.HasValue) Calls.Check(Native.ember_context_options_set_n_threads(to, Threads.Value, out error), error);
                if (WorkerCpus != null)
                {
                    Calls.Check(Native.ember_context_options_set_worker_cpus(to, WorkerCpus, WorkerCpus.Size(), out error), error);
                }
                if (KvType.HasValue) Calls.Check(Native.ember_context_options_set_kv_type(to, (int)KvType.Value, out error), error);
                if (KType.HasValue) Calls.Check(Native.ember_context_options_set_k_type(to, (int)KType.Value, out error), error);
                if (VType.HasValue) Calls.Check(Native.ember_context_options_set_v_type(to, (int)VType.Value, out error), error);
                if (Backend.HasValue) Calls.Check(Native.ember_context_options_set_backend(to, (int)Backend.Value, out error), error);
                if (KvLimit.HasValue) Calls.Check(Native.ember_context_options_set_kv_limit(to, KvLimit.Value, out error), error);
                if (KeepPrefixes.HasValue) Calls.Check(Native.ember_context_options_set_keep_prefixes(to, KeepPrefixes.Value, out error), error);
                if (KeepAllPositions.HasValue)
                {
                    Calls.Check(Native.ember_context_options_set_keep_all_positions(to, KeepAllPositions.Value, out error), error);
                }
                if (Snapshots.HasValue) Calls.Check(Native.ember_context_options_set_n_snapshots(to, Snapshots.Value, out error), error);
                if (SnapshotDistance.HasValue)
                {
                    Calls.Check(Native.ember_context_options_set_snapshot_distance(to, SnapshotDistance.Value, out error), error);
                }
                if (MemoryLimit.HasValue) Calls.Check(Native.ember_context_options_set_memory_limit(to, MemoryLimit.Value, out error), error);
                return to;
            }
            catch
            {
                to.Dispose();
                throw;
            }
        }
    }

    /// <summary>The options of a context that are in force.</summary>
    public sealed class ContextInfo
    {
        internal ContextInfo(ember_context_info raw)
        {
            Positions = raw.n_ctx;
            Sequences = raw.n_seq;
            Batch = raw.n_batch;
            Threads = raw.n_threads;
            PageLength = raw.page_len;
            Pages = raw.n_pages;
            FreePages = raw.n_free_pages;
            Backend = (Backend)raw.backend;
        }

        /// <summary>Positions of each sequence.</summary>
        public uint Positions { get; }

        /// <summary>Sequences.</summary>
        public uint Sequences { get; }

        /// <summary>Rows run through the model at a time.</summary>
        public uint Batch { get; }

        /// <summary>Threads, the caller's included.</summary>
        public uint Threads { get; }

        /// <summary>Tokens of a page of the KV cache.</summary>
        public uint PageLength { get; }

        /// <summary>Pages of the KV cache.</summary>
        public uint Pages { get; }

        /// <summary>Pages that no sequence has.</summary>
        public uint FreePages { get; }

        /// <summary>Implementation of the mathematics.</summary>
        public Backend Backend { get; }
    }

    /// <summary>What a context has run, and how long that took, since it was made or Context.ResetTimings.</summary>
    public sealed class Timings
    {
        internal Timings(ember_timings raw)
        {
            Load = Calls.Time(raw.load_ns);
            PrefillTokens = raw.n_prefill;
            Prefill = Calls.Time(raw.prefill_ns);
            DecodeTokens = raw.n_decode;
            Decode = Calls.Time(raw.decode_ns);
            EmbedTokens = raw.n_embed;
            Embed = Calls.Time(raw.embed_ns);
            ReplayTokens = raw.n_replay;
            Replay = Calls.Time(raw.replay_ns);
        }

        /// <summary>The model's loading.</summary>
        public TimeSpan Load { get; }

        /// <summary>Tokens of prompts.</summary>
        public ulong PrefillTokens { get; }

        /// <summary>Their time.</summary>
        public TimeSpan Prefill { get; }

        /// <summary>Tokens one by one: generation.</summary>
        public ulong DecodeTokens { get; }

        /// <summary>Their time.</summary>
        public TimeSpan Decode { get; }

        /// <summary>Tokens of texts that were embedded.</summary>
        public ulong EmbedTokens { get; }

        /// <summary>Their time.</summary>
        public TimeSpan Embed { get; }

        /// <summary>Tokens that were run once more for recurrent layers.</summary>
        public ulong ReplayTokens { get; }

        /// <summary>Their time.</summary>
        public TimeSpan Replay { get; }
    }
}
