// The results in tests/golden/bindings.json, which are the same for all languages.
//
//   test_golden MODEL GOLDEN FIXTURES
#include <cmath>

#include "json.hpp"

static const char *finish_name(ember::FinishReason reason) {
    switch (reason) {
    case EMBER_FINISH_MAX_TOKENS:
        return "max_tokens";
    case EMBER_FINISH_EOG:
        return "eog";
    case EMBER_FINISH_STOP_STRING:
        return "stop_string";
    default:
        return "something else";
    }
}

static ember::Sampler make_sampler(const Json &json) {
    ember::Sampler sampler(static_cast<std::uint64_t>(json["seed"].number));
    for (const Json &stage : json["stages"].array) {
        const std::string &name = stage["stage"].string;
        float value = static_cast<float>(stage["value"].number);
        if (name == "temperature")
            sampler.temperature(value);
        else if (name == "top_k")
            sampler.top_k(static_cast<std::uint32_t>(value));
        else if (name == "top_p")
            sampler.top_p(value);
        else
            CHECK(false && "a stage that the test knows");
    }
    return sampler;
}

static void test_generation(const ember::Model &model, const Json &json) {
    const std::string &prompt = json["prompt"].string;
    auto prompt_tokens = json["prompt_tokens"].numbers<ember::Token>();
    CHECK(model.tokenize(prompt) == prompt_tokens);
    auto options = ember::GenerateOptions().max_tokens(static_cast<std::uint32_t>(json["max_tokens"].number));
    for (const Json &stop : json["stops"].array)
        options.stop(stop.string);

    std::string text;
    std::vector<ember::Token> tokens;
    auto finish = EMBER_FINISH_NONE;
    ember::Context context(model);
    auto generator = json["sampler"].kind == Json::Null
                         ? context.generate(prompt, options)
                         : context.generate(prompt, options, make_sampler(json["sampler"]));
    for (auto &event : generator) {
        text += event.text();
        if (event.is_token())
            tokens.push_back(event.token());
        finish = event.finish_reason();
    }
    CHECK(tokens == json["tokens"].numbers<ember::Token>());
    CHECK(text == json["text"].string);
    CHECK(finish_name(finish) == json["finish"].string);
    CHECK(generator.usage().n_generated == tokens.size() && generator.usage().n_prompt == prompt_tokens.size());

    ember::Context again(model);
    auto from_tokens = json["sampler"].kind == Json::Null
                           ? again.generate_tokens(prompt_tokens, options)
                           : again.generate_tokens(prompt_tokens, options, make_sampler(json["sampler"]));
    CHECK(from_tokens.text() == text);
}

static void test_embeddings(const ember::Model &model, const Json &json) {
    std::vector<std::string> texts;
    for (const Json &text : json["texts"].array)
        texts.push_back(text.string);
    ember::Context context(model);
    ember::Embeddings got = context.embed(texts);
    CHECK(got.size() == texts.size() && static_cast<double>(got.n_embd) == json["n_embd"].number);
    double cosine = 0;
    for (std::size_t i = 0; i < got.size(); i++) {
        auto expected = json["vectors"].array[i].numbers<float>();
        CHECK(expected.size() == got[i].size());
        for (std::size_t j = 0; j < expected.size(); j++)
            CHECK(std::fabs(got[i][j] - expected[j]) <= 0.01f);
    }
    for (std::size_t j = 0; j < got.n_embd; j++)
        cosine += static_cast<double>(got[0][j]) * static_cast<double>(got[1][j]);
    CHECK(std::fabs(cosine - json["cosine"].number) <= 0.01);

    std::vector<ember::Token> tokens;
    std::vector<std::size_t> lengths;
    for (const std::string &text : texts) {
        auto ids = model.tokenize(text);
        lengths.push_back(ids.size());
        tokens.insert(tokens.end(), ids.begin(), ids.end());
    }
    CHECK(context.embed_tokens(tokens, lengths).values == got.values);
}

