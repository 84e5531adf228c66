using System;
using System.IO;
using System.Reflection;
using System.Runtime.InteropServices;

namespace Ember
{
    /// <summary>
    /// Where the library is: what the variable EMBER_LIBRARY names, else the one for this system in the folder `runtimes` beside the program or
    /// Ember.dll, else the one that the runtime finds by its name.
    /// </summary>
    internal static class Loader
    {
        private static readonly object Lock = new object();
        private static volatile bool prepared;
        private static string path;

        /// <summary>Has the runtime take the right library. Called before the first function.</summary>
        internal static void Prepare()
        {
            if (prepared) return;
            lock (Lock)
            {
                if (prepared) return;
                Find();
                prepared = true;
            }
        }

        private static void Find()
        {
            path = Environment.GetEnvironmentVariable("EMBER_LIBRARY");
            if (string.IsNullOrEmpty(path)) path = Bundled();
            else if (!File.Exists(path)) throw new DllNotFoundException("there is no library " + path + ", which EMBER_LIBRARY names");
            if (path == null) return;
            path = Path.GetFullPath(path);
            if (Type.GetType("Mono.Runtime") != null) mono_dllmap_insert(IntPtr.Zero, "ember", null, path, null);
            else if (!Resolve() && IsWindows) Load();
        }

        private static bool IsWindows => RuntimeInformation.IsOSPlatform(OSPlatform.Windows);

        /// <summary>The library that the package has for this system, if it lies where packages are laid.</summary>
        private static string Bundled()
        {
            var file = IsWindows ? "ember.dll" : RuntimeInformation.IsOSPlatform(OSPlatform.OSX) ? "libember.dylib" : "libember.so";
            var beside = Path.GetDirectoryName(typeof(Loader).Assembly.Location);
            foreach (var folder in new[] { AppContext.BaseDirectory, beside })
            {
                if (string.IsNullOrEmpty(folder)) continue;
                var found = Path.Combine(folder, "runtimes", Rid, "native", file);
                if (File.Exists(found)) return found;
            }
            return null;
        }

        /// <summary>The name of this system among packages of .NET: linux-x64, say.</summary>
        private static string Rid
        {
            get
            {
                var processor = RuntimeInformation.ProcessArchitecture.ToString().ToLowerInvariant();
                if (IsWindows) return "win-" + processor;
                if (RuntimeInformation.IsOSPlatform(OSPlatform.OSX)) return "osx-" + processor;
                var arm = RuntimeInformation.ProcessArchitecture == Architecture.Arm64;
                var musl = File.Exists("/lib/ld-musl-" + (arm ? "aarch64" : "x86_64") + ".so.1") && !File.Exists("/etc/debian_version");
                return (musl ? "linux-musl-" : "linux-") + processor;
            }
        }

        /// <summary>Has .NET Core 3.0 and newer, which netstandard2.0 does not know, take the library from the path.</summary>
        private static bool Resolve()
        {
            var native = Type.GetType("System.Runtime.InteropServices.NativeLibrary, System.Runtime.InteropServices");
            var resolver = Type.GetType("System.Runtime.InteropServices.DllImportResolver, System.Runtime.InteropServices");
            if (native == null || resolver == null) return false;
            var find = typeof(Loader).GetMethod(nameof(Resolved), BindingFlags.NonPublic | BindingFlags.Static);
            var set = native.GetMethod("SetDllImportResolver");
            set.Invoke(null, new object[] { typeof(Loader).Assembly, Delegate.CreateDelegate(resolver, find) });
            return true;
        }

        private static IntPtr Resolved(string name, Assembly assembly, DllImportSearchPath? search)
        {
            if (name != "ember") return IntPtr.Zero;
            var native = Type.GetType("System.Runtime.InteropServices.NativeLibrary, System.Runtime.InteropServices");
            return (IntPtr)native.GetMethod("Load", new[] { typeof(string) }).Invoke(null, new object[] { path });
        }

        /// <summary>Windows takes a library by its name that is loaded already.</summary>
        private static void Load()
        {
            if (LoadLibraryW(path) == IntPtr.Zero) throw new DllNotFoundException("Windows cannot load " + path);
        }

        [DllImport("__Internal", CharSet = CharSet.Ansi, ExactSpelling = true)]
        private static extern void mono_dllmap_insert(IntPtr image, string library, string function, string toLibrary, string toFunction);

        [DllImport("kernel32", CharSet = CharSet.Unicode, ExactSpelling = true, SetLastError = true)]
        private static extern IntPtr LoadLibraryW(string path);
    }
}
