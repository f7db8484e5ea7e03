#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/printable.h"
#include "io/ckpt/safetensors.h"

namespace plimsoll {
namespace {

// The format is little-endian, and so is every machine that Plimsoll supports, so no bytes need to be swapped.
static_assert(std::endian::native == std::endian::little);

struct Impostor {
  std::string_view start;
  const char* what;
};

// The first bytes of other kinds of content that files named .safetensors often have, and the text of the error message for each.
constexpr Impostor kImpostors[] = {
    {"version https://git-lfs",
     "is a Git LFS pointer, not the weights themselves: run `git lfs pull` in its folder"},
    {"\x1f\x8b", "is compressed with gzip, whatever its name says: unpack it with `gunzip -c FILE > NEW`"},
    {"\x28\xb5\x2f\xfd",
     "is compressed with zstd, whatever its name says: unpack it with `zstd -dc < FILE > NEW`"},
    {"PK\x03\x04",
     "is a zip archive, such as torch.save() writes: convert it with PyTorch and "
     "safetensors.torch.save_file() instead of renaming it"},
    {"\x80\x02",
     "is a Python pickle, such as torch.save() writes: convert it with PyTorch and "
     "safetensors.torch.save_file() instead of renaming it"},
    {"GGUF", "is a GGUF file of llama.cpp: get the safetensors version of the model"},
    {"\x89HDF", "is an HDF5 file of TensorFlow: get the safetensors version of the model"},
    {"<", "looks like a web page: the download failed, or it needs a login; download it again"},
    {"{", "looks like plain JSON: it lacks the 8 bytes with the length at the start of a safetensors file"},
};

void refuse_impostor(std::string_view start, const std::string& path) {
  for (const Impostor& impostor : kImpostors) {
    if (start.starts_with(impostor.start))
      throw_error(ErrorCode::kBadData, "{}: the file {}", path, impostor.what);
  }
}

// Returns the JSON text of the header, after all checks that are possible without parsing it.
std::string read_header_text(const File& file, int64_t size_bytes) {
  const std::string& path = file.path();
  std::array<char, 32> start{};
  const int64_t num_start = file.pread(std::as_writable_bytes(std::span(start)), 0);
  const std::string_view start_text(start.data(), narrow<size_t>(num_start));
  if (size_bytes < 10) {
    throw_error(ErrorCode::kBadData,
                "{}: the file has {} bytes, but the smallest safetensors file has 10: it is empty or "
                "incomplete. Download or copy it again",
                path, size_bytes);
  }
  uint64_t length = 0;
  std::memcpy(&length, start.data(), sizeof(length));
  if (length > static_cast<uint64_t>(kMaxSafetensorsHeaderBytes)) {
    refuse_impostor(start_text, path);
    throw_error(ErrorCode::kBadData,
                "{}: its first 8 bytes announce a header of {} bytes, but the format allows at most {}. It "
                "is not a safetensors file, or its start is damaged; download or copy it again",
                path, length, kMaxSafetensorsHeaderBytes);
  }
  const auto header_bytes = static_cast<int64_t>(length);
  if (header_bytes > size_bytes - 8) {
    refuse_impostor(start_text, path);
    throw_error(ErrorCode::kBadData,
                "{}: the header ends at byte {}, but the file has only {}: it is incomplete. Download or "
                "copy it again",
                path, 8 + header_bytes, size_bytes);
  }
  std::string text(length, '\0');
  read_exactly(file, std::as_writable_bytes(std::span(text)), 8, "its header");
  return text;
}

template <DType kType>
double load_element(const std::byte* at) {
  const auto load = [at]<typename T>(T value) {
    std::memcpy(&value, at, sizeof(T));
    return value;
  };
  if constexpr (kType == DType::kF64) return load(double{});
  if constexpr (kType == DType::kF32) return static_cast<double>(load(float{}));
  if constexpr (kType == DType::kBF16) return static_cast<double>(bf16_to_f32(load(uint16_t{})));
  if constexpr (kType == DType::kF16) return static_cast<double>(f16_to_f32(load(uint16_t{})));
}

template <DType kType>
void store_element(void* base, int64_t i, double value) {
  if constexpr (kType == DType::kF64) static_cast<double*>(base)[i] = value;
  if constexpr (kType == DType::kF32) static_cast<float*>(base)[i] = static_cast<float>(value);
  if constexpr (kType == DType::kBF16)
    static_cast<uint16_t*>(base)[i] = f32_to_bf16(static_cast<float>(value));
  if constexpr (kType == DType::kF16) static_cast<uint16_t*>(base)[i] = f32_to_f16(static_cast<float>(value));
}

// Calls body with the type as a compile-time constant. Requires: the type is f16, bf16, f32 or f64.
template <typename Body>
void with_floating(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::kF64:
      return body(std::integral_constant<DType, DType::kF64>{});
    case DType::kF32:
      return body(std::integral_constant<DType, DType::kF32>{});
    case DType::kBF16:
      return body(std::integral_constant<DType, DType::kBF16>{});
    case DType::kF16:
      return body(std::integral_constant<DType, DType::kF16>{});
    default:
      PLIMSOLL_CHECK(false, "{} is not a floating-point type, so its values cannot be converted",
                     dtype_name(dtype));
  }
}

// Converts elements and stores them at destination[first], destination[first + step], .... Values are converted through double, which
// represents every value of f16, bf16, f32 and f64 exactly; conversions to 16 bits first round to fp32.
void convert(std::span<const std::byte> source, DType source_type, View destination, int64_t first,
             int64_t step = 1) {
  with_floating(source_type, [&](auto from) {
    with_floating(destination.dtype, [&](auto to) {
      constexpr int64_t kStep = dtype_bytes(from());
      const int64_t count = std::ssize(source) / kStep;
      for (int64_t i = 0; i < count; ++i) {
        store_element<to()>(destination.data, first + i * step,
                            load_element<from()>(source.data() + i * kStep));
      }
    });
  });
}

}  // namespace

