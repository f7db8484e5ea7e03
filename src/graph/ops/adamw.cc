// adamw(lr, step, clip, finite, p_0, g_0, m_0, v_0, p_1, ...) {beta1, beta2, epsilon, weight_decay}: one
// update of every parameter of a group in place (Loshchilov and Hutter, arXiv 1711.05101, as
// torch.optim.AdamW). Outputs p', m', v' per parameter are new versions of the same bytes. Nothing is written
// where finite is 0. With {copies} each parameter has one more value, a 16-bit copy of p', written too. With
// {split} p is bf16 and each parameter has one more value, u8[2 n], the lower halves of the fp32 numbers
// whose upper halves p holds (base/split_f32.h); both are written. Where p is bf16 and nothing is beside it,
// p' is rounded stochastically with the noise of {noise_seed, noise_site}.
//
// sgd(lr, step, clip, finite, p_0, g_0, b_0?, ...) {momentum, nesterov, weight_decay}: torch.optim.SGD;
// outputs p' and, where there is momentum, b' per parameter.
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

// An update of lists: four scalars, then `stride` values per parameter, the gradient second.
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

class Adamw final : public Update {
 public:
  std::string_view name() const override { return "adamw"; }

 protected:
  int values_per_parameter(const OpView& op) const override { return 4 + copies(op); }
  double flops_per_element() const override { return 15.0; }
};

class Sgd final : public Update {
 public:
  std::string_view name() const override { return "sgd"; }

 protected:
  int values_per_parameter(const OpView& op) const override {
    return (op.attributes().number("momentum") > 0.0 ? 3 : 2) + copies(op);
  }
  double flops_per_element() const override { return 6.0; }
};

}  // namespace

const OpSchema& adamw_op() {
  static const Adamw op;
  return op;
}
const OpSchema& sgd_op() {
  static const Sgd op;
  return op;
}

}  // namespace plimsoll
