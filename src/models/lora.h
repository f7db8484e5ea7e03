// Low-rank adapters add two small matrices to a linear module: y = x W^T + b + s B A dropout(x) with A [r, in],
// B [out, r] and s = alpha / r (Hu et al., arXiv 2106.09685), or alpha / sqrt(r) (arXiv 2312.03732). The model's
// own weights are frozen, except for the modules that are saved with the adapter. Names, defaults and the choice
// of modules are those of PEFT's LoraConfig. Thread-safe: pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/model.h"

namespace plimsoll {

// The format of the base model's linear weights while adapters train: the format in which they are loaded, or 8
// or 4 bits with a scale per block (arXiv 2110.02861 and 2305.14314).
enum class BaseWeights : uint8_t { kAsLoaded, kInt8, kFp4, kNf4 };

// The change that the initialisation of an adapter made to the base model's weights (PEFT's init_lora_weights "pissa" and "olora").
// change_base() computes it.
enum class BaseChange : uint8_t { kNone, kPissa, kOlora };

struct LoraConfig {
  int64_t r = 8;
  double alpha = 8.0;
  double dropout = 0.0;
  // Suffixes of module names ("query", "self.query"), or one regular expression for whole names, or
  // "all-linear": all modules except the classifier. If empty, the default of the architecture is used.
  std::vector<std::string> target_modules = {};
  // Modules that get no adapter although target_modules selects them: suffixes of module names, or one regular expression.
  std::vector<std::string> exclude_modules = {};
  // Numbers of the layers whose modules get adapters. If empty, all layers are selected. Requires that target_modules contains suffixes of
  // names, as in PEFT.
  std::vector<int64_t> layers_to_transform = {};
  // Regular expressions for the component of a module's name before the layer number, such as "layer". If empty, any component matches.
  // Used with layers_to_transform.
  std::vector<std::string> layers_pattern = {};
  // Modules that are trained in full and saved with the adapter, in addition to the classifier. An entry selects
  // every module whose name ends with it, as in PEFT: "classifier" also means DistilBERT's "pre_classifier".
  std::vector<std::string> modules_to_save = {};
  // True if the modules in kHeadModules are trained in full and saved, as PEFT does for the task types SEQ_CLS and TOKEN_CLS. Without a
  // task type PEFT saves only the modules in modules_to_save, so the base model may contain the classifier.
  bool saves_head = true;
  bool use_rslora = false;
  BaseChange base_change = BaseChange::kNone;
  BaseWeights base_weights = BaseWeights::kAsLoaded;
  bool double_quant = false;  // true if the scales of 4-bit blocks are stored in 8 bits
  // Modules whose weights are not quantized. Adapter files do not contain this list.
  std::vector<std::string> as_loaded_modules = {};
  // Path of the adapter_config.json that contains these settings, for messages; empty if they are arguments of the run.
  std::string source = {};
  double scale() const;
  // Returns the rank of a module with this weight: r, but at most the smaller dimension for PiSSA and OLoRA, which cannot split a matrix
  // into more parts.
  int64_t rank_of(int64_t rows, int64_t columns) const;
  friend bool operator==(const LoraConfig&, const LoraConfig&) = default;
};

// A linear module that gets an adapter.
struct LoraTarget {
  std::string module;  // name in Hugging Face's models: "bert.encoder.layer.0.attention.self.query"
  std::string weight;  // name of the graph's weight that contains the module's matrix W
  int64_t first_row = 0;
  int64_t out = 0;
  int64_t in = 0;
  int64_t r = 0;  // rank of the matrices, from LoraConfig::rank_of()
  std::string a() const { return module + ".lora_A.weight"; }
  std::string b() const { return module + ".lora_B.weight"; }
};

// Returns the modules that get adapters unless target_modules names others; empty if the architecture has no default. Requires: model_type
// names a supported architecture.
std::vector<std::string> default_lora_targets(std::string_view model_type);

// The names that the head of a model may have as a module. PEFT trains the whole head and saves it with the adapter, if the task type of
// the adapter is SEQ_CLS or TOKEN_CLS.
inline constexpr std::array<std::string_view, 2> kHeadModules{"classifier", "score"};

// The prefix of every name in an adapter's file.
inline constexpr std::string_view kAdapterPrefix = "base_model.model.";

// Returns the modules that the configuration chooses, in the order of the model. `specs` are model_weights().
// Errors: kUsage for a target or a module to save that the model lacks (the message lists its modules), for a
// target that is not a linear module, if no module is left, for layers_to_transform without suffixes of names,
// and for a rank below 1. Messages name the argument, or the entry of LoraConfig::source.
std::vector<LoraTarget> lora_targets(const std::vector<WeightSpec>& specs, std::string_view model_type,
                                     const LoraConfig& config);

// Checks that the modules and layers which a user names in exclude_modules, layers_to_transform and as_loaded_modules exist. Not called for
// a configuration from an adapter's file, which may name more than its model has, as in PEFT. Errors: kUsage for an excluded module, a
// layer or an unquantized module that the model lacks.
void check_left_out(const std::vector<WeightSpec>& specs, const LoraConfig& config);

// Returns true if as_loaded_modules contains the module of this weight of the base model, so that the weight is not quantized. Errors:
// kUsage if it contains only some parts of a fused weight, such as query, key and value in one matrix.
bool is_held_as_loaded(const WeightSpec& spec, const LoraConfig& config);

// Returns true if the module is trained in full and saved with the adapter.
bool is_saved_with_adapter(const std::string& module, const LoraConfig& config);

// Excludes targets that are trained in full because their name ends with an entry of modules_to_save. For example, all-linear on DistilBERT
// includes "pre_classifier", which ends with "classifier". PEFT fails when it reads an adapter in which such a module is not excluded.
void exclude_saved_targets(const std::vector<WeightSpec>& specs, LoraConfig& config);

// Freezes the model's weights, except for the modules in modules_to_save and the classifier, and appends the weights of the adapter.
void add_lora_weights(std::vector<WeightSpec>& specs, std::string_view model_type, const LoraConfig& config);

// Inserts the adapters into a graph of the model's forward pass. In training, the dropout of each adapter has a random site (numbered
// random sequence) of its own, so that adapters draw different numbers. Requires: the targets are modules of the graph's model.
void add_lora(Graph& graph, const std::vector<LoraTarget>& targets, const LoraConfig& config, Mode mode);

// Reads and writes adapter_config.json, PEFT's description of an adapter. Thread-safe: pure functions.

// The head of the model with which an adapter was trained.
struct AdapterHead {
  const HeadKind* kind = nullptr;  // null if adapter_config.json does not determine the head
  std::string entry = {};          // the entry that determines it, for messages: "task_type" is "SEQ_CLS"
};

struct AdapterConfig {
  LoraConfig lora;
  std::string base_model;  // name of the base model; "" if the file states none
  // The setting, such as "init_lora_weights mica", that makes PEFT train the adapter in a way that Plimsoll does not implement; "" if there
  // is none. Evaluating and merging do not depend on it.
  std::string trained_otherwise = {};
  // Determined by task_type. An adapter without a task_type has the head of the class that PEFT stores in auto_mapping, if any.
  AdapterHead head = {};
};

// Reads the text of an adapter_config.json. `where` names the file in messages. Errors: kBadData for malformed text (the message names the
// key and both values); kUsage for adapters other than LoRA, for variants of LoRA and tasks that Plimsoll does not compute, and for an
// initialisation that changed the base in a way that cannot be computed again.
AdapterConfig parse_adapter_config(std::string_view json, std::string_view where);

// Returns the text of adapter_config.json as PEFT writes it: two spaces of indent, keys sorted, one newline at the end. Writes no task_type
// for an adapter that does not save its classifier, because PEFT would read one that needs it.
std::string adapter_config_json(const AdapterConfig& config, std::string_view model_type,
                                const HeadKind& head = kSequenceClassificationHead);

// The changed base of an adapter with the initialisation "pissa" or "olora" of PEFT. These split a weight W into s B A and a rest, train B
// and A, and use the rest as the base. Neither the file of the adapter nor that of the base contains the rest: a program that reads the
// adapter must compute it again from W. Thread-safe: pure functions.

// Replaces a weight W (w_NK) by what PEFT 0.21 leaves of it after it has moved a part of the weight into the adapter:
// - PiSSA (Meng et al., arXiv 2404.02948): W - U_r S_r V_r^T, the weight without its r largest singular values. This difference depends
//   neither on the signs of the singular vectors nor on LoRA's scale. It is computed as W (I - V V^T) with V from the eigenvectors of
//   W^T W, or of W W^T if W is wider than high.
// - OLoRA (Buyukakyuz, arXiv 2406.01775): W - s Q_r R_r with W = Q R and LoRA's scale s = config.scale(). Q_r R_r is the projection of W
//   onto its first r columns, so signs do not matter either. It is computed with LAPACK's Householder reflections, which also define Q
//   for columns that depend linearly on others.
// All arithmetic is in double precision, so the result equals an exact computation rounded once; PEFT works in fp32.
// r is config.rank_of(rows, columns).
// Requires: w.size() == rows * columns, config.r >= 1, finite numbers. Cost: PiSSA about
// 8 min(rows, columns)^3 operations on one thread, OLoRA about 8 r rows columns.
void change_base(std::span<double> w_NK, int64_t rows, int64_t columns, const LoraConfig& config);

}  // namespace plimsoll
