// Makes a function that calls the kernel of an op. The addresses and sizes of the op's operands are fixed arguments. Some operands have
// values that change from run to run, such as a flag: a CPU reads them before each run, and CUDA kernels read them on the device, so that a
// segment can be captured and replayed. Making the function may allocate memory; calling it does not. Thread-safe: pure functions of the
// context.
#pragma once

#include <functional>
#include <string_view>
#include <utility>

#include "base/philox.h"
#include "exec/bound_op.h"
#include "kernels/catalog/kernel_functions.h"

namespace plimsoll {

// The accumulation flag: 0 overwrites outputs, 1 adds to them. If the op has no flag, kernels overwrite.
class AccumulateFlag {
 public:
  explicit AccumulateFlag(const BindContext& context)
      : flag_(context.input_with(InputRole::kAccumulateFlag)) {}
  template <typename Args>
  void read(Args& args) const {
    args.accumulate = read_flag(flag_);
  }
  const int32_t* on_device() const { return flag_ ? flag_.as<int32_t>() : nullptr; }

 private:
  ConstView flag_;
};

// The random state of an op: the seed and the number of the micro-batch, and the op's site, which separates its random draws from those of
// other ops. An op without a random state draws no random numbers.
class RandomState {
 public:
  explicit RandomState(const BindContext& context)
      : rng_(context.input_with(InputRole::kRandomState)),
        site_(context.attributes().integer_or("site", 0)) {}
  // Reads the random state into the arguments. Does not change `first_block`, which was set when the call was made.
  template <typename Args>
  void read(Args& args) const {
    if constexpr (requires { args.where; }) {
      read_into(args.where);
    } else {
      read_into(args.options.random);
    }
  }
  const int64_t* on_device() const { return rng_ ? rng_.as<int64_t>() : nullptr; }

 private:
  void read_into(RandomSite& where) const {
    const uint64_t first_block = where.first_block;
    where = read_site(rng_, site_);
    where.first_block = first_block;
  }

  ConstView rng_;
  int64_t site_;
};

// The number of tokens that a batch really has; the program may be compiled for more. It is the last element of the sequence offsets.
class NumTokens {
 public:
  explicit NumTokens(const BindContext& context)
      : cu_seqlens_(context.input_with(InputRole::kSequenceOffsets)),
        sequences_(context.bucket().sequences) {}
  template <typename Args>
  void read(Args& args) const {
    args.num_tokens = read_integer(cu_seqlens_, sequences_);
  }
  const int32_t* on_device() const { return cu_seqlens_ ? cu_seqlens_.as<int32_t>() + sequences_ : nullptr; }

 private:
  ConstView cu_seqlens_;
  int64_t sequences_;
};

// The number of sequences that a batch really has, for values with one row per sequence.
class NumSequences {
 public:
  explicit NumSequences(const BindContext& context)
      : num_sequences_(context.input_with(InputRole::kNumSequences)) {}
  template <typename Args>
  void read(Args& args) const {
    args.num_real_rows = read_integer(num_sequences_);
  }
  ConstView on_device() const { return num_sequences_; }

 private:
  ConstView num_sequences_;
};

// The type of the CPU functions of a kernel. Their argument is the struct that the function kArgs returns.
template <auto kArgs>
using CpuCall = void(const decltype(kArgs(std::declval<const BindContext&>()))&);

// Returns the CPU function of an implementation in the kernel catalog. Errors: kInternal if it has none.
const KernelFunction& cpu_function(std::string_view implementation);

// Returns a call of the kernel that the plan chose. The function kArgs makes the arguments that
// never change. Each type in RunTime, such as AccumulateFlag, reads an operand before each run.
template <auto kArgs, typename... RunTime>
std::function<void()> bind_call(const BindContext& context) {
  return [run = cpu_function(context.kernel()).as<CpuCall<kArgs>>(), args = kArgs(context),
          ... operands = RunTime(context)]() mutable {
    (operands.read(args), ...);
    run(args);
  };
}

// Returns a call as bind_call() does, for a kernel that works on a list of tensors. The arguments borrow the list, which is stored in the
// call.
template <auto kArgs, auto kTensors>
std::function<void()> bind_tensors_call(const BindContext& context) {
  return [run = cpu_function(context.kernel()).as<CpuCall<kArgs>>(), args = kArgs(context),
          tensors = kTensors(context)]() mutable {
    args.tensors = tensors;
    run(args);
  };
}

}  // namespace plimsoll
