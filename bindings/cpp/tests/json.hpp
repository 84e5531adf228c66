// Reads the JSON of the golden file: all of the language but surrogate pairs and numbers beyond double.
#ifndef EMBER_TESTS_JSON_HPP
#define EMBER_TESTS_JSON_HPP

#include <map>
#include <string>
#include <vector>

#include "check.hpp"

struct Json {
    enum Kind { Null, Bool, Number, String, Array, Object } kind = Null;
    double number = 0; // of Bool too
    std::string string;
    std::vector<Json> array;
    std::map<std::string, Json> object;

    const Json &operator[](const std::string &key) const {
        auto found = object.find(key);
        CHECK(found != object.end());
        return found->second;
    }
    template <class T> std::vector<T> numbers() const {
        std::vector<T> out;
        for (const Json &value : array)
            out.push_back(static_cast<T>(value.number));
        return out;
    }
};

class JsonReader {
public:
    explicit JsonReader(const std::string &text) : text_(text) {}
    Json read() {
        Json value = read_value();
        skip_space();
        CHECK(at_ == text_.size());
        return value;
    }

private:
    void skip_space() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
            at_++;
    }
    char peek() {
        skip_space();
        CHECK(at_ < text_.size());
        return text_[at_];
    }
    bool take(char c) {
        if (peek() != c)
            return false;
        at_++;
        return true;
    }
    bool word(const char *word) {
        std::string expected(word);
        if (text_.compare(at_, expected.size(), expected) != 0)
            return false;
        at_ += expected.size();
        return true;
    }

    Json read_value() {
        Json value;
        char c = peek();
        if (c == '{') {
            value.kind = Json::Object;
            at_++;
            while (!take('}')) {
                std::string key = read_string();
                CHECK(take(':'));
                value.object[key] = read_value();
                take(',');
            }
        } else if (c == '[') {
            value.kind = Json::Array;
            at_++;
            while (!take(']')) {
                value.array.push_back(read_value());
                take(',');
            }
        } else if (c == '"') {
            value.kind = Json::String;
            value.string = read_string();
        } else if (word("null")) {
            value.kind = Json::Null;
        } else if (word("true") || word("false")) {
            value.kind = Json::Bool;
            value.number = text_[at_ - 2] == 'u' ? 1 : 0;
        } else {
            value.kind = Json::Number;
            char *end = nullptr;
            value.number = std::strtod(text_.c_str() + at_, &end);
            CHECK(end != text_.c_str() + at_);
            at_ = static_cast<std::size_t>(end - text_.c_str());
        }
        return value;
    }

    std::string read_string() {
        CHECK(take('"'));
        std::string out;
        while (text_.at(at_) != '"') {
            char c = text_[at_++];
            if (c != '\\') {
                out += c;
                continue;
            }
            c = text_.at(at_++);
            if (c == 'u') {
                unsigned long code = std::stoul(text_.substr(at_, 4), nullptr, 16);
                CHECK(code < 0x80);
                at_ += 4;
                out += static_cast<char>(code);
            } else {
                out += c == 'n' ? '\n' : c == 't' ? '\t' : c;
            }
        }
        at_++;
        return out;
    }

    const std::string &text_;
    std::size_t at_ = 0;
};

#endif
