// Continues a prompt; the text is printed as it comes. Java's own foreign functions (22 or newer), one call a token.
//
//   java --enable-native-access=ALL-UNNAMED -Dember.library=/path/libember.so Generate.java -m MODEL -p PROMPT -n N
//       [--temp T] [--top-k K] [--top-p P] [--seed S]
import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.*;
import java.lang.invoke.MethodHandle;
import java.nio.charset.StandardCharsets;
import java.util.*;

public class Generate {
    static final Linker LINKER = Linker.nativeLinker();
    static final SymbolLookup LIBRARY =
            SymbolLookup.libraryLookup(System.getProperty("ember.library", "libember.so"), Arena.global());

    /** A function that returns an ember_status; its last argument, ember_error **, is added. */
    record Call(MethodHandle handle) {
        static Call of(String name, MemoryLayout... arguments) {
            var all = Arrays.copyOf(arguments, arguments.length + 1);
            all[arguments.length] = ADDRESS;
            return new Call(LINKER.downcallHandle(find(name), FunctionDescriptor.of(JAVA_INT, all)));
        }

        /** Throws the library's sentence when it refuses. */
        void invoke(Arena arena, Object... arguments) throws Throwable {
            var error = arena.allocate(ADDRESS);
            var all = new ArrayList<>(Arrays.asList(arguments));
            all.add(error);
            if ((int) handle.invokeWithArguments(all) != 0) {
                var message = (MemorySegment) MESSAGE.invokeExact(error.get(ADDRESS, 0));
                var sentence = message.reinterpret(Long.MAX_VALUE).getString(0);
                ERROR_FREE.invokeExact(error.get(ADDRESS, 0));
                throw new IllegalStateException(sentence);
            }
        }
    }

    static MemorySegment find(String name) {
        return LIBRARY.find(name).orElseThrow(() -> new IllegalStateException("the library lacks " + name));
    }

    static MethodHandle free(String name) {
        return LINKER.downcallHandle(find(name), FunctionDescriptor.ofVoid(ADDRESS));
    }

    static final MethodHandle MESSAGE =
            LINKER.downcallHandle(find("ember_error_message"), FunctionDescriptor.of(ADDRESS, ADDRESS));
    static final MethodHandle ERROR_FREE = free("ember_error_free");
    static final MethodHandle GENERATOR_NEXT =
            LINKER.downcallHandle(find("ember_generator_next"), FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS));

    /** ember_event, as in ember.h. */
    static final StructLayout EVENT = MemoryLayout.structLayout(
            JAVA_LONG.withName("struct_size"), ADDRESS.withName("text"), JAVA_LONG.withName("text_len"),
            ADDRESS.withName("bytes"), JAVA_LONG.withName("n_bytes"), ADDRESS.withName("tops"), JAVA_LONG.withName("n_tops"),
            JAVA_INT.withName("kind"), JAVA_INT.withName("token"), JAVA_FLOAT.withName("logprob"),
            JAVA_INT.withName("finish_reason"));
    static final long TEXT = EVENT.byteOffset(MemoryLayout.PathElement.groupElement("text"));
    static final long TEXT_LEN = EVENT.byteOffset(MemoryLayout.PathElement.groupElement("text_len"));
    static final long KIND = EVENT.byteOffset(MemoryLayout.PathElement.groupElement("kind"));
    static final int EVENT_END = 2;

    public static void main(String[] arguments) throws Throwable {
        var options = new HashMap<>(Map.of("-m", "examples/models/ember-tales.gguf", "-p", "The sea was calm, and the moon",
                "-n", "128", "--temp", "0.8", "--top-k", "40", "--top-p", "0.95",
                "--seed", Integer.toUnsignedString((int) System.nanoTime())));
        for (int i = 0; i + 1 < arguments.length; i += 2) options.put(arguments[i], arguments[i + 1]);
        try (var arena = Arena.ofConfined()) {
            generate(arena, options);
        } catch (IllegalStateException refusal) {
            System.err.println(refusal.getMessage());
            System.exit(1);
        }
    }

    static void generate(Arena arena, Map<String, String> options) throws Throwable {
        var out = arena.allocate(ADDRESS);
        var none = MemorySegment.NULL;
        MemorySegment model = none, context = none, sampler = none, how = none, generator = none;
        try {
            var path = arena.allocateFrom(options.get("-m"));
            Call.of("ember_model_load", ADDRESS, JAVA_LONG, ADDRESS, ADDRESS).invoke(arena, path, path.byteSize() - 1, none, out);
            model = out.get(ADDRESS, 0);
            Call.of("ember_context_new", ADDRESS, ADDRESS, ADDRESS).invoke(arena, model, none, out);
            context = out.get(ADDRESS, 0);
            Call.of("ember_sampler_new", JAVA_LONG, ADDRESS).invoke(arena, Long.parseUnsignedLong(options.get("--seed")), out);
            sampler = out.get(ADDRESS, 0);
            Call.of("ember_sampler_add_top_k", ADDRESS, JAVA_INT).invoke(arena, sampler, Integer.parseInt(options.get("--top-k")));
            Call.of("ember_sampler_add_top_p", ADDRESS, JAVA_FLOAT).invoke(arena, sampler, Float.parseFloat(options.get("--top-p")));
            Call.of("ember_sampler_add_temperature", ADDRESS, JAVA_FLOAT)
                    .invoke(arena, sampler, Float.parseFloat(options.get("--temp")));
            Call.of("ember_generate_options_new", ADDRESS).invoke(arena, out);
            how = out.get(ADDRESS, 0);
            Call.of("ember_generate_options_set_max_tokens", ADDRESS, JAVA_INT).invoke(arena, how, Integer.parseInt(options.get("-n")));
            var prompt = arena.allocateFrom(options.get("-p"));
            Call.of("ember_generator_new", ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS, ADDRESS)
                    .invoke(arena, context, prompt, prompt.byteSize() - 1, how, sampler, out);
            generator = out.get(ADDRESS, 0);
            System.out.write(options.get("-p").getBytes(StandardCharsets.UTF_8));
            stream(arena, generator);
            System.out.println();
        } finally {
            free("ember_generator_free").invokeExact(generator);
            free("ember_generate_options_free").invokeExact(how);
            free("ember_sampler_free").invokeExact(sampler);
            free("ember_context_free").invokeExact(context);
            free("ember_model_release").invokeExact(model);
        }
    }

    /** Prints the text of every event: whole code points, so bytes can go out as they come. */
    static void stream(Arena arena, MemorySegment generator) throws Throwable {
        var event = arena.allocate(EVENT);
        event.set(JAVA_LONG, 0, EVENT.byteSize());
        var next = new Call(GENERATOR_NEXT);
        do {
            next.invoke(arena, generator, event);
            var text = event.get(ADDRESS, TEXT).reinterpret(event.get(JAVA_LONG, TEXT_LEN));
            System.out.write(text.toArray(JAVA_BYTE));
            System.out.flush();
        } while (event.get(JAVA_INT, KIND) != EVENT_END);
    }
}
