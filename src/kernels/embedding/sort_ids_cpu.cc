#include <cstring>

#include "base/check.h"
#include "kernels/embedding/sort_ids.h"

namespace plimsoll {

// A counting sort on one thread, because this takes only a small fraction of the time of the gradient.
void sort_ids_cpu(const SortIdsArgs& args) {
  constexpr const char* kKernel = "sort_ids_cpu";
  check_sort_ids(kKernel, args);
  PLIMSOLL_CHECK(static_cast<bool>(args.scratch), "{} needs scratch memory, but has none", kKernel);
  // For each id, the position to which its next token is written.
  auto* next = static_cast<int32_t*>(args.scratch.data);
  for (size_t k = 0; k < static_cast<size_t>(args.num_lists); ++k) {
    const int32_t* ids = args.ids[k].as<int32_t>();
    auto* sorted = static_cast<IdOfToken*>(args.sorted[k].data);
    std::memset(next, 0, static_cast<size_t>(args.V) * sizeof(int32_t));
    for (int64_t t = 0; t < args.num_tokens; ++t) ++next[ids[t]];
    int32_t begin = 0;
    for (int64_t id = 0; id < args.V; ++id) {
      const int32_t count = next[id];
      next[id] = begin;
      begin += count;
    }
    for (int64_t t = 0; t < args.T; ++t) {
      const bool used = t < args.num_tokens;
      const int64_t place = used ? next[ids[t]]++ : t;
      sorted[place] = {.id = used ? ids[t] : kNoId, .token = narrow<int32_t>(t)};
    }
  }
}

}  // namespace plimsoll
