#include "arguments/argument_file.h"

#include <yaml-cpp/anchor.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "arguments/value.h"
#include "base/check.h"
#include "base/disguised_file.h"
#include "base/guarded_json.h"
#include "base/text_position.h"
#include "base/utf8.h"

namespace plimsoll {
namespace {

using Json = nlohmann::ordered_json;

// The key "$schema" names the JSON Schema with which editors complete and check a settings file. It is not a setting.
constexpr std::string_view kSchemaKey = "$schema";

// The greatest depth of nesting and the greatest size of a settings file, in JSON and in YAML.
constexpr JsonRules kSettingsRules{.max_depth = 32, .max_bytes = int64_t{16} << 20};

// The text of a settings file, and its name for messages. Messages contain line numbers only if `lines` permits them.
class Source {
 public:
  Source(std::string_view name, std::string_view text, SourceLines lines)
      : name_(name), text_(text), lines_(lines) {}

  std::string at_line(size_t line) const {
    return lines_ == SourceLines::kSay ? fmt::format("{}:{}", name_, line) : std::string(name_);
  }
  std::string at_offset(size_t offset) const { return at_line(position_in(text_, offset).line); }
  // Returns the start of an error message about the byte at this offset: the name, the line and the column.
  std::string at_character(size_t offset) const {
    const TextPosition position = position_in(text_, offset);
    return lines_ == SourceLines::kSay
               ? fmt::format("{}:{}:{}", name_, position.line, position.column)
               : fmt::format("{}: line {}, column {}", name_, position.line, position.column);
  }
  // Refuses NUL bytes and invalid UTF-8 in YAML. Errors: kUsage.
  void require_text() const {
    if (const size_t nul = text_.find('\0'); nul != std::string_view::npos) {
      throw_error(ErrorCode::kUsage, "{}: not YAML: a NUL byte (0x00); a file of settings is text in UTF-8",
                  at_character(nul));
    }
    if (const size_t at = find_invalid_utf8(text_); at < text_.size()) {
      throw_error(ErrorCode::kUsage,
                  "{}: not YAML: byte 0x{:02X} is not valid UTF-8; save the file of settings as UTF-8",
                  at_character(at), static_cast<unsigned>(static_cast<unsigned char>(text_[at])));
    }
  }
  std::string_view text() const { return text_; }

 private:
  std::string_view name_;
  std::string_view text_;
  SourceLines lines_;
};

// Returns a key for a message. A key longer than any name of a setting is shortened.
std::string_view shown(const std::string& key) {
  size_t end = std::min<size_t>(key.size(), 64);
  while (end < key.size() && is_utf8_continuation(key[end])) --end;
  return std::string_view(key).substr(0, end);
}

// Builds a JSON tree from the text of a settings file, and stores at which offset of the text each setting begins.
class SettingsTree : public JsonTree<Json> {
 public:
  explicit SettingsTree(const Source& source) : source_(source) {}

  bool key(std::string& name) override {
    if (depth() == 1) {
      last_setting_ = name;
      const auto [before, is_new] = offsets_.emplace(name, offset());
      if (!is_new) {
        return refuse(fmt::format("{}: the key occurs twice, first on line {}; keep one", shown(name),
                                  position_in(source_.text(), before->second).line));
      }
    }
    return JsonTree::key(name);
  }
  const std::string& last_setting() const { return last_setting_; }
  std::string place_of(const std::string& setting) const { return source_.at_offset(offsets_.at(setting)); }

 private:
  const Source& source_;
  std::map<std::string, size_t> offsets_;
  std::string last_setting_;
};

// Returns the offset of the last byte of a line.
size_t end_of_line(std::string_view text, size_t line) {
  size_t end = text.find('\n');
  for (; line > 1 && end != std::string_view::npos; --line) end = text.find('\n', end + 1);
  return std::min(end, text.size());
}

// Converts a YAML value to JSON in which every scalar is a text. Depth and size are limited, because aliases of YAML
// can refer to themselves or make a small file expand to a huge one.
Json yaml_to_json(const YAML::Node& node, const std::string& where, int depth, size_t& num_nodes) {
  constexpr size_t kMaxNodes = 10000;
  if (depth > kSettingsRules.max_depth || ++num_nodes > kMaxNodes) {
    throw_error(ErrorCode::kUsage,
                "{}: nested deeper than {} levels or more than {} values, which no setting needs", where,
                kSettingsRules.max_depth, kMaxNodes);
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
      if (!item.first.IsScalar())
        throw_error(ErrorCode::kUsage, "{}: a key is not a text; write the name of a setting", where);
      object[item.first.Scalar()] = yaml_to_json(item.second, where, depth + 1, num_nodes);
    }
    return object;
  }
  return Json(nullptr);
}

// Stops yaml-cpp if it makes no progress. At a token that cannot start a document, such as a comma outside of
// brackets, its parser finds one empty document after the other, and LoadAll() would store them until memory
// runs out.
class DocumentsAdvance final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override {
    if (mark.pos == last_) throw YAML::ParserException(mark, "this cannot start a YAML document");
    last_ = mark.pos;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
  }
  void OnMapEnd() override {}

 private:
  int last_ = -1;
};

