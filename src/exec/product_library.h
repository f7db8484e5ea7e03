// Names the library that computes products of matrices on a CPU. Thread-safe.
#pragma once

#include <string>

#include "kernels/matmul/onednn_facts.h"

namespace plimsoll {

struct ProductLibrary {
  std::string name;             // "oneDNN"
  std::string version;          // of the library that the program has loaded
  std::string instruction_set;  // the largest that it may use on this machine, with its own name
};

// Errors: none. Cost: some microseconds.
inline ProductLibrary cpu_product_library() {
  return {.name = "oneDNN", .version = onednn_version(), .instruction_set = onednn_instruction_set()};
}

}  // namespace plimsoll
