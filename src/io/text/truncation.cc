#include "io/text/truncation.h"

#include <algorithm>

#include "base/check.h"

namespace plimsoll::text {

KeptTokens truncate(int64_t first, int64_t second, int64_t max_tokens, Truncation strategy) {
  if (max_tokens == 0) return {0, 0};
  const int64_t excess = first + second - max_tokens;
  if (excess <= 0) return {first, second};
  if (strategy != Truncation::kLongestFirst) {
    const bool cut_first = strategy == Truncation::kOnlyFirst;
    const int64_t available = cut_first ? first : second;
    if (available <= excess) {
      throw_error(ErrorCode::kUsage,
                  "truncation {} has to remove {} tokens of a text with {}; use longest_first or a larger "
                  "maximum length",
                  cut_first ? "only_first" : "only_second", excess, available);
    }
    return cut_first ? KeptTokens{first - excess, second} : KeptTokens{first, second - excess};
  }
  int64_t shorter = std::min(first, second);
  int64_t longer = std::max(shorter, max_tokens - shorter);
  if (shorter + longer > max_tokens) {
    shorter = max_tokens / 2;
    longer = max_tokens - shorter;
  }
  return first > second ? KeptTokens{longer, shorter} : KeptTokens{shorter, longer};
}

}  // namespace plimsoll::text
