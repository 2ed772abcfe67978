// An operator's parameters, parsed from text: those of a struct that declares its fields.
#ifndef DMLC_PARAMETER_H_
#define DMLC_PARAMETER_H_

#include "logging.h"

#include <map>
#include <vector>

namespace dmlc {

// What follows a declared field; only a default changes anything.
template <typename T> struct Field {
    T &value;
    bool given;

    Field &set_default(const T &usual) {
        if (!given)
            value = usual;
        return *this;
    }
    template <typename... Any> Field &describe(Any &&...) { return *this; }
    template <typename... Any> Field &set_range(Any &&...) { return *this; }
};

template <typename Parameters> class Parameter {
  public:
    template <typename Texts> void Init(const Texts &texts) {
        for (const auto &text : texts)
            texts_[text.first] = text.second;
        static_cast<Parameters *>(this)->declare_fields();
    }
    std::map<std::string, std::string> __DICT__() const { return texts_; }
    static std::vector<std::string> __FIELDS__() { return {}; }

  protected:
    template <typename T> Field<T> field(const char *name, T &value) {
        const auto found = texts_.find(name);
        if (found != texts_.end()) {
            std::istringstream text(found->second);
            text >> value;
            CHECK(!text.fail()) << name << " is " << found->second;
        }
        return {value, found != texts_.end()};
    }

  private:
    std::map<std::string, std::string> texts_;
};

} // namespace dmlc

#define DMLC_DECLARE_PARAMETER(Parameters) void declare_fields()
#define DMLC_DECLARE_FIELD(name) this->field(#name, this->name)
#define DMLC_REGISTER_PARAMETER(Parameters) static_assert(true, "")
#define DMLC_USE_CXX11 1

#endif
