// Names the library that computes products of matrices on a CPU. Thread-safe.
#pragma once

#include <string>

namespace plimsoll {

struct ProductLibrary {
  std::string name;             // "oneDNN"
  std::string version;          // of the library that the program has loaded
  std::string instruction_set;  // the largest that it may use on this machine, with its own name
};

// Errors: none. Cost: some microseconds.
ProductLibrary cpu_product_library();

}  // namespace plimsoll
