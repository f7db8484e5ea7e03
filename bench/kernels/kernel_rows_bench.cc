// Times every row of the kernel catalog that this machine can run, in the plans of benched_cases.h. A row is one
// implementation of a kernel. Each line of the output has a row and the data type of the activations. For the slowest
// op that the row computed, it states the median and the spread of the time per call, and the rates that follow from
// the declared numbers of bytes and of floating-point operations of the op. A row that the plans do not choose by
// themselves is forced, as --kernels does.
//
//   kernel_rows_bench [--repetitions N] [ROW...]     all rows, or those whose names contain one of the words; exit code 2 for other words
//   PLIMSOLL_TEST_DEVICE=gpu kernel_rows_bench       the rows of the first GPU
//
// A run whose loss or gradients are not finite ends with an error before any time is printed.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/kernels/bench_row_words.h"
#include "bench/kernels/benched_cases.h"
#include "device/cpu/cpu_features.h"
#include "device/cuda/cuda_device.h"
#include "exec/executor.h"
#include "lowering/lowering.h"
#include "plan/compile/kernel_choice.h"
#include "plimsoll/error.h"
#include "run/device_choice.h"

namespace plimsoll {
namespace {

using testing::TinyBatch;

// The measured times of one op, one per repetition.
struct OpSamples {
  std::vector<double> ms = {};
  double flops = 0;  // floating-point operations per call
  double bytes = 0;
};

struct RowResult {
  OpSamples slowest = {};
  std::string case_name;
};

// The results, by kernel implementation (a row of the kernel catalog) and name of the data type.
using Results = std::map<std::pair<const KernelRow*, std::string_view>, RowResult>;

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

class RowTimer {
 public:
  RowTimer(const BenchedCase& benched, const BenchedRound& round, int repetitions)
      : benched_(benched),
        round_(round),
        repetitions_(repetitions),
        plan_(plan_of(benched, round)),
        executor_(plan_) {
    testing::fill_weights(executor_, 0.02);
    // With the initial loss scale of a run, 65536, a model with random weights overflows fp16, and steps that overflow
    // are skipped. The scale is therefore smaller here.
    if (plan_.has_tensor("loss_scale")) testing::set_value(executor_, "loss_scale", 0, 1.0);
    executor_.set_profiling(true);
  }

  void run(Results& results) {
    for (const ProgramPlan& program : plan_.programs) samples_[program.name].resize(program.ops.size());
    const TinyBatch batch = benched_batch(benched_);
    // The first repetition is not counted, because memory is accessed and libraries select kernels for the first time.
    for (int repetition = 0; repetition <= repetitions_; ++repetition) {
      if (plan_.programs.contains(kTrainProgram)) step(batch, repetition);
      if (plan_.programs.contains(kEvaluateProgram)) {
        testing::stage(executor_, kEvaluateProgram, batch, 8.0);
        executor_.run(kEvaluateProgram, Segment::kForward);
        require_finite(executor_.loss(), "loss of the evaluation");
      }
      if (plan_.programs.contains(kGenerateProgram)) generate(batch);
      take_times(repetition > 0);
    }
    for (const ProgramPlan& program : plan_.programs) collect(program, results);
  }

 private:
  static Plan plan_of(const BenchedCase& benched, const BenchedRound& round) {
    PlanRequest request = benched.request;
    request.device.forced_kernels = round.forced;
    return build_plan(request);
  }
  void require_finite(double value, std::string_view what) const {
    if (std::isfinite(value)) return;
    throw_error(ErrorCode::kNotFinite, "the {} of '{}' is {}", what, benched_.name, value);
  }
  void step(const TinyBatch& batch, int repetition) {
    for (int64_t micro = 0; micro < benched_.test.accumulation; ++micro) {
      executor_.set_accumulate(micro > 0);
      require_finite(testing::forward_backward(executor_, batch, micro + 1, 8.0), "loss");
    }
    executor_.set_update(1e-4, repetition + 1);
    executor_.run(kTrainProgram, Segment::kOptimizer);
    require_finite(executor_.grad_norm(), "norm of the gradients");
  }
  // Runs a prefill: writes the tokens of the batch into the KV cache, as if they were prompts.
  void generate(const TinyBatch& tokens) {
    const ProgramPlan& program = plan_.programs.at(kGenerateProgram);
    const int64_t pages = plan_.request.generation.pages_per_sequence;
    const int64_t page_size = plan_.request.generation.page_size;
    const BatchSize size{.tokens = std::ssize(tokens.ids),
                         .sequences = tokens.num_sequences(),
                         .longest = program.bucket.longest};
    TensorBatch batch({.tensors = batch_tensors(program.graph), .capacity = program.bucket});
    batch.resize(size);
    std::ranges::copy(tokens.ids, batch.ints("ids").begin());
    std::ranges::copy(tokens.cu_seqlens, batch.ints("cu_seqlens").begin());
    if (batch.has_ints("positions")) std::ranges::copy(tokens.positions, batch.ints("positions").begin());
    std::ranges::fill(batch.ints("copy_from"), -1);
    std::ranges::fill(batch.ints("page_table"), 0);
    for (int64_t i = 0; i < size.sequences; ++i) {
      const auto at = static_cast<size_t>(i);
      const int32_t length = tokens.cu_seqlens[at + 1] - tokens.cu_seqlens[at];
      batch.ints("lengths")[at] = length;
      for (int64_t page = 0; page * page_size < length; ++page)
        batch.ints("page_table")[static_cast<size_t>(i * pages + page)] =
            static_cast<int32_t>(i * pages + page);
    }
    executor_.stage(kGenerateProgram, batch, 1.0);
    executor_.run(kGenerateProgram, Segment::kForward);
    executor_.wait();
  }
  // Stores, for each op, the mean time per call since this function was called last. If `is_counted` is false, the times are dropped.
  void take_times(bool is_counted) {
    for (const ProgramPlan& program : plan_.programs) {
      const std::vector<OpTime>& times = executor_.times(program.name);
      std::vector<OpTime>& before = before_[program.name];
      before.resize(times.size());
      for (size_t i = 0; i < times.size(); ++i) {
        const auto runs = static_cast<double>(times[i].runs - before[i].runs);
        if (is_counted && runs > 0) {
          OpSamples& samples = samples_[program.name][i];
          samples.ms.push_back((times[i].milliseconds - before[i].milliseconds) / runs);
          samples.flops = (times[i].flops - before[i].flops) / runs;
          samples.bytes = (times[i].bytes - before[i].bytes) / runs;
        }
      }
      before = times;
    }
  }
  void collect(const ProgramPlan& program, Results& results) const {
    const KernelTarget target = kernel_target(plan_.request);
    const std::vector<OpSamples>& samples = samples_.at(program.name);
    for (size_t i = 0; i < program.ops.size(); ++i) {
      const KernelRow* row = program.ops[i].kernel;
      if (samples[i].ms.empty() || std::ranges::find(round_.rows, row) == round_.rows.end()) continue;
      const OpView op{program.graph, program.graph.ops()[i]};
      const std::string_view type = dtype_name(lower_op(op, program.bucket, target).dtype);
      RowResult& result = results[{row, type}];
      if (!result.slowest.ms.empty() && median(result.slowest.ms) >= median(samples[i].ms)) continue;
      result = {.slowest = samples[i], .case_name = benched_.name};
    }
  }

