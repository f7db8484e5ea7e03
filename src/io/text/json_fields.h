// Typed access to the fields of a JSON object. Error messages name the file, the field and the value that was found.
//
// A field whose value is null counts as absent, as in the files of tokenizers. If a key occurs twice, the last value is used, as
// in Hugging Face's readers. Thread-safe: values and free functions. A JsonFields refers to a document, which must outlive it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::text {

using Json = nlohmann::json;

// The maximum nesting of objects and arrays in the JSON files of a tokenizer. Real files are nested deeply only if pipelines
// contain sequences of sequences.
inline constexpr int kMaxTokenizerJsonDepth = 256;

// Parses a text of at most kMaxTokenizerFileBytes. Numbers have the values that Hugging Face's tokenizers read. Errors: those of
// plimsoll::parse_json(), and kBadData for nesting beyond kMaxTokenizerJsonDepth, because the functions that copy and write a JSON tree are
// recursive and would exhaust the stack.
Json parse_tokenizer_text(const std::string& text, const std::string& where);

class JsonFields {
 public:
  // Refers to the JSON object `value`. `where` is the name of the file. `path` is the position of the object in the file, such as
  // "model", and empty for the whole document. Errors: kBadData if the value is not an object.
  JsonFields(const Json& value, std::string where, std::string path);

  // Returns the field, or a null pointer if it is absent or null.
  const Json* find(const std::string& key) const;
  bool has_key(const std::string& key) const { return object_.contains(key); }

  // These functions return the value of a field, or nothing if the field is absent or null. Errors: kBadData if the value has
  // another type or is out of range.
  std::optional<std::string> text(const std::string& key) const;
  std::optional<bool> flag(const std::string& key) const;
  // Returns the text of a field that must exist. Errors: kBadData if the field is missing, null or not a text.
  std::string required_text(const std::string& key) const;
  // Returns the value of a flag, or `fallback` if the flag is absent. Do not use flag().value_or(true) instead: GCC 14 compiles
  // it to code that reads the uninitialized byte of an empty optional, and the resulting bool can be neither 0 nor 1.
  bool flag_or(const std::string& key, bool fallback) const;
  std::optional<int64_t> integer(const std::string& key) const;
  std::optional<JsonFields> object(const std::string& key) const;
  const Json* array(const std::string& key) const;
  // Returns the elements of an array of objects. Errors: kBadData if the array is missing or contains anything but objects.
  std::vector<JsonFields> required_objects(const std::string& key) const;

  // Returns the name of a field with which error messages begin, such as "tokenizer.json: model.vocab".
  std::string name_of(const std::string& key) const;
  // Returns the name of this object for error messages, such as "tokenizer.json: model", or "tokenizer.json" for the whole
  // document.
  std::string name() const { return path_.empty() ? where_ : where_ + ": " + path_; }
  const Json& json() const { return object_; }
  const std::string& where() const { return where_; }

 private:
  [[noreturn]] void wrong_type(const std::string& key, const char* wanted, const Json& found) const;

  const Json& object_;
  std::string where_;
  std::string path_;
};

}  // namespace plimsoll::text