// The vectors of a folder with a Dense module are narrower than the model's layers.
static void test_dense(const std::string &fixtures) {
    std::string text = read_file(fixtures + "/dense.json");
    Json golden = JsonReader(text).read();
    std::vector<std::string> texts, prompted;
    for (const Json &one : golden["texts"].array) {
        texts.push_back(one.string);
        prompted.push_back("w5 w6 " + one.string);
    }
    auto model = ember::Model::load(fixtures + "/dense-folder");
    auto info = model.info();
    CHECK(info.n_embd == 36 && info.n_embd_out == 7 && info.n_prompts == 3);
    ember::Context context(model, ember::ContextOptions().kv_type(EMBER_KV_F32));
    std::size_t n_cases = 0;
    for (const Json &one : golden["cases"].array) {
        if (one["base"].string != "bert" || one["dense"].array.empty())
            continue;
        n_cases++;
        ember::EmbedOptions options;
        options.normalize(one["normalize"].number != 0);
        if (one.object.count("dimensions") != 0)
            options.dimensions(static_cast<std::size_t>(one["dimensions"].number));
        ember::Embeddings got = context.embed(texts, options);
        CHECK(got.size() == texts.size());
        for (std::size_t i = 0; i < got.size(); i++) {
            auto expected = one["rows"].array[i].numbers<double>();
            CHECK(got[i].size() == expected.size());
            for (std::size_t j = 0; j < expected.size(); j++)
                CHECK(std::fabs(static_cast<double>(got[i][j]) - expected[j]) < 1e-4);
        }
    }
    CHECK(n_cases == 2);
    CHECK(context.embed(texts, ember::EmbedOptions().prompt("query")).values == context.embed(prompted).values);
    auto rows = context.embed({"w7 w8"}, ember::EmbedOptions().pooling(EMBER_POOLING_NONE));
    CHECK(rows.size() == model.tokenize("w7 w8").size() && rows.n_embd == info.n_embd);
    auto cut = context.embed({"w7 w8"}, ember::EmbedOptions().pooling(EMBER_POOLING_NONE).dimensions(5));
    CHECK(cut.size() == rows.size() && cut.n_embd == 5 && cut[1][4] == rows[1][4]);
    REFUSED(EMBER_E_INVALID_ARGUMENT, "1 to 7", context.embed(texts, ember::EmbedOptions().dimensions(8)));
    REFUSED(EMBER_E_INVALID_ARGUMENT, "1 to 7", context.embed(texts, ember::EmbedOptions().dimensions(SIZE_MAX)));
    REFUSED(EMBER_E_INVALID_ARGUMENT, "\"passage\"", context.embed(texts, ember::EmbedOptions().prompt("passage")));
}

static void test_score(const ember::Model &model, const Json &json) {
    ember::Context context(model);
    auto check = [&](const ember::Score &score) {
        const auto &expected = json["tokens"].array;
        CHECK(score.tokens.size() == expected.size());
        for (std::size_t i = 0; i < expected.size(); i++) {
            CHECK(score.tokens[i].token == expected[i]["token"].number && score.tokens[i].rank == expected[i]["rank"].number);
            CHECK(std::fabs(score.tokens[i].logprob - expected[i]["logprob"].number) <= 0.1);
        }
        CHECK(std::fabs(score.logprob - json["logprob"].number) <= 0.2);
        CHECK(score.is_greedy == (json["is_greedy"].number != 0));
    };
    const std::string &prompt = json["prompt"].string, &continuation = json["continuation"].string;
    check(context.score(prompt, continuation));
    check(context.score_tokens(model.tokenize(prompt + continuation), model.tokenize(prompt).size()));
}

// A generation that goes over the size of its sequence, and the same by hand. The model's path is that from the repository's root.
static void test_shift(const Json &json) {
    auto number = [&](const char *name) { return static_cast<std::uint32_t>(json[name].number); };
    auto model = ember::Model::load(json["model"].string);
    auto prompt = json["prompt_tokens"].numbers<ember::Token>();
    auto expected = json["tokens"].numbers<ember::Token>();
    const std::uint32_t n_ctx = number("n_ctx"), n_keep = number("n_keep"), n_drop = number("n_drop");
    ember::Context context(model, ember::ContextOptions().n_ctx(n_ctx).n_seq(2));
    auto options = ember::GenerateOptions().max_tokens(number("max_tokens")).shift(n_keep, n_drop);
    for (const auto &way : {options, ember::GenerateOptions(options).lookup(8)}) {
        std::vector<ember::Token> tokens;
        context.rewind(0);
        auto generator = context.generate_tokens(prompt, way);
        for (auto &event : generator)
            if (event.is_token())
                tokens.push_back(event.token());
        CHECK(tokens == expected);
        CHECK(finish_name(generator.event().finish_reason()) == json["finish"].string);
        CHECK(generator.usage().n_shifted == number("n_shifted") && generator.usage().n_shifted > n_ctx);
        CHECK(context.n_past() == prompt.size() + tokens.size() - number("n_shifted"));
    }
    std::vector<ember::Token> tokens;
    auto greedy = ember::Sampler(0).greedy();
    for (auto next = prompt; tokens.size() < expected.size(); next = {tokens.back()}) {
        if (context.n_past(1) == n_ctx) {
            context.shift_sequence(1, n_keep, n_drop);
            CHECK(context.n_past(1) == n_ctx - n_drop);
        }
        context.decode(ember::Batch{next, {}, std::vector<std::uint32_t>(next.size(), 1)});
        tokens.push_back(greedy.sample(context.logits(next.size() - 1)));
    }
    CHECK(tokens == expected);
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    std::string text = read_file(argv[2]);
    Json golden = JsonReader(text).read();
    auto model = ember::Model::load(argv[1]);
    CHECK(!golden["generate"].array.empty());
    for (const Json &generation : golden["generate"].array)
        test_generation(model, generation);
    test_embeddings(model, golden["embeddings"]);
    test_dense(argv[3]);
    test_score(model, golden["score"]);
    test_shift(golden["shift"]);
    std::printf("golden: %zu generations, embeddings, a score and a shift are as they should be\n", golden["generate"].array.size());
}
