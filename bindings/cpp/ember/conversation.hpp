// Conversations: messages in, events out, and a history that is kept.
#ifndef EMBER_CONVERSATION_HPP
#define EMBER_CONVERSATION_HPP

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base.hpp"
#include "chat.hpp"
#include "context.hpp"
#include "event.hpp"
#include "options.hpp"
#include "sampler.hpp"

namespace ember {

using ConversationUsage = ember_conversation_usage;

namespace detail {
using FullFunction = std::function<std::uint32_t(std::uint32_t, std::uint32_t, std::uint32_t)>;
// A conversation, and what the library has the addresses of while it lives.
struct Talk {
    using Handle = detail::Handle<ember_conversation, ember_conversation_free>;
    Stages stages;
    FullFunction on_full;
    Handle handle;
};
} // namespace detail

// A reply under way: a range of events, the last of which is the one that is_end(). Destroying it before that gives the reply up: it
// becomes no message. Do not move it while a loop goes over it.
class Reply {
public:
    using Iterator = detail::EventIterator<Reply, ChatEvent>;
    Reply(Reply &&) noexcept = default;
    Reply &operator=(Reply &&other) noexcept {
        abandon();
        talk_ = std::move(other.talk_);
        event_ = other.event_;
        return *this;
    }
    ~Reply() { abandon(); }
    // The next event; after the last one, that one again. After an Error it may be called again.
    const ChatEvent &next() {
        if (event_.is_end())
            return event_;
        if (!talk_)
            throw Error(EMBER_E_INVALID_ARGUMENT, "this reply was given up");
        ember_chat_event *raw = detail::raw(event_);
        detail::relayed([&] { detail::call(ember_conversation_next, talk_->handle.get(), raw); });
        return event_;
    }
    // The event that next() gave last.
    const ChatEvent &event() const noexcept { return event_; }
    Iterator begin() {
        next();
        return Iterator(this);
    }
    Iterator end() noexcept { return Iterator(nullptr); }
    // Takes all events that are left and returns the text of the answer.
    std::string text() {
        std::string text;
        while (!next().is_end())
            if (event_.is_text())
                text += event_.text();
        return text;
    }
    // Gives the reply up.
    void abandon() noexcept {
        if (talk_ && !event_.is_end())
            ember_conversation_abandon(talk_->handle.get(), nullptr);
        talk_.reset();
    }

private:
    friend class Conversation;
    explicit Reply(std::shared_ptr<detail::Talk> talk) noexcept : talk_(std::move(talk)) {}
    std::shared_ptr<detail::Talk> talk_;
    ChatEvent event_;
};

// A conversation with a model in one sequence of a context. A reply runs only what the sequence does not hold; use the sequence
// for nothing else. Text from a user can never spell a control token. One thread at a time.
class Conversation {
public:
    // `system` is the system text, if there is one. GenerateOptions say how replies are generated, and in which sequence.
    explicit Conversation(Context &context, std::string_view system = "", const ChatOptions &chat = {},
                          const GenerateOptions &options = {})
        : Conversation(detail::make<Handle>(ember_conversation_new, context.get(), system.data(), system.size(),
                                            chat.handle().get(), options.handle().get())) {}
    // Continues what save() gave, with options of its own.
    static Conversation load(Context &context, Span<const std::byte> saved, const ChatOptions &chat = {},
                             const GenerateOptions &options = {}) {
        auto *bytes = reinterpret_cast<const std::uint8_t *>(saved.data());
        return Conversation(detail::make<Handle>(ember_conversation_load, context.get(), bytes, saved.size(),
                                                 chat.handle().get(), options.handle().get()));
    }
    Conversation(Conversation &&) noexcept = default;
    Conversation &operator=(Conversation &&) noexcept = default;

