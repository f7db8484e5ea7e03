#include "hardware/tuning_table.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "plimsoll/error.h"

namespace plimsoll {
namespace {

TuningTable small_table() {
  TuningTable table{.card = "NVIDIA H200", .library = "cuBLASLt 130100", .workspace_bytes = 32 << 20};
  TunedProduct product{.workspace_bytes = 4096,
                       .ms = 0.1,
                       .first_ms = 1.0 / 3.0,
                       .num_candidates = 8,
                       .words = "algorithm 66, \"tile\" 20"};
  for (size_t i = 0; i < product.algorithm.size(); ++i) product.algorithm[i] = static_cast<uint8_t>(i * 5);
  table.products[{.form = "nt bf16*bf16->bf16", .m = 2048, .n = 1024, .k = 4096}] = product;
  product.ms = 0.2;
  table.products[{.form = "nt bf16*bf16->bf16", .m = 1024, .n = 1024, .k = 4096}] = product;
  product.ms = 0.3;
  table.products[{.form = "nt bf16*bf16->bf16 add", .m = 2048, .n = 1024, .k = 4096}] = product;
  return table;
}

std::string refusal(const std::string& text) {
  try {
    static_cast<void>(parse_tuning_table(text, "cards/h200.json"));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadData);
    return error.what();
  }
  return "not refused";
}

void expect_words(const std::string& text, const std::vector<std::string>& words) {
  const std::string message = refusal(text);
  for (const std::string& word : words) {
    EXPECT_NE(message.find(word), std::string::npos) << word << " in: " << message;
  }
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(TuningTable, TextRoundTripsEveryBit) {
  const TuningTable table = small_table();
  const std::string text = tuning_table_json(table);
  const TuningTable again = parse_tuning_table(text, "memory");
  EXPECT_EQ(again, table);
  EXPECT_EQ(tuning_table_json(again), text);
  EXPECT_EQ(tuning_table_hash(again), tuning_table_hash(table));
  EXPECT_EQ(parse_tuning_table(tuning_table_json({}), "memory"), TuningTable());
}

TEST(TuningTable, HashIsOfTheContent) {
  TuningTable table = small_table();
  const uint64_t before = tuning_table_hash(table);
  EXPECT_NE(before, 0u);
  EXPECT_EQ(tuning_table_hash({}), 0u);
  table.products.begin()->second.algorithm[63] ^= 1;
  EXPECT_NE(tuning_table_hash(table), before);
}

TEST(TuningTable, NearestOfTheSameForm) {
  const TuningTable table = small_table();
  const std::string form = "nt bf16*bf16->bf16";
  const auto ms = [&](ProductKey key) {
    const TunedProduct* product = table.nearest(key);
    return product == nullptr ? 0.0 : product->ms;
  };
  EXPECT_EQ(ms({.form = form, .m = 2048, .n = 1024, .k = 4096}), 0.1);
  EXPECT_EQ(ms({.form = form, .m = 1900, .n = 1024, .k = 4096}), 0.1);
  EXPECT_EQ(ms({.form = form, .m = 1100, .n = 1024, .k = 4096}), 0.2);
  EXPECT_EQ(ms({.form = form, .m = 16, .n = 1024, .k = 4096}), 0.2);
  // If two entries are equally near to the product, the smaller one must be used.
  TuningTable two = table;
  two.products[{.form = form, .m = 4096, .n = 1024, .k = 4096}] = {.ms = 0.4};
  two.products.erase({.form = form, .m = 2048, .n = 1024, .k = 4096});
  EXPECT_EQ(two.nearest({.form = form, .m = 2048, .n = 1024, .k = 4096})->ms, 0.2);
  // An entry must not be used if two of m, n and k differ from those of the product, or if the form differs.
  EXPECT_EQ(ms({.form = form, .m = 2047, .n = 1023, .k = 4096}), 0.0);
  EXPECT_EQ(ms({.form = "tn bf16*bf16->bf16", .m = 2048, .n = 1024, .k = 4096}), 0.0);
  EXPECT_EQ(table.find({.form = form, .m = 2047, .n = 1024, .k = 4096}), nullptr);
}

TEST(TuningTable, RefusesOtherSchemas) {
  expect_words(replaced(tuning_table_json(small_table()), "\"schema_version\": 1", "\"schema_version\": 7"),
               {"cards/h200.json", "schema version 7", "reads version 1"});
}

TEST(TuningTable, RefusesWhatIsDamaged) {
  const std::string good = tuning_table_json(small_table());
  expect_words(replaced(good, "NVIDIA H200", "NVIDIA H100"),
               {"cards/h200.json", "damaged", "the file states"});
  expect_words("", {"cards/h200.json", "not a valid tuning table"});
  expect_words("[1, 2]", {"not a valid tuning table"});
  expect_words("{\"schema_version\": 1}", {"not a valid tuning table", "xxh3"});
  // A text that is cut off at any position must be refused.
  int cuts = 0;
  for (size_t length = 0; length + 2 < good.size(); length += 37, ++cuts) {
    expect_words(good.substr(0, length), {"not a valid tuning table"});
  }
  EXPECT_GT(cuts, 20);
}

}  // namespace
}  // namespace plimsoll
