// Counts named entities in sequences of tags, as seqeval 1.2.2 does in its default mode. One thread uses an object.
//
// A tag is a letter and a type, as in "B-PER": B begins an entity, I continues it, E ends it, S is an entity of one word,
// and O is outside. An entity also begins and ends where the type changes, and a word tagged I after O begins one, as in
// the script conlleval. Other names are read the same way: the first character is the letter, and the rest, or the part
// after its first hyphen, is the type.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "metrics/metrics.h"

namespace plimsoll {

class EntityCounts {
 public:
  // `names` contains the name of each tag, by id. An id without a name has the tag "LABEL_<id>", as in Hugging Face's configurations.
  EntityCounts(int64_t num_labels, std::span<const std::string> names);

  // Adds a sequence of labels and predictions, which are ids. Requires: equal lengths, ids below num_labels.
  void add_sequence(std::span<const int32_t> labels, std::span<const int32_t> predictions);

  int64_t num_words() const { return num_words_; }
  // Return precision, recall and F1 of entities. An entity is predicted correctly if its type, its first word
  // and its last word are correct. A quotient 0 / 0 counts as 0.
  double precision() const;
  double recall() const;
  double f1() const;
  // Returns the fraction of words whose tag is predicted correctly.
  double accuracy() const;

 private:
  struct Tag {
    char letter = 'O';
    int64_t type = 0;  // index of the type's name; tags with the same type have the same index
  };
  struct Entity {
    int64_t type = 0;
    int64_t first = 0;
    int64_t last = 0;
    friend bool operator==(const Entity&, const Entity&) = default;
    friend bool operator<(const Entity& a, const Entity& b) {
      return std::tie(a.type, a.first, a.last) < std::tie(b.type, b.first, b.last);
    }
  };
  void find_entities(std::span<const int32_t> ids, std::vector<Entity>& entities) const;

  std::vector<Tag> tags_;
  int64_t num_words_ = 0;
  int64_t num_right_words_ = 0;
  int64_t num_labelled_ = 0;
  int64_t num_predicted_ = 0;
  int64_t num_right_ = 0;
  std::vector<Entity> labelled_;  // entities in the labels of the current sequence
  std::vector<Entity> predicted_;
};

// Returns the metrics with these names, in the order of `names`: "precision", "recall", "f1", "accuracy". Errors: kUsage for another name.
MetricList entity_metrics(const EntityCounts& counts, std::span<const std::string_view> names);

}  // namespace plimsoll
