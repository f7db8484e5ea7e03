#include "models/config.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/activation_names.h"
#include "base/check.h"
#include "base/guarded_json.h"
#include "base/json.h"
#include "base/units.h"
#include "models/config_reader.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

// Reads the problem type: the name of the model's class states it, or else the key `problem_type`.
void read_problem_type(ModelConfig& config, const Json& json, const ConfigReader& reader,
                       std::string_view where) {
  const auto classes = json.find("architectures");
  if (classes != json.end() && classes->is_array() && !classes->empty() && classes->front().is_string()) {
    config.problem_type = problem_type_of_class(classes->front().get_ref<const std::string&>());
    if (config.problem_type) return;
  }
  std::string word;
  reader.read(word, "problem_type");
  if (word.empty()) return;
  config.problem_type = find_problem_type(word);
  if (config.problem_type) return;
  std::vector<std::string_view> names;
  names.reserve(kProblemTypes.size());
  for (const ProblemTypeRecord& record : kProblemTypes) {
    if (record.is_in_config) names.push_back(record.name);
  }
  throw_error(ErrorCode::kBadData, "{}: problem_type is '{}'; it must be one of {}", where, word,
              fmt::join(names, ", "));
}

// Reads a key of id2label as Python's int() does: "1", " 01", "+1", "1_0". Returns nothing for other text.
std::optional<int64_t> label_key(std::string_view text) {
  const auto trimmed = [](std::string_view t) {
    constexpr std::string_view kBlanks = " \t\n\r\f\v";
    const size_t first = t.find_first_not_of(kBlanks);
    return first == std::string_view::npos ? std::string_view()
                                           : t.substr(first, t.find_last_not_of(kBlanks) - first + 1);
  };
  std::string digits(trimmed(text));
  if (digits.starts_with('+')) digits.erase(0, 1);
  for (size_t i = 1; i + 1 < digits.size(); ++i) {
    if (digits[i] == '_' && digits[i - 1] >= '0' && digits[i - 1] <= '9') digits.erase(i, 1);
  }
  int64_t key = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), key);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return key;
}

// Returns a label as Python's str() writes it, because programs that save label maps compare labels with the data in
// this form.
std::string label_text(const Json& label) {
  if (label.is_string()) return label.get<std::string>();
  if (label.is_null()) return "None";
  if (label.is_boolean()) return label.get<bool>() ? "True" : "False";
  if (label.is_number_float()) return python_float(label.get<double>());
  return label.dump();
}

// Reads the labels of the map id2label. transformers also loads a map whose keys are not 0 to n - 1, but then cannot name every output of
// the model. Plimsoll assigns the labels to the outputs in the order of the keys.
std::vector<std::string> labels_of(const Json& id2label, std::string_view where) {
  std::map<int64_t, std::string> labels;
  for (const auto& [text, label] : id2label.items()) {
    const std::optional<int64_t> key = label_key(text);
    if (!key || label.is_structured()) {
      throw_error(
          ErrorCode::kBadData,
          "{}: id2label has the entry \"{}\": {}; keys must be integers and labels strings, numbers, true, "
          "false or null",
          where, text.substr(0, 40), label.dump().substr(0, 40));
    }
    if (labels.contains(*key)) {
      throw_error(ErrorCode::kBadData,
                  "{}: id2label has two entries for the key {}, one of them written \"{}\"; remove one",
                  where, *key, text.substr(0, 40));
    }
    labels.emplace(*key, label_text(label));
  }
  std::vector<std::string> names;
  names.reserve(labels.size());
  for (auto& [key, label] : labels) names.push_back(std::move(label));
  return names;
}

// Reads the labels as transformers 5.24 does. If num_labels differs from the length of the map, num_labels decides,
// and the labels become LABEL_0, LABEL_1, ...
void read_labels(ModelConfig& config, const Json& json, const ConfigReader& reader, std::string_view where) {
  // Old versions of the library transformers wrote the key "_num_labels" instead of "num_labels".
  reader.read(config.num_labels, "_num_labels");
  const auto id2label = json.find("id2label");
  if (id2label != json.end() && !id2label->is_null()) {
    if (!id2label->is_object()) reader.wrong_type("id2label", *id2label, "an object");
    config.id2label = labels_of(*id2label, where);
    config.num_labels = std::ssize(config.id2label);
  }
  reader.read(config.num_labels, "num_labels");
  if (config.num_labels != std::ssize(config.id2label)) config.id2label.clear();
  read_problem_type(config, json, reader, where);
}

// The keys of config.json that have the same name for every architecture, with the fields that store their values.
constexpr std::array kCommonKeys{
    ConfigKey{"vocab_size", &ModelConfig::vocab_size},
    ConfigKey{"initializer_range", &ModelConfig::initializer_range},
};

// Returns the data type of the weights: the key "dtype", or "torch_dtype" in files of older transformers; "" if
// neither is present.
std::string dtype_of(const ConfigReader& reader) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    const Json* dtype = reader.find(key);
    if (dtype != nullptr) return dtype->is_string() ? dtype->get<std::string>() : "";
  }
  return "";
}

