// Conversations, calls of tools, constraints, rerankers, tokenizers alone.
//
//   test_chat MODEL TOOLS_MODEL FIXTURES
//
// TOOLS_MODEL is what bindings/tool_model.py writes.
#include <cmath>
#include <type_traits>

#include "json.hpp"

using ember::ChatOptions;
using ember::Constraint;
using ember::ConstraintOptions;
using ember::Context;
using ember::ContextOptions;
using ember::Conversation;
using ember::GenerateOptions;
using ember::Model;
using ember::ModelOptions;
using ember::Sampler;
using ember::Token;
using ember::Tokenizer;

template <class T>
constexpr bool MoveOnly = std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T> &&
                          !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T>;
static_assert(MoveOnly<Conversation> && MoveOnly<ember::Reply> && MoveOnly<ember::ChatParser> && MoveOnly<Tokenizer>);
static_assert(std::is_copy_constructible_v<Constraint> && std::is_copy_constructible_v<ChatOptions>);

static const char PLAIN[] = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}<assistant>";
static const char HERMES[] =
    "{% for m in messages %}<u>{{ m.content }}{% for c in m.tool_calls %}<tool_call>{{ c.function | tojson }}</tool_call>"
    "{% endfor %}{% endfor %}{% if add_generation_prompt %}<a>{% if not enable_thinking | default(true) %}<think></think>"
    "{% endif %}{% endif %}{# <think> #}";
static const char WEATHER[] = R"([{"type": "function", "function": {"name": "weather", "parameters":
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}])";

static void conversations(const Model &model) {
    auto context = std::make_unique<Context>(model, ContextOptions().n_ctx(256).n_seq(2).n_threads(1));
    auto options = GenerateOptions().max_tokens(8);
    auto plain = ChatOptions().template_text(PLAIN);
    Conversation talk(*context, "Be \"brief\".\n", plain, options);
    std::string first = talk.send("Tell of the sea.").text();
    CHECK(!first.empty() && talk.usage().n_reused == 0 && talk.usage().finish_reason == EMBER_FINISH_MAX_TOKENS);
    Conversation fork = talk.fork(1);
    std::vector<std::byte> saved = talk.save();
    std::string next = talk.send("Go on.").text();
    CHECK(fork.send("Go on.").text() == next && talk.usage().n_generated == 8);
    CHECK(talk.usage().n_reused > 0 && talk.usage().n_reused < talk.usage().n_prompt);
    auto loaded = Conversation::load(*context, saved, plain, GenerateOptions(options).sequence(1));
    CHECK(loaded.send("Go on.").text() == next);
    std::string text = talk.messages();
    Json messages = JsonReader(text).read();
    CHECK(messages.array.size() == 5 && messages.array[2]["content"].string == first);
    CHECK(messages.array[0]["content"].string == "Be \"brief\".\n");
    talk.undo();
    std::string again, kinds;
    for (auto &event : talk.send("Go on.")) {
        CHECK(event.is_end() || (event.is_text() && event.finish_reason() == EMBER_FINISH_NONE));
        again += event.text();
        CHECK(!event.is_end() || event.finish_reason() == EMBER_FINISH_MAX_TOKENS);
    }
    CHECK(again == next);

    // What is left early, or gives way to an exception, is no message.
    for (auto &event : talk.send("Why?")) {
        CHECK(!event.is_end());
        REFUSED(EMBER_E_BUSY, "under way", talk.add({"user", "x"}));
        REFUSED(EMBER_E_BUSY, "under way", talk.send("x"));
        break;
    }
    talk.undo();
    CHECK(talk.messages() == text);
    {
        ember::Reply reply = talk.send("Why?");
        CHECK(!reply.next().is_end());
        ember::Reply moved = std::move(reply);
        CHECK(!moved.next().is_end());
        reply = std::move(moved);
        reply.abandon();
        REFUSED(EMBER_E_INVALID_ARGUMENT, "given up", reply.next());
        auto other = talk.send();
        reply.abandon(); // is not the other's
        CHECK(!other.text().empty() && other.next().is_end());
    }
    talk.undo();
    auto throwing = Sampler(1).stage([](ember::Span<const Token>, ember::Span<float>) { throw std::runtime_error("no"); });
    bool thrown = false;
    try {
        talk.send("Why?", throwing).text();
    } catch (const std::runtime_error &error) {
        thrown = std::string(error.what()) == "no";
    }
    CHECK(thrown);
    talk.undo();
    // Its own sampler lives as long as the reply.
    auto drawn = talk.send("Why?", Sampler(9).stage([](ember::Span<const Token>, ember::Span<float>) {}).temperature(0.7f));
    CHECK(!drawn.text().empty());
    REFUSED(EMBER_E_INVALID_ARGUMENT, "nothing to reply to", talk.send());
    REFUSED(EMBER_E_INVALID_ARGUMENT, "no-such-role", talk.add({"no-such-role", "x"}));
    REFUSED(EMBER_E_UNSUPPORTED, "no marks of thoughts", talk.set_thinking_budget(5));
    REFUSED(EMBER_E_UNSUPPORTED, "thinking", Conversation(*context, "", ChatOptions(plain).thinking(true)));
    REFUSED(EMBER_E_FORMAT, "damaged", Conversation::load(*context, {saved.data(), 9}, plain, options));
    context.reset(); // which the conversation keeps
    talk.send("And now?");
    auto reply = talk.send("And now?");
    { Conversation gone = std::move(talk); }
    CHECK(!reply.text().empty());
    REFUSED(EMBER_E_INVALID_ARGUMENT, "conversation", talk.messages());
}

