#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/problem_type.h"
#include "models/architecture.h"

namespace plimsoll {

#define PLIMSOLL_ARCHITECTURE(function) const Architecture& function();
#include "models/architectures.inc"
#undef PLIMSOLL_ARCHITECTURE

std::span<const Architecture* const> architectures() {
#define PLIMSOLL_ARCHITECTURE(function) &function(),
  static const std::array all{
#include "models/architectures.inc"
  };
#undef PLIMSOLL_ARCHITECTURE
  return all;
}

const Architecture* find_architecture(std::string_view model_type) {
  const auto all = architectures();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Architecture* architecture) {
    return architecture->model_type == model_type;
  });
  return found == all.end() ? nullptr : *found;
}

const Architecture& architecture_of(std::string_view model_type) {
  const Architecture* architecture = find_architecture(model_type);
  PLIMSOLL_CHECK(architecture != nullptr, "no architecture has the model_type '{}'", model_type);
  return *architecture;
}

namespace {

const HeadKind& head_kind_of(const ModelConfig& config) {
  return *record_of(config.problem_type.value_or(ProblemType::kSingleLabel)).head;
}

}  // namespace

const Head& head_of(const ModelConfig& config) {
  const Architecture& architecture = architecture_of(config.model_type);
  const HeadKind& kind = head_kind_of(config);
  const auto found = std::ranges::find(architecture.heads, &kind, &Head::kind);
  if (found != architecture.heads.end()) return *found;
  throw_error(ErrorCode::kUsage, "a model of type '{}' has no head for {}", config.model_type,
              kind.description);
}

std::string hugging_face_class(const ModelConfig& config) {
  std::string name(architecture_of(config.model_type).class_prefix);
  return name.append(head_kind_of(config).class_suffix);
}

}  // namespace plimsoll
