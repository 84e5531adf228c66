using System;
using System.Collections.Generic;
using Ember.Interop;

namespace Ember
{
    /// <summary>Turns text into tokens and back: a model's own (Model.CreateTokenizer), or one that is loaded alone. For any number of threads.</summary>
    public sealed class Tokenizer : IDisposable
    {
        private readonly EmberHandle handle;

        internal Tokenizer(IntPtr pointer)
        {
            handle = new EmberHandle("tokenizer", pointer, Native.ember_tokenizer_release);
        }

        /// <summary>The ember_tokenizer, for functions of Ember.Interop.Native. It stays this object's.</summary>
        public EmberHandle Handle => handle.Open;

        /// <summary>Loads a tokenizer without a model, of a GGUF file, which need not have tensors, of a Hugging Face folder, or of a tokenizer.json.</summary>
        public static Tokenizer Load(string path)
        {
            var bytes = Calls.Utf8(path, nameof(path));
            IntPtr pointer, error;
            Calls.Check(Native.ember_tokenizer_load(bytes, bytes.Size(), out pointer, out error), error);
            return new Tokenizer(pointer);
        }

        /// <summary>Loads one from the bytes of a GGUF file or of a tokenizer.json.</summary>
        public static Tokenizer Load(byte[] bytes)
        {
            IntPtr pointer, error;
            Calls.Check(Native.ember_tokenizer_load_buffer(Calls.Given(bytes, nameof(bytes)), bytes.Size(), out pointer, out error), error);
            return new Tokenizer(pointer);
        }

        /// <summary>What is known of the tokens.</summary>
        public TokenizerInfo Info
        {
            get
            {
                var raw = new ember_tokenizer_info { struct_size = Calls.SizeOf<ember_tokenizer_info>() };
                IntPtr error;
                Calls.Check(Native.ember_tokenizer_info_get(Handle, ref raw, out error), error);
                return new TokenizerInfo(raw);
            }
        }

        /// <summary>The tokens of a text. `addSpecial` adds those that texts begin with; `parseSpecial` takes the text of control tokens for them.</summary>
        public uint[] Tokenize(string text, bool addSpecial = true, bool parseSpecial = false)
        {
            var bytes = Calls.Utf8(text, nameof(text));
            return Calls.Filled(bytes.Length + 8L, (uint[] buffer, UIntPtr capacity, out UIntPtr needed, out IntPtr error) =>
                Native.ember_tokenizer_tokenize(Handle, bytes, bytes.Size(), addSpecial, parseSpecial, buffer, capacity, out needed, out error));
        }

        /// <summary>As Tokenize, for bytes that need not be UTF-8.</summary>
        public uint[] Tokenize(byte[] bytes, bool addSpecial = true, bool parseSpecial = false)
        {
            Calls.Given(bytes, nameof(bytes));
            return Calls.Filled(bytes.Length + 8L, (uint[] buffer, UIntPtr capacity, out UIntPtr needed, out IntPtr error) =>
                Native.ember_tokenizer_tokenize_bytes(Handle, bytes, bytes.Size(), addSpecial, parseSpecial, buffer, capacity, out needed, out error));
        }

        /// <summary>How many tokens Tokenize would give.</summary>
        public ulong Count(string text, bool addSpecial = true, bool parseSpecial = false)
        {
            var bytes = Calls.Utf8(text, nameof(text));
            UIntPtr n;
            IntPtr error;
            Calls.Check(Native.ember_tokenizer_count(Handle, bytes, bytes.Size(), addSpecial, parseSpecial, out n, out error), error);
            return (ulong)n;
        }

        /// <summary>The text of tokens, taken for the beginning of a text. `renderSpecial` writes control tokens instead of leaving them out.</summary>
        public string Detokenize(uint[] tokens, bool renderSpecial = false)
        {
            Calls.Given(tokens, nameof(tokens));
            return Calls.FilledText(8L * tokens.Length + 8, (byte[] buffer, UIntPtr capacity, out UIntPtr needed, out IntPtr error) =>
                Native.ember_tokenizer_detokenize(Handle, tokens, tokens.Size(), renderSpecial, buffer, capacity, out needed, out error));
        }

        /// <summary>The exact bytes of a token, perhaps a part of a code point.</summary>
        public byte[] Bytes(uint token)
        {
            return Calls.Filled(64, (byte[] buffer, UIntPtr capacity, out UIntPtr needed, out IntPtr error) =>
                Native.ember_tokenizer_token_bytes(Handle, token, buffer, capacity, out needed, out error));
        }

        /// <summary>Whether a token controls the model instead of being text.</summary>
        public bool IsControl(uint token)
        {
            byte control;
            IntPtr error;
            Calls.Check(Native.ember_tokenizer_token_is_control(Handle, token, out control, out error), error);
            return control != 0;
        }