static void full(const Model &model) {
    Context context(model, ContextOptions().n_ctx(96).n_threads(1));
    Conversation talk(context, "", ChatOptions().template_text(PLAIN), GenerateOptions().max_tokens(8));
    std::uint32_t n_dropped = 0, n_asked = 0, answer = 0;
    for (int i = 0; i < 10; i++) {
        talk.send("Tell of the sea and the moon.").text();
        n_dropped += talk.usage().n_dropped_turns;
    }
    CHECK(n_dropped > 2);
    talk.set_on_full([&](std::uint32_t n_tokens, std::uint32_t n_ctx, std::uint32_t n_turns) {
        CHECK(n_tokens > n_ctx && n_ctx == 96 && n_turns > 0);
        n_asked++;
        if (answer == 7)
            throw std::out_of_range("full");
        return answer;
    });
    auto fill = [&] {
        for (int i = 0; i < 10; i++)
            talk.send("Tell of the sea and the moon.").text();
    };
    REFUSED(EMBER_E_CONTEXT_FULL, "", fill());
    answer = 7;
    bool thrown = false;
    try {
        fill();
    } catch (const std::out_of_range &) {
        thrown = true;
    }
    answer = 1;
    fill();
    CHECK(thrown && n_asked > 3);
    talk.set_on_full(nullptr);
    talk.set_when_full(EMBER_WHEN_FULL_REFUSE, 20);
    REFUSED(EMBER_E_CONTEXT_FULL, "no turn may be dropped", talk.send("And the boat?"));
}

// SmolLM2 calls the tool by itself, and answers with its result.
static void tools(const Model &model) {
    Context context(model);
    Conversation talk(context, "", ChatOptions().tools(WEATHER), GenerateOptions().max_tokens(40));
    std::string arguments, name, id;
    for (auto &event : talk.send("What is the weather in Paris?")) {
        CHECK(event.kind() != EMBER_CHAT_EVENT_CALL_BEGIN || event.name() == "weather");
        if (event.kind() == EMBER_CHAT_EVENT_CALL_ARGUMENTS)
            arguments += event.text();
        if (event.is_call()) {
            CHECK(event.text() == arguments && event.index() == 0);
            name = event.name();
            id = event.id();
        }
    }
    Json city = JsonReader(arguments).read();
    CHECK(city["city"].string == "Paris" && name == "weather" && id.size() == 9);
    talk.add({"tool", "It is sunny, 21 degrees.", name, id});
    std::string text = talk.send().text();
    CHECK(text.find("sunny") != std::string::npos);
    std::string all = talk.messages();
    Json messages = JsonReader(all).read();
    CHECK(messages.array.size() == 4 && messages.array[2]["tool_call_id"].string == id);
    CHECK(messages.array[1]["tool_calls"].array[0]["function"]["arguments"]["city"].string == "Paris");
    REFUSED(EMBER_E_INVALID_ARGUMENT, "tool_choice", Conversation(context, "", ChatOptions().tools(WEATHER).tool_choice("sing")));
    // The choice of one reply.
    REFUSED(EMBER_E_INVALID_ARGUMENT, "tool_choice", talk.set_tool_choice("sing"));
    auto n_of = [&] {
        int n = 0;
        for (const auto &event : talk.send("What is the weather in Bern?"))
            n += event.kind() == EMBER_CHAT_EVENT_CALL_DONE;
        return n;
    };
    talk.set_tool_choice("none");
    CHECK(n_of() == 0);
    talk.set_tool_choice("required");
    CHECK(n_of() >= 1);

    // The same by hand: what a host's own generation writes is constrained, and read by a parser.
    auto options = ChatOptions().tools(WEATHER).tool_choice("required").parallel_calls(false);
    auto prompt = model.apply_chat_template({{"user", "What is the weather in Bern?"}}, options);
    auto constraint = Constraint::chat(model, options, prompt);
    CHECK(constraint && !Constraint::chat(model, ChatOptions(options).tool_choice("none"), prompt));
    ember::ChatParser parser(model, options, prompt);
    CHECK(parser.format().name == "hermes" && parser.format().thinking_open.empty());
    auto generation = context.generate_tokens(
        model.tokenize_chat({{"user", "What is the weather in Bern?"}}, options),
        GenerateOptions().max_tokens(60).constraint(*constraint).render_special(true).reuse_prefix(true));
    int n_calls = 0;
    for (auto &event : generation) {
        parser.push(event.text());
        for (const auto *piece = &parser.next(); !piece->is_none(); piece = &parser.next())
            if (piece->is_call()) {
                n_calls++;
                std::string text_of(piece->text());
                CHECK(JsonReader(text_of).read()["city"].string == "Bern");
            }
    }
    parser.finish(generation.event().finish_reason());
    CHECK(parser.next().is_none());
    CHECK(n_calls == 1 && generation.usage().progress == EMBER_CONSTRAINT_COMPLETE);
}

