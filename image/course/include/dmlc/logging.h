// CHECK and LOG: a failed check throws what operator New reports.
#ifndef DMLC_LOGGING_H_
#define DMLC_LOGGING_H_

#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace dmlc {

struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// A message that is printed, or thrown if fatal, at the end of its statement.
class Message {
  public:
    Message(const char *file, int line, bool fatal) : fatal_(fatal) {
        text_ << file << ':' << line << ": ";
    }
    ~Message() noexcept(false) {
        if (fatal_)
            throw Error(text_.str());
        std::cerr << text_.str() << std::endl;
    }
    std::ostream &stream() { return text_; }

  private:
    std::ostringstream text_;
    bool fatal_;
};

// Makes a message the second branch of a conditional expression.
struct Ended {
    void operator&(std::ostream &) {}
};

} // namespace dmlc

#define LOG_INFO dmlc::Message(__FILE__, __LINE__, false)
#define LOG_WARNING LOG_INFO
#define LOG_ERROR LOG_INFO
#define LOG_FATAL dmlc::Message(__FILE__, __LINE__, true)
#define LOG(severity) LOG_##severity.stream()

#define CHECK(condition)                                                                           \
    (condition) ? (void)0 : dmlc::Ended() & LOG(FATAL) << "Check failed: " #condition " "
#define COURSE_COMPARE(a, op, b)                                                                   \
    ((a)op(b)) ? (void)0                                                                           \
               : dmlc::Ended() & LOG(FATAL) << "Check failed: " #a " " #op " " #b " (" << (a)      \
                                            << " vs. " << (b) << ") "
#define CHECK_EQ(a, b) COURSE_COMPARE(a, ==, b)
#define CHECK_NE(a, b) COURSE_COMPARE(a, !=, b)
#define CHECK_LT(a, b) COURSE_COMPARE(a, <, b)
#define CHECK_LE(a, b) COURSE_COMPARE(a, <=, b)
#define CHECK_GT(a, b) COURSE_COMPARE(a, >, b)
#define CHECK_GE(a, b) COURSE_COMPARE(a, >=, b)
#define CHECK_NOTNULL(pointer) (pointer)

#endif
