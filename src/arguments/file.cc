#include "arguments/file.h"

#include <yaml-cpp/yaml.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "base/check.h"

namespace plimsoll {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxDepth = 32;
constexpr uintmax_t kMaxFileBytes = uintmax_t{16} << 20;

std::string read_text(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::is_regular_file(status)) {
    throw_error(ErrorCode::kUsage, "{}: cannot read settings: {}", path,
                std::filesystem::exists(status) ? "it is not a file" : "there is no such file");
  }
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (!error && size > kMaxFileBytes) {
    throw_error(ErrorCode::kUsage, "{}: a file of settings has at most {} bytes, this one has {}", path,
                kMaxFileBytes, size);
  }
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file.good() && !(file.eof() && size == 0)) {
    throw_error(ErrorCode::kUsage, "{}: cannot read settings: {}", path, std::strerror(errno));
  }
  return std::move(text).str();
}

// The position that is in nlohmann's message, without the rest of it.
std::string json_complaint(const std::string& message) {
  const size_t at = message.find("at line ");
  return at == std::string::npos ? message : message.substr(at);
}

// A key for a message; one that is longer than any setting's name is cut.
std::string_view shown(const std::string& key) {
  return std::string_view(key).substr(0, 64);
}

// A YAML value as JSON in which every scalar is a text. Aliases can form a cycle or a bomb: depth and size
// are limited.
Json yaml_to_json(const YAML::Node& node, const std::string& where, int depth, size_t& num_nodes) {
  constexpr size_t kMaxNodes = 10000;
  if (depth > kMaxDepth || ++num_nodes > kMaxNodes) {
    throw_error(ErrorCode::kUsage, "{}: nested deeper than {} or more than {} values", where, kMaxDepth,
                kMaxNodes);
  }
  if (node.IsScalar()) return Json(node.Scalar());
  if (node.IsSequence()) {
    Json list = Json::array();
    for (const YAML::Node& item : node) list.push_back(yaml_to_json(item, where, depth + 1, num_nodes));
    return list;
  }
  if (node.IsMap()) {
    Json object = Json::object();
    for (const auto& item : node) {
      if (!item.first.IsScalar()) throw_error(ErrorCode::kUsage, "{}: a key is not a text", where);
      object[item.first.Scalar()] = yaml_to_json(item.second, where, depth + 1, num_nodes);
    }
    return object;
  }
  return Json(nullptr);
}

}  // namespace

bool is_argument_file(std::string_view word) {
  return word.ends_with(".json") || word.ends_with(".yaml") || word.ends_with(".yml");
}

std::vector<Assignment> read_argument_file(const std::string& path) {
  const std::string text = read_text(path);
  return path.ends_with(".json") ? read_argument_json(text, path) : read_argument_yaml(text, path);
}

std::vector<Assignment> read_argument_json(std::string_view text, std::string_view source) {
  std::set<std::string> keys;
  const Json::parser_callback_t watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kMaxDepth) throw_error(ErrorCode::kUsage, "{}: nested deeper than {}", source, kMaxDepth);
    if (event == Json::parse_event_t::key && depth == 1 && !keys.insert(parsed.get<std::string>()).second) {
      throw_error(ErrorCode::kUsage, "{}: {}: the key is there twice", source,
                  shown(parsed.get_ref<const std::string&>()));
    }
    return true;
  };
  Json document;
  try {
    document = Json::parse(text, watch);
  } catch (const Json::exception& error) {
    throw_error(ErrorCode::kUsage, "{}: not JSON: {}", source, json_complaint(error.what()));
  }
  if (!document.is_object()) {
    throw_error(ErrorCode::kUsage, "{}: expected one object of settings, got a JSON {}", source,
                document.type_name());
  }
  std::vector<Assignment> layer;
  for (auto& [key, value] : document.items()) {
    layer.push_back({key, fmt::format("{}: {}", source, shown(key)), std::move(value), false});
  }
  return layer;
}

std::vector<Assignment> read_argument_yaml(const std::string& text, std::string_view source) {
  std::vector<Assignment> layer;
  try {
    const YAML::Node document = YAML::Load(text);
    if (document.IsNull()) return layer;
    if (!document.IsMap()) throw_error(ErrorCode::kUsage, "{}: expected lines of `setting: value`", source);
    std::set<std::string> keys;
    size_t num_nodes = 0;
    for (const auto& item : document) {
      const int line = item.first.Mark().line + 1;
      if (!item.first.IsScalar()) throw_error(ErrorCode::kUsage, "{}:{}: a key is not a text", source, line);
      const std::string key = item.first.Scalar();
      const std::string where = fmt::format("{}:{}: {}", source, line, shown(key));
      if (!keys.insert(key).second) throw_error(ErrorCode::kUsage, "{}: the key is there twice", where);
      layer.push_back({key, where, yaml_to_json(item.second, where, 0, num_nodes), item.second.IsScalar()});
    }
  } catch (const YAML::Exception& error) {
    throw_error(ErrorCode::kUsage, "{}:{}: not YAML: {}", source, error.mark.line + 1, error.msg);
  }
  return layer;
}

}  // namespace plimsoll
