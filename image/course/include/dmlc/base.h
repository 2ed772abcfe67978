// CHECK, LOG, and an operator's parameters, parsed from text.
#pragma once

#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace dmlc {

using Error = std::runtime_error; // what operator New reports
using Texts = std::map<std::string, std::string>;

// A message that is printed, or thrown if fatal, at the end of its statement.
struct Message {
    bool fatal;
    std::ostringstream text{};

    ~Message() noexcept(false) {
        if (fatal)
            throw Error(text.str());
        std::cerr << text.str() << std::endl;
    }
    std::ostream &at(const char *file, int line) { return text << file << ':' << line << ": "; }
};

// What a field or an operator is described by changes nothing.
struct Described {
    template <typename... Any> Described describe(const Any &...) const { return {}; }
    template <typename... Any> Described set_range(const Any &...) const { return {}; }
    template <typename... Any> Described add_argument(const Any &...) const { return {}; }
    template <typename... Any> Described add_arguments(const Any &...) const { return {}; }
};

// The parameters of a struct that declares its fields.
template <typename Own> struct Parameter {
    Texts texts_;

    template <typename Pairs> void Init(const Pairs &pairs) {
        texts_ = {pairs.begin(), pairs.end()};
        static_cast<Own *>(this)->declare_fields();
    }
    template <typename T> Described field(const char *name, T &value) {
        std::istringstream(texts_[name]) >> value;
        return {};
    }
    Texts __DICT__() const { return texts_; }
    static Texts __FIELDS__() { return {}; }
};

} // namespace dmlc

// A check is an if statement without braces, as in MXNet.
#define LOG(severity) dmlc::Message{*#severity == 'F'}.at(__FILE__, __LINE__)
#define CHECK(condition)                                                                           \
    if (!(condition))                                                                              \
    LOG(FATAL) << "Check failed: " #condition " "
#define COURSE_COMPARE(a, op, b)                                                                   \
    if (!((a)op(b)))                                                                               \
    LOG(FATAL) << "Check failed: " #a " " #op " " #b " (" << (a) << " vs. " << (b) << ") "
#define CHECK_EQ(a, b) COURSE_COMPARE(a, ==, b)
#define CHECK_NE(a, b) COURSE_COMPARE(a, !=, b)
#define CHECK_LT(a, b) COURSE_COMPARE(a, <, b)
#define CHECK_LE(a, b) COURSE_COMPARE(a, <=, b)
#define CHECK_GT(a, b) COURSE_COMPARE(a, >, b)
#define CHECK_GE(a, b) COURSE_COMPARE(a, >=, b)

#define DMLC_USE_CXX11 1
#define DMLC_DECLARE_PARAMETER(Parameters) void declare_fields()
#define DMLC_DECLARE_FIELD(name) this->field(#name, this->name)
#define DMLC_REGISTER_PARAMETER(Parameters) static_assert(true)
