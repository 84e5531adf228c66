using System;
using System.Runtime.InteropServices;

namespace Ember
{
    /// <summary>What belongs to the library until it is disposed of, or forgotten. It is not freed while a call uses it.</summary>
    public sealed class EmberHandle : SafeHandle
    {
        private static readonly EmberHandle Null = new EmberHandle();

        private readonly string what;
        private readonly Action<IntPtr> free;

        private EmberHandle() : base(IntPtr.Zero, false)
        {
        }

        /// <summary>
        /// An object that a function of Ember.Interop.Native made, for others of them. It stays the caller's, who frees it by the function of its
        /// type when nothing uses it.
        /// </summary>
        public static EmberHandle Borrow(IntPtr pointer)
        {
            var borrowed = new EmberHandle();
            borrowed.SetHandle(pointer);
            return borrowed;
        }

        internal EmberHandle(string what, IntPtr pointer, Action<IntPtr> free, Callbacks callbacks = null) : base(IntPtr.Zero, true)
        {
            this.what = what;
            this.free = free;
            Callbacks = callbacks ?? Callbacks.None;
            SetHandle(pointer);
        }

        /// <summary>In place of an object that there is not: the library gets NULL.</summary>
        public static EmberHandle None
        {
            get
            {
                Loader.Prepare();
                return Null;
            }
        }

        /// <summary>What C calls until this is freed.</summary>
        internal Callbacks Callbacks { get; }

        /// <summary>Whether there is no object.</summary>
        public override bool IsInvalid => handle == IntPtr.Zero;

        /// <summary>This, or an ObjectDisposedException that says what was disposed of.</summary>
        internal EmberHandle Open
        {
            get
            {
                if (IsClosed) throw new ObjectDisposedException(null, "the " + what + " is disposed of");
                return this;
            }
        }

        /// <summary>Gives the object back to the library.</summary>
        protected override bool ReleaseHandle()
        {
            free(handle);
            return true;
        }
    }
}
