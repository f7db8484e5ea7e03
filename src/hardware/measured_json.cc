#include "hardware/measured_json.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "base/guarded_json.h"

namespace plimsoll {

MeasuredJson::MeasuredJson(std::string_view text, std::string source, const MeasuredKind& kind)
    : source_(std::move(source)), kind_(kind) {
  JsonRules rules;
  if (!kind_.remedy.empty()) rules.remedy = kind_.remedy;
  top_ = parse_json(text, fmt::format("{}: not a valid {}", source_, kind_.name), rules);
  if (!top_.is_object()) fail("the file must contain a JSON object");
  const int version = get<int>(top_, "schema_version");
  if (version == kind_.schema_version) return;
  throw_error(ErrorCode::kBadData, "{}: the {} has schema version {}, but this program reads version {}{}{}",
              source_, kind_.name, version, kind_.schema_version, kind_.remedy.empty() ? "" : "; ",
              kind_.remedy);
}

const nlohmann::json& MeasuredJson::at(const nlohmann::json& object, const std::string& name) const {
  const auto it = object.find(name);
  if (it == object.end()) fail(fmt::format("the key '{}' is missing", name));
  return *it;
}

const nlohmann::json& MeasuredJson::object_at(const nlohmann::json& object, const std::string& name) const {
  const nlohmann::json& value = at(object, name);
  if (!value.is_object()) fail_type(name, value, "an object");
  return value;
}

void MeasuredJson::fail(std::string_view why) const {
  throw_error(ErrorCode::kBadData, "{}: not a valid {}: {}{}{}", source_, kind_.name, why,
              kind_.remedy.empty() ? "" : "; ", kind_.remedy);
}

void MeasuredJson::fail_type(const std::string& name, const nlohmann::json& value,
                             std::string_view expected) const {
  fail(fmt::format("'{}' must be {}, but is of type {}", name, expected, value.type_name()));
}

}  // namespace plimsoll
