#include "models/config_reader.h"

#include "base/check.h"

namespace plimsoll {

using Json = nlohmann::json;

const Json* ConfigReader::find(const char* key) const {
  const auto it = json_.find(key);
  return it != json_.end() && !it->is_null() ? &*it : nullptr;
}

void ConfigReader::read(int64_t& value, const char* key) const {
  const Json* found = find(key);
  if (found == nullptr) return;
  if (!found->is_number_integer()) wrong_type(key, *found, "an integer");
  value = found->get<int64_t>();
}

void ConfigReader::read(double& value, const char* key) const {
  const Json* found = find(key);
  if (found == nullptr) return;
  if (!found->is_number()) wrong_type(key, *found, "a number");
  value = found->get<double>();
}

void ConfigReader::read(std::string& value, const char* key) const {
  const Json* found = find(key);
  if (found == nullptr) return;
  if (!found->is_string()) wrong_type(key, *found, "a string");
  value = found->get<std::string>();
}

void ConfigReader::read(bool& value, const char* key) const {
  const Json* found = find(key);
  if (found == nullptr) return;
  if (!found->is_boolean()) wrong_type(key, *found, "true or false");
  value = found->get<bool>();
}

void ConfigReader::read(std::optional<double>& value, const char* key) const {
  if (find(key) == nullptr) return;
  double number = 0;
  read(number, key);
  value = number;
}

void ConfigReader::read(ModelConfig& config, std::span<const ConfigKey> keys) const {
  for (const ConfigKey& key : keys) {
    std::visit([&](auto field) { read(config.*field, key.name); }, key.field);
  }
}

void ConfigReader::wrong_type(const char* key, const Json& found, const char* wanted) const {
  throw_error(ErrorCode::kBadData, "{}: '{}' must be {}, found {} ({}); correct the value", where_, key,
              wanted, found.type_name(), found.dump().substr(0, 60));
}

void write_config_keys(Json& json, const ModelConfig& config, std::span<const ConfigKey> keys) {
  const auto as_json = [](const auto& value) -> Json {
    if constexpr (requires { value.has_value(); }) {
      return value ? Json(*value) : Json(nullptr);
    } else {
      return value;
    }
  };
  for (const ConfigKey& key : keys) {
    std::visit([&](auto field) { json[key.name] = as_json(config.*field); }, key.field);
  }
}

void refuse_encoder_variants(const ConfigReader& reader) {
  const Json* decoder = reader.find("is_decoder");
  if (decoder != nullptr && decoder->is_boolean() && *decoder) {
    throw_error(ErrorCode::kUsage,
                "{}: is_decoder is true; this version computes the architecture as an encoder, which attends "
                "in both directions; use a model with is_decoder false",
                reader.where());
  }
  const Json* pruned = reader.find("pruned_heads");
  if (pruned != nullptr && !pruned->empty()) {
    throw_error(
        ErrorCode::kUsage,
        "{}: pruned_heads names attention heads that the weights lack, and this version needs all of them; "
        "use the model before its heads were pruned",
        reader.where());
  }
  std::string positions = "absolute";
  reader.read(positions, "position_embedding_type");
  if (positions != "absolute") {
    throw_error(ErrorCode::kUsage,
                "{}: position_embedding_type is '{}'; this version has 'absolute' only; use a model with "
                "absolute positions",
                reader.where(), positions);
  }
}

}  // namespace plimsoll
