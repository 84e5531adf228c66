package ember;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.*;
import java.lang.invoke.MethodHandle;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.concurrent.ConcurrentHashMap;

/** The functions of ember.h, through Java's foreign functions. */
final class Native {
    private Native() {}

    private static final Linker LINKER = Linker.nativeLinker();
    private static final SymbolLookup LIBRARY =
            SymbolLookup.libraryLookup(System.getProperty("ember.library", "libember.so"), Arena.global());
    private static final ConcurrentHashMap<String, MethodHandle> FUNCTIONS = new ConcurrentHashMap<>();

    /** ember_event, as in ember.h. */
    static final StructLayout EVENT = MemoryLayout.structLayout(
            JAVA_LONG.withName("struct_size"), ADDRESS.withName("text"), JAVA_LONG.withName("text_len"),
            ADDRESS.withName("bytes"), JAVA_LONG.withName("n_bytes"), ADDRESS.withName("tops"), JAVA_LONG.withName("n_tops"),
            JAVA_INT.withName("kind"), JAVA_INT.withName("token"), JAVA_FLOAT.withName("logprob"),
            JAVA_INT.withName("finish_reason"));

    static long offset(String field) {
        return EVENT.byteOffset(MemoryLayout.PathElement.groupElement(field));
    }

    private static MethodHandle function(String name, FunctionDescriptor type) {
        return FUNCTIONS.computeIfAbsent(name, n -> LINKER.downcallHandle(
                LIBRARY.find(n).orElseThrow(() -> new EmberException(4, "the library lacks " + n)), type));
    }

    private static Object invoke(MethodHandle f, Object... arguments) {
        try {
            return f.invokeWithArguments(arguments);
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) { // functions of C throw nothing
            throw new AssertionError(e);
        }
    }

    private static MemoryLayout layout(Object argument) {
        return switch (argument) {
            case MemorySegment s -> ADDRESS;
            case Long l -> JAVA_LONG;
            case Integer i -> JAVA_INT;
            case Float f -> JAVA_FLOAT;
            case Boolean b -> JAVA_BOOLEAN;
            default -> throw new AssertionError(argument);
        };
    }

    /** Calls a function that returns an ember_status and has an ember_error ** at its end. */
    static void call(Arena arena, String name, Object... arguments) {
        var error = arena.allocate(ADDRESS);
        var all = Arrays.copyOf(arguments, arguments.length + 1);
        all[arguments.length] = error;
        var layouts = Arrays.stream(all).map(Native::layout).toArray(MemoryLayout[]::new);
        var status = (int) invoke(function(name, FunctionDescriptor.of(JAVA_INT, layouts)), all);
        if (status == 0) return;
        var message = pointer("ember_error_message", error.get(ADDRESS, 0));
        var sentence = message.reinterpret(Long.MAX_VALUE).getString(0);
        run("ember_error_free", error.get(ADDRESS, 0));
        throw new EmberException(status, sentence);
    }

    /** Calls a function whose last argument but the error receives a pointer. */
    static MemorySegment made(Arena arena, String name, Object... arguments) {
        var out = arena.allocate(ADDRESS);
        var all = Arrays.copyOf(arguments, arguments.length + 1);
        all[arguments.length] = out;
        call(arena, name, all);
        return out.get(ADDRESS, 0);
    }

    /** Calls a function of one pointer that returns one. */
    static MemorySegment pointer(String name, MemorySegment argument) {
        return (MemorySegment) invoke(function(name, FunctionDescriptor.of(ADDRESS, ADDRESS)), argument);
    }

    /** Calls a function of one pointer that returns nothing. */
    static void run(String name, MemorySegment argument) {
        invoke(function(name, FunctionDescriptor.ofVoid(ADDRESS)), argument);
    }

    /** A number for the library, which has no negative ones. */
    static int unsigned(String what, int n) {
        if (n < 0) throw new IllegalArgumentException(what + " must not be negative, and is " + n);
        return n;
    }

    static MemorySegment utf8(Arena arena, String text) {
        return arena.allocateFrom(JAVA_BYTE, text.getBytes(StandardCharsets.UTF_8));
    }

    static String text(MemorySegment bytes) {
        return new String(bytes.toArray(JAVA_BYTE), StandardCharsets.UTF_8);
    }
}
