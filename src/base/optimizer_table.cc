#include "base/optimizer_table.h"

#include <algorithm>
#include <iterator>

namespace plimsoll {
namespace {

#define PLIMSOLL_OPTIMIZER(enumerator, row_name, row_frame, settings, ...) \
  {.kind = OptimizerKind::enumerator, .name = #row_name, .frame = UpdateFrame::row_frame, __VA_ARGS__},
const std::vector<OptimizerRow>& rows() {
  static const std::vector<OptimizerRow> kRows{
#include "base/optimizer_table.inc"
  };
  return kRows;
}
#undef PLIMSOLL_OPTIMIZER

constexpr std::string_view kProjection = "it projects gradients to a low rank, which Plimsoll does not do";
constexpr std::string_view kNotWritten = "Plimsoll does not implement that optimizer";
constexpr std::string_view kInBackward =
    "it updates weights within the backward pass, as --optimizer_in_backward with --max_grad_norm 0 does "
    "here";
constexpr std::string_view kScheduleFree =
    "it averages weights instead of using a schedule, which Plimsoll does not do";

const OptimizerName kRefusedNames[] = {
    {.name = "adamw_torch_xla", .reason = "it is for TPUs", .nearest = "adamw_torch_fused"},
    {.name = "adamw_torch_npu_fused", .reason = "it is for NPUs", .nearest = "adamw_torch_fused"},
    {.name = "adamw_torch_4bit",
     .reason = "Plimsoll does not store optimizer states in 4 bits",
     .nearest = "adamw_8bit"},
    {.name = "adamw_torch_8bit",
     .reason = "Plimsoll rounds 8-bit optimizer states as bitsandbytes does, not as torchao does",
     .nearest = "adamw_8bit"},
    {.name = "ademamix", .reason = kNotWritten, .nearest = "adamw_torch_fused"},
    {.name = "ademamix_8bit", .reason = kNotWritten, .nearest = "adamw_8bit"},
    {.name = "paged_ademamix_32bit", .reason = kNotWritten, .nearest = "adamw_torch_fused"},
    {.name = "paged_ademamix_8bit", .reason = kNotWritten, .nearest = "adamw_8bit"},
    {.name = "rmsprop", .reason = kNotWritten, .nearest = "adagrad"},
    {.name = "rmsprop_bnb", .reason = kNotWritten, .nearest = "adagrad"},
    {.name = "rmsprop_bnb_8bit", .reason = kNotWritten, .nearest = "lion_8bit"},
    {.name = "rmsprop_bnb_32bit", .reason = kNotWritten, .nearest = "adagrad"},
    {.name = "galore_adamw", .reason = kProjection, .nearest = "adamw_8bit"},
    {.name = "galore_adamw_8bit", .reason = kProjection, .nearest = "adamw_8bit"},
    {.name = "galore_adafactor", .reason = kProjection, .nearest = "adafactor"},
    {.name = "galore_adamw_layerwise", .reason = kProjection, .nearest = "adamw_8bit"},
    {.name = "galore_adamw_8bit_layerwise", .reason = kProjection, .nearest = "adamw_8bit"},
    {.name = "galore_adafactor_layerwise", .reason = kProjection, .nearest = "adafactor"},
    {.name = "lomo", .reason = kInBackward, .nearest = "sgd"},
    {.name = "adalomo", .reason = kInBackward, .nearest = "adafactor"},
    {.name = "grokadamw", .reason = kNotWritten, .nearest = "adamw_torch_fused"},
    {.name = "schedule_free_radam", .reason = kScheduleFree, .nearest = "adamw_torch_fused"},
    {.name = "schedule_free_adamw", .reason = kScheduleFree, .nearest = "adamw_torch_fused"},
    {.name = "schedule_free_sgd", .reason = kScheduleFree, .nearest = "sgd"},
    {.name = "apollo_adamw", .reason = kProjection, .nearest = "adamw_8bit"},
    {.name = "apollo_adamw_layerwise", .reason = kProjection, .nearest = "adamw_8bit"},
    {.name = "stable_adamw", .reason = kNotWritten, .nearest = "adafactor"},
};

std::vector<OptimizerName> names_of_all() {
  std::vector<OptimizerName> names;
  for (const OptimizerRow& row : rows()) {
    for (const std::string_view name : row.names) names.push_back({.name = name, .runs = row.name});
  }
  for (const OptimizerRow& row : rows()) {
    for (const std::string_view name : row.paged_names) {
      names.push_back({.name = name, .runs = row.name, .is_paged = true});
    }
  }
  names.insert(names.end(), std::begin(kRefusedNames), std::end(kRefusedNames));
  return names;
}

}  // namespace

std::span<const OptimizerRow> optimizer_rows() {
  return rows();
}

const OptimizerRow& optimizer_row(OptimizerKind kind) {
  return rows()[static_cast<size_t>(kind)];
}

const OptimizerRow* find_optimizer_row(std::string_view name) {
  const auto row = std::ranges::find(rows(), name, &OptimizerRow::name);
  return row == rows().end() ? nullptr : &*row;
}

std::span<const OptimizerName> optimizer_names() {
  static const std::vector<OptimizerName> kNames = names_of_all();
  return kNames;
}

const OptimizerName* find_optimizer_name(std::string_view name) {
  const std::span<const OptimizerName> names = optimizer_names();
  const auto it = std::ranges::find(names, name, &OptimizerName::name);
  return it == names.end() ? nullptr : &*it;
}

}  // namespace plimsoll
