#include "exec/ops/bindings.h"

#include <unordered_map>
#include <vector>

#include "exec/ops/call.h"
#include "exec/ops/family_ops.h"
#include "graph/ops/dequantize.h"
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

using BindCpu = std::function<void()> (*)(const BindContext&);
struct CpuBinding {
  const OpSchema* op;
  BindCpu bind;
  const std::type_info* function;  // see ListedBinding::function
};

#define PLIMSOLL_BINDING(op, args, ...) \
  {&op##_op(), bind_call<args __VA_OPT__(, ) __VA_ARGS__>, &typeid(CpuCall<args>)},
#define PLIMSOLL_TENSORS_BINDING(op, args, tensors) \
  {&op##_op(), bind_tensors_call<args, tensors>, &typeid(CpuCall<args>)},
#define PLIMSOLL_UPDATE_BINDING(kind, name, frame)                                 \
  {&update_op(OptimizerKind::kind),                                                \
   bind_tensors_call<update_args<name##_ref>, update_tensors<UpdateFrame::frame>>, \
   &typeid(CpuCall<update_args<name##_ref>>)},
#define PLIMSOLL_OWN_BINDING(op) {&op##_op(), bind_##op##_cpu, nullptr},
const std::vector<CpuBinding>& cpu_bindings() {
  static const std::vector<CpuBinding> bindings{
#include "exec/ops/bindings.inc"
  };
  return bindings;
}
#undef PLIMSOLL_OWN_BINDING
#undef PLIMSOLL_UPDATE_BINDING
#undef PLIMSOLL_TENSORS_BINDING
#undef PLIMSOLL_BINDING

}  // namespace

std::function<void()> bind_cpu(const BindContext& context) {
  static const std::unordered_map<const OpDef*, BindCpu> by_op = [] {
    std::unordered_map<const OpDef*, BindCpu> map;
    for (const CpuBinding& binding : cpu_bindings()) map.emplace(binding.op, binding.bind);
    return map;
  }();
  const auto found = by_op.find(context.op().def);
  PLIMSOLL_CHECK(found != by_op.end(),
                 "the executor cannot run the op '{}' on a CPU: bindings.inc does not list it",
                 context.op().def->name());
  return found->second(context);
}

std::vector<ListedBinding> listed_cpu_bindings() {
  std::vector<ListedBinding> listed;
  for (const CpuBinding& binding : cpu_bindings()) listed.push_back({binding.op, binding.function});
  return listed;
}

#define PLIMSOLL_ROWS "kernels/catalog/families.inc"
std::span<const KernelFunction> cpu_functions() {
  static const KernelFunction kFunctions[] = {
#include "kernels/catalog/cpu_functions.inc"
  };
  return kFunctions;
}

const KernelFunction& cpu_function(std::string_view implementation) {
  const KernelFunction* function = find_function(cpu_functions(), implementation);
  PLIMSOLL_CHECK(function != nullptr,
                 "the executor cannot run the kernel '{}' on a CPU: no function is registered for it",
                 implementation);
  return *function;
}

}  // namespace plimsoll