    // Adds a message without having it answered: the result of a tool, say.
    void add(const Message &message) { add_json(detail::message_json(message)); }
    // As before, for a JSON object, which may have tool calls and what else the template looks at.
    void add_json(std::string_view json) { detail::call(ember_conversation_add, get(), json.data(), json.size()); }
    // Adds a user's message and has it answered; without one those that were added are. The sampler, greedy without one, may be a
    // temporary. Its random numbers move on.
    Reply send(std::string_view text = "") { return begin(text, nullptr); }
    Reply send(std::string_view text, const Sampler &sampler) { return begin(text, &sampler); }
    // Forgets the last turn: the user's last message and all after it.
    void undo() { detail::call(ember_conversation_undo, get()); }
    // All messages so far as a JSON array, those that were dropped included.
    std::string messages() const {
        return detail::fill<std::string>(4096, [&](char *out, std::size_t n, auto... rest) {
            return ember_conversation_messages(get(), detail::bytes(out), n, rest...);
        });
    }
    // What the last reply took.
    ConversationUsage usage() const {
        ConversationUsage usage{};
        usage.struct_size = sizeof usage;
        detail::call(ember_conversation_usage_get, get(), &usage);
        return usage;
    }
    // Ends a thought after so many tokens; 0: none does.
    void set_thinking_budget(std::uint32_t n_tokens) {
        detail::call(ember_conversation_set_thinking_budget, get(), n_tokens);
    }
    // Whether replies from now on have to call a tool: "auto", "none", "required", a tool's name. It holds until another choice is set.
    void set_tool_choice(std::string_view choice) {
        detail::call(ember_conversation_set_tool_choice, get(), choice.data(), choice.size());
    }
    // What happens where the conversation becomes longer than its sequence, and how many tokens must be free for a reply. 0: as
    // many as the reply may have, and a quarter of the sequence at most.
    void set_when_full(ember_when_full when_full, std::uint32_t n_reserve = 0) {
        detail::call(ember_conversation_set_when_full, get(), static_cast<std::int32_t>(when_full), n_reserve);
    }
    // Where the conversation becomes too long, send() asks this function how many turns are dropped. It gets the number of tokens
    // needed, the number that a sequence holds, and the number of turns that can be dropped. 0: the reply is
    // EMBER_E_CONTEXT_FULL. send() throws its exceptions. Empty: as few as need be. Copies of the conversation do without.
    void set_on_full(std::function<std::uint32_t(std::uint32_t, std::uint32_t, std::uint32_t)> function) {
        ember_full_callback callback = [](std::uint32_t n_tokens, std::uint32_t n_ctx, std::uint32_t n_turns, void *user_data) {
            std::uint32_t n = 0;
            bool threw = detail::Relay::run([&] {
                n = static_cast<const detail::Talk *>(user_data)->on_full(n_tokens, n_ctx, n_turns);
            }) != 0;
            return threw ? 0 : n;
        };
        detail::call(ember_conversation_set_on_full, get(), function ? callback : nullptr, static_cast<void *>(talk_.get()));
        talk_->on_full = std::move(function);
    }
    // The same conversation in another sequence of the context; both go on by themselves.
    Conversation fork(std::uint32_t sequence) const {
        return Conversation(detail::make<Handle>(ember_conversation_fork, get(), sequence));
    }
    // The conversation as bytes: its messages, and which tokens its sequence holds. Save the sequence too (Context::save_state) where
    // it shall not be run again.
    std::vector<std::byte> save() const {
        return detail::fill<std::vector<std::byte>>(8192, [&](std::byte *out, std::size_t n, auto... rest) {
            return ember_conversation_save(get(), reinterpret_cast<std::uint8_t *>(out), n, rest...);
        });
    }
    ember_conversation *get() const noexcept { return talk_ ? talk_->handle.get() : nullptr; }

private:
    using Handle = detail::Talk::Handle;
    explicit Conversation(Handle handle) : talk_(std::make_shared<detail::Talk>()) { talk_->handle = std::move(handle); }
    Reply begin(std::string_view text, const Sampler *sampler) {
        auto *raw = sampler == nullptr ? nullptr : sampler->get();
        detail::relayed([&] { detail::call(ember_conversation_begin, get(), text.data(), text.size(), raw); });
        Reply reply(talk_);
        talk_->stages = sampler == nullptr ? detail::Stages() : sampler->stages_;
        return reply;
    }
    std::shared_ptr<detail::Talk> talk_;
};

} // namespace ember

#endif
