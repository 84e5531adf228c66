// Everything of ember.hpp that the golden file does not show: errors, ownership, cancelling, options, decoding, logs.
//
//   test_ember MODEL CHAT_MODEL
#include <atomic>
#include <cmath>
#include <thread>
#include <type_traits>

#include "check.hpp"

using ember::CancelToken;
using ember::Context;
using ember::ContextOptions;
using ember::GenerateOptions;
using ember::Model;
using ember::ModelOptions;
using ember::Sampler;
using ember::Token;

template <class T>
constexpr bool MoveOnly = std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T> &&
                          !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T>;
static_assert(MoveOnly<Model> && MoveOnly<Context> && MoveOnly<Sampler> && MoveOnly<ember::Generator>);
static_assert(std::is_copy_constructible_v<GenerateOptions> && std::is_copy_constructible_v<CancelToken>);

static const char PROMPT[] = "Once upon a time";

static void models(const std::string &path) {
    REFUSED(EMBER_E_IO, "no-such-model.gguf", Model::load("no-such-model.gguf"));
    REFUSED(EMBER_E_INVALID_ARGUMENT, "warp", Model::load(path, ModelOptions().isa("warp")));
    std::string file = read_file(path);
    auto *bytes = reinterpret_cast<const std::uint8_t *>(file.data());
    REFUSED(EMBER_E_FORMAT, "<buffer>", Model::from_bytes({bytes, 100}));
    Model model = Model::from_bytes({bytes, file.size()});
    Model mapped = Model::load(path, ModelOptions().use_mmap(false).pack(EMBER_PACK_NEVER).isa("scalar"));
    CHECK(mapped.isa() == "scalar" && !model.isa().empty());
    CHECK(mapped.info().n_params == model.info().n_params && model.info().causal == 1);

    Model shared = model.share();
    Model moved = std::move(model);
    CHECK(model.get() == nullptr && shared.get() == moved.get());
    REFUSED(EMBER_E_INVALID_ARGUMENT, "model", model.tokenize("a"));
    REFUSED(EMBER_E_INVALID_ARGUMENT, "model", Context{model});
    moved = std::move(mapped);
    CHECK(moved.isa() == "scalar" && shared.get() != nullptr);
}

static void texts(const Model &model) {
    const std::string text("na\xc3\xafve \0 text", 13);
    auto tokens = model.tokenize(text);
    CHECK(model.detokenize(tokens) == text);
    std::string joined;
    for (Token token : tokens)
        joined += model.token_bytes(token);
    CHECK(joined == text);
    std::string lengthy;
    for (int i = 0; i < 5000; i++)
        lengthy += "x\n\x01";
    CHECK(model.detokenize(model.tokenize(lengthy)) == lengthy); // the buffers have to grow
    CHECK(model.tokenize("").size() <= 1 && model.detokenize({}).empty());
    const std::uint8_t broken[] = {'a', 0xff, 'b'};
    CHECK(!model.tokenize_bytes({broken, 3}).empty());
    REFUSED(EMBER_E_UTF8, "", model.tokenize("a\xff"));
    REFUSED(EMBER_E_INVALID_ARGUMENT, "4000000000", model.detokenize({4000000000u}));
    CHECK(!model.is_eog(tokens.front()) && model.is_eog(model.info().eos_token));
}

static void metadata(const Model &model) {
    CHECK(model.meta_count() > 5);
    bool found = false;
    for (std::size_t i = 0; i < model.meta_count(); i++)
        found = found || model.meta_key(i) == "general.architecture";
    CHECK(found && model.meta_type("general.architecture") == 8);
    std::string architecture = model.meta_string("general.architecture");
    CHECK(model.meta_u64(architecture + ".block_count") == model.info().n_layer);
    CHECK(model.meta_i64(architecture + ".block_count") == model.info().n_layer);
    REFUSED(EMBER_E_NOT_FOUND, "no.such", model.meta_f64("no.such"));
    REFUSED(EMBER_E_INVALID_ARGUMENT, "general.architecture", model.meta_bool("general.architecture"));
    REFUSED(EMBER_E_NOT_FOUND, "", model.meta_key(model.meta_count()));
}

