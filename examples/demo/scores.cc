#include "scores.h"

#include <map>
#include <stdexcept>

namespace plimsoll::demo {

Scores score(std::span<const std::string> labels, std::span<const std::string> guesses) {
  if (labels.empty() || labels.size() != guesses.size()) {
    throw std::runtime_error(std::to_string(labels.size()) + " labels, but " +
                             std::to_string(guesses.size()) + " guesses");
  }
  struct Counts {
    double right = 0;
    double wrong = 0;  // number of false positives and false negatives
  };
  std::map<std::string, Counts> classes;
  double right = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == guesses[i]) {
      ++classes[labels[i]].right;
      ++right;
    } else {
      ++classes[labels[i]].wrong;
      ++classes[guesses[i]].wrong;
    }
  }
  double sum = 0;
  for (const auto& [name, counts] : classes) sum += 2 * counts.right / (2 * counts.right + counts.wrong);
  return {right / static_cast<double>(labels.size()), sum / static_cast<double>(classes.size())};
}

}  // namespace plimsoll::demo
