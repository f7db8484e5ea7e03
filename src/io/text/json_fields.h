// Typed access to the fields of a JSON object, with errors that name the file, the field, and the value that
// was found.
//
// null counts as absent, as in the files of tokenizers. If a key occurs twice, the last value is used, as in
// Hugging Face's readers. Thread-safe: values and free functions. A JsonFields refers to a document that must
// outlive it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::text {

using Json = nlohmann::json;

// The deepest nesting that is accepted in a tokenizer's file. Only pipelines with sequences inside sequences are
// nested deeply.
inline constexpr int kMaxTokenizerJsonDepth = 256;

// Parses a text of at most kMaxTokenizerFileBytes. Numbers have the values that Hugging Face's tokenizers read. Errors: those of
// plimsoll::parse_json(), and kBadData for nesting beyond kMaxTokenizerJsonDepth, because copying and writing a tree recurses.
Json parse_tokenizer_text(const std::string& text, const std::string& where);

class JsonFields {
 public:
  // `path` is the name of the object inside the document ("model"), or empty for the document itself. Errors:
  // kBadData if the value is not an object.
  JsonFields(const Json& value, std::string where, std::string path);

  // Returns the field, or a null pointer if it is absent or null.
  const Json* find(const std::string& key) const;
  bool has_key(const std::string& key) const { return object_.contains(key); }

  // Return the value of the field, or nothing if it is absent or null. Errors: kBadData if it has another
  // type or is out of range.
  std::optional<std::string> text(const std::string& key) const;
  std::optional<bool> flag(const std::string& key) const;
  // Returns the text. Errors: kBadData if the field is missing.
  std::string required_text(const std::string& key) const;
  // Returns the flag, or the fallback without it. Use this instead of flag().value_or(true), for which GCC 14
  // generates code that reads the uninitialised byte of an empty optional and returns a bool that is neither 0 nor 1.
  bool flag_or(const std::string& key, bool fallback) const;
  std::optional<int64_t> integer(const std::string& key) const;
  std::optional<JsonFields> object(const std::string& key) const;
  const Json* array(const std::string& key) const;
  // Returns the members of an array of objects. Errors: kBadData also if the field is absent.
  std::vector<JsonFields> required_objects(const std::string& key) const;

  // Returns the start of messages: "tokenizer.json: model.vocab".
  std::string name_of(const std::string& key) const;
  // Returns the start of messages about the object itself: "tokenizer.json: model", or "tokenizer.json" for the
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
