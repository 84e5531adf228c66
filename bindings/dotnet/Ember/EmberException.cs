using System;
using Ember.Interop;

namespace Ember
{
    /// <summary>What the library refuses, in its words.</summary>
    public sealed class EmberException : Exception
    {
        internal EmberException(Status status, string sentence) : base(sentence)
        {
            Status = status;
        }

        /// <summary>The ember_status, for example Status.ContextFull.</summary>
        public Status Status { get; }

        /// <summary>Its name in ember.h, for example EMBER_E_IO.</summary>
        public string StatusName => Calls.Text(Native.ember_status_name((int)Status));
    }
}
