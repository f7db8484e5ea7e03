#include "metrics/entities.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>

#include "base/check.h"
#include "base/utf8.h"

namespace plimsoll {
namespace {

// The type of tags that have no type, such as "O" or a plain "B". Entities that begin with a plain "B" have this type.
constexpr std::string_view kNoType = "_";

bool is_one_of(char letter, std::string_view letters) {
  return letters.find(letter) != std::string_view::npos;
}

// Returns true if the entity that contains the previous word ends there. `previous` and `letter` are the
// letters of the tags of the previous and of this word.
bool ends_before(char previous, char letter, bool type_changes) {
  if (is_one_of(previous, "ES")) return true;
  if (is_one_of(previous, "BI") && is_one_of(letter, "BSO")) return true;
  return !is_one_of(previous, "O.") && type_changes;
}

// Returns true if an entity begins with this word. `previous` and `letter` are the letters of the tags of the
// previous and of this word.
bool begins_with(char previous, char letter, bool type_changes) {
  if (is_one_of(letter, "BS")) return true;
  if (is_one_of(previous, "ESO") && is_one_of(letter, "EI")) return true;
  return !is_one_of(letter, "O.") && type_changes;
}

double ratio(int64_t part, int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

EntityCounts::EntityCounts(int64_t num_labels, std::span<const std::string> names) {
  std::map<std::string, int64_t, std::less<>> types{{std::string(kNoType), 0}};
  for (int64_t id = 0; id < num_labels; ++id) {
    const std::string name =
        id < std::ssize(names) ? names[static_cast<size_t>(id)] : fmt::format("LABEL_{}", id);
    if (name.empty()) {
      tags_.push_back({});
      continue;
    }
    // Only B, I, E, S, O and '.' have a meaning of their own. A first character of several bytes in UTF-8 is none of these, so it is stored
    // as '?'.
    const size_t first = std::max<size_t>(1, utf8_sequence_length(name));
    std::string_view type = std::string_view(name).substr(first);
    if (const size_t hyphen = type.find('-'); hyphen != std::string_view::npos)
      type.remove_prefix(hyphen + 1);
    if (type.empty()) type = kNoType;
    tags_.push_back(
        {first == 1 ? name[0] : '?', types.emplace(std::string(type), std::ssize(types)).first->second});
  }
}

void EntityCounts::find_entities(std::span<const int32_t> ids, std::vector<Entity>& entities) const {
  entities.clear();
  // The type of the tag that precedes the first word. It differs from the type of every real tag.
  constexpr int64_t kBeforeTheFirst = -1;
  Tag previous{'O', kBeforeTheFirst};
  int64_t begin = 0;
  for (int64_t i = 0; i <= std::ssize(ids); ++i) {
    const Tag tag = i < std::ssize(ids) ? tags_[static_cast<size_t>(ids[static_cast<size_t>(i)])] : Tag{};
    const bool type_changes = previous.type != tag.type;
    if (ends_before(previous.letter, tag.letter, type_changes))
      entities.push_back({previous.type, begin, i - 1});
    if (begins_with(previous.letter, tag.letter, type_changes)) begin = i;
    previous = tag;
  }
  // Removes duplicates, because seqeval compares sets of entities.
  std::sort(entities.begin(), entities.end());
  entities.erase(std::unique(entities.begin(), entities.end()), entities.end());
}

void EntityCounts::add_sequence(std::span<const int32_t> labels, std::span<const int32_t> predictions) {
  PLIMSOLL_CHECK(labels.size() == predictions.size(),
                 "a sequence must have one prediction per label, but has {} labels and {} predictions",
                 labels.size(), predictions.size());
  num_words_ += std::ssize(labels);
  for (size_t i = 0; i < labels.size(); ++i) num_right_words_ += labels[i] == predictions[i] ? 1 : 0;
  find_entities(labels, labelled_);
  find_entities(predictions, predicted_);
  num_labelled_ += std::ssize(labelled_);
  num_predicted_ += std::ssize(predicted_);
  std::vector<Entity> right;
  std::set_intersection(labelled_.begin(), labelled_.end(), predicted_.begin(), predicted_.end(),
                        std::back_inserter(right));
  num_right_ += std::ssize(right);
}

double EntityCounts::precision() const {
  return ratio(num_right_, num_predicted_);
}

double EntityCounts::recall() const {
  return ratio(num_right_, num_labelled_);
}

double EntityCounts::f1() const {
  const double sum = precision() + recall();
  return sum == 0 ? 0.0 : 2 * precision() * recall() / sum;
}

double EntityCounts::accuracy() const {
  return ratio(num_right_words_, num_words_);
}

MetricList entity_metrics(const EntityCounts& counts, std::span<const std::string_view> names) {
  MetricList metrics;
  for (const std::string_view name : names) {
    if (name == "precision") {
      metrics.emplace_back(name, counts.precision());
    } else if (name == "recall") {
      metrics.emplace_back(name, counts.recall());
    } else if (name == "f1") {
      metrics.emplace_back(name, counts.f1());
    } else if (name == "accuracy") {
      metrics.emplace_back(name, counts.accuracy());
    } else {
      throw_error(
          ErrorCode::kUsage,
          "'{}' is not a metric of a token classification; choose from precision, recall, f1, accuracy",
          name);
    }
  }
  return metrics;
}

}  // namespace plimsoll
