// Loading from descriptors and lent bytes and with options; memory, timings, headers, arrays; stages of a sampler in C++.
//
//   test_loading MODEL CHAT_MODEL FIXTURES
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <thread>

#include "check.hpp"

using ember::Context;
using ember::ContextOptions;
using ember::GenerateOptions;
using ember::Model;
using ember::ModelOptions;
using ember::Sampler;
using ember::Span;
using ember::Token;

static const char PROMPT[] = "Once upon a time";

struct Enough : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// The expression throws Enough with this text.
#define ENOUGH(text, expression)                                                                                        \
    do {                                                                                                                \
        bool enough = false;                                                                                            \
        try {                                                                                                           \
            (void)(expression);                                                                                         \
        } catch (const Enough &thrown) {                                                                                \
            enough = std::string(thrown.what()) == (text);                                                              \
        }                                                                                                               \
        CHECK(enough);                                                                                                  \
    } while (false)

static std::string text_of(const Model &model) {
    return Context(model, ContextOptions().n_ctx(64)).generate(PROMPT, GenerateOptions().max_tokens(5)).text();
}

static Span<const std::uint8_t> bytes_of(const std::string &file) {
    return {reinterpret_cast<const std::uint8_t *>(file.data()), file.size()};
}

static void descriptors(const std::string &path, const std::string &expected) {
    int fd = open(path.c_str(), O_RDONLY);
    CHECK(fd >= 0);
    Model model = Model::from_fd(fd);
    Model part = Model::from_fd(fd, 0, read_file(path).size(), ModelOptions().use_mmap(false));
    REFUSED(EMBER_E_INVALID_ARGUMENT, "offset", Model::from_fd(fd, 1, 1u << 30));
    REFUSED(EMBER_E_FORMAT, "<fd ", Model::from_fd(fd, 4));
    close(fd);
    CHECK(text_of(model) == expected && text_of(part) == expected);
    REFUSED(EMBER_E_INVALID_ARGUMENT, "fd", Model::from_fd(-1));
}

static void lending(const std::string &path, const std::string &expected) {
    auto file = std::make_shared<const std::string>(read_file(path));
    {
        std::optional<Model> model = Model::borrow(bytes_of(*file), file);
        CHECK(file.use_count() == 2);
        Context context(*model);
        model.reset();
        CHECK(file.use_count() == 2); // the context still needs them
        CHECK(context.generate(PROMPT, GenerateOptions().max_tokens(5)).text() == expected);
    }
    CHECK(file.use_count() == 1);
    REFUSED(EMBER_E_FORMAT, "<buffer>", Model::borrow({bytes_of(*file).data(), 100}, file));
    REFUSED(EMBER_E_INVALID_ARGUMENT, "warp", Model::borrow(bytes_of(*file), file, ModelOptions().isa("warp")));
    ENOUGH("at once", Model::borrow(bytes_of(*file), file, ModelOptions().progress([](float) -> bool { throw Enough("at once"); })));
    CHECK(file.use_count() == 1);
    CHECK(text_of(Model::borrow(bytes_of(*file), nullptr)) == expected);
    // A deleter that gives the bytes back; what is not aligned is copied, and given back at once.
    int n_released = 0;
    std::string odd = "x" + *file;
    Model model = Model::borrow({bytes_of(odd).data() + 1, file->size()},
                                std::shared_ptr<const void>(odd.data(), [&](const void *) { n_released++; }));
    CHECK(n_released == 1 && text_of(model) == expected);
}

static std::atomic<std::size_t> n_allocated{0};

static void *allocate(std::size_t size, std::size_t alignment, void *user_data) {
    CHECK(user_data == &n_allocated);
    void *block = nullptr;
    if (posix_memalign(&block, alignment < sizeof(void *) ? sizeof(void *) : alignment, size) != 0)
        return nullptr;
    n_allocated += size;
    return std::memset(block, 0, size);
}

static void deallocate(void *block, std::size_t size, std::size_t, void *) {
    n_allocated -= size;
    std::free(block);
}

