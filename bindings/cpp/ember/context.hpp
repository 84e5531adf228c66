// Contexts: generating, embedding, scoring, sequences and states.
#ifndef EMBER_CONTEXT_HPP
#define EMBER_CONTEXT_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <ios>
#include <istream>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base.hpp"
#include "event.hpp"
#include "model.hpp"
#include "options.hpp"
#include "sampler.hpp"

namespace ember {

// A generation under way: a range of events, the last of which is the one that is_end(), or next() after next(). The context
// keeps all generated tokens but that of the last event, which the next event would have run. After the end it has all of them,
// unless the end was a cancellation. Do not move it while a loop goes over it.
class Generator {
public:
    using Iterator = detail::EventIterator<Generator>;
    // The next event; after the last one, that one again.
    const Event &next() {
        ember_event *raw = detail::raw(event_);
        detail::relayed([&] { detail::call(ember_generator_next, handle_.get(), raw); });
        return event_;
    }
    // The event that next() gave last.
    const Event &event() const noexcept { return event_; }
    // Takes the next event: the first runs the prompt.
    Iterator begin() {
        next();
        return Iterator(this);
    }
    Iterator end() noexcept { return Iterator(nullptr); }
    // Takes all events that are left and returns their text.
    std::string text() {
        std::string text;
        do
            text += next().text();
        while (!event_.is_end());
        return text;
    }
    // What it did so far.
    Usage usage() const {
        Usage usage{};
        usage.struct_size = sizeof usage;
        detail::call(ember_generator_usage, handle_.get(), &usage);
        return usage;
    }
    ember_generator *get() const noexcept { return handle_.get(); }

private:
    friend class Context;
    using Handle = detail::Handle<ember_generator, ember_generator_free>;
    Generator(Handle handle, detail::Stages stages) noexcept : stages_(std::move(stages)), handle_(std::move(handle)) {}
    detail::Stages stages_;
    Handle handle_;
    Event event_;
};

// Several completions of one prompt under way, which take turns, a token each. Completion i is in sequence s + i of the context, where s is
// that of the options, and draws with the sampler's seed + i.
class Completions {
public:
    // The next event, and which completion it is of; std::nullopt when all have ended. Each ends with one event that is_end().
    struct Turn {
        std::uint32_t index;
        const Event &event; // until the next call
    };
    std::optional<Turn> next() {
        std::uint32_t index = 0;
        ember_event *raw = detail::raw(event_);
        detail::relayed([&] { detail::call(ember_completions_next, handle_.get(), raw, &index); });
        if (event_.is_none())
            return std::nullopt;
        return Turn{index, event_};
    }
    // Runs all of them to their ends.
    void finish() {
        while (next()) {
        }
    }
    // The text of a completion so far.
    std::string text(std::uint32_t index) const {
        return detail::fill<std::string>(256, [&](char *out, std::size_t n, auto... rest) {
            return ember_completions_text(handle_.get(), index, detail::bytes(out), n, rest...);
        });
    }
    // What a completion did so far.
    Usage usage(std::uint32_t index) const {
        Usage usage{};
        usage.struct_size = sizeof usage;
        detail::call(ember_completions_usage, handle_.get(), index, &usage);
        return usage;
    }
    // All completions by the mean log-probability of their tokens, the likeliest first, when all have ended. Needs
    // GenerateOptions::logprobs.
    std::vector<std::uint32_t> rank() const {
        return detail::fill<std::vector<std::uint32_t>>(8, [&](std::uint32_t *out, std::size_t n, auto... rest) {
            return ember_completions_rank(handle_.get(), out, n, rest...);
        });
    }
    ember_completions *get() const noexcept { return handle_.get(); }

private:
    friend class Context;
    using Handle = detail::Handle<ember_completions, ember_completions_free>;
    Completions(Handle handle, detail::Stages stages) noexcept : stages_(std::move(stages)), handle_(std::move(handle)) {}
    detail::Stages stages_;
    Handle handle_;
    Event event_;
};

// Vectors of n_embd numbers each, one after the other. n_embd is what the options and the model make it.
struct Embeddings {
    std::vector<float> values;
    std::size_t n_embd = 0;
    std::size_t size() const noexcept { return n_embd == 0 ? 0 : values.size() / n_embd; }
    Span<const float> operator[](std::size_t i) const noexcept { return {values.data() + i * n_embd, n_embd}; }
};

struct Score {
    double logprob = 0;
    bool is_greedy = false;
    std::uint32_t n_prompt = 0;
    std::uint32_t n_reused = 0;
    std::vector<TokenScore> tokens;
};

// What Context::decode runs: the arrays are empty or as long as `tokens`; empty ones mean what NULL does in C.
struct Batch {
    Span<const Token> tokens;
    Span<const std::uint32_t> positions = {};
    Span<const std::uint32_t> sequences = {};
    Span<const std::uint8_t> want_logits = {};
};

class Context {
public:
    explicit Context(const Model &model, const ContextOptions &options = {})
        : handle_(detail::make<Handle>(ember_context_new, model.get(), options.handle().get())) {
        model_ = model.info();
    }
    Context(Context &&) noexcept = default;
    Context &operator=(Context &&) noexcept = default;

