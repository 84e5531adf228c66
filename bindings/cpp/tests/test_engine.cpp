// Engines, requests, sequences and states.
//
//   test_engine MODEL FOLDER
#include <atomic>
#include <cmath>
#include <cstdio>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <type_traits>

#include "check.hpp"

using ember::Context;
using ember::ContextOptions;
using ember::Engine;
using ember::EngineOptions;
using ember::Event;
using ember::GenerateOptions;
using ember::Model;
using ember::Request;
using ember::Sampler;
using ember::Span;
using ember::Token;

static_assert(std::is_nothrow_move_constructible_v<Request> && std::is_nothrow_move_assignable_v<Request>);
static_assert(!std::is_copy_constructible_v<Request> && !std::is_copy_constructible_v<Engine>);
static_assert(std::is_nothrow_move_constructible_v<Engine>);

static const char *const PROMPTS[] = {"Once upon a time", "The wolf said", "The sea was calm, and the moon", "An old man had"};

static EngineOptions small() { return EngineOptions().context(ContextOptions().n_ctx(256).n_threads(1)); }

static GenerateOptions options_of(std::uint32_t i) {
    return GenerateOptions().max_tokens(4 + i % 9).echo(i % 2 == 0).n_top(i % 3);
}

static Sampler sampler_of(std::uint32_t i) { return i % 3 == 0 ? Sampler(i).greedy() : Sampler(i).top_k(20).temperature(0.8f); }

static std::string described(const Event &event) {
    std::ostringstream out;
    out << event.text() << '|' << static_cast<int>(event.kind()) << '|' << event.token() << '|' << event.bytes().size() << '|';
    for (const auto &top : event.tops())
        out << top.token << ' ' << top.logprob << ' ';
    return out.str();
}

// Requests of many threads, whoever does the steps, give what they give alone.
static void together(const Model &model, bool has_thread) {
    constexpr std::uint32_t n = 24;
    std::vector<std::string> alone(n), found(n);
    Context context(model, ContextOptions().n_ctx(256).n_threads(1));
    for (std::uint32_t i = 0; i < n; i++) {
        context.rewind(0);
        for (const Event &event : context.generate(PROMPTS[i % 4], options_of(i), sampler_of(i)))
            alone[i] += described(event);
    }
    Engine engine(model, small().n_parallel(6).thread(has_thread));
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < n; i++)
        threads.emplace_back([&, i] {
            Request request = engine.submit(PROMPTS[i % 4], options_of(i), sampler_of(i));
            for (const Event &event : request)
                found[i] += described(event);
            CHECK(request.usage().n_generated == 4 + i % 9 && request.usage().finish_reason == EMBER_FINISH_MAX_TOKENS);
            CHECK(request.next().is_end());
        });
    for (auto &thread : threads)
        thread.join();
    CHECK(found == alone);
    auto metrics = engine.metrics();
    CHECK(metrics.n_submitted == n && metrics.n_finished == n && metrics.n_queued == 0 && metrics.n_active == 0);
    CHECK(engine.info().n_seq == 6 && engine.info().n_pages == metrics.n_pages);
    CHECK(metrics.n_steps > 0 && metrics.busy_ns > 0 && metrics.tokens_per_s > 0 && metrics.n_pages >= 6);
}

static void by_hand(const Model &model) {
    Engine engine(model, small());
    CHECK(!engine.step());
    const Token prompt[] = {1, 300, 301};
    Request one = engine.submit_tokens({prompt, 3}, GenerateOptions().max_tokens(4));
    CHECK(one.next(0).is_none() && !one.event().is_end());
    while (engine.step()) {
    }
    CHECK(one.next(0).is_token());
    Request moved = std::move(one);
    moved = engine.submit(PROMPTS[0], GenerateOptions().max_tokens(3));
    CHECK(!moved.text().empty());
    REFUSED(EMBER_E_BUSY, "thread", Engine(model, small().thread(true)).step());
    // Requests outlive their engine, which ends them.
    auto temporary = std::make_unique<Engine>(model, small().thread(true));
    Request left = temporary->submit(PROMPTS[0], GenerateOptions().max_tokens(200).ignore_eog(true));
    left.next();
    temporary.reset();
    left.text();
    CHECK(left.event().finish_reason() == EMBER_FINISH_CANCELLED);
}

