using System;
using System.Collections.Generic;
using System.Threading;
using Ember.Interop;

namespace Ember
{
    /// <summary>How a model is loaded. A property that is null keeps the library's default.</summary>
    public sealed class ModelOptions
    {
        /// <summary>Whether files are mapped, as by default, or read into memory.</summary>
        public bool? Mmap { get; set; }

        /// <summary>The highest instruction-set level to use, such as "avx2".</summary>
        public string Isa { get; set; }

        /// <summary>Which matrices are packed for this machine's vector instructions.</summary>
        public Pack? Pack { get; set; }

        /// <summary>Whether the weights are kept in memory whatever else the system is short of.</summary>
        public bool? Lock { get; set; }

        /// <summary>Whether every number of every tensor is looked at.</summary>
        public bool? CheckTensors { get; set; }

        /// <summary>Most bytes of the model and all its contexts; 0: any.</summary>
        public ulong? MemoryLimit { get; set; }

        /// <summary>
        /// Values in place of those of the file, which need not have the keys: integers, floating-point numbers, booleans or texts.
        /// </summary>
        public IDictionary<string, object> Metadata { get; } = new Dictionary<string, object>();

        /// <summary>
        /// Gets how far the loading is, from 0 to 1, on the thread that loads. An exception from it ends the loading and is rethrown.
        /// </summary>
        public Action<float> Progress { get; set; }

        /// <summary>The ember_model_options.</summary>
        internal EmberHandle Make(EmberHandle cancel)
        {
            IntPtr pointer, error;
            Calls.Check(Native.ember_model_options_new(out pointer, out error), error);
            var callbacks = new Callbacks();
            var made = new EmberHandle("options", pointer, Native.ember_model_options_free, callbacks);
            try
            {
                Set(made, cancel, callbacks);
                return made;
            }
            catch
            {
                made.Dispose();
                throw;
            }
        }

        private void Set(EmberHandle to, EmberHandle cancel, Callbacks callbacks)
        {
            IntPtr error;
            if (Mmap.HasValue) Calls.Check(Native.ember_model_options_set_use_mmap(to, Mmap.Value, out error), error);
            if (Isa != null)
            {
                var isa = Calls.Utf8(Isa, nameof(Isa));
                Calls.Check(Native.ember_model_options_set_isa(to, isa, isa.Size(), out error), error);
            }
            if (Pack.HasValue) Calls.Check(Native.ember_model_options_set_pack(to, (int)Pack.Value, out error), error);
            if (Lock.HasValue) Calls.Check(Native.ember_model_options_set_lock(to, Lock.Value, out error), error);
            if (CheckTensors.HasValue) Calls.Check(Native.ember_model_options_set_check_tensors(to, CheckTensors.Value, out error), error);
            if (MemoryLimit.HasValue) Calls.Check(Native.ember_model_options_set_memory_limit(to, MemoryLimit.Value, out error), error);
            foreach (var pair in Metadata) Set(to, pair.Key, pair.Value);
            if (cancel != null) Calls.Check(Native.ember_model_options_set_cancel_token(to, cancel, out error), error);
            if (Progress == null) return;
            var progress = Progress;
            var callback = callbacks.Add<ember_progress_callback>((done, data) => callbacks.Run(() =>
            {
                progress(done);
                return 0;
            }, 1));
            Calls.Check(Native.ember_model_options_set_progress(to, callback, IntPtr.Zero, out error), error);
        }

        private static void Set(EmberHandle to, string name, object value)
        {
            IntPtr error;
            var key = Calls.Utf8(name, nameof(Metadata));
            var text = value as string;
            if (text != null)
            {
                var bytes = Calls.Utf8(text, nameof(Metadata));
                Calls.Check(Native.ember_model_options_set_meta_string(to, key, key.Size(), bytes, bytes.Size(), out error), error);
            }
            else if (value is bool) Calls.Check(Native.ember_model_options_set_meta_bool(to, key, key.Size(), (bool)value, out error), error);
            else if (value is double || value is float)
            {
                Calls.Check(Native.ember_model_options_set_meta_f64(to, key, key.Size(), Convert.ToDouble(value), out error), error);
            }
            else if (value is long || value is int || value is uint || value is short || value is ushort || value is byte || value is sbyte)
            {
                Calls.Check(Native.ember_model_options_set_meta_i64(to, key, key.Size(), Convert.ToInt64(value), out error), error);
            }
            else
            {
                var type = value == null ? "null" : "of the type " + value.GetType().Name;
                throw new ArgumentException("the value of the key " + name + " is " + type + ": give a text, a number or a boolean", nameof(Metadata));
            }
        }
    }
}
