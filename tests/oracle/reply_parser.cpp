// llama.cpp's reading of replies, for tests/oracle/reply_formats.py: a JSON object a line in, one out. Not a part of Ember.
//
//     g++ -std=c++17 -I$LLAMA/common -I$LLAMA/include -I$LLAMA/ggml/include -I$LLAMA/vendor tests/oracle/reply_parser.cpp \
//         -o reply_parser -L$LIB -l:libllama-common.so.0 -l:libllama.so.0
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "chat.h"

using json = nlohmann::ordered_json;

static json read(const json & in) {
    auto templates = common_chat_templates_init(nullptr, in["template"].get<std::string>(), "<s>", "</s>");
    common_chat_templates_inputs inputs;
    common_chat_msg user;
    user.role = "user";
    user.content = "Q";
    inputs.messages = { user };
    inputs.tools = common_chat_tools_parse_oaicompat(common_json::parse(in["tools"].dump()));
    inputs.parallel_tool_calls = true;
    inputs.reasoning_format = COMMON_REASONING_FORMAT_DEEPSEEK;
    inputs.enable_thinking = in["enable_thinking"].get<bool>();
    auto params = common_chat_templates_apply(templates.get(), inputs);
    common_chat_parser_params parser(params);
    parser.reasoning_format = COMMON_REASONING_FORMAT_DEEPSEEK;
    parser.parser.load(params.parser);
    auto message = common_chat_parse(in["reply"].get<std::string>(), false, parser);
    json out = { { "text", message.content }, { "thinking", message.reasoning_content }, { "calls", json::array() } };
    out["prompt"] = params.generation_prompt;
    for (const auto & call : message.tool_calls) {
        out["calls"].push_back({ call.name, call.arguments });
    }
    return out;
}

int main() {
    for (std::string line; std::getline(std::cin, line);) {
        json out;
        try {
            out = read(json::parse(line));
        } catch (const std::exception & e) {
            out["error"] = std::string(e.what()).substr(0, 120);
        }
        std::cout << out.dump(-1, ' ', false, json::error_handler_t::replace) << std::endl;
    }
}
