using Ember.Interop;

namespace Ember
{
    /// <summary>The library itself.</summary>
    public static class Library
    {
        /// <summary>The version, for example "0.2.0".</summary>
        public static string Version => Calls.Text(Native.ember_version_string());

        /// <summary>One line on what the library can do: version, architectures, number formats, instruction sets, target.</summary>
        public static string BuildInfo => Calls.Text(Native.ember_build_info());

        /// <summary>Whether the library has a part: "chat", "hf", "tokenizers", "constraints".</summary>
        public static bool HasFeature(string name)
        {
            var bytes = Calls.Utf8(name, nameof(name));
            return Native.ember_has_feature(bytes, bytes.Size()) != 0;
        }
    }
}
