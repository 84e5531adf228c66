using System;
using System.Threading;
using System.Threading.Tasks;

namespace Ember
{
    /// <summary>Calls that take long, on threads of their own: those of the pool are for short ones.</summary>
    internal static class Tasks
    {
        internal static Task<T> Run<T>(Func<T> body, CancellationToken cancellation)
        {
            return Task.Factory.StartNew(body, cancellation, TaskCreationOptions.LongRunning | TaskCreationOptions.DenyChildAttach, TaskScheduler.Default);
        }
    }
}