    ContextInfo info() const {
        ContextInfo info{};
        info.struct_size = sizeof info;
        detail::call(ember_context_info_get, get(), &info);
        return info;
    }
    // What the context takes, and its model.
    Memory memory() const { return detail::memory(ember_context_memory, get()); }
    // What the context has done since it was made, or since reset_timings.
    Timings timings() const {
        Timings timings{};
        timings.struct_size = sizeof timings;
        detail::call(ember_context_timings_get, get(), &timings);
        return timings;
    }
    void reset_timings() { detail::call(ember_context_timings_reset, get()); }
    // The token that may end the calls from now on; std::nullopt: none.
    void set_cancel_token(const std::optional<CancelToken> &token) {
        detail::call(ember_context_set_cancel_token, get(), token ? token->get() : nullptr);
    }

    // The sampler, greedy without one, may be a temporary: the generator keeps it. Its random numbers move on.
    Generator generate(std::string_view prompt, const GenerateOptions &options = {}) {
        return start(ember_generator_new, prompt.data(), prompt.size(), options, nullptr);
    }
    Generator generate(std::string_view prompt, const GenerateOptions &options, const Sampler &sampler) {
        return start(ember_generator_new, prompt.data(), prompt.size(), options, &sampler);
    }
    Generator generate_tokens(Span<const Token> prompt, const GenerateOptions &options = {}) {
        return start(ember_generator_new_tokens, prompt.data(), prompt.size(), options, nullptr);
    }
    Generator generate_tokens(Span<const Token> prompt, const GenerateOptions &options, const Sampler &sampler) {
        return start(ember_generator_new_tokens, prompt.data(), prompt.size(), options, &sampler);
    }

    // `n` completions of a prompt, which runs once; greedy without a sampler, so that all are the same. The context needs as many sequences.
    Completions completions(std::string_view prompt, std::uint32_t n, const GenerateOptions &options = {}) {
        return start_several(ember_completions_new, prompt.data(), prompt.size(), n, options, nullptr);
    }
    Completions completions(std::string_view prompt, std::uint32_t n, const GenerateOptions &options, const Sampler &sampler) {
        return start_several(ember_completions_new, prompt.data(), prompt.size(), n, options, &sampler);
    }
    Completions completions_tokens(Span<const Token> prompt, std::uint32_t n, const GenerateOptions &options = {}) {
        return start_several(ember_completions_new_tokens, prompt.data(), prompt.size(), n, options, nullptr);
    }
    Completions completions_tokens(Span<const Token> prompt, std::uint32_t n, const GenerateOptions &options,
                                   const Sampler &sampler) {
        return start_several(ember_completions_new_tokens, prompt.data(), prompt.size(), n, options, &sampler);
    }

