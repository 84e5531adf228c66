package ember;

/** How an engine is made. */
public final class EngineOptions extends Settings<EngineOptions> {
    private ContextOptions context = new ContextOptions();

    public EngineOptions() {
        super("ember_engine_options");
    }

    /** How many requests run together; by default 8. */
    public EngineOptions parallel(int n) {
        return set("ember_engine_options_set_n_parallel", Native.unsigned("parallel", n));
    }

    /** How many requests may wait; by default 256. */
    public EngineOptions queue(int n) {
        return set("ember_engine_options_set_max_queue", Native.unsigned("queue", n));
    }

    /** Whether requests that begin alike share what was computed for the first of them; by default true. */
    public EngineOptions sharePrefixes(boolean share) {
        return set("ember_engine_options_set_share_prefixes", share);
    }

    /** How the engine's context is made; its sequences and keepPrefixes are the engine's own to say. */
    public EngineOptions context(ContextOptions options) {
        context = options;
        return this;
    }

    @Override
    Handle handle(Setting... first) {
        try (var its = context.handle()) {
            return super.handle(new Setting("ember_engine_options_set_context_options", its),
                    new Setting("ember_engine_options_set_thread", true));
        }
    }
}