static void replies(const Model &model) {
    auto options = ChatOptions().template_text(HERMES).tools(R"([{"name": "f", "parameters": {}}])");
    ember::ChatParser parser(model, options);
    std::string said, thought, call, broken;
    auto push = [&](std::string_view text) {
        parser.push(text);
        for (;;) {
            auto &event = parser.next();
            if (event.is_none())
                return;
            if (event.is_thinking())
                thought += event.text();
            else if (event.is_text())
                (event.kind() == EMBER_CHAT_EVENT_TEXT ? said : broken) += event.text();
            else if (event.is_call())
                call += event.text();
            CHECK(event.kind() != EMBER_CHAT_EVENT_CALL_BROKEN || event.reason() == "no tool is named \"h\"");
        }
    };
    push("<think>So");
    CHECK(parser.is_thinking());
    push(".</think>\n\nYes.\n<tool_call>{\"name\": \"f\",\"arguments\": {\"a\":1}}</tool_call><tool_call>{\"name\": \"h\"}</tool_call>");
    CHECK(!parser.is_thinking() && said.substr(0, 4) == "Yes." && thought == "So." && call == "{\"a\":1}");
    CHECK(broken.substr(0, 11) == "<tool_call>");
    parser.finish(EMBER_FINISH_EOG);
    auto format = parser.format();
    CHECK(format.name == "hermes" && format.thinking_close == "</think>" && format.thinking_variable == "enable_thinking" &&
          format.thinking_on == "true" && format.thinking_off == "false");
    REFUSED(EMBER_E_INVALID_ARGUMENT, "finish_reason", parser.finish(EMBER_FINISH_NONE));
    REFUSED(EMBER_E_UNSUPPORTED, "template", ember::ChatParser(model));
    // Texts of users are texts.
    auto content = ChatOptions().template_text("{{ messages[0].content }}");
    CHECK(model.tokenize_chat({{"user", "<|endoftext|>"}}, content) == model.tokenize("<|endoftext|>"));
    CHECK(model.tokenize_chat({{"user", "<|endoftext|>"}}, content) != model.tokenize("<|endoftext|>", true, true));
}