[[noreturn]] void refuse_architecture(const std::string& model_type, std::string_view where) {
  std::vector<std::string_view> names;
  names.reserve(architectures().size());
  for (const Architecture* architecture : architectures()) names.push_back(architecture->model_type);
  throw_error(ErrorCode::kUsage, "{}: model_type is {}; this version trains {}", where,
              model_type.empty() ? "missing" : fmt::format("'{}'", model_type), fmt::join(names, ", "));
}

// Checks that the width of the model is a multiple of the number of heads, that the number of heads is a multiple of that of key and value
// heads, and that heads are not too wide.
void check_heads(const ModelConfig& config, std::string_view where) {
  if (config.head_dim == 0 && config.hidden_size % config.num_attention_heads != 0) {
    throw_error(ErrorCode::kBadData,
                "{}: hidden_size {} is not a multiple of num_attention_heads {}; correct one of them", where,
                config.hidden_size, config.num_attention_heads);
  }
  const int64_t kv_heads = config.heads_of_keys();
  if (kv_heads < 1 || config.num_attention_heads % kv_heads != 0) {
    throw_error(ErrorCode::kBadData,
                "{}: num_attention_heads {} is not a multiple of num_key_value_heads {}; correct one of them",
                where, config.num_attention_heads, config.num_key_value_heads);
  }
  if (config.head_dim < 0 || config.head_dim > 1024) {
    throw_error(ErrorCode::kBadData, "{}: head_dim is {}, it must be between 1 and 1024; correct the value",
                where, config.head_dim);
  }
}

}  // namespace

ModelConfig parse_model_config(std::string_view text, std::string_view where) {
  const Json json = parse_json_object(text, where);
  const ConfigReader reader(json, where);
  ModelConfig config;
  config.model_type.clear();
  reader.read(config.model_type, "model_type");
  const Architecture* architecture = find_architecture(config.model_type);
  if (architecture == nullptr) refuse_architecture(config.model_type, where);
  architecture->set_defaults(config);
  reader.read(config, kCommonKeys);
  if (const auto pad = json.find("pad_token_id"); pad != json.end() && pad->is_null())
    config.pad_token_id = -1;
  reader.read(config.pad_token_id, "pad_token_id");
  reader.read(config, architecture->config_keys);
  if (architecture->complete) architecture->complete(config, reader);
  architecture->refuse_variants(reader);
  read_labels(config, json, reader, where);
  config.source.dtype = dtype_of(reader);
  config.source.json = std::string(text);
  check_model_config(config, where);
  return config;
}

void check_model_config(const ModelConfig& config, std::string_view where) {
  const auto positive = [&](std::string_view name, int64_t value, int64_t limit) {
    if (value >= 1 && value <= limit) return;
    throw_error(ErrorCode::kBadData, "{}: {} is {}, but it must be between 1 and {}; correct the value",
                where, name, value, limit);
  };
  positive("vocab_size", config.vocab_size, 1 << 24);
  if (config.pad_token_id < -1 || config.pad_token_id >= config.vocab_size) {
    throw_error(ErrorCode::kBadData,
                "{}: pad_token_id is {}, it must be null or between 0 and {}; correct the value", where,
                config.pad_token_id, config.vocab_size - 1);
  }
  positive("hidden_size", config.hidden_size, 1 << 16);
  positive("embedding_size", config.embedding_width(), 1 << 16);
  positive("num_hidden_layers", config.num_hidden_layers, 1024);
  positive("num_attention_heads", config.num_attention_heads, 1024);
  positive("intermediate_size", config.intermediate_size, 1 << 20);
  positive("max_position_embeddings", config.max_position_embeddings, 1 << 20);
  positive("num_labels", config.num_labels, 1 << 20);
  const Architecture& architecture = architecture_of(config.model_type);
  if (architecture.positions == Positions::kLearnedAfterPadding && config.pad_token_id < 0) {
    throw_error(ErrorCode::kBadData,
                "{}: pad_token_id is null, but in a model of type '{}' it determines the first position; set "
                "it to the id of the padding token",
                where, config.model_type);
  }
  if (max_sequence_length(config) < 1) {
    throw_error(ErrorCode::kBadData,
                "{}: max_position_embeddings is {}, but positions start at pad_token_id + 1 = {}, which "
                "leaves no position for a token; correct one of the two values",
                where, config.max_position_embeddings, config.pad_token_id + 1);
  }
  if (architecture.has_token_types) positive("type_vocab_size", config.type_vocab_size, 1 << 16);
  check_heads(config, where);
  for (const std::string& activation : {config.hidden_act, config.classifier_activation}) {
    if (find_activation(activation)) continue;
    std::vector<std::string_view> names;
    names.reserve(std::size(kActivationNames));
    for (const ActivationName& row : kActivationNames) names.push_back(row.name);
    throw_error(ErrorCode::kUsage, "{}: the activation is '{}'; this version computes {}", where, activation,
                fmt::join(names, ", "));
  }
  const auto probability = [&](std::string_view name, double value) {
    if (value >= 0.0 && value < 1.0) return;
    throw_error(ErrorCode::kBadData, "{}: {} is {}, it must be in [0, 1); correct the value", where, name,
                value);
  };
  probability("the hidden dropout", config.hidden_dropout_prob);
  probability("the attention dropout", config.attention_probs_dropout_prob);
  probability("the dropout of the embeddings", config.embedding_dropout_prob.value_or(0.0));
  probability("the classifier's dropout", config.classifier_dropout.value_or(0.0));
  if (!(config.initializer_range >= 0.0)) {
    throw_error(ErrorCode::kBadData, "{}: initializer_range is {}, it must be 0 or above; correct the value",
                where, config.initializer_range);
  }
  if (!(config.layer_norm_eps > 0.0)) {
    throw_error(ErrorCode::kBadData, "{}: layer_norm_eps is {}, but it must be above 0; correct the value",
                where, config.layer_norm_eps);
  }
}

