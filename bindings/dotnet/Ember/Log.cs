using System;
using Ember.Interop;

namespace Ember
{
    /// <summary>What the library says beside its results. It says nothing until asked to.</summary>
    public static class Log
    {
        private static volatile Action<LogLevel, string> lines = (level, text) => { };

        // Called by the library for each line, on any thread; it is never freed.
        private static readonly ember_log_callback Line = (level, text, length, data) =>
            Callbacks.Alone(() => lines((LogLevel)level, Calls.Text(text, length)));

        /// <summary>Has the lines of this level and of those that matter more come to `lines`, for all models of the process and on any thread.</summary>
        public static void To(LogLevel level, Action<LogLevel, string> lines)
        {
            Log.lines = Calls.Given(lines, nameof(lines));
            IntPtr error;
            Calls.Check(Native.ember_log_set(Line, IntPtr.Zero, (int)level, out error), error);
        }

        /// <summary>Makes the library silent again.</summary>
        public static void Off()
        {
            IntPtr error;
            Calls.Check(Native.ember_log_set(null, IntPtr.Zero, (int)LogLevel.Error, out error), error);
        }
    }
}
