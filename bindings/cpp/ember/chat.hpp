// Replies of models, read while they stream: the answer, thoughts, and calls of tools.
#ifndef EMBER_CHAT_HPP
#define EMBER_CHAT_HPP

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base.hpp"
#include "model.hpp"
#include "options.hpp"

namespace ember {

using ChatEventKind = ember_chat_event_kind;

class ChatEvent;
namespace detail {
inline ember_chat_event *raw(ChatEvent &event) noexcept;
}

// A piece of a reply: a view that stays until the next event of the same ChatParser or Reply, or its end.
class ChatEvent {
public:
    ChatEventKind kind() const noexcept { return static_cast<ChatEventKind>(raw_.kind); }
    // Of the answer, of a thought, of arguments (JSON), or what the model wrote of a call that is broken.
    std::string_view text() const noexcept { return {raw_.text, raw_.text_len}; }
    // The name of the tool that is called.
    std::string_view name() const noexcept { return {raw_.name, raw_.name_len}; }
    std::string_view id() const noexcept { return {raw_.id, raw_.id_len}; }
    // Why a call is broken.
    std::string_view reason() const noexcept { return {raw_.reason, raw_.reason_len}; }
    // The place of the call among those of the reply.
    std::uint32_t index() const noexcept { return raw_.index; }
    bool is_none() const noexcept { return raw_.kind == EMBER_CHAT_EVENT_NONE; }
    // More of the answer: text(). So is that of a broken call.
    bool is_text() const noexcept {
        return raw_.kind == EMBER_CHAT_EVENT_TEXT || raw_.kind == EMBER_CHAT_EVENT_CALL_BROKEN;
    }
    bool is_thinking() const noexcept { return raw_.kind == EMBER_CHAT_EVENT_THINKING; }
    // A call is complete: name(), id(), and all arguments as text().
    bool is_call() const noexcept { return raw_.kind == EMBER_CHAT_EVENT_CALL_DONE; }
    // The reply is over, for finish_reason(); only from a Reply.
    bool is_end() const noexcept { return raw_.kind == EMBER_CHAT_EVENT_END; }
    FinishReason finish_reason() const noexcept { return static_cast<FinishReason>(raw_.finish_reason); }

private:
    friend ember_chat_event *detail::raw(ChatEvent &event) noexcept;
    ember_chat_event raw_{};
};

namespace detail {
// The event for the library to write.
inline ember_chat_event *raw(ChatEvent &event) noexcept {
    event.raw_.struct_size = sizeof event.raw_;
    return &event.raw_;
}
} // namespace detail

// How replies to a template's prompts are written, as ember_chat_format says.
struct ChatFormat {
    std::string name, thinking_open, thinking_close, thinking_variable, thinking_on, thinking_off;
};

// Reads one reply of a generation that render_special, whose text is pushed in chunks. One thread at a time.
class ChatParser {
public:
    // The options are best those that the prompt was written with; `prompt` is what Model::apply_chat_template gave.
    explicit ChatParser(const Model &model, const ChatOptions &options = {}, std::string_view prompt = "")
        : handle_(detail::make<Handle>(ember_chat_parser_new, model.get(), options.handle().get(), prompt.data(),
                                       prompt.size())) {}
    // More of the reply; then take events until there is none.
    void push(std::string_view text) { detail::call(ember_chat_parser_push, get(), text.data(), text.size()); }
    // The reply is over. Text that waited for more comes now, and a call that is not complete is broken.
    void finish(FinishReason reason) { detail::call(ember_chat_parser_finish, get(), static_cast<std::int32_t>(reason)); }
    // The next event; one that is_none() when there is none now.
    const ChatEvent &next() {
        detail::call(ember_chat_parser_next, get(), detail::raw(event_));
        return event_;
    }
    // Whether the reply is inside a thought now.
    bool is_thinking() const {
        std::uint32_t out = 0;
        detail::call(ember_chat_parser_is_thinking, get(), &out);
        return out != 0;
    }
    ChatFormat format() const {
        ember_chat_format raw{};
        raw.struct_size = sizeof raw;
        detail::call(ember_chat_parser_format, get(), &raw);
        return {{raw.name, raw.name_len},
                {raw.thinking_open, raw.thinking_open_len},
                {raw.thinking_close, raw.thinking_close_len},
                {raw.thinking_variable, raw.thinking_variable_len},
                {raw.thinking_on, raw.thinking_on_len},
                {raw.thinking_off, raw.thinking_off_len}};
    }
    ember_chat_parser *get() const noexcept { return handle_.get(); }

private:
    using Handle = detail::Handle<ember_chat_parser, ember_chat_parser_free>;
    Handle handle_;
    ChatEvent event_;
};

} // namespace ember

#endif
