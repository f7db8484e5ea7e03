#include "arguments/value.h"

#include <algorithm>
#include <map>

#include "arguments/argument_table.h"
#include "base/check.h"
#include "base/utf8.h"

namespace plimsoll {
namespace {

void set_value(const Assignment& assignment, const Setting& setting, ParseResult& result) {
  const auto* text = assignment.value.get_ptr<const std::string*>();
  const OldValue* old = text == nullptr ? nullptr : find_old_value(setting.info.name, *text);
  if (old != nullptr) {
    set_from_text(result.arguments, setting, old->replacement, assignment.where);
    result.warnings.push_back(fmt::format("{} {} is an old name, read as --{} {}", assignment.where,
                                          old->value, old->setting, old->replacement));
  } else if (assignment.is_text) {
    set_from_text(result.arguments, setting, assignment.value.get_ref<const std::string&>(),
                  assignment.where);
  } else {
    set_from_json(result.arguments, setting, assignment.value, assignment.where);
  }
  result.explicitly_set.emplace(setting.info.name);
}

// Returns the value of a flag that was given under an old name. In a settings file the value null means False.
bool flag_value(const Assignment& assignment) {
  if (assignment.value.is_null()) return false;
  if (assignment.value.is_boolean()) return assignment.value.get<bool>();
  const auto flag = assignment.value.is_string()
                        ? bool_from_text(assignment.value.get_ref<const std::string&>())
                        : std::optional<bool>{};
  if (!flag) {
    throw_error(ErrorCode::kUsage, "{}: expected True or False, got {}", assignment.where,
                assignment.value.dump());
  }
  return *flag;
}

void set_old(const Assignment& assignment, const OldName& old, bool replacement_is_given,
             ParseResult& result) {
  if (old.replacement.empty()) {
    result.warnings.push_back(fmt::format("{} is ignored: {}", assignment.where, old.note));
    return;
  }
  const Setting* setting = find_setting(old.replacement);
  PLIMSOLL_CHECK(setting != nullptr,
                 "the setting that replaces the old name {} must exist, but {} is not a setting", old.name,
                 old.replacement);
  if (replacement_is_given) {
    result.warnings.push_back(fmt::format("{0} is {1} name of {2}, and the value given as {2} is used",
                                          assignment.where, old.kind == NameKind::kPeft ? "PEFT's" : "an old",
                                          old.replacement));
    return;
  }
  if (old.true_value.empty()) {
    set_value(assignment, *setting, result);
  } else if (flag_value(assignment)) {
    set_from_text(result.arguments, *setting, old.true_value, assignment.where);
    result.explicitly_set.emplace(old.replacement);
  } else {
    result.warnings.push_back(fmt::format("{} is an old name, and its value False has no effect; see {}",
                                          assignment.where, old.replacement));
    return;
  }
  if (old.name == "warmup_ratio" && result.arguments.warmup_steps >= 1.0) {
    throw_error(ErrorCode::kUsage, "{}: {} is outside [0, 1); --warmup_steps takes a number of steps",
                assignment.where, result.arguments.warmup_steps);
  }
  if (old.kind == NameKind::kPeft) return;
  const std::string value = setting->is_secret() ? "..." : format_value(result.arguments, *setting);
  result.warnings.push_back(
      fmt::format("{} is an old name, read as --{} {}", assignment.where, old.replacement, value));
}

// Checks that a value is valid UTF-8, because settings are saved as JSON with the results of a run. Values in
// files are checked when the file is read.
void require_utf8(const Assignment& assignment) {
  for (const std::string* text : {&assignment.name, assignment.value.get_ptr<const std::string*>()}) {
    const size_t at = text == nullptr ? 0 : find_invalid_utf8(*text);
    if (text == nullptr || at == text->size()) continue;
    const nlohmann::json where = assignment.where;
    throw_error(
        ErrorCode::kUsage,
        "{}: not UTF-8: byte 0x{:02X} at offset {}; write it in UTF-8, and if it is the path of a file, "
        "rename the file",
        where.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
        static_cast<unsigned>(static_cast<unsigned char>((*text)[at])), at);
  }
}

}  // namespace

void apply_layer(const std::vector<Assignment>& layer, ParseResult& result) {
  std::map<std::string, const Assignment*> last;
  for (const Assignment& assignment : layer) {
    require_utf8(assignment);
    const auto [slot, is_new] = last.emplace(assignment.name, &assignment);
    if (is_new) continue;
    if (slot->second->value != assignment.value && find_setting(assignment.name) != nullptr) {
      result.warnings.push_back(
          fmt::format("{} is given more than once; the last value is used", assignment.where));
    }
    slot->second = &assignment;
  }
  for (const Assignment& assignment : layer) {
    if (last.at(assignment.name) != &assignment) continue;
    if (const Setting* setting = find_setting(assignment.name)) {
      set_value(assignment, *setting, result);
    } else if (const OldName* old = find_old_name(assignment.name)) {
      set_old(assignment, *old, last.contains(std::string(old->replacement)), result);
    } else {
      throw_error(ErrorCode::kUsage, "{}: unknown setting{}", assignment.where,
                  did_you_mean_setting(assignment.name));
    }
  }
}

}  // namespace plimsoll