static void refusals(const Model &model) {
    Engine engine(model, small().n_parallel(1).max_queue(1));
    auto longest = GenerateOptions().max_tokens(200).ignore_eog(true);
    Request running = engine.submit(PROMPTS[0], longest);
    CHECK(running.next().is_token());
    Request waiting = engine.submit(PROMPTS[1], longest);
    REFUSED(EMBER_E_QUEUE_FULL, "", engine.submit(PROMPTS[2]));
    CHECK(engine.metrics().n_refused == 1 && engine.metrics().n_queued == 1);
    running.cancel();
    running.text();
    CHECK(running.event().finish_reason() == EMBER_FINISH_CANCELLED);
    ember::CancelToken token;
    token.cancel();
    waiting.cancel();
    waiting.text();
    Request cancelled = engine.submit(PROMPTS[0], GenerateOptions().cancel_token(token));
    cancelled.text();
    CHECK(cancelled.event().finish_reason() == EMBER_FINISH_CANCELLED);
    for (bool late = false; !late;) { // as long as the machine makes all tokens within a millisecond
        Request request = engine.submit(PROMPTS[0], GenerateOptions(longest).time_limit_ms(1));
        request.text();
        late = request.event().finish_reason() == EMBER_FINISH_TIME_LIMIT;
    }
    // What waits begins in order of priority. Nobody steps before next().
    engine = Engine(model, small().n_parallel(1).max_queue(2));
    Request low = engine.submit(PROMPTS[0], GenerateOptions().max_tokens(1).priority(-1));
    Request high = engine.submit(PROMPTS[1], GenerateOptions().max_tokens(1).priority(7));
    low.text();
    CHECK(high.usage().finish_reason == EMBER_FINISH_MAX_TOKENS);
    REFUSED(EMBER_E_INVALID_ARGUMENT, "", engine.submit(""));
    REFUSED(EMBER_E_CONTEXT_FULL, "256", engine.submit_tokens(std::vector<Token>(300, 47)));
    REFUSED(EMBER_E_INVALID_ARGUMENT, "99999", engine.submit_tokens({99999}));
    REFUSED(EMBER_E_INVALID_ARGUMENT, "n_parallel", Engine(model, EngineOptions().n_parallel(0)));
}

struct Enough : std::runtime_error {
    using std::runtime_error::runtime_error;
};

static bool threw_enough(Request &request) {
    try {
        request.text();
    } catch (const Enough &) {
        return true;
    }
    return false;
}

static void stages(const Model &model, bool has_thread) {
    auto odd = [](Span<const Token> tokens, Span<float> logits) {
        for (std::size_t i = 0; i < tokens.size(); i++)
            if (tokens[i] % 2 == 0)
                logits[i] = -INFINITY;
    };
    auto five = GenerateOptions().max_tokens(5);
    Context context(model, ContextOptions().n_ctx(256));
    std::string alone = context.generate(PROMPTS[0], five, Sampler(1).stage(odd).greedy()).text();
    Engine engine(model, small().thread(has_thread));
    Request kept = engine.submit(PROMPTS[0], five, Sampler(1).stage(odd).greedy());
    Request refused = engine.submit(PROMPTS[0], five, Sampler(1).stage([](auto, auto) { throw Enough("a stage"); }));
    // While this one waits it may do the step in which the other one's stage throws.
    CHECK(kept.text() == alone);
    CHECK(threw_enough(refused));
    // Requests that are dropped do not have their functions called any more.
    std::atomic<int> n_calls{0};
    for (int i = 0; i < 4; i++) {
        auto alive = std::make_shared<int>(7);
        Request dropped = engine.submit(PROMPTS[0], GenerateOptions().max_tokens(200).ignore_eog(true),
                                        Sampler(1).stage([&, alive](auto, auto) { n_calls += *alive == 7; }).greedy());
        if (i % 2 == 0)
            dropped.next();
    }
    CHECK(n_calls > 0);
    CHECK(!engine.submit(PROMPTS[1], five).text().empty());
}

static std::string goes_on(Context &context, std::uint32_t sequence) {
    return context.generate(" He", GenerateOptions().max_tokens(6).sequence(sequence)).text();
}

static const char STORY[] = "Once upon a time, there was a king who had three sons, and the eldest of them was very proud. "
                            "Once upon a time, there was a king who had three sons, and the eldest of them was very proud. "
                            "Once upon a time, there was a king who had three sons, and the eldest of them was very proud. ";

