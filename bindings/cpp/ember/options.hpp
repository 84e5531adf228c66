// Options and the cancel token.
#ifndef EMBER_OPTIONS_HPP
#define EMBER_OPTIONS_HPP

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
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

// Options are values: set what should differ from the defaults, in one expression or in several, and use them as often
// as you like. What Ember thinks of them shows where they are used. EMBER_OPTION defines a setter of the field's name.
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

class ModelOptions {
    EMBER_OPTION(ModelOptions, bool, use_mmap)
    EMBER_OPTION(ModelOptions, ember_pack, pack)
    EMBER_OPTION(ModelOptions, std::string, isa)
    EMBER_OPTION(ModelOptions, CancelToken, cancel_token)

public:
    using Handle = detail::Handle<ember_model_options, ember_model_options_free>;
    Handle handle() const {
        auto options = detail::make<Handle>(ember_model_options_new);
        detail::set(options, ember_model_options_set_use_mmap, use_mmap_);
        detail::set(options, ember_model_options_set_pack, pack_);
        detail::set_text(options, ember_model_options_set_isa, isa_);
        detail::set_cancel(options, ember_model_options_set_cancel_token, cancel_token_);
        return options;
    }
};

class ContextOptions {
    EMBER_OPTION(ContextOptions, std::uint32_t, n_ctx)
    EMBER_OPTION(ContextOptions, std::uint32_t, n_seq)
    EMBER_OPTION(ContextOptions, std::uint32_t, n_batch)
    EMBER_OPTION(ContextOptions, std::uint32_t, n_threads)
    EMBER_OPTION(ContextOptions, std::vector<std::uint32_t>, worker_cpus)
    EMBER_OPTION(ContextOptions, ember_kv_type, kv_type)
    EMBER_OPTION(ContextOptions, ember_backend, backend)

public:
    using Handle = detail::Handle<ember_context_options, ember_context_options_free>;
    Handle handle() const {
        auto options = detail::make<Handle>(ember_context_options_new);
        detail::set(options, ember_context_options_set_n_ctx, n_ctx_);
        detail::set(options, ember_context_options_set_n_seq, n_seq_);
        detail::set(options, ember_context_options_set_n_batch, n_batch_);
        detail::set(options, ember_context_options_set_n_threads, n_threads_);
        if (worker_cpus_)
            detail::call(ember_context_options_set_worker_cpus, options.get(), worker_cpus_->data(),
                         worker_cpus_->size());
        detail::set(options, ember_context_options_set_kv_type, kv_type_);
        detail::set(options, ember_context_options_set_backend, backend_);
        return options;
    }
};

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
    EMBER_OPTION(GenerateOptions, CancelToken, cancel_token)

public:
    GenerateOptions &stop(std::string_view text) {
        stops_.emplace_back(text);
        return *this;
    }
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
        detail::set_cancel(options, ember_generate_options_set_cancel_token, cancel_token_);
        for (const std::string &text : stops_)
            detail::call(ember_generate_options_add_stop, options.get(), text.data(), text.size());
        return options;
    }

private:
    std::vector<std::string> stops_;
};

class EmbedOptions {
    EMBER_OPTION(EmbedOptions, ember_pooling, pooling)
    EMBER_OPTION(EmbedOptions, bool, normalize)
    EMBER_OPTION(EmbedOptions, bool, truncate)

public:
    using Handle = detail::Handle<ember_embed_options, ember_embed_options_free>;
    Handle handle() const {
        auto options = detail::make<Handle>(ember_embed_options_new);
        detail::set(options, ember_embed_options_set_pooling, pooling_);
        detail::set(options, ember_embed_options_set_normalize, normalize_);
        detail::set(options, ember_embed_options_set_truncate, truncate_);
        return options;
    }
};

// Of Model::apply_chat_template; texts are those of ember.h: tools a JSON array, variables a JSON object.
class ChatOptions {
    EMBER_OPTION(ChatOptions, std::string, tools)
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
        detail::set_text(options, ember_chat_options_set_variables, variables_);
        detail::set_text(options, ember_chat_options_set_template, template_text_);
        detail::set_text(options, ember_chat_options_set_template_name, template_name_);
        detail::set(options, ember_chat_options_set_add_generation_prompt, add_generation_prompt_);
        detail::set(options, ember_chat_options_set_now, now_);
        return options;
    }
};
#undef EMBER_OPTION

// What somebody says in a conversation: the role is "system", "user" or "assistant".
struct Message {
    std::string_view role;
    std::string_view content;
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

// Messages as the JSON that Model::apply_chat_template takes.
inline std::string to_json(Span<const Message> messages) {
    std::string out = "[";
    for (const Message &message : messages) {
        out += out.size() > 1 ? ",{\"role\":" : "{\"role\":";
        detail::add_json_string(out, message.role);
        out += ",\"content\":";
        detail::add_json_string(out, message.content);
        out += '}';
    }
    return out + "]";
}

} // namespace ember

#endif
