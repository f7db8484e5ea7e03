#include "run/threads.h"

#include <sched.h>

#include <algorithm>

namespace plimsoll {

int available_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

int num_run_threads(const Arguments& arguments) {
  return arguments.num_threads > 0 ? static_cast<int>(arguments.num_threads) : available_threads();
}

}  // namespace plimsoll