static void generating(const Model &model) {
    auto options = GenerateOptions().max_tokens(12).echo(true).n_top(3);
    Context context(model);
    std::string text;
    int n_tokens = 0, n_ends = 0;
    for (auto &event : context.generate(PROMPT, options)) {
        text += event.text();
        if (event.kind() == EMBER_EVENT_ECHO)
            CHECK(event.text() == PROMPT && event.token() == EMBER_TOKEN_NONE);
        if (event.is_token()) {
            n_tokens++;
            CHECK(event.tops().size() == 3 && event.tops()[0].token == event.token());
            CHECK(event.logprob() <= 0 && event.tops()[0].logprob >= event.tops()[2].logprob && event.bytes().size() > 0);
        }
        n_ends += event.is_end();
    }
    CHECK(n_tokens == 12 && n_ends == 1);
    CHECK(context.n_past() == model.tokenize(PROMPT).size() + 12);

    context.rewind(0);
    auto generator = context.generate(PROMPT, options);
    CHECK(generator.usage().finish_reason == EMBER_FINISH_NONE);
    ember::Generator moved = std::move(generator);
    CHECK(moved.text() == text && moved.next().is_end() && moved.next().finish_reason() == EMBER_FINISH_MAX_TOKENS);
    auto plain = context.generate("", GenerateOptions().max_tokens(1)); // goes on
    CHECK(std::isnan(plain.next().logprob()));

    context.rewind(0);
    auto until = GenerateOptions(options).echo(false).stop("habit").stop("never");
    CHECK(context.generate(PROMPT, until).text().find("habit") == std::string::npos);
    context.rewind(0);
    std::string with = context.generate(PROMPT, until.include_stop(true)).text();
    CHECK(with.size() > 5 && with.substr(with.size() - 5) == "habit");

    auto again = context.generate(PROMPT, GenerateOptions().max_tokens(1).reuse_prefix(true));
    again.text();
    CHECK(again.usage().n_reused > 0);
    REFUSED(EMBER_E_INVALID_ARGUMENT, "65", context.generate(PROMPT, GenerateOptions().n_top(65)));
    REFUSED(EMBER_E_UTF8, "", context.generate("\xff"));
    REFUSED(EMBER_E_CONTEXT_FULL, "", Context(model, ContextOptions().n_ctx(2)).generate(PROMPT).text());
}

// Handles may go in any order; what is left keeps what it needs.
static void lifetimes(const std::string &path) {
    std::optional<Model> model = Model::load(path);
    std::optional<Context> context(*model);
    std::optional<Sampler> sampler = Sampler(1).top_k(5).temperature(0.5f);
    auto generator = context->generate(PROMPT, GenerateOptions().max_tokens(4), *sampler);
    model.reset();
    sampler.reset();
    context.reset();
    CHECK(!generator.text().empty());
}

static void samplers(const Model &model) {
    Sampler sampler = Sampler(7).top_k(40).top_p(0.9f).temperature(0.8f);
    Context context(model);
    auto run = [&] {
        context.rewind(0);
        return context.generate(PROMPT, GenerateOptions().max_tokens(16), sampler).text();
    };
    std::string first = run(), second = run();
    CHECK(first != second); // the random numbers went on
    sampler.reset();
    CHECK(run() == first);
    CHECK(Sampler(1).greedy().sample({0.5f, 2.0f, 1.0f}) == 1);
    Sampler other(1);
    CHECK(other.deny({1}).greedy().sample({0.5f, 2.0f, 1.0f}) == 2 && other.seed() == 1);
    CHECK(other.clone().sample({0.5f, 2.0f, 1.0f}) == 2);
    Sampler biased(1);
    CHECK(biased.bias({{0, 9.0f}}).min_p(0.9f).sample({0.5f, 2.0f, 1.0f}) == 0);
    Sampler penalised(1);
    penalised.penalties(8, 1, 0, 100).typical_p(1).xtc(0, 0.1f).dynamic_temperature(1, 0).greedy().accept(1);
    CHECK(penalised.sample({0.5f, 2.0f, 1.0f}) == 2);
    Sampler allowed(1);
    CHECK(allowed.allow({0}).mirostat(5, 0.1f).sample({0.5f, 2.0f, 1.0f}) == 0);
    REFUSED(EMBER_E_INVALID_ARGUMENT, "NaN", sampler.sample({1.0f, NAN}));
    REFUSED(EMBER_E_INVALID_ARGUMENT, "", Sampler(1).top_p(2));
}

