// The intermediate representation: a program as an ordered list of ops over typed values. It does not depend
// on which ops exist, and contains no devices or addresses. Not thread-safe while it is being changed.
//
// Invariants (find_violation() checks them):
//  1. Every value is produced before an op reads it; the order of the ops is the schedule.
//  2. A value has one producer, or none if it lives across programs (weights, states, persistent gradients) or if the
//     host writes it (inputs).
//  3. A value with `version_of` set is a newer version of that value: it occupies the same bytes and replaces their
//     content. Every op that reads the older version comes before the producer of the newer one, or is this producer.
//  4. Names are unique. A persistent value is the same bytes in every program that declares its name.
//  5. The outputs of every op have the types that its definition infers.
//  6. A newer version of a value is divided among the ranks in the same way as the older one.
//  7. A value is in one memory space, and a newer version is in the space of the older one. Ops work on values of the
//     device; only copies, which cross spaces, also read and write values of the host or of the disk.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/dtype.h"
#include "base/shared_optional.h"
#include "base/small_vector.h"
#include "graph/ir/attributes.h"
#include "graph/ir/name_index.h"
#include "graph/ir/rank_slices.h"
#include "graph/ir/shape.h"
#include "graph/ir/tensor_split.h"

namespace plimsoll {

enum class ValueId : uint32_t {};
enum class OpId : uint32_t {};
enum class ModuleId : uint32_t {};
inline constexpr ValueId kNoValue{std::numeric_limits<uint32_t>::max()};
inline constexpr OpId kNoOp{std::numeric_limits<uint32_t>::max()};
constexpr size_t index_of(ValueId id) {
  return static_cast<size_t>(id);
}
constexpr size_t index_of(OpId id) {
  return static_cast<size_t>(id);
}
constexpr size_t index_of(ModuleId id) {
  return static_cast<size_t>(id);
}

// The lifetime and the owner of a value.
enum class Storage : uint8_t {
  kTransient,       // produced and used within one run of the program
  kWeight,          // persistent: a parameter of the model
  kOptimizerState,  // persistent: a state that the optimizer keeps per parameter
  kGradient,        // persistent: a gradient that accumulates over micro-batches
  kCache,           // persistent: keys and values of earlier tokens (KV cache)
  kMessage,         // persistent: a value that is sent to another pipeline stage, until it has arrived
  kInput,           // written by the host before each run
  kOutput,          // read by the host after each run
  kDeferred,  // written by one run of the program and read by the next; other values use its bytes in between
};
constexpr bool is_persistent(Storage storage) {
  return storage == Storage::kWeight || storage == Storage::kOptimizerState ||
         storage == Storage::kGradient || storage == Storage::kCache || storage == Storage::kMessage;
}
std::string_view storage_name(Storage storage);

// The source of the values that the host writes into an input, and when it writes them.
enum class InputSource : uint8_t {
  kBatch,         // written with each batch: the batch's tensor with the name of the input
  kNumSequences,  // written with each batch: its number of sequences
  // Written with each batch: the starts of its sequences and its number of tokens ("cu_seqlens"). If ranks divide the rows, the starts
  // count from this rank's first row: starts before this row become 0, and starts after this rank's last row become the rank's number of
  // rows.
  kOwnStarts,
  kDenominator,  // written with each batch: the number by which the sum of losses is divided
  kRandom,       // written with each batch: the seed and the number of the micro-batch
  // Written with each batch: 1 if its gradients are added to those of earlier micro-batches, else 0.
  kAccumulate,
  kLearningRate,  // written before each update: the learning rate
  kUpdateNumber   // written before each update: the number of the update, counted from 1
};
constexpr bool is_written_before_update(InputSource source) {
  return source == InputSource::kLearningRate || source == InputSource::kUpdateNumber;
}

// The meaning of the elements of an input, as far as the code that fills and checks the input has to know it.
enum class InputContent : uint8_t {
  kAny,
  kTableRows,       // indices of rows of a table, which kernels do not check
  kSequenceStarts,  // the start of each sequence, then the number of tokens
  kRowEnds  // 0, then the index plus 1 of each row that the op first_token selects, in ascending order
};

// Declares how the host fills an input.
struct InputRule {
  InputSource source = InputSource::kBatch;
  InputContent content = InputContent::kAny;
  int64_t table_rows = 0;  // number of rows of the table; only used if `content` is kTableRows
  // The value that is written into the elements of the input that the batch does not fill. Not used for kSequenceStarts, whose remaining
  // elements are set to the number of tokens, and for kRowEnds, whose remaining elements repeat the last element of the batch.
  int32_t unused = 0;
  // How an input of position ids is filled. If this field is -1, the tokens of a sequence have the positions 0, 1 and so on. Otherwise it
  // is the id of the padding token, which is also the position of padding tokens; the other tokens have the positions id + 1, id + 2 and so
  // on.
  int32_t position_padding_id = -1;
  // Factor by which the learning rate is multiplied; only used if `source` is kLearningRate.
  double factor = 1.0;
  friend bool operator==(const InputRule&, const InputRule&) = default;
};

// The memory that stores a value: that of the device; that of the host, to and from which the
// device copies values; or a file on a disk, for persistent values only.
enum class Space : uint8_t { kDevice, kHost, kDisk };
inline constexpr int kNumSpaces = 3;
constexpr size_t index_of(Space space) {
  return static_cast<size_t>(space);
}
// Returns "device", "host" or "disk".
std::string_view space_name(Space space);

// The part of a step to which an op belongs: the forward pass, the backward pass or the update. The
// plan states the order in which the segments of a step run.
enum class Segment : uint8_t { kForward, kBackward, kOptimizer };
inline constexpr int kNumSegments = 3;
constexpr size_t index_of(Segment segment) {
  return static_cast<size_t>(segment);
}
std::string_view segment_name(Segment segment);

struct ValueType {
  DType dtype = DType::kF32;
  Shape shape;
  friend bool operator==(const ValueType&, const ValueType&) = default;
};
// Returns a text such as "f32[T,384]".
std::string format_type(const ValueType& type);

struct Value {
  std::string name;
  ValueType type;
  Storage storage = Storage::kTransient;
  OpId producer = kNoOp;
  ValueId version_of = kNoValue;  // the older value that this value replaces in the same bytes
  bool is_parameter_gradient = false;
  ModuleId module{0};
  Space space = Space::kDevice;
  InputRule input = {};  // set if the value is an input
  // Set if each rank stores only its slice of the value; `type` is then the type of the whole value.
  std::optional<RankSlices> divided = {};
  // Set if the value is divided among the ranks of a tensor-parallel group; `type` is then the type of the part that this rank stores.
  SharedOptional<TensorSplit> split = {};

