using System;
using System.Collections.Generic;
using System.Linq;
using System.Runtime.InteropServices;
using System.Text;
using System.Threading;
using Ember.Interop;

namespace Ember
{
    /// <summary>What calls of the library have in common: statuses, texts, and buffers that it fills.</summary>
    internal static class Calls
    {
        private static readonly UTF8Encoding Strict = new UTF8Encoding(false, true);

        /// <summary>Throws what a call refused, or what ended it: an exception of a callback's, or a CancellationToken.</summary>
        internal static void Check(
            Status status, IntPtr error, CancellationToken cancellation = default(CancellationToken), params Callbacks[] callbacks)
        {
            if (status == Status.Ok) return;
            var sentence = Text(Native.ember_error_message(error));
            Native.ember_error_free(error);
            foreach (var its in callbacks) its?.Check();
            if (status == Status.Cancelled && cancellation.IsCancellationRequested) throw new OperationCanceledException(sentence, cancellation);
            throw new EmberException(status, sentence);
        }

        /// <summary>The bytes of a text; a text that is no Unicode is an exception.</summary>
        internal static byte[] Utf8(string text, string argument)
        {
            if (text == null) throw new ArgumentNullException(argument);
            try
            {
                return Strict.GetBytes(text);
            }
            catch (EncoderFallbackException e)
            {
                throw new ArgumentException("the text has half of a surrogate pair: " + e.Message, argument);
            }
        }

        internal static T Given<T>(T argument, string name) where T : class
        {
            if (argument == null) throw new ArgumentNullException(name);
            return argument;
        }

        internal static UIntPtr Size(this Array array) => (UIntPtr)array.Length;

        internal static int Int(UIntPtr n) => checked((int)(ulong)n);

        /// <summary>A text that ends with NUL, or null.</summary>
        internal static string Text(IntPtr text)
        {
            if (text == IntPtr.Zero) return null;
            var n = 0;
            while (Marshal.ReadByte(text, n) != 0) n++;
            return Text(text, (UIntPtr)n);
        }

        internal static string Text(IntPtr text, UIntPtr length) => Encoding.UTF8.GetString(Bytes(text, length));

        internal static byte[] Bytes(IntPtr from, UIntPtr n)
        {
            var bytes = new byte[Int(n)];
            if (bytes.Length > 0) Marshal.Copy(from, bytes, 0, bytes.Length);
            return bytes;
        }

        /// <summary>What struct_size says of a struct.</summary>
        internal static UIntPtr SizeOf<T>() where T : struct => Sizes<T>.Value;

        private static class Sizes<T>
        {
            internal static readonly UIntPtr Value = (UIntPtr)Marshal.SizeOf(typeof(T));
        }

        /// <summary>A function that fills a buffer.</summary>
        internal delegate Status Fill<T>(T[] buffer, UIntPtr capacity, out UIntPtr needed, out IntPtr error);

        /// <summary>What a function fills a buffer with; where its capacity is not enough it is called again.</summary>
        internal static T[] Filled<T>(long length, Fill<T> fill, CancellationToken cancellation = default(CancellationToken))
        {
            while (true)
            {
                var buffer = new T[length];
                UIntPtr needed;
                IntPtr error;
                var status = fill(buffer, buffer.Size(), out needed, out error);
                if (status == Status.BufferTooSmall)
                {
                    Native.ember_error_free(error);
                    length = checked((long)(ulong)needed);
                    continue;
                }
                Check(status, error, cancellation);
                Array.Resize(ref buffer, Int(needed));
                return buffer;
            }
        }

        internal static string FilledText(long length, Fill<byte> fill) => Encoding.UTF8.GetString(Filled(length, fill));

        internal static TimeSpan Time(ulong nanoseconds) => TimeSpan.FromTicks((long)(nanoseconds / 100));

        internal static uint? Token(uint token) => token == Native.EMBER_TOKEN_NONE ? (uint?)null : token;

        internal static FinishReason? Finish(int reason) => reason < 0 ? (FinishReason?)null : (FinishReason)reason;

        /// <summary>Numbers that come one row after the other.</summary>
        internal static float[][] Rows(float[] all, int width)
        {
            var rows = new float[width == 0 ? 0 : all.Length / width][];
            for (var i = 0; i < rows.Length; i++)
            {
                rows[i] = new float[width];
                Array.Copy(all, i * width, rows[i], 0, width);
            }
            return rows;
        }
    }

    /// <summary>Texts as C takes them: pointers, lengths and their number. They stay where they are until this is disposed of.</summary>
    internal sealed class Texts : IDisposable
    {
        private readonly GCHandle pinned;

        internal Texts(IEnumerable<string> texts, string argument)
        {
            var each = Calls.Given(texts, argument).Select(text => Calls.Utf8(text, argument)).ToArray();
            var all = each.SelectMany(one => one).ToArray();
            pinned = GCHandle.Alloc(all, GCHandleType.Pinned);
            Pointers = new IntPtr[each.Length];
            Lengths = new UIntPtr[each.Length];
            var at = pinned.AddrOfPinnedObject();
            for (var i = 0; i < each.Length; i++)
            {
                Pointers[i] = at;
                Lengths[i] = each[i].Size();
                at = IntPtr.Add(at, each[i].Length);
            }
        }

        internal IntPtr[] Pointers { get; }

        internal UIntPtr[] Lengths { get; }

        internal UIntPtr Count => Pointers.Size();

        public void Dispose() => pinned.Free();
    }

    /// <summary>A cancel token of the library's that a CancellationToken of .NET's cancels.</summary>
    internal sealed class Cancelling : IDisposable
    {
        private readonly CancellationTokenRegistration registration;

        internal Cancelling(CancellationToken cancellation)
        {
            Handle = Make();
            registration = Register(cancellation, Handle);
        }

        internal EmberHandle Handle { get; }

        /// <summary>An ember_cancel_token.</summary>
        internal static EmberHandle Make()
        {
            IntPtr pointer, error;
            Calls.Check(Native.ember_cancel_token_new(out pointer, out error), error);
            return new EmberHandle("cancel token", pointer, Native.ember_cancel_token_free);
        }

        /// <summary>Has the token cancelled when that is, now if that is already.</summary>
        internal static CancellationTokenRegistration Register(CancellationToken cancellation, EmberHandle token)
        {
            return cancellation.Register(() => Native.ember_cancel_token_cancel(token));
        }

        public void Dispose()
        {
            registration.Dispose();
            Handle.Dispose();
        }
    }
}