        /// <summary>Whether a token ends a generation.</summary>
        public bool IsEndOfGeneration(uint token)
        {
            byte ends;
            IntPtr error;
            Calls.Check(Native.ember_tokenizer_token_is_eog(Handle, token, out ends, out error), error);
            return ends != 0;
        }

        /// <summary>The tokens of a prompt that asks for what stands between two texts: for Context.Generate.</summary>
        public uint[] FimPrompt(string prefix, string suffix, FimOptions options = null)
        {
            var before = Calls.Utf8(prefix, nameof(prefix));
            var after = Calls.Utf8(suffix, nameof(suffix));
            using (var how = (options ?? new FimOptions()).Make())
            {
                return Calls.Filled(256, (uint[] buffer, UIntPtr capacity, out UIntPtr needed, out IntPtr error) =>
                    Native.ember_tokenizer_fim_prompt(
                        Handle, before, before.Size(), after, after.Size(), how, buffer, capacity, out needed, out error));
            }
        }

        /// <summary>Gives the tokenizer back.</summary>
        public void Dispose() => handle.Dispose();
    }

    /// <summary>What is known of the tokens of a tokenizer.</summary>
    public sealed class TokenizerInfo
    {
        internal TokenizerInfo(ember_tokenizer_info raw)
        {
            VocabularySize = raw.n_vocab;
            Bos = Calls.Token(raw.bos_token);
            Eos = Calls.Token(raw.eos_token);
            Eot = Calls.Token(raw.eot_token);
            Unk = Calls.Token(raw.unk_token);
            Pad = Calls.Token(raw.pad_token);
            AddsBos = raw.add_bos != 0;
            AddsEos = raw.add_eos != 0;
            HasChatTemplate = raw.has_chat_template != 0;
            FimPrefix = Calls.Token(raw.fim_prefix_token);
            FimSuffix = Calls.Token(raw.fim_suffix_token);
            FimMiddle = Calls.Token(raw.fim_middle_token);
            FimRepository = Calls.Token(raw.fim_repository_token);
            FimFile = Calls.Token(raw.fim_file_token);
        }

        /// <summary>Tokens are below it.</summary>
        public uint VocabularySize { get; }

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

        /// <summary>Whether a text gets a token before it where that is asked for.</summary>
        public bool AddsBos { get; }

        /// <summary>Whether it gets one after it.</summary>
        public bool AddsEos { get; }

        /// <summary>Whether there is a chat template.</summary>
        public bool HasChatTemplate { get; }

        /// <summary>Before the text that a gap comes after.</summary>
        public uint? FimPrefix { get; }

        /// <summary>Before the text that comes after the gap.</summary>
        public uint? FimSuffix { get; }

        /// <summary>Where the gap is filled.</summary>
        public uint? FimMiddle { get; }

        /// <summary>Before the name of a repository.</summary>
        public uint? FimRepository { get; }

        /// <summary>Before the name of a file.</summary>
        public uint? FimFile { get; }
    }

    /// <summary>What a prompt to fill a gap has beside the text around it: for Tokenizer.FimPrompt.</summary>
    public sealed class FimOptions
    {
        /// <summary>In which order the parts stand; by default the model's.</summary>
        public FimOrder? Order { get; set; }

        /// <summary>The name of the repository, which stands first.</summary>
        public string Repository { get; set; }

        /// <summary>The name of the file that has the gap.</summary>
        public string File { get; set; }

        /// <summary>Other files, name and text, which stand before the one with the gap.</summary>
        public IList<KeyValuePair<string, string>> Files { get; } = new List<KeyValuePair<string, string>>();

        /// <summary>The ember_fim_options.</summary>
        internal EmberHandle Make()
        {
            IntPtr pointer, error;
            Calls.Check(Native.ember_fim_options_new(out pointer, out error), error);
            var to = new EmberHandle("options", pointer, Native.ember_fim_options_free);
            try
            {
                if (Order.HasValue) Calls.Check(Native.ember_fim_options_set_order(to, (int)Order.Value, out error), error);
                if (Repository != null)
                {
                    var name = Calls.Utf8(Repository, nameof(Repository));
                    Calls.Check(Native.ember_fim_options_set_repository(to, name, name.Size(), out error), error);
                }
                if (File != null)
                {
                    var name = Calls.Utf8(File, nameof(File));
                    Calls.Check(Native.ember_fim_options_set_file(to, name, name.Size(), out error), error);
                }
                foreach (var file in Files)
                {
                    var name = Calls.Utf8(file.Key, nameof(Files));
                    var text = Calls.Utf8(file.Value, nameof(Files));
                    Calls.Check(Native.ember_fim_options_add_file(to, name, name.Size(), text, text.Size(), out error), error);
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
