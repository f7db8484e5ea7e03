#include "base/optimizer_names.h"

#include <algorithm>
#include <array>

namespace plimsoll {
namespace {

constexpr std::string_view kProjection = "it projects gradients to a low rank, which Plimsoll does not do";
constexpr std::string_view kNotWritten = "Plimsoll does not have that update";
constexpr std::string_view kInBackward =
    "it updates weights within the backward pass, as --optimizer_in_backward with --max_grad_norm 0 does "
    "here";
constexpr std::string_view kScheduleFree =
    "it averages weights instead of using a schedule, which Plimsoll does not do";

constexpr std::array kNames = {
    OptimizerName{.name = "adamw_torch_fused", .runs = "adamw"},
    OptimizerName{.name = "adamw_torch", .runs = "adamw"},
    OptimizerName{.name = "adamw", .runs = "adamw"},
    OptimizerName{.name = "adamw_apex_fused", .runs = "adamw"},
    OptimizerName{.name = "adamw_anyprecision", .runs = "adamw"},
    OptimizerName{.name = "sgd", .runs = "sgd"},
    OptimizerName{.name = "adafactor", .runs = "adafactor"},
    OptimizerName{.name = "adagrad", .runs = "adagrad"},
    OptimizerName{.name = "lion_32bit", .runs = "lion"},
    OptimizerName{.name = "lion", .runs = "lion"},
    OptimizerName{.name = "adamw_8bit", .runs = "adamw_8bit"},
    OptimizerName{.name = "adamw_bnb_8bit", .runs = "adamw_8bit"},
    OptimizerName{.name = "lion_8bit", .runs = "lion_8bit"},
    OptimizerName{.name = "sgd_8bit", .runs = "sgd_8bit"},
    OptimizerName{.name = "sgd_bnb_8bit", .runs = "sgd_8bit"},
    OptimizerName{.name = "adagrad_8bit", .runs = "adagrad_8bit"},
    OptimizerName{.name = "adagrad_bnb_8bit", .runs = "adagrad_8bit"},
    OptimizerName{.name = "paged_adamw_32bit", .runs = "adamw", .is_paged = true},
    OptimizerName{.name = "paged_adamw", .runs = "adamw", .is_paged = true},
    OptimizerName{.name = "paged_adamw_8bit", .runs = "adamw_8bit", .is_paged = true},
    OptimizerName{.name = "paged_lion_32bit", .runs = "lion", .is_paged = true},
    OptimizerName{.name = "paged_lion", .runs = "lion", .is_paged = true},
    OptimizerName{.name = "paged_lion_8bit", .runs = "lion_8bit", .is_paged = true},
    OptimizerName{.name = "paged_sgd_8bit", .runs = "sgd_8bit", .is_paged = true},
    OptimizerName{.name = "paged_adagrad_8bit", .runs = "adagrad_8bit", .is_paged = true},
    OptimizerName{.name = "adamw_torch_xla", .reason = "it is for TPUs", .nearest = "adamw_torch_fused"},
    OptimizerName{
        .name = "adamw_torch_npu_fused", .reason = "it is for NPUs", .nearest = "adamw_torch_fused"},
    OptimizerName{
        .name = "adamw_torch_4bit", .reason = "Plimsoll has no states in 4 bits", .nearest = "adamw_8bit"},
    OptimizerName{.name = "adamw_torch_8bit",
                  .reason = "torchao's rounding of states is not here, that of bitsandbytes is",
                  .nearest = "adamw_8bit"},
    OptimizerName{.name = "ademamix", .reason = kNotWritten, .nearest = "adamw_torch_fused"},
    OptimizerName{.name = "ademamix_8bit", .reason = kNotWritten, .nearest = "adamw_8bit"},
    OptimizerName{.name = "paged_ademamix_32bit", .reason = kNotWritten, .nearest = "adamw_torch_fused"},
    OptimizerName{.name = "paged_ademamix_8bit", .reason = kNotWritten, .nearest = "adamw_8bit"},
    OptimizerName{.name = "rmsprop", .reason = kNotWritten, .nearest = "adagrad"},
    OptimizerName{.name = "rmsprop_bnb", .reason = kNotWritten, .nearest = "adagrad"},
    OptimizerName{.name = "rmsprop_bnb_8bit", .reason = kNotWritten, .nearest = "lion_8bit"},
    OptimizerName{.name = "rmsprop_bnb_32bit", .reason = kNotWritten, .nearest = "adagrad"},
    OptimizerName{.name = "galore_adamw", .reason = kProjection, .nearest = "adamw_8bit"},
    OptimizerName{.name = "galore_adamw_8bit", .reason = kProjection, .nearest = "adamw_8bit"},
    OptimizerName{.name = "galore_adafactor", .reason = kProjection, .nearest = "adafactor"},
    OptimizerName{.name = "galore_adamw_layerwise", .reason = kProjection, .nearest = "adamw_8bit"},
    OptimizerName{.name = "galore_adamw_8bit_layerwise", .reason = kProjection, .nearest = "adamw_8bit"},
    OptimizerName{.name = "galore_adafactor_layerwise", .reason = kProjection, .nearest = "adafactor"},
    OptimizerName{.name = "lomo", .reason = kInBackward, .nearest = "sgd"},
    OptimizerName{.name = "adalomo", .reason = kInBackward, .nearest = "adafactor"},
    OptimizerName{.name = "grokadamw", .reason = kNotWritten, .nearest = "adamw_torch_fused"},
    OptimizerName{.name = "schedule_free_radam", .reason = kScheduleFree, .nearest = "adamw_torch_fused"},
    OptimizerName{.name = "schedule_free_adamw", .reason = kScheduleFree, .nearest = "adamw_torch_fused"},
    OptimizerName{.name = "schedule_free_sgd", .reason = kScheduleFree, .nearest = "sgd"},
    OptimizerName{.name = "apollo_adamw", .reason = kProjection, .nearest = "adamw_8bit"},
    OptimizerName{.name = "apollo_adamw_layerwise", .reason = kProjection, .nearest = "adamw_8bit"},
    OptimizerName{.name = "stable_adamw", .reason = kNotWritten, .nearest = "adafactor"},
};

}  // namespace

std::span<const OptimizerName> optimizer_names() {
  return kNames;
}

const OptimizerName* find_optimizer_name(std::string_view name) {
  const auto it =
      std::find_if(kNames.begin(), kNames.end(), [&](const OptimizerName& row) { return row.name == name; });
  return it == kNames.end() ? nullptr : &*it;
}

}  // namespace plimsoll
