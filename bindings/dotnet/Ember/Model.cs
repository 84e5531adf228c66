using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Threading;
using System.Threading.Tasks;
using Ember.Interop;

namespace Ember
{
    /// <summary>A loaded model: immutable, for any number of threads and contexts, which keep it.</summary>
    public sealed class Model : IDisposable
    {
        private static readonly ConcurrentDictionary<long, Action> Lent = new ConcurrentDictionary<long, Action>();
        private static long loans;

        // Called by the library on any thread, with the number of a loan; it is never freed.
        private static readonly ember_release_callback GivenBack = loan => Callbacks.Alone(() =>
        {
            Action released;
            if (Lent.TryRemove(loan.ToInt64(), out released)) released();
        });

        private readonly EmberHandle handle;

        private Model(IntPtr pointer)
        {
            handle = new EmberHandle("model", pointer, Native.ember_model_release);
        }

        /// <summary>The ember_model, for functions of Ember.Interop.Native. It stays this object's.</summary>
        public EmberHandle Handle => handle.Open;

        private delegate Status Loading(EmberHandle options, out IntPtr made, out IntPtr error);

        private static Model Load(ModelOptions options, CancellationToken cancellation, Loading load)
        {
            using (var cancel = cancellation.CanBeCanceled ? new Cancelling(cancellation) : null)
            using (var how = (options ?? new ModelOptions()).Make(cancel?.Handle))
            {
                IntPtr pointer, error;
                var status = load(how, out pointer, out error);
                Calls.Check(status, error, cancellation, how.Callbacks);
                return new Model(pointer);
            }
        }

        /// <summary>Loads a GGUF file or a folder of Hugging Face.</summary>
        public static Model Load(string path, ModelOptions options = null, CancellationToken cancellation = default(CancellationToken))
        {
            var bytes = Calls.Utf8(path, nameof(path));
            return Load(options, cancellation, (EmberHandle how, out IntPtr made, out IntPtr error) =>
                Native.ember_model_load(bytes, bytes.Size(), how, out made, out error));
        }

        /// <summary>As Load, on a thread of its own.</summary>
        public static Task<Model> LoadAsync(string path, ModelOptions options = null, CancellationToken cancellation = default(CancellationToken))
        {
            return Tasks.Run(() => Load(path, options, cancellation), cancellation);
        }

        /// <summary>Loads a GGUF file that lies in memory, of which the model has a copy.</summary>
        public static Model Load(byte[] bytes, ModelOptions options = null, CancellationToken cancellation = default(CancellationToken))
        {
            Calls.Given(bytes, nameof(bytes));
            return Load(options, cancellation, (EmberHandle how, out IntPtr made, out IntPtr error) =>
                Native.ember_model_load_buffer(bytes, bytes.Size(), how, out made, out error));
        }

        /// <summary>
        /// Loads a GGUF file that is a part of an open file, `length` bytes from `offset` on, to its end where `length` is 0: for files without a
        /// path, such as Android's assets. The descriptor is the system's number; it stays the caller's, who may close it afterwards.
        /// </summary>
        public static Model Load(
            int descriptor, ulong offset, ulong length, ModelOptions options = null, CancellationToken cancellation = default(CancellationToken))
        {
            return Load(options, cancellation, (EmberHandle how, out IntPtr made, out IntPtr error) =>
                Native.ember_model_load_fd(descriptor, offset, length, how, out made, out error));
        }

        /// <summary>
        /// Loads a GGUF file that lies in memory that no garbage collector moves, without a copy. The bytes must stay as they are until `released`
        /// is called, once, on any thread, when nothing needs them any more. Where loading fails, it is not called.
        /// </summary>
        public static Model LoadBorrowed(
            IntPtr bytes, ulong length, Action released, ModelOptions options = null, CancellationToken cancellation = default(CancellationToken))
        {
            var loan = Interlocked.Increment(ref loans);
            Lent[loan] = Calls.Given(released, nameof(released));
            try
            {
                return Load(options, cancellation, (EmberHandle how, out IntPtr made, out IntPtr error) =>
                    Native.ember_model_load_borrowed(bytes, (UIntPtr)length, GivenBack, (IntPtr)loan, how, out made, out error));
            }
            catch
            {
                Action none;
                Lent.TryRemove(loan, out none);
                throw;
            }
        }

