// The tuning table: which algorithm of the product library a run takes for each matrix product, as measured
// on a card. Pure data, and an input of the plan: the same table gives the same bits. It is measured by
// exec/, kept in a folder of the user's and in every checkpoint, and read again when a run goes on.
//
// What it is not: no part of memory planning. Every algorithm in it works within the one workspace that all
// products are given, so a plan holds the same bytes with any table and with none.
//
// Invariants:
//  1. An algorithm is the library's own serialised choice, valid for the library's version and the kind of
//     card that the table names. Tables of other versions or cards are not used.
//  2. A product without an entry, or with one that the library refuses, gets the library's first choice.
//  3. Text and value round-trip exactly.
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
// Bytes of one algorithm as cuBLASLt keeps it.
inline constexpr int kTunedAlgorithmBytes = 64;

// A product by its sizes and its form: the rest of what the library is asked for, in words such as
// "nt bf16*bf16->f32 add". Ordered by form first.
struct ProductKey {
  std::string form = {};
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  // clang-tidy takes the zero that a comparison is rewritten with for a null pointer.
  auto operator<=>(const ProductKey&) const = default;  // NOLINT(modernize-use-nullptr)
};

// "16384 x 1024 x 4096 nt bf16*bf16->bf16".
std::string format_product_key(const ProductKey& key);

struct TunedProduct {
  std::array<uint8_t, kTunedAlgorithmBytes> algorithm = {};
  int64_t workspace_bytes = 0;
  double ms = 0;           // measured, as the median of some runs
  double first_ms = 0;     // of the library's first choice, measured beside it
  int num_candidates = 0;  // that were measured
  std::string words = {};  // what the library says of the algorithm
  friend bool operator==(const TunedProduct&, const TunedProduct&) = default;
};

struct TuningTable {
  std::string card = {};     // CUDA's name for it: "NVIDIA H200"
  std::string library = {};  // "cuBLASLt 130100"
  int64_t workspace_bytes = 0;
  std::map<ProductKey, TunedProduct> products = {};

  bool empty() const { return products.empty(); }
  const TunedProduct* find(const ProductKey& key) const;
  // The product itself, else of the same form the one whose sizes are nearest: two of them equal, the third
  // by the smallest ratio, the smaller one of two that are as near. Null where there is none.
  const TunedProduct* nearest(const ProductKey& key) const;
  friend bool operator==(const TuningTable&, const TuningTable&) = default;
};

// Of everything in the table; 0 for an empty one.
uint64_t tuning_table_hash(const TuningTable& table);

// JSON with the schema's version and the hash of what it holds.
std::string tuning_table_json(const TuningTable& table);
// Errors: kBadData naming `source` where the text is no such JSON, of another schema version, or does not
// hold what its hash says.
TuningTable parse_tuning_table(std::string_view text, const std::string& source);

}  // namespace plimsoll
