// Converts the package lists of a Debian machine to rows of text with a label: the text is "name: short
// description", the label is the section without its archive area. Every function is pure: the same lists
// give the same rows in the same order on any machine, because splits and order depend only on a hash of the
// package's name.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "labelled_text.h"

namespace plimsoll::demo {

struct Package {
  std::string name;
  std::string section;      // "contrib/games" is read as "games"
  std::string description;  // the first line, with blanks collapsed
};

// Reads the output of `apt-cache dumpavail`. Packages without section or description are skipped, and so are
// later records with the same name: lists of several suites repeat packages. Sorted by name.
std::vector<Package> read_packages(std::istream& lists);

// Returns FNV-1a with 64 bits and the finalizer of SplitMix64: FNV alone gives similar values for names with
// equal endings.
uint64_t name_hash(std::string_view name);

enum class Split { kTrain, kValidation, kTest };

// Assigns 80, 10 and 10 percent to the splits by the hash of the name.
Split split_of(std::string_view name);

struct Dataset {
  std::vector<LabelledText> train;
  std::vector<LabelledText> validation;
  std::vector<LabelledText> test;
  int num_classes = 0;
  int num_grouped = 0;  // number of sections that became "other"
};

// Creates the data set. Sections with fewer than `min_class` packages become "other". Rows are in the order
// of their hashes, so the first n of them are a fair sample; train contains at most `max_train_rows` (0:
// all).
Dataset make_dataset(const std::vector<Package>& packages, int64_t min_class, int64_t max_train_rows);

// Creates a WordPiece vocabulary of at most `size` pieces from these rows, for a model trained from scratch:
// special tokens, every character alone and as a continuation, then complete words and endings by frequency.
std::string make_vocabulary(const std::vector<LabelledText>& rows, int64_t size);

}  // namespace plimsoll::demo
