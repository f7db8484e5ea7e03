// Low-rank adapters: beside a linear module's W stand two small matrices, y = x W^T + b + s B A dropout(x)
// with A [r, in], B [out, r] and s = alpha / r (Hu et al., arXiv 2106.09685), or alpha / sqrt(r) (arXiv
// 2312.03732). The model's own weights are frozen but for the modules that are saved with the adapter. Names,
// defaults and the choice of modules are those of PEFT's LoraConfig. Thread-safe: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/model.h"

namespace plimsoll {

// How the weights of the base's linear modules are held while adapters train: as they come, or in 8 or 4 bits
// with the scales of blocks (arXiv 2110.02861 and 2305.14314).
enum class BaseWeights : uint8_t { kAsLoaded, kInt8, kFp4, kNf4 };

struct LoraConfig {
  int64_t r = 8;
  double alpha = 8.0;
  double dropout = 0.0;
  // Ends of module names ("query", "self.query"); or one regular expression that fits whole names; or
  // "all-linear": all but the classifier. Empty: the default of the architecture.
  std::vector<std::string> target_modules = {};
  // Modules that get no adapter all the same, in the same two forms.
  std::vector<std::string> exclude_modules = {};
  // Numbers of the layers whose modules get adapters; empty: all. Only beside ends of names, as in PEFT.
  std::vector<int64_t> layers_to_transform = {};
  // Modules that are trained whole and saved with the adapter, beside the classifier.
  std::vector<std::string> modules_to_save = {};
  bool use_rslora = false;
  BaseWeights base_weights = BaseWeights::kAsLoaded;
  bool double_quant = false;  // the scales of 4-bit blocks are held in 8 bits
  // Modules whose weights are held as they come whatever `base_weights` says; no part of an adapter.
  std::vector<std::string> as_loaded_modules = {};
  double scale() const;
  friend bool operator==(const LoraConfig&, const LoraConfig&) = default;
};

// A linear module that gets an adapter.
struct LoraTarget {
  std::string module;  // as Hugging Face names it: "bert.encoder.layer.0.attention.self.query"
  std::string weight;  // the graph's weight that holds its W
  int64_t first_row = 0;
  int64_t out = 0;
  int64_t in = 0;
  std::string a() const { return module + ".lora_A.weight"; }
  std::string b() const { return module + ".lora_B.weight"; }
};

// Returns the modules that get adapters unless target_modules names others; empty if the architecture has no
// default. Requires: the model_type is an architecture's.
std::vector<std::string> default_lora_targets(std::string_view model_type);

// What PEFT puts before every name in an adapter's file.
inline constexpr std::string_view kAdapterPrefix = "base_model.model.";

// The modules that the configuration chooses, in the order of the model. `specs` are model_weights(). Errors:
// kUsage for a target or a module to save that the model lacks (with those that it has), for one that is no
// linear module, where none is left, for layers beside other targets than ends of names, and for a rank below
// 1.
std::vector<LoraTarget> lora_targets(const std::vector<WeightSpec>& specs, std::string_view model_type,
                                     const LoraConfig& config);

// Whether what a user leaves out is there. The file of an adapter may name more than its model has, as PEFT's
// may. Errors: kUsage for an excluded module, a layer or a module as loaded that the model lacks.
void check_left_out(const std::vector<WeightSpec>& specs, const LoraConfig& config);

// Whether a weight of the base is held as it comes, for as_loaded_modules. Errors: kUsage where they name a
// part of a matrix.
bool is_held_as_loaded(const WeightSpec& spec, const LoraConfig& config);

// The weights of the adapted model: the model's, frozen but for the modules to save, and the adapter's.
void add_lora_weights(std::vector<WeightSpec>& specs, std::string_view model_type, const LoraConfig& config);

// Puts the adapters into a forward graph as the model builds it. Every adapter draws its own dropout when
// training. Requires: targets are of the graph's model.
void add_lora(Graph& graph, const std::vector<LoraTarget>& targets, const LoraConfig& config, Mode mode);

}  // namespace plimsoll
