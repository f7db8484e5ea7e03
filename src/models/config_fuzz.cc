// Fuzzes the readers of config.json and --config_overrides. The fuzzer reports any result other than a configuration or an Error of bad
// data or usage. It also reports a configuration that changes when it is written and read again. The first byte selects the reader.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/testing/fuzz_answer.h"
#include "models/config.h"

namespace plimsoll {
namespace {

void check_file(std::string_view text) {
  const ModelConfig config = parse_model_config(text, "fuzz");
  // Skips configurations with many labels, because writing the names of a million labels takes seconds and tests nothing new.
  if (config.num_labels > 1000) return;
  const std::string written = model_config_json(config);
  ModelConfig again = parse_model_config(written, "fuzz");
  PLIMSOLL_CHECK(model_config_json(again) == written);
  // The stored texts of the two configurations may differ, because the written text also states the data type of the trained weights.
  again.source = config.source;
  if (config.id2label.empty()) again.id2label.clear();
  PLIMSOLL_CHECK(again == config);
}

void check_overrides(std::string_view text) {
  ModelConfig config = *find_preset("bert-base-uncased");
  apply_config_overrides(config, text);
  check_model_config(config, "fuzz");
}

}  // namespace
}  // namespace plimsoll

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  plimsoll::expect_value_or({plimsoll::ErrorCode::kBadData, plimsoll::ErrorCode::kUsage}, [&] {
    if ((data[0] & 1) != 0) {
      plimsoll::check_overrides(text);
    } else {
      plimsoll::check_file(text);
    }
  });
  return 0;
}
