package ember;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.*;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.function.Function;

/** A function of Java's that C may call as long as this is reachable. Its exceptions must not pass through C: they are kept for `check`. */
final class Callback {
    private static final MethodHandle CALL;

    static {
        try {
            CALL = MethodHandles.lookup().findVirtual(Callback.class, "call", MethodType.methodType(Object.class, Object[].class));
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    final MemorySegment pointer;
    private final Object failed;
    private final Function<Object[], Object> body;
    private Throwable thrown;

    /** C gets `failed` where the body throws. */
    Callback(FunctionDescriptor type, Object failed, Function<Object[], Object> body) {
        this.failed = failed;
        this.body = body;
        var target = CALL.bindTo(this).asCollector(Object[].class, type.argumentLayouts().size()).asType(type.toMethodType());
        pointer = Linker.nativeLinker().upcallStub(target, type, Arena.ofAuto());
    }

    private Object call(Object... arguments) {
        try {
            return body.apply(arguments);
        } catch (Throwable e) {
            keep(e);
            return failed;
        }
    }

    private synchronized void keep(Throwable e) {
        if (thrown == null) thrown = e;
    }

    /** Throws what the function threw, once. */
    synchronized void check() {
        var e = thrown;
        thrown = null;
        if (e instanceof RuntimeException unchecked) throw unchecked;
        if (e instanceof Error error) throw error;
        if (e != null) throw new AssertionError(e);
    }

    /** The bytes that C gives by pointer and length. */
    static MemorySegment at(Object pointer, long bytes) {
        return ((MemorySegment) pointer).reinterpret(bytes);
    }
}