        /// <summary>What the header of a model's file says, a JSON object, with all metadata and whether the model would load. No weight is read.</summary>
        public static string Inspect(string path)
        {
            var bytes = Calls.Utf8(path, nameof(path));
            return Calls.FilledText(8192, (byte[] buffer, UIntPtr capacity, out UIntPtr needed, out IntPtr error) =>
                Native.ember_model_inspect(bytes, bytes.Size(), buffer, capacity, out needed, out error));
        }

        /// <summary>What loading a model and making a context would take, without doing it. Limits of the options do not count.</summary>
        public static Memory EstimateMemory(string path, ModelOptions options = null, ContextOptions context = null)
        {
            var bytes = Calls.Utf8(path, nameof(path));
            using (var model = (options ?? new ModelOptions()).Make(null))
            using (var how = (context ?? new ContextOptions()).Make())
            {
                return EstimateMemory(bytes, model, how);
            }
        }

        private static Memory EstimateMemory(byte[] path, EmberHandle model, EmberHandle context)
        {
            var raw = new ember_memory { struct_size = Calls.SizeOf<ember_memory>() };
            IntPtr error;
            Calls.Check(Native.ember_memory_estimate(path, path.Size(), model, context, ref raw, out error), error);
            return new Memory(raw);
        }

        /// <summary>Another reference to the model, to be disposed of by itself.</summary>
        internal EmberHandle Retain()
        {
            var mine = Handle;
            var added = false;
            mine.DangerousAddRef(ref added);
            try
            {
                return new EmberHandle("model", Native.ember_model_retain(mine.DangerousGetHandle()), Native.ember_model_release);
            }
            finally
            {
                mine.DangerousRelease();
            }
        }

        /// <summary>A context; by default with as many positions as the model was trained on, but no more than 4096, and a thread for each core.</summary>
        public Context CreateContext(ContextOptions options = null)
        {
            using (var how = (options ?? new ContextOptions()).Make())
            {
                IntPtr pointer, error;
                Calls.Check(Native.ember_context_new(Handle, how, out pointer, out error), error);
                return new Context(pointer, Retain());
            }
        }

        /// <summary>An engine, which runs many requests together.</summary>
        public Engine CreateEngine(EngineOptions options = null)
        {
            using (var how = (options ?? new EngineOptions()).Make())
            {
                IntPtr pointer, error;
                Calls.Check(Native.ember_engine_new(Handle, how, out pointer, out error), error);
                return new Engine(pointer);
            }
        }

        /// <summary>The model's dimensions.</summary>
        public ModelInfo Info => InfoOf(Handle);

        internal static ModelInfo InfoOf(EmberHandle model)
        {
            var raw = new ember_model_info { struct_size = Calls.SizeOf<ember_model_info>() };
            IntPtr error;
            Calls.Check(Native.ember_model_info_get(model, ref raw, out error), error);
            return new ModelInfo(raw);
        }

        /// <summary>Bytes that the model takes, nothing of contexts.</summary>
        public Memory Memory
        {
            get
            {
                var raw = new ember_memory { struct_size = Calls.SizeOf<ember_memory>() };
                IntPtr error;
                Calls.Check(Native.ember_model_memory(Handle, ref raw, out error), error);
                return new Memory(raw);
            }
        }

        /// <summary>The instruction-set level that the model's contexts compute with, "avx512" for example.</summary>
        public string Isa => Calls.Text(Native.ember_model_isa(Handle));

        /// <summary>What Context.Classify scores, in the order of the scores.</summary>
        public IReadOnlyList<string> Labels
        {
            get
            {
                UIntPtr n;
                IntPtr error;
                Calls.Check(Native.ember_model_label_count(Handle, out n, out error), error);
                return Listed(n, i => Calls.FilledText(64, (byte[] buffer, UIntPtr capacity, out UIntPtr needed, out IntPtr e) =>
                    Native.ember_model_label(Handle, i, buffer, capacity, out needed, out e)));
            }
        }