static void decoding(const Model &model) {
    Context context(model, ContextOptions().n_ctx(64).n_seq(2).n_batch(16).n_threads(1).kv_type(EMBER_KV_F32));
    CHECK(context.info().n_ctx == 64 && context.info().n_seq == 2 && context.info().n_batch == 16);
    auto tokens = model.tokenize(PROMPT);
    context.decode(tokens);
    auto logits = context.logits(tokens.size() - 1);
    CHECK(logits.size() == model.info().n_vocab);
    Token next = Sampler(0).greedy().sample(logits);
    Context other(model);
    auto generator = other.generate(PROMPT);
    CHECK(generator.next().token() == next);

    std::vector<std::uint32_t> sequences(tokens.size(), 1), positions;
    for (std::size_t i = 0; i < tokens.size(); i++)
        positions.push_back(static_cast<std::uint32_t>(i));
    std::vector<std::uint8_t> want(tokens.size(), 1);
    ember::Batch batch{tokens, positions, sequences, want};
    context.decode(batch);
    CHECK(context.n_past(1) == tokens.size() && context.logits(0).size() == model.info().n_vocab);
    REFUSED(EMBER_E_INVALID_ARGUMENT, "position", context.decode(batch)); // they are after the sequence's end now
    batch.positions = {positions.data(), 1};
    REFUSED(EMBER_E_INVALID_ARGUMENT, "length", context.decode(batch));
    context.rewind(2, 1);
    CHECK(context.n_past(1) == 2 && context.n_past() == tokens.size());
    REFUSED(EMBER_E_NOT_FOUND, "", context.logits(0));
    REFUSED(EMBER_E_INVALID_ARGUMENT, "", Context(model, ContextOptions().worker_cpus({8191}).n_threads(2)));
}

static void cancelling(const std::string &path, const Model &model) {
    CancelToken token;
    CancelToken copy = token;
    copy.cancel();
    CHECK(token.is_cancelled());
    REFUSED(EMBER_E_CANCELLED, "", Model::load(path, ModelOptions().cancel_token(token)));
    Context context(model);
    context.set_cancel_token(token);
    REFUSED(EMBER_E_CANCELLED, "", context.embed({"a"}));
    auto cancelled = context.generate(PROMPT);
    CHECK(cancelled.next().is_end() && cancelled.next().finish_reason() == EMBER_FINISH_CANCELLED);
    context.set_cancel_token(std::nullopt);
    token.reset();

    // From another thread, which waits for the first token.
    std::atomic<bool> begun{false};
    std::thread other([&begun, copy] {
        while (!begun)
            std::this_thread::yield();
        copy.cancel();
    });
    auto finish = EMBER_FINISH_NONE;
    for (auto &event : context.generate(PROMPT, GenerateOptions().max_tokens(100000).ignore_eog(true).cancel_token(token))) {
        begun = true;
        if (event.is_token())
            while (context.n_past() > 32 && !token.is_cancelled())
                std::this_thread::yield();
        finish = event.finish_reason();
    }
    other.join();
    CHECK(finish == EMBER_FINISH_CANCELLED);
}

