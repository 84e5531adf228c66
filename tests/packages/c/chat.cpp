// Answers each line of standard input, as it comes.
#include <ember.hpp>
#include <exception>
#include <iostream>
#include <string>

int main(int argc, char **argv) try {
    if (argc != 2)
        return 2;
    const auto model = ember::Model::load(argv[1]);
    ember::Context context(model);
    ember::Conversation chat(context, "", {}, ember::GenerateOptions().max_tokens(32));
    for (std::string line; std::getline(std::cin, line); std::cout << std::endl)
        for (const auto &event : chat.send(line))
            if (event.kind() == EMBER_CHAT_EVENT_TEXT)
                std::cout << event.text() << std::flush;
} catch (const std::exception &error) {
    std::cerr << error.what() << '\n';
    return 1;
}
