// Models: loading, dimensions, tokens, metadata.
#ifndef EMBER_MODEL_HPP
#define EMBER_MODEL_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base.hpp"
#include "options.hpp"
#include "tokenizer.hpp"

namespace ember {

class Model {
public:
    static Model load(std::string_view path, const ModelOptions &options = {}) {
        return make(options, ember_model_load, path.data(), path.size());
    }
    // A GGUF file that is part of an open file: `length` bytes from `offset` on, up to the end with 0. The descriptor stays the
    // caller's, who may close it afterwards.
    static Model from_fd(int fd, std::uint64_t offset = 0, std::uint64_t length = 0, const ModelOptions &options = {}) {
        return make(options, ember_model_load_fd, std::int32_t{fd}, offset, length);
    }
    // A GGUF file that lies in memory; it is copied.
    static Model from_bytes(Span<const std::uint8_t> file, const ModelOptions &options = {}) {
        return make(options, ember_model_load_buffer, file.data(), file.size());
    }
    // As from_bytes, without a copy: the bytes must stay where and as they are until the model, and all that uses it, lets go of
    // `owner`, on any thread. Its deleter may be what gives them back. Without an owner they stay for ever.
    static Model borrow(Span<const std::uint8_t> file, std::shared_ptr<const void> owner, const ModelOptions &options = {}) {
        using Owner = std::shared_ptr<const void>;
        auto loan = std::make_unique<Owner>(std::move(owner));
        ember_release_callback release = [](void *user_data) { delete static_cast<Owner *>(user_data); };
        auto model = make(options, ember_model_load_borrowed, file.data(), file.size(), release, static_cast<void *>(loan.get()));
        static_cast<void>(loan.release()); // the library's now
        return model;
    }
    // A second owner of the same model.
    Model share() const { return Model(Handle(ember_model_retain(get()))); }

    ModelInfo info() const {
        ModelInfo info{};
        info.struct_size = sizeof info;
        detail::call(ember_model_info_get, get(), &info);
        return info;
    }
    // What the model takes; nothing of contexts.
    Memory memory() const { return detail::memory(ember_model_memory, get()); }
    std::string isa() const {
        const char *name = ember_model_isa(get());
        return name == nullptr ? "" : name;
    }

    std::vector<Token> tokenize(std::string_view text, bool add_special = true, bool parse_special = false) const {
        return detail::fill<std::vector<Token>>(text.size() / 2 + 8, [&](Token *out, std::size_t n, auto... rest) {
            return ember_model_tokenize(get(), text.data(), text.size(), add_special, parse_special, out, n, rest...);
        });
    }
    // As tokenize, for bytes that need not be UTF-8.
    std::vector<Token> tokenize_bytes(Span<const std::uint8_t> text, bool add_special = true,
                                      bool parse_special = false) const {
        return detail::fill<std::vector<Token>>(text.size() / 2 + 8, [&](Token *out, std::size_t n, auto... rest) {
            return ember_model_tokenize_bytes(get(), text.data(), text.size(), add_special, parse_special, out, n, rest...);
        });
    }
    // The tokens' bytes, which need not be UTF-8 at their ends.
    std::string detokenize(Span<const Token> tokens, bool render_special = false) const {
        return detail::fill<std::string>(tokens.size() * 6 + 16, [&](char *out, std::size_t n, auto... rest) {
            return ember_model_detokenize(get(), tokens.data(), tokens.size(), render_special, detail::bytes(out), n,
                                          rest...);
        });
    }
    std::string token_bytes(Token token) const {
        return detail::fill<std::string>(32, [&](char *out, std::size_t n, auto... rest) {
            return ember_model_token_bytes(get(), token, detail::bytes(out), n, rest...);
        });
    }
    // Whether it is a control token, which stands for no text.
    bool is_control(Token token) const { return value<bool>(ember_model_token_is_control, token); }
    bool is_eog(Token token) const { return value<bool>(ember_model_token_is_eog, token); }

    // The text of a conversation as the model was trained on it. It spells control tokens:
    // tokenize(text, false, true), or Context::generate_tokens of that.
    std::string apply_chat_template(Span<const Message> messages, const ChatOptions &options = {}) const {
        return apply_chat_template(to_json(messages), options);
    }
    // As before, for a JSON array of messages, which may have tool calls and what else the template looks at.
    std::string apply_chat_template(const std::string &json, const ChatOptions &options = {}) const {
        auto handle = options.handle();
        return detail::fill<std::string>(json.size() + 512, [&](char *out, std::size_t n, auto... rest) {
            return ember_chat_apply_template(get(), json.data(), json.size(), handle.get(), detail::bytes(out), n, rest...);
        });
    }
    // As apply_chat_template, but the tokens. No text of a message or tool can spell a control token.
    std::vector<Token> tokenize_chat(Span<const Message> messages, const ChatOptions &options = {}) const {
        return tokenize_chat(to_json(messages), options);
    }
    std::vector<Token> tokenize_chat(const std::string &json, const ChatOptions &options = {}) const {
        auto handle = options.handle();
        return detail::fill<std::vector<Token>>(json.size() / 2 + 256, [&](Token *out, std::size_t n, auto... rest) {
            return ember_chat_tokenize(get(), json.data(), json.size(), handle.get(), out, n, rest...);
        });
    }
    // The text of one of the model's templates, the default one without a name.
    std::string chat_template(std::string_view name = "") const {
        return detail::fill<std::string>(4096, [&](char *out, std::size_t n, auto... rest) {
            return ember_model_chat_template(get(), name.data(), name.size(), detail::bytes(out), n, rest...);
        });
    }

