#include "models/blocks/rope_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "base/check.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

// All known keys of an object with parameters of a rotary embedding. Each type of rotary embedding reads some of them.
constexpr const char* kKnownKeys[] = {"rope_type",       "type",
                                      "rope_theta",      "factor",
                                      "mscale",          "original_max_position_embeddings",
                                      "mscale_all_dim",  "attention_factor",
                                      "beta_fast",       "beta_slow",
                                      "truncate",        "short_factor",
                                      "long_factor",     "low_freq_factor",
                                      "high_freq_factor"};

// The JSON object that describes the rotary embedding, and the name by which messages refer to it.
struct RopeObject {
  const Json* json = nullptr;  // null if the configuration contains no such object
  std::string where;
};
RopeObject find_object(const ConfigReader& reader) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const Json* found = reader.find(key);
    if (found == nullptr || found->empty()) continue;
    if (!found->is_object()) reader.wrong_type(key, *found, "an object");
    return {found, fmt::format("{}: {}", reader.where(), key)};
  }
  return {};
}

RopeType read_type(const ConfigReader& object) {
  std::string name = "default";
  const char* key = object.find("rope_type") != nullptr ? "rope_type" : "type";
  object.read(name, key);
  if (const std::optional<RopeType> type = find_rope_type(name)) return *type;
  std::vector<std::string_view> names;
  for (const RopeTypeName& row : kRopeTypeNames) names.emplace_back(row.name);
  throw_error(ErrorCode::kUsage, "{}: {} is '{}'; this version computes {}", object.where(), key, name,
              fmt::join(names, ", "));
}

void require(const ConfigReader& object, RopeType type, const char* key) {
  if (object.find(key) != nullptr) return;
  throw_error(ErrorCode::kBadData, "{}: the type '{}' needs '{}'; add it", object.where(),
              rope_type_name(type), key);
}

void require_above(std::string_view where, const char* key, double value, double least) {
  if (value > least && std::isfinite(value)) return;
  throw_error(ErrorCode::kBadData, "{}: {} is {}, but must be above {}; correct the value", where, key, value,
              least);
}

std::vector<double> read_factors(const ConfigReader& object, const char* key, int64_t pairs) {
  const Json& list = *object.find(key);
  if (!list.is_array() || !std::ranges::all_of(list, [](const Json& item) { return item.is_number(); }))
    object.wrong_type(key, list, "a list of numbers");
  std::vector<double> factors = list.get<std::vector<double>>();
  if (std::ssize(factors) != pairs) {
    throw_error(ErrorCode::kBadData,
                "{}: {} must have one number per pair of elements of a head, but has {} for {} pairs; "
                "correct the list",
                object.where(), key, factors.size(), pairs);
  }
  for (const double factor : factors) require_above(object.where(), key, factor, 0.0);
  return factors;
}

// Returns the number of positions for which the model was trained before its context was extended.
double read_original(const ModelConfig& config, const ConfigReader& reader, const ConfigReader& object) {
  int64_t original = config.max_position_embeddings;
  object.read(original, "original_max_position_embeddings");
  reader.read(original, "original_max_position_embeddings");
  require_above(object.where(), "original_max_position_embeddings", static_cast<double>(original), 1.0);
  return static_cast<double>(original);
}

// Reads the parameters that a rotary embedding of the type p.type needs.
void read_numbers(RopeParameters& p, const ModelConfig& config, const ConfigReader& reader,
                  const ConfigReader& object) {
  const double positions = static_cast<double>(config.max_position_embeddings);
  if (p.type == RopeType::kDefault) return;
  if (p.type != RopeType::kLongRope && p.type != RopeType::kYarn) require(object, p.type, "factor");
  if (p.type == RopeType::kDynamic) p.original = positions;
  if (p.type != RopeType::kDynamic && p.type != RopeType::kLinear)
    p.original = read_original(config, reader, object);
  if (p.original > 0.0) p.factor = positions / p.original;
  object.read(p.factor, "factor");
  require_above(object.where(), "factor", p.factor, 0.0);
  std::optional<double> attention_factor;
  object.read(attention_factor, "attention_factor");
  if (p.type == RopeType::kLlama3) {
    require(object, p.type, "low_freq_factor");
    require(object, p.type, "high_freq_factor");
    object.read(p.low_freq_factor, "low_freq_factor");
    object.read(p.high_freq_factor, "high_freq_factor");
    require_above(object.where(), "low_freq_factor", p.low_freq_factor, 0.0);
    require_above(object.where(), "high_freq_factor", p.high_freq_factor, p.low_freq_factor);
  }
  if (p.type == RopeType::kYarn) {
    double mscale = 0.0, mscale_all_dim = 0.0;
    object.read(mscale, "mscale");
    object.read(mscale_all_dim, "mscale_all_dim");
    object.read(p.beta_fast, "beta_fast");
    object.read(p.beta_slow, "beta_slow");
    object.read(p.truncate, "truncate");
    require_above(object.where(), "beta_slow", p.beta_slow, 0.0);
    require_above(object.where(), "beta_fast", p.beta_fast, 0.0);
    p.attention_factor = attention_factor.value_or(yarn_attention_factor(p.factor, mscale, mscale_all_dim));
  }
  if (p.type == RopeType::kLongRope) {
    const int64_t pairs = config.head_width() / 2;
    for (const char* key : {"short_factor", "long_factor"}) require(object, p.type, key);
    p.short_factor = read_factors(object, "short_factor", pairs);
    p.long_factor = read_factors(object, "long_factor", pairs);
    p.attention_factor = attention_factor.value_or(longrope_attention_factor(p.factor, p.original));
  }
}

}  // namespace

