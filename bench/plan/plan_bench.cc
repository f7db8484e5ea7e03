// Measures the durations of three tasks: planning BERT-large on one device; planning one rank of a run on 1024 GPUs,
// including the suggested changes that save memory, as the command `plan` does; and the search of the command `fit` for
// the fastest way to train BERT-large with 12 GiB of the memory of an L4. No GPU is needed.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "plimsoll/fit.h"
#include "plimsoll/plan.h"

namespace plimsoll {
namespace {

Arguments arguments_of(const std::vector<std::string>& more) {
  std::vector<std::string> words{"--config_name", "bert-large-uncased", "--max_seq_length", "512"};
  words.insert(words.end(), more.begin(), more.end());
  return parse_arguments(words).arguments;
}

void plan(benchmark::State& state, const std::vector<std::string>& more) {
  const Arguments arguments = arguments_of(more);
  for (auto _ : state) benchmark::DoNotOptimize(plan_run(arguments).total_bytes);
}
BENCHMARK_CAPTURE(plan, bert_large_cpu, std::vector<std::string>{"--use_cpu"})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(plan, bert_large_h200, std::vector<std::string>{"--device", "h200", "--bf16"})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(plan, bert_large_h200_offload,
                  std::vector<std::string>{"--device", "h200", "--bf16", "--offload_optimizer"})
    ->Unit(benchmark::kMillisecond);

// Measures the processor time of all threads of the process, because planning uses several.
void plan_rank(benchmark::State& state, const char* model) {
  const Arguments arguments =
      parse_arguments(std::vector<std::string>{"--config_name", model, "--device", "h100", "--nproc_per_node",
                                               "8", "--nnodes", "128"})
          .arguments;
  for (auto _ : state)
    benchmark::DoNotOptimize(plan_run(arguments, process_environment(), Savings::kPlan).total_bytes);
}
BENCHMARK_CAPTURE(plan_rank, bert_large, "bert-large-uncased")
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(plan_rank, gpt2, "gpt2")->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(plan_rank, tiny_llama, "TinyLlama-1.1B-Chat-v1.0")
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime();

// Measures the search of the command `fit`. The counter plans_per_s is the number of plans divided by the time that all
// threads together spent on planning.
void fit(benchmark::State& state) {
  const FitOptions options{
      .arguments = arguments_of({"--device", "l4", "--memory_limit", "12GiB", "--num_threads", "1"}),
      .effective_batch_size = 64};
  for (auto _ : state) {
    const FitReport report = fit_run(options);
    state.counters["plans"] = static_cast<double>(report.num_plans);
    state.counters["plans_per_s"] = report.plans_per_s;
  }
}
BENCHMARK(fit)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace plimsoll

BENCHMARK_MAIN();