  // Returns the number of elements that this rank has.
  int64_t elements(const Bucket& bucket) const {
    const int64_t whole = type.shape.elements(bucket);
    return divided ? divided->size(whole) : whole;
  }
  int64_t bytes(const Bucket& bucket) const { return elements(bucket) * dtype_bytes(type.dtype); }
};

class OpDef;

// The operands of an op. Nearly all ops have at most six inputs and six outputs.
using ValueIds = SmallVector<ValueId, 6>;

struct Op {
  const OpDef* def = nullptr;  // not owned; definitions live until the process ends
  ValueIds inputs;             // an absent optional operand is kNoValue
  ValueIds outputs;
  Attributes attributes;
  Segment segment = Segment::kForward;
  ModuleId module{0};
};

class Graph {
 public:
  explicit Graph(std::string name = "graph");

  const std::string& name() const { return name_; }

  // Declares a value without a producer. Errors: kInternal if the name is taken.
  ValueId add_value(std::string_view name, ValueType type, Storage storage);
  // Declares an input and how it is filled. Errors: as add_value().
  ValueId add_input(std::string_view name, ValueType type, const InputRule& rule = {});

  // Appends an op, infers the types of its outputs and names them. `output_names` may be shorter than the list of
  // outputs; the other outputs are named after the op. The returned index stays valid until ops are replaced. Errors: kInternal if the
  // definition refuses the operands.
  OpId add_op(const OpDef& def, ValueIds inputs, Attributes attributes = {},
              std::span<const std::string> output_names = {});

  // Sets the segment (forward, backward or optimizer) and the module of the ops and values that are added from now on.
  void set_segment(Segment segment) { segment_ = segment; }
  Segment segment() const { return segment_; }
  void set_module(std::string_view module);
  void set_current_module(ModuleId module) { module_ = module; }

  std::vector<Op>& ops() { return ops_; }
  const std::vector<Op>& ops() const { return ops_; }
  const Op& op(OpId id) const { return ops_[index_of(id)]; }
  std::vector<Value>& values() { return values_; }
  const std::vector<Value>& values() const { return values_; }
  Value& value(ValueId id) { return values_[index_of(id)]; }
  const Value& value(ValueId id) const { return values_[index_of(id)]; }
  const std::vector<std::string>& modules() const { return modules_; }
  const std::string& module_name(ModuleId id) const { return modules_[index_of(id)]; }

