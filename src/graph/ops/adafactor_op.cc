// adafactor(lr, step, clip, finite, p_0, g_0, row_0, column_0, m_0?, p_1, ...) {epsilon1, epsilon2, clip_threshold,
// decay_rate, beta1, weight_decay, scale_parameter, factored, part_rows}: one update of every parameter of a group in place
// (Shazeer and Stern, arXiv 1804.04235, as transformers.optimization.Adafactor). With {factored} the parameters are matrices.
// `row` has one number per row. `column` has one number per column of each part, where a part is one of the tensors that a
// fused weight contains ({part_rows}, update.h). Without {factored} the parameters are vectors, and one state v replaces row
// and column. m exists if beta1 >= 0. Outputs are new versions of the inputs in the same bytes. If finite is 0, nothing is
// written. With {copies} each parameter p has one more operand, the 16-bit copy of p, which the update also writes.
#include "graph/ops/ops.h"
#include "graph/ops/update.h"

namespace plimsoll {
namespace {

class Adafactor final : public Update {
 public:
  explicit Adafactor(const OptimizerRow& row) : row_(row) {}
  std::string_view name() const override { return row_.name; }
  OpWork work() const override { return OpWork::kFactoredUpdate; }
  // Adds what Update::bytes() does not count. The gradient is read three times: for the states, for the size of
  // the update and for the update itself. The parameter is read once more if it scales the learning rate.
  double bytes(const OpView& op, const Bucket& bucket) const override {
    double bytes = Update::bytes(op, bucket);
    const double params = op.attributes().integer("scale_parameter") != 0 ? 1.0 : 0.0;
    for (int i = kParameter; i < op.num_inputs(); i += values_per_parameter(op)) {
      bytes += 2.0 * static_cast<double>(op.input(i + 1).bytes(bucket)) +
               params * static_cast<double>(op.input(i).bytes(bucket));
    }
    return bytes;
  }

 protected:
  int values_per_parameter(const OpView& op) const override {
    const int states = op.attributes().integer("factored") != 0 ? 2 : 1;
    return 2 + states + (op.attributes().number("beta1") >= 0.0 ? 1 : 0) + copies(op);
  }
  double flops_per_element() const override { return row_.flops_per_element; }

 private:
  const OptimizerRow& row_;
};

}  // namespace

std::unique_ptr<const OpSchema> make_adafactor_op(const OptimizerRow& row) {
  return std::make_unique<Adafactor>(row);
}

}  // namespace plimsoll
