// Optimizers as graph builders: they append the updates of all parameters to a graph that has gradients. The
// table of optimizers is in base/optimizer_table.h. Learning-rate schedules are host functions (rate_schedule.h, metric_schedule.h).
// Thread-safe: pure functions of their arguments and the graph.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/optimizer_table.h"
#include "graph/ir/graph.h"
#include "optim/dynamic_loss_scale.h"

namespace plimsoll {

// The options of transformers.optimization.Adafactor, with the defaults of Trainer, which turns
// scale_parameter and relative_step off.
struct AdafactorOptions {
  double epsilon1 = 1e-30;
  double epsilon2 = 1e-3;
  double clip_threshold = 1.0;
  double decay_rate = -0.8;
  std::optional<double> beta1 = {};
  bool scale_parameter = false;
  bool relative_step = false;
  bool warmup_init = false;
  friend bool operator==(const AdafactorOptions&, const AdafactorOptions&) = default;
};

struct AdagradOptions {
  double lr_decay = 0.0;
  double epsilon = 1e-10;
  friend bool operator==(const AdagradOptions&, const AdagradOptions&) = default;
};

// Determines how fp32 weights are stored that matrix products read in 16 bits.
enum class MasterWeights : uint8_t {
  kAuto,   // kSplit if matrix products read bf16 and the optimizer supports it, else kWhole
  kWhole,  // fp32 and a copy in 16 bits: 6 bytes per parameter
  kSplit,  // the bf16 upper half, which matrix products read, and the remaining 16 bits of fp32: 4 bytes per parameter
};

struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::kAdamW;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
  double momentum = 0.0;  // momentum of SGD; must be above 0 for SGD with 8-bit states
  bool nesterov = false;
  AdafactorOptions adafactor = {};
  AdagradOptions adagrad = {};
  // Data types of the two moments of AdamW. In fp64 graphs both are fp64.
  DType momentum_dtype = DType::kF32;
  DType variance_dtype = DType::kF32;
  double max_grad_norm = 1.0;  // limit for gradient clipping; 0 switches clipping off
  MasterWeights master_weights = MasterWeights::kAuto;
  // The limit for the number of elements that one op updates. A parameter with more elements has an op of its own. 0 means no limit. The
  // results do not depend on this number.
  int64_t most_elements_at_once = 0;
  // The seed for stochastic rounding, which applies to weights that are stored in bf16 only and to variances in bf16.
  uint64_t noise_seed = 0;
  friend bool operator==(const OptimizerConfig&, const OptimizerConfig&) = default;
};

// Stochastic rounding draws its noise from numbered random sequences (random sites). An optimizer may update some parameters with one kind
// of op and some with another, such as 8-bit and fp32 updates; each of the two kinds has sequences of its own.
enum class NoiseSites : uint8_t { kFirst, kSecond };
// The kind and the number of the random sites that a parameter needs: one site, or one per tensor if the op treats a fused parameter as
// several tensors.
struct TakenSites {
  NoiseSites sites = NoiseSites::kFirst;
  int64_t count = 1;
};

// A parameter to update. Its fp32 values are in `weight` or, if they are split into two halves, in `weight` and `remainder`.
struct Parameter {
  std::string name;  // part of the names of the parameter's states; if empty, the name of `weight` is used
  ValueId weight = kNoValue;
  ValueId gradient = kNoValue;
  ValueId copy = kNoValue;  // 16-bit copy that matrix products read; the update writes it too
  // The lower 16 bits of each fp32 number whose upper 16 bits are in `weight`, as u8[2 n] (base/split_f32.h).
  ValueId remainder = kNoValue;
  bool decays = true;
  double rate_factor = 1.0;  // factor by which the learning rate is multiplied
  bool is_embedding = false;
  // If the parameter consists of several tensors of a checkpoint, such as q, k and v: the number of rows of each.
  std::vector<int64_t> part_rows = {};
  // The kind and the number of the first random site (numbered random sequence) of this parameter, set by add_optimizer(). Successive
  // parameters have successive sites, so the noise does not depend on how many ops update them.
  NoiseSites sites = NoiseSites::kFirst;
  int64_t first_site = 0;
};

// The values of the optimizer that the host reads: the norm of the gradients before clipping, and `finite`, which is 1 if the loss
// and all gradients are finite. The graph also has the output "first_bad": the index of the first gradient that is not finite, or
// -1.
struct OptimizerOutputs {
  ValueId norm = kNoValue;
  ValueId finite = kNoValue;
};

// Appends the ops that compute the global norm of the gradients, clip them and update every parameter. Reads the value "loss" and declares
// the inputs "learning_rate" f64[1] and "step" i64[1] (1 for the first update). The name of a state contains the name of its weight
// ("adamw.m/NAME"). The factor that clips the gradients also divides them by the loss scale.
OptimizerOutputs add_optimizer(Graph& graph, std::span<const Parameter> parameters,
                               const OptimizerConfig& config, const LossScale& loss_scale = {});

// Appends the updates to the backward pass instead of the optimizer segment, the part of the training program that runs after it. The
// parameters of a module are updated as soon as their gradients are computed, so that no gradient lives longer than the backward pass of
// its module. If a gradient of a module is not finite, that module is not updated. The optimizer segment computes the global norm from the
// norms of the modules. The ops are appended at the end of the backward pass, and the graph pass `reorder` moves them to earlier positions.
// Requires: no clipping, and gradients that do not accumulate.
OptimizerOutputs add_optimizer_in_backward(Graph& graph, std::span<const Parameter> parameters,
                                           const OptimizerConfig& config);

// Returns the names of the kinds of states that parameters may have. A checkpoint stores them.
std::vector<std::string> optimizer_state_names(const OptimizerConfig& config);

// Returns the number of rows of each part of a parameter; a parameter that is one tensor has one part.
std::vector<int64_t> part_rows(const Graph& graph, const Parameter& parameter);

// Returns the learning rate of update `step` (1 for the first): `scheduled`, or the rate that Adafactor computes if relative_step is set.
double learning_rate_of_step(const OptimizerConfig& config, double scheduled, int64_t step);

// Returns the configuration for the arguments `optim` and `optim_args` of Trainer. Errors: kUsage for an
// unknown name or key, or a bad value.
OptimizerConfig parse_optimizer(const std::string& optim,
                                const std::map<std::string, std::string>& optim_args);

}  // namespace plimsoll
