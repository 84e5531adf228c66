using Ember.Interop;

namespace Ember
{
    /// <summary>The dimensions of a model.</summary>
    public sealed class ModelInfo
    {
        internal ModelInfo(ember_model_info raw)
        {
            Parameters = raw.n_params;
            FileSize = raw.file_size;
            VocabularySize = raw.n_vocab;
            TrainedContext = raw.n_ctx_train;
            EmbeddingLength = raw.n_embd;
            VectorLength = raw.n_embd_out;
            Prompts = raw.n_prompts;
            Layers = raw.n_layer;
            Heads = raw.n_head;
            KvHeads = raw.n_head_kv;
            HeadLength = raw.head_dim;
            FeedForwardLength = raw.n_ff;
            Experts = raw.n_expert;
            ExpertsUsed = raw.n_expert_used;
            Bos = Calls.Token(raw.bos_token);
            Eos = Calls.Token(raw.eos_token);
            Eot = Calls.Token(raw.eot_token);
            Unk = Calls.Token(raw.unk_token);
            Pad = Calls.Token(raw.pad_token);
            HasTokenizer = raw.has_tokenizer != 0;
            AddsBos = raw.add_bos != 0;
            IsCausal = raw.causal != 0;
            Pooling = (Pooling)raw.pooling;
            HasChatTemplate = raw.has_chat_template != 0;
        }

        /// <summary>Number of weights.</summary>
        public ulong Parameters { get; }

        /// <summary>Bytes of the model's files.</summary>
        public ulong FileSize { get; }

        /// <summary>Logits per position; tokens are below it.</summary>
        public uint VocabularySize { get; }

        /// <summary>Positions the model was trained on.</summary>
        public uint TrainedContext { get; }

        /// <summary>Width of the residual stream.</summary>
        public uint EmbeddingLength { get; }

        /// <summary>Numbers of a text's vector: EmbeddingLength, but in models with dense modules after the pooling.</summary>
        public uint VectorLength { get; }

        /// <summary>Prompts for texts to be embedded, by their names (EmbedOptions.Prompt).</summary>
        public uint Prompts { get; }

        /// <summary>Layers.</summary>
        public uint Layers { get; }

        /// <summary>Query heads.</summary>
        public uint Heads { get; }

        /// <summary>Heads of keys and values.</summary>
        public uint KvHeads { get; }

        /// <summary>Length of a head's vector.</summary>
        public uint HeadLength { get; }

        /// <summary>Width of the feed-forward block.</summary>
        public uint FeedForwardLength { get; }

        /// <summary>Experts of a layer; 0: there are none.</summary>
        public uint Experts { get; }

        /// <summary>Experts of a token.</summary>
        public uint ExpertsUsed { get; }

        /// <summary>Beginning of a sequence.</summary>
        public uint? Bos { get; }

        /// <summary>End of a sequence.</summary>
        public uint? Eos { get; }

        /// <summary>End of a turn.</summary>
        public uint? Eot { get; }

        /// <summary>For what no other token stands for.</summary>
        public uint? Unk { get; }

        /// <summary>Padding.</summary>
        public uint? Pad { get; }

        /// <summary>Whether the file has a tokenizer.</summary>
        public bool HasTokenizer { get; }

        /// <summary>Whether a text gets the beginning of a sequence before it.</summary>
        public bool AddsBos { get; }

        /// <summary>True: the model gives logits; false: an encoder, which gives embeddings only.</summary>
        public bool IsCausal { get; }

        /// <summary>How embeddings are pooled, as the file says; Auto where it says nothing.</summary>
        public Pooling Pooling { get; }

        /// <summary>Whether the file has a chat template.</summary>
        public bool HasChatTemplate { get; }
    }

    /// <summary>Bytes that a model and a context take.</summary>
    public sealed class Memory
    {
        internal Memory(ember_memory raw)
        {
            File = raw.file;
            Weights = raw.weights;
            Kv = raw.kv;
            Workspace = raw.workspace;
        }

        /// <summary>Of the file's mapping, which the system may take back and read again.</summary>
        public ulong File { get; }

        /// <summary>Of weights in memory of their own.</summary>
        public ulong Weights { get; }

        /// <summary>Of what sequences are kept in.</summary>
        public ulong Kv { get; }

        /// <summary>Of all else that computing needs.</summary>
        public ulong Workspace { get; }
    }
}
