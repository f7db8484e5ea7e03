#include "tests/interop/gguf_reader.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace plimsoll::testing {
namespace {

class Cursor {
 public:
  explicit Cursor(const std::string& bytes) : bytes_(bytes) {}

  template <typename T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string text() { return take(number<uint64_t>()); }
  size_t position() const { return at_; }

  GgufReadValue value(uint32_t type) {
    switch (type) {
      case 4:
        return number<uint32_t>();
      case 6:
        return number<float>();
      case 7:
        return number<uint8_t>() != 0;
      case 8:
        return text();
      case 9:
        return array();
      default:
        throw std::runtime_error("unexpected type of a value: " + std::to_string(type));
    }
  }

 private:
  std::string take(uint64_t size) {
    if (size > bytes_.size() - at_) throw std::out_of_range("the file ends early");
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  GgufReadValue array() {
    const auto type = number<uint32_t>();
    const auto size = number<uint64_t>();
    if (type == 8) return list<std::string>(size, [this] { return text(); });
    if (type == 5) return list<int32_t>(size, [this] { return number<int32_t>(); });
    if (type == 6) return list<float>(size, [this] { return number<float>(); });
    throw std::runtime_error("unexpected type of an array: " + std::to_string(type));
  }
  template <typename T, typename Read>
  std::vector<T> list(uint64_t size, Read read) {
    std::vector<T> values;
    for (uint64_t i = 0; i < size; ++i) values.push_back(read());
    return values;
  }

  const std::string& bytes_;
  size_t at_ = 0;
};

uint64_t bytes_of(uint32_t type, uint64_t elements) {
  switch (type) {
    case 0:
      return 4 * elements;
    case 1:
    case 30:
      return 2 * elements;
    case 8:
      return elements / 32 * 34;
    default:
      throw std::runtime_error("unexpected type of a tensor: " + std::to_string(type));
  }
}

}  // namespace

ReadGguf read_gguf(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  Cursor cursor(bytes);
  if (cursor.number<uint32_t>() != 0x46554747 || cursor.number<uint32_t>() != 3)
    throw std::runtime_error(path + " is no GGUF file of version 3");
  const auto num_tensors = cursor.number<uint64_t>(), num_values = cursor.number<uint64_t>();
  ReadGguf file;
  for (uint64_t i = 0; i < num_values; ++i) {
    const std::string key = cursor.text();
    file.metadata[key] = cursor.value(cursor.number<uint32_t>());
  }
  std::map<std::string, uint64_t> offsets;
  for (uint64_t i = 0; i < num_tensors; ++i) {
    const std::string name = cursor.text();
    ReadTensor& tensor = file.tensors[name];
    const auto dimensions = cursor.number<uint32_t>();
    for (uint32_t d = 0; d < dimensions; ++d) tensor.sizes.push_back(cursor.number<uint64_t>());
    tensor.type = cursor.number<uint32_t>();
    offsets[name] = cursor.number<uint64_t>();
  }
  const uint64_t begin = (cursor.position() + 31) / 32 * 32;
  for (auto& [name, tensor] : file.tensors) {
    uint64_t elements = 1;
    for (const uint64_t size : tensor.sizes) elements *= size;
    const uint64_t at = begin + offsets[name], size = bytes_of(tensor.type, elements);
    if (at % 32 != 0 || at + size > bytes.size()) throw std::out_of_range(name + " is outside of the file");
    tensor.data = bytes.substr(at, size);
  }
  return file;
}

}  // namespace plimsoll::testing
