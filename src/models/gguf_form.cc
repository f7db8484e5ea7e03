#include "models/gguf_form.h"

#include <algorithm>

namespace plimsoll {
namespace {

// Returns the part of the name that matches '*' if the pattern matches the name, or "" if a pattern without '*' equals the name. Returns
// nothing if they do not match. '*' only matches digits.
std::optional<std::string_view> match_module(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos)
    return pattern == name ? std::optional(std::string_view()) : std::nullopt;
  const std::string_view before = pattern.substr(0, star), after = pattern.substr(star + 1);
  if (name.size() <= before.size() + after.size() || !name.starts_with(before) || !name.ends_with(after))
    return std::nullopt;
  const std::string_view layer = name.substr(star, name.size() - before.size() - after.size());
  const bool is_number = std::ranges::all_of(layer, [](char c) { return c >= '0' && c <= '9'; });
  return is_number ? std::optional(layer) : std::nullopt;
}

}  // namespace

std::optional<GgufName> gguf_name_of(const GgufForm& form, std::string_view disk_name) {
  const size_t dot = disk_name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  for (const GgufModule& module : form.modules) {
    const auto layer = match_module(module.module, disk_name.substr(0, dot));
    if (!layer) continue;
    std::string name(module.gguf);
    if (const size_t star = name.find('*'); star != std::string::npos) name.replace(star, 1, *layer);
    return GgufName{name.append(disk_name.substr(dot)), module.rows};
  }
  return std::nullopt;
}

}  // namespace plimsoll
