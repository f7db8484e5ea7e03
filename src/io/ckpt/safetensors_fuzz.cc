// Fuzzes the safetensors reader: parsing the header alone; reading all tensors of a complete file; and removing wrappers from the names
// of the tensors. The fuzzer reports an error if a function neither returns nor throws an Error with code kBadData, or if a tensor is
// outside of the file.
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/file_fault.h"
#include "base/testing/fuzz_answer.h"
#include "io/ckpt/model_folder.h"
#include "io/ckpt/safetensors.h"

namespace plimsoll {
namespace {

void check_header(std::string_view json, int64_t file_size_bytes) {
  const SafetensorsHeader header = parse_safetensors_header(json, file_size_bytes, "fuzz");
  int64_t end = 0;
  for (const StoredTensor& tensor : header.tensors) {
    const int64_t bits = tensor.num_elements() * stored_type_bits(tensor.type);
    PLIMSOLL_CHECK(tensor.begin == end && tensor.end - tensor.begin == bits / 8 && bits % 8 == 0);
    end = tensor.end;
  }
  PLIMSOLL_CHECK(header.data_offset + end == file_size_bytes);
  std::vector<std::string_view> names;
  for (const StoredTensor& tensor : header.tensors) names.push_back(tensor.name);
  const std::vector<std::vector<std::string>> wanted{{"bert.w", "w"}, {"bert.layer.0.b"}, {"classifier.w"}};
  const Unwrapping way = find_unwrapping(names, wanted, "bert");
  for (const std::string_view name : names) PLIMSOLL_CHECK(way.apply(name).size() <= name.size());
  PLIMSOLL_CHECK(way.removes_anything() == !describe_unwrapping(way, names).empty());
}

void read_all(std::string_view content) {
  MemoryFileSystem files;
  write_synced_file(files, "/fuzz", content);
  const SafetensorsFile file = SafetensorsFile::open(files, "/fuzz");
  for (const StoredTensor& tensor : file.tensors()) {
    const auto dtype = stored_type_dtype(tensor.type);
    if (!dtype) continue;
    std::string same(static_cast<size_t>(tensor.end - tensor.begin), '\0');
    file.read(tensor, {same.data(), *dtype});
    if (!is_floating(*dtype)) continue;
    std::vector<float> floats(static_cast<size_t>(tensor.num_elements()));
    file.read(tensor, {floats.data(), DType::kF32});
  }
}

}  // namespace
}  // namespace plimsoll

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // The first two bytes of the input specify the size of the data. The rest of the input is the header.
  const int64_t num_data_bytes = data[0] + 256 * data[1];
  const std::string_view json = text.substr(2);
  plimsoll::expect_value_or({plimsoll::ErrorCode::kBadData},
                            [&] { plimsoll::check_header(json, 8 + std::ssize(json) + num_data_bytes); });
  plimsoll::expect_value_or({plimsoll::ErrorCode::kBadData}, [&] { plimsoll::read_all(text); });
  const uint64_t length = json.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, sizeof(length));
  file += json;
  file.append(static_cast<size_t>(num_data_bytes), '\x3f');
  plimsoll::expect_value_or({plimsoll::ErrorCode::kBadData}, [&] { plimsoll::read_all(file); });
  return 0;
}
