#include "arguments/foreign_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "arguments/argument_file.h"
#include "arguments/value.h"
#include "base/check.h"
#include "base/guarded_json.h"

namespace plimsoll {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kAuto = "auto";

bool is_equal_word(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::ranges::equal(a, b, {}, lower, lower);
}

// Converts a text to a number; returns nothing if it is not one.
std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && std::isfinite(value);
  return is_number ? std::optional(value) : std::nullopt;
}

// Converts a text such as "2" or "5e8" to an integer without exponent; returns an empty text if it is not an integer.
std::string integer_text(std::string_view text) {
  int64_t integer = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), integer);
  if (error == std::errc() && end == text.data() + text.size()) return fmt::format("{}", integer);
  // kMost is 2^53. A double represents every integer up to it exactly, but not every larger one.
  constexpr double kMost = 9007199254740992.0;
  const std::optional<double> number = number_of(text);
  if (!number || std::floor(*number) != *number || std::abs(*number) > kMost) return {};
  return fmt::format("{}", static_cast<int64_t>(*number));
}

std::string_view expected_type(KeyType type) {
  switch (type) {
    case KeyType::kFlag:
      return "true or false";
    case KeyType::kInteger:
      return "an integer";
    case KeyType::kNumber:
      return "a number";
    case KeyType::kText:
      return "a text";
    case KeyType::kNumbers:
      return "a list of two numbers";
    case KeyType::kAny:
      return "a value";
    case KeyType::kSection:
      break;
  }
  return "an object";
}

// Returns the value of a key as it would be written on the command line, or an empty text if the value cannot be one of the key's type, such
// as a list for a number. In YAML, the value of a flag or of a number may be a text.
std::string scalar_text(KeyType type, const Json& value) {
  const bool is_text = value.is_string();
  std::string text = is_text ? value.get<std::string>() : value.dump();
  switch (type) {
    case KeyType::kFlag: {
      const std::optional<bool> flag = value.is_structured() ? std::optional<bool>() : bool_from_text(text);
      return flag ? (*flag ? "True" : "False") : "";
    }
    case KeyType::kInteger:
      return is_text || value.is_number() ? integer_text(text) : "";
    case KeyType::kNumber: {
      const std::optional<double> number =
          is_text || value.is_number() ? number_of(text) : std::optional<double>();
      return number ? fmt::format("{}", *number) : "";
    }
    case KeyType::kText:
      return is_text ? text : "";
    case KeyType::kAny:
      return text;
    case KeyType::kNumbers:
    case KeyType::kSection:
      break;
  }
  return {};
}

// Returns a value of a configuration as JSON for a message, cut to 60 characters if it is longer.
std::string shown_value(const Json& value) {
  constexpr size_t kShown = 60;
  // Characters that are not ASCII are escaped, so that the text cannot be cut in the middle of a character.
  const std::string text = value.dump(-1, ' ', true);
  return text.size() <= kShown ? text : text.substr(0, kShown) + "...";
}

// Returns true if a section of a configuration is empty or contains "enabled": false.
bool is_disabled(const Json& section) {
  if (section.empty()) return true;
  const auto enabled = section.find("enabled");
  return enabled != section.end() && scalar_text(KeyType::kFlag, *enabled) == "False";
}

// Reads all keys of one configuration of another program, and collects the settings that they set.
class Reader {
 public:
  Reader(const ForeignKeys& table, std::string_view name) : table_(table) { config_.name = name; }

  void read(const std::string& path, const Json& value) {
    const ForeignKey* key = find_key(table_, path);
    if (key == nullptr && !is_section(table_, path)) {
      const std::string hint = did_you_mean_key(table_, path);
      throw_error(ErrorCode::kUsage, "{}: unknown key{}", where(path), hint.empty() ? "; remove it" : hint);
    }
    if (value.is_null()) return;
    if (key != nullptr) {
      read_value(*key, path, value);
    } else if (value.is_object()) {
      for (const auto& [name, inner] : value.items()) read(fmt::format("{}.{}", path, name), inner);
    } else if (value != Json(false)) {
      fail_type(path, "an object", value);
    }
  }

  ForeignConfig take() { return std::move(config_); }

 private:
  std::string where(const std::string& path) const {
    return fmt::format("{}: {}", config_.name, in_quotes(path));
  }

