package ember;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;

/**
 * How to generate. With a stage, such as temperature or topK, or a seed tokens are drawn; otherwise the likeliest is taken. Stages come in the
 * order of the calls.
 */
public final class Options extends Settings<Options> {
    /** A stage of one's own. */
    @FunctionalInterface
    public interface Candidates {
        /** May change the logits of these tokens, which the stages before have left; -infinity rules one out. */
        void change(int[] tokens, float[] logits);
    }

    private final List<Setting> stages = new ArrayList<>();
    private final List<Callback> callbacks = new ArrayList<>();
    private OptionalLong seed = OptionalLong.empty();
    private Sampler sampler;

    public Options() {
        super("ember_generate_options");
    }

    /** The most tokens to generate; by default 128. */
    public Options maxTokens(int n) {
        return set("ember_generate_options_set_max_tokens", Native.unsigned("maxTokens", n));
    }

    /** Ends the generation before this text; may be called again for more. */
    public Options stop(String text) {
        return set("ember_generate_options_add_stop", text);
    }

    /** Divides the logits by t; 0 takes the likeliest token. */
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
     * Makes tokens less likely that are among the last n. A positive logit is divided by `repeat` (1 changes nothing), another one multiplied.
     * `frequency` is taken off for each time the token occurred, and `presence` once.
     */
    public Options penalties(int n, float repeat, float frequency, float presence) {
        return stage("ember_sampler_add_penalties", Native.unsigned("n", n), repeat, frequency, presence);
    }

    /** Whether `frequency` and `presence` count the tokens that were generated and no others; by default all. */
    public Options penaltiesOfGenerated(boolean only) {
        return stage("ember_sampler_set_penalties_generated_only", only);
    }

    /** As before, with the usual breakers: line end, colon, quotation mark, asterisk. */
    public Options dry(Model model, float multiplier, float base, int allowedLength, int n) {
        return stage("ember_sampler_add_dry", model.handle(), multiplier, base, Native.unsigned("allowedLength", allowedLength),
                Native.unsigned("n", n), null, null, 0L);
    }

    /**
     * Makes tokens less likely that would continue a passage which the last n tokens have already. It takes `multiplier` times `base` to the power of
     * (length of the passage - `allowedLength`) off their logits. No passage goes beyond a breaker. The model is the one to sample for.
     */
    public Options dry(Model model, float multiplier, float base, int allowedLength, int n, List<String> breakers) {
        return stage("ember_sampler_add_dry", model.handle(), multiplier, base, Native.unsigned("allowedLength", allowedLength),
                Native.unsigned("n", n), List.copyOf(breakers));
    }

    /** Adds to the logits of tokens; -infinity rules one out. */
    public Options logitBias(Map<Integer, Float> biases) {
        int[] tokens = new int[biases.size()];
        var values = new float[tokens.length];
        int i = 0;
        for (var bias : biases.entrySet()) {
            tokens[i] = Native.unsigned("a token", bias.getKey());
            values[i++] = bias.getValue();
        }
        return stage("ember_sampler_add_bias", new Native.Columns(tokens.length, tokens, values));
    }

    /** Keeps these tokens only. */
    public Options allow(int... tokens) {
        return stage("ember_sampler_add_allow", tokens.clone());
    }

    /** Rules these tokens out. */
    public Options deny(int... tokens) {
        return stage("ember_sampler_add_deny", tokens.clone());
    }

    /** Keeps the likeliest token. */
    public Options greedy() {
        return stage("ember_sampler_add_greedy");
    }

    /** For filling a gap, after topK and topP: ends the text rather than go on with something unlikely. The model is the one to sample for. */
    public Options infill(Model model) {
        return stage("ember_sampler_add_infill", model.handle());
    }

    /** Keeps the tokens that may be next in a text that follows this: `constraint` as a stage, for a Sampler. Make it the first. */
    public Options constrained(Constraint constraint) {
        return stage("ember_sampler_add_constraint", constraint.handle);
    }

