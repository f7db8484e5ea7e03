// The schema of an op, for passes, autodiff and the planner. Besides the types of the outputs (OpDef) a schema states the operands, the
// gradient, a decomposition, the cost, the content of tail rows (rows after the last token), and which operand an output may share bytes
// with. Schemas are stateless and live until the process ends; thread-safe.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/ops/operand.h"

namespace plimsoll {

// The groups into which a plan's tables of operations sort the ops: the contractions, normalizations and element-wise ops of "Data Movement
// Is All You Need" (Ivanov et al., arXiv 2007.00072), and in addition data movement and communication.
enum class OpGroup : uint8_t { kContraction, kNormalization, kElementWise, kDataMovement, kCommunication };
std::string_view op_group_name(OpGroup group);

// The kind of work by which the time of an op is estimated. kElements: each operand is read or written a few times, as by
// element-wise ops, norms and losses.
enum class OpWork : uint8_t {
  kProduct,  // a contraction other than attention
  kAttention,
  kAttentionBackward,
  kElements,
  kUpdate,          // update of parameters by an optimizer
  kUpdateOfCodes,   // update with optimizer states in 8 bits
  kFactoredUpdate,  // update with sums over rows and columns (Adafactor)
  kCopy,            // copies between memory spaces
  kCollective,      // collective operations between ranks
};

// The queue that an op runs on. The ops of kCompute run one after the other. An op of another queue starts when the ops
// before it in the program and the earlier ops of its queue are done. It runs at the same time as the ops after it, until
// one of them needs it to have ended: see find_queued_ops() (graph/analysis/analysis.h).
enum class Queue : uint8_t {
  kCompute,
  kToDevice,       // copies from the host's memory, or from a disk, to the device
  kToHost,         // copies from the device to the host's memory, or to a disk
  kCommunication,  // collective operations between ranks
};
inline constexpr int kNumQueues = 4;
constexpr size_t index_of(Queue queue) {
  return static_cast<size_t>(queue);
}

// The floating-point operations, and the bytes read plus the bytes written, of one run of the op with a batch of the sizes in a Bucket.
struct Cost {
  double flops = 0;
  double bytes = 0;
};

// What the rows of a value after the last token contain (tail rows, which a batch does not use). An op that sums over all rows requires
// that one factor of each product is zero in these rows.
enum class Tail : uint8_t {
  kNone,    // the rows of the value are not tokens, so it has no tail rows
  kZero,    // the tail rows are exactly zero
  kFinite,  // arbitrary finite numbers
};

// The interface by which an op builds its gradients.
class GradientContext {
 public:
  virtual ~GradientContext() = default;
  virtual Graph& graph() = 0;
  // A copy of the forward op. It stays valid when ops are appended to the graph.
  virtual const Op& op() const = 0;
  // Returns the gradient of output i, or kNoValue if the loss does not depend on it.
  virtual ValueId d_output(int i) = 0;
  // Returns the gradient of output i as one value or as two values that the caller must add. An op calls it if its backward kernel can add
  // the two values.
  virtual std::pair<ValueId, ValueId> d_output_terms(int i) = 0;
  // Returns true if the gradient of input i is needed: the input is, or depends on, a value whose gradient the caller of autodiff wants.
  virtual bool wants(int i) const = 0;
  // Sets the gradient of input i. If it is called several times for an input, the gradients are summed.
  virtual void set(int i, ValueId gradient) = 0;
};

// Describes how to compute an output again: an op and its inputs, which are values that exist before the output.
struct Recipe {
  const OpDef* def = nullptr;
  ValueIds inputs;
  Attributes attributes;
  int output = 0;
};

class OpSchema : public OpDef {
 public:
  // Return the tables that describe the inputs and the outputs of the op. Row i of the table of inputs describes input i, unless some
  // operands can occur several times (kRepeated). Outputs have the order of their table; outputs that an op does not have are skipped.
  virtual std::span<const InputOperand> inputs() const = 0;
  virtual std::span<const OutputOperand> outputs() const = 0;
  // Return the index of the table row that describes input or output number i of this op.
  virtual int input_row(const OpView& op, int input) const;
  virtual int output_row(const OpView& op, int output) const;
  // Returns the number of inputs that repeat together. For the inputs ids_0, table_0, ids_1, table_1 this is 2. By default it is the number
  // of table rows that are marked as repeated.
  virtual int repeated_inputs(const OpView& op) const;

