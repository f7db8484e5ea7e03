// Makes the GPU of this process fail: every later call of CUDA returns an error. Only for tests; the context
// cannot be restored.
#pragma once

namespace plimsoll::testing {

// Launches a kernel that traps, without waiting for it.
void trap_gpu();

}  // namespace plimsoll::testing
