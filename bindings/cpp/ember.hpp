// ember.hpp - Ember for C++17 and later: headers alone, over the C functions of ember.h, which say what everything means.
//
// - Model, Tokenizer, Context, Sampler, Generator, Conversation, ChatParser, Engine and Request own a handle and can be moved, not
//   copied; a moved-from one may only be assigned to or destroyed. They keep alive in Ember what they need of each other, so they may be destroyed in any order.
// - What fails throws ember::Error, which has the ember_status and Ember's sentence. Destructors throw nothing.
// - Text goes in as std::string_view (UTF-8, of any content) and comes out as std::string. Views that point into Ember's
//   memory (Event, ChatEvent, Context::logits) say how long they live.
// - Threads: a Model, a Tokenizer and a Constraint may be used by any number at once, the others by one at a time; a second one gets EMBER_E_BUSY.
// - Engine may be used by any number of threads at once.
// - A context that makes draft tokens (GenerateOptions::draft) is in use during the calls that it makes them for.
// - Generation is pulled, event by event. What a function throws that C calls (a stage of a sampler, the progress of a load)
//   is kept, and thrown by the call that led to it; set_log's has its exceptions swallowed.
#ifndef EMBER_HPP
#define EMBER_HPP

#include <cstdint>
#include <string>
#include <string_view>

#include "ember/base.hpp"
#include "ember/chat.hpp"
#include "ember/constraint.hpp"
#include "ember/context.hpp"
#include "ember/conversation.hpp"
#include "ember/engine.hpp"
#include "ember/event.hpp"
#include "ember/model.hpp"
#include "ember/options.hpp"
#include "ember/sampler.hpp"
#include "ember/tokenizer.hpp"

namespace ember {

// Sends log lines to Function, a void(ember_log_level, std::string_view). Its exceptions are dropped.
template <auto Function> void set_log(ember_log_level max_level) {
    ember_log_callback callback = [](std::int32_t level, const char *text, std::size_t len, void *) {
        try {
            Function(static_cast<ember_log_level>(level), std::string_view(text, len));
        } catch (...) {
        }
    };
    detail::call(ember_log_set, callback, static_cast<void *>(nullptr), static_cast<std::int32_t>(max_level));
}
inline void clear_log() { detail::call(ember_log_set, nullptr, nullptr, std::int32_t{EMBER_LOG_ERROR}); }

// Whether the library has a part: "chat".
inline bool has_feature(std::string_view name) { return ember_has_feature(name.data(), name.size()) != 0; }
inline std::string version() { return ember_version_string(); }
inline std::string build_info() { return ember_build_info(); }

} // namespace ember

#endif