  [[noreturn]] void fail_type(const std::string& path, std::string_view expected, const Json& value) const {
    throw_error(ErrorCode::kUsage, "{}: expected {}, got {}", where(path), expected, describe_json(value));
  }

  void read_value(const ForeignKey& key, const std::string& path, const Json& value) {
    if (key.type == KeyType::kSection) {
      read_section(key, path, value);
      return;
    }
    if (value.is_string() && value.get_ref<const std::string&>() == kAuto) return;
    if (key.type == KeyType::kNumbers) {
      read_list(key, path, value);
      return;
    }
    const std::string text = scalar_text(key.type, value);
    if (text.empty() && key.type != KeyType::kText && key.type != KeyType::kAny)
      fail_type(path, expected_type(key.type), value);
    if (key.type == KeyType::kText && !value.is_string()) fail_type(path, "a text", value);
    if (key.use == KeyUse::kNoEffect) {
      config_.unused.push_back(path);
    } else if (key.use == KeyUse::kRefused) {
      refuse_unless_inert(key, path, value, text);
    } else {
      set(key, path, value, text);
    }
  }

  // Reads a section for which the table of keys has a single row. The keys in the section are not checked.
  void read_section(const ForeignKey& key, const std::string& path, const Json& value) {
    if (value == Json(false)) return;
    if (!value.is_object()) fail_type(path, "an object", value);
    if (is_disabled(value)) return;
    if (key.use == KeyUse::kNoEffect) {
      config_.unused.push_back(path);
      return;
    }
    throw_error(ErrorCode::kUsage, "{}: {}; remove the section", where(path), key.note);
  }

  void read_list(const ForeignKey& key, const std::string& path, const Json& value) {
    const size_t split = key.setting.find('|');
    const bool is_pair = value.is_array() && value.size() == 2;
    const std::string first = is_pair ? scalar_text(KeyType::kNumber, value[0]) : "";
    const std::string second = is_pair ? scalar_text(KeyType::kNumber, value[1]) : "";
    if (first.empty() || second.empty()) fail_type(path, expected_type(key.type), value);
    add(key, path, value[0], key.setting.substr(0, split), first);
    add(key, path, value[1], key.setting.substr(split + 1), second);
  }

  void refuse_unless_inert(const ForeignKey& key, const std::string& path, const Json& value,
                           const std::string& text) const {
    const std::vector<std::string_view> inert = split_choices(key.values);
    if (std::ranges::any_of(inert, [&](std::string_view word) { return is_equal_word(word, text); })) return;
    if (inert.empty()) throw_error(ErrorCode::kUsage, "{}: {}", where(path), key.note);
    throw_error(ErrorCode::kUsage, "{} is {}: {}; remove the key", where(path), shown_value(value), key.note);
  }

  void set(const ForeignKey& key, const std::string& path, const Json& value, const std::string& text) {
    if (key.values.empty()) {
      add(key, path, value, key.setting, text);
      return;
    }
    std::vector<std::string_view> words;
    for (const std::string_view pair : split_choices(key.values)) {
      const size_t equals = pair.find('=');
      words.push_back(pair.substr(0, equals));
      if (!is_equal_word(words.back(), text)) continue;
      const std::string_view target = pair.substr(equals + 1);
      if (!target.empty()) add(key, path, value, key.setting, std::string(target));
      return;
    }
    throw_error(ErrorCode::kUsage, "{} is {}, which is not one of {}{}{}", where(path), shown_value(value),
                fmt::join(words, ", "), key.note.empty() ? "" : ": ", key.note);
  }

  void add(const ForeignKey& key, const std::string& path, const Json& value, std::string_view setting,
           std::string text) {
    config_.values.push_back({.key = &key,
                              .where = where(path),
                              .shown = shown_value(value),
                              .setting = std::string(setting),
                              .text = std::move(text)});
  }

  const ForeignKeys& table_;
  ForeignConfig config_;
};

