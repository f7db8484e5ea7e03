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

#define PLIMSOLL_BINDING(op, kernel, args, ...) \
  {&op##_op(), bind_call<kernel##_ref, kernel##_cpu, args __VA_OPT__(, ) __VA_ARGS__>},
#define PLIMSOLL_TENSORS_BINDING(op, kernel, args, tensors) \
  {&op##_op(), bind_tensors_call<kernel##_ref, kernel##_cpu, args, tensors>},
#define PLIMSOLL_UPDATE_BINDING(kind, name, frame) \
  {&update_op(OptimizerKind::kind),                \
   bind_tensors_call<name##_ref, name##_cpu, update_args<name##_ref>, update_tensors<UpdateFrame::frame>>},
#define PLIMSOLL_OWN_BINDING(op) {&op##_op(), bind_##op##_cpu},
const std::unordered_map<const OpDef*, BindCpu>& cpu_bindings() {
  static const std::unordered_map<const OpDef*, BindCpu> bindings{
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
  const auto found = cpu_bindings().find(context.op().def);
  PLIMSOLL_CHECK(found != cpu_bindings().end(), "the op '{}' has no binding", context.op().def->name());
  return found->second(context);
}

#define PLIMSOLL_BINDING(op, kernel, args, ...) {&op##_op(), #kernel},
#define PLIMSOLL_TENSORS_BINDING(op, kernel, args, tensors) {&op##_op(), #kernel},
#define PLIMSOLL_UPDATE_BINDING(kind, name, frame) {&update_op(OptimizerKind::kind), #name},
#define PLIMSOLL_OWN_BINDING(op) {&op##_op(), ""},
std::span<const ListedBinding> listed_bindings() {
  static const std::vector<ListedBinding> bindings{
#include "exec/ops/bindings.inc"
  };
  return bindings;
}
#undef PLIMSOLL_OWN_BINDING
#undef PLIMSOLL_UPDATE_BINDING
#undef PLIMSOLL_TENSORS_BINDING
#undef PLIMSOLL_BINDING

}  // namespace plimsoll
