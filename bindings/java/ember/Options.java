package ember;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;

/** How to generate. With any of temperature, topK, topP, minP and seed tokens are drawn; otherwise the likeliest is taken. */
public final class Options {
    /** Adds a stage to a sampler. */
    private record Stage(String function, Object value) {}

    private final List<Stage> stages = new ArrayList<>();
    private final List<String> stops = new ArrayList<>();
    private OptionalLong seed = OptionalLong.empty();
    private int maxTokens = 128;
    private boolean logprobs;
    private boolean ignoreEog;
    private Boolean reusePrefix;
    private Constraint constraint;

    /** The most tokens to generate; by default 128. */
    public Options maxTokens(int n) {
        maxTokens = Native.unsigned("maxTokens", n);
        return this;
    }

    /** Ends the generation before this text; may be called again for more. */
    public Options stop(String text) {
        stops.add(text);
        return this;
    }

    /** Divides the logits by t; 0 takes the likeliest token. Stages come in the order of the calls. */
    public Options temperature(float t) {
        return stage("ember_sampler_add_temperature", t);
    }

    /** Keeps the k likeliest tokens. */
    public Options topK(int k) {
        return stage("ember_sampler_add_top_k", Native.unsigned("topK", k));
    }

    /** Keeps the likeliest tokens that make up p. */
    public Options topP(float p) {
        return stage("ember_sampler_add_top_p", p);
    }

    /** Keeps tokens at least p times as likely as the likeliest. */
    public Options minP(float p) {
        return stage("ember_sampler_add_min_p", p);
    }

    private Options stage(String function, Object value) {
        stages.add(new Stage(function, value));
        return this;
    }

    /** The same seed gives the same text. It is taken as unsigned; -1 stands for one taken by chance, as no seed does. */
    public Options seed(long seed) {
        this.seed = OptionalLong.of(seed);
        return this;
    }

    /** Has events tell the log-probability of their token. */
    public Options logprobs(boolean logprobs) {
        this.logprobs = logprobs;
        return this;
    }

    /** Goes on after an end-of-generation token. */
    public Options ignoreEog(boolean ignore) {
        ignoreEog = ignore;
        return this;
    }

    /** Takes the prompt for all that the context shall hold and runs what is new of it; by default for chat alone. */
    public Options reusePrefix(boolean reuse) {
        reusePrefix = reuse;
        return this;
    }

    /** Has the generated text follow this; `Event.progress` of the last event tells whether it is complete. */
    public Options constraint(Constraint constraint) {
        this.constraint = constraint;
        return this;
    }

    /** The ember_generate_options. */
    Handle handle(Arena arena, MemorySegment cancel, boolean chat) {
        var handle = new Handle("options", Native.made(arena, "ember_generate_options_new"), "ember_generate_options_free");
        return handle.use(o -> {
            Native.call(arena, "ember_generate_options_set_max_tokens", o, maxTokens);
            Native.call(arena, "ember_generate_options_set_logprobs", o, logprobs);
            Native.call(arena, "ember_generate_options_set_ignore_eog", o, ignoreEog);
            Native.call(arena, "ember_generate_options_set_reuse_prefix", o, reusePrefix == null ? chat : reusePrefix);
            Native.call(arena, "ember_generate_options_set_cancel_token", o, cancel);
            if (constraint != null) {
                constraint.handle.use(c -> {
                    Native.call(arena, "ember_generate_options_set_constraint", o, c);
                    return null;
                });
            }
            for (var stop : stops) {
                var text = Native.utf8(arena, stop);
                Native.call(arena, "ember_generate_options_add_stop", o, text, text.byteSize());
            }
            return handle;
        });
    }

    /** The ember_sampler, or null. */
    Handle sampler(Arena arena) {
        if (stages.isEmpty() && seed.isEmpty()) return null;
        var handle = new Handle("sampler", Native.made(arena, "ember_sampler_new", seed.orElse(-1)), "ember_sampler_free");
        return handle.use(s -> {
            for (var stage : stages) Native.call(arena, stage.function, s, stage.value);
            return handle;
        });
    }
}
