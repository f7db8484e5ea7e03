// Names the library that computes products of matrices on a CPU. Thread-safe.
#pragma once

#include <string>

#include "kernels/matmul/onednn_facts.h"

namespace plimsoll {

struct ProductLibrary {
  std::string name;
  std::string version;  // version of the library that is loaded
  // The largest instruction set that the library may use on this machine, with oneDNN's name for it.
  std::string instruction_set;
};

// Returns the name, the version and the instruction set of oneDNN. Errors: none. Cost: some microseconds.
inline ProductLibrary cpu_product_library() {
  return {.name = "oneDNN", .version = onednn_version(), .instruction_set = onednn_instruction_set()};
}

}  // namespace plimsoll
