#include "models/config.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "models/json_file.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

class Reader {
 public:
  Reader(const Json& json, std::string_view where) : json_(json), where_(where) {}

  // The first of the names that is there and not null is read.
  void read(int64_t& value, std::initializer_list<const char*> names) const {
    const auto [key, found] = find(names);
    if (found == nullptr) return;
    if (!found->is_number_integer()) wrong_type(key, *found, "an integer");
    value = found->get<int64_t>();
  }
  void read(double& value, std::initializer_list<const char*> names) const {
    const auto [key, found] = find(names);
    if (found == nullptr) return;
    if (!found->is_number()) wrong_type(key, *found, "a number");
    value = found->get<double>();
  }
  void read(std::string& value, std::initializer_list<const char*> names) const {
    const auto [key, found] = find(names);
    if (found == nullptr) return;
    if (!found->is_string()) wrong_type(key, *found, "a string");
    value = found->get<std::string>();
  }
  void read(std::optional<double>& value, std::initializer_list<const char*> names) const {
    if (find(names).second == nullptr) return;
    double number = 0;
    read(number, names);
    value = number;
  }

  std::pair<const char*, const Json*> find(std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      const auto it = json_.find(name);
      if (it != json_.end() && !it->is_null()) return {name, &*it};
    }
    return {nullptr, nullptr};
  }
  [[noreturn]] void wrong_type(const char* key, const Json& found, const char* wanted) const {
    throw_error(ErrorCode::kBadData, "{}: '{}' must be {}, found {} ({}); correct the value", where_, key,
                wanted, found.type_name(), found.dump().substr(0, 60));
  }

 private:
  const Json& json_;
  std::string_view where_;
};

void read_labels(ModelConfig& config, const Json& json, const Reader& reader, std::string_view where) {
  const auto id2label = json.find("id2label");
  if (id2label != json.end() && !id2label->is_null()) {
    if (!id2label->is_object()) reader.wrong_type("id2label", *id2label, "an object");
    config.num_labels = static_cast<int64_t>(id2label->size());
    config.id2label.assign(id2label->size(), "");
    for (const auto& [key, label] : id2label->items()) {
      size_t id = 0;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      if (error != std::errc() || end != key.data() + key.size() || id >= config.id2label.size() ||
          !label.is_string()) {
        throw_error(ErrorCode::kBadData,
                    "{}: id2label has the entry {}: {}; keys must be 0 to {} and values strings", where, key,
                    label.dump().substr(0, 40), id2label->size() - 1);
      }
      config.id2label[id] = label.get<std::string>();
    }
  }
  reader.read(config.num_labels, {"num_labels", "_num_labels"});
  if (!config.id2label.empty() && config.num_labels != static_cast<int64_t>(config.id2label.size())) {
    throw_error(ErrorCode::kBadData, "{}: num_labels is {} but id2label has {} entries", where,
                config.num_labels, config.id2label.size());
  }
  std::string problem;
  reader.read(problem, {"problem_type"});
  if (!problem.empty()) {
    config.problem_type = find_problem_type(problem);
    if (!config.problem_type) {
      throw_error(
          ErrorCode::kBadData,
          "{}: problem_type is '{}'; it must be single_label_classification, multi_label_classification or "
          "regression",
          where, problem);
    }
  }
}

void read_distilbert(ModelConfig& config, const Reader& reader) {
  config.type_vocab_size = 0;
  reader.read(config.hidden_size, {"dim"});
  reader.read(config.num_hidden_layers, {"n_layers"});
  reader.read(config.num_attention_heads, {"n_heads"});
  reader.read(config.intermediate_size, {"hidden_dim"});
  reader.read(config.hidden_act, {"activation"});
  reader.read(config.hidden_dropout_prob, {"dropout"});
  reader.read(config.attention_probs_dropout_prob, {"attention_dropout"});
  config.classifier_dropout = 0.2;
  reader.read(config.classifier_dropout, {"seq_classif_dropout"});
}

void read_bert(ModelConfig& config, const Reader& reader) {
  reader.read(config.hidden_size, {"hidden_size"});
  reader.read(config.num_hidden_layers, {"num_hidden_layers"});
  reader.read(config.num_attention_heads, {"num_attention_heads"});
  reader.read(config.intermediate_size, {"intermediate_size"});
  reader.read(config.hidden_act, {"hidden_act"});
  reader.read(config.hidden_dropout_prob, {"hidden_dropout_prob"});
  reader.read(config.attention_probs_dropout_prob, {"attention_probs_dropout_prob"});
  reader.read(config.type_vocab_size, {"type_vocab_size"});
  reader.read(config.layer_norm_eps, {"layer_norm_eps"});
  reader.read(config.classifier_dropout, {"classifier_dropout"});
}

}  // namespace