static void sequences(const Model &model) {
    auto options = ContextOptions().n_ctx(256).n_seq(3);
    Context context(model, ContextOptions(options).keep_prefixes(true));
    auto tokens = model.tokenize(STORY);
    auto n = static_cast<std::uint32_t>(tokens.size());
    context.decode(tokens);
    auto n_free = context.info().n_free_pages;
    context.copy_sequence(0, 2, n);
    CHECK(context.info().n_free_pages == n_free);
    std::string expected = goes_on(context, 0);
    CHECK(goes_on(context, 2) == expected);
    context.keep_sequence(2);
    CHECK(context.n_past(0) == 0 && context.n_past(2) == n + 7);
    CHECK(context.tokens(0).empty());
    auto held = context.tokens(2);
    CHECK(held.size() == n + 7 && std::equal(tokens.begin(), tokens.end(), held.begin()));
    context.rewind(0, 2);
    auto page = context.info().page_len;
    std::size_t n_reused = context.reuse({tokens.data(), tokens.size() - 1}, 1);
    CHECK(n_reused == (n - 1) / page * page && n_reused > 0);
    std::vector<std::uint32_t> places(n - n_reused, 1);
    context.decode(ember::Batch{{tokens.data() + n_reused, n - n_reused}, {}, places});
    CHECK(goes_on(context, 1) == expected);
    REFUSED(EMBER_E_INVALID_ARGUMENT, "", context.copy_sequence(0, 0, 1));
    REFUSED(EMBER_E_INVALID_ARGUMENT, "9", context.keep_sequence(9));
    REFUSED(EMBER_E_INVALID_ARGUMENT, "9", context.reuse(tokens, 9));

    Context half(model, ContextOptions(options).kv_limit(context.memory().kv / 3));
    CHECK(half.info().n_pages == context.info().n_pages / 3);
    half.decode(std::vector<Token>(250, 47));
    std::vector<std::uint32_t> ones(250, 1);
    std::vector<Token> words(250, 47);
    REFUSED(EMBER_E_CONTEXT_FULL, "", half.decode(ember::Batch{words, {}, ones}));
    REFUSED(EMBER_E_INVALID_ARGUMENT, "", Context(model, ContextOptions().kv_limit(1)));
}

static bool stream_failed(const std::function<void()> &call) {
    try {
        call();
    } catch (const std::ios_base::failure &) {
        return true;
    }
    return false;
}

static void states(const Model &model, const std::string &folder) {
    auto options = ContextOptions().n_ctx(256).n_seq(2);
    Context context(model, options);
    context.decode(model.tokenize(STORY));
    context.copy_sequence(0, 1, context.n_past(0));
    std::vector<std::byte> state = context.save_state(1), all = context.save_state();
    std::stringstream stream;
    context.save_state(stream, 1);
    CHECK(stream.str() == std::string(reinterpret_cast<const char *>(state.data()), state.size()));
    std::string path = folder + "/state";
    context.save_state_file(path, 1);
    CHECK(read_file(path) == stream.str());
    {
        std::ofstream file(path + ".stream", std::ios::binary);
        context.save_state(file, 1);
    }
    std::string expected = goes_on(context, 1);
    Context other(model, options);
    auto as_expected = [&](std::uint32_t sequence) {
        CHECK(goes_on(other, sequence) == expected);
        other.rewind(0, sequence);
    };
    other.load_state(state, 0);
    as_expected(0);
    other.load_state_file(path, 1);
    as_expected(1);
    other.load_state(stream, 0);
    as_expected(0);
    std::ifstream file(path + ".stream", std::ios::binary);
    other.load_state(file, 0);
    as_expected(0);
    other.load_state(all);
    as_expected(1);
    std::remove(path.c_str());
    std::remove((path + ".stream").c_str());

    state[state.size() / 2] ^= std::byte{1};
    REFUSED(EMBER_E_FORMAT, "", other.load_state(state, 0));
    REFUSED(EMBER_E_INVALID_ARGUMENT, "", other.load_state(state, 7));
    REFUSED(EMBER_E_IO, "no-such", other.load_state_file("no-such-state", 0));
    REFUSED(EMBER_E_IO, "no-such", other.save_state_file("no-such-folder/state", 0));
    std::istringstream nothing;
    REFUSED(EMBER_E_FORMAT, "", other.load_state(nothing, 0));
    std::ifstream closed("no-such-state");
    CHECK(stream_failed([&] { other.load_state(closed, 0); }));
    std::ofstream full("/dev/full", std::ios::binary);
    CHECK(!full || stream_failed([&] { context.save_state(full); }));
    CHECK(context.save_state(0).size() > 0);
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    auto model = Model::load(argv[1]);
    for (bool has_thread : {false, true}) {
        together(model, has_thread);
        stages(model, has_thread);
    }
    by_hand(model);
    refusals(model);
    sequences(model);
    states(model, argv[2]);
    std::printf("engines and states: all checks passed\n");
}