StoredTensor transpose_of(StoredTensor tensor) {
  if (tensor.is_transposed || tensor.shape.size() != 2) return tensor;
  tensor.is_transposed = true;
  std::swap(tensor.shape[0], tensor.shape[1]);
  return tensor;
}

SafetensorsFile SafetensorsFile::open(FileSystem& files, const std::string& path) {
  SafetensorsFile opened;
  opened.path_ = path;
  opened.file_ = files.open_read(path);
  opened.size_bytes_ = opened.file_->size_bytes();
  const std::string text = read_header_text(*opened.file_, opened.size_bytes_);
  opened.header_ = parse_safetensors_header(text, opened.size_bytes_, path);
  for (size_t i = 0; i < opened.header_.tensors.size(); ++i) {
    opened.by_name_.emplace(opened.header_.tensors[i].name, i);
  }
  return opened;
}

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &header_.tensors[found->second];
}

void SafetensorsFile::transpose(std::string_view name) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return;
  // Assigns all members except the name, because the keys of by_name_ refer to the characters of the names.
  StoredTensor& tensor = header_.tensors[found->second];
  StoredTensor transposed = transpose_of(tensor);
  tensor.shape = std::move(transposed.shape);
  tensor.is_transposed = transposed.is_transposed;
}

// Reads rows of the transpose, which are columns of the matrix in the file. In each row of the file, the elements of the wanted columns
// are adjacent, so each row is read with one call.
void SafetensorsFile::read_transposed_rows(const StoredTensor& tensor, DType source_type, RowRange rows,
                                           View destination) const {
  const int64_t file_rows = tensor.shape[1];
  const int64_t file_columns = tensor.shape[0];
  const int64_t source_bytes = dtype_bytes(source_type);
  std::vector<std::byte> run(narrow<size_t>(rows.count * source_bytes));
  const std::string what = "tensor " + quoted_name(tensor.name);
  for (int64_t row = 0; row < file_rows; ++row) {
    const int64_t offset =
        header_.data_offset + tensor.begin + (row * file_columns + rows.first) * source_bytes;
    read_exactly(*file_, run, offset, what);
    convert(run, source_type, destination, row, file_rows);
  }
}

void SafetensorsFile::read(const StoredTensor& tensor, View destination) const {
  read_rows(tensor, {0, tensor.num_rows()}, destination);
}

void SafetensorsFile::read_rows(const StoredTensor& tensor, RowRange rows, View destination) const {
  PLIMSOLL_CHECK(rows.first >= 0 && rows.count >= 0 && rows.count <= tensor.num_rows() - rows.first,
                 "cannot read {1} rows from row {0} on, because the tensor has {2} rows", rows.first,
                 rows.count, tensor.num_rows());
  const auto source_type = stored_type_dtype(tensor.type);
  const bool same = source_type == destination.dtype;
  if (!source_type || (!same && !(is_floating(*source_type) && is_floating(destination.dtype)))) {
    throw_error(ErrorCode::kBadData,
                "{}: tensor {} (at byte {}) is stored as {}, which cannot be converted to {}; save the model "
                "with weights in F32, F16 or BF16",
                path_, quoted_name(tensor.name), header_.data_offset + tensor.begin,
                stored_type_name(tensor.type), dtype_name(destination.dtype));
  }
  const int64_t num_elements = tensor.num_elements();
  if (num_elements == 0) return;
  if (tensor.is_transposed) {
    PLIMSOLL_CHECK(is_floating(*source_type),
                   "only matrices of floating-point numbers can be transposed while they are read, but this "
                   "one is stored as {}",
                   dtype_name(*source_type));
    return read_transposed_rows(tensor, *source_type, rows, destination);
  }
  const int64_t row_elements = num_elements / tensor.num_rows();
  const int64_t source_bytes = dtype_bytes(*source_type);
  const int64_t offset = header_.data_offset + tensor.begin + rows.first * row_elements * source_bytes;
  const int64_t total = rows.count * row_elements;
  const std::string what = "tensor " + quoted_name(tensor.name);
  if (same) {
    read_exactly(*file_, {static_cast<std::byte*>(destination.data), narrow<size_t>(total * source_bytes)},
                 offset, what);
    return;
  }
  const int64_t chunk_elements = kFileChunkBytes / source_bytes;
  std::vector<std::byte> chunk(narrow<size_t>(std::min(total, chunk_elements) * source_bytes));
  for (int64_t first = 0; first < total; first += chunk_elements) {
    const int64_t count = std::min(chunk_elements, total - first);
    const auto bytes = std::span(chunk).first(narrow<size_t>(count * source_bytes));
    read_exactly(*file_, bytes, offset + first * source_bytes, what);
    convert(bytes, *source_type, destination, first);
  }
}

}  // namespace plimsoll