namespace {

// Variants of a known architecture whose forward pass is another one: to read them as the plain one would
// train a model that nobody has.
void refuse_variants(const Json& json, const Reader& reader, std::string_view where) {
  if (const auto decoder = json.find("is_decoder");
      decoder != json.end() && decoder->is_boolean() && *decoder) {
    throw_error(ErrorCode::kUsage,
                "{}: is_decoder is true; this version has encoders only, which attend in both directions",
                where);
  }
  std::string positions = "absolute";
  reader.read(positions, {"position_embedding_type"});
  if (positions != "absolute") {
    throw_error(ErrorCode::kUsage, "{}: position_embedding_type is '{}'; this version has 'absolute' only",
                where, positions);
  }
}

}  // namespace

ModelConfig parse_model_config(std::string_view text, std::string_view where) {
  const Json json = parse_model_json(text, where);
  if (!json.is_object())
    throw_error(ErrorCode::kBadData, "{}: a JSON object is expected, found {}", where, json.type_name());
  const Reader reader(json, where);
  ModelConfig config;
  config.model_type.clear();
  reader.read(config.model_type, {"model_type"});
  reader.read(config.vocab_size, {"vocab_size"});
  reader.read(config.max_position_embeddings, {"max_position_embeddings"});
  if (const auto pad = json.find("pad_token_id"); pad != json.end() && pad->is_null())
    config.pad_token_id = -1;
  reader.read(config.pad_token_id, {"pad_token_id"});
  reader.read(config.initializer_range, {"initializer_range"});
  if (config.model_type == "bert") {
    read_bert(config, reader);
  } else if (config.model_type == "distilbert") {
    read_distilbert(config, reader);
  } else {
    throw_error(ErrorCode::kUsage, "{}: model_type is '{}'; this version trains bert and distilbert", where,
                config.model_type.empty() ? "(absent)" : config.model_type);
  }
  refuse_variants(json, reader, where);
  read_labels(config, json, reader, where);
  // transformers writes "dtype", and wrote "torch_dtype".
  if (const auto [key, dtype] = reader.find({"dtype", "torch_dtype"}); dtype != nullptr && dtype->is_string())
    config.source_dtype = dtype->get<std::string>();
  config.source_json = std::string(text);
  check_model_config(config, where);
  return config;
}

void check_model_config(const ModelConfig& config, std::string_view where) {
  const auto positive = [&](std::string_view name, int64_t value, int64_t limit) {
    if (value >= 1 && value <= limit) return;
    throw_error(ErrorCode::kBadData, "{}: {} is {}, it must be between 1 and {}; correct the value", where,
                name, value, limit);
  };
  positive("vocab_size", config.vocab_size, 1 << 24);
  if (config.pad_token_id < -1 || config.pad_token_id >= config.vocab_size) {
    throw_error(ErrorCode::kBadData,
                "{}: pad_token_id is {}, it must be null or between 0 and {}; correct the value", where,
                config.pad_token_id, config.vocab_size - 1);
  }
  positive("hidden_size", config.hidden_size, 1 << 16);
  positive("num_hidden_layers", config.num_hidden_layers, 1024);
  positive("num_attention_heads", config.num_attention_heads, 1024);
  positive("intermediate_size", config.intermediate_size, 1 << 20);
  positive("max_position_embeddings", config.max_position_embeddings, 1 << 20);
  positive("num_labels", config.num_labels, 1 << 20);
  if (config.model_type == "bert") positive("type_vocab_size", config.type_vocab_size, 1 << 16);
  if (config.hidden_size % config.num_attention_heads != 0) {
    throw_error(ErrorCode::kBadData,
                "{}: hidden_size {} is not a multiple of num_attention_heads {}; correct one of them", where,
                config.hidden_size, config.num_attention_heads);
  }
  if (config.hidden_act != "gelu") {
    throw_error(ErrorCode::kUsage, "{}: the activation is '{}'; this version has 'gelu' (erf form) for {}",
                where, config.hidden_act, config.model_type);
  }
  const auto probability = [&](std::string_view name, double value) {
    if (value >= 0.0 && value < 1.0) return;
    throw_error(ErrorCode::kBadData, "{}: {} is {}, it must be in [0, 1); correct the value", where, name,
                value);
  };
  probability("the hidden dropout", config.hidden_dropout_prob);
  probability("the attention dropout", config.attention_probs_dropout_prob);
  probability("the classifier's dropout", config.classifier_dropout.value_or(0.0));
  if (!(config.layer_norm_eps > 0.0)) {
    throw_error(ErrorCode::kBadData, "{}: layer_norm_eps is {}, it must be above 0", where,
                config.layer_norm_eps);
  }
}

