// Tokenizers without a model, and prompts to fill a gap.
#ifndef EMBER_TOKENIZER_HPP
#define EMBER_TOKENIZER_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base.hpp"
#include "options.hpp"

namespace ember {

using TokenizerInfo = ember_tokenizer_info;

// A tokenizer: a model's, or one that was loaded alone. Any number of threads may use it at once.
class Tokenizer {
public:
    // From a GGUF file, of which no tensor is looked at, a tokenizer.json, or the folder of one.
    static Tokenizer load(std::string_view path) {
        return Tokenizer(detail::make<Handle>(ember_tokenizer_load, path.data(), path.size()));
    }
    // From a GGUF file or a tokenizer.json that lies in memory, of which nothing is kept.
    static Tokenizer from_bytes(Span<const std::uint8_t> file) {
        return Tokenizer(detail::make<Handle>(ember_tokenizer_load_buffer, file.data(), file.size()));
    }
    // A second owner of the same tokenizer.
    Tokenizer share() const { return Tokenizer(Handle(ember_tokenizer_retain(get()))); }

    TokenizerInfo info() const {
        TokenizerInfo info{};
        info.struct_size = sizeof info;
        detail::call(ember_tokenizer_info_get, get(), &info);
        return info;
    }
    std::vector<Token> tokenize(std::string_view text, bool add_special = true, bool parse_special = false) const {
        return detail::fill<std::vector<Token>>(text.size() / 2 + 8, [&](Token *out, std::size_t n, auto... rest) {
            return ember_tokenizer_tokenize(get(), text.data(), text.size(), add_special, parse_special, out, n, rest...);
        });
    }
    // As tokenize, for bytes that need not be UTF-8.
    std::vector<Token> tokenize_bytes(Span<const std::uint8_t> text, bool add_special = true,
                                      bool parse_special = false) const {
        return detail::fill<std::vector<Token>>(text.size() / 2 + 8, [&](Token *out, std::size_t n, auto... rest) {
            return ember_tokenizer_tokenize_bytes(get(), text.data(), text.size(), add_special, parse_special, out, n,
                                                  rest...);
        });
    }
    // How many tokens tokenize gives.
    std::size_t count(std::string_view text, bool add_special = true, bool parse_special = false) const {
        std::size_t n = 0;
        detail::call(ember_tokenizer_count, get(), text.data(), text.size(), add_special, parse_special, &n);
        return n;
    }
    // The tokens' bytes, which need not be UTF-8 at their ends.
    std::string detokenize(Span<const Token> tokens, bool render_special = false) const {
        return detail::fill<std::string>(tokens.size() * 6 + 16, [&](char *out, std::size_t n, auto... rest) {
            return ember_tokenizer_detokenize(get(), tokens.data(), tokens.size(), render_special, detail::bytes(out), n,
                                              rest...);
        });
    }
    std::string token_bytes(Token token) const {
        return detail::fill<std::string>(32, [&](char *out, std::size_t n, auto... rest) {
            return ember_tokenizer_token_bytes(get(), token, detail::bytes(out), n, rest...);
        });
    }
    // Whether it is a control token, which stands for no text.
    bool is_control(Token token) const { return flag(ember_tokenizer_token_is_control, token); }
    bool is_eog(Token token) const { return flag(ember_tokenizer_token_is_eog, token); }
    // The tokens of a prompt that asks for what stands between `prefix` and `suffix`, for Context::generate_tokens.
    // EMBER_E_UNSUPPORTED where the tokenizer has no tokens for that.
    std::vector<Token> fim_prompt(std::string_view prefix, std::string_view suffix, const FimOptions &options = {}) const {
        auto handle = options.handle();
        std::size_t capacity = (prefix.size() + suffix.size()) / 2 + 64;
        return detail::fill<std::vector<Token>>(capacity, [&](Token *out, std::size_t n, auto... rest) {
            return ember_tokenizer_fim_prompt(get(), prefix.data(), prefix.size(), suffix.data(), suffix.size(), handle.get(),
                                              out, n, rest...);
        });
    }
    ember_tokenizer *get() const noexcept { return handle_.get(); }

private:
    friend class Model;
    using Handle = detail::Handle<ember_tokenizer, ember_tokenizer_release>;
    explicit Tokenizer(Handle handle) noexcept : handle_(std::move(handle)) {}
    template <class Function> bool flag(Function *function, Token token) const {
        bool out = false;
        detail::call(function, get(), token, &out);
        return out;
    }
    Handle handle_;
};

} // namespace ember

#endif
