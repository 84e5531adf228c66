using System;
using System.Collections.Generic;
using System.Runtime.ExceptionServices;

namespace Ember
{
    /// <summary>
    /// Delegates that C may call as long as this is reachable. Their exceptions must not pass through C: they are kept for Check.
    /// </summary>
    internal sealed class Callbacks
    {
        internal static readonly Callbacks None = new Callbacks();

        private readonly List<Delegate> all = new List<Delegate>();
        private ExceptionDispatchInfo thrown;

        internal bool Any => all.Count > 0;

        /// <summary>Keeps a delegate, and gives it back.</summary>
        internal T Add<T>(T callback) where T : class
        {
            all.Add((Delegate)(object)callback);
            return callback;
        }

        /// <summary>What the body gives, or `failed` where it throws.</summary>
        internal T Run<T>(Func<T> body, T failed)
        {
            try
            {
                return body();
            }
            catch (Exception e)
            {
                lock (all) thrown = thrown ?? ExceptionDispatchInfo.Capture(e);
                return failed;
            }
        }

        /// <summary>Throws what a body threw, once.</summary>
        internal void Check()
        {
            ExceptionDispatchInfo e;
            lock (all)
            {
                e = thrown;
                thrown = null;
            }
            e?.Throw();
        }

        /// <summary>Runs what has nobody to throw to: its exception goes to standard error.</summary>
        internal static void Alone(Action body)
        {
            try
            {
                body();
            }
            catch (Exception e)
            {
                Console.Error.WriteLine("Ember: a callback failed: " + e);
            }
        }
    }
}