std::vector<YAML::Node> load_documents(const std::string& text) {
  // The white space at the end of the text is removed first. Otherwise, if a quote is not closed, yaml-cpp accepts the
  // last line end as the closing quote, and all settings after the quote become part of one text.
  std::istringstream stream(text.substr(0, text.find_last_not_of(" \t\r\n") + 1));
  YAML::Parser parser(stream);
  DocumentsAdvance check;
  while (parser.HandleNextDocument(check)) {
  }
  return YAML::LoadAll(text);
}

}  // namespace

bool is_argument_file(std::string_view word) {
  return word.ends_with(".json") || word.ends_with(".yaml") || word.ends_with(".yml");
}

std::string read_argument_text(const std::string& path, std::string_view name) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::is_regular_file(status)) {
    throw_error(ErrorCode::kUsage, "{}: cannot read settings: {}", name,
                std::filesystem::exists(status) ? "it is not a file" : "the file does not exist");
  }
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (!error && std::cmp_greater(size, kSettingsRules.max_bytes)) {
    throw_error(ErrorCode::kUsage,
                "{}: a file of settings may have at most {} bytes, but this one has {}; check that it is the "
                "right file",
                name, kSettingsRules.max_bytes, size);
  }
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file.good() && !(file.eof() && size == 0)) {
    throw_error(ErrorCode::kUsage, "{}: cannot read settings: {}", name, std::strerror(errno));
  }
  std::string read = std::move(text).str();
  try {
    refuse_disguised_text(std::string_view(read).substr(0, kDisguiseBytes), name);
  } catch (const Error& disguised) {
    throw_error(ErrorCode::kUsage, "{}", disguised.what());
  }
  return read;
}

std::vector<Assignment> read_argument_file(const std::string& path) {
  const std::string text = read_argument_text(path, path);
  return path.ends_with(".json") ? read_argument_json(text, path, SourceLines::kSay)
                                 : read_argument_yaml(text, path);
}

std::vector<Assignment> read_argument_json(std::string_view text, std::string_view name, SourceLines lines) {
  const Source source(name, text, lines);
  SettingsTree tree(source);
  if (const auto fault = read_json(text, kSettingsRules, tree)) {
    const bool names_setting = fault->kind == JsonFaultKind::kNumber && !tree.last_setting().empty();
    throw_error(ErrorCode::kUsage, "{}: {}{}{}", source.at_character(fault->offset),
                names_setting ? shown(tree.last_setting()) : "", names_setting ? ": " : "", fault->reason);
  }
  Json document = tree.take();
  if (!document.is_object()) {
    throw_error(ErrorCode::kUsage, "{}: expected one object of settings, got a JSON {}",
                source.at_offset(std::min(text.find_first_not_of(" \t\r\n"), text.size())),
                document.type_name());
  }
  std::vector<Assignment> layer;
  for (auto& [key, value] : document.items()) {
    if (key == kSchemaKey) continue;
    std::string place = tree.place_of(key);
    layer.push_back(
        {key, fmt::format("{}: {}", place, shown(key)), std::move(value), false, std::move(place)});
  }
  return layer;
}

std::vector<Assignment> read_argument_yaml(const std::string& text, std::string_view name) {
  const Source source(name, text, SourceLines::kSay);
  source.require_text();
  constexpr std::string_view kExpected = "expected lines of `setting: value`";
  const auto line_of = [](const YAML::Mark& mark) { return static_cast<size_t>(std::max(mark.line, 0)) + 1; };
  std::vector<Assignment> layer;
  try {
    YAML::Node document;
    for (const YAML::Node& found : load_documents(text)) {
      if (found.IsNull()) continue;
      if (!document.IsNull()) {
        throw_error(ErrorCode::kUsage,
                    "{}: a second document begins here (---); expected only one, with settings",
                    source.at_line(line_of(found.Mark())));
      }
      document.reset(found);
    }
    if (document.IsNull()) return layer;
    if (!document.IsMap()) {
      throw_error(ErrorCode::kUsage, "{}: {}, got {}", source.at_line(line_of(document.Mark())), kExpected,
                  document.IsSequence() ? "a list" : "the text " + in_quotes(document.Scalar()));
    }
    std::map<std::string, size_t> lines;
    size_t num_nodes = 0;
    for (const auto& item : document) {
      const size_t line = line_of(item.first.Mark());
      const std::string place = source.at_line(line);
      if (!item.first.IsScalar()) {
        throw_error(ErrorCode::kUsage, "{}: a key is not a text; {}", place, kExpected);
      }
      const std::string key = item.first.Scalar();
      if (key == kSchemaKey) continue;
      const std::string where = fmt::format("{}: {}", place, shown(key));
      if (const auto [before, is_new] = lines.emplace(key, line); !is_new) {
        throw_error(ErrorCode::kUsage, "{}: the key occurs twice, first on line {}; keep one", where,
                    before->second);
      }
      layer.push_back(
          {key, where, yaml_to_json(item.second, where, 0, num_nodes), item.second.IsScalar(), place});
    }
  } catch (const YAML::Exception& error) {
    const size_t line = line_of(error.mark);
    throw_error(ErrorCode::kUsage, "{}: not YAML: {}, at {}; {}", source.at_line(line), error.msg,
                line_until(text, end_of_line(text, line)), kExpected);
  }
  return layer;
}

}  // namespace plimsoll
