// The parts that the update ops of all optimizers share. Stateless; thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/ops/ops.h"
#include "graph/ops/slice.h"

namespace plimsoll {

// An op that updates a list of parameters in place. Its inputs are four scalars (learning rate, number of the step, clip coefficient, and
// the flag that is 1 if all gradients are finite), and then for each parameter: the parameter, its gradient, its optimizer states, and with
// the attribute `copies` a 16-bit copy, with `split` the lower 16 bits of fp32 values whose upper 16 bits are in the parameter. The update
// writes the copy or the lower 16 bits too. A bf16 parameter without either of them is rounded stochastically, with noise from the
// attributes noise_seed and noise_site. Some optimizers round their states in the same way. Outputs are the new versions of all values
// except the gradient. With the attributes of a slice (slice.h) the op has one parameter and updates only that slice; each of its operands
// is whole or only the slice. With the attribute `ranks` each rank updates its slice of every parameter; the states are divided among the
// ranks (Value::divided), and the other operands are divided or whole.
class Update : public OpSchema, public UpdateOp {
 public:
  std::span<const InputOperand> inputs() const override { return kInputs; }
  std::span<const OutputOperand> outputs() const override { return kOutputs; }
  int repeated_inputs(const OpView& op) const override { return values_per_parameter(op); }
  int input_row(const OpView& op, int input) const override {
    if (input < kParameter) return input;
    return std::min(kParameter + (input - kParameter) % values_per_parameter(op), int{kState});
  }
  int output_row(const OpView& op, int output) const override {
    return output % (values_per_parameter(op) - 1) == 0 ? kNewParameter : kNewState;
  }
  OpGroup group() const override { return OpGroup::kElementWise; }
  OpWork work() const override { return OpWork::kUpdate; }
  std::vector<ValueType> output_types(const OpView& op) const override {
    const int stride = values_per_parameter(op);
    std::vector<ValueType> types;
    const std::optional<Slice> slice = slice_of(op.attributes());
    expect_operands(
        !slice || (is_element_wise() && op.num_inputs() == kParameter + stride), op,
        "a single parameter whose elements are updated independently, because the op updates a slice");
    const std::optional<RankSlices> slices = rank_slices_of(op.attributes());
    expect_operands(
        !slices || (!slice && can_be_sharded(op)), op,
        "parameters whose slices can be updated separately, because the op updates the slices of one rank");
    for (int i = kParameter; i < op.num_inputs(); i += stride) {
      expect_operands(
          slice ? is_of(*slice, op, i) && is_of(*slice, op, i + 1) : op.in_shape(i) == op.in_shape(i + 1), op,
          "gradients with the shapes of their parameters");
      for (int k = 0; k < stride; ++k) {
        expect_operands(!slice || is_of(*slice, op, i + k), op,
                        "optimizer states with the shape of the whole parameter or of the slice");
        expect_operands(!op.input(i + k).divided || slices, op,
                        "operands that are not divided among ranks, because the op has no attribute 'ranks'");
        expect_operands(!slices || !is_state(op, k) || has_slice_of_state(*slices, op, i, k), op,
                        "optimizer states that are divided among the ranks like their parameter");
        if (k != 1) types.push_back(op.input(i + k).type);
      }
    }
    return types;
  }
  double flops(const OpView& op, const Bucket& bucket) const override {
    if (const auto slice = slice_of(op.attributes()))
      return flops_per_element() * static_cast<double>(slice->elements);
    const std::optional<RankSlices> slices = rank_slices_of(op.attributes());
    double elements = 0;
    for (int i = kParameter; i < op.num_inputs(); i += values_per_parameter(op)) {
      const int64_t whole = op.in_shape(i).elements(bucket);
      elements += static_cast<double>(slices ? slices->size(whole) : whole);
    }
    return flops_per_element() * elements;
  }
  double bytes(const OpView& op, const Bucket& bucket) const override {
    if (const auto slices = rank_slices_of(op.attributes())) return bytes_of_rank(*slices, op);
    const std::optional<Slice> slice = slice_of(op.attributes());
    if (!slice) return OpSchema::bytes(op, bucket);
    double sum = 0;
    for (int i = kParameter; i < op.num_inputs(); ++i) {
      const int64_t numbers = numbers_per_element(op, i - kParameter);
      const double touched = i == kGradient ? 1.0 : 2.0;  // the gradient is read but not written
      sum += touched * static_cast<double>(slice->elements * numbers * dtype_bytes(op.input(i).type.dtype));
    }
    return sum;
  }
  int writes_into(const OpView& op, int output) const override {
    const int stride = values_per_parameter(op);
    const int written = stride - 1;
    const int k = output % written;
    return kParameter + (output / written) * stride + (k == 0 ? 0 : k + 1);
  }