void check_rope_width(const ModelConfig& config, const ConfigReader& reader) {
  const int64_t width = config.head_width();
  if (width % 2 != 0 || width > kMaxRopeDim) {
    throw_error(
        ErrorCode::kBadData,
        "{}: heads have {} elements; rotary embeddings need an even number up to {}; correct head_dim or "
        "num_attention_heads",
        reader.where(), width, kMaxRopeDim);
  }
}

RopeParameters read_rope_object(const ModelConfig& config, const ConfigReader& reader, const Json& json,
                                const std::string& where, double theta) {
  const ConfigReader object(json, where);
  for (const auto& [key, value] : json.items()) {
    if (std::ranges::find(kKnownKeys, key) != std::end(kKnownKeys) || value.is_null()) continue;
    throw_error(ErrorCode::kUsage, "{}: '{}' is not a key of any rotary embedding that this version computes",
                object.where(), key);
  }
  RopeParameters parameters{.type = read_type(object), .theta = theta};
  object.read(parameters.theta, "rope_theta");
  read_numbers(parameters, config, reader, object);
  require_above(where, "rope_theta", parameters.theta, 1.0);
  return parameters;
}

void read_rope(ModelConfig& config, const ConfigReader& reader) {
  check_rope_width(config, reader);
  double partial = 1.0;
  reader.read(partial, "partial_rotary_factor");
  if (partial != 1.0) {
    throw_error(ErrorCode::kUsage, "{}: partial_rotary_factor is {}; this version rotates whole heads only",
                reader.where(), partial);
  }
  config.rope = {};
  reader.read(config.rope.theta, "rope_theta");
  const RopeObject found = find_object(reader);
  if (found.json != nullptr)
    config.rope = read_rope_object(config, reader, *found.json, found.where, config.rope.theta);
  require_above(reader.where(), "rope_theta", config.rope.theta, 1.0);
}

Json rope_object(const RopeParameters& p) {
  Json object{{"rope_type", rope_type_name(p.type)}};
  if (p.type != RopeType::kDefault) object["factor"] = p.factor;
  if (p.type == RopeType::kYarn || p.type == RopeType::kLongRope || p.type == RopeType::kLlama3)
    object["original_max_position_embeddings"] = static_cast<int64_t>(p.original);
  if (p.type == RopeType::kLlama3) {
    object["low_freq_factor"] = p.low_freq_factor;
    object["high_freq_factor"] = p.high_freq_factor;
  }
  if (p.type == RopeType::kYarn) {
    object["beta_fast"] = p.beta_fast;
    object["beta_slow"] = p.beta_slow;
    object["truncate"] = p.truncate;
  }
  if (p.type == RopeType::kLongRope) {
    object["short_factor"] = p.short_factor;
    object["long_factor"] = p.long_factor;
  }
  if (p.type == RopeType::kYarn || p.type == RopeType::kLongRope)
    object["attention_factor"] = p.attention_factor;
  return object;
}

void write_rope(Json& json, const ModelConfig& config) {
  const RopeParameters& p = config.rope;
  Json object = rope_object(p);
  object["rope_theta"] = p.theta;
  json["rope_parameters"] = object;
  json["rope_scaling"] = p.type == RopeType::kDefault ? Json(nullptr) : object;
  json["rope_theta"] = p.theta;
}

}  // namespace plimsoll
