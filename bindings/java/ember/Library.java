package ember;

/** The library itself. */
public final class Library {
    private Library() {}

    /** The version, for example "0.2.0". */
    public static String version() {
        return Native.text("ember_version_string");
    }

    /** One line on what the library can do: version, architectures, number formats, instruction sets, target. */
    public static String buildInfo() {
        return Native.text("ember_build_info");
    }

    /** Whether the library has a part: "chat", "hf", "tokenizers", "constraints". */
    public static boolean hasFeature(String name) {
        return Native.numberOf("ember_has_feature", name) != 0;
    }
}
