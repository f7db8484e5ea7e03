// What the binders of the CPU's kernels share (bind_cpu of bound_op.h).
#pragma once

#include <functional>

namespace plimsoll {

// run(args), ready to be called.
template <typename Args>
std::function<void()> given(void (*run)(const Args&), const Args& args) {
  return [=] { run(args); };
}

// The same, with read(args) before each run: what changes from run to run is data.
template <typename Args, typename Read>
std::function<void()> given(void (*run)(const Args&), Args args, Read read) {
  return [=]() mutable {
    read(args);
    run(args);
  };
}

}  // namespace plimsoll