// Handles keys that are missing in the schedule of a DeepSpeed configuration: sets the value that DeepSpeed uses by
// default, or adds a note that the default of Plimsoll differs from it.
void complete_schedule(const Json& scheduler, ForeignConfig& config) {
  const auto sets = [&](std::string_view setting) {
    return std::ranges::find(config.values, setting, &ForeignValue::setting);
  };
  const auto type = sets("lr_scheduler_type");
  if (type == config.values.end()) return;
  const auto params = scheduler.find("params");
  const bool has_params = params != scheduler.end() && params->is_object();
  if (!has_params || !params->contains("warmup_type")) {
    config.notes.push_back(fmt::format(
        "{} is {}: the warm-up is linear here; DeepSpeed's default without 'warmup_type' is logarithmic",
        type->where, type->shown));
  }
  constexpr std::string_view kLeast = "lr_scheduler_kwargs.min_lr_rate";
  if (type->text == "cosine_with_min_lr" && sets(kLeast) == config.values.end()) {
    ForeignValue least = *type;
    least.setting = kLeast;
    least.text = "0.0001";  // default value of cos_min_ratio in DeepSpeed
    config.values.push_back(std::move(least));
  }
}

// DeepSpeed has one key for the device of the optimizer states and another for their folder, while --offload_optimizer
// contains both. This function joins them. The folder has no effect for other devices than nvme. Errors: kUsage for the
// device nvme without a folder.
void join_nvme_path(ForeignConfig& config) {
  const auto value_of = [&](std::string_view path) {
    return std::ranges::find_if(config.values, [&](const ForeignValue& value) {
      return value.key != nullptr && value.key->path == path;
    });
  };
  // The table of keys gives the device nvme this value, in which FOLDER is a placeholder for the folder of nvme_path.
  constexpr std::string_view kNvmeFolder = "nvme:FOLDER";
  constexpr std::string_view kPath = "zero_optimization.offload_optimizer.nvme_path";
  const auto device = value_of("zero_optimization.offload_optimizer.device");
  const auto folder = value_of(kPath);
  const bool is_on_disk = device != config.values.end() && device->text == kNvmeFolder;
  if (is_on_disk) {
    if (folder == config.values.end() || folder->text.empty()) {
      throw_error(ErrorCode::kUsage,
                  "{} is {}, but the section has no nvme_path; add the folder of a disk with room for the "
                  "optimizer's "
                  "states",
                  device->where, device->shown);
    }
    device->text = "nvme:" + folder->text;
  }
  if (folder == config.values.end()) return;
  if (!is_on_disk) config.unused.emplace_back(kPath);
  config.values.erase(folder);
}

}  // namespace

ForeignConfig read_foreign_config(const ForeignKeys& table, std::string_view text, std::string_view name) {
  Reader reader(table, name);
  Json scheduler;
  for (const Assignment& assignment : read_argument_json(text, name, SourceLines::kSay)) {
    std::string path = assignment.name;
    if (!table.prefix.empty() && path.starts_with(table.prefix)) path.erase(0, table.prefix.size());
    reader.read(path, assignment.value);
    if (path == "scheduler") scheduler = assignment.value;
  }
  ForeignConfig config = reader.take();
  if (scheduler.is_object()) complete_schedule(scheduler, config);
  join_nvme_path(config);
  return config;
}

ForeignConfig read_fsdp_options(std::string_view text) {
  constexpr std::string_view kName = "--fsdp";
  Reader reader(fsdp_options(), kName);
  const Json list = find_json<Json>(text);
  std::vector<std::string> words;
  if (list.is_array()) {
    for (const Json& word : list) {
      if (!word.is_string()) {
        throw_error(ErrorCode::kUsage, "--fsdp: expected a list of options such as full_shard, got {}",
                    describe_json(word));
      }
      words.push_back(word.get<std::string>());
    }
  } else if (!bool_from_text(text)) {
    std::string word;
    for (const char c : text) {
      if (c != ' ' && c != ',') {
        word += c;
      } else if (!word.empty()) {
        words.push_back(std::exchange(word, {}));
      }
    }
    if (!word.empty()) words.push_back(word);
  }
  for (const std::string& word : words) {
    if (find_key(fsdp_options(), word) == nullptr) {
      std::vector<std::string_view> names;
      for (const ForeignKey& option : fsdp_options().keys) names.push_back(option.path);
      throw_error(ErrorCode::kUsage, "--fsdp: {} is not one of {}{}", in_quotes(word), fmt::join(names, ", "),
                  did_you_mean(word, names));
    }
    reader.read(word, Json(true));
  }
  return reader.take();
}

}  // namespace plimsoll