        private static T[] Listed<T>(UIntPtr n, Func<UIntPtr, T> element)
        {
            var all = new T[Calls.Int(n)];
            for (var i = 0; i < all.Length; i++) all[i] = element((UIntPtr)i);
            return all;
        }

        /// <summary>All keys of the model's metadata, in the order of the file.</summary>
        public IReadOnlyList<string> MetadataKeys
        {
            get
            {
                UIntPtr n;
                IntPtr error;
                Calls.Check(Native.ember_model_meta_count(Handle, out n, out error), error);
                return Listed(n, i => Calls.FilledText(64, (byte[] buffer, UIntPtr capacity, out UIntPtr needed, out IntPtr e) =>
                    Native.ember_model_meta_key(Handle, i, buffer, capacity, out needed, out e)));
            }
        }

        // Types of GGUF's.
        private const uint Float32 = 6, Bool = 7, String = 8, Array = 9, UInt64 = 10, Float64 = 12;

        /// <summary>
        /// The value of a key of the model's metadata: a string, bool, double, long or ulong, or an array of these. A key that is not there is an
        /// EmberException with Status.NotFound.
        /// </summary>
        public object Metadata(string key)
        {
            var name = Calls.Utf8(key, nameof(key));
            var size = name.Size();
            uint type;
            IntPtr error;
            Calls.Check(Native.ember_model_meta_type(Handle, name, size, out type, out error), error);
            switch (type)
            {
                case String:
                    return Calls.FilledText(128, (byte[] buffer, UIntPtr capacity, out UIntPtr needed, out IntPtr e) =>
                        Native.ember_model_meta_string(Handle, name, size, buffer, capacity, out needed, out e));
                case Bool:
                    byte truth;
                    Calls.Check(Native.ember_model_meta_bool(Handle, name, size, out truth, out error), error);
                    return truth != 0;
                case Float32:
                case Float64:
                    double real;
                    Calls.Check(Native.ember_model_meta_f64(Handle, name, size, out real, out error), error);
                    return real;
                case UInt64:
                    ulong large;
                    Calls.Check(Native.ember_model_meta_u64(Handle, name, size, out large, out error), error);
                    return large;
                case Array:
                    return MetadataArray(key, name);
                default:
                    long whole;
                    Calls.Check(Native.ember_model_meta_i64(Handle, name, size, out whole, out error), error);
                    return whole;
            }
        }

        private object MetadataArray(string key, byte[] name)
        {
            var size = name.Size();
            uint type;
            UIntPtr n;
            IntPtr error;
            Calls.Check(Native.ember_model_meta_array(Handle, name, size, out type, out n, out error), error);
            switch (type)
            {
                case String:
                    return Listed(n, i => Calls.FilledText(128, (byte[] buffer, UIntPtr capacity, out UIntPtr needed, out IntPtr e) =>
                        Native.ember_model_meta_array_string(Handle, name, size, i, buffer, capacity, out needed, out e)));
                case Bool:
                    return Listed(n, i =>
                    {
                        byte truth;
                        IntPtr e;
                        Calls.Check(Native.ember_model_meta_array_bool(Handle, name, size, i, out truth, out e), e);
                        return truth != 0;
                    });
                case Float32:
                case Float64:
                    return Listed(n, i =>
                    {
                        double real;
                        IntPtr e;
                        Calls.Check(Native.ember_model_meta_array_f64(Handle, name, size, i, out real, out e), e);
                        return real;
                    });
                case UInt64:
                    return Listed(n, i =>
                    {
                        ulong large;
                        IntPtr e;
                        Calls.Check(Native.ember_model_meta_array_u64(Handle, name, size, i, out large, out e), e);
                        return large;
                    });
                case Array:
                    throw new EmberException(Status.InvalidArgument, "the key " + key + " is an array of arrays, whose elements cannot be read");
                default:
                    return Listed(n, i =>
                    {
                        long whole;
                        IntPtr e;
                        Calls.Check(Native.ember_model_meta_array_i64(Handle, name, size, i, out whole, out e), e);
                        return whole;
                    });
            }
        }

