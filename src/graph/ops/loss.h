// What the losses of a head share: a loss is one number, and the gradient of its first input is an op of the
// loss's inputs and of d_loss. Thread-safe: pure.
#pragma once

#include <string_view>

#include "graph/ops/op.h"

namespace plimsoll {

// loss_1, in fp32 where the logits are in 16 bits.
ValueType loss_type(const OpView& op);

// Emits `backward`(inputs of the loss, d_loss) with the loss's attributes, where the first input's gradient
// is wanted.
void set_loss_gradient(GradientContext& context, const OpSchema& backward);

// loss_bwd(inputs of the loss, d_loss_1): the gradient of the first input, which it may overwrite.
class LossBwd final : public OpSchema {
 public:
  struct Figures {
    std::string_view name;  // of the op, not of the loss
    OpGroup group;
    int num_inputs;  // of the loss
    double flops;    // an element of the first input
  };
  explicit LossBwd(const Figures& figures) : figures_(figures) {}
  std::string_view name() const override { return figures_.name; }
  OpGroup group() const override { return figures_.group; }
  std::vector<ValueType> infer(const OpView& op) const override;
  double flops(const OpView& op, const Bucket& bucket) const override;
  std::vector<int> may_overwrite(const OpView&, int) const override { return {0}; }

 private:
  Figures figures_;
};

}  // namespace plimsoll
