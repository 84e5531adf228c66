// Constraints: what a text has to follow.
#ifndef EMBER_CONSTRAINT_HPP
#define EMBER_CONSTRAINT_HPP

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base.hpp"
#include "model.hpp"
#include "options.hpp"

namespace ember {

// What a text has to follow, compiled for the tokens of a model: for GenerateOptions::constraint and Sampler::constraint. It does
// not change, any number of threads may use it at once, and copies are the same one. Ember refuses what it cannot enforce: an
// Error names it.
class Constraint {
public:
    // JSON that a JSON Schema describes.
    static Constraint json_schema(const Model &model, std::string_view schema, const ConstraintOptions &options = {}) {
        return make(options, ember_constraint_new_json_schema, model.get(), schema.data(), schema.size());
    }
    // A JSON object, whatever it holds.
    static Constraint json_object(const Model &model, const ConstraintOptions &options = {}) {
        return make(options, ember_constraint_new_json_object, model.get());
    }
    // What a regular expression matches as a whole.
    static Constraint regex(const Model &model, std::string_view regex, const ConstraintOptions &options = {}) {
        return make(options, ember_constraint_new_regex, model.get(), regex.data(), regex.size());
    }
    // What a grammar in Lark's syntax derives from its rule "start".
    static Constraint lark(const Model &model, std::string_view grammar, const ConstraintOptions &options = {}) {
        return make(options, ember_constraint_new_lark, model.get(), grammar.data(), grammar.size());
    }
    // One of these texts.
    static Constraint choices(const Model &model, Span<const std::string_view> texts, const ConstraintOptions &options = {}) {
        std::vector<const char *> pointers;
        std::vector<std::size_t> lengths;
        for (std::string_view text : texts) {
            pointers.push_back(text.data());
            lengths.push_back(text.size());
        }
        return make(options, ember_constraint_new_choices, model.get(), pointers.data(), lengths.data(), pointers.size());
    }
    // A reply that may call the tools of the options: calls follow the schemas of their tools, and where the tool choice asks for a
    // call, the reply is one. `prompt` is what Model::apply_chat_template gave. std::nullopt: there is nothing to constrain. A
    // Conversation does this by itself.
    static std::optional<Constraint> chat(const Model &model, const ChatOptions &options, std::string_view prompt = "") {
        auto handle = detail::make<Handle>(ember_chat_constraint, model.get(), options.handle().get(), prompt.data(),
                                           prompt.size());
        return handle ? std::optional(Constraint(std::move(handle))) : std::nullopt;
    }
    const ember_constraint *get() const noexcept { return handle_.get(); }

private:
    friend class GenerateOptions;
    using Handle = detail::Handle<ember_constraint, ember_constraint_free>;
    explicit Constraint(Handle handle) : handle_(std::move(handle)) {}
    template <class Function, class... Arguments>
    static Constraint make(const ConstraintOptions &options, Function *function, Arguments... arguments) {
        return Constraint(detail::make<Handle>(function, arguments..., options.handle().get()));
    }
    std::shared_ptr<const ember_constraint> handle_;
};

inline GenerateOptions &GenerateOptions::constraint(const Constraint &constraint) {
    constraint_ = constraint.handle_;
    return *this;
}

} // namespace ember

#endif
