// From the package lists of a Debian machine to rows of text with a label: text is "name: short description",
// label the section without its archive area. Every function is pure: the same lists give the same rows in
// the same order, on any machine, because splits and order come from a hash of the package's name alone.
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
  std::string description;  // the first line, blanks collapsed
};

// Reads what `apt-cache dumpavail` prints. A package without section or description is left out, and so is
// every later record of a name: lists of several suites repeat packages. Sorted by name.
std::vector<Package> read_packages(std::istream& lists);

// FNV-1a, 64 bits, with the finaliser of SplitMix64: FNV alone leaves names with equal endings close to one
// another.
uint64_t name_hash(std::string_view name);

enum class Split { kTrain, kValidation, kTest };

// 80, 10 and 10 of 100 by the hash of the name.
Split split_of(std::string_view name);

struct Dataset {
  std::vector<LabelledText> train;
  std::vector<LabelledText> validation;
  std::vector<LabelledText> test;
  int num_classes = 0;
  int num_grouped = 0;  // sections that became "other"
};

// Sections with fewer than `min_class` packages become "other". Rows are in the order of their hashes, so
// that the first n of them are a fair sample; train keeps at most `max_train_rows` (0: all).
Dataset make_dataset(const std::vector<Package>& packages, int64_t min_class, int64_t max_train_rows);

// A WordPiece vocabulary of at most `size` pieces out of these rows, for a model trained from scratch:
// special tokens, every character alone and as a continuation, then whole words and endings by how often they
// occur.
std::string make_vocabulary(const std::vector<LabelledText>& rows, int64_t size);

}  // namespace plimsoll::demo