static void options(const std::string &path, const std::string &fixtures, const std::string &expected) {
    float last = -1;
    auto watched = ModelOptions().use_mmap(false).progress([&](float done) {
        CHECK(done >= last && done <= 1);
        last = done;
        return true;
    });
    CHECK(text_of(Model::load(path, watched)) == expected && last == 1);
    REFUSED(EMBER_E_CANCELLED, "", Model::load(path, ModelOptions().progress([](float) { return false; })));
    auto throws = ModelOptions().progress([](float) -> bool { throw Enough("progress"); });
    ENOUGH("progress", Model::load(path, throws));
    ENOUGH("progress", Model::from_bytes(bytes_of(read_file(path)), throws));

    {
        auto hosted = ModelOptions().use_mmap(false).allocator({allocate, deallocate, &n_allocated});
        Model model = Model::load(path, hosted);
        CHECK(n_allocated > 3000000);
        CHECK(text_of(model) == expected);
    }
    CHECK(n_allocated == 0);
    REFUSED(EMBER_E_INVALID_ARGUMENT, "", Model::load(path, ModelOptions().allocator({allocate, nullptr, nullptr})));

    std::string llama = fixtures + "/llama-linear-rope-mha.gguf";
    auto changed = ModelOptions().meta("llama.context_length", 77).meta("own.flag", true).meta("own.number", 0.5f);
    changed.meta("own.text", "na\xc3\xafve").meta("own.big", std::numeric_limits<std::int64_t>::min());
    Model model = Model::load(llama, changed);
    CHECK(model.info().n_ctx_train == 77 && model.meta_bool("own.flag") && model.meta_f64("own.number") == 0.5);
    CHECK(model.meta_string("own.text") == "na\xc3\xafve");
    CHECK(model.meta_i64("own.big") == std::numeric_limits<std::int64_t>::min());
    REFUSED(EMBER_E_INVALID_ARGUMENT, "key", Model::load(llama, ModelOptions().meta("", 1)));
    REFUSED(EMBER_E_INVALID_ARGUMENT, "big", ModelOptions().meta("big", std::numeric_limits<std::uint64_t>::max()));

    std::string floats = read_file(fixtures + "/llama-tied-f32.gguf");
    Model::from_bytes(bytes_of(floats), ModelOptions().check_tensors(true).memory_limit(1u << 30));
    float nan = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(&floats[floats.size() - sizeof nan], &nan, sizeof nan);
    REFUSED(EMBER_E_FORMAT, "finite", Model::from_bytes(bytes_of(floats), ModelOptions().check_tensors(true)));
    REFUSED(EMBER_E_NOMEM, "", Model::load(path, ModelOptions().use_mmap(false).memory_limit(1000)));
    REFUSED(EMBER_E_NOMEM, "", Context(model, ContextOptions().memory_limit(1000)));
    try {
        Model::load(path, ModelOptions().lock(true));
    } catch (const ember::Error &error) {
        CHECK(error.status() == EMBER_E_NOMEM); // as much as the system lets it
    }
    Model experts = Model::load(fixtures + "/llama-moe-8-2.gguf");
    CHECK(experts.info().n_expert == 8 && experts.info().n_expert_used == 2 && experts.info().has_chat_template == 0);
}

static void measures(const std::string &path) {
    std::string header = ember::inspect(path);
    CHECK(header.front() == '{' && header.find("\"supported\"") != std::string::npos);
    REFUSED(EMBER_E_IO, "no-such", ember::inspect("no-such.gguf"));

    Model model = Model::load(path);
    Context context(model, ContextOptions().n_ctx(64));
    auto memory = context.memory();
    auto estimate = ember::estimate_memory(path, {}, ContextOptions().n_ctx(64));
    CHECK(memory.kv == estimate.kv && memory.workspace == estimate.workspace && memory.weights == estimate.weights);
    CHECK(model.memory().weights == memory.weights && model.memory().kv == 0 && memory.kv > 0);
    auto wide = ember::estimate_memory(path, ModelOptions().use_mmap(false), ContextOptions().n_ctx(64).k_type(EMBER_KV_F32));
    CHECK(wide.kv > memory.kv && wide.weights > memory.weights);

    context.generate(PROMPT, GenerateOptions().max_tokens(4)).text();
    context.embed({"The moon"});
    auto timings = context.timings();
    CHECK(timings.n_prefill == model.tokenize(PROMPT).size() && timings.n_decode >= 3 && timings.n_embed > 0);
    CHECK(timings.load_ns > 0 && timings.prefill_ns > 0 && timings.decode_ns > 0 && timings.embed_ns > 0);
    context.reset_timings();
    CHECK(context.timings().n_prefill == 0 && context.timings().load_ns == timings.load_ns);
}

static void arrays(const Model &model) {
    auto tokens = model.meta_array_string("tokenizer.ggml.tokens");
    auto types = model.meta_array_i64("tokenizer.ggml.token_type");
    CHECK(tokens.size() == model.info().n_vocab && types.size() == tokens.size() && tokens[0] == "<|endoftext|>");
    CHECK(types[0] == 3 && model.is_control(0) && !model.is_control(50));
    CHECK(model.meta_array_type("tokenizer.ggml.tokens") == 8);
    REFUSED(EMBER_E_INVALID_ARGUMENT, "strings", model.meta_array_string("tokenizer.ggml.token_type"));
    REFUSED(EMBER_E_INVALID_ARGUMENT, "tokenizer.ggml.tokens", model.meta_array_f64("tokenizer.ggml.tokens"));
    REFUSED(EMBER_E_INVALID_ARGUMENT, "general.architecture", model.meta_array_bool("general.architecture"));
    REFUSED(EMBER_E_NOT_FOUND, "no.such", model.meta_array_u64("no.such"));
}

