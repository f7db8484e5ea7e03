#include "plan/anatomy/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "hardware/cpu_target.h"
#include "hardware/gpu_efficiency.h"
#include "plan/compile/op_times.h"
#include "plan/compile/stage_plan.h"

namespace plimsoll {
namespace {

// The numeric fields of an OpEstimate. Its names are left out, because copying the names of all ops would take longer than computing the
// numbers.
struct OpFigures {
  double flops = 0;
  double bytes = 0;
  double ms = 0;
};

std::vector<OpFigures> figures_of(const Plan& plan, const ProgramPlan& program) {
  const Bucket usual = usual_bucket(program.bucket, plan.request.model.label_share);
  std::vector<OpFigures> figures;
  figures.reserve(program.graph.ops().size());
  // Ops of one kind (with the same attributes and types of operands) have equal estimates, so only the first op of each kind is estimated.
  std::vector<std::optional<OpFigures>> of_kind(program.ops.size());
  for (size_t i = 0; i < program.graph.ops().size(); ++i) {
    const uint32_t kind = i < program.ops.size() ? program.ops[i].kind : OpPlan::kNoKind;
    if (kind < of_kind.size() && of_kind[kind]) {
      figures.push_back(*of_kind[kind]);
      continue;
    }
    const OpView view{program.graph, program.graph.ops()[i]};
    const OpSchema& schema = schema_of(view.op);
    const Cost cost = schema.cost(view, usual);
    figures.push_back({cost.flops, cost.bytes, estimated_ms(schema, view, cost, usual, plan.request)});
    if (kind < of_kind.size()) of_kind[kind] = figures.back();
  }
  if (program.ops.size() != figures.size()) return figures;
  std::vector<double> op_ms;
  op_ms.reserve(figures.size());
  for (const OpFigures& op : figures) op_ms.push_back(op.ms);
  add_transfer_waits(program, plan.request, op_ms);
  for (size_t i = 0; i < figures.size(); ++i) figures[i].ms = op_ms[i];
  return figures;
}

std::array<int64_t, kNumSegments> runs_per_step(const Plan& plan, const ProgramPlan& program) {
  std::array<int64_t, kNumSegments> runs{1, 1, 1};
  for (const ScheduleEntry& entry : plan.step_schedule) {
    if (entry.program == program.name && entry.repeat == Repeat::kPerMicroBatch) {
      runs[index_of(entry.segment)] = plan.request.batches.accumulation_steps;
    }
  }
  return runs;
}

const ProgramPlan* program_of(const Plan& plan) {
  return plan.programs.empty() ? nullptr : &plan.programs.first();
}

}  // namespace

OpTotals& OpTotals::operator+=(const OpTotals& other) {
  flops += other.flops;
  bytes += other.bytes;
  ms += other.ms;
  return *this;
}

std::vector<OpEstimate> estimate_ops(const Plan& plan, const ProgramPlan& program) {
  const std::array<int64_t, kNumSegments> runs = runs_per_step(plan, program);
  const std::vector<OpFigures> figures = figures_of(plan, program);
  std::vector<OpEstimate> estimates;
  estimates.reserve(figures.size());
  for (size_t i = 0; i < figures.size(); ++i) {
    const Op& op = program.graph.ops()[i];
    const KernelRow* kernel = i < program.ops.size() ? program.ops[i].kernel : nullptr;
    estimates.push_back({.op = std::string(op.def->name()),
                         .output = op.outputs.empty() ? "" : program.graph.value(op.outputs[0]).name,
                         .module = program.graph.module_name(op.module),
                         .kernel = kernel == nullptr ? "" : std::string(kernel->implementation),
                         .group = schema_of(op).group(),
                         .segment = op.segment,
                         .flops = figures[i].flops,
                         .bytes = figures[i].bytes,
                         .ms = figures[i].ms,
                         .runs_per_step = runs[index_of(op.segment)]});
  }
  return estimates;
}

OpTotals OperationsAnatomy::group(OpGroup wanted) const {
  OpTotals sum;
  for (const OpTotals& part : by_group[index_of(wanted)]) sum += part;
  return sum;
}

OpTotals OperationsAnatomy::segment(Segment wanted) const {
  OpTotals sum;
  for (const auto& parts : by_group) sum += parts[index_of(wanted)];
  return sum;
}

OpTotals OperationsAnatomy::total() const {
  OpTotals sum;
  for (const auto& parts : by_group) {
    for (const OpTotals& part : parts) sum += part;
  }
  return sum;
}

double model_flops(const ProgramPlan& program, const Bucket& bucket) {
  double flops = 0;
  for (const Op& op : program.graph.ops()) {
    if (op.segment == Segment::kOptimizer || schema_of(op).group() != OpGroup::kContraction) continue;
    // Skips recomputation, which MFU does not count. The recompute pass names a recomputed value after the original, with ".again" at the
    // end.
    if (program.graph.value(op.outputs[0]).name.find(".again") != std::string::npos) continue;
    flops += schema_of(op).flops({program.graph, op}, bucket);
  }
  return flops;
}

double peak_product_gflops(const PlanRequest& request) {
  if (request.device.kind != KernelDevice::kCuda) return 0;
  return gpu_product_gflops(request.device.gpu,
                            request.precision.activation_dtype.value_or(request.precision.dtype),
                            request.precision.fp32_products);
}

double OperationsAnatomy::samples_per_s() const {
  const double ms = pipeline_ms > 0 ? pipeline_ms : total().ms;
  return ms > 0 ? 1e3 * static_cast<double>(samples) / ms : 0.0;
}

OperationsAnatomy operations_anatomy(const Plan& plan) {
  OperationsAnatomy anatomy;
  const PlanRequest& request = plan.request;
  anatomy.rates =
      request.device.kind == KernelDevice::kCuda
          ? fmt::format("{}: {}; {}", request.device.gpu.name, request.device.gpu.provenance,
                        kGpuEfficiencyProvenance)
          : fmt::format("{}, {} thread{}; {}", cpu_isa_name(request.device.isa), request.device.num_threads,
                        request.device.num_threads == 1 ? "" : "s",
                        request.cpu_calibration.empty() ? cpu_target(request.device.isa).provenance
                                                        : "steps that were timed on this machine");
  const ProgramPlan* program = program_of(plan);
  if (program == nullptr) return anatomy;
  const std::array<int64_t, kNumSegments> runs_of_segment = runs_per_step(plan, *program);
  const std::vector<OpFigures> figures = figures_of(plan, *program);
  for (size_t i = 0; i < figures.size(); ++i) {
    const Op& op = program->graph.ops()[i];
    const auto runs = static_cast<double>(runs_of_segment[index_of(op.segment)]);
    anatomy.by_group[index_of(schema_of(op).group())][index_of(op.segment)] +=
        {figures[i].flops * runs, figures[i].bytes * runs, figures[i].ms * runs};
  }
  // The sequences and tokens of a step are summed over all groups of ranks that read different batches. The ranks of a tensor-parallel
  // group read the same batches, so each group counts once.
  const int64_t batches = plan.trains() ? request.batches.accumulation_steps * request.ranks.data_size() : 1;
  if (plan.is_pipelined() && plan.trains()) {
    anatomy.pipeline_ms = simulate_step(plan.stages, request.batches.accumulation_steps).step_ms +
                          anatomy.segment(Segment::kOptimizer).ms;
  }
  anatomy.samples = program->bucket.sequences * batches;
  anatomy.tokens = program->bucket.tokens * batches;
  return anatomy;
}

}  // namespace plimsoll
