#include "exec/bound_op.h"

namespace plimsoll {

View BindContext::place(ValueId id) const {
  if (id == kNoValue) return {};
  const int64_t offset = program_.offsets[index_of(id)];
  if (offset < 0) return {};
  const Value& value = program_.graph.value(id);
  const int64_t arena_bytes = plan_.arena_bytes_of(value.space);
  PLIMSOLL_CHECK(offset + value.bytes(bucket_) <= arena_bytes, "'{}' ends at {} in an arena of {} bytes",
                 value.name, offset + value.bytes(bucket_), arena_bytes);
  if (value.bytes(program_.bucket) == 0) return {arenas_.device.at(0), value.type.dtype};
  return {arenas_.of(value.space).at(offset), value.type.dtype};
}

View BindContext::scratch() const {
  const OpPlan& plan = program_.ops[index_];
  return plan.scratch_bytes > 0 ? View{arenas_.device.at(plan.scratch_offset), DType::kU8} : View{};
}

ConstView BindContext::input_with(InputRole role) const {
  const int i = schema().input_with(role);
  return i >= 0 ? input(i) : ConstView{};
}

View BindContext::output_row(int row) const {
  for (int i = 0; i < view().num_outputs(); ++i) {
    if (schema().output_row(view(), i) == row) return output(i);
  }
  return {};
}

}  // namespace plimsoll
