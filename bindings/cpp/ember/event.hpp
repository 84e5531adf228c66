// Events of a generation.
#ifndef EMBER_EVENT_HPP
#define EMBER_EVENT_HPP

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "base.hpp"

namespace ember {

class Event;
namespace detail {
inline ember_event *raw(Event &event) noexcept;
}

// What happens in a generation: a view that stays until the next event of the same Generator or
// Request, or its end.
class Event {
public:
    // New text, of whole code points.
    std::string_view text() const noexcept { return {raw_.text, raw_.text_len}; }
    // The bytes of the token, perhaps a part of a code point.
    Span<const std::uint8_t> bytes() const noexcept { return {raw_.bytes, raw_.n_bytes}; }
    // The likeliest tokens at this place, if GenerateOptions::n_top asked for them.
    Span<const TokenLogprob> tops() const noexcept { return {raw_.tops, raw_.n_tops}; }
    EventKind kind() const noexcept { return static_cast<EventKind>(raw_.kind); }
    bool is_token() const noexcept { return raw_.kind == EMBER_EVENT_TOKEN; }
    // There was no event in time; only from Request::next.
    bool is_none() const noexcept { return raw_.kind == EMBER_EVENT_NONE; }
    bool is_end() const noexcept { return raw_.kind == EMBER_EVENT_END; }
    Token token() const noexcept { return raw_.token; }
    // NaN, if GenerateOptions::logprobs did not ask for it.
    float logprob() const noexcept { return raw_.logprob; }
    FinishReason finish_reason() const noexcept { return static_cast<FinishReason>(raw_.finish_reason); }

private:
    friend ember_event *detail::raw(Event &event) noexcept;
    ember_event raw_{};
};

namespace detail {

// The event for the library to write.
inline ember_event *raw(Event &event) noexcept {
    event.raw_.struct_size = sizeof event.raw_;
    return &event.raw_;
}

// Goes over the events of a Generator, a Request or a Reply.
template <class Source, class Value = Event> class EventIterator {
public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Value;
    using difference_type = std::ptrdiff_t;
    using pointer = const Value *;
    using reference = const Value &;
    explicit EventIterator(Source *source) noexcept : source_(source) {}
    reference operator*() const noexcept { return source_->event(); }
    pointer operator->() const noexcept { return &source_->event(); }
    EventIterator &operator++() {
        if (source_->event().is_end())
            source_ = nullptr;
        else
            source_->next();
        return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const EventIterator &a, const EventIterator &b) noexcept { return a.source_ == b.source_; }
    friend bool operator!=(const EventIterator &a, const EventIterator &b) noexcept { return !(a == b); }

private:
    Source *source_;
};

} // namespace detail

} // namespace ember

#endif
