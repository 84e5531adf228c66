package ember;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.function.DoubleConsumer;

/** How a model is loaded. Texts are those of ember.h. */
public final class ModelOptions extends Settings<ModelOptions> {
    /** Which matrices are packed for this machine's vector instructions: as is best, none, all that can be. */
    public enum Pack { AUTO, NEVER, ALWAYS }

    private final List<Callback> callbacks = new ArrayList<>();

    public ModelOptions() {
        super("ember_model_options");
    }

    /** Whether files are mapped, as by default, or read into memory. */
    public ModelOptions mmap(boolean map) {
        return set("ember_model_options_set_use_mmap", map);
    }

    /** The highest instruction-set level to use, such as "avx2". */
    public ModelOptions isa(String isa) {
        return set("ember_model_options_set_isa", isa);
    }

    /** Which matrices are packed; by default AUTO. */
    public ModelOptions pack(Pack pack) {
        return set("ember_model_options_set_pack", pack.ordinal());
    }

    /** Whether the weights are kept in memory whatever else the system is short of. */
    public ModelOptions lock(boolean lock) {
        return set("ember_model_options_set_lock", lock);
    }

    /** Whether every number of every tensor is looked at. */
    public ModelOptions checkTensors(boolean check) {
        return set("ember_model_options_set_check_tensors", check);
    }

    /** Most bytes of the model and all its contexts; 0: any. */
    public ModelOptions memoryLimit(long bytes) {
        return set("ember_model_options_set_memory_limit", Native.unsigned("memoryLimit", bytes));
    }

    /** An integer in place of that of the file, which need not have the key. */
    public ModelOptions metadata(String key, long value) {
        return set("ember_model_options_set_meta_i64", key, value);
    }

    /** As before, a floating-point number. */
    public ModelOptions metadata(String key, double value) {
        return set("ember_model_options_set_meta_f64", key, value);
    }

    /** As before, whether something is so. */
    public ModelOptions metadata(String key, boolean value) {
        return set("ember_model_options_set_meta_bool", key, value);
    }

    /** As before, a text. */
    public ModelOptions metadata(String key, String value) {
        return set("ember_model_options_set_meta_string", key, value);
    }

    /** What may end the loading, from another thread: then it is an EmberException with the status 12. */
    public ModelOptions cancelToken(CancelToken token) {
        return set("ember_model_options_set_cancel_token", token.handle);
    }

    /** Gets how far the loading is, from 0 to 1, on the thread that loads. An exception from it ends the loading and is rethrown. */
    public ModelOptions progress(DoubleConsumer progress) {
        var callback = new Callback(FunctionDescriptor.of(JAVA_INT, JAVA_FLOAT, ADDRESS), 1, values -> {
            progress.accept((float) values[0]);
            return 0;
        });
        callbacks.add(callback);
        return set("ember_model_options_set_progress", callback.pointer, MemorySegment.NULL);
    }

    /** Throws what `progress` threw. */
    void check() {
        callbacks.forEach(Callback::check);
    }
}
