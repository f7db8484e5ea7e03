#include "plan/compile/kernel_choice.h"

#include <algorithm>
#include <string>
#include <utility>

#include "lowering/lowering.h"

namespace plimsoll {
namespace {

// Returns the name of the device for an error message.
std::string device_name(const PlanRequest& request) {
  if (request.device.kind == KernelDevice::kCpu) return "a CPU";
  const GpuTarget& gpu = request.device.gpu;
  return gpu.uuid.empty() ? gpu.name : gpu.product;
}

// Returns the advice in the error message about an op that no kernel of the device supports.
std::string advice(Problem problem) {
  const bool is_on_gpu = problem.target.device == KernelDevice::kCuda;
  problem.target.device = KernelDevice::kCpu;
  const KernelRow* of_cpu = select_kernel(problem).row;
  const bool cpu_takes_it = is_on_gpu && of_cpu != nullptr && of_cpu->backend == Backend::kCpu;
  return fmt::format(
      "\n  choose other sizes, if the model is trained from scratch (--config_overrides), or compute in "
      "another type (with --bf16, with --fp16, or with neither){}",
      cpu_takes_it ? "; --device cpu has a kernel for it" : "");
}

// Returns the implementation that the user forces for a kernel (--kernels), or "".
std::string_view forced_implementation(std::string_view kernel, const DeviceOptions& device) {
  if (!device.reference_kernels && device.forced_kernels.empty()) return {};
  std::string_view forced;
  for (const KernelRow* row : kernel_rows_of(kernel)) {
    if (std::ranges::find(device.forced_kernels, row->implementation) != device.forced_kernels.end())
      return row->implementation;
    if (device.reference_kernels && row->backend == Backend::kRef) forced = row->implementation;
  }
  return forced;
}

Selection select(const OpView& op, const Bucket& bucket, const PlanRequest& request) {
  const Problem problem = lower_op(op, bucket, kernel_target(request));
  const std::string_view forced = forced_implementation(problem.kernel, request.device);
  Selection selection = select_kernel(problem, forced);
  if (selection.row != nullptr) return selection;
  std::string reasons;
  for (const Refusal& refusal : selection.refused) {
    reasons += fmt::format("\n  {}: {}", refusal.row->implementation, refusal.reason);
  }
  if (!request.device.reference_kernels && !forced.empty()) {
    throw_error(ErrorCode::kUsage,
                "--kernels {}: this kernel cannot compute every '{}' of the run; leave it out{}", forced,
                problem.kernel, reasons);
  }
  throw_error(ErrorCode::kUsage, "no kernel computes '{}' in {} on {}{}", problem.kernel,
              dtype_name(problem.dtype), device_name(request),
              (reasons.empty() ? ": the kernel catalog lists no implementation for this device" : reasons) +
                  advice(problem));
}

bool same_choice(const Selection& a, const Selection& b) {
  return a.row == b.row && std::ranges::equal(a.refused, b.refused, [](const Refusal& x, const Refusal& y) {
           return x.row == y.row && x.reason == y.reason;
         });
}

}  // namespace

KernelTarget kernel_target(const PlanRequest& request) {
  return {.device = request.device.kind,
          .num_threads = request.device.num_threads,
          .isa = request.device.isa,
          .sm = request.device.gpu.sm,
          .fp32_products = request.precision.fp32_products,
          .matmul_workspace_bytes = request.products.workspace_bytes};
}

void remove_used_kernels(std::vector<std::string>& names, const Programs& programs) {
  std::erase_if(names, [&](const std::string& name) {
    return std::ranges::any_of(programs, [&](const ProgramPlan& program) {
      return std::ranges::any_of(program.ops, [&](const OpPlan& op) {
        return op.kernel != nullptr && op.kernel->implementation == name;
      });
    });
  });
}

void refuse_unused_kernels(const std::vector<std::string>& names) {
  if (names.empty()) return;
  const KernelRow* row = find_kernel_row(names.front());
  PLIMSOLL_CHECK(row != nullptr, "the kernel catalog has no implementation '{}'", names.front());
  throw_error(ErrorCode::kUsage,
              "--kernels {}: no op of this run computes {}; plimsoll plan --why lists the kernels of a run",
              names.front(), row->kernel);
}

KernelChoice::KernelChoice(const Graph& graph)
    : kinds_(find_op_kinds(graph)), selections_(kinds_.first_op.size()) {}

void KernelChoice::choose(ProgramPlan& program, const PlanRequest& request) {
  program.ops.resize(program.graph.ops().size());
  program.library_bytes = 0;
  // Most ops get the same kernel for every batch size. If an op's kernel has not changed, it and the reasons against others are not copied.
  std::vector<bool> is_new(kinds_.first_op.size());
  for (size_t kind = 0; kind < kinds_.first_op.size(); ++kind) {
    const OpView op{program.graph, program.graph.ops()[kinds_.first_op[kind]]};
    Selection selection = select(op, program.bucket, request);
    is_new[kind] = !same_choice(selection, selections_[kind]);
    selections_[kind] = std::move(selection);
    program.library_bytes = std::max(program.library_bytes, selections_[kind].library_bytes);
  }
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const uint32_t kind = kinds_.of_op[i];
    const Selection& selection = selections_[kind];
    program.ops[i].scratch_bytes = selection.scratch_bytes;
    if (!is_new[kind]) continue;
    program.ops[i].kernel = selection.row;
    program.ops[i].refused = selection.refused;
  }
}

std::vector<int64_t> KernelChoice::scratch_bytes(const Graph& graph, const Bucket& bucket,
                                                 const PlanRequest& request) const {
  std::vector<int64_t> of_kind;
  of_kind.reserve(kinds_.first_op.size());
  for (const uint32_t first : kinds_.first_op)
    of_kind.push_back(select({graph, graph.ops()[first]}, bucket, request).scratch_bytes);
  std::vector<int64_t> bytes;
  bytes.reserve(kinds_.of_op.size());
  for (const uint32_t kind : kinds_.of_op) bytes.push_back(of_kind[kind]);
  return bytes;
}

}  // namespace plimsoll