static void only_odd(Span<const Token> tokens, Span<float> logits) {
    for (std::size_t i = 0; i < tokens.size(); i++)
        if (tokens[i] % 2 == 0)
            logits[i] = -std::numeric_limits<float>::infinity();
}

static void stages(const Model &model) {
    const std::vector<float> logits{3, 2, 1, 9, 8, 0};
    auto counter = std::make_shared<int>(0);
    std::optional<Sampler> copy;
    {
        Sampler sampler(1);
        sampler.deny({3}).stage([counter](Span<const Token> tokens, Span<float> values) {
            CHECK(tokens.size() == 5 && values[3] == 8);
            ++*counter;
            only_odd(tokens, values);
        });
        copy = sampler.greedy().clone();
        CHECK(sampler.sample(logits) == 1);
    }
    CHECK(copy->sample(logits) == 1 && *counter == 2); // it keeps the function
    copy.reset();
    CHECK(counter.use_count() == 1);

    Sampler throws = Sampler(1).stage([](auto, auto) { throw Enough("a stage"); });
    ENOUGH("a stage", throws.sample(logits));
    CHECK(Sampler(1).stage(only_odd).greedy().sample(logits) == 3);

    // In a generation, whose sampler is a temporary: the third token ends it, and inner calls keep their own exceptions.
    Context context(model);
    auto n = std::make_shared<int>(0);
    {
        auto generator = context.generate(PROMPT, {}, Sampler(1).stage([&throws, &logits, n](auto, auto) {
            ENOUGH("a stage", throws.sample(logits));
            if (++*n == 3)
                throw Enough("third");
        }));
        generator.next();
        generator.next();
        ENOUGH("third", generator.next());
        CHECK(generator.next().finish_reason() == EMBER_FINISH_CANCELLED && *n == 3 && n.use_count() == 2);
    }
    CHECK(n.use_count() == 1);
    context.rewind(0);
    CHECK(!context.generate(PROMPT, GenerateOptions().max_tokens(2)).text().empty());

    // Clones share the function and run at once; each call has its own exception.
    Sampler shared = Sampler(1).stage([](Span<const Token> tokens, Span<float>) {
        if (tokens.size() % 2 == 1)
            throw Enough(std::to_string(tokens.size()));
    }).greedy();
    std::vector<std::thread> threads;
    for (std::size_t i = 4; i < 8; i++)
        threads.emplace_back([i, clone = shared.clone()]() mutable {
            const std::vector<float> zeros(i);
            for (int round = 0; round < 200; round++) {
                if (i % 2 == 1)
                    ENOUGH(std::to_string(i), clone.sample(zeros));
                else
                    CHECK(clone.sample(zeros) == 0);
            }
        });
    for (std::thread &thread : threads)
        thread.join();
}

static void dry(const Model &model) {
    std::vector<float> logits(model.info().n_vocab);
    logits[302] = 2;
    logits[400] = 1;
    ember::DryOptions strong;
    strong.multiplier = 5;
    Sampler sampler = Sampler(1).dry(model, 100, strong).greedy();
    for (Token token : {300u, 301u, 302u, 500u, 300u, 301u}) {
        CHECK(sampler.sample(logits) == 302);
        sampler.accept(token);
    }
    CHECK(sampler.sample(logits) == 400); // 302 would say 300 301 302 again
    ember::DryOptions own;
    own.breakers = std::vector<std::string>{};
    sampler.dry(model, 8, own);
    own.breakers = {"\n", "the cat"};
    sampler.dry(model, 8, own);
    own.multiplier = -1;
    REFUSED(EMBER_E_INVALID_ARGUMENT, "multiplier", sampler.dry(model, 8, own));
    own = {};
    own.breakers = {std::string(41, 'x')};
    REFUSED(EMBER_E_INVALID_ARGUMENT, "", sampler.dry(model, 8, own));
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    auto model = Model::load(argv[1]);
    const std::string expected = text_of(model);
    descriptors(argv[1], expected);
    lending(argv[1], expected);
    options(argv[1], argv[3], expected);
    measures(argv[1]);
    arrays(model);
    stages(model);
    dry(model);
    auto chat = Model::load(argv[2]);
    CHECK(chat.info().has_chat_template == 1 && chat.meta_array_string("tokenizer.ggml.merges").size() > 40000);
    std::printf("ember.hpp: loading and stages are as they should be\n");
}
