// Reads a file in which the program stores its own measurements: JSON with the version of its schema. Error
// messages name the file and the entry. Thread-safe: values only.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>

namespace plimsoll {

struct MeasuredKind {
  std::string_view name = {};  // name of the kind of file for error messages, such as "calibration"
  int schema_version = 0;
  // advice that the error message for an invalid file gives to the user; may be empty
  std::string_view remedy = {};
};

class MeasuredJson {
 public:
  // Parses the text of the file `source`, which is named in errors. Errors of this constructor and of the functions below: kBadData if the
  // text is not a JSON object of this version, or an entry is missing or has the wrong type.
  MeasuredJson(std::string_view text, std::string source, const MeasuredKind& kind);

  const nlohmann::json& top() const { return top_; }
  // Returns the entry of an object with this name. Errors: kBadData if it is missing.
  const nlohmann::json& at(const nlohmann::json& object, const std::string& name) const;
  // Return the entry of an object with this name: object_at() requires that the entry is an object, and get() that it is a string
  // or a number. Errors: kBadData if it is not.
  const nlohmann::json& object_at(const nlohmann::json& object, const std::string& name) const;
  template <typename T>
  T get(const nlohmann::json& object, const std::string& name) const {
    const nlohmann::json& value = at(object, name);
    constexpr bool kIsText = std::is_same_v<T, std::string>;
    if (kIsText ? !value.is_string() : !value.is_number())
      fail_type(name, value, kIsText ? "a string" : "a number");
    return value.get<T>();
  }
  [[noreturn]] void fail(std::string_view why) const;

 private:
  [[noreturn]] void fail_type(const std::string& name, const nlohmann::json& value,
                              std::string_view expected) const;

  std::string source_;
  MeasuredKind kind_;
  nlohmann::json top_;
};

}  // namespace plimsoll
