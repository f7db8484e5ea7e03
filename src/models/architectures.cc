#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/head_kind.h"
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

std::string hugging_face_class(const ModelConfig& config) {
  std::string name(architecture_of(config.model_type).class_prefix);
  return name.append(kSequenceClassification.class_suffix);
}

}  // namespace plimsoll