static void completing(const Model &model) {
    const std::string prompt = "Once upon a time";
    Context context(model, ember::ContextOptions().n_ctx(128).n_seq(3));
    auto options = ember::GenerateOptions().max_tokens(12).logprobs(true);
    auto sampler = [](std::uint64_t seed) {
        ember::Sampler made(seed);
        made.temperature(1.1f);
        return made;
    };
    auto all = context.completions(prompt, 3, options, sampler(21));
    REFUSED(EMBER_E_INVALID_ARGUMENT, "has not ended", all.rank());
    std::string texts[3];
    int n_ends = 0;
    while (auto turn = all.next()) {
        texts[turn->index] += turn->event.text();
        n_ends += turn->event.is_end();
    }
    CHECK(n_ends == 3 && !all.next());
    for (std::uint32_t i = 0; i < 3; i++) {
        Context own(model, ember::ContextOptions().n_ctx(128));
        auto alone = own.generate(prompt, options, sampler(21 + i));
        CHECK(alone.text() == texts[i] && all.text(i) == texts[i] && !texts[i].empty());
        CHECK(alone.usage().mean_logprob == all.usage(i).mean_logprob);
    }
    CHECK(texts[0] != texts[1] || texts[0] != texts[2]);
    auto order = all.rank();
    CHECK(order.size() == 3);
    CHECK(all.usage(order[0]).mean_logprob >= all.usage(order[1]).mean_logprob);
    CHECK(all.usage(order[1]).mean_logprob >= all.usage(order[2]).mean_logprob);
    auto greedy = context.completions_tokens(model.tokenize(prompt), 2, options);
    greedy.finish();
    CHECK(greedy.text(0) == greedy.text(1));
    REFUSED(EMBER_E_INVALID_ARGUMENT, "no completion 2", greedy.text(2));
    REFUSED(EMBER_E_INVALID_ARGUMENT, "4 completions", context.completions(prompt, 4, options));
}

static void embedding(const Model &model) {
    Context context(model);
    auto each = context.embed({"The moon", "The sea was calm"}, ember::EmbedOptions().pooling(EMBER_POOLING_NONE));
    CHECK(each.size() == model.tokenize("The moon").size() + model.tokenize("The sea was calm").size());
    auto long_one = context.embed(std::vector<std::string_view>{"The moon"}, ember::EmbedOptions().normalize(false));
    double length = 0;
    for (float x : long_one[0])
        length += static_cast<double>(x) * static_cast<double>(x);
    CHECK(std::fabs(length - 1) > 0.01);
    REFUSED(EMBER_E_UTF8, "1", context.embed({"a", "\xff"}));
    CHECK(context.embed(std::vector<std::string>()).size() == 0);
}

static void chatting(const std::string &path) {
    CHECK(ember::has_feature("chat") && !ember::has_feature("teleport"));
    auto model = Model::load(path);
    const std::string odd = "a \"quoted\" back\\slash,\na new line and \x01";
    std::string text = model.apply_chat_template({{"system", "Be brief."}, {"user", odd}});
    CHECK(text == "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n" + odd +
                      "<|im_end|>\n<|im_start|>assistant\n");
    CHECK(model.apply_chat_template(ember::to_json({{"system", "Be brief."}, {"user", odd}})) == text);
    CHECK(model.chat_template().find("im_start") != std::string::npos);
    REFUSED(EMBER_E_INVALID_ARGUMENT, "", model.apply_chat_template("no JSON"));
    REFUSED(EMBER_E_NOT_FOUND, "no-such", model.chat_template("no-such"));
    auto options = ember::ChatOptions().template_text("{{ messages[0].content }}{{ x }}").variables("{\"x\": 7}");
    CHECK(model.apply_chat_template({{"user", "hello"}}, options) == "hello7");
    auto bare = ember::ChatOptions().add_generation_prompt(false);
    CHECK(model.apply_chat_template({{"user", "a"}}, bare).find("assistant\n") == std::string::npos);
}

static int n_lines = 0;
static void count_and_throw(ember_log_level, std::string_view line) {
    n_lines += !line.empty();
    throw std::runtime_error("a log callback that throws");
}

static void logging(const std::string &path) {
    ember::set_log<count_and_throw>(EMBER_LOG_DEBUG);
    Model::load(path);
    ember::clear_log();
    int before = n_lines;
    CHECK(before > 0);
    Model::load(path);
    CHECK(n_lines == before);
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    CHECK(ember::build_info().find(ember::version()) != std::string::npos);
    models(argv[1]);
    auto model = Model::load(argv[1]);
    texts(model);
    metadata(model);
    generating(model);
    lifetimes(argv[1]);
    samplers(model);
    decoding(model);
    cancelling(argv[1], model);
    completing(model);
    embedding(model);
    chatting(argv[2]);
    logging(argv[1]);
    std::printf("ember.hpp: all checks passed\n");
}
