// Computes how many bytes of a checkpoint each rank of a run writes. Pure; thread-safe.
#pragma once

#include <cstdint>

#include "plan/compile/plan.h"

namespace plimsoll {

// Returns an upper bound for the bytes of tensors that any rank writes into a checkpoint, which is the size of the buffer that they
// are copied to with PlanRequest::async_save. A rank writes its slices of divided weights and states, and a share of all others
// (base/byte_shares.h). A checkpoint consists of the model's weights, or those of the adapter, and of the optimizer's states. The
// bound exceeds the bytes of a rank by less than kMostShareRounding if no slice is smaller than that of another rank.
int64_t checkpoint_share_bytes(const Plan& plan);

// Upper bound of the rounding error of a rank's bytes. Shares are rounded up in each file with tensors: the file of optimizer states and
// up to 63 files of the model.
inline constexpr int64_t kMostShareRounding = 4096;

}  // namespace plimsoll
