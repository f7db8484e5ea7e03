// Typed access to the fields of a JSON object, with errors that name the file, the field, and what was found.
//
// null counts as absent, as in the files that this reads. Of a key that occurs twice the last value counts,
// as in Hugging Face's readers. Thread-safe: values and free functions. A JsonFields refers to a document
// that outlives it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace plimsoll::text {

using Json = nlohmann::json;

// Errors: kBadData with `where`, line and column, if the text is not JSON. Nesting of any depth is safe.
Json parse_json(const std::string& text, const std::string& where);

class JsonFields {
 public:
  // `path` names the object inside the document ("model"), empty for the document itself.
  // Errors: kBadData if the value is no object.
  JsonFields(const Json& value, std::string where, std::string path);

  // The field, or null pointer where it is absent or null.
  const Json* find(const std::string& key) const;
  bool has_key(const std::string& key) const { return object_.contains(key); }

  // The field's value, nothing where it is absent or null. Errors: kBadData if it has another type or does
  // not fit.
  std::optional<std::string> text(const std::string& key) const;
  std::optional<bool> flag(const std::string& key) const;
  std::optional<int64_t> integer(const std::string& key) const;
  std::optional<JsonFields> object(const std::string& key) const;
  const Json* array(const std::string& key) const;

  // "tokenizer.json: model.vocab": what messages start with.
  std::string name_of(const std::string& key) const;
  const Json& json() const { return object_; }
  const std::string& where() const { return where_; }

 private:
  [[noreturn]] void wrong_type(const std::string& key, const char* wanted, const Json& found) const;

  const Json& object_;
  std::string where_;
  std::string path_;
};

}  // namespace plimsoll::text
