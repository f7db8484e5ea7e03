// Optimizers as graph builders: they append the optimizer segment to a graph that has gradients. One file per
// optimizer; an optimizer is a row of the table in optimizer.cc. Learning-rate schedules are host functions
// (schedule.h). Thread-safe: pure functions of their arguments and the graph.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/graph.h"
#include "optim/loss_scale.h"

namespace plimsoll {

enum class OptimizerKind : uint8_t {
  kAdamW,
  kSgd,
  kLion,
  kAdagrad,
  kAdafactor,
  kAdamW8Bit,
  kLion8Bit,
  kSgd8Bit,
  kAdagrad8Bit
};
// "adamw": as base/optimizer_names.h calls what runs.
std::string_view optimizer_kind_name(OptimizerKind kind);

// As transformers.optimization.Adafactor has them, with the defaults of Trainer, which turns scale_parameter
// and relative_step off.
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

// How fp32 weights are kept that products read in 16 bits.
enum class MasterWeights : uint8_t {
  kAuto,   // split where products read bf16 and the optimizer can
  kWhole,  // fp32, and a 16-bit copy beside it: 6 bytes a parameter
  kSplit,  // the bf16 that products read, and the 16 bits that are left of fp32: 4 bytes
};

struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::kAdamW;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
  double momentum = 0.0;  // of SGD; above 0 where it is kept in 8 bits
  bool nesterov = false;
  AdafactorOptions adafactor = {};
  AdagradOptions adagrad = {};
  // Of AdamW's moments, in graphs that are not fp64.
  DType momentum_dtype = DType::kF32;
  DType variance_dtype = DType::kF32;
  double max_grad_norm = 1.0;  // 0 switches clipping off
  MasterWeights master_weights = MasterWeights::kAuto;
  // An op updates at most so many elements, or one parameter; 0: no limit. Each has the same bits either way.
  int64_t most_elements_at_once = 0;
  // Of the stochastic rounding of weights that are bf16 alone, and of bf16 variances.
  uint64_t noise_seed = 0;
  friend bool operator==(const OptimizerConfig&, const OptimizerConfig&) = default;
};

// Where an optimizer updates parameters by two kinds of ops, those of each draw noise from sites of their
// own.
enum class NoiseSites : uint8_t { kFirst, kSecond };
// The sites that a parameter draws from: one for each tensor that its op takes it for.
struct TakenSites {
  NoiseSites sites = NoiseSites::kFirst;
  int64_t count = 1;
};

// A parameter to update. The fp32 numbers are `weight`, or `weight` and `remainder` together.
struct Parameter {
  std::string name;  // of the weight, after which states are named; empty: that of `weight`
  ValueId weight = kNoValue;
  ValueId gradient = kNoValue;
  ValueId copy = kNoValue;       // in 16 bits, for products; the update writes it too
  ValueId remainder = kNoValue;  // u8[2 n], of a `weight` in bf16 (base/split_f32.h)
  bool decays = true;
  bool is_embedding = false;
  // Rows of the tensors that it consists of in a checkpoint, where they are several: q, k and v.
  std::vector<int64_t> part_rows = {};
  // add_optimizer numbers the sites: those of the parameters that an op updates follow each other, however
  // many ops there are.
  NoiseSites sites = NoiseSites::kFirst;
  int64_t first_site = 0;
};

// Whether the optimizer updates split weights.
bool takes_split_weights(const OptimizerConfig& config);

// What the optimizer segment leaves for the host to read: the norm before clipping, and 1 where the loss and
// all gradients are finite. Beside them "first_bad", the gradient that is the first in the norm that is not,
// or -1.
struct OptimizerOutputs {
  ValueId norm = kNoValue;
  ValueId finite = kNoValue;
};

// Appends the global norm, clipping and the update of every parameter. Reads the value "loss", and the inputs
// "learning_rate" f64[1] and "step" i64[1] (1 for the first update), which it declares. States are named
// after their weights ("adamw.m/NAME"). Gradients that carry a loss scale are divided by it when they are
// clipped: the clip coefficient contains the division.
OptimizerOutputs add_optimizer(Graph& graph, std::span<const Parameter> parameters,
                               const OptimizerConfig& config, const LossScale& loss_scale = {});

// The same in the backward segment: the parameters of a module are updated as soon as their gradients are
// there, so that a gradient lives no longer than its module's backward pass. What is not finite in one module
// leaves that module as it is, and the norms of all modules make the global one, which the optimizer segment
// then reports. The ops stand at the end of the segment; the reorder pass moves them forward. Requires: no
// clipping, gradients that do not accumulate.
OptimizerOutputs add_optimizer_in_backward(Graph& graph, std::span<const Parameter> parameters,
                                           const OptimizerConfig& config);

// Names of the kinds of states that parameters have, some or all of them: what a checkpoint stores.
std::vector<std::string> optimizer_state_names(const OptimizerConfig& config);

// The rows of its parts: all of them where it is one tensor.
std::vector<int64_t> part_rows(const Graph& graph, const Parameter& parameter);

// The learning rate of update `step` (1 for the first): the schedule's, or Adafactor's own with
// relative_step.
double learning_rate_of_step(const OptimizerConfig& config, double scheduled, int64_t step);

// From Trainer's names: `optim` and its optim_args. Errors: kUsage for a name or key that there is not.
OptimizerConfig parse_optimizer(const std::string& optim,
                                const std::map<std::string, std::string>& optim_args);

// The sites of those whose ops take a parameter for several tensors.
TakenSites adafactor_sites(const Graph& graph, const Parameter& parameter);
TakenSites eight_bit_sites(const Graph& graph, const Parameter& parameter);

// A file each: the update of one group of parameters with one weight decay.
void add_adamw(Graph& graph, std::span<const Parameter> group, const OptimizerConfig& config,
               double weight_decay, ValueId clip, ValueId finite);
void add_adafactor(Graph& graph, std::span<const Parameter> group, const OptimizerConfig& config,
                   double weight_decay, ValueId clip, ValueId finite);
void add_adamw_8bit(Graph& graph, std::span<const Parameter> group, const OptimizerConfig& config,
                    double weight_decay, ValueId clip, ValueId finite);
void add_lion_8bit(Graph& graph, std::span<const Parameter> group, const OptimizerConfig& config,
                   double weight_decay, ValueId clip, ValueId finite);
void add_sgd_8bit(Graph& graph, std::span<const Parameter> group, const OptimizerConfig& config,
                  double weight_decay, ValueId clip, ValueId finite);
void add_adagrad_8bit(Graph& graph, std::span<const Parameter> group, const OptimizerConfig& config,
                      double weight_decay, ValueId clip, ValueId finite);
void add_adagrad(Graph& graph, std::span<const Parameter> group, const OptimizerConfig& config,
                 double weight_decay, ValueId clip, ValueId finite);
void add_lion(Graph& graph, std::span<const Parameter> group, const OptimizerConfig& config,
              double weight_decay, ValueId clip, ValueId finite);
void add_sgd(Graph& graph, std::span<const Parameter> group, const OptimizerConfig& config,
             double weight_decay, ValueId clip, ValueId finite);

}  // namespace plimsoll
