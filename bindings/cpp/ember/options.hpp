// Options and the cancel token.
#ifndef EMBER_OPTIONS_HPP
#define EMBER_OPTIONS_HPP

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base.hpp"

namespace ember {

// Ends calls early, from any thread; cancel() from a signal handler too. Copies are the same token.
class CancelToken {
public:
    CancelToken() : handle_(detail::make<Unique>(ember_cancel_token_new)) {}
    void cancel() const noexcept { ember_cancel_token_cancel(get()); }
    void reset() const noexcept { ember_cancel_token_reset(get()); }
    bool is_cancelled() const noexcept { return ember_cancel_token_is_cancelled(get()); }
    const ember_cancel_token *get() const noexcept { return handle_.get(); }

private:
    using Unique = detail::Handle<ember_cancel_token, ember_cancel_token_free>;
    std::shared_ptr<ember_cancel_token> handle_;
};

// Options are values: set what should differ from the defaults, in one expression or in several, and use them as often as you
// like. Ember checks them where they are used. EMBER_OPTION defines a setter of the field's name.
#define EMBER_OPTION(OPTIONS, TYPE, NAME)                                                                             \
public:                                                                                                               \
    OPTIONS &NAME(TYPE value) {                                                                                       \
        NAME##_ = std::move(value);                                                                                   \
        return *this;                                                                                                 \
    }                                                                                                                 \
                                                                                                                      \
private:                                                                                                              \
    std::optional<TYPE> NAME##_;

namespace detail {
// Calls the setter of an option that was set.
template <class Options, class Value, class Field>
void set(const Options &options, Status (*setter)(typename Options::pointer, Value, ember_error **),
         const Field &field) {
    if (field)
        call(setter, options.get(), static_cast<Value>(*field));
}
template <class Options>
void set_text(const Options &options,
              Status (*setter)(typename Options::pointer, const char *, std::size_t, ember_error **),
              const std::optional<std::string> &text) {
    if (text)
        call(setter, options.get(), text->data(), text->size());
}
template <class Options>
void set_cancel(const Options &options,
                Status (*setter)(typename Options::pointer, const ember_cancel_token *, ember_error **),
                const std::optional<CancelToken> &token) {
    if (token)
        call(setter, options.get(), token->get());
}
} // namespace detail

// An allocator of the host, as ember_model_options_set_allocator of ember.h describes it. It must live as long as the model and
// its contexts, and must not throw.
struct Allocator {
    ember_allocate_callback allocate;
    ember_deallocate_callback deallocate;
    void *user_data;
};

// progress() receives how far the loading is, from 0 to 1; false ends it with EMBER_E_CANCELLED, and what it throws comes out of
// it. meta() may be called several times.
class ModelOptions {
    EMBER_OPTION(ModelOptions, bool, use_mmap)
    EMBER_OPTION(ModelOptions, bool, lock)
    EMBER_OPTION(ModelOptions, bool, check_tensors)
    EMBER_OPTION(ModelOptions, std::uint64_t, memory_limit)
    EMBER_OPTION(ModelOptions, Allocator, allocator)
    EMBER_OPTION(ModelOptions, std::function<bool(float)>, progress)
    EMBER_OPTION(ModelOptions, ember_pack, pack)
    EMBER_OPTION(ModelOptions, std::string, isa)
    EMBER_OPTION(ModelOptions, CancelToken, cancel_token)

public:
    // Loads as if the file had this value for the key: an integer, a floating-point number, a bool or a text.
    template <class T> ModelOptions &meta(std::string key, const T &value) {
        if constexpr (std::is_same_v<T, bool>)
            meta_.emplace_back(std::move(key), value);
        else if constexpr (std::is_integral_v<T>) {
            if (value > T{} && static_cast<std::uint64_t>(value) > static_cast<std::uint64_t>(INT64_MAX))
                throw Error(EMBER_E_INVALID_ARGUMENT, "the value for \"" + key + "\" does not fit 64 bits with a sign");
            meta_.emplace_back(std::move(key), static_cast<std::int64_t>(value));
        } else if constexpr (std::is_floating_point_v<T>)
            meta_.emplace_back(std::move(key), static_cast<double>(value));
        else
            meta_.emplace_back(std::move(key), std::string(value));
        return *this;
    }
    using Handle = detail::Handle<ember_model_options, ember_model_options_free>;
    // These options must outlive the handle, which points to their progress function.
    Handle handle() const {
        auto options = detail::make<Handle>(ember_model_options_new);
        detail::set(options, ember_model_options_set_lock, lock_);
        detail::set(options, ember_model_options_set_check_tensors, check_tensors_);
        detail::set(options, ember_model_options_set_memory_limit, memory_limit_);
        if (allocator_)
            detail::call(ember_model_options_set_allocator, options.get(), allocator_->allocate, allocator_->deallocate,
                         allocator_->user_data);
        for (const auto &[name, value] : meta_)
            set_meta(options.get(), name, value);
        if (progress_ && *progress_) {
            ember_progress_callback callback = [](float done, void *user_data) {
                bool go_on = false;
                std::int32_t threw = detail::Relay::run([&] { go_on = (*static_cast<const Progress *>(user_data))(done); });
                return threw != 0 || !go_on ? std::int32_t{1} : std::int32_t{0};
            };
            detail::call(ember_model_options_set_progress, options.get(), callback,
                         const_cast<void *>(static_cast<const void *>(&*progress_)));
        }
        detail::set(options, ember_model_options_set_use_mmap, use_mmap_);
        detail::set(options, ember_model_options_set_pack, pack_);
        detail::set_text(options, ember_model_options_set_isa, isa_);
        detail::set_cancel(options, ember_model_options_set_cancel_token, cancel_token_);
        return options;
    }

private:
    using Progress = std::function<bool(float)>;
    using Value = std::variant<std::int64_t, double, bool, std::string>;
    static void set_meta(ember_model_options *options, const std::string &name, const Value &value) {
        auto set = [&](auto *setter, auto... rest) { detail::call(setter, options, name.data(), name.size(), rest...); };
        if (auto *integer = std::get_if<std::int64_t>(&value))
            set(ember_model_options_set_meta_i64, *integer);
        else if (auto *number = std::get_if<double>(&value))
            set(ember_model_options_set_meta_f64, *number);
        else if (auto *truth = std::get_if<bool>(&value))
            set(ember_model_options_set_meta_bool, *truth);
        else if (auto *text = std::get_if<std::string>(&value))
            set(ember_model_options_set_meta_string, text->data(), text->size());
    }
    std::vector<std::pair<std::string, Value>> meta_;
};

class ContextOptions {
    EMBER_OPTION(ContextOptions, std::uint32_t, n_ctx)
    EMBER_OPTION(ContextOptions, std::uint32_t, n_seq)
    EMBER_OPTION(ContextOptions, std::uint32_t, n_batch)
    EMBER_OPTION(ContextOptions, std::uint32_t, n_threads)
    EMBER_OPTION(ContextOptions, std::uint32_t, n_snapshots)
    EMBER_OPTION(ContextOptions, std::uint32_t, snapshot_distance)
    EMBER_OPTION(ContextOptions, std::vector<std::uint32_t>, worker_cpus)
    EMBER_OPTION(ContextOptions, ember_kv_type, kv_type)
    EMBER_OPTION(ContextOptions, ember_kv_type, k_type)
    EMBER_OPTION(ContextOptions, ember_kv_type, v_type)
    EMBER_OPTION(ContextOptions, std::uint64_t, kv_limit)
    EMBER_OPTION(ContextOptions, bool, keep_prefixes)
    EMBER_OPTION(ContextOptions, bool, keep_all_positions)
    EMBER_OPTION(ContextOptions, std::uint64_t, memory_limit)
    EMBER_OPTION(ContextOptions, ember_backend, backend)

public:
    using Handle = detail::Handle<ember_context_options, ember_context_options_free>;
    Handle handle() const {
        auto options = detail::make<Handle>(ember_context_options_new);
        detail::set(options, ember_context_options_set_n_ctx, n_ctx_);
        detail::set(options, ember_context_options_set_n_seq, n_seq_);
        detail::set(options, ember_context_options_set_n_batch, n_batch_);
        detail::set(options, ember_context_options_set_n_threads, n_threads_);
        detail::set(options, ember_context_options_set_n_snapshots, n_snapshots_);
        detail::set(options, ember_context_options_set_snapshot_distance, snapshot_distance_);
        if (worker_cpus_)
            detail::call(ember_context_options_set_worker_cpus, options.get(), worker_cpus_->data(),
                         worker_cpus_->size());
        detail::set(options, ember_context_options_set_kv_type, kv_type_);
        detail::set(options, ember_context_options_set_k_type, k_type_);
        detail::set(options, ember_context_options_set_v_type, v_type_);
        detail::set(options, ember_context_options_set_kv_limit, kv_limit_);
        detail::set(options, ember_context_options_set_keep_prefixes, keep_prefixes_);
        detail::set(options, ember_context_options_set_keep_all_positions, keep_all_positions_);
        detail::set(options, ember_context_options_set_memory_limit, memory_limit_);
        detail::set(options, ember_context_options_set_backend, backend_);
        return options;
    }
};

// `context` says how the engine's context is made. With `thread` a thread of the engine's own does all steps.
class EngineOptions {
    EMBER_OPTION(EngineOptions, std::uint32_t, n_parallel)
    EMBER_OPTION(EngineOptions, std::uint32_t, max_queue)
    EMBER_OPTION(EngineOptions, bool, share_prefixes)
    EMBER_OPTION(EngineOptions, bool, thread)

public:
    EngineOptions &context(const ContextOptions &options) {
        context_ = options.handle();
        return *this;
    }
    using Handle = detail::Handle<ember_engine_options, ember_engine_options_free>;
    Handle handle() const {
        auto options = detail::make<Handle>(ember_engine_options_new);
        detail::set(options, ember_engine_options_set_n_parallel, n_parallel_);
        detail::set(options, ember_engine_options_set_max_queue, max_queue_);
        detail::set(options, ember_engine_options_set_share_prefixes, share_prefixes_);
        detail::set(options, ember_engine_options_set_thread, thread_);
        if (context_)
            detail::call(ember_engine_options_set_context_options, options.get(), context_.get());
        return options;
    }

private:
    std::shared_ptr<const ember_context_options> context_;
};

class Constraint;
class Context;

// stop() may be called several times.
class GenerateOptions {
    EMBER_OPTION(GenerateOptions, std::uint32_t, max_tokens)
    EMBER_OPTION(GenerateOptions, std::uint32_t, sequence)
    EMBER_OPTION(GenerateOptions, bool, parse_special)
    EMBER_OPTION(GenerateOptions, bool, render_special)
    EMBER_OPTION(GenerateOptions, bool, ignore_eog)
    EMBER_OPTION(GenerateOptions, bool, include_stop)
    EMBER_OPTION(GenerateOptions, bool, reuse_prefix)
    EMBER_OPTION(GenerateOptions, bool, echo)
    EMBER_OPTION(GenerateOptions, bool, logprobs)
    EMBER_OPTION(GenerateOptions, std::uint32_t, n_top)
    EMBER_OPTION(GenerateOptions, std::uint64_t, time_limit_ms)
    EMBER_OPTION(GenerateOptions, std::int32_t, priority)
    EMBER_OPTION(GenerateOptions, CancelToken, cancel_token)

public:
    GenerateOptions &stop(std::string_view text) {
        stops_.emplace_back(text);
        return *this;
    }
    // Where the sequence is full (n_ctx), forget `n_drop` tokens after the first `n_keep` and go on.
    GenerateOptions &shift(std::uint32_t n_keep, std::uint32_t n_drop) {
        shift_ = {n_keep, n_drop};
        return *this;
    }
    // Takes up to `n_draft` draft tokens a step from what followed the last `ngram`, down to 2, where they stood before.
    GenerateOptions &lookup(std::uint32_t n_draft, std::uint32_t ngram = 3) {
        lookup_ = {n_draft, ngram};
        return *this;
    }
    // Takes up to `n_draft` draft tokens a step from a smaller model with the same vocabulary, where lookup() finds none.
    // Generations with these options use it during generate and next(). Its sequence becomes the beginning of the text. These
    // options and generators keep what they need of it, so that it may be destroyed.
    GenerateOptions &draft(const Context &context, std::uint32_t n_draft, std::uint32_t sequence = 0);
    // What the text has to follow; Usage::progress tells whether it is complete. These options keep what they need of it.
    GenerateOptions &constraint(const Constraint &constraint);
    using Handle = detail::Handle<ember_generate_options, ember_generate_options_free>;
    Handle handle() const {
        auto options = detail::make<Handle>(ember_generate_options_new);
        detail::set(options, ember_generate_options_set_max_tokens, max_tokens_);
        detail::set(options, ember_generate_options_set_sequence, sequence_);
        detail::set(options, ember_generate_options_set_parse_special, parse_special_);
        detail::set(options, ember_generate_options_set_render_special, render_special_);
        detail::set(options, ember_generate_options_set_ignore_eog, ignore_eog_);
        detail::set(options, ember_generate_options_set_include_stop, include_stop_);
        detail::set(options, ember_generate_options_set_reuse_prefix, reuse_prefix_);
        detail::set(options, ember_generate_options_set_echo, echo_);
        detail::set(options, ember_generate_options_set_logprobs, logprobs_);
        detail::set(options, ember_generate_options_set_n_top, n_top_);
        detail::set(options, ember_generate_options_set_time_limit, time_limit_ms_);
        detail::set(options, ember_generate_options_set_priority, priority_);
        detail::set_cancel(options, ember_generate_options_set_cancel_token, cancel_token_);
        if (shift_)
            detail::call(ember_generate_options_set_shift, options.get(), shift_->first, shift_->second);
        if (lookup_)
            detail::call(ember_generate_options_set_lookup, options.get(), lookup_->first, lookup_->second);
        if (draft_)
            detail::call(ember_generate_options_set_draft, options.get(), draft_.get(), draft_sequence_, n_draft_);
        if (constraint_)
            detail::call(ember_generate_options_set_constraint, options.get(), constraint_.get());
        for (const std::string &text : stops_)
            detail::call(ember_generate_options_add_stop, options.get(), text.data(), text.size());
        return options;
    }

private:
    std::vector<std::string> stops_;
    std::optional<std::pair<std::uint32_t, std::uint32_t>> shift_, lookup_;
    std::shared_ptr<ember_context> draft_;
    std::shared_ptr<const ember_constraint> constraint_;
    std::uint32_t draft_sequence_ = 0, n_draft_ = 0;
};

class EmbedOptions {
    EMBER_OPTION(EmbedOptions, ember_pooling, pooling)
    EMBER_OPTION(EmbedOptions, bool, normalize)
    EMBER_OPTION(EmbedOptions, bool, truncate)
    // The numbers of each vector that are kept, the first ones; 0: all.
    EMBER_OPTION(EmbedOptions, std::size_t, dimensions)
    // The name of the model's prompt that is put before each text: "query", "document". For Context::embed alone.
    EMBER_OPTION(EmbedOptions, std::string, prompt)

public:
    using Handle = detail::Handle<ember_embed_options, ember_embed_options_free>;
    Handle handle() const {
        auto options = detail::make<Handle>(ember_embed_options_new);
        detail::set(options, ember_embed_options_set_pooling, pooling_);
        detail::set(options, ember_embed_options_set_normalize, normalize_);
        detail::set(options, ember_embed_options_set_truncate, truncate_);
        detail::set(options, ember_embed_options_set_dimensions, dimensions_);
        detail::set_text(options, ember_embed_options_set_prompt, prompt_);
        return options;
    }
    // How many numbers each vector of a model has with these options.
    std::size_t width(const ModelInfo &info) const noexcept {
        if (dimensions_ && *dimensions_ != 0)
            return *dimensions_;
        std::int32_t pooling = pooling_ && *pooling_ != EMBER_POOLING_AUTO ? *pooling_ : info.pooling;
        return pooling == EMBER_POOLING_NONE ? info.n_embd : info.n_embd_out;
    }
};

// Of Context::classify and Context::rerank.
class ClassifyOptions {
    EMBER_OPTION(ClassifyOptions, ember_classify_activation, activation)
    EMBER_OPTION(ClassifyOptions, bool, truncate)
    EMBER_OPTION(ClassifyOptions, std::string, template_text)
    EMBER_OPTION(ClassifyOptions, bool, yes_no)

public:
    using Handle = detail::Handle<ember_classify_options, ember_classify_options_free>;
    Handle handle() const {
        auto options = detail::make<Handle>(ember_classify_options_new);
        detail::set(options, ember_classify_options_set_activation, activation_);
        detail::set(options, ember_classify_options_set_truncate, truncate_);
        detail::set_text(options, ember_classify_options_set_template, template_text_);
        detail::set(options, ember_classify_options_set_yes_no, yes_no_);
        return options;
    }
};

// How a conversation becomes text, and how its replies are read. Texts are those of ember.h: tools a JSON array, variables a JSON
// object, tool_choice "auto", "none", "required" or a tool's name.
class ChatOptions {
    EMBER_OPTION(ChatOptions, std::string, tools)
    EMBER_OPTION(ChatOptions, std::string, tool_choice)
    EMBER_OPTION(ChatOptions, bool, parallel_calls)
    EMBER_OPTION(ChatOptions, bool, strict_tools)
    EMBER_OPTION(ChatOptions, bool, thinking)
    EMBER_OPTION(ChatOptions, std::string, variables)
    EMBER_OPTION(ChatOptions, std::string, template_text)
    EMBER_OPTION(ChatOptions, std::string, template_name)
    EMBER_OPTION(ChatOptions, bool, add_generation_prompt)
    EMBER_OPTION(ChatOptions, std::int64_t, now)

public:
    using Handle = detail::Handle<ember_chat_options, ember_chat_options_free>;
    Handle handle() const {
        auto options = detail::make<Handle>(ember_chat_options_new);
        detail::set_text(options, ember_chat_options_set_tools, tools_);
        detail::set_text(options, ember_chat_options_set_tool_choice, tool_choice_);
        detail::set(options, ember_chat_options_set_parallel_calls, parallel_calls_);
        detail::set(options, ember_chat_options_set_strict_tools, strict_tools_);
        if (thinking_)
            detail::call(ember_chat_options_set_thinking, options.get(),
                         std::int32_t{*thinking_ ? EMBER_THINKING_ON : EMBER_THINKING_OFF});
        detail::set_text(options, ember_chat_options_set_variables, variables_);
        detail::set_text(options, ember_chat_options_set_template, template_text_);
        detail::set_text(options, ember_chat_options_set_template_name, template_name_);
        detail::set(options, ember_chat_options_set_add_generation_prompt, add_generation_prompt_);
        detail::set(options, ember_chat_options_set_now, now_);
        return options;
    }
};

// Of Constraint. The triggers and limit() may be called several times.
class ConstraintOptions {
    EMBER_OPTION(ConstraintOptions, std::uint32_t, whitespace)
    EMBER_OPTION(ConstraintOptions, bool, repeat)

public:
    // The text is free until this was generated, and the constraint begins after it.
    ConstraintOptions &trigger(std::string_view text) {
        texts_.emplace_back(text);
        return *this;
    }
    ConstraintOptions &trigger_token(Token token) {
        tokens_.push_back(token);
        return *this;
    }
    ConstraintOptions &limit(ember_constraint_limit limit, std::uint64_t value) {
        limits_.emplace_back(limit, value);
        return *this;
    }
    using Handle = detail::Handle<ember_constraint_options, ember_constraint_options_free>;
    Handle handle() const {
        auto options = detail::make<Handle>(ember_constraint_options_new);
        detail::set(options, ember_constraint_options_set_whitespace, whitespace_);
        detail::set(options, ember_constraint_options_set_repeat, repeat_);
        for (const std::string &text : texts_)
            detail::call(ember_constraint_options_add_trigger_text, options.get(), text.data(), text.size());
        for (Token token : tokens_)
            detail::call(ember_constraint_options_add_trigger_token, options.get(), token);
        for (const auto &[limit, value] : limits_)
            detail::call(ember_constraint_options_set_limit, options.get(), static_cast<std::int32_t>(limit), value);
        return options;
    }

private:
    std::vector<std::string> texts_;
    std::vector<Token> tokens_;
    std::vector<std::pair<ember_constraint_limit, std::uint64_t>> limits_;
};

// Of Tokenizer::fim_prompt: names of the repository and of the file that has the gap, and other files before it.
class FimOptions {
    EMBER_OPTION(FimOptions, ember_fim_order, order)
    EMBER_OPTION(FimOptions, std::string, repository)
    EMBER_OPTION(FimOptions, std::string, file)

public:
    FimOptions &add_file(std::string_view name, std::string_view text) {
        files_.emplace_back(name, text);
        return *this;
    }
    using Handle = detail::Handle<ember_fim_options, ember_fim_options_free>;
    Handle handle() const {
        auto options = detail::make<Handle>(ember_fim_options_new);
        detail::set(options, ember_fim_options_set_order, order_);
        detail::set_text(options, ember_fim_options_set_repository, repository_);
        detail::set_text(options, ember_fim_options_set_file, file_);
        for (const auto &[name, text] : files_)
            detail::call(ember_fim_options_add_file, options.get(), name.data(), name.size(), text.data(), text.size());
        return options;
    }

private:
    std::vector<std::pair<std::string, std::string>> files_;
};
#undef EMBER_OPTION

// What somebody says in a conversation: the role is "system", "user" or "assistant"; or "tool", for the result of a call with the
// name and the id of that.
struct Message {
    std::string_view role;
    std::string_view content;
    std::string_view name = {};
    std::string_view tool_call_id = {};
};

namespace detail {
inline void add_json_string(std::string &out, std::string_view text) {
    static const char hex[] = "0123456789abcdef";
    out += '"';
    for (char c : text) {
        auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\')
            out += '\\';
        if (byte < 0x20)
            ((out += "\\u00") += hex[byte >> 4]) += hex[byte & 15];
        else
            out += c;
    }
    out += '"';
}
} // namespace detail

namespace detail {
inline std::string message_json(const Message &message) {
    std::string out = "{\"role\":";
    add_json_string(out, message.role);
    out += ",\"content\":";
    add_json_string(out, message.content);
    if (!message.name.empty())
        add_json_string(out += ",\"name\":", message.name);
    if (!message.tool_call_id.empty())
        add_json_string(out += ",\"tool_call_id\":", message.tool_call_id);
    return out + "}";
}
} // namespace detail

// Messages as the JSON that Model::apply_chat_template takes.
inline std::string to_json(Span<const Message> messages) {
    std::string out = "[";
    for (const Message &message : messages)
        out += (out.size() > 1 ? "," : "") + detail::message_json(message);
    return out + "]";
}

} // namespace ember

#endif