        /// <summary>A sampler with the stages that the model's file proposes; an EmberException with Status.NotFound where it proposes none.</summary>
        public Sampler ProposedSampler(ulong? seed = null)
        {
            IntPtr pointer, error;
            Calls.Check(Native.ember_model_sampler(Handle, seed ?? Native.EMBER_SEED_RANDOM, out pointer, out error), error);
            return new Sampler(pointer, new Callbacks());
        }

        /// <summary>The text of the model's chat template of this name, or, where it is empty, of the default one.</summary>
        public string ChatTemplate(string name = "")
        {
            var bytes = Calls.Utf8(name, nameof(name));
            return Calls.FilledText(4096, (byte[] buffer, UIntPtr capacity, out UIntPtr needed, out IntPtr error) =>
                Native.ember_model_chat_template(Handle, bytes, bytes.Size(), buffer, capacity, out needed, out error));
        }

        /// <summary>The text of messages as the model was trained on them, with tools, variables and the like.</summary>
        public string ApplyChatTemplate(IEnumerable<Message> messages, ChatOptions options = null)
        {
            var json = Calls.Utf8(Message.Json(messages), nameof(messages));
            using (var how = (options ?? new ChatOptions()).Make())
            {
                return Calls.FilledText(2L * json.Length + 256, (byte[] buffer, UIntPtr capacity, out UIntPtr needed, out IntPtr error) =>
                    Native.ember_chat_apply_template(Handle, json, json.Size(), how, buffer, capacity, out needed, out error));
            }
        }

        /// <summary>The tokens of messages. No text of a message can spell a control token.</summary>
        public uint[] TokenizeChat(IEnumerable<Message> messages, ChatOptions options = null) => TokenizeChat(Handle, messages, options);

        internal static uint[] TokenizeChat(EmberHandle model, IEnumerable<Message> messages, ChatOptions options)
        {
            var json = Calls.Utf8(Message.Json(messages), nameof(messages));
            using (var how = (options ?? new ChatOptions()).Make())
            {
                return Calls.Filled(json.Length + 256L, (uint[] buffer, UIntPtr capacity, out UIntPtr needed, out IntPtr error) =>
                    Native.ember_chat_tokenize(model, json, json.Size(), how, buffer, capacity, out needed, out error));
            }
        }

        /// <summary>Reads a reply to `prompt`, which ApplyChatTemplate gave, or "", with the same options.</summary>
        public ChatParser CreateChatParser(string prompt = "", ChatOptions options = null)
        {
            var bytes = Calls.Utf8(prompt, nameof(prompt));
            using (var how = (options ?? new ChatOptions()).Make())
            {
                IntPtr pointer, error;
                Calls.Check(Native.ember_chat_parser_new(Handle, how, bytes, bytes.Size(), out pointer, out error), error);
                return new ChatParser(pointer);
            }
        }

        /// <summary>The model's tokenizer, which may outlive it.</summary>
        public Tokenizer CreateTokenizer()
        {
            IntPtr pointer, error;
            Calls.Check(Native.ember_model_tokenizer(Handle, out pointer, out error), error);
            return new Tokenizer(pointer);
        }

        /// <summary>The tokens of a text. `addSpecial` adds those that texts begin with; `parseSpecial` takes the text of control tokens for them.</summary>
        public uint[] Tokenize(string text, bool addSpecial = true, bool parseSpecial = false)
        {
            var bytes = Calls.Utf8(text, nameof(text));
            return Calls.Filled(bytes.Length + 8L, (uint[] buffer, UIntPtr capacity, out UIntPtr needed, out IntPtr error) =>
                Native.ember_model_tokenize(Handle, bytes, bytes.Size(), addSpecial, parseSpecial, buffer, capacity, out needed, out error));
        }

        /// <summary>Gives the model back; contexts over it go on working.</summary>
        public void Dispose() => handle.Dispose();
    }
}
