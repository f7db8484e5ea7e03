// The tuning table: the cuBLASLt algorithm that a run uses for each matrix product, as measured on a GPU. Pure data and an input of the
// plan: runs with the same table compute the same bits. The code in src/exec measures it. It is stored in a folder of the user and in every
// checkpoint, and is read again when a run resumes.
//
// Memory planning does not depend on it: every algorithm in the table works within the common workspace of all matrix products, so the
// plan's memory is the same with any table and without one.
//
// Invariants:
// 1. The bytes of an algorithm are cuBLASLt's own representation of it (cublasLtMatmulAlgo_t). They are valid for the version of the
// library and the kind of GPU that the table names. Tables of other versions or GPUs are not used.
// 2. A matrix product without an entry, or with an entry that the library refuses, uses the library's first choice.
// 3. Converting a value to text and back is exact.
//
// Thread-safety: a value; the functions are pure.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace plimsoll {

inline constexpr int kTuningSchemaVersion = 1;
// Size of one algorithm in cuBLASLt's representation.
inline constexpr int kTunedAlgorithmBytes = 64;

// Identifies a matrix product by its sizes m, n and k, and by `form`, a text that contains all other parameters of the library
// call, such as "nt bf16*bf16->f32 add". Keys are compared by `form` first.
struct ProductKey {
  std::string form = {};
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  // clang-tidy warns here, because it mistakes the 0 in the comparison that the compiler generates for a null pointer.
  auto operator<=>(const ProductKey&) const = default;  // NOLINT(modernize-use-nullptr)
};

// Formats a matrix product: "16384 x 1024 x 4096 nt bf16*bf16->bf16".
std::string format_product_key(const ProductKey& key);

struct TunedProduct {
  std::array<uint8_t, kTunedAlgorithmBytes> algorithm = {};
  int64_t workspace_bytes = 0;
  double ms = 0;  // time of the fastest algorithm, as the median of several measurements
  // time of the algorithm that the library would choose, measured at the same time for comparison
  double first_ms = 0;
  int num_candidates = 0;  // number of algorithms that were measured
  std::string words = {};  // the library's description of the chosen algorithm
  friend bool operator==(const TunedProduct&, const TunedProduct&) = default;
};

struct TuningTable {
  std::string card = {};     // name of the GPU in CUDA, such as "NVIDIA H200"
  std::string library = {};  // name and version of the library, such as "cuBLASLt 130100"
  int64_t workspace_bytes = 0;
  std::map<ProductKey, TunedProduct> products = {};

  bool empty() const { return products.empty(); }
  const TunedProduct* find(const ProductKey& key) const;
  // Returns the entry of this matrix product. If there is none, returns the entry of the nearest product with the same form: two
  // of its three sizes must be equal, and the ratio of the third sizes must be the smallest (of two equally near ones, the
  // smaller is taken). Returns null if there is no such entry.
  const TunedProduct* nearest(const ProductKey& key) const;
  friend bool operator==(const TuningTable&, const TuningTable&) = default;
};

// Returns a hash of the complete table, or 0 for an empty one.
uint64_t tuning_table_hash(const TuningTable& table);

// Formats the table as JSON with the version of the schema and a hash of the content.
std::string tuning_table_json(const TuningTable& table);
// Parses a table. Errors: kBadData with `source` if the text is not the JSON text of a table, has another schema
// version, or does not match its hash.
TuningTable parse_tuning_table(std::string_view text, const std::string& source);

}  // namespace plimsoll
