// Engines: many generations at once.
#ifndef EMBER_ENGINE_HPP
#define EMBER_ENGINE_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base.hpp"
#include "event.hpp"
#include "model.hpp"
#include "options.hpp"
#include "sampler.hpp"

namespace ember {

// A generation that an engine was asked for: a range of events, the last of which is the one that is_end(). One thread at a time
// takes them; any may cancel. Destroying one that has not ended cancels it; where its sampler has functions of C++ it waits
// for the step under way, since that may call them. Do not move it while a loop goes over it.
class Request {
public:
    using Iterator = detail::EventIterator<Request>;

    Request(Request &&other) noexcept = default;
    Request &operator=(Request &&other) noexcept {
        finish();
        stages_ = std::move(other.stages_);
        handle_ = std::move(other.handle_);
        event_ = other.event_;
        return *this;
    }
    ~Request() { finish(); }

    // The next event, for which it waits: one that is_none() when there is none within `timeout_ms` milliseconds. While it waits
    // and no other thread does the engine's steps, it does them. After the last event, that one comes again. After its events,
    // the error that ended the request is thrown, also one from a stage of its sampler.
    const Event &next(std::uint32_t timeout_ms = EMBER_FOREVER) {
        ember_event *raw = detail::raw(event_);
        try {
            detail::Relay::Aside aside;
            detail::call(ember_request_next, handle_.get(), timeout_ms, raw);
        } catch (const Error &error) {
            if (error.status() == EMBER_E_CANCELLED)
                throw_of_stages();
            throw;
        }
        if (event_.is_end() && event_.finish_reason() == EMBER_FINISH_CANCELLED)
            throw_of_stages();
        return event_;
    }
    // The event that next() gave last.
    const Event &event() const noexcept { return event_; }
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
    // Ends it with the engine's next step. Any thread.
    void cancel() const noexcept { ember_request_cancel(get()); }
    // What it did so far. Any thread.
    Usage usage() const {
        Usage usage{};
        usage.struct_size = sizeof usage;
        detail::call(ember_request_usage, handle_.get(), &usage);
        return usage;
    }
    ember_request *get() const noexcept { return handle_.get(); }

private:
    friend class Engine;
    using Handle = detail::Handle<ember_request, ember_request_free>;
    Request(Handle handle, detail::Stages stages) noexcept : stages_(std::move(stages)), handle_(std::move(handle)) {}
    void throw_of_stages() const {
        for (const auto &stage : stages_)
            if (auto thrown = stage->take())
                std::rethrow_exception(thrown);
    }
    // Cancels it, and sees to it that its stages are not called any more.
    void finish() noexcept {
        if (!handle_ || stages_.empty())
            return;
        cancel();
        Event event;
        detail::Relay::Aside aside;
        while (!event.is_end()) {
            ember_error *err = nullptr;
            Status status = ember_request_next(get(), EMBER_FOREVER, detail::raw(event), &err);
            ember_error_free(err);
            if (status != EMBER_OK)
                return; // what ended it
        }
    }
    detail::Stages stages_;
    Handle handle_;
    Event event_;
};

// Many generations on one model together, which takes far less time than one after the other. Each gives what it would give
// alone. Any number of threads may use it at once. Its requests end with it.
class Engine {
public:
    explicit Engine(const Model &model, const EngineOptions &options = {})
        : handle_(detail::make<Handle>(ember_engine_new, model.get(), options.handle().get())) {}

    // Has a prompt continued, which is the whole text. An Error of EMBER_E_QUEUE_FULL: try it again later. The sampler, greedy
    // without one, is copied as it stands: requests that shall differ need other seeds.
    Request submit(std::string_view prompt, const GenerateOptions &options = {}) const {
        return start(ember_engine_submit, prompt.data(), prompt.size(), options, nullptr);
    }
    Request submit(std::string_view prompt, const GenerateOptions &options, const Sampler &sampler) const {
        return start(ember_engine_submit, prompt.data(), prompt.size(), options, &sampler);
    }
    Request submit_tokens(Span<const Token> prompt, const GenerateOptions &options = {}) const {
        return start(ember_engine_submit_tokens, prompt.data(), prompt.size(), options, nullptr);
    }
    Request submit_tokens(Span<const Token> prompt, const GenerateOptions &options, const Sampler &sampler) const {
        return start(ember_engine_submit_tokens, prompt.data(), prompt.size(), options, &sampler);
    }
    // Does a step, after waiting up to `timeout_ms` milliseconds for something to do. Says whether there is more to do.
    bool step(std::uint32_t timeout_ms = 0) const {
        detail::Relay::Aside aside;
        bool more = false;
        detail::call(ember_engine_step, get(), timeout_ms, &more);
        return more;
    }
    // The options in force in its context: n_ctx are the positions of each request, n_seq how many run together.
    ContextInfo info() const {
        ContextInfo info{};
        info.struct_size = sizeof info;
        detail::call(ember_engine_info_get, get(), &info);
        return info;
    }
    EngineMetrics metrics() const {
        EngineMetrics metrics{};
        metrics.struct_size = sizeof metrics;
        detail::call(ember_engine_metrics_get, get(), &metrics);
        return metrics;
    }
    ember_engine *get() const noexcept { return handle_.get(); }

private:
    using Handle = detail::Handle<ember_engine, ember_engine_free>;
    template <class Function, class T>
    Request start(Function *function, const T *prompt, std::size_t n, const GenerateOptions &options,
                  const Sampler *sampler) const {
        auto stages = sampler == nullptr ? detail::Stages() : sampler->stages_;
        auto *raw = sampler == nullptr ? nullptr : sampler->get();
        auto handle = detail::make<Request::Handle>(function, get(), prompt, n, options.handle().get(), raw,
                                                    ember_event_callback{nullptr}, static_cast<void *>(nullptr));
        return Request(std::move(handle), std::move(stages));
    }
    Handle handle_;
};

} // namespace ember

#endif
