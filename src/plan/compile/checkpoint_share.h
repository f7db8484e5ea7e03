// Computes how many bytes of a checkpoint each rank of a run writes. Pure; thread-safe.
#pragma once

#include <cstdint>

#include "plan/compile/plan.h"

namespace plimsoll {

// Returns an upper bound for the bytes of tensors that a rank writes into a checkpoint. With PlanRequest::async_save, they are first copied
// into a buffer of this size. If the ranks divide a weight or state, each writes its own slice; of all other tensors, each rank writes an
// equal share (base/byte_shares.h). A checkpoint consists of the weights of the model, or those of the adapter, and the states of the
// optimizer. If all slices have the same size, the bound exceeds the bytes of a rank by less than kMostShareRounding.
int64_t checkpoint_share_bytes(const Plan& plan);

// Upper bound of the rounding error of a rank's bytes. Shares are rounded up in each file with tensors: the file of optimizer states and
// up to 63 files of the model.
inline constexpr int64_t kMostShareRounding = 4096;

}  // namespace plimsoll
