// What the tests share: a check that says where it failed, and files.
#ifndef EMBER_TESTS_CHECK_HPP
#define EMBER_TESTS_CHECK_HPP

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "ember.hpp"

#define CHECK(condition)                                                                                                \
    do {                                                                                                                \
        if (!(condition)) {                                                                                             \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                        \
            std::exit(1);                                                                                               \
        }                                                                                                               \
    } while (false)

// The expression throws an Error with this status and a sentence that has this text in it.
#define REFUSED(status_, part, expression)                                                                              \
    do {                                                                                                                \
        bool refused = false;                                                                                           \
        try {                                                                                                           \
            (void)(expression);                                                                                         \
        } catch (const ember::Error &error) {                                                                           \
            refused = error.status() == (status_) && std::string(error.what()).find(part) != std::string::npos;         \
            if (!refused)                                                                                               \
                std::fprintf(stderr, "%s: %s\n", error.name(), error.what());                                           \
        }                                                                                                               \
        CHECK(refused);                                                                                                 \
    } while (false)

inline std::string read_file(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    CHECK(file.good());
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

#endif
