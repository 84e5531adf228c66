// Samplers and their stages.
#ifndef EMBER_SAMPLER_HPP
#define EMBER_SAMPLER_HPP

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base.hpp"
#include "constraint.hpp"
#include "model.hpp"

namespace ember {

namespace detail {
// A function, and what it threw in a step of an engine, where the requests that it ended look for it.
class Stage {
public:
    using Function = std::function<void(Span<const Token>, Span<float>)>;
    explicit Stage(Function function) : function_(std::move(function)) {}
    std::int32_t run(Span<const Token> tokens, Span<float> logits) const noexcept {
        return Relay::run([&] { function_(tokens, logits); }, [&](std::exception_ptr thrown) {
            std::lock_guard<std::mutex> lock(mutex_);
            thrown_ = std::move(thrown);
        });
    }
    std::exception_ptr take() const {
        std::lock_guard<std::mutex> lock(mutex_);
        return std::exchange(thrown_, nullptr);
    }

private:
    Function function_;
    mutable std::mutex mutex_;
    mutable std::exception_ptr thrown_;
};
// The functions that the library has the addresses of.
using Stages = std::vector<std::shared_ptr<const Stage>>;
} // namespace detail

// Of Sampler::dry: what is taken off is multiplier times base to the power of (length of the passage - allowed_length).
struct DryOptions {
    float multiplier = 0.8f;
    float base = 1.75f;
    std::uint32_t allowed_length = 2;
    // Texts that no passage goes beyond; std::nullopt: line end, colon, quotation mark, asterisk.
    std::optional<std::vector<std::string>> breakers = std::nullopt;
};

// Stages in the order in which they are added, then a random draw: Sampler(42).top_k(40).temperature(0.8f).
class Sampler {
public:
    explicit Sampler(std::uint64_t seed) : handle_(detail::make<Handle>(ember_sampler_new, seed)) {}
    // A sampler with the stages that the model's file proposes; EMBER_E_NOT_FOUND for one that proposes nothing.
    static Sampler of(const Model &model, std::uint64_t seed = EMBER_SEED_RANDOM) {
        return Sampler(detail::make<Handle>(ember_model_sampler, model.get(), seed), {});
    }
    Sampler &greedy() & { return add(ember_sampler_add_greedy); }
    Sampler &temperature(float t) & { return add(ember_sampler_add_temperature, t); }
    Sampler &top_k(std::uint32_t k) & { return add(ember_sampler_add_top_k, k); }
    Sampler &top_p(float p) & { return add(ember_sampler_add_top_p, p); }
    Sampler &min_p(float p) & { return add(ember_sampler_add_min_p, p); }
    Sampler &typical_p(float p) & { return add(ember_sampler_add_typical_p, p); }
    Sampler &dynamic_temperature(float t, float range, float exponent = 1) & {
        return add(ember_sampler_add_dynamic_temperature, t, range, exponent);
    }
    Sampler &xtc(float probability, float threshold) & { return add(ember_sampler_add_xtc, probability, threshold); }
    Sampler &penalties(std::uint32_t last_n, float repeat, float frequency = 0, float presence = 0) & {
        return add(ember_sampler_add_penalties, last_n, repeat, frequency, presence);
    }
    // Whether frequency and presence count the tokens that were generated since the last one of a prompt and no others.
    Sampler &penalties_generated_only(bool generated_only = true) & {
        return add(ember_sampler_set_penalties_generated_only, generated_only);
    }
    // Makes tokens less likely which would carry on a passage that is among the latest `last_n` already (DRY).
    Sampler &dry(const Model &model, std::uint32_t last_n, const DryOptions &options = {}) & {
        std::vector<const char *> texts{""}; // an address also for none
        std::vector<std::size_t> lengths{0};
        std::size_t n = options.breakers ? options.breakers->size() : 0;
        if (n > 0) {
            texts.clear();
            lengths.clear();
            for (const std::string &text : *options.breakers) {
                texts.push_back(text.data());
                lengths.push_back(text.size());
            }
        }
        return add(ember_sampler_add_dry, model.get(), options.multiplier, options.base, options.allowed_length, last_n,
                   options.breakers ? texts.data() : nullptr, options.breakers ? lengths.data() : nullptr, n);
    }
    Sampler dry(const Model &model, std::uint32_t last_n, const DryOptions &options = {}) && {
        return std::move(dry(model, last_n, options));
    }
    // A stage of your own: it sees the candidates that the stages before have left, in ascending order of tokens, and may change
    // their logits, which are Ember's memory, for the length of its call. The call that samples rethrows its exceptions. The
    // sampler, its clones and generators made with it keep the function; with clones it may run on several threads at once.
    Sampler &stage(std::function<void(Span<const Token>, Span<float>)> function) & {
        stages_.push_back(std::make_shared<const detail::Stage>(std::move(function)));
        ember_candidates_callback callback = [](const Token *tokens, float *logits, std::size_t n, void *user_data) {
            return static_cast<const detail::Stage *>(user_data)->run({tokens, n}, {logits, n});
        };
        return add(ember_sampler_add_callback, callback, const_cast<void *>(static_cast<const void *>(stages_.back().get())));
    }
    Sampler stage(std::function<void(Span<const Token>, Span<float>)> function) && {
        return std::move(stage(std::move(function)));
    }
    Sampler &top_n_sigma(float n) & { return add(ember_sampler_add_top_n_sigma, n); }
    // Tokens are the likelier, the nearer their probability is to a target that moves; the last stage, after min_p.
    Sampler &adaptive_p(float target, float decay = 0.9f) & { return add(ember_sampler_add_adaptive_p, target, decay); }
    // For filling a gap in a text: after top_k and top_p, it ends the text rather than go on with something unlikely.
    Sampler &infill(const Model &model) & { return add(ember_sampler_add_infill, model.get()); }
    // Keeps the tokens that may be next in a text that follows the constraint. Add it first.
    Sampler &constraint(const Constraint &one) & { return add(ember_sampler_add_constraint, one.get()); }
    // How far the text is that follows a constraint of the sampler.
    ember_constraint_progress progress() const {
        std::int32_t out = EMBER_CONSTRAINT_NONE;
        detail::call(ember_sampler_progress, get(), &out);
        return static_cast<ember_constraint_progress>(out);
    }
    // Mirostat's first version, which looks at the `m` likeliest tokens.
    Sampler &mirostat_1(float tau, float eta, std::uint32_t m = 100) & { return add(ember_sampler_add_mirostat_1, tau, eta, m); }
    Sampler &mirostat(float tau, float eta) & { return add(ember_sampler_add_mirostat, tau, eta); }
    Sampler &bias(Span<const std::pair<Token, float>> biases) & {
        std::vector<Token> tokens;
        std::vector<float> values;
        for (const auto &[token, value] : biases) {
            tokens.push_back(token);
            values.push_back(value);
        }
        return add(ember_sampler_add_bias, tokens.data(), values.data(), tokens.size());
    }
    Sampler &allow(Span<const Token> tokens) & { return add(ember_sampler_add_allow, tokens.data(), tokens.size()); }
    Sampler &deny(Span<const Token> tokens) & { return add(ember_sampler_add_deny, tokens.data(), tokens.size()); }
    Sampler greedy() && { return std::move(greedy()); }
    Sampler temperature(float t) && { return std::move(temperature(t)); }
    Sampler top_k(std::uint32_t k) && { return std::move(top_k(k)); }
    Sampler top_p(float p) && { return std::move(top_p(p)); }
    Sampler min_p(float p) && { return std::move(min_p(p)); }
    Sampler top_n_sigma(float n) && { return std::move(top_n_sigma(n)); }
    Sampler adaptive_p(float target, float decay = 0.9f) && { return std::move(adaptive_p(target, decay)); }
    Sampler infill(const Model &model) && { return std::move(infill(model)); }
    Sampler constraint(const Constraint &one) && { return std::move(constraint(one)); }
    Sampler mirostat_1(float tau, float eta, std::uint32_t m = 100) && { return std::move(mirostat_1(tau, eta, m)); }
    // A copy of the sampler as it stands.
    Sampler clone() const { return Sampler(detail::make<Handle>(ember_sampler_clone, get()), stages_); }
    std::uint64_t seed() const {
        std::uint64_t seed = 0;
        detail::call(ember_sampler_seed, get(), &seed);
        return seed;
    }
    // Tells the stages that look back of a token; generations do so themselves.
    void accept(Token token) { detail::call(ember_sampler_accept, get(), token); }
    // Starts over: the random numbers and what was accepted.
    void reset() { detail::call(ember_sampler_reset, get()); }
    Token sample(Span<const float> logits) {
        Token token = EMBER_TOKEN_NONE;
        detail::relayed([&] { detail::call(ember_sampler_sample, get(), logits.data(), logits.size(), &token); });
        return token;
    }
    ember_sampler *get() const noexcept { return handle_.get(); }

private:
    template <class Function, class... Arguments> Sampler &add(Function *function, Arguments... arguments) {
        detail::call(function, get(), arguments...);
        return *this;
    }
    using Handle = detail::Handle<ember_sampler, ember_sampler_free>;
    Sampler(Handle handle, detail::Stages stages) noexcept : stages_(std::move(stages)), handle_(std::move(handle)) {}
    friend class Context;
    friend class Conversation;
    friend class Engine;
    detail::Stages stages_;
    Handle handle_;
};

} // namespace ember

#endif
