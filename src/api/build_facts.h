// What the program was built with. CMake writes build_facts.cc. Thread-safe: constant data.
#pragma once

#include <string_view>

namespace plimsoll {

struct BuildFacts {
  std::string_view version;             // of Plimsoll
  std::string_view compiler;            // "GNU 12.2.0"
  std::string_view type;                // CMake's build type
  std::string_view sanitizer;           // "" without one
  std::string_view cuda;                // version of the CUDA toolkit; "" for a program without CUDA
  std::string_view cuda_architectures;  // "80-real, 90-real"
  bool has_arrow;                       // reads Parquet and Arrow files
};

BuildFacts build_facts();

}  // namespace plimsoll
