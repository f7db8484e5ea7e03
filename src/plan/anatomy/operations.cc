#include "plan/anatomy/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "target/cpu_efficiency.h"
#include "target/cpu_target.h"
#include "target/gpu_efficiency.h"

namespace plimsoll {
namespace {

// The widest type that an op computes on decides its rate; bf16 operands run at bf16's.
DType arithmetic_type(const OpView& op) {
  for (int i = 0; i < op.num_inputs(); ++i) {
    if (op.has_input(i) && is_floating(op.input(i).type.dtype)) return op.input(i).type.dtype;
  }
  return DType::kF32;
}

double gpu_product_gflops(const GpuTarget& gpu, DType type, Fp32Products fp32) {
  if (type != DType::kF32 || fp32 == Fp32Products::kF32) return product_gflops(gpu, type);
  // Three products are done for one.
  return 1e3 * gpu.tf32_tflops / (fp32 == Fp32Products::kTf32x3 ? 3.0 : 1.0);
}

GpuWork gpu_work(const OpSchema& schema, const OpView& op) {
  if (schema.group() != OpGroup::kContraction) return GpuWork::kOther;
  const std::string_view name = op.op.def->name();
  if (name == "attention") return GpuWork::kAttention;
  return name == "attention_bwd" ? GpuWork::kAttentionBackward : GpuWork::kProduct;
}

// The depth of a product follows from its operations.
double least_product_ms(GpuPrecision precision, const OpView& op, const Cost& cost, const Bucket& bucket) {
  const Shape& shape = op.out_shape(0);
  const double columns = shape.rank() > 0 ? static_cast<double>(shape.last().at(bucket)) : 1.0;
  const double rows = static_cast<double>(shape.elements(bucket)) / columns;
  return gpu_least_product_ms(precision, rows, columns, cost.flops / (2 * rows * columns));
}

// The slower of arithmetic and traffic at the shares of the rates that steps reach, joined with what an op
// takes at the least: target/gpu_efficiency.h.
double estimated_gpu_ms(const OpSchema& schema, const OpView& op, const Cost& cost, const Bucket& bucket,
                        const PlanRequest& request) {
  const GpuTarget& gpu = request.gpu;
  const double traffic = cost.bytes / (kGpuShareOfBandwidth * gpu.memory_gb_per_s * 1e9);
  const GpuWork work = gpu_work(schema, op);
  if (work == GpuWork::kOther) return std::hypot(1e3 * traffic, kGpuLeastMs);
  const DType type = arithmetic_type(op);
  // Attention multiplies in tf32 where products do, but not as three of them.
  const bool is_three = request.fp32_products == Fp32Products::kTf32x3 && work == GpuWork::kProduct;
  const bool is_tf32 = type == DType::kF32 && gpu.tf32_tflops > 0 &&
                       (request.fp32_products == Fp32Products::kTf32 || is_three);
  const GpuPrecision precision = dtype_bytes(type) == 2 ? GpuPrecision::kHalf
                                 : is_tf32              ? GpuPrecision::kTf32
                                                        : GpuPrecision::kF32;
  const double gflops =
      is_tf32 ? gpu_product_gflops(gpu, type, request.fp32_products) : product_gflops(gpu, type);
  const double arithmetic = cost.flops / (gpu_share_of_flops(work, precision) * gflops * 1e9);
  const double least =
      work == GpuWork::kProduct ? least_product_ms(precision, op, cost, bucket) : gpu_least_attention_ms();
  return std::hypot(1e3 * std::max(arithmetic, traffic), least);
}

CpuWork cpu_work(const OpSchema& schema, const OpView& op, CpuIsa isa) {
  const std::string_view name = op.op.def->name();
  const bool on_tiles = isa == CpuIsa::kAmx && arithmetic_type(op) == DType::kBF16;
  if (name == "attention") return on_tiles ? CpuWork::kAttentionOnTiles : CpuWork::kAttention;
  if (name == "attention_bwd")
    return on_tiles ? CpuWork::kAttentionBackwardOnTiles : CpuWork::kAttentionBackward;
  if (schema.group() == OpGroup::kContraction) return CpuWork::kProduct;
  return name.ends_with("_8bit") ? CpuWork::kUpdateOfCodes : CpuWork::kElements;
}

// The type whose rate of products the work has a share of: beside products only attention on AMX multiplies
// in 16 bits.
DType cpu_arithmetic_type(CpuWork work, const OpView& op) {
  const bool on_tiles = work == CpuWork::kAttentionOnTiles || work == CpuWork::kAttentionBackwardOnTiles;
  return work == CpuWork::kProduct || on_tiles ? arithmetic_type(op) : DType::kF32;
}

double estimated_ms(const OpSchema& schema, const OpView& op, const Cost& cost, const Bucket& bucket,
                    const PlanRequest& request) {
  if (request.device == KernelDevice::kCuda) return estimated_gpu_ms(schema, op, cost, bucket, request);
  const CpuTarget& target = cpu_target(request.isa);
  const CpuWork work = cpu_work(schema, op, request.isa);
  const DType type = cpu_arithmetic_type(work, op);
  const double gflops = cpu_share_of_flops(work) * product_gflops(target, type, request.num_threads);
  const double arithmetic = cost.flops / (gflops * 1e9);
  const double traffic = cost.bytes / (memory_gb_per_s(target, request.num_threads) * 1e9);
  return 1e3 * std::max(arithmetic, traffic);
}

// What estimate_ops() says of an op in numbers: the names of all ops take longer to copy than these to find.
struct OpFigures {
  double flops = 0;
  double bytes = 0;
  double ms = 0;
};

// Follows the ops' stream and the two of copies, and gives every copy the time that the ops' stream waits for
// it.
void add_waits(const ProgramPlan& program, const GpuTarget& gpu, std::vector<OpFigures>& figures) {
  struct UnderWay {
    size_t op;
    uint32_t end;
    double done_ms;
  };
  std::vector<UnderWay> under_way;
  double now_ms = 0;
  std::array<double, kNumSpaces> free_ms{};
  const auto wait = [&](size_t position) {
    for (const UnderWay& copy : under_way) {
      if (copy.end > position || copy.done_ms <= now_ms) continue;
      figures[copy.op].ms += copy.done_ms - now_ms;
      now_ms = copy.done_ms;
    }
    std::erase_if(under_way, [&](const UnderWay& copy) { return copy.end <= position; });
  };
  for (size_t i = 0; i < figures.size(); ++i) {
    wait(i);
    const OpPlan& op = program.ops[i];
    if (!op.copies_to) {
      now_ms += figures[i].ms;
      continue;
    }
    // Every byte is read at one end and written at the other.
    const double copy_ms = 1e3 * figures[i].bytes / 2 / (kGpuShareOfLink * gpu.link_gb_per_s * 1e9);
    double& queue_ms = free_ms[index_of(*op.copies_to)];
    queue_ms = std::max(queue_ms, now_ms) + copy_ms;
    figures[i].ms = 0;
    under_way.push_back({i, op.copy_end, queue_ms});
  }
  wait(figures.size());
}

std::vector<OpFigures> figures_of(const Plan& plan, const ProgramPlan& program) {
  std::vector<OpFigures> figures;
  figures.reserve(program.graph.ops().size());
  for (const Op& op : program.graph.ops()) {
    const OpView view{program.graph, op};
    const OpSchema& schema = schema_of(op);
    const Cost cost = schema.cost(view, program.bucket);
    figures.push_back(
        {cost.flops, cost.bytes, estimated_ms(schema, view, cost, program.bucket, plan.request)});
  }
  if (plan.is_on_gpu() && program.ops.size() == figures.size()) add_waits(program, plan.request.gpu, figures);
  return figures;
}

std::array<int64_t, kNumSegments> runs_per_step(const Plan& plan, const ProgramPlan& program) {
  std::array<int64_t, kNumSegments> runs{1, 1, 1};
  for (const ScheduleEntry& entry : plan.step_schedule) {
    if (entry.per_micro_batch && plan.train && &program == &*plan.train) {
      runs[index_of(entry.segment)] = plan.request.gradient_accumulation_steps;
    }
  }
  return runs;
}

const ProgramPlan* program_of(const Plan& plan) {
  if (plan.train) return &*plan.train;
  return plan.evaluate ? &*plan.evaluate : nullptr;
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
    // The recompute pass names what it computes again after what was computed first.
    if (program.graph.value(op.outputs[0]).name.find(".again") != std::string::npos) continue;
    flops += schema_of(op).flops({program.graph, op}, bucket);
  }
  return flops;
}

double peak_product_gflops(const PlanRequest& request) {
  if (request.device != KernelDevice::kCuda) return 0;
  return gpu_product_gflops(request.gpu, request.activation_dtype.value_or(request.dtype),
                            request.fp32_products);
}

double OperationsAnatomy::samples_per_s() const {
  const double ms = total().ms;
  return ms > 0 ? 1e3 * static_cast<double>(samples) / ms : 0.0;
}

OperationsAnatomy operations_anatomy(const Plan& plan) {
  OperationsAnatomy anatomy;
  const PlanRequest& request = plan.request;
  anatomy.rates =
      request.device == KernelDevice::kCuda
          ? fmt::format("{}: {}; {}", request.gpu.name, request.gpu.provenance, kGpuEfficiencyProvenance)
          : fmt::format("{}, {} thread{}; {}", cpu_isa_name(request.isa), request.num_threads,
                        request.num_threads == 1 ? "" : "s", cpu_target(request.isa).provenance);
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
  const int64_t batches = plan.train ? request.gradient_accumulation_steps : 1;
  anatomy.samples = program->bucket.sequences * batches;
  anatomy.tokens = program->bucket.tokens * batches;
  return anatomy;
}

}  // namespace plimsoll
