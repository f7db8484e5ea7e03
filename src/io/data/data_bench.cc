// Measures the speed of reading files (bytes per second), of computing the order of the rows of an epoch (rows per second), and of
// filling batches (tokens per second).
#include <benchmark/benchmark.h>

#include <string>
#include <utility>
#include <vector>

#include "io/data/batch.h"
#include "io/data/dataset.h"
#include "io/data/loader.h"
#include "io/data/sampler.h"
#include "io/data/table_reader.h"

namespace plimsoll {
namespace {

constexpr int64_t kRows = 50000;

std::string sentence(int64_t row) {
  std::string text;
  for (int64_t word = 0; word < 8 + row % 17; ++word) {
    text += (word == 0 ? "" : " ") + std::to_string((row * 7919 + word * 104729) % 99991);
  }
  return text;
}

std::string csv_bytes(bool quoted) {
  std::string bytes = "text,label\n";
  for (int64_t row = 0; row < kRows; ++row) {
    bytes += quoted ? "\"" + sentence(row) + ", \"\"so\"\"\"" : sentence(row);
    bytes += row % 2 == 0 ? ",yes\n" : ",no\n";
  }
  return bytes;
}

std::string jsonl_bytes() {
  std::string bytes;
  for (int64_t row = 0; row < kRows; ++row) {
    bytes += R"({"text": ")" + sentence(row) + R"(", "label": )" + std::to_string(row % 2) + "}\n";
  }
  return bytes;
}

// The copy of the file that each iteration reads is made outside of the measured time.
void bench_csv(benchmark::State& state) {
  const std::string bytes = csv_bytes(state.range(0) != 0);
  for (auto _ : state) {
    state.PauseTiming();
    std::string copy = bytes;
    state.ResumeTiming();
    benchmark::DoNotOptimize(read_csv(text_file_from_memory("bench", std::move(copy))).num_rows());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes.size()));
}
BENCHMARK(bench_csv)->Arg(0)->Arg(1)->ArgName("quoted")->Unit(benchmark::kMillisecond);

void bench_jsonl(benchmark::State& state) {
  const std::string bytes = jsonl_bytes();
  for (auto _ : state) {
    state.PauseTiming();
    std::string copy = bytes;
    state.ResumeTiming();
    benchmark::DoNotOptimize(read_jsonl(text_file_from_memory("bench", std::move(copy))).num_rows());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes.size()));
}
BENCHMARK(bench_jsonl)->Unit(benchmark::kMillisecond);

void bench_order(benchmark::State& state) {
  const int64_t num_rows = 1000000;
  std::vector<int32_t> lengths(static_cast<size_t>(num_rows));
  for (size_t row = 0; row < lengths.size(); ++row) {
    lengths[row] = static_cast<int32_t>(row * 7919 % 128);
  }
  std::vector<int32_t> order(lengths.size());
  OrderScratch scratch;
  const SamplerOptions options{static_cast<SamplingStrategy>(state.range(0)), 42, 32, 1, LastBatch::kKeep};
  int64_t epoch = 0;
  for (auto _ : state) {
    order_epoch(options, epoch++, lengths, scratch, order);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * num_rows);
}
BENCHMARK(bench_order)->Arg(0)->Arg(2)->ArgName("strategy")->Unit(benchmark::kMillisecond);

void bench_batches(benchmark::State& state) {
  DummyOptions options;
  options.num_rows = 4096;
  options.length = 128;
  const Dataset data = make_dummy_dataset(options);
  Sampler sampler({SamplingStrategy::kRandom, 42, 32, 1, LastBatch::kKeep}, data.tokens.lengths());
  LoaderOptions loader_options;
  loader_options.num_workers = static_cast<int>(state.range(0));
  const BatchLayout layout{.tensors = {{.name = "cu_seqlens", .per_sequence = 1, .constant = 1},
                                       {.name = "ids", .per_token = 1},
                                       {.name = "positions", .per_token = 1},
                                       {.name = "token_types", .per_token = 1},
                                       {.name = "labels", .per_sequence = 1}},
                           .capacity = {.tokens = 32 * 128, .sequences = 32, .longest = 128}};
  Loader loader(data, sampler, layout, loader_options);
  MicroBatch batch = make_micro_batch(layout);
  int64_t tokens = 0;
  for (auto _ : state) {
    loader.next(batch);
    tokens += batch.size().tokens;
  }
  state.SetItemsProcessed(tokens);
}
BENCHMARK(bench_batches)->Arg(0)->Arg(1)->Arg(2)->ArgName("workers")->UseRealTime();

}  // namespace
}  // namespace plimsoll

BENCHMARK_MAIN();
