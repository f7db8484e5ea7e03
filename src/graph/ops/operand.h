// The operand table of an op: name, presence and role of each input and output. Passes, the planner and the
// executor refer to operands by the enumerators in ops.h, which are the rows of these tables. Constants;
// thread-safe.
#pragma once

#include <cstdint>
#include <string_view>

namespace plimsoll {

// How often an operand occurs in one op.
enum class Presence : uint8_t {
  kRequired,  // the operand occurs exactly once
  kOptional,  // once or not at all; an absent operand is kNoValue in the list of the op's inputs
  // Once or not at all; an absent operand is not in the list of inputs. The attributes or the number of inputs tell whether it is present.
  kTrailing,
  // Once or more. Adjacent rows with this presence repeat as a group: ids_0, table_0, ids_1, table_1.
  kRepeated,
};

// How an op uses an input.
enum class InputRole : uint8_t {
  kData,
  kInto,             // the value that an output is added to; the sum overwrites it
  kAccumulateFlag,   // i32[1]: 0 overwrites the kInto inputs, 1 adds to them
  kReplaced,         // the op updates this value in place: an output is its new version
  kRandomState,      // i64[2]: seed and number of the micro-batch
  kSequenceOffsets,  // i32[B+1]: the first row of each sequence, and the number of real rows at the end
  kNumSequences,     // i32[1]: the number of real rows of a value with a row per sequence
};

inline constexpr int kNoOutput = -1;

// One row of the table that describes the inputs of an op. `index` is the operand's enumerator in the op's struct in ops.h. A test checks
// that it equals the index of the row in the table.
struct InputOperand {
  int index = 0;
  std::string_view name;
  Presence presence = Presence::kRequired;
  InputRole role = InputRole::kData;
  int output = kNoOutput;  // for kInto and kReplaced: the index of the output that overwrites this input

  static constexpr InputOperand required(int index, std::string_view name) {
    return {.index = index, .name = name};
  }
  static constexpr InputOperand optional(int index, std::string_view name) {
    return {.index = index, .name = name, .presence = Presence::kOptional};
  }
  static constexpr InputOperand trailing(int index, std::string_view name) {
    return {.index = index, .name = name, .presence = Presence::kTrailing};
  }
  static constexpr InputOperand repeated(int index, std::string_view name) {
    return {.index = index, .name = name, .presence = Presence::kRepeated};
  }
  static constexpr InputOperand into(int index, std::string_view name, int output) {
    return {.index = index,
            .name = name,
            .presence = Presence::kOptional,
            .role = InputRole::kInto,
            .output = output};
  }
  static constexpr InputOperand accumulate_flag(int index) {
    return {
        .index = index, .name = "flag", .presence = Presence::kOptional, .role = InputRole::kAccumulateFlag};
  }
  static constexpr InputOperand replaced(int index, std::string_view name, int output) {
    return {.index = index, .name = name, .role = InputRole::kReplaced, .output = output};
  }
  static constexpr InputOperand random_state(int index, Presence presence) {
    return {.index = index, .name = "rng", .presence = presence, .role = InputRole::kRandomState};
  }
  static constexpr InputOperand sequence_offsets(int index) {
    return {.index = index, .name = "cu_seqlens", .role = InputRole::kSequenceOffsets};
  }
  static constexpr InputOperand num_sequences(int index) {
    return {.index = index, .name = "num_sequences", .role = InputRole::kNumSequences};
  }
};

// kOptional: if no op reads the output, it needs no memory, because the kernel then does not write it. kNeeded: it always needs memory.
enum class OutputMemory : uint8_t { kNeeded, kOptional };

// One row of the table that describes the outputs of an op.
struct OutputOperand {
  int index = 0;
  std::string_view name;
  Presence presence = Presence::kRequired;
  OutputMemory memory = OutputMemory::kNeeded;

  static constexpr OutputOperand required(int index, std::string_view name) {
    return {.index = index, .name = name};
  }
  // An output that exists only if the op's attributes or optional inputs ask for it.
  static constexpr OutputOperand conditional(int index, std::string_view name) {
    return {.index = index, .name = name, .presence = Presence::kTrailing};
  }
  static constexpr OutputOperand repeated(int index, std::string_view name) {
    return {.index = index, .name = name, .presence = Presence::kRepeated};
  }
  constexpr OutputOperand without_memory() const {
    OutputOperand row = *this;
    row.memory = OutputMemory::kOptional;
    return row;
  }
};

}  // namespace plimsoll
