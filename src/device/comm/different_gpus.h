// Checks that no two ranks use the same GPU. Internal to src/device/comm.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/check.h"
#include "device/comm/communicator.h"

namespace plimsoll {

// Checks that no two ranks use the same GPU. Every rank must call it. Errors: kUsage if two do.
inline void require_different_gpus(Communicator& ranks, const std::string& uuid) {
  std::array<char, 64> own{};
  std::copy_n(uuid.begin(), std::min(uuid.size(), own.size()), own.begin());
  std::vector<std::array<char, 64>> all(static_cast<size_t>(ranks.size()));
  ranks.all_gather(std::as_bytes(std::span(own)), std::as_writable_bytes(std::span(all)));
  for (size_t rank = 1; rank < all.size(); ++rank) {
    const auto end = all.begin() + static_cast<std::ptrdiff_t>(rank);
    const auto first = std::find(all.begin(), end, all[rank]);
    if (all[rank][0] == '\0' || first == end) continue;
    throw_error(ErrorCode::kUsage,
                "ranks {} and {} have the same GPU ({}), but each rank needs one of its own: start at most "
                "one process "
                "per visible GPU, and do not use --device cuda:N",
                first - all.begin(), rank, all[rank].data());
  }
}

}  // namespace plimsoll