  // Returns the value of that name, or kNoValue.
  ValueId find(std::string_view name) const;
  // Returns the newest version of a value, which no other value replaces in its bytes. Cost: a pass over the values per version.
  ValueId newest(ValueId id) const;
  ValueId input(std::string_view name) const { return required(name, Storage::kInput); }
  // Returns a name that is not taken: the stem, or the stem with a number.
  std::string unique_name(std::string_view stem);
  void rename(ValueId id, std::string_view name);

  // Replaces all ops, and sets the producer of every value anew. Keeps all values, even those that
  // no op produces or reads any more.
  void replace_ops(std::vector<Op> ops);
  // Puts the ops into another order: the op at position order[i] moves to position i. Requires: a permutation that keeps invariant 1.
  void reorder_ops(std::span<const uint32_t> order);
  // Removes transient values that no op produces or reads, and numbers the other values anew.
  void drop_unused_values();

 private:
  ValueId required(std::string_view name, Storage storage) const;
  ValueId add_named(std::string name, const ValueType& type, Storage storage);
  std::string_view name_of(uint32_t value) const { return values_[value].name; }
  bool has_name(std::string_view name) const { return find(name) != kNoValue; }

  std::string name_;
  std::vector<Op> ops_;
  std::vector<Value> values_;
  std::vector<std::string> modules_{""};
  // The hash function of last_number_. It lets the table be searched by string views, without copies of the names.
  struct NameHash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
  };
  NameIndex values_by_name_;
  NameIndex modules_by_name_;
  // For each stem, the number at the end of the last name that unique_name() made from it.
  std::unordered_map<std::string, uint32_t, NameHash, std::equal_to<>> last_number_;
  Segment segment_ = Segment::kForward;
  ModuleId module_{0};
};

// An op and its graph. The methods of OpDef receive it, so that they can look up the op's operands.
struct OpView {
  const Graph& graph;
  const Op& op;

  int num_inputs() const { return static_cast<int>(op.inputs.size()); }
  int num_outputs() const { return static_cast<int>(op.outputs.size()); }
  bool has_input(int i) const { return i < num_inputs() && op.inputs[static_cast<size_t>(i)] != kNoValue; }
  const Value& input(int i) const { return graph.value(op.inputs[static_cast<size_t>(i)]); }
  const Value& output(int i) const { return graph.value(op.outputs[static_cast<size_t>(i)]); }
  const Shape& in_shape(int i) const { return input(i).type.shape; }
  const Shape& out_shape(int i) const { return output(i).type.shape; }
  const Attributes& attributes() const { return op.attributes; }
};

// The definition of an op as the IR sees it: a name and a rule for the types of its outputs. src/graph/ops adds the
// gradient, the cost and the rest.
class OpDef {
 public:
  virtual ~OpDef() = default;
  virtual std::string_view name() const = 0;
  // Returns the types of the outputs; `op.outputs` is not filled yet. Errors: kInternal, with the types that disagree, if operands do not
  // match.
  virtual std::vector<ValueType> infer(const OpView& op) const = 0;
  // Returns the number of the input that this output replaces in the same bytes, as its new version, or -1 if there is none.
  virtual int writes_into(const OpView& op, int output) const {
    static_cast<void>(op);
    static_cast<void>(output);
    return -1;
  }
  // Return the name of an input or output in the op's signature, such as "bias", or "" if the definition does not name it.
  virtual std::string input_name(const OpView& op, int input) const {
    static_cast<void>(op);
    static_cast<void>(input);
    return {};
  }
  virtual std::string output_name(const OpView& op, int output) const {
    static_cast<void>(op);
    static_cast<void>(output);
    return {};
  }
  // Returns the memory space of this output if the output has bytes of its own. An output that takes over the bytes of an input is in the
  // space of that input.
  virtual Space output_space(const OpView& op, int output) const {
    static_cast<void>(op);
    static_cast<void>(output);
    return Space::kDevice;
  }
  // Returns true if the operands may be outside of the device's memory: in host memory or on a disk.
  virtual bool crosses_spaces() const { return false; }
};

// The functions below check the invariants that are listed at the top of this file. graph/passes/pass.h states when the pass manager calls
// them.

// Returns a description of the first broken invariant, which names the op, the value and what disagrees. Returns nothing if all invariants
// hold. Cost: linear in ops and operands.
std::optional<std::string> find_violation(const Graph& graph);

// Throws kInternal with the violation if an invariant is broken; `when` is for example "after pass X".
void verify(const Graph& graph, std::string_view when);

}  // namespace plimsoll
