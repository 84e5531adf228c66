using System;
using System.Collections;
using System.Collections.Generic;

namespace Ember
{
    /// <summary>
    /// Events that are computed when they are taken, each once, on the thread that takes them. `foreach` disposes of the stream, also where it is
    /// left early; dispose of one that is not enumerated.
    /// </summary>
    public abstract class EventStream<T> : IEnumerable<T>, IEnumerator<T> where T : class
    {
        private bool taken;
        private bool ended;

        internal EventStream()
        {
        }

        /// <summary>The event that MoveNext took.</summary>
        public T Current { get; private set; }

        object IEnumerator.Current => Current;

        /// <summary>The next event, and whether it is the last; null: there was none.</summary>
        internal abstract T Next(out bool last);

        /// <summary>Frees what the stream has.</summary>
        internal abstract void End();

        /// <summary>This stream, once.</summary>
        public IEnumerator<T> GetEnumerator()
        {
            if (taken) throw new InvalidOperationException("these events were taken already: each is computed once");
            taken = true;
            return this;
        }

        IEnumerator IEnumerable.GetEnumerator() => GetEnumerator();

        /// <summary>Computes the next event; false: there is none.</summary>
        public bool MoveNext()
        {
            Current = null;
            if (ended) return false;
            bool last;
            T next;
            try
            {
                next = Next(out last);
            }
            catch
            {
                Dispose();
                throw;
            }
            if (last || next == null) Dispose();
            Current = next;
            return next != null;
        }

        /// <summary>Ends what is under way.</summary>
        public void Dispose()
        {
            if (ended) return;
            ended = true;
            End();
        }

        void IEnumerator.Reset()
        {
            throw new NotSupportedException("events happen once");
        }
    }
}
