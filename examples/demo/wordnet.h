// Converts the data files of WordNet, which Debian's package wordnet-base installs, to rows of text with a label: the text is a definition,
// the label is its lexicographer file, such as "noun.animal" or "verb.motion". Every function is pure: the same files give the same rows in
// the same order on any machine, because splits and order depend only on hashes of the defined words and of their definitions.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "labelled_text.h"

namespace plimsoll::demo {

struct Definition {
  std::string word;   // the first word of the synonym set, with blanks instead of underscores
  std::string text;   // the gloss without its example sentences
  std::string label;  // the lexicographer file, as lexnames(5WN) names it
};

// Reads a file such as data.noun, in the format of wndb(5WN). Skips its licence header and definitions without
// text. Errors: std::runtime_error with `name` and the line if a line does not have that format.
std::vector<Definition> read_definitions(std::istream& file, std::string_view name);

// Returns a hash of the name: FNV-1a with 64 bits, followed by the finalizer of SplitMix64, because FNV alone gives
// similar values for names with equal endings.
uint64_t name_hash(std::string_view name);

enum class Split { kTrain, kValidation, kTest };

// Assigns 80, 10 and 10 percent to the splits by the hash of the word, so that all meanings of a word are in one
// split.
Split split_of(std::string_view word);

// Limits for the number of definitions per class.
struct DatasetLimits {
  int64_t min_class = 0;       // smallest number of definitions per class; classes with fewer are left out
  int64_t max_class = 0;       // largest number of definitions per class in all splits together; 0 means all
  int64_t max_train_rows = 0;  // largest number of training rows; 0 means all
};

struct Dataset {
  std::vector<LabelledText> train;
  std::vector<LabelledText> validation;
  std::vector<LabelledText> test;
  int num_classes = 0;
  int num_left_out = 0;  // number of classes that were left out because they have too few definitions
};

// Creates the data set. Rows are in the order of a hash of their texts, and `max_class` keeps those rows of a class whose words have the
// smallest hashes. The first n rows, and those that are kept of a class, are therefore a fair sample. Of several definitions with the same
// text only the first is kept, because a test row must not occur in the training rows.
Dataset make_dataset(const std::vector<Definition>& definitions, const DatasetLimits& limits);

// Creates a WordPiece vocabulary of at most `size` pieces from these rows, for a model trained from scratch: special tokens,
// every character at the start and inside of a word, then complete words, their starts and their endings by frequency.
std::string make_vocabulary(const std::vector<LabelledText>& rows, int64_t size);

}  // namespace plimsoll::demo
