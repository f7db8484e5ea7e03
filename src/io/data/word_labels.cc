#include "io/data/word_labels.h"

#include <algorithm>
#include <set>
#include <string>

#include "base/check.h"
#include "io/data/label_cells.h"
#include "io/data/labels.h"

namespace plimsoll {
namespace {

constexpr const char* kIgnoredTag = "-100";

bool is_ignored(const TextSplit& split, std::string_view tag) {
  return split.has_integer_tags() && tag == kIgnoredTag;
}

void require_tags(const TextSplit& split) {
  PLIMSOLL_CHECK(split.has_words());
  if (split.has_label()) return;
  throw_error(ErrorCode::kBadData,
              "{}: the file has words but no tags, found {}\n  add a column with a list of tags per row, or "
              "select it with --label_column_name",
              split.table().file_name(), split.table().column_list());
}

[[noreturn]] void fail_without_tags(const TextSplit& split, int64_t row) {
  fail_at_row(split, row, "this row has no tags; add a tag for each word, or remove the row");
}

}  // namespace

LabelScheme infer_word_labels(const TextSplit& train) {
  require_tags(train);
  constexpr size_t kMostClasses = 100000;
  std::set<std::string, std::less<>> seen;
  for (int64_t row = 0; row < train.num_rows(); ++row) {
    if (train.num_tags(row) == 0) fail_without_tags(train, row);
    for (int64_t i = 0; i < train.num_tags(row); ++i) {
      const std::string_view tag = train.tag(row, i);
      if (is_ignored(train, tag) || seen.contains(tag)) continue;
      seen.emplace(tag);
      if (seen.size() > kMostClasses) {
        fail_at_row(train, row,
                    fmt::format("more than {} different tags: check that '{}' is the column of the tags, or "
                                "select another with --label_column_name",
                                kMostClasses, train.label_column()));
      }
    }
  }
  if (seen.empty()) {
    throw_error(ErrorCode::kBadData,
                "{}: every tag is -100, which means no class; select another column with --label_column_name",
                train.table().file_name());
  }
  LabelScheme scheme;
  scheme.kind = LabelKind::kClassPerToken;
  scheme.integer_names = train.has_integer_tags();
  scheme.names.assign(seen.begin(), seen.end());
  if (scheme.integer_names) {
    std::ranges::sort(scheme.names, {}, [](const std::string& name) { return *as_integer(name); });
  }
  scheme.num_labels = static_cast<int64_t>(scheme.names.size());
  return scheme;
}

WordClasses encode_word_labels(const TextSplit& split, const LabelScheme& scheme, LabelUse use) {
  WordClasses result;
  if (!split.has_label() && use == LabelUse::kOptional) return result;
  require_tags(split);
  const ClassLookup lookup(scheme);
  result.offsets.reserve(static_cast<size_t>(split.num_rows()) + 1);
  for (int64_t row = 0; row < split.num_rows(); ++row) {
    const int64_t num_words = split.num_words(row);
    if (split.num_tags(row) == 0) {
      if (use == LabelUse::kRequired) fail_without_tags(split, row);
      result.classes.resize(result.classes.size() + static_cast<size_t>(num_words), kNoLabel);
    }
    for (int64_t i = 0; i < split.num_tags(row); ++i) {
      const std::string_view tag = split.tag(row, i);
      const std::optional<int32_t> id = is_ignored(split, tag) ? kNoLabel : lookup.find(tag);
      const bool unlabelled = use == LabelUse::kOptional && as_integer(tag) == -1;
      if (!id && !unlabelled) lookup.fail_unseen(split, row, tag);
      result.classes.push_back(id.value_or(kNoLabel));
    }
    result.offsets.push_back(static_cast<int64_t>(result.classes.size()));
  }
  return result;
}

Labels token_labels(const WordClasses& words, const TokenSet& tokens, std::span<const int32_t> word_starts) {
  PLIMSOLL_CHECK(words.num_rows() == tokens.num_rows() && std::ssize(word_starts) == tokens.num_tokens(),
                 "there must be one list of classes per row and one word start per token, but there are {} "
                 "lists and {} word starts for {} rows with {} tokens",
                 words.num_rows(), word_starts.size(), tokens.num_rows(), tokens.num_tokens());
  Labels labels;
  labels.is_per_token = true;
  labels.classes.reserve(word_starts.size());
  for (int64_t row = 0; row < tokens.num_rows(); ++row) {
    const std::span<const int32_t> classes = words.row(row);
    for (int64_t i = 0; i < tokens.length(row); ++i) {
      const int32_t word = word_starts[labels.classes.size()];
      labels.classes.push_back(word < 0 ? kNoLabel : classes[static_cast<size_t>(word)]);
    }
  }
  return labels;
}

}  // namespace plimsoll