    /** A stage of one's own, on the thread that samples. An exception from it ends the generation and is rethrown. Not for requests of an engine. */
    public Options candidates(Candidates change) {
        var callback = new Callback(FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS), 1, values -> {
            long n = (long) values[2];
            var raw = Callback.at(values[1], 4 * n);
            var logits = raw.toArray(JAVA_FLOAT);
            change.change(Callback.at(values[0], 4 * n).toArray(JAVA_INT), logits);
            MemorySegment.copy(logits, 0, raw, JAVA_FLOAT, 0, logits.length);
            return 0;
        });
        callbacks.add(callback);
        return stage("ember_sampler_add_callback", callback.pointer, MemorySegment.NULL);
    }

    /** A temperature between t - range and t + range, which grows with the entropy of the distribution to the power `exponent`. */
    public Options dynamicTemperature(float t, float range, float exponent) {
        return stage("ember_sampler_add_dynamic_temperature", t, range, exponent);
    }

    /** Keeps tokens whose surprise is below a bound, which follows `tau` bits at the rate `eta`. It is the last stage as a rule. */
    public Options mirostat(float tau, float eta) {
        return stage("ember_sampler_add_mirostat", tau, eta);
    }

    /** Mirostat's first version, which looks at the m likeliest tokens; 100 is usual. */
    public Options mirostat1(float tau, float eta, int m) {
        return stage("ember_sampler_add_mirostat_1", tau, eta, Native.unsigned("m", m));
    }

    /** Makes tokens the likelier, the nearer their probability is to a target, which moves so that `target` is their average. */
    public Options adaptiveP(float target, float decay) {
        return stage("ember_sampler_add_adaptive_p", target, decay);
    }

    private Options stage(String function, Object... values) {
        stages.add(new Setting(function, values));
        return this;
    }

    /** Draws with this one, which has its own stages and seed, and keeps its random numbers and what it accepted. */
    public Options sampler(Sampler sampler) {
        this.sampler = sampler;
        return this;
    }

    /** Which sequence of the context goes on, from 0 on; completions take this one and those after it. */
    public Options sequence(int sequence) {
        return set("ember_generate_options_set_sequence", Native.unsigned("sequence", sequence));
    }

    /** Writes the control tokens that the model generates, which are left out by default: for ChatParser. */
    public Options renderSpecial(boolean render) {
        return set("ember_generate_options_set_render_special", render);
    }

    /**
     * Whether the text of control tokens in a prompt stands for these tokens, as it does in what `Model.applyChatTemplate` gave; by default it
     * is text.
     */
    public Options parseSpecial(boolean parse) {
        return set("ember_generate_options_set_parse_special", parse);
    }

    /** Has the first event be the prompt's text. */
    public Options echo(boolean echo) {
        return set("ember_generate_options_set_echo", echo);
    }

    /** Keeps the stop text at the end of the text. */
    public Options includeStop(boolean include) {
        return set("ember_generate_options_set_include_stop", include);
    }

    /** Ends the generation after so many milliseconds; 0: never. */
    public Options timeLimit(long milliseconds) {
        return set("ember_generate_options_set_time_limit", Native.unsigned("timeLimit", milliseconds));
    }

    /** When the context is full, keeps the first `keep` tokens, forgets `drop` after them, and goes on. */
    public Options shift(int keep, int drop) {
        return set("ember_generate_options_set_shift", Native.unsigned("keep", keep), Native.unsigned("drop", drop));
    }

    /** Which of the requests that wait in an engine's queue begins first: that of the highest priority; 0 by default. */
    public Options priority(int priority) {
        return set("ember_generate_options_set_priority", priority);
    }

    /** Proposes up to n draft tokens by looking for the last `ngram` in the text; the text stays what it is, and comes faster where it repeats. */
    public Options lookup(int n, int ngram) {
        return set("ember_generate_options_set_lookup", Native.unsigned("n", n), Native.unsigned("ngram", ngram));
    }

    /** Has a context of a smaller model, of the same vocabulary, propose up to n draft tokens in this sequence of its own; the text stays what it is. */
    public Options draft(Context context, int sequence, int n) {
        return set("ember_generate_options_set_draft", context.handle(), Native.unsigned("sequence", sequence), Native.unsigned("n", n));
    }

    /** The same seed gives the same text. It is taken as unsigned; -1 stands for one drawn at random, as no seed does. */
    public Options seed(long seed) {
        this.seed = OptionalLong.of(seed);
        return this;
    }

    /** Has events tell the log-probability of their token. */
    public Options logprobs(boolean logprobs) {
        return set("ember_generate_options_set_logprobs", logprobs);
    }

    /** Has events tell the n likeliest tokens at the place of their token. */
    public Options topLogprobs(int n) {
        return set("ember_generate_options_set_n_top", Native.unsigned("n", n));
    }

    /** Goes on after an end-of-generation token. */
    public Options ignoreEog(boolean ignore) {
        return set("ember_generate_options_set_ignore_eog", ignore);
    }

    /** Takes the prompt for all that the context shall hold and runs what is new of it; by default for chat alone. */
    public Options reusePrefix(boolean reuse) {
        return set("ember_generate_options_set_reuse_prefix", reuse);
    }

    /** Has the generated text follow this; `Event.progress` of the last event tells whether it is complete. */
    public Options constraint(Constraint constraint) {
        return set("ember_generate_options_set_constraint", constraint.handle);
    }

    /** The ember_generate_options, until the token is cancelled, if there is one. */
    Handle handle(Handle cancel, boolean chat) {
        return handle(new Setting("ember_generate_options_set_reuse_prefix", chat),
                new Setting("ember_generate_options_set_cancel_token", cancel));
    }

    /** Whether the sampler is the caller's, for several generations. */
    boolean hasSampler() {
        return sampler != null;
    }

    /** The ember_sampler, to be closed, or null for the likeliest tokens. */
    Handle sampler() {
        if (sampler != null) {
            if (!stages.isEmpty() || seed.isPresent()) {
                throw new IllegalArgumentException("where there is a sampler, it has the stages and the seed: the options must have none");
            }
            return sampler.open().share();
        }
        return stages.isEmpty() && seed.isEmpty() ? null : ownSampler();
    }

    Handle ownSampler() {
        var handle = new Handle("sampler", Native.made("ember_sampler_new", seed.orElse(-1)), "ember_sampler_free", List.copyOf(callbacks));
        try {
            for (var stage : stages) stage.apply(handle);
            return handle;
        } catch (RuntimeException e) {
            handle.close();
            throw e;
        }
    }
}
