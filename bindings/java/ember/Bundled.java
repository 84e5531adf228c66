package ember;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.SymbolLookup;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;

/**
 * The library: what the property ember.library names, else the one in an archive of this system on the class path, else the one that the
 * system finds.
 */
final class Bundled {
    private Bundled() {}

    static SymbolLookup library() {
        var given = System.getProperty("ember.library");
        if (given != null) return SymbolLookup.libraryLookup(given, Arena.global());
        var system = System.getProperty("os.name").toLowerCase(Locale.ROOT);
        var processor = System.getProperty("os.arch").equals("aarch64") ? "aarch64" : "x86_64";
        var windows = system.startsWith("windows");
        var file = windows ? "ember.dll" : system.startsWith("mac") ? "libember.dylib" : "libember.so";
        var musl = Files.exists(Path.of("/lib/ld-musl-" + processor + ".so.1")) && !Files.exists(Path.of("/etc/debian_version"));
        var folder = windows ? "windows" : system.startsWith("mac") ? "macos" : musl ? "musl" : "linux";
        try (var bytes = Bundled.class.getResourceAsStream("natives/" + folder + "-" + processor + "/" + file)) {
            if (bytes == null) return SymbolLookup.libraryLookup(file, Arena.global());
            var copy = Files.createTempDirectory("ember").resolve(file);
            Files.copy(bytes, copy);
            var library = SymbolLookup.libraryLookup(copy, Arena.global());
            if (windows) { // which keeps the file as long as the process lives
                copy.getParent().toFile().deleteOnExit();
                copy.toFile().deleteOnExit();
            } else {
                Files.delete(copy);
                Files.delete(copy.getParent());
            }
            return library;
        } catch (IOException e) {
            throw new UncheckedIOException("the library cannot be copied to where programs may run", e);
        }
    }
}