static void constraints(const Model &model) {
    Context context(model, ContextOptions().n_ctx(512).n_threads(1));
    auto constrained = [&](const Constraint &constraint) {
        context.rewind(0);
        auto generation = context.generate("The king said", GenerateOptions().max_tokens(200).constraint(constraint),
                                           Sampler(5).temperature(1.5f));
        std::string text = generation.text();
        CHECK(generation.event().finish_reason() == EMBER_FINISH_EOG);
        CHECK(generation.usage().progress == EMBER_CONSTRAINT_COMPLETE);
        return text;
    };
    static const char schema[] = R"({"type": "object", "properties": {"answer": {"enum": ["yes", "no"]}}, "required": ["answer"],
        "additionalProperties": false})";
    std::string text = constrained(Constraint::json_schema(model, schema));
    std::string answer = JsonReader(text).read()["answer"].string;
    CHECK(answer == "yes" || answer == "no");
    text = constrained(Constraint::regex(model, "[a-c]{3}-[0-9]{1,3}0"));
    CHECK(text.find_first_not_of("abc") == 3 && text[3] == '-' && text.back() == '0');
    CHECK(constrained(Constraint::lark(model, "start: \"ab\" \"cd\"\n")) == "abcd");
    text = constrained(Constraint::choices(model, {"Gr\xc3\xbc\xc3\x9f" "e", "never mind"}));
    CHECK(text == "Gr\xc3\xbc\xc3\x9f" "e" || text == "never mind");

    // As a stage; cut off; waiting for a trigger.
    auto choice = Constraint::choices(model, {"only this"});
    auto sampler = Sampler(1).constraint(choice).greedy();
    CHECK(sampler.progress() == EMBER_CONSTRAINT_UNFINISHED);
    context.rewind(0);
    auto staged = context.generate("Once", GenerateOptions().max_tokens(100), sampler);
    CHECK(staged.text() == "only this" && sampler.progress() == EMBER_CONSTRAINT_COMPLETE);
    context.rewind(0);
    auto cut = context.generate("Once", GenerateOptions().max_tokens(1).constraint(Constraint::json_object(model)));
    cut.text();
    CHECK(cut.usage().progress == EMBER_CONSTRAINT_UNFINISHED);
    context.rewind(0);
    auto waits = Constraint::json_object(model, ConstraintOptions().trigger("never said").whitespace(0).repeat(true));
    auto waiting = context.generate("Once upon a time", GenerateOptions().max_tokens(4).constraint(waits));
    CHECK(waiting.text() == ", I was in" && waiting.usage().progress == EMBER_CONSTRAINT_WAITING);
    Token comma = model.tokenize(",", false)[0];
    auto after = Constraint::choices(model, {" he said"}, ConstraintOptions().trigger_token(comma));
    context.rewind(0);
    CHECK(context.generate("Once upon a time", GenerateOptions().max_tokens(9).constraint(after)).text() == ", he said");
    // In an engine; a copy of the options keeps what it needs.
    auto kept = GenerateOptions().constraint(Constraint::choices(model, {"only this"}));
    ember::Engine engine(model);
    auto request = engine.submit("Once", kept);
    CHECK(request.text() == "only this" && request.usage().n_forced > 0);

    REFUSED(EMBER_E_UNSUPPORTED, "propertyNames", Constraint::json_schema(model, R"({"propertyNames": {"maxLength": 3}})"));
    REFUSED(EMBER_E_INVALID_ARGUMENT, "", Constraint::json_schema(model, R"({"type": "nothing"})"));
    REFUSED(EMBER_E_INVALID_ARGUMENT, "", Constraint::choices(model, {}));
    REFUSED(EMBER_E_INVALID_ARGUMENT, "", Constraint::json_object(model, ConstraintOptions().repeat(true)));
    REFUSED(EMBER_E_INVALID_ARGUMENT, "limit",
            Constraint::regex(model, "abc", ConstraintOptions().limit(EMBER_CONSTRAINT_LIMIT_SOURCE, 2)));
}

static void stages(const Model &model, const std::string &path) {
    std::vector<float> logits(model.info().n_vocab, -9.0f);
    logits[7] = 9;
    auto sampler = Sampler(1).top_n_sigma(1).min_p(0.05f).adaptive_p(0.5f);
    CHECK(sampler.sample(logits) == 7);
    CHECK(Sampler(1).mirostat_1(5, 0.1f).sample(logits) == 7);
    CHECK(Sampler(1).top_k(40).infill(model).greedy().sample(logits) == 7);
    REFUSED(EMBER_E_INVALID_ARGUMENT, "target", sampler.adaptive_p(2));
    REFUSED(EMBER_E_NOT_FOUND, "general.sampling", Sampler::of(model));
    auto proposing = Model::load(path, ModelOptions().meta("general.sampling.temp", 0.0));
    auto proposed = Sampler::of(proposing, 7);
    CHECK(proposed.seed() == 7 && proposed.sample(logits) == 7);
}