  // Returns the position of the only input with this role, or -1 if the op has none.
  int input_with(InputRole role) const;
  // into_input() returns the position of the input to which output i is added, or -1 if that input is absent or output i cannot accumulate.
  // accumulate_flag_input() returns the position of the flag (0 overwrites, 1 adds), or -1 if the op cannot accumulate.
  int into_input(const OpView& op, int output) const;
  int accumulate_flag_input() const { return input_with(InputRole::kAccumulateFlag); }
  // Returns true if output i needs no memory when no op reads it, because the kernel can then skip writing it.
  bool has_optional_memory(const OpView& op, int output) const;
  int writes_into(const OpView& op, int output) const override;
  std::string input_name(const OpView& op, int input) const override;
  std::string output_name(const OpView& op, int output) const override;

  // Checks the number and the presence of the inputs against the operand table of the op, and then returns output_types().
  std::vector<ValueType> infer(const OpView& op) const final;
  // Returns the types of the outputs. Requires: the number and the presence of the inputs agree with the operand table. Errors: kInternal
  // if their types do not match.
  virtual std::vector<ValueType> output_types(const OpView& op) const = 0;

  virtual OpGroup group() const = 0;
  // Returns kProduct for contractions and kElements for all others, unless the op overrides it.
  virtual OpWork work() const;
  // Returns true for the op of an optimizer that updates parameters.
  bool is_update() const;
  bool is_copy() const { return work() == OpWork::kCopy; }
  bool is_communication() const { return group() == OpGroup::kCommunication; }
  virtual Queue queue(const OpView& op) const {
    static_cast<void>(op);
    return Queue::kCompute;
  }
  virtual double flops(const OpView& op, const Bucket& bucket) const = 0;
  // Returns the bytes that the op reads and writes. By default, the op reads every input once and writes every output once.
  virtual double bytes(const OpView& op, const Bucket& bucket) const;
  // Returns the part of bytes() that is moved by kernels which run between the matrix products of the op, not at the same time as a
  // product: for example the bytes of a softmax between two products. Only estimates of the op's time use this number.
  virtual double bytes_between_products(const OpView&, const Bucket&) const { return 0; }
  // Returns the bytes that the op moves to another memory space or to other ranks: for a copy, the bytes in its direction; for a collective
  // operation, the bytes that each rank sends. Requires: the op's queue is not kCompute.
  virtual double transferred_bytes(const OpView& op, const Bucket& bucket) const {
    return bytes(op, bucket) / 2;
  }
  Cost cost(const OpView& op, const Bucket& bucket) const { return {flops(op, bucket), bytes(op, bucket)}; }

  // Builds the backward ops. Errors: kInternal if the op has no gradient.
  virtual void gradient(GradientContext& context) const;

  // Returns what the outputs contain in their tail rows (the rows after the last token). By default, outputs are finite there if the inputs
  // are, as for an op that works row by row. Errors: kInternal if the op sums over rows and both factors may be nonzero in tail rows.
  virtual std::vector<Tail> tail(const OpView& op, std::span<const Tail> inputs) const;

  // Returns true if a row of each output depends only on the same row of the operands that have rows, and on operands without rows: f(x)[r]
  // = f(x[r]) for any choice of rows r. If the op runs on fewer rows, it draws random numbers by the indices of these rows.
  virtual bool works_row_by_row(const OpView& op) const {
    static_cast<void>(op);
    return false;
  }

  // Returns the inputs that output i may overwrite if no later op reads them.
  virtual std::vector<int> may_overwrite(const OpView& op, int output) const {
    static_cast<void>(op);
    static_cast<void>(output);
    return {};
  }

  // Returns a cheap way to compute output i again in the backward pass instead of keeping it, if there is one.
  virtual std::optional<Recipe> recipe(const OpView& op, int output) const {
    static_cast<void>(op);
    static_cast<void>(output);
    return std::nullopt;
  }

  // Emits the op as more basic ops into the graph and returns its outputs. Returns nothing if the op is basic.
  virtual std::vector<ValueId> decompose(Graph& graph, const Op& op) const {
    static_cast<void>(graph);
    static_cast<void>(op);
    return {};
  }
};

// Returns the schema of an op of a graph. Requires: the graph was built from the definitions in src/graph/ops.
inline const OpSchema& schema_of(const Op& op) {
  return static_cast<const OpSchema&>(*op.def);
}

// Returns "matmul(a, b, bias?, into?, flag?)"; "..." follows a repeated operand.
std::string format_signature(const OpSchema& schema);

// Throws kInternal unless the condition holds. The message contains the op, `rule`, and the names and types of the op's inputs.
void expect_operands(bool condition, const OpView& op, std::string_view rule);

// Returns the type that the attribute "dtype" states, or `fallback` if the op has no such attribute.
DType stated_dtype(const OpView& op, DType fallback);

// Returns the recipe (a way to compute an output again) that runs the op again with the same inputs.
Recipe same_op(const OpView& op, int output);

// Checks that an operand is zero on tail rows (rows after the last token). Errors: kInternal naming the op and the operand.
void expect_zero_tail(Tail state, const OpView& op, std::string_view operand);

}  // namespace plimsoll
