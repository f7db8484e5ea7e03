#include "kernels/embedding/sort_ids.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/check.h"

namespace plimsoll {

void check_sort_ids(const char* kernel, const SortIdsArgs& args) {
  PLIMSOLL_CHECK(1 <= args.num_lists && args.num_lists <= kMaxEmbeddingTables, "{}: {} lists", kernel,
                 args.num_lists);
  PLIMSOLL_CHECK(0 <= args.num_tokens && args.num_tokens <= args.T, "{}: {} tokens of {}", kernel,
                 args.num_tokens, args.T);
  for (size_t k = 0; k < static_cast<size_t>(args.num_lists); ++k) {
    PLIMSOLL_CHECK(args.ids[k] && args.ids[k].dtype == DType::kI32, "{}: ids are missing or not i32", kernel);
    PLIMSOLL_CHECK(args.sorted[k] && args.sorted[k].dtype == DType::kI32, "{}: sorted is missing or not i32",
                   kernel);
  }
}

void sort_ids_ref(const SortIdsArgs& args) {
  check_sort_ids("sort_ids_ref", args);
  for (size_t k = 0; k < static_cast<size_t>(args.num_lists); ++k) {
    const int32_t* ids = args.ids[k].as<int32_t>();
    std::vector<int32_t> order(static_cast<size_t>(args.T));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.begin() + args.num_tokens,
                     [ids](int32_t a, int32_t b) { return ids[a] < ids[b]; });
    auto* sorted = static_cast<IdOfToken*>(args.sorted[k].data);
    for (int64_t i = 0; i < args.T; ++i) {
      const int32_t token = order[static_cast<size_t>(i)];
      sorted[i] = {.id = i < args.num_tokens ? ids[token] : kNoId, .token = token};
    }
  }
}

}  // namespace plimsoll
