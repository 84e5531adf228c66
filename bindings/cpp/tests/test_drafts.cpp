// Draft tokens, by lookup and by a draft model: the same text; lifetimes, and what is refused. Shifts that are refused.
//
//   test_drafts MODEL FIXTURES
#include <memory>
#include <optional>

#include "check.hpp"

using ember::Context;
using ember::ContextOptions;
using ember::Engine;
using ember::EngineOptions;
using ember::GenerateOptions;
using ember::Model;
using ember::Sampler;
using ember::Token;

static const char PROMPT[] = "one two three, one two three, one two three, one two";

static GenerateOptions plain_options() { return GenerateOptions().max_tokens(40).ignore_eog(true); }
static ContextOptions small() {
    ContextOptions options;
    options.n_ctx(256).n_threads(1);
    return options;
}

static std::string drawn(Context &context, const GenerateOptions &options, bool greedy, ember::Usage &usage) {
    context.rewind(0);
    auto sampler = greedy ? Sampler(3).greedy() : Sampler(3).top_k(5).temperature(0.7f);
    auto generator = context.generate(PROMPT, options, sampler);
    std::string text = generator.text();
    usage = generator.usage();
    return text;
}

static void drafts_change_nothing(const Model &model) {
    Context context(model, small()), draft(model, small().n_seq(2));
    ember::Usage usage{};
    for (bool greedy : {true, false}) {
        std::string expected = drawn(context, plain_options(), greedy, usage);
        CHECK(usage.n_generated == 40 && usage.n_drafted == 0 && usage.n_accepted == 0 && usage.n_shifted == 0);
        for (const auto &options : {plain_options().lookup(8), plain_options().lookup(8, 2), plain_options().draft(draft, 4, 1),
                                    plain_options().lookup(8).draft(draft, 4)}) {
            CHECK(drawn(context, options, greedy, usage) == expected);
            CHECK(usage.n_accepted > 0 && usage.n_accepted <= usage.n_drafted);
        }
        CHECK(draft.n_past(0) > 0 && draft.n_past(1) > 0);
        CHECK(drawn(context, plain_options().lookup(8).lookup(0).draft(draft, 0), greedy, usage) == expected);
        CHECK(usage.n_drafted == 0);
    }
    std::string expected = drawn(context, plain_options(), true, usage);
    Engine engine(model, EngineOptions().context(small()));
    auto request = engine.submit(PROMPT, plain_options().lookup(8).draft(draft, 4));
    CHECK(request.text() == expected && request.usage().n_drafted == 0);
}

static void the_draft_lives_as_long_as_it_is_used(const Model &model) {
    Context context(model, small());
    ember::Usage usage{};
    std::string expected = drawn(context, plain_options(), true, usage);
    std::optional<GenerateOptions> options = plain_options();
    {
        Context draft(model, small());
        options->draft(draft, 4);
        Context moved = std::move(draft); // the same one
        moved.decode(model.tokenize(PROMPT));
    }
    CHECK(drawn(context, GenerateOptions(*options), true, usage) == expected && usage.n_accepted > 0);
    context.rewind(0);
    auto generator = context.generate(PROMPT, *options);
    options.reset();
    CHECK(generator.text() == expected && generator.usage().n_accepted > 0);

    // Between two events it is free; at work in another call it is busy, and then it can be tried again.
    Context shared(model, small());
    context.rewind(0);
    auto first = context.generate(PROMPT, plain_options().draft(shared, 4));
    std::string text(first.next().text());
    shared.rewind(0);
    auto stage = [&](auto, auto) { REFUSED(EMBER_E_BUSY, "draft", first.next()); };
    shared.generate("one", GenerateOptions().max_tokens(1), Sampler(1).stage(stage)).text();
    CHECK(text + first.text() == expected);
}

static void nonsense_is_refused(const Model &model, const std::string &fixtures) {
    Context context(model, small()), draft(model, small());
    auto start = [&](const GenerateOptions &options) { return context.generate(PROMPT, options); };
    REFUSED(EMBER_E_INVALID_ARGUMENT, "n_draft", start(GenerateOptions().lookup(33)));
    REFUSED(EMBER_E_INVALID_ARGUMENT, "ngram", start(GenerateOptions().lookup(8, 0)));
    REFUSED(EMBER_E_INVALID_ARGUMENT, "17", start(GenerateOptions().lookup(8, 17)));
    REFUSED(EMBER_E_INVALID_ARGUMENT, "33", start(GenerateOptions().draft(draft, 33)));
    REFUSED(EMBER_E_INVALID_ARGUMENT, "sequence 1", start(GenerateOptions().draft(draft, 4, 1)));
    REFUSED(EMBER_E_INVALID_ARGUMENT, "itself", start(GenerateOptions().draft(context, 4)));
    auto rotary = Model::load(fixtures + "/gemma3.gguf");
    Context other(rotary, ContextOptions().n_ctx(32));
    REFUSED(EMBER_E_INVALID_ARGUMENT, "vocabulary", start(GenerateOptions().draft(other, 4)));
    Context encoder(Model::load(fixtures + "/bert.gguf"));
    REFUSED(EMBER_E_UNSUPPORTED, "encoder", start(GenerateOptions().draft(encoder, 4)));

    REFUSED(EMBER_E_UNSUPPORTED, "position", start(GenerateOptions().shift(4, 8)));
    context.decode({1, 2, 3});
    REFUSED(EMBER_E_UNSUPPORTED, "position", context.shift_sequence(0, 0, 1));
    REFUSED(EMBER_E_UNSUPPORTED, "engine", Engine(model).submit(PROMPT, GenerateOptions().shift(4, 8)));
    const Token prompt[] = {1, 2, 3, 4, 5, 6};
    REFUSED(EMBER_E_INVALID_ARGUMENT, "n_ctx 32", other.generate_tokens({prompt, 6}, GenerateOptions().shift(22, 10)));
    auto full = other.generate_tokens({prompt, 6}, GenerateOptions().max_tokens(100).shift(22, 0));
    full.text();
    CHECK(full.event().finish_reason() == EMBER_FINISH_CONTEXT_FULL && full.usage().n_shifted == 0);
    REFUSED(EMBER_E_INVALID_ARGUMENT, "32", other.shift_sequence(0, 30, 3));
    REFUSED(EMBER_E_INVALID_ARGUMENT, "9", other.shift_sequence(9, 0, 1));
    CHECK(other.n_past() == 32);
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    auto model = Model::load(argv[1]);
    drafts_change_nothing(model);
    the_draft_lives_as_long_as_it_is_used(model);
    nonsense_is_refused(model, argv[2]);
    std::printf("drafts and shifts: all checks passed\n");
}
