#include "run/caches.h"

#include <gtest/gtest.h>

#include "base/file_fault.h"

namespace plimsoll {
namespace {

TuningTable small_table() {
  TuningTable table{.card = "NVIDIA H200", .library = "cuBLASLt 130100", .workspace_bytes = 32 << 20};
  table.products[{.form = "nt f32*f32->f32", .m = 64, .n = 64, .k = 64}] = {.ms = 0.25,
                                                                            .words = "algorithm 1"};
  return table;
}

PlanRequest small_request() {
  PlanRequest request;
  request.model.config.hidden_size = 64;
  request.device.gpu.product = "H200";
  request.batches.train = {.tokens = 2048, .sequences = 4, .longest = 512};
  return request;
}

TEST(TuningCache, FolderOfTheEnvironment) {
  EXPECT_EQ(tuning_cache_folder("auto", {{"XDG_CACHE_HOME", "/x"}, {"HOME", "/h"}}), "/x/plimsoll/tuning");
  EXPECT_EQ(tuning_cache_folder("auto", {{"HOME", "/h"}}), "/h/.cache/plimsoll/tuning");
  EXPECT_EQ(tuning_cache_folder("auto", {}), "");
  EXPECT_EQ(tuning_cache_folder("off", {{"HOME", "/h"}}), "");
  EXPECT_EQ(tuning_cache_folder("/here", {}), "/here");
}

TEST(TuningCache, RunsOfOneKindHaveOneFile) {
  const std::string name = tuning_file_name(small_request());
  EXPECT_TRUE(name.starts_with("h200-") && name.ends_with(".json")) << name;
  PlanRequest other = small_request();
  EXPECT_EQ(tuning_file_name(other), name);
  other.update.optimizer.beta1 = 0.5;
  EXPECT_EQ(tuning_file_name(other), name) << "no product depends on the optimizer";
  other.batches.train.tokens = 1024;
  EXPECT_NE(tuning_file_name(other), name);
  other = small_request();
  other.precision.fp32_products = Fp32Products::kTf32x3;
  EXPECT_NE(tuning_file_name(other), name);
  other = small_request();
  other.batches.accumulation_steps = 2;
  EXPECT_NE(tuning_file_name(other), name);
  other = small_request();
  other.device.gpu.product = "A100-SXM4-80GB";
  EXPECT_TRUE(tuning_file_name(other).starts_with("a100-sxm4-80gb-"));
}

TEST(TuningCache, KeepsAndReads) {
  MemoryFileSystem files;
  std::vector<std::string> warnings;
  EXPECT_TRUE(read_tuning_table(files, "/cache/plimsoll/tuning/a.json", warnings).empty());
  EXPECT_EQ(keep_tuning_table(files, "/cache/plimsoll/tuning/a.json", small_table()), "");
  EXPECT_EQ(read_tuning_table(files, "/cache/plimsoll/tuning/a.json", warnings), small_table());
  EXPECT_TRUE(warnings.empty());
}

TEST(TuningCache, WhatCannotBeUsedIsAWarning) {
  MemoryFileSystem files;
  std::vector<std::string> warnings;
  std::string text = tuning_table_json(small_table());
  text[text.find("H200")] = 'A';
  write_synced_file(files, "/a.json", text);
  EXPECT_TRUE(read_tuning_table(files, "/a.json", warnings).empty());
  write_synced_file(files, "/b.json", "{\"schema_version\": 2}");
  EXPECT_TRUE(read_tuning_table(files, "/b.json", warnings).empty());
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_NE(warnings[0].find("/a.json: the file is damaged"), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[1].find("schema version 2"), std::string::npos) << warnings[1];
  EXPECT_NE(warnings[1].find("measured again"), std::string::npos) << warnings[1];
}

}  // namespace
}  // namespace plimsoll
