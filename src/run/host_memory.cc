#include "run/run_request.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/units.h"
#include "io/data/arrow_reader.h"
#include "io/data/batch.h"
#include "io/data/table_reader.h"
#include "io/data/text_split.h"
#include "kernels/matmul/matmul_catalog.h"
#include "plan/compile/schedule.h"
#include "plimsoll/arguments.h"
#include "run/data_sets.h"
#include "run/run_setup.h"
#include "tasks/task.h"

namespace plimsoll {
namespace {

// Memory of the program, the touched pages of its libraries and the allocator's unused memory. Measured as VmHWM (peak resident memory)
// minus arena and data in runs whose batches have one size, rounded up.
constexpr int64_t kProcessBytes = 26 * kMiB;
// Memory of the GPU driver, which is opened to list the devices. Runs on a CPU used 3 to 24 MiB more on a machine with an H200 (driver
// 580).
constexpr int64_t kGpuDriverBytes = 40 * kMiB;
// Memory of the Apache Arrow libraries, for programs that were built with them: the pages that loading them touches, and the pages that
// reading a file touches, including decoded pages of columns. Runs of a tiny model used 14.6 MiB and 10.1 MiB more with the libraries of
// pyarrow 26.
constexpr int64_t kArrowBytes = 20 * kMiB;
constexpr int64_t kArrowReadingBytes = 16 * kMiB;
// Memory of the connections to other ranks: two threads, and the buffers that store received data until it is added (kStagingBytes in
// device/comm/collectives.h).
constexpr int64_t kRankBytes = 6 * kMiB;
// Memory per thread: its stack, and what oneDNN keeps per thread.
constexpr int64_t kBytesPerThread = 1 * kMiB;
// Memory for writing a checkpoint: a chunk of it while it is transferred and converted, and its JSON texts.
constexpr int64_t kIoBytes = 4 * kMiB;
// Memory of a tokenizer per token: its vocabulary, trie (prefix tree) and tables.
constexpr int64_t kTokenizerBytesPerToken = 256;
// Memory of a log record: in LogHistory, and in the plot of the loss at the end of the run (two lists of points and their text). On a GPU a
// record has nine more numbers and one more text, which take kBytesPerGpuRecord in addition.
constexpr int64_t kBytesPerLogRecord = 232;
constexpr int64_t kBytesPerGpuRecord = 94;
// Upper bound for the text of a log record, which two files of a checkpoint contain and which is in memory while the checkpoint is written
// in the background. A record takes about 230 bytes in the log and 280 in trainer_state.json, twice as many on a GPU, and each string may
// have twice the capacity that it needs.
constexpr int64_t kBytesPerLogText = 1024;
// Memory of a label while a model is saved: its name is in the two label maps of config.json, in lists, in JSON objects and in their text.
// Measured: 720 to 745 bytes.
constexpr int64_t kBytesPerLabel = 768;

// Memory of the sampler for each row of data: its length and its place in the order (i32 each), and a sort key (u64).
constexpr int64_t kSamplerBytesPerRow = 16;

// Memory for memory-mapped token files: for each row of a batch, pages stay resident until the batch is assembled. The kernel maps 64 KiB
// around a page that is read, and a row may extend over two such areas.
constexpr int64_t kMappedBytesPerRow = 128 << 10;

int64_t bytes_of(const std::optional<Dataset>& data, const Arguments& arguments) {
  if (!data) return 0;
  const int64_t batch_rows =
      std::max(arguments.per_device_train_batch_size, arguments.per_device_eval_batch_size);
  const int64_t rows_at_once = batch_rows * (1 + arguments.dataloader_num_workers);
  const int64_t mapped = std::min(data->tokens.mapped_bytes(), rows_at_once * kMappedBytesPerRow);
  return data->held_bytes() + mapped + kSamplerBytesPerRow * data->num_rows();
}

// Returns the bytes of the random data of a run (--dataset_name dummy), which is generated after the plan is made, when the run starts.
int64_t dummy_bytes(const RunSetup& setup) {
  const Arguments& arguments = setup.arguments;
  if (setup.reads_data() || arguments.dataset_name != "dummy") return 0;
  const int64_t copies =
      1 + (arguments.do_eval || arguments.eval_strategy != "no" ? 1 : 0) + (arguments.do_predict ? 1 : 0);
  return copies * (dummy_dataset_bytes(dummy_options(arguments, setup.model.config)) +
                   kSamplerBytesPerRow * arguments.dummy_num_samples);
}

// Returns the number of records that the run will log, including evaluations and the record at the end.
int64_t num_log_records(const RunSetup& setup) {
  const Arguments& arguments = setup.arguments;
  const auto times = [&](const std::string& strategy, double setting) -> int64_t {
    if (strategy == "epoch") return static_cast<int64_t>(std::ceil(setup.steps.length.num_epochs)) + 1;
    if (strategy != "steps" || setting <= 0) return 0;
    return setup.steps.length.max_steps / interval_steps(setting, setup.steps.length.max_steps) + 1;
  };
  // By default a run of any length logs at most 20 times. Its number of steps is not used here, so that plans of the run with other batch
  // sizes, and thus other numbers of steps, count the same memory.
  constexpr int64_t kMostByDefault = 21;
  const bool is_default = arguments.logging_strategy == "steps" && !arguments.logging_steps;
  return 2 + (is_default ? kMostByDefault : times(arguments.logging_strategy, logging_interval(arguments))) +
         times(arguments.eval_strategy, arguments.eval_steps.value_or(0));
}

// Returns the bytes that the metrics of an evaluation keep for the rows of the largest data set.
int64_t metric_bytes(const RunSetup& setup) {
  const int64_t bytes_per_row = task_of(setup.data.labels.kind).metric_bytes_per_row;
  int64_t rows = 0;
  for (const std::optional<Dataset>* data :
       {&setup.data.evaluate, &setup.data.evaluate_mismatched, &setup.data.predict}) {
    if (*data) rows = std::max(rows, (*data)->num_rows());
  }
  return rows * bytes_per_row;
}

// Returns the buckets (sizes to which batches are rounded up) for batches of at most this many tokens.
std::vector<Bucket> ladder_of_batches(const Arguments& arguments, int64_t tokens) {
  const RankOptions ranks{.tensor_size = arguments.tp_size * arguments.cp_size,
                          .sequence_parallel = arguments.sequence_parallel,
                          .context_parallel = arguments.cp_size > 1};
  const int64_t multiple = ranks.row_multiple();
  return make_ladder({.tokens = (tokens + multiple - 1) / multiple * multiple}, 16, 1.0, multiple);
}

// Returns the number of buckets (batch sizes) that the training batches of this run use; 1 (the largest one) if no data is read.
int64_t train_buckets_used(const RunSetup& setup, const Bucket& train) {
  if (setup.steps.census.num_batches == 0) return 1;
  const std::vector<Bucket> ladder = ladder_of_batches(setup.arguments, train.tokens);
  int64_t used = 0;
  size_t count = 0;
  const auto& counts = setup.steps.census.counts;
  for (const Bucket& bucket : ladder) {
    const size_t first = count;
    while (count < counts.size() && counts[count].first <= bucket.tokens) ++count;
    // If only some of the batches were examined, the others may use any bucket above the smallest one that was found.
    if (count > first || (!setup.steps.census.is_exact && count > 0)) ++used;
  }
  return used;
}

// Returns the number of buckets (batch sizes) that evaluation and prediction use. Their batches have the rows in the order of the data.
int64_t evaluation_buckets_used(const RunSetup& setup) {
  const auto batch_size = static_cast<size_t>(setup.arguments.per_device_eval_batch_size);
  std::vector<int64_t> batches;
  for (const std::optional<Dataset>* data : {&setup.data.evaluate, &setup.data.evaluate_mismatched,
                                             &setup.data.predict, &setup.data.predict_mismatched}) {
    if (!*data) continue;
    const std::vector<int32_t> lengths = (*data)->row_lengths();
    for (size_t row = 0; row < lengths.size(); ++row) {
      if (row % batch_size == 0) batches.push_back(0);
      batches.back() += lengths[row];
    }
  }
  if (batches.empty()) return 0;
  const std::vector<Bucket> ladder = ladder_of_batches(setup.arguments, *std::ranges::max_element(batches));
  std::set<std::ptrdiff_t> used;
  for (const int64_t tokens : batches)
    used.insert(std::ranges::lower_bound(ladder, tokens, {}, &Bucket::tokens) - ladder.begin());
  return std::ssize(used);
}

// Returns the number of micro-batches whose activations the first stage of a pipeline stores at the same time; no other stage stores
// more. The executor prepares the calls of all ops for each of these micro-batches separately, which takes host memory.
int64_t most_micro_batches_held(const Arguments& arguments) {
  if (arguments.pp_size == 1) return 1;
  const int64_t batches = arguments.gradient_accumulation_steps;
  if (arguments.pipeline_schedule == "interleaved") {
    const std::vector<int64_t> held =
        micro_batches_held_by_chunks({.count = arguments.pp_size,
                                      .pipeline_size = arguments.pp_size,
                                      .schedule = PipelineSchedule::kInterleaved,
                                      .chunks = arguments.pp_chunks},
                                     batches);
    return std::accumulate(held.begin(), held.end(), int64_t{0});
  }
  return arguments.pipeline_schedule == "gpipe" ? batches : std::min(batches, arguments.pp_size);
}

// Returns the bytes of all training batches in host memory, including the current one, per token of the largest batch. A pipeline has all
// micro-batches of a step in memory.
int64_t batch_bytes_per_token(const RunSetup& setup) {
  constexpr int64_t kBytes = 16;  // bytes of the id, the type, the position and the label of a token
  const Arguments& arguments = setup.arguments;
  // On a GPU a batch is loaded and enqueued while the previous one is computed, so there are two.
  const int64_t in_hand = arguments.pp_size > 1 ? arguments.gradient_accumulation_steps
                          : setup.device.options.kind == KernelDevice::kCpu ? 1
                                                                            : 2;
  return kBytes *
         (in_hand + arguments.dataloader_num_workers * arguments.dataloader_prefetch_factor.value_or(2));
}

}  // namespace

void ReadingMemory::note(int64_t more_bytes) {
  peak_bytes_ = std::max(peak_bytes_, held_bytes_ + more_bytes);
}

void ReadingMemory::add_table(const TextSplit& text) {
  // Memory has one peak while the file of the table is parsed, and another one when the table and the list of its rows are complete. The
  // higher one counts.
  note(std::max(peak_reading_bytes(text.table()), text.held_bytes()));
  held_bytes_ += text.held_bytes();
}

void ReadingMemory::add_part(const TextSplit& part) {
  // Reading a part takes 4 times the memory of its text: the buffer grows by doubling, the rest after the last complete row is copied,
  // and JSON values are copied out of it.
  note(4 * part.table().text_bytes() + part.held_bytes());
  held_bytes_ += part.held_bytes();
}

void ReadingMemory::add_data(const Dataset& data) {
  // Tokens are stored in parts, which are joined at the end; the arrays of lengths and labels grow by doubling.
  note(2 * data.held_bytes() + 16 * data.num_rows());
  held_bytes_ += data.held_bytes();
}

void ReadingMemory::hold(int64_t bytes) {
  note(bytes);
  held_bytes_ += bytes;
}

void ReadingMemory::release(const TextSplit& text) {
  held_bytes_ -= text.held_bytes();
}

// Returns the number of tokens in the vocabulary of the run's tokenizer. A plan for generation reads no tokenizer and uses the vocabulary
// of the model.
int64_t tokenizer_tokens(const RunSetup& setup) {
  if (setup.tokenizer.tokenizer) return setup.tokenizer.tokenizer->vocab_size();
  const bool holds_one =
      setup.purpose == RunPurpose::kPlanGeneration && setup.arguments.dataset_name != "dummy";
  return holds_one ? setup.model.config.vocab_size : 0;
}

// Returns the memory of the Apache Arrow libraries in this run.
int64_t arrow_bytes(const RunSetup& setup) {
  if (!has_arrow()) return 0;
  const Arguments& arguments = setup.arguments;
  const std::string* const files[] = {&arguments.train_file, &arguments.validation_file,
                                      &arguments.test_file};
  const bool reads = setup.reads_data() &&
                     std::ranges::any_of(files, [](const std::string* path) { return is_arrow_data(*path); });
  return kArrowBytes + (reads ? kArrowReadingBytes : 0);
}

HostFacts host_facts(const RunSetup& setup, const Bucket& train) {
  HostFacts host;
  const int64_t threads = setup.device.options.num_threads;
  if (setup.device.holds_gpu_driver) host.process_bytes += kGpuDriverBytes;
  // A run on a GPU never calls the CPU library for matrix products, so it needs no memory for it.
  const MatmulLibraryMemory products =
      setup.device.options.kind == KernelDevice::kCpu ? matmul_library_memory() : MatmulLibraryMemory{};
  const int64_t rank_bytes = num_ranks(setup.arguments) > 1 ? kRankBytes : 0;
  const int64_t own_bytes = kProcessBytes + threads * kBytesPerThread + arrow_bytes(setup) + rank_bytes;
  host.process_bytes += own_bytes + products.at_start_bytes;
  host.bound_buckets = train_buckets_used(setup, train) * most_micro_batches_held(setup.arguments) +
                       evaluation_buckets_used(setup) + 4;
  host.library_bytes_per_bucket = products.per_bucket_bytes;
  host.batch_bytes_per_token = batch_bytes_per_token(setup);
  host.data_bytes = dummy_bytes(setup);
  for (const std::optional<Dataset>* data :
       {&setup.data.train, &setup.data.evaluate, &setup.data.evaluate_mismatched, &setup.data.predict,
        &setup.data.predict_mismatched}) {
    host.data_bytes += bytes_of(*data, setup.arguments);
  }
  const int64_t tokenizer_bytes = tokenizer_tokens(setup) * kTokenizerBytesPerToken;
  host.data_bytes += tokenizer_bytes;
  const bool is_on_gpu = setup.device.options.kind == KernelDevice::kCuda;
  host.data_bytes += num_log_records(setup) * (kBytesPerLogRecord + (is_on_gpu ? kBytesPerGpuRecord : 0));
  if (setup.arguments.async_save)
    host.data_bytes += num_log_records(setup) * kBytesPerLogText * (is_on_gpu ? 2 : 1);
  host.data_bytes += setup.model.config.num_labels * kBytesPerLabel;
  host.data_bytes += metric_bytes(setup);
  if (setup.data.reading_bytes > 0) {
    host.reading_bytes = own_bytes + setup.data.reading_bytes + tokenizer_bytes;
    // The memory of the GPU driver is included while files are read, because the driver was opened earlier, when the device was chosen.
    if (setup.device.holds_gpu_driver) host.reading_bytes += kGpuDriverBytes;
  }
  host.io_bytes = kIoBytes;
  return host;
}

}  // namespace plimsoll
