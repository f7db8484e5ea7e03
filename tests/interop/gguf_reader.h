// Reads a GGUF file for tests. The reader was written from the specification of the format and shares no code
// with the writer in src/io/gguf. Requires: a file of version 3 on a little-endian machine; throws
// std::out_of_range or std::runtime_error for anything else. The result owns its data.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace plimsoll::testing {

using GgufReadValue = std::variant<uint32_t, float, bool, std::string, std::vector<std::string>,
                                   std::vector<int32_t>, std::vector<float>>;

struct ReadTensor {
  uint32_t type = 0;            // code of the type: 0 f32, 1 f16, 8 q8_0, 30 bf16
  std::vector<uint64_t> sizes;  // sizes of the dimensions, innermost first
  std::string data;
};

struct ReadGguf {
  std::map<std::string, GgufReadValue> metadata;
  std::map<std::string, ReadTensor> tensors;
};

ReadGguf read_gguf(const std::string& path);

}  // namespace plimsoll::testing
