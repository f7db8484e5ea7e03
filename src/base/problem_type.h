// What a sequence classifier is asked: Hugging Face's `problem_type`. Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace plimsoll {

enum class ProblemType : uint8_t { kSingleLabel, kMultiLabel, kRegression };

// As config.json writes it.
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

// The inverse; nothing for another word.
constexpr std::optional<ProblemType> find_problem_type(std::string_view word) {
  for (ProblemType type : {ProblemType::kSingleLabel, ProblemType::kMultiLabel, ProblemType::kRegression}) {
    if (problem_type_name(type) == word) return type;
  }
  return std::nullopt;
}

}  // namespace plimsoll
