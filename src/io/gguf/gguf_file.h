// The GGUF file format, version 3, which llama.cpp and the programs built on it read: a writer.
//
// A file consists of "GGUF", the version, the numbers of tensors and of entries, the entries of the metadata, a description
// of each tensor (name, sizes from the innermost dimension, type, offset), and the data of the tensors. Numbers are
// little-endian. The data, and the data of each tensor, begins at a multiple of 32 bytes; the bytes between are zero.
//
// The writer reads the tensors piece by piece, so that its memory does not depend on the size of the model. Thread-safe: free
// functions. Errors: kBadData for numbers that cannot be stored, with the tensor and the remedy; FileError from the disk.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/gguf_metadata.h"

namespace plimsoll {

// The types in which elements are stored, with the numbers that the format gives them. kQ8_0 stores blocks of 32 elements of a
// row as a scale in f16 and 32 integers of 8 bits.
enum class GgufType : uint32_t { kF32 = 0, kF16 = 1, kQ8_0 = 8, kBF16 = 30 };

inline constexpr int64_t kGgufBlock = 32;      // elements in a block of kQ8_0
inline constexpr int64_t kGgufAlignment = 32;  // in bytes

// Returns the size of a row in bytes. Requires: a row of kQ8_0 has complete blocks.
int64_t gguf_row_bytes(GgufType type, int64_t columns);

// Encodes numbers, which are rounded to nearest: to f16 and bf16 with ties to even, and to the integers of a block with ties away from
// zero after the multiplication by the reciprocal of its scale, as the reference implementation of the format does. Requires: `bytes` has
// gguf_row_bytes(type, values.size()) bytes. Returns the index of the first number that the type cannot store (one that is not finite, or
// beyond the largest of f16), or -1.
int64_t encode_gguf(GgufType type, std::span<const float> values, std::span<std::byte> bytes);

// A tensor to write. Its rows are the elements of the innermost dimension; a vector has one row.
struct GgufTensor {
  std::string name;
  GgufType type = GgufType::kF32;
  std::vector<int64_t> shape;  // from the outermost dimension to the innermost one; one or two sizes
  // The tensor is read in pieces of a multiple of this many rows.
  int64_t rows_per_unit = 1;
  // Fills `values` with consecutive rows from `first_row` on. Called in the order of the rows.
  std::function<void(int64_t first_row, std::span<float> values)> read = {};

  int64_t rows() const { return shape.size() > 1 ? shape.front() : 1; }
  int64_t columns() const { return shape.back(); }
  int64_t size_bytes() const { return rows() * gguf_row_bytes(type, columns()); }
};

// Writes the file under a temporary name, syncs it, renames it to `path` and syncs the folder, so that after a failure or a
// crash `path` is either unchanged or complete. Returns the size of the file. After a failure no temporary file is left, unless
// the disk refuses to remove it. Requires: the names of tensors and the keys of entries are distinct; rows_per_unit divides
// the number of rows.
int64_t write_gguf(FileSystem& files, const std::string& path, const GgufMetadata& metadata,
                   std::span<const GgufTensor> tensors);

// Returns true if the file begins as a GGUF file does.
bool is_gguf_file(FileSystem& files, const std::string& path);

}  // namespace plimsoll