static void scores(const std::string &fixtures) {
    std::string text = read_file(fixtures + "/rank/scores.json");
    Json golden = JsonReader(text).read();
    std::vector<std::string> texts;
    for (const Json &one : golden["texts"].array)
        texts.push_back(one.string);
    auto near = [](float got, const Json &wanted) { return std::fabs(static_cast<double>(got) - wanted.number) <= 1e-4; };
    for (const char *name : {"bert-rerank", "bert-labels"}) {
        const Json &wanted = golden["scores"][name];
        auto model = Model::load(fixtures + "/rank/" + name + ".gguf");
        auto labels = model.labels();
        CHECK(labels.size() == wanted["labels"].array.size());
        for (std::size_t i = 0; i < labels.size(); i++)
            CHECK(labels[i] == wanted["labels"].array[i].string);
        Context context(model);
        auto got = context.classify(texts);
        CHECK(got.size() == texts.size());
        for (std::size_t i = 0; i < got.size(); i++)
            for (std::size_t j = 0; j < labels.size(); j++)
                CHECK(near(got[i].at(j), wanted["texts"].array[i].array[j]));
        if (name == std::string("bert-labels")) {
            REFUSED(EMBER_E_UNSUPPORTED, "ember_classify", context.rerank("a", {"b"}));
            continue;
        }
        auto pairs = context.rerank(golden["query"].string, texts);
        CHECK(pairs.size() == texts.size());
        for (std::size_t i = 0; i < pairs.size(); i++)
            CHECK(near(pairs[i], wanted["pairs"].array[i]));
        auto raw = context.rerank("who", {"the cat"}, ember::ClassifyOptions().activation(EMBER_CLASSIFY_NONE));
        auto score = context.rerank("who", {"the cat"});
        CHECK(std::fabs(score[0] - 1 / (1 + std::exp(-raw[0]))) < 1e-6f);
        std::string lengthy;
        for (int i = 0; i < 200; i++)
            lengthy += "a ";
        REFUSED(EMBER_E_CONTEXT_FULL, "text 0", context.rerank("who", {lengthy}));
        CHECK(context.rerank("who", {lengthy}, ember::ClassifyOptions().truncate(true)).size() == 1);
        CHECK(context.classify(std::vector<std::string>()).empty());
    }
}

static void tokenizers(const Model &model, const std::string &path) {
    const std::string text = "Once upon a time <|endoftext|>";
    std::string file = read_file(path);
    auto own = model.tokenizer(), alone = Tokenizer::load(path);
    auto bytes = Tokenizer::from_bytes({reinterpret_cast<const std::uint8_t *>(file.data()), file.size()});
    for (const Tokenizer *one : {&own, &alone, &bytes})
        for (bool special : {false, true}) {
            auto tokens = model.tokenize(text, true, special);
            CHECK(one->tokenize(text, true, special) == tokens && one->count(text, true, special) == tokens.size());
            CHECK(one->tokenize_bytes({reinterpret_cast<const std::uint8_t *>(text.data()), text.size()}, true, special) == tokens);
            CHECK(one->detokenize(tokens, true) == text);
        }
    auto info = alone.info();
    CHECK(info.n_vocab == model.info().n_vocab && info.eos_token == model.info().eos_token);
    CHECK(info.fim_prefix_token == EMBER_TOKEN_NONE && alone.is_eog(info.eos_token) && alone.is_control(info.eos_token));
    CHECK(alone.token_bytes(info.eos_token) == "<|endoftext|>" && alone.share().get() == alone.get());
    REFUSED(EMBER_E_INVALID_ARGUMENT, "4294967295", alone.is_eog(EMBER_TOKEN_NONE));
    REFUSED(EMBER_E_IO, "no/such", Tokenizer::load("no/such/file"));
    REFUSED(EMBER_E_UNSUPPORTED, "before the gap", alone.fim_prompt("a", "b"));

    auto marked = Model::load(path, ModelOptions()
                                        .meta("tokenizer.ggml.fim_pre_token_id", 5)
                                        .meta("tokenizer.ggml.fim_suf_token_id", 6)
                                        .meta("tokenizer.ggml.fim_mid_token_id", 7)
                                        .meta("tokenizer.ggml.fim_sep_token_id", 8))
                      .tokenizer();
    std::vector<Token> prefix = marked.tokenize("Once upon", false), suffix = marked.tokenize(" time.", false), wanted{5};
    wanted.insert(wanted.end(), prefix.begin(), prefix.end());
    wanted.push_back(6);
    wanted.insert(wanted.end(), suffix.begin(), suffix.end());
    wanted.push_back(7);
    CHECK(marked.fim_prompt("Once upon", " time.") == wanted);
    auto spm = ember::FimOptions().order(EMBER_FIM_SPM);
    CHECK(marked.fim_prompt("Once upon", " time.", spm)[0] == 6);
    CHECK(marked.fim_prompt("Once upon", " time.", spm.file("a").add_file("b", "the sea"))[0] == 8);
    REFUSED(EMBER_E_UNSUPPORTED, "repository", marked.fim_prompt("Once upon", " time.", spm.repository("r")));
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    auto model = Model::load(argv[1]);
    auto with_tools = Model::load(argv[2]);
    conversations(model);
    full(model);
    tools(with_tools);
    replies(model);
    constraints(model);
    stages(model, argv[1]);
    scores(argv[3]);
    tokenizers(model, argv[1]);
    std::printf("chat: conversations, tools, constraints, scores and tokenizers are as they should be\n");
}