    // `texts` is any range of what is text: std::vector<std::string>, for example.
    template <class Texts> Embeddings embed(const Texts &texts, const EmbedOptions &options = {}) {
        Views views(texts);
        auto handle = options.handle();
        return vectors(views.size(), options.width(model_), [&](float *out, std::size_t n, auto... rest) {
            return ember_embed(get(), views.pointers.data(), views.lengths.data(), views.size(), handle.get(), out, n, rest...);
        });
    }
    Embeddings embed(std::initializer_list<std::string_view> texts, const EmbedOptions &options = {}) {
        return embed<std::initializer_list<std::string_view>>(texts, options);
    }
    // Of texts that are token ids, one after the other, `lengths[i]` of them for text i.
    Embeddings embed_tokens(Span<const Token> tokens, Span<const std::size_t> lengths, const EmbedOptions &options = {}) {
        auto handle = options.handle();
        return vectors(lengths.size(), options.width(model_), [&](float *out, std::size_t n, auto... rest) {
            return ember_embed_tokens(get(), tokens.data(), tokens.size(), lengths.data(), lengths.size(), handle.get(), out,
                                      n, rest...);
        });
    }

    // The scores of each text: one for each of Model::labels. `texts` is any range of what is text.
    template <class Texts>
    std::vector<std::vector<float>> classify(const Texts &texts, const ClassifyOptions &options = {}) {
        Views views(texts);
        auto handle = options.handle();
        auto all = detail::fill<std::vector<float>>(views.size(), [&](float *out, std::size_t n, auto... rest) {
            return ember_classify(get(), views.pointers.data(), views.lengths.data(), views.size(), handle.get(), out, n,
                                  rest...);
        });
        std::vector<std::vector<float>> scores;
        auto width = static_cast<std::ptrdiff_t>(views.size() == 0 ? 1 : all.size() / views.size());
        for (auto at = all.begin(); at != all.end(); at += width)
            scores.emplace_back(at, at + width);
        return scores;
    }
    std::vector<std::vector<float>> classify(std::initializer_list<std::string_view> texts, const ClassifyOptions &options = {}) {
        return classify<std::initializer_list<std::string_view>>(texts, options);
    }
    // How well each document answers the query: a score for each, the higher the better.
    template <class Texts>
    std::vector<float> rerank(std::string_view query, const Texts &documents, const ClassifyOptions &options = {}) {
        Views views(documents);
        auto handle = options.handle();
        return detail::fill<std::vector<float>>(views.size(), [&](float *out, std::size_t n, auto... rest) {
            return ember_rerank(get(), query.data(), query.size(), views.pointers.data(), views.lengths.data(), views.size(),
                                handle.get(), out, n, rest...);
        });
    }
    std::vector<float> rerank(std::string_view query, std::initializer_list<std::string_view> documents,
                              const ClassifyOptions &options = {}) {
        return rerank<std::initializer_list<std::string_view>>(query, documents, options);
    }

    Score score(std::string_view prompt, std::string_view continuation, const GenerateOptions &options = {}) {
        auto handle = options.handle();
        return scored(continuation.size() / 2 + 8, [&](auto... rest) {
            return ember_score(get(), prompt.data(), prompt.size(), continuation.data(), continuation.size(), handle.get(),
                               rest...);
        });
    }
    Score score_tokens(Span<const Token> tokens, std::size_t n_prompt, const GenerateOptions &options = {}) {
        auto handle = options.handle();
        return scored(tokens.size() + 1, [&](auto... rest) {
            return ember_score_tokens(get(), tokens.data(), tokens.size(), n_prompt, handle.get(), rest...);
        });
    }

