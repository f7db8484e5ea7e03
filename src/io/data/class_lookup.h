// Finds the id of a class by its text in a file. For label_encoding.cc and word_labels.cc. Thread-safe after
// construction; refers to the scheme.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "io/data/labels.h"
#include "io/data/text_split.h"

namespace plimsoll {

class ClassLookup {
 public:
  // Creates the table of known classes, once per split. The scheme must outlive the lookup.
  explicit ClassLookup(const LabelScheme& scheme);

  // Returns the id of a class, or nothing for an unknown one.
  std::optional<int32_t> find(std::string_view text) const;
  // Throws kBadData with the file:line of the row; the message lists the known classes.
  [[noreturn]] void fail_unseen(const TextSplit& split, int64_t row, std::string_view label) const;

 private:
  std::optional<int32_t> find_name(const std::string& name) const;
  std::string known() const;
  std::string describe_unseen(const std::string& label) const;

  const LabelScheme& scheme_;
  std::unordered_map<std::string, int32_t> ids_;
};

}  // namespace plimsoll
