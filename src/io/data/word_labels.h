// Determines the classes for token classification from the tags of words and converts tags to numbers. It is used for splits whose rows
// are lists of words (TextSplit::has_words()). Thread-safe: pure functions and values.
//
// The classes are those of Hugging Face's run_ner: all tags of the training split, sorted by code point if they are names, by value if
// they are integers. The integer -100 is not a class: losses and metrics ignore words with this tag.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "io/data/labels.h"
#include "io/data/text_split.h"
#include "io/data/token_set.h"

namespace plimsoll {

// The class of every word of a split: those of row r are classes[offsets[r]] to classes[offsets[r + 1] - 1].
struct WordClasses {
  std::vector<int32_t> classes;
  std::vector<int64_t> offsets = {0};

  int64_t num_rows() const { return static_cast<int64_t>(offsets.size()) - 1; }
  std::span<const int32_t> row(int64_t row) const {
    const auto begin = static_cast<size_t>(offsets[static_cast<size_t>(row)]);
    return std::span(classes).subspan(begin,
                                      static_cast<size_t>(offsets[static_cast<size_t>(row) + 1]) - begin);
  }
};

// Infers the classes from the tags of the training split. The kind of the result is kClassPerToken. Requires: train.has_words(). Errors:
// kBadData with file:line if the split or a row has no tags, and if there are more than 100000 classes.
LabelScheme infer_word_labels(const TextSplit& train);

// Encodes the tags of a split. With LabelUse::kOptional, rows without tags and the unknown tag -1 get kNoLabel; if the split has
// no tags at all, the result has no rows. Requires: split.has_words(). Errors: kBadData with file:line for an unknown tag (the
// message lists the known ones) and a row without tags.
WordClasses encode_word_labels(const TextSplit& split, const LabelScheme& scheme,
                               LabelUse use = LabelUse::kRequired);

// Returns one label per token: the class of a word at its first token, and kNoLabel at all others. `word_starts` is that of WordTokens.
Labels token_labels(const WordClasses& words, const TokenSet& tokens, std::span<const int32_t> word_starts);

}  // namespace plimsoll
