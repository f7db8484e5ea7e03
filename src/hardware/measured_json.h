// Reads a file in which the program stores its own measurements: JSON with the version of its schema. Error
// messages name the file and the entry. Thread-safe: values only.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>

namespace plimsoll {

struct MeasuredKind {
  std::string_view name = {};  // "calibration"
  int schema_version = 0;
  std::string_view remedy = {};  // advice to the user for an invalid file; may be empty
};

class MeasuredJson {
 public:
  // Parses the text. `source` is the name of the file in errors. Errors, of every function: kBadData if the
  // text is not a JSON object of this version, or an entry is missing or has the wrong type.
  MeasuredJson(std::string_view text, std::string source, const MeasuredKind& kind);

  const nlohmann::json& top() const { return top_; }
  // Returns an entry of an object.
  const nlohmann::json& at(const nlohmann::json& object, const std::string& name) const;
  // Return an entry that must be an object, or one that must be a string or a number.
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
