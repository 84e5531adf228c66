package ember;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;

/** How to generate. With any of temperature, topK, topP, minP and seed tokens are drawn; otherwise the likeliest is taken. */
public final class Options {
    /** Adds a stage to a sampler. */
    private record Stage(String function, Object... values) {}

    /** Calls a setter. */
    private record Setting(String function, Object... values) {}

    /** What guesses tokens. */
    private record Draft(Context context, int sequence, int n) {}

    private final List<Stage> stages = new ArrayList<>();
    private final List<Setting> settings = new ArrayList<>();
    private final List<String> stops = new ArrayList<>();
    private OptionalLong seed = OptionalLong.empty();
    private int maxTokens = 128;
    private boolean logprobs;
    private boolean ignoreEog;
    private Boolean reusePrefix;
    private Constraint constraint;
    private Draft draft;

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

    /** Keeps the tokens whose surprise is closest to the expected one, until their probabilities add up to more than p. */
    public Options typicalP(float p) {
        return stage("ember_sampler_add_typical_p", p);
    }

    /** Keeps the tokens whose logits are at most so many standard deviations of all below the largest; 0 keeps all. */
    public Options topNSigma(float n) {
        return stage("ember_sampler_add_top_n_sigma", n);
    }

    /** As often as `probability` says, removes all tokens at least as probable as `threshold` but the least likely of them. */
    public Options xtc(float probability, float threshold) {
        return stage("ember_sampler_add_xtc", probability, threshold);
    }

    /**
     * Makes tokens less likely that are among the last n: their logit is divided by `repeat` (1 changes nothing) where positive, else
     * multiplied; `frequency` is taken off for each time they occurred, and `presence` once.
     */
    public Options penalties(int n, float repeat, float frequency, float presence) {
        return stage("ember_sampler_add_penalties", Native.unsigned("n", n), repeat, frequency, presence);
    }

    /** A temperature between t - range and t + range, which grows with the entropy of the distribution to the power `exponent`. */
    public Options dynamicTemperature(float t, float range, float exponent) {
        return stage("ember_sampler_add_dynamic_temperature", t, range, exponent);
    }

    /** Keeps tokens whose surprise is below a bound, which follows `tau` bits at the rate `eta`. It is the last stage as a rule. */
    public Options mirostat(float tau, float eta) {
        return stage("ember_sampler_add_mirostat", tau, eta);
    }

    /** Makes tokens the likelier, the nearer their probability is to a target, which moves so that `target` is their average. */
    public Options adaptiveP(float target, float decay) {
        return stage("ember_sampler_add_adaptive_p", target, decay);
    }

    private Options stage(String function, Object... values) {
        stages.add(new Stage(function, values));
        return this;
    }

    /** Which sequence of the context goes on, from 0 on; completions take this one and those behind it. */
    public Options sequence(int sequence) {
        return set("ember_generate_options_set_sequence", Native.unsigned("sequence", sequence));
    }

    /** Writes the control tokens that the model generates, which are left out by default: for ChatParser. */
    public Options renderSpecial(boolean render) {
        return set("ember_generate_options_set_render_special", render);
    }

    /** Keeps the stop text at the end of the text. */
    public Options includeStop(boolean include) {
        return set("ember_generate_options_set_include_stop", include);
    }

    /** Ends the generation after so many milliseconds; 0: never. */
    public Options timeLimit(long milliseconds) {
        if (milliseconds < 0) throw new IllegalArgumentException("timeLimit must not be negative, and is " + milliseconds);
        return set("ember_generate_options_set_time_limit", milliseconds);
    }

    /** When the context is full, keeps the first `keep` tokens, forgets `drop` behind them, and goes on. */
    public Options shift(int keep, int drop) {
        return set("ember_generate_options_set_shift", Native.unsigned("keep", keep), Native.unsigned("drop", drop));
    }

    /** Which of the requests that wait in an engine's queue begins first: that of the highest priority; 0 by default. */
    public Options priority(int priority) {
        return set("ember_generate_options_set_priority", priority);
    }

    /** Guesses up to n tokens by looking for the last `ngram` in the text; the text stays what it is, and comes faster where it repeats. */
    public Options lookup(int n, int ngram) {
        return set("ember_generate_options_set_lookup", Native.unsigned("n", n), Native.unsigned("ngram", ngram));
    }

    /** Has a context of a smaller model, of the same vocabulary, guess up to n tokens in this sequence of its own; the text stays what it is. */
    public Options draft(Context context, int sequence, int n) {
        draft = new Draft(context, Native.unsigned("sequence", sequence), Native.unsigned("n", n));
        return this;
    }

    private Options set(String function, Object... values) {
        settings.add(new Setting(function, values));
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

    /** Has events tell the n likeliest tokens at the place of their token. */
    public Options topLogprobs(int n) {
        return set("ember_generate_options_set_n_top", Native.unsigned("n", n));
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
            if (draft != null) {
                draft.context.use(c -> {
                    Native.call(arena, "ember_generate_options_set_draft", o, c, draft.sequence, draft.n);
                    return null;
                });
            }
            for (var setting : settings) Native.call(arena, setting.function, with(o, setting.values));
            for (var stop : stops) {
                var text = Native.utf8(arena, stop);
                Native.call(arena, "ember_generate_options_add_stop", o, text, text.byteSize());
            }
            return handle;
        });
    }

    private static Object[] with(MemorySegment first, Object[] values) {
        var all = new Object[values.length + 1];
        System.arraycopy(values, 0, all, 1, values.length);
        all[0] = first;
        return all;
    }

    /** The ember_sampler, or null. */
    Handle sampler(Arena arena) {
        if (stages.isEmpty() && seed.isEmpty()) return null;
        var handle = new Handle("sampler", Native.made(arena, "ember_sampler_new", seed.orElse(-1)), "ember_sampler_free");
        return handle.use(s -> {
            for (var stage : stages) Native.call(arena, stage.function, with(s, stage.values));
            return handle;
        });
    }
}