  const BenchedCase& benched_;
  const BenchedRound& round_;
  int repetitions_;
  Plan plan_;
  Executor executor_;
  std::map<std::string, std::vector<OpTime>, std::less<>> before_;
  std::map<std::string, std::vector<OpSamples>, std::less<>> samples_;
};

DeviceOptions bench_device() {
  DeviceOptions device{.num_threads = available_threads(), .isa = cpu_isa()};
  if (!testing::tests_run_on_gpu()) return device;
  const std::vector<CudaDeviceInfo> devices = visible_cuda_devices();
  if (devices.empty()) throw_error(ErrorCode::kUsage, "PLIMSOLL_TEST_DEVICE is set, but no GPU is visible");
  const CudaDeviceInfo& info = devices.front();
  device.kind = KernelDevice::kCuda;
  device.gpu = gpu_target_of(info.name, info.sm, info.num_multiprocessors, info.total_bytes);
  return device;
}

void print(const Results& results, const std::vector<std::string>& words) {
  const auto is_wanted = [&](const KernelRow& row) {
    return words.empty() || std::ranges::any_of(words, [&](const std::string& word) {
             return row.implementation.find(word) != std::string_view::npos;
           });
  };
  fmt::print("{:<34} {:<5} {:>9} {:>7} {:>8} {:>9}  {}\n", "row", "type", "median ms", "spread", "GB/s",
             "GFLOP/s", "case");
  for (const KernelRow& row : kernel_rows()) {
    if (!is_wanted(row)) continue;
    for (const auto& [key, result] : results) {
      if (key.first != &row) continue;
      const double ms = median(result.slowest.ms);
      const auto [least, most] = std::ranges::minmax(result.slowest.ms);
      fmt::print("{:<34} {:<5} {:>9.4f} {:>6.0f}% {:>8.1f} {:>9.1f}  {}\n", row.implementation, key.second,
                 ms, 100.0 * (most - least) / ms, result.slowest.bytes / ms / 1e6,
                 result.slowest.flops / ms / 1e6, result.case_name);
    }
  }
}

int bench_rows(const std::vector<std::string>& words, int repetitions) {
  const DeviceOptions device = bench_device();
  fmt::print("{}, {} threads, {} repetitions\n",
             device.is_gpu() ? device.gpu.name : std::string(cpu_isa_name(device.isa)), device.num_threads,
             repetitions);
  const auto is_wanted = [&](const BenchedRound& round) {
    return words.empty() || std::ranges::any_of(round.rows, [&](const KernelRow* row) {
             return std::ranges::any_of(words, [&](const std::string& word) {
               return row->implementation.find(word) != std::string_view::npos;
             });
           });
  };
  Results results;
  for (const BenchedCase& benched : benched_cases(device)) {
    for (const BenchedRound& round : benched_rounds(build_plan(benched.request))) {
      if (!is_wanted(round)) continue;
      RowTimer(benched, round, repetitions).run(results);
    }
  }
  print(results, words);
  return 0;
}

}  // namespace
}  // namespace plimsoll

int main(int argc, char** argv) {
  try {
    const plimsoll::BenchRowWords words =
        plimsoll::read_bench_row_words(std::vector<std::string>(argv + 1, argv + argc));
    return plimsoll::bench_rows(words.rows, words.repetitions);
  } catch (const plimsoll::Error& error) {
    std::fprintf(stderr, "kernel_rows_bench: %s\n", error.what());
    return static_cast<int>(error.code());
  }
}