    // The model's own tokenizer, which may outlive it.
    Tokenizer tokenizer() const { return Tokenizer(detail::make<Tokenizer::Handle>(ember_model_tokenizer, get())); }
    // What Context::classify scores, in the order of the scores.
    std::vector<std::string> labels() const {
        std::vector<std::string> labels(value<std::size_t>(ember_model_label_count));
        for (std::size_t i = 0; i < labels.size(); i++)
            labels[i] = detail::fill<std::string>(32, [&](char *out, std::size_t n, auto... rest) {
                return ember_model_label(get(), i, detail::bytes(out), n, rest...);
            });
        return labels;
    }

    // Metadata of the file. A key that is not there is EMBER_E_NOT_FOUND, one of another type EMBER_E_INVALID_ARGUMENT.
    std::size_t meta_count() const { return value<std::size_t>(ember_model_meta_count); }
    std::string meta_key(std::size_t index) const {
        return detail::fill<std::string>(48, [&](char *out, std::size_t n, auto... rest) {
            return ember_model_meta_key(get(), index, detail::bytes(out), n, rest...);
        });
    }
    std::uint32_t meta_type(std::string_view key) const { return meta<std::uint32_t>(ember_model_meta_type, key); }
    std::string meta_string(std::string_view key) const {
        return detail::fill<std::string>(64, [&](char *out, std::size_t n, auto... rest) {
            return ember_model_meta_string(get(), key.data(), key.size(), detail::bytes(out), n, rest...);
        });
    }
    std::uint64_t meta_u64(std::string_view key) const { return meta<std::uint64_t>(ember_model_meta_u64, key); }
    std::int64_t meta_i64(std::string_view key) const { return meta<std::int64_t>(ember_model_meta_i64, key); }
    double meta_f64(std::string_view key) const { return meta<double>(ember_model_meta_f64, key); }
    bool meta_bool(std::string_view key) const { return meta<bool>(ember_model_meta_bool, key); }
    // Arrays: the type of their elements, and all of them.
    std::uint32_t meta_array_type(std::string_view key) const { return array(key).first; }
    std::vector<std::string> meta_array_string(std::string_view key) const {
        std::vector<std::string> out(array(key).second);
        std::string buffer(256, '\0');
        for (std::size_t i = 0; i < out.size();) {
            std::size_t needed = 0;
            ember_error *err = nullptr;
            Status status = ember_model_meta_array_string(get(), key.data(), key.size(), i, detail::bytes(buffer.data()),
                                                          buffer.size(), &needed, &err);
            if (status == EMBER_OK)
                out[i++].assign(buffer, 0, needed);
            else if (status != EMBER_E_BUFFER_TOO_SMALL)
                detail::raise(status, err);
            else
                buffer.resize(needed);
            ember_error_free(err);
        }
        return out;
    }
    std::vector<std::uint64_t> meta_array_u64(std::string_view key) const {
        return meta_array<std::uint64_t>(ember_model_meta_array_u64, key);
    }
    std::vector<std::int64_t> meta_array_i64(std::string_view key) const {
        return meta_array<std::int64_t>(ember_model_meta_array_i64, key);
    }
    std::vector<double> meta_array_f64(std::string_view key) const {
        return meta_array<double>(ember_model_meta_array_f64, key);
    }
    std::vector<bool> meta_array_bool(std::string_view key) const {
        return meta_array<bool>(ember_model_meta_array_bool, key);
    }

    ember_model *get() const noexcept { return handle_.get(); }

private:
    using Handle = detail::Handle<ember_model, ember_model_release>;
    explicit Model(Handle handle) noexcept : handle_(std::move(handle)) {}
    template <class Function, class... Arguments>
    static Model make(const ModelOptions &options, Function *function, Arguments... arguments) {
        auto handle = options.handle();
        return detail::relayed([&] { return Model(detail::make<Handle>(function, arguments..., handle.get())); });
    }
    std::pair<std::uint32_t, std::size_t> array(std::string_view key) const {
        std::pair<std::uint32_t, std::size_t> out{};
        detail::call(ember_model_meta_array, get(), key.data(), key.size(), &out.first, &out.second);
        return out;
    }
    template <class T, class Function> std::vector<T> meta_array(Function *function, std::string_view key) const {
        std::vector<T> out(array(key).second);
        for (std::size_t i = 0; i < out.size(); i++)
            out[i] = value<T>(function, key.data(), key.size(), i);
        return out;
    }
    template <class T, class Function, class... Arguments> T value(Function *function, Arguments... arguments) const {
        T out{};
        detail::call(function, get(), arguments..., &out);
        return out;
    }
    template <class T, class Function> T meta(Function *function, std::string_view key) const {
        return value<T>(function, key.data(), key.size());
    }
    Handle handle_;
};

// What the header of the model at `path` says, a JSON object; ember_model_inspect of ember.h lists the keys.
inline std::string inspect(std::string_view path) {
    return detail::fill<std::string>(16384, [&](char *out, std::size_t n, auto... rest) {
        return ember_model_inspect(path.data(), path.size(), detail::bytes(out), n, rest...);
    });
}
// What the model at `path` and one context over it would take, without loading it. Limits in the options do not count.
inline Memory estimate_memory(std::string_view path, const ModelOptions &model = {}, const ContextOptions &context = {}) {
    auto model_handle = model.handle();
    auto context_handle = context.handle();
    return detail::memory(ember_memory_estimate, path.data(), path.size(), model_handle.get(), context_handle.get());
}

} // namespace ember

#endif
