#include "arguments/foreign_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "arguments/argument_table.h"

namespace plimsoll {
namespace {

#define PLIMSOLL_KEY(path, type, use, setting, values, note) \
  ForeignKey{path, KeyType::type, KeyUse::use, setting, values, note},

constexpr std::array kDeepspeedKeys = {
#include "arguments/deepspeed_keys.inc"
};
constexpr std::array kFsdpKeys = {
#include "arguments/fsdp_keys.inc"
};
constexpr std::array kFsdpOptions = {
#include "arguments/fsdp_options.inc"
};
constexpr std::array kParallelismKeys = {
#include "arguments/parallelism_keys.inc"
};
#undef PLIMSOLL_KEY

// Returns the section of a key: "a.b" for "a.b.c", and an empty text for "a".
std::string_view section_of(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view{} : path.substr(0, dot);
}

std::string_view name_of(std::string_view path) {
  return path.substr(path.rfind('.') + 1);  // without a dot, rfind() is npos, and npos + 1 is 0
}

std::string escaped_text(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '|' || c == '*' || c == '<') result += '\\';
    result += c;
  }
  return result;
}

// Lists the values of a key with the values of the setting that they become: "AdamW: adamw_torch, Lion: lion_32bit".
std::string listed_values(std::string_view values) {
  std::string text;
  for (const std::string_view pair : split_choices(values)) {
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos || equals + 1 == pair.size()) continue;
    text +=
        fmt::format("{}{}: {}", text.empty() ? "" : ", ", pair.substr(0, equals), pair.substr(equals + 1));
  }
  return text;
}

std::string listed_settings(std::string_view settings) {
  std::string text;
  for (const std::string_view name : split_choices(settings))
    text += fmt::format("{}`{}`", text.empty() ? "" : " and ", name);
  return text;
}

std::string meaning_of(const ForeignKey& key) {
  switch (key.use) {
    case KeyUse::kSets: {
      const std::string values = listed_values(key.values);
      return values.empty() ? listed_settings(key.setting)
                            : fmt::format("{} ({})", listed_settings(key.setting), escaped_text(values));
    }
    case KeyUse::kEquals:
      return fmt::format("must equal {}: {}", listed_settings(key.setting), escaped_text(key.note));
    case KeyUse::kSize:
      return fmt::format("{}: {}", listed_settings(key.setting), escaped_text(key.note));
    case KeyUse::kNoEffect:
      return fmt::format("no effect: {}", escaped_text(key.note));
    case KeyUse::kRefused:
      break;
  }
  std::string accepted;
  for (const std::string_view value : split_choices(key.values))
    accepted += fmt::format("{}{}", accepted.empty() ? " unless " : " or ", value);
  return fmt::format("refused{}: {}", accepted, escaped_text(key.note));
}

void append_table(std::string& out, std::string_view title, const ForeignKeys& table) {
  out += fmt::format("\n### {}\n\n| key | here |\n|---|---|\n", title);
  for (const ForeignKey& key : table.keys) out += fmt::format("| `{}` | {} |\n", key.path, meaning_of(key));
}

}  // namespace

const ForeignKeys& deepspeed_keys() {
  static constexpr ForeignKeys kTable = {.argument = "deepspeed", .prefix = {}, .keys = kDeepspeedKeys};
  return kTable;
}

const ForeignKeys& fsdp_keys() {
  static constexpr ForeignKeys kTable = {.argument = "fsdp_config", .prefix = "fsdp_", .keys = kFsdpKeys};
  return kTable;
}

const ForeignKeys& fsdp_options() {
  static constexpr ForeignKeys kTable = {.argument = "fsdp", .prefix = {}, .keys = kFsdpOptions};
  return kTable;
}

const ForeignKeys& parallelism_keys() {
  static constexpr ForeignKeys kTable = {
      .argument = "parallelism_config", .prefix = "parallelism_config_", .keys = kParallelismKeys};
  return kTable;
}

const ForeignKey* find_key(const ForeignKeys& table, std::string_view path) {
  const auto found = std::ranges::find(table.keys, path, &ForeignKey::path);
  if (found != table.keys.end()) return &*found;
  const std::string others = fmt::format("{}.*", section_of(path));
  const auto rest = std::ranges::find(table.keys, std::string_view(others), &ForeignKey::path);
  return rest == table.keys.end() ? nullptr : &*rest;
}

bool is_section(const ForeignKeys& table, std::string_view path) {
  return std::ranges::any_of(table.keys, [&](const ForeignKey& key) {
    return key.path.size() > path.size() && key.path.starts_with(path) && key.path[path.size()] == '.';
  });
}

std::string did_you_mean_key(const ForeignKeys& table, std::string_view path) {
  std::vector<std::string_view> siblings, all;
  for (const ForeignKey& key : table.keys) {
    // If another section has a key of this name, the suggestion is its full name with the section.
    if (name_of(key.path) == name_of(path)) return did_you_mean(key.path, {key.path});
    if (key.path.ends_with('*')) continue;
    all.push_back(key.path);
    if (section_of(key.path) == section_of(path)) siblings.push_back(key.path);
    // Sections next to the unknown key are suggested too: for example "zero_optimization" for an unknown key at the top
    // level.
    for (std::string_view section = section_of(key.path); !section.empty(); section = section_of(section))
      if (section_of(section) == section_of(path)) siblings.push_back(section);
  }
  const std::string near = did_you_mean(path, siblings);
  return near.empty() ? did_you_mean(path, all) : near;
}

std::string foreign_keys_markdown() {
  std::string out =
      "\n## Keys of other configurations\n\n"
      "`--deepspeed`, `--fsdp_config` and `--parallelism_config` take a JSON file or a JSON object. `null` "
      "and "
      "`\"auto\"` mean the value\nof the argument. A value for an argument that is not given sets it; a "
      "value "
      "that differs from an argument that is given is an error\nthat names both. A key that is not in these "
      "tables is an error that suggests the nearest one.\n";
  append_table(out, "DeepSpeed", deepspeed_keys());
  append_table(out, "Options of --fsdp", fsdp_options());
  append_table(out, "--fsdp_config", fsdp_keys());
  append_table(out, "--parallelism_config", parallelism_keys());
  return out;
}

}  // namespace plimsoll