    void decode(const Batch &batch) {
        std::size_t n = batch.tokens.size();
        for (std::size_t other : {batch.positions.size(), batch.sequences.size(), batch.want_logits.size()})
            if (other != 0 && other != n)
                throw Error(EMBER_E_INVALID_ARGUMENT, "the arrays of a batch differ in length");
        detail::call(ember_context_decode, get(), batch.tokens.data(), pointer(batch.positions), pointer(batch.sequences),
                     pointer(batch.want_logits), n);
    }
    void decode(Span<const Token> tokens) { decode(Batch{tokens}); }
    // The logits of token `index` of the last decode: the context's own, until its next decode, generation or rewind.
    Span<const float> logits(std::size_t index) const {
        const float *out = nullptr;
        detail::call(ember_context_logits, get(), index, &out);
        return {out, model_.n_vocab};
    }
    std::uint32_t n_past(std::uint32_t sequence = 0) const {
        std::uint32_t n = 0;
        detail::call(ember_context_n_past, get(), sequence, &n);
        return n;
    }
    // The tokens of a sequence, in order: after a shift those that are left.
    std::vector<Token> tokens(std::uint32_t sequence = 0) const {
        return detail::fill<std::vector<Token>>(n_past(sequence), [&](Token *out, std::size_t n, auto... rest) {
            return ember_context_tokens(get(), sequence, out, n, rest...);
        });
    }
    void rewind(std::uint32_t n_past, std::uint32_t sequence = 0) {
        detail::call(ember_context_rewind, get(), sequence, n_past);
    }
    // Makes sequence `to` the first `n_tokens` tokens of sequence `from`. They share memory until they differ.
    void copy_sequence(std::uint32_t from, std::uint32_t to, std::uint32_t n_tokens) {
        detail::call(ember_context_sequence_copy, get(), from, to, n_tokens);
    }
    // Forgets `n_drop` tokens of a sequence after its first `n_keep`, to free positions; later tokens move forward.
    void shift_sequence(std::uint32_t sequence, std::uint32_t n_keep, std::uint32_t n_drop) {
        detail::call(ember_context_sequence_shift, get(), sequence, n_keep, n_drop);
    }
    // Empties all sequences but this one.
    void keep_sequence(std::uint32_t sequence) { detail::call(ember_context_sequence_keep, get(), sequence); }
    // Makes a sequence as much of the beginning of `tokens` as the KV cache has, and says how many those are. To leave the last
    // one, for its logits, give all but that.
    std::size_t reuse(Span<const Token> tokens, std::uint32_t sequence = 0) {
        std::size_t n = 0;
        detail::call(ember_context_sequence_reuse, get(), sequence, pointer(tokens), tokens.size(), tokens.size(), &n);
        return n;
    }

