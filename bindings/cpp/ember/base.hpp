// What the other headers share: errors, spans, handles and calls.
#ifndef EMBER_BASE_HPP
#define EMBER_BASE_HPP

#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "ember.h"

namespace ember {

using Token = std::uint32_t;
using Status = ember_status;
using FinishReason = ember_finish_reason;
using EventKind = ember_event_kind;
using ModelInfo = ember_model_info;
using ContextInfo = ember_context_info;
using Memory = ember_memory;
using Timings = ember_timings;
using EngineMetrics = ember_engine_metrics;
using Usage = ember_generate_result;
using TokenLogprob = ember_token_logprob;
using TokenScore = ember_token_score;

// What Ember refused, and why.
class Error : public std::runtime_error {
public:
    Error(Status status, const std::string &message) : std::runtime_error(message), status_(status) {}
    Status status() const noexcept { return status_; }
    const char *name() const noexcept { return ember_status_name(status_); }

private:
    Status status_;
};

// Elements that somebody else owns: std::span of C++20, as far as it is needed here.
template <class T> class Span {
public:
    constexpr Span() noexcept = default;
    constexpr Span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
    // Of a vector, an array, a std::span: whatever has data() and size().
    template <class C, class = std::enable_if_t<std::is_convertible_v<decltype(std::declval<C &>().data()), T *>>>
    constexpr Span(C &&elements) noexcept : data_(elements.data()), size_(elements.size()) {}
    // Of {1, 2, 3}, for the length of a call.
    constexpr Span(std::initializer_list<std::remove_const_t<T>> list) noexcept {
        data_ = list.begin();
        size_ = list.size();
    }

    constexpr T *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr bool empty() const noexcept { return size_ == 0; }
    constexpr T *begin() const noexcept { return data_; }
    constexpr T *end() const noexcept { return data_ + size_; }
    constexpr T &operator[](std::size_t i) const noexcept { return data_[i]; }

private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

namespace detail {

template <auto Free> struct Deleter {
    template <class T> void operator()(T *handle) const noexcept { Free(handle); }
};
template <class T, auto Free> using Handle = std::unique_ptr<T, Deleter<Free>>;

[[noreturn]] inline void raise(Status status, ember_error *err) {
    Handle<ember_error, ember_error_free> owned(err);
    throw Error(status, ember_error_message(err));
}

// Calls a C function with an error slot after its arguments.
template <class Function, class... Arguments> void call(Function *function, Arguments... arguments) {
    ember_error *err = nullptr;
    Status status = function(arguments..., &err);
    if (status != EMBER_OK)
        raise(status, err);
}

// Calls a C function that writes a new handle after its arguments.
template <class H, class Function, class... Arguments> H make(Function *function, Arguments... arguments) {
    typename H::pointer out = nullptr;
    call(function, arguments..., &out);
    return H(out);
}

// Calls a C function that fills a buffer, of `capacity` elements at first, and returns the filled part.
template <class Buffer, class Function>
Buffer fill(std::size_t capacity, Function &&function) {
    Buffer buffer(capacity, typename Buffer::value_type());
    for (;;) {
        std::size_t needed = 0;
        ember_error *err = nullptr;
        Status status = function(buffer.data(), buffer.size(), &needed, &err);
        if (status != EMBER_OK && (status != EMBER_E_BUFFER_TOO_SMALL || needed <= buffer.size()))
            raise(status, err);
        ember_error_free(err);
        buffer.resize(needed);
        if (status == EMBER_OK)
            return buffer;
    }
}

// No exception may pass through C. This stands on the stack of a call that may lead to C++ functions, and takes what they throw.
class Relay {
public:
    Relay() noexcept : outer_(std::exchange(innermost(), this)) {}
    ~Relay() { innermost() = outer_; }
    Relay(const Relay &) = delete;
    Relay &operator=(const Relay &) = delete;
    // Runs a function that C has called: 0, or 1 when it threw. Its exception goes to `keep` when no call waits for it.
    template <class Function, class Keep> static std::int32_t run(Function &&function, Keep &&keep) noexcept {
        try {
            function();
            return 0;
        } catch (...) {
            if (innermost() != nullptr)
                innermost()->thrown_ = std::current_exception();
            else
                keep(std::current_exception());
            return 1;
        }
    }
    template <class Function> static std::int32_t run(Function &&function) noexcept {
        return run(std::forward<Function>(function), [](const std::exception_ptr &) {});
    }
    // While this lives, no call on this thread waits for what functions throw: it does the work of others too.
    class Aside {
    public:
        Aside() noexcept : outer_(std::exchange(innermost(), nullptr)) {}
        ~Aside() { innermost() = outer_; }
        Aside(const Aside &) = delete;
        Aside &operator=(const Aside &) = delete;

    private:
        Relay *outer_;
    };
    void rethrow() {
        if (thrown_)
            std::rethrow_exception(std::exchange(thrown_, nullptr));
    }

private:
    static Relay *&innermost() noexcept {
        thread_local Relay *innermost = nullptr;
        return innermost;
    }
    Relay *outer_;
    std::exception_ptr thrown_;
};

// Runs a call, and throws what a C++ function threw that it led to rather than its own error.
template <class Function> auto relayed(Function &&function) {
    Relay relay;
    try {
        if constexpr (std::is_void_v<decltype(function())>) {
            function();
            relay.rethrow();
        } else {
            auto result = function();
            relay.rethrow();
            return result;
        }
    } catch (const Error &) {
        relay.rethrow();
        throw;
    }
}

// What a function says about memory.
template <class Function, class... Arguments> Memory memory(Function *function, Arguments... arguments) {
    Memory memory{};
    memory.struct_size = sizeof memory;
    call(function, arguments..., &memory);
    return memory;
}

inline std::uint8_t *bytes(char *text) { return reinterpret_cast<std::uint8_t *>(text); }

} // namespace detail

} // namespace ember

#endif
