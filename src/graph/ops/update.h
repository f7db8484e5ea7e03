// What the optimizers' ops share. Stateless; thread-safe.
#pragma once

#include <vector>

#include "graph/ops/op.h"

namespace plimsoll {

// An update of a list of parameters in place: four scalars (learning rate, step, clip coefficient, finite),
// then equally many values for each parameter: the parameter, its gradient, its states, and with {copies} a
// 16-bit copy that the update writes too. Outputs are the new versions of all but the gradient.
class Update : public OpSchema {
 public:
  OpGroup group() const override { return OpGroup::kElementWise; }
  std::vector<ValueType> infer(const OpView& op) const override {
    const int stride = values_per_parameter(op);
    expect_operands(op.num_inputs() > 4 && (op.num_inputs() - 4) % stride == 0, op,
                    "lr, step, clip, finite and whole groups of parameter, gradient, states");
    std::vector<ValueType> types;
    for (int i = 4; i < op.num_inputs(); i += stride) {
      expect_operands(op.in_shape(i) == op.in_shape(i + 1), op, "gradients of their parameters' shapes");
      for (int k = 0; k < stride; ++k) {
        if (k != 1) types.push_back(op.input(i + k).type);
      }
    }
    return types;
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    double elements = 0;
    for (int i = 4; i < op.num_inputs(); i += values_per_parameter(op)) {
      elements += static_cast<double>(op.in_shape(i).elements(bucket));
    }
    return flops_per_element() * elements;
  }
  int writes_into(const OpView& op, int output) const override {
    const int stride = values_per_parameter(op);
    const int written = stride - 1;
    const int k = output % written;
    return 4 + (output / written) * stride + (k == 0 ? 0 : k + 1);
  }

 protected:
  // The last value of a parameter is then its 16-bit copy, or its lower half.
  static int copies(const OpView& op) {
    return op.attributes().integer_or("copies", 0) != 0 || op.attributes().integer_or("split", 0) != 0 ? 1
                                                                                                       : 0;
  }
  virtual int values_per_parameter(const OpView& op) const = 0;
  virtual double flops_per_element() const = 0;
};

}  // namespace plimsoll
