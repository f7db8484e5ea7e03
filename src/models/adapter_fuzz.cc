// Fuzzes the reader of adapter_config.json and the choice of the modules that the file names. The fuzzer reports any result other than an
// adapter or an Error with code kBadData or kUsage. It also reports an adapter that changes when it is written and read again.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/testing/fuzz_answer.h"
#include "models/config.h"
#include "models/lora.h"
#include "models/model.h"

namespace plimsoll {
namespace {

// Returns the weights of the model that `preset` names, reduced to two layers.
std::vector<WeightSpec> small_model(std::string_view preset) {
  ModelConfig config = *find_preset(preset);
  config.num_hidden_layers = 2;
  return model_weights(config);
}

void check_adapter(std::string_view text) {
  const AdapterConfig adapter = parse_adapter_config(text, "fuzz");
  const std::string written = adapter_config_json(adapter, "bert");
  const AdapterConfig again = parse_adapter_config(written, "fuzz");
  PLIMSOLL_CHECK(adapter_config_json(again, "bert") == written);
  PLIMSOLL_CHECK(again.lora.r == adapter.lora.r && again.lora.alpha == adapter.lora.alpha &&
                 again.lora.dropout == adapter.lora.dropout &&
                 again.lora.use_rslora == adapter.lora.use_rslora && again.base_model == adapter.base_model &&
                 again.lora.base_change == adapter.lora.base_change &&
                 again.lora.layers_pattern == adapter.lora.layers_pattern &&
                 again.lora.layers_to_transform == adapter.lora.layers_to_transform);
  static const std::vector<WeightSpec> bert = small_model("bert-base-uncased");
  static const std::vector<WeightSpec> distilbert = small_model("distilbert-base-uncased");
  std::vector<WeightSpec> specs = adapter.lora.use_rslora ? distilbert : bert;
  LoraConfig config = adapter.lora;
  exclude_saved_targets(specs, config);
  add_lora_weights(specs, adapter.lora.use_rslora ? "distilbert" : "bert", config);
}

}  // namespace
}  // namespace plimsoll

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  plimsoll::expect_value_or({plimsoll::ErrorCode::kBadData, plimsoll::ErrorCode::kUsage}, [&] {
    plimsoll::check_adapter({reinterpret_cast<const char*>(data), size});
  });
  return 0;
}