std::string model_config_json(const ModelConfig& config) {
  Json json = config.source.json.empty() ? Json::object() : parse_json(config.source.json, "config.json");
  json["model_type"] = config.model_type;
  json["architectures"] = {hugging_face_class(config)};
  json["pad_token_id"] = config.pad_token_id < 0 ? Json(nullptr) : Json(config.pad_token_id);
  write_config_keys(json, config, kCommonKeys);
  const Architecture& architecture = architecture_of(config.model_type);
  write_config_keys(json, config, architecture.config_keys);
  if (architecture.write_config != nullptr) architecture.write_config(json, config);
  json.erase("num_labels");
  json.erase("_num_labels");
  // The outputs of a language model have no labels.
  const bool has_labels = !config.predicts_tokens();
  Json id2label = Json::object();
  Json label2id = Json::object();
  for (int64_t i = 0; has_labels && i < config.num_labels; ++i) {
    const std::string label =
        config.id2label.empty() ? "LABEL_" + std::to_string(i) : config.id2label[static_cast<size_t>(i)];
    id2label[std::to_string(i)] = label;
    label2id[label] = i;
  }
  if (has_labels) {
    json["id2label"] = id2label;
    json["label2id"] = label2id;
  }
  if (config.problem_type && record_of(*config.problem_type).is_in_config) {
    json["problem_type"] = problem_type_name(*config.problem_type);
  } else if (config.problem_type) {
    json.erase("problem_type");
  }
  json.erase("torch_dtype");
  json["dtype"] = "float32";
  return json.dump(2) + "\n";
}

std::string describe_outputs(const ModelConfig& config) {
  if (config.predicts_tokens()) return fmt::format("logits of {} tokens", config.vocab_size);
  return counted(config.num_labels, "label");
}

namespace {

// Sets a key of config.json, and the same key in nested objects: for example, transformers 4 reads rope_theta at the top level, and
// transformers 5 reads it in rope_parameters. A written configuration contains both, and readers prefer the nested key.
void override_key(Json& json, const std::string& key, const Json& value) {
  json[key] = value;
  for (Json& object : json) {
    if (object.is_object() && object.contains(key)) object[key] = value;
  }
}

}  // namespace

void apply_config_overrides(ModelConfig& config, std::string_view overrides) {
  if (overrides.empty()) return;
  Json json = Json::parse(model_config_json(config));
  while (!overrides.empty()) {
    const size_t comma = overrides.find(',');
    const std::string_view item = overrides.substr(0, comma);
    overrides = comma == std::string_view::npos ? std::string_view() : overrides.substr(comma + 1);
    const size_t equals = item.find('=');
    const std::string key(item.substr(0, equals));
    if (equals == std::string_view::npos) {
      throw_error(ErrorCode::kUsage, "--config_overrides: '{}' has no value; write key=value,key=value",
                  item);
    }
    if (!json.contains(key)) {
      throw_error(ErrorCode::kUsage,
                  "--config_overrides: '{}': the config.json of a {} model has no key '{}'; correct the name",
                  item, config.model_type, key);
    }
    Json value = find_json(item.substr(equals + 1));
    if (value.is_discarded()) value = std::string(item.substr(equals + 1));
    override_key(json, key, value);
  }
  const std::vector<std::string> labels = config.id2label;
  try {
    config = parse_model_config(json.dump(), "--config_overrides");
  } catch (const Json::type_error&) {
    throw_error(ErrorCode::kUsage,
                "--config_overrides: a value is not UTF-8; use the encoding of config.json");
  } catch (const Error& error) {
    // A bad value in a file is reported as kBadData. This one was given on the command line, so it is reported as kUsage.
    throw Error(ErrorCode::kUsage, error.what());
  }
  config.id2label = labels;
}

}  // namespace plimsoll
