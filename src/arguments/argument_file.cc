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
#include "base/counting_iterator.h"
#include "base/disguised_file.h"
#include "base/utf8.h"

namespace plimsoll {
namespace {

using Json = nlohmann::ordered_json;

// The key "$schema" names the JSON Schema with which editors complete and check a settings file. It is not a setting.
constexpr std::string_view kSchemaKey = "$schema";

constexpr int kMaxDepth = 32;
constexpr uintmax_t kMaxFileBytes = uintmax_t{16} << 20;

// A position in a text. Lines and columns count from 1; a column is one code point.
struct Position {
  size_t line = 1;
  size_t column = 1;
};

Position position_of(std::string_view text, size_t offset) {
  Position position;
  for (const char byte : text.substr(0, offset)) {
    if (byte == '\n') {
      ++position.line;
      position.column = 1;
    } else if (!is_utf8_continuation(byte)) {
      ++position.column;
    }
  }
  return position;
}

// Returns the line up to and including the byte at the offset, shortened at the start if it is long.
std::string line_until(std::string_view text, size_t offset) {
  constexpr size_t kShown = 40;
  text = text.substr(0, offset + 1);
  while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
  // In the first line find_last_of() returns npos, and npos + 1 is 0.
  text.remove_prefix(text.find_last_of('\n') + 1);
  const size_t first = std::min(text.find_first_not_of(" \t"), text.size());
  size_t begin = std::max(first, text.size() - std::min(kShown, text.size()));
  while (begin < text.size() && is_utf8_continuation(text[begin])) ++begin;
  return fmt::format("'{}{}'", begin > first ? "..." : "", text.substr(begin));
}

// The text of a settings file and its name for messages. Messages contain line numbers if `lines` permits it.
class Source {
 public:
  Source(std::string_view name, std::string_view text, SourceLines lines)
      : name_(name), text_(text), lines_(lines) {}

  std::string at_line(size_t line) const {
    return lines_ == SourceLines::kSay ? fmt::format("{}:{}", name_, line) : std::string(name_);
  }
  std::string at_offset(size_t offset) const { return at_line(position_of(text_, offset).line); }
  // Returns the start of a message about a syntax error, with line and column.
  std::string at_character(size_t offset) const {
    const Position position = position_of(text_, offset);
    return lines_ == SourceLines::kSay
               ? fmt::format("{}:{}:{}", name_, position.line, position.column)
               : fmt::format("{}: line {}, column {}", name_, position.line, position.column);
  }
  // Throws if the text contains NUL bytes or invalid UTF-8. Errors: kUsage.
  void require_text(std::string_view language) const {
    if (const size_t nul = text_.find('\0'); nul != std::string_view::npos) {
      throw_error(ErrorCode::kUsage, "{}: not {}: a NUL byte (0x00); a file of settings is text in UTF-8",
                  at_character(nul), language);
    }
    if (const size_t at = find_invalid_utf8(text_); at < text_.size()) {
      throw_error(ErrorCode::kUsage,
                  "{}: not {}: byte 0x{:02X} is not valid UTF-8; save the file of settings as UTF-8",
                  at_character(at), language, static_cast<unsigned>(static_cast<unsigned char>(text_[at])));
    }
  }
  std::string_view text() const { return text_; }

 private:
  std::string_view name_;
  std::string_view text_;
  SourceLines lines_;
};

// Throws the error for text that is not valid JSON. The JSON library's message is a number and a position, then "...
// while parsing value - unexpected '}'; last read: '...'; expected ...". The part from "last read" is replaced by an
// excerpt of the text itself. `num_taken` is the number of bytes that were read, `key` the last setting that was read.
[[noreturn]] void fail_json(const Source& source, size_t num_taken, const std::string& key,
                            const Json::exception& error) {
  const std::string_view text = source.text();
  const size_t at = num_taken == 0 ? 0 : std::min(num_taken, text.size()) - (num_taken > text.size() ? 0 : 1);
  std::string what = error.what();
  constexpr int kNumberOverflow = 406;
  if (error.id == kNumberOverflow) {
    const size_t begin = what.find('\'');
    throw_error(
        ErrorCode::kUsage, "{}: {}: expected a number of at most 1.8e308, got {}", source.at_offset(at), key,
        begin == std::string::npos ? what : in_quotes(what.substr(begin + 1, what.size() - begin - 2)));
  }
  if (const size_t begin = what.find(" - "); begin != std::string::npos) what.erase(0, begin + 3);
  if (const size_t begin = what.find("last read: "); begin != std::string::npos) {
    const size_t end = what.find("; expected ", begin);
    const size_t from = begin >= 2 ? begin - 2 : begin;  // the "; " before "last read: " is removed too
    what.erase(from, end == std::string::npos ? std::string::npos : end - from);
  }
  throw_error(ErrorCode::kUsage, "{}: not JSON: {}, in {}", source.at_character(at), what,
              line_until(text, at));
}

// Returns a key for a message. A key that is longer than any name of a setting is shortened.
std::string_view shown(const std::string& key) {
  size_t end = std::min<size_t>(key.size(), 64);
  while (end < key.size() && is_utf8_continuation(key[end])) --end;
  return std::string_view(key).substr(0, end);
}

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
  if (depth > kMaxDepth || ++num_nodes > kMaxNodes) {
    throw_error(ErrorCode::kUsage,
                "{}: nested deeper than {} levels or more than {} values, which no setting needs", where,
                kMaxDepth, kMaxNodes);
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
  if (!error && size > kMaxFileBytes) {
    throw_error(ErrorCode::kUsage,
                "{}: a file of settings may have at most {} bytes, but this one has {}; check that it is the "
                "right file",
                name, kMaxFileBytes, size);
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
  source.require_text("JSON");
  struct Key {
    size_t offset = 0;
    std::string place;
  };
  std::map<std::string, Key> keys;
  std::string last_key;
  size_t num_taken = 0;
  const Json::parser_callback_t watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    const size_t at = num_taken == 0 ? 0 : num_taken - 1;
    if (depth > kMaxDepth) {
      throw_error(ErrorCode::kUsage, "{}: nested deeper than {} levels, which no setting needs",
                  source.at_offset(at), kMaxDepth);
    }
    if (event != Json::parse_event_t::key || depth != 1) return true;
    last_key = parsed.get<std::string>();
    const std::string place = source.at_offset(at);
    const auto [before, is_new] = keys.emplace(last_key, Key{at, place});
    if (!is_new) {
      throw_error(ErrorCode::kUsage, "{}: {}: the key occurs twice, first on line {}; keep one", place,
                  shown(last_key), position_of(text, before->second.offset).line);
    }
    return true;
  };
  Json document;
  try {
    document = Json::parse(CountingIterator(text.data(), &num_taken),
                           CountingIterator(text.data() + text.size(), &num_taken), watch);
  } catch (const Json::exception& error) {
    fail_json(source, num_taken, std::string(shown(last_key)), error);
  }
  if (!document.is_object()) {
    throw_error(ErrorCode::kUsage, "{}: expected one object of settings, got a JSON {}",
                source.at_offset(std::min(text.find_first_not_of(" \t\r\n"), text.size())),
                document.type_name());
  }
  std::vector<Assignment> layer;
  for (auto& [key, value] : document.items()) {
    if (key == kSchemaKey) continue;
    const std::string& place = keys.at(key).place;
    layer.push_back({key, fmt::format("{}: {}", place, shown(key)), std::move(value), false, place});
  }
  return layer;
}

std::vector<Assignment> read_argument_yaml(const std::string& text, std::string_view name) {
  const Source source(name, text, SourceLines::kSay);
  source.require_text("YAML");
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
