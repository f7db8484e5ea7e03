#include "package_list.h"

#include <algorithm>
#include <cctype>
#include <istream>
#include <map>
#include <set>
#include <unordered_map>

namespace plimsoll::demo {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\v' || c == '\f';
}

// Removes leading, trailing and repeated blanks, and other control characters, because no reader of TSV
// expects them.
std::string cleaned(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (is_blank(c) || static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      if (!result.empty() && result.back() != ' ') result += ' ';
    } else {
      result += c;
    }
  }
  if (!result.empty() && result.back() == ' ') result.pop_back();
  return result;
}

// Returns the value of "Field: value" if the line is that field.
bool take_field(std::string_view line, std::string_view field, std::string& value) {
  if (!line.starts_with(field) || line.size() <= field.size() || line[field.size()] != ':') return false;
  value = cleaned(line.substr(field.size() + 1));
  return true;
}

std::string without_area(const std::string& section) {
  const size_t slash = section.rfind('/');
  return slash == std::string::npos ? section : section.substr(slash + 1);
}

struct Counted {
  std::string piece;
  int64_t count;
};

// Returns the entries by decreasing count; equal counts are in the order of their bytes.
std::vector<Counted> by_count(const std::unordered_map<std::string, int64_t>& counts, int64_t at_least) {
  std::vector<Counted> sorted;
  for (const auto& [piece, count] : counts) {
    if (count >= at_least) sorted.push_back({piece, count});
  }
  std::ranges::sort(sorted, [](const Counted& a, const Counted& b) {
    return a.count != b.count ? a.count > b.count : a.piece < b.piece;
  });
  return sorted;
}

// Returns runs of ASCII letters and digits in lower case; other printable ASCII characters are separate
// words, as in WordPiece's pre-tokenizer. Bytes above ASCII are dropped, because the vocabulary is for
// English descriptions.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  bool inside = false;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80 || is_blank(c)) {
      inside = false;
    } else if (std::isalnum(byte) != 0) {
      if (!inside) words.emplace_back();
      words.back() += static_cast<char>(std::tolower(byte));
      inside = true;
    } else {
      words.emplace_back(1, c);
      inside = false;
    }
  }
  return words;
}

}  // namespace

std::vector<Package> read_packages(std::istream& lists) {
  std::map<std::string, Package> by_name;
  Package package;
  const auto finish = [&] {
    if (!package.name.empty() && !package.section.empty() && !package.description.empty()) {
      package.section = without_area(package.section);
      by_name.try_emplace(package.name, package);
    }
    package = {};
  };
  for (std::string line; std::getline(lists, line);) {
    if (line.empty()) {
      finish();
      continue;
    }
    // The line belongs to the long description or a folded field.
    if (line[0] == ' ' || line[0] == '\t') continue;
    if (take_field(line, "Package", package.name) || take_field(line, "Section", package.section) ||
        take_field(line, "Description", package.description)) {
      continue;
    }
    if (package.description.empty()) {
      take_field(line, "Description-en", package.description);
    }
  }
  finish();
  std::vector<Package> packages;
  packages.reserve(by_name.size());
  for (auto& [name, value] : by_name) packages.push_back(std::move(value));
  return packages;
}

uint64_t name_hash(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
  return hash ^ (hash >> 31);
}

Split split_of(std::string_view name) {
  const uint64_t place = name_hash(name) % 100;
  if (place < 80) return Split::kTrain;
  return place < 90 ? Split::kValidation : Split::kTest;
}

Dataset make_dataset(const std::vector<Package>& packages, int64_t min_class, int64_t max_train_rows) {
  std::map<std::string, int64_t> members;
  for (const Package& package : packages) ++members[package.section];
  std::set<std::string> labels;
  Dataset dataset;
  for (const auto& [section, count] : members) {
    if (count < min_class) ++dataset.num_grouped;
    labels.insert(count < min_class ? "other" : section);
  }
  dataset.num_classes = static_cast<int>(labels.size());

  std::vector<const Package*> ordered;
  ordered.reserve(packages.size());
  for (const Package& package : packages) ordered.push_back(&package);
  std::ranges::sort(ordered, [](const Package* a, const Package* b) {
    // The part of the hash that split_of() does not use determines the order, so that each split is in random
    // order.
    const uint64_t x = name_hash(a->name) / 100;
    const uint64_t y = name_hash(b->name) / 100;
    return x != y ? x < y : a->name < b->name;
  });
  for (const Package* package : ordered) {
    const bool small = members[package->section] < min_class;
    LabelledText row{package->name + ": " + package->description, small ? "other" : package->section};
    switch (split_of(package->name)) {
      case Split::kTrain:
        dataset.train.push_back(std::move(row));
        break;
      case Split::kValidation:
        dataset.validation.push_back(std::move(row));
        break;
      case Split::kTest:
        dataset.test.push_back(std::move(row));
        break;
    }
  }
  if (max_train_rows > 0 && static_cast<int64_t>(dataset.train.size()) > max_train_rows) {
    dataset.train.resize(static_cast<size_t>(max_train_rows));
  }
  return dataset;
}

std::string make_vocabulary(const std::vector<LabelledText>& rows, int64_t size) {
  std::unordered_map<std::string, int64_t> counts;
  for (const LabelledText& row : rows) {
    for (const std::string& word : words_of(row.text)) {
      if (word.size() < 2) continue;
      counts[word] += 2;  // a complete word saves more pieces than an ending with the same count
      for (size_t length = 2; length <= 6 && length < word.size(); ++length) {
        ++counts["##" + word.substr(word.size() - length)];
        ++counts[word.substr(0, length)];
      }
    }
  }
  std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  int64_t pieces = 5;
  for (int c = 0x21; c < 0x7f; ++c) {
    if (std::isupper(c) != 0) continue;
    vocabulary += std::string(1, static_cast<char>(c)) + "\n";
    ++pieces;
    if (std::isalnum(c) == 0) continue;
    vocabulary += "##" + std::string(1, static_cast<char>(c)) + "\n";
    ++pieces;
  }
  for (const Counted& counted : by_count(counts, 6)) {
    if (pieces == size) break;
    vocabulary += counted.piece + "\n";
    ++pieces;
  }
  return vocabulary;
}

}  // namespace plimsoll::demo
