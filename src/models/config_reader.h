// Reads typed values from the object in a config.json. Thread-safe: it only reads. It borrows the JSON value
// and the name of the file.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "models/architecture.h"

namespace plimsoll {

class ConfigReader {
 public:
  // `where` names the file in messages. Requires: `json` is an object.
  ConfigReader(const nlohmann::json& json, std::string_view where) : json_(json), where_(where) {}

  std::string_view where() const { return where_; }
  // Returns the value of the key, or null if the key is absent or its value is null.
  const nlohmann::json* find(const char* key) const;
  // Returns true if the key is present, also with the value null.
  bool has(const char* key) const { return json_.contains(key); }

  // Each read() leaves `value` unchanged if the key is absent or null. Errors: kBadData for a value of another type.
  void read(int64_t& value, const char* key) const;
  void read(double& value, const char* key) const;
  void read(std::string& value, const char* key) const;
  void read(bool& value, const char* key) const;
  void read(std::optional<double>& value, const char* key) const;
  void read(ModelConfig& config, std::span<const ConfigKey> keys) const;

  [[noreturn]] void wrong_type(const char* key, const nlohmann::json& found, const char* wanted) const;

 private:
  const nlohmann::json& json_;
  std::string_view where_;
};

// Sets the keys in the JSON object to the values of the configuration. An optional field without a value becomes null.
void write_config_keys(nlohmann::json& json, const ModelConfig& config, std::span<const ConfigKey> keys);

// Refuses configurations of decoders and of relative positions, which the encoders of transformers also support. If these settings were
// ignored, the trained model would differ from the one that transformers makes of the same file. Errors: kUsage.
void refuse_encoder_variants(const ConfigReader& reader);

}  // namespace plimsoll
