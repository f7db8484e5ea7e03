#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "base/check.h"
#include "io/ckpt/safetensors.h"

namespace plimsoll {
namespace {

std::string json_string(const std::string& text) {
  return nlohmann::json(text).dump();
}

// Returns the tensors in canonical order: first by type, wide types first, so that their data is aligned, then by name.
std::vector<const TensorSource*> canonical_order(std::span<const TensorSource> tensors) {
  std::vector<const TensorSource*> order;
  std::set<std::string_view> names;
  for (const TensorSource& tensor : tensors) {
    PLIMSOLL_CHECK(tensor.name != "__metadata__" && names.insert(tensor.name).second,
                   "the tensor name '{}' is used twice, or is reserved by the format", tensor.name);
    order.push_back(&tensor);
  }
  std::ranges::sort(order, [](const TensorSource* a, const TensorSource* b) {
    const StoredType type_a = to_stored_type(a->dtype);
    const StoredType type_b = to_stored_type(b->dtype);
    return type_a != type_b ? type_a > type_b : a->name < b->name;
  });
  return order;
}

// Returns the start of the file: the length of the JSON and the JSON, which is padded with spaces so that the data begins at a multiple
// of 8 bytes.
std::string format_header(std::span<const TensorSource* const> order,
                          const std::map<std::string, std::string>& metadata) {
  std::string json = "{";
  if (!metadata.empty()) json += "\"__metadata__\":" + nlohmann::json(metadata).dump();
  int64_t offset = 0;
  for (const TensorSource* tensor : order) {
    if (json.size() > 1) json += ',';
    const int64_t end = offset + tensor->size_bytes();
    json += fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                        json_string(tensor->name), stored_type_name(to_stored_type(tensor->dtype)),
                        fmt::join(tensor->shape, ","), offset, end);
    offset = end;
  }
  json += '}';
  json.append((8 - json.size() % 8) % 8, ' ');
  PLIMSOLL_CHECK(
      std::ssize(json) <= kMaxSafetensorsHeaderBytes,
      "the header of the safetensors file would have {} bytes, which is more than the format allows",
      json.size());
  const uint64_t length = json.size();
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, sizeof(length));
  return text + json;
}

void write_data(File& file, const TensorSource& tensor, HashStream128& hash) {
  const int64_t size = tensor.size_bytes();
  PLIMSOLL_CHECK(size == 0 || (tensor.data != nullptr) != static_cast<bool>(tensor.fill),
                 "tensor '{}' needs either data or fill", tensor.name);
  std::vector<std::byte> chunk(tensor.fill ? narrow<size_t>(std::min(size, kFileChunkBytes)) : 0);
  for (int64_t offset = 0; offset < size; offset += kFileChunkBytes) {
    const auto count = narrow<size_t>(std::min(kFileChunkBytes, size - offset));
    std::span<const std::byte> bytes;
    if (tensor.fill) {
      tensor.fill(offset, std::span(chunk).first(count));
      bytes = std::span(chunk).first(count);
    } else {
      bytes = {static_cast<const std::byte*>(tensor.data) + offset, count};
    }
    hash.update(bytes);
    file.write(bytes);
  }
}

}  // namespace

int64_t TensorSource::num_elements() const {
  int64_t product = 1;
  for (const int64_t size : shape) {
    PLIMSOLL_CHECK(size >= 0 && !__builtin_mul_overflow(product, size, &product),
                   "tensor '{}' has the shape {}, which has a negative size or more than 2^63 - 1 elements",
                   name, format_shape(shape));
  }
  return product;
}

SafetensorsLayout lay_out_safetensors(std::span<const TensorSource> tensors,
                                      const std::map<std::string, std::string>& metadata) {
  const std::vector<const TensorSource*> order = canonical_order(tensors);
  SafetensorsLayout layout;
  layout.header = format_header(order, metadata);
  layout.size_bytes = std::ssize(layout.header);
  for (const TensorSource* tensor : order) {
    layout.places.push_back({tensor, layout.size_bytes});
    layout.size_bytes += tensor->size_bytes();
  }
  return layout;
}

WrittenFile write_safetensors(FileSystem& files, const std::string& path,
                              std::span<const TensorSource> tensors,
                              const std::map<std::string, std::string>& metadata) {
  const SafetensorsLayout layout = lay_out_safetensors(tensors, metadata);
  const auto file = files.create(path);
  HashStream128 hash;
  hash.update(layout.header);
  file->write(std::as_bytes(std::span(layout.header)));
  for (const SafetensorsLayout::Place& place : layout.places) write_data(*file, *place.tensor, hash);
  file->sync();
  file->close();
  return {file_name(path), layout.size_bytes, hash.digest()};
}

}  // namespace plimsoll
