// Makes the GPU of this process stop as one does that fails: every later call of CUDA returns an error. Only
// for tests; nothing brings the context back.
#pragma once

namespace plimsoll::testing {

// Launches a kernel that traps, and does not wait for it.
void trap_gpu();

}  // namespace plimsoll::testing