std::string model_config_json(const ModelConfig& config) {
  Json json = config.source_json.empty() ? Json::object() : Json::parse(config.source_json);
  const bool distilbert = config.model_type == "distilbert";
  json["model_type"] = config.model_type;
  json["architectures"] = {distilbert ? "DistilBertForSequenceClassification"
                                      : "BertForSequenceClassification"};
  json["vocab_size"] = config.vocab_size;
  json["max_position_embeddings"] = config.max_position_embeddings;
  json["initializer_range"] = config.initializer_range;
  json["pad_token_id"] = config.pad_token_id < 0 ? Json(nullptr) : Json(config.pad_token_id);
  json[distilbert ? "dim" : "hidden_size"] = config.hidden_size;
  json[distilbert ? "n_layers" : "num_hidden_layers"] = config.num_hidden_layers;
  json[distilbert ? "n_heads" : "num_attention_heads"] = config.num_attention_heads;
  json[distilbert ? "hidden_dim" : "intermediate_size"] = config.intermediate_size;
  json[distilbert ? "activation" : "hidden_act"] = config.hidden_act;
  json[distilbert ? "dropout" : "hidden_dropout_prob"] = config.hidden_dropout_prob;
  json[distilbert ? "attention_dropout" : "attention_probs_dropout_prob"] =
      config.attention_probs_dropout_prob;
  if (distilbert) {
    json["seq_classif_dropout"] = config.classifier_dropout.value_or(0.2);
  } else {
    json["type_vocab_size"] = config.type_vocab_size;
    json["layer_norm_eps"] = config.layer_norm_eps;
    json["classifier_dropout"] = config.classifier_dropout ? Json(*config.classifier_dropout) : Json(nullptr);
  }
  json.erase("num_labels");
  json.erase("_num_labels");
  Json id2label = Json::object();
  Json label2id = Json::object();
  for (int64_t i = 0; i < config.num_labels; ++i) {
    const std::string label =
        config.id2label.empty() ? "LABEL_" + std::to_string(i) : config.id2label[static_cast<size_t>(i)];
    id2label[std::to_string(i)] = label;
    label2id[label] = i;
  }
  json["id2label"] = id2label;
  json["label2id"] = label2id;
  if (config.problem_type) json["problem_type"] = problem_type_name(*config.problem_type);
  json.erase("torch_dtype");
  json["dtype"] = "float32";
  return json.dump(2) + "\n";
}

void apply_config_overrides(ModelConfig& config, std::string_view overrides) {
  if (overrides.empty()) return;
  Json json = Json::parse(model_config_json(config));
  while (!overrides.empty()) {
    const size_t comma = overrides.find(',');
    const std::string_view item = overrides.substr(0, comma);
    overrides = comma == std::string_view::npos ? std::string_view() : overrides.substr(comma + 1);
    const size_t equals = item.find('=');
    const std::string key(item.substr(0, equals));
    if (equals == std::string_view::npos || !json.contains(key)) {
      throw_error(ErrorCode::kUsage,
                  "--config_overrides: '{}' is not 'key=value' with a key of {}'s config.json", item,
                  config.model_type);
    }
    Json value = Json::parse(item.substr(equals + 1), nullptr, false);
    if (value.is_discarded()) value = std::string(item.substr(equals + 1));
    json[key] = value;
  }
  const std::vector<std::string> labels = config.id2label;
  try {
    config = parse_model_config(json.dump(), "--config_overrides");
  } catch (const Json::type_error&) {
    throw_error(ErrorCode::kUsage,
                "--config_overrides: a value is not UTF-8; use the encoding of config.json");
  } catch (const Error& error) {
    // The value came from the command line, not from a file.
    throw Error(ErrorCode::kUsage, error.what());
  }
  config.id2label = labels;
}

}  // namespace plimsoll
