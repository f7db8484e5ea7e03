#include "tests/training/gpu_trap.h"

namespace plimsoll::testing {
namespace {

__global__ void trap() {
  asm volatile("trap;");
}

}  // namespace

void trap_gpu() {
  trap<<<1, 1>>>();
}

}  // namespace plimsoll::testing
