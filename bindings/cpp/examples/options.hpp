// What the examples share: their command line, and what happens with errors and Ctrl-C.
#ifndef EMBER_EXAMPLES_OPTIONS_HPP
#define EMBER_EXAMPLES_OPTIONS_HPP

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <iostream>

#include "ember.hpp"

// -m MODEL -p PROMPT -n N --temp T --top-k K --top-p P --seed S, and texts without an option before them.
struct Options {
    std::string model = "examples/models/ember-tales.gguf";
    std::string prompt = "The sea was calm, and the moon";
    std::uint32_t n_tokens = 128;
    float temperature = 0.8f;
    std::uint32_t top_k = 40;
    float top_p = 0.95f;
    std::uint64_t seed = static_cast<std::uint32_t>(std::chrono::system_clock::now().time_since_epoch().count());
    std::vector<std::string> texts;

    ember::Sampler sampler() const { return ember::Sampler(seed).top_k(top_k).top_p(top_p).temperature(temperature); }
};

// A command line that makes no sense.
struct UsageError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

template <class T> void read_number(const std::string &option, const std::string &text, T &out) {
    std::size_t used = 0;
    try {
        if constexpr (std::is_floating_point_v<T>)
            out = std::stof(text, &used);
        else
            used = static_cast<std::size_t>(std::from_chars(text.data(), text.data() + text.size(), out).ptr - text.data());
    } catch (const std::logic_error &) {
        used = 0;
    }
    if (used == 0 || used != text.size())
        throw UsageError("the option " + option + " takes a number, not \"" + text + "\"");
}

inline Options read_options(int argc, char **argv) {
    Options options;
    for (int i = 1; i < argc; i++) {
        std::string name = argv[i];
        auto value = [&]() -> std::string {
            if (++i >= argc)
                throw UsageError("the option " + name + " needs a value after it");
            return argv[i];
        };
        if (name == "-m")
            options.model = value();
        else if (name == "-p")
            options.prompt = value();
        else if (name == "-n")
            read_number(name, value(), options.n_tokens);
        else if (name == "--temp")
            read_number(name, value(), options.temperature);
        else if (name == "--top-k")
            read_number(name, value(), options.top_k);
        else if (name == "--top-p")
            read_number(name, value(), options.top_p);
        else if (name == "--seed")
            read_number(name, value(), options.seed);
        else if (name.size() > 1 && name[0] == '-')
            throw UsageError("there is no option " + name);
        else
            options.texts.push_back(name);
    }
    return options;
}

// Cancelled by Ctrl-C; a second one ends the program at once.
inline ember::CancelToken interrupted;

inline void on_interrupt(int number) {
    interrupted.cancel();
    std::signal(number, SIG_DFL);
}

// Runs `body` with the options; what it throws becomes a sentence and an exit code: 1 refused, 2 a wrong command line.
template <class Body> int run(int argc, char **argv, Body &&body) {
    try {
        std::signal(SIGINT, on_interrupt);
        body(read_options(argc, argv));
        std::cout.flush();
        return std::cout ? 0 : 1;
    } catch (const UsageError &error) {
        std::cerr << argv[0] << ": " << error.what() << "\n";
        return 2;
    } catch (const std::exception &error) {
        std::cerr << argv[0] << ": " << error.what() << "\n";
        return 1;
    }
}

#endif
