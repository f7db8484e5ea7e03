// Hugging Face's `problem_type` of a sequence classifier. src/tasks defines what each type means. Thread-safe:
// pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace plimsoll {

enum class ProblemType : uint8_t { kSingleLabel, kMultiLabel, kRegression };

// Returns the name in config.json.
constexpr std::string_view problem_type_name(ProblemType type) {
  switch (type) {
    case ProblemType::kSingleLabel:
      return "single_label_classification";
    case ProblemType::kMultiLabel:
      return "multi_label_classification";
    case ProblemType::kRegression:
      return "regression";
  }
  return "?";
}

// Returns the type with this name, or nothing for any other word.
constexpr std::optional<ProblemType> find_problem_type(std::string_view word) {
  for (ProblemType type : {ProblemType::kSingleLabel, ProblemType::kMultiLabel, ProblemType::kRegression}) {
    if (problem_type_name(type) == word) return type;
  }
  return std::nullopt;
}

}  // namespace plimsoll