  // Returns true if the update of an element depends only on the gradient and the states of this element, so that an op may update a slice
  // of a parameter.
  virtual bool is_element_wise() const { return false; }
  // Returns true if each rank can update its own slice of a parameter (RankSlices) with only its own slice of the optimizer states.
  virtual bool can_be_sharded(const OpView&) const { return false; }
  // Each parameter has a list of operands: the parameter, its gradient, its states and perhaps a copy. Returns true if number k is a state.
  bool is_state(const OpView& op, int k) const { return k >= 2 && k < values_per_parameter(op) - copies(op); }
  // Returns the number of elements of the state at position k of the operands of a parameter with `elements` elements.
  virtual int64_t numbers_in_state(const OpView&, int /*k*/, int64_t elements) const { return elements; }
  // Returns the number of operands per parameter: the parameter, its gradient, its states, and its copy if it has one.
  int stride(const OpView& op) const { return values_per_parameter(op); }
  // Returns the number of array elements per parameter element in the operand at position k of a parameter: 2 for the lower 16 bits of fp32
  // values, which are stored as bytes, and 1 for all others.
  static int64_t numbers_per_element(const OpView& op, int k) {
    return op.attributes().integer_or("split", 0) != 0 && kParameter + k + 1 == op.num_inputs() ? 2 : 1;
  }

 protected:
  // Returns 1 if the last operand of a parameter is its 16-bit copy or the lower 16 bits of its values, and 0 otherwise.
  static int copies(const OpView& op) {
    return op.attributes().integer_or("copies", 0) != 0 || op.attributes().integer_or("split", 0) != 0 ? 1
                                                                                                       : 0;
  }
  virtual int values_per_parameter(const OpView& op) const = 0;
  virtual double flops_per_element() const = 0;

 private:
  // The operands parameter, gradient and state are repeated for each parameter. There may be several states, or none.
  static constexpr std::array kInputs{InputOperand::required(kLearningRate, "learning_rate"),
                                      InputOperand::required(kStep, "step"),
                                      InputOperand::optional(kClip, "clip"),
                                      InputOperand::required(kFinite, "finite"),
                                      InputOperand::repeated(kParameter, "parameter"),
                                      InputOperand::repeated(kGradient, "gradient"),
                                      InputOperand::repeated(kState, "state")};
  static constexpr std::array kOutputs{OutputOperand::repeated(kNewParameter, "new_parameter"),
                                       OutputOperand::repeated(kNewState, "new_state")};

  double bytes_of_rank(const RankSlices& slices, const OpView& op) const {
    const int stride = values_per_parameter(op);
    double sum = 0;
    for (int i = kParameter; i < op.num_inputs(); i += stride) {
      const int64_t elements = slices.size(op.in_shape(i).elements({}));
      for (int k = 0; k < stride; ++k) {
        const bool is_lower_half = k + 1 == stride && op.attributes().integer_or("split", 0) != 0;
        const int64_t numbers =
            is_state(op, k) ? op.input(i + k).elements({}) : elements * (is_lower_half ? 2 : 1);
        const double touched = k == 1 ? 1.0 : 2.0;  // the gradient is read but not written
        sum += touched * static_cast<double>(numbers * dtype_bytes(op.input(i + k).type.dtype));
      }
    }
    return sum;
  }

  // Returns true if this rank stores only its slice of a state, which is operand k of the parameter at input `parameter`.
  bool has_slice_of_state(const RankSlices& slices, const OpView& op, int parameter, int k) const {
    const Value& state = op.input(parameter + k);
    const int64_t elements = op.in_shape(parameter).elements({});
    return state.divided && state.divided->ranks == slices.ranks &&
           state.elements({}) == numbers_in_state(op, k, slices.size(elements));
  }

  static bool is_of(const Slice& slice, const OpView& op, int input) {
    return slice.is_of(op.in_shape(input).elements({}), numbers_per_element(op, input - kParameter));
  }
};

// Makes the op that updates parameters by Adafactor. Defined in adafactor_op.cc and called by update_op().
std::unique_ptr<const OpSchema> make_adafactor_op(const OptimizerRow& row);

// A fused parameter consists of several tensors of a checkpoint, called parts, one after another along the first dimension: for example one
// matrix of the weights of q, k and v. An optimizer whose states are sums over a tensor, or are quantized in blocks, treats every part like
// a separate parameter. Pure functions; thread-safe.

// The name of the attribute that lists the number of rows of each part.
inline constexpr std::string_view kPartRows = "part_rows";

// Returns the rows of every part of every parameter as text: "48" for one part of 48 rows, "16+16+16" for three
// parts; "," separates parameters.
std::string format_part_rows(std::span<const std::vector<int64_t>> rows);
// Parses the result of format_part_rows(). Errors: kInternal if the text is malformed.
std::vector<std::vector<int64_t>> part_rows_of(const Attributes& attributes);

// Returns the number of elements in one row of a parameter: 1 for a vector.
int64_t elements_per_row(const Shape& shape);

}  // namespace plimsoll
