// The text of a file in which the program keeps what it measured: JSON with the version of its schema. What
// is wrong with one is said in words of this program, with the name of the file and of the entry. Not for
// files of others, which io/ckpt reads with more guards. Thread-safe: values only.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>

namespace plimsoll {

struct MeasuredKind {
  std::string_view name = {};  // "calibration"
  int schema_version = 0;
  std::string_view remedy = {};  // what a user can do about a file that is none; may be empty
};

class MeasuredJson {
 public:
  // `source` names the file in errors. Errors, of every function: kBadData where the text is no JSON object
  // of this version, an entry is not there or of another type.
  MeasuredJson(std::string_view text, std::string source, const MeasuredKind& kind);

  const nlohmann::json& top() const { return top_; }
  // An entry of an object.
  const nlohmann::json& at(const nlohmann::json& object, const std::string& name) const;
  // The same of an entry that is an object, and of one that is a text or a number.
  const nlohmann::json& object_at(const nlohmann::json& object, const std::string& name) const;
  template <typename T>
  T get(const nlohmann::json& object, const std::string& name) const {
    const nlohmann::json& value = at(object, name);
    constexpr bool kIsText = std::is_same_v<T, std::string>;
    if (kIsText ? !value.is_string() : !value.is_number())
      fail_type(name, value, kIsText ? "a text" : "a number");
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