    // The state of a sequence, or of the whole context, for load_state in any process with the same model.
    std::vector<std::byte> save_state(std::uint32_t sequence = EMBER_ALL_SEQUENCES) const {
        return detail::fill<std::vector<std::byte>>(0, [&](std::byte *out, std::size_t n, auto... rest) {
            return ember_context_state_save(get(), sequence, reinterpret_cast<std::uint8_t *>(out), n, rest...);
        });
    }
    void load_state(Span<const std::byte> state, std::uint32_t sequence = EMBER_ALL_SEQUENCES) {
        auto *bytes = reinterpret_cast<const std::uint8_t *>(state.data());
        detail::call(ember_context_state_load, get(), sequence, bytes, state.size());
    }
    // The same with a file: if anything fails, one that was there before is as it was.
    void save_state_file(std::string_view path, std::uint32_t sequence = EMBER_ALL_SEQUENCES) const {
        detail::call(ember_context_state_save_file, get(), sequence, path.data(), path.size());
    }
    void load_state_file(std::string_view path, std::uint32_t sequence = EMBER_ALL_SEQUENCES) {
        detail::call(ember_context_state_load_file, get(), sequence, path.data(), path.size());
    }
    // The same with a stream of bytes, part by part. One that fails is a std::ios_base::failure; it is read to its end.
    void save_state(std::ostream &stream, std::uint32_t sequence = EMBER_ALL_SEQUENCES) const {
        ember_write_callback callback = [](const std::uint8_t *data, std::size_t n, void *user_data) {
            return detail::Relay::run([&] {
                auto &to = *static_cast<std::ostream *>(user_data);
                if (!to.write(reinterpret_cast<const char *>(data), static_cast<std::streamsize>(n)))
                    throw std::ios_base::failure("the stream did not take the state");
            });
        };
        void *user_data = &stream;
        detail::relayed([&] { detail::call(ember_context_state_write, get(), sequence, callback, user_data); });
    }
    void load_state(std::istream &stream, std::uint32_t sequence = EMBER_ALL_SEQUENCES) {
        ember_read_callback callback = [](std::uint8_t *buffer, std::size_t capacity, void *user_data) {
            std::int64_t n = 0;
            bool threw = detail::Relay::run([&] {
                auto &from = *static_cast<std::istream *>(user_data);
                if (!from)
                    throw std::ios_base::failure("the stream did not give the state");
                n = from.rdbuf()->sgetn(reinterpret_cast<char *>(buffer), static_cast<std::streamsize>(capacity));
            }) != 0;
            return threw ? std::int64_t{-1} : n;
        };
        void *user_data = &stream;
        detail::relayed([&] { detail::call(ember_context_state_read, get(), sequence, callback, user_data); });
    }
    ember_context *get() const noexcept { return handle_.get(); }

private:
    friend class GenerateOptions;
    using Handle = detail::Handle<ember_context, ember_context_free>;
    // Where texts lie.
    struct Views {
        template <class Texts> explicit Views(const Texts &texts) {
            for (std::string_view text : texts) {
                pointers.push_back(text.data());
                lengths.push_back(text.size());
            }
        }
        std::size_t size() const noexcept { return pointers.size(); }
        std::vector<const char *> pointers;
        std::vector<std::size_t> lengths;
    };
    template <class T> static T *pointer(Span<T> span) { return span.empty() ? nullptr : span.data(); }
    template <class Function, class T>
    Generator start(Function *function, const T *prompt, std::size_t n, const GenerateOptions &options,
                    const Sampler *sampler) {
        auto stages = sampler == nullptr ? detail::Stages() : sampler->stages_;
        auto *raw = sampler == nullptr ? nullptr : sampler->get();
        auto handle = detail::make<Generator::Handle>(function, get(), prompt, n, options.handle().get(), raw);
        return Generator(std::move(handle), std::move(stages));
    }
    template <class Function, class T>
    Completions start_several(Function *function, const T *prompt, std::size_t n_prompt, std::uint32_t n,
                              const GenerateOptions &options, const Sampler *sampler) {
        auto stages = sampler == nullptr ? detail::Stages() : sampler->stages_;
        auto *raw = sampler == nullptr ? nullptr : sampler->get();
        auto handle = detail::make<Completions::Handle>(function, get(), prompt, n_prompt, n, options.handle().get(), raw);
        return Completions(std::move(handle), std::move(stages));
    }
    template <class Function> Embeddings vectors(std::size_t n_texts, std::size_t width, Function &&function) {
        // The library reports the size that it needs: a width that it refuses must not be allocated for.
        std::size_t capacity = n_texts * std::min<std::size_t>(width, std::max(model_.n_embd, model_.n_embd_out));
        return {detail::fill<std::vector<float>>(capacity, function), width};
    }
    template <class Function> Score scored(std::size_t capacity, Function &&function) {
        ember_score_result result{};
        result.struct_size = sizeof result;
        Score score;
        score.tokens = detail::fill<std::vector<TokenScore>>(
            capacity, [&](TokenScore *out, std::size_t n, std::size_t *needed, ember_error **err) {
                return function(out, n, needed, &result, err);
            });
        score.logprob = result.logprob;
        score.is_greedy = result.is_greedy != 0;
        score.n_prompt = result.n_prompt;
        score.n_reused = result.n_reused;
        return score;
    }
    std::shared_ptr<ember_context> handle_; // options have it too when it is their draft
    ModelInfo model_{};
};

inline GenerateOptions &GenerateOptions::draft(const Context &context, std::uint32_t n_draft, std::uint32_t sequence) {
    draft_ = context.handle_;
    n_draft_ = n_draft;
    draft_sequence_ = sequence;
    return *this;
}

} // namespace ember

#endif
