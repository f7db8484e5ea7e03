// From a dequantize op of the plan to the arguments of its kernel. Thread-safe: a pure function.
#pragma once

#include "exec/bound_op.h"
#include "kernels/quantization/quantization.h"

namespace plimsoll {

inline DequantizeArgs dequantize_args(const BindContext& context) {
  const auto optional = [&](int i) { return context.has_input(i) ? context.input(i) : ConstView{}; };
  const auto format = find_quantized_format(context.attributes().word("format"));
  PLIMSOLL_CHECK(format.has_value(), "dequantize: no format '{}'", context.attributes().word("format"));
  return {.codes = context.input(0),
          .scales = context.input(1),
          .second_scales = optional(2),
          .offsets = optional(3),
          .w = context.output(0),
          .rows = context.attributes().integer("rows"),
          .columns = context.attributes().integer("columns"),
          .parts = context.attributes().integer("parts"),
          .format = *format};
}

}  // namespace plimsoll
