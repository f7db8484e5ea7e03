// The table of experiments: a row per method or combination, what each run did and held, predicted beside
// measured. This is the data and its texts; whoever wants the rows runs `Experiment::words` with `plimsoll
// train`, one process each, as `plimsoll bench` does. Values and pure functions, unless a function says that
// it reads or writes files; thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/error.h"
#include "plimsoll/training.h"

namespace plimsoll {

// One run to be done.
struct Experiment {
  std::string name;  // for people: "gradient accumulation, 1 x 4"
  std::string key;   // a name for its folder
  std::vector<std::string>
      methods;  // what it changes against the first row; one alone says what that method does
  std::vector<std::string> words;  // the arguments of `plimsoll train`, without output_dir
  std::string note;  // what differs from the source, such as bf16 in place of fp16; may be empty
  bool operator==(const Experiment&) const = default;
};

// What a run did. Bytes are those of the device's own gauge: the process on a CPU, the card on a GPU.
struct ExperimentFigures {
  double seconds = 0;                  // of the whole training, as Trainer's train_runtime
  double samples_per_s = 0;            // in the steady state, after a third of the steps
  double predicted_samples_per_s = 0;  // of the plan
  int64_t measured_bytes = 0;          // at the peak; context included
  int64_t predicted_bytes = 0;
  int64_t arena_bytes = 0;
  int64_t high_water_bytes = 0;
  double loss = 0;  // mean over the run
  std::string model = {};
  std::string device = {};
  int64_t sequence_length = 0;
  MetricMap evaluation;  // with --do_eval
  bool operator==(const ExperimentFigures&) const = default;
};

// The same run by Hugging Face's Trainer.
struct PeerFigures {
  double samples_per_s = 0;
  int64_t measured_bytes = 0;
  std::string refused;  // why it did not run; "" where it did
  bool operator==(const PeerFigures&) const = default;
};

struct ExperimentRow {
  Experiment experiment;
  std::optional<ExperimentFigures> figures;
  std::string refused;  // why there are no figures, in the program's words
  std::optional<PeerFigures> peer;
  bool operator==(const ExperimentRow&) const = default;
};

enum class ExperimentDevice { kCpu, kGpu };

// The nine experiments of Hugging Face's page on training on one GPU, in its order, then ours. On a GPU
// BERT-large with sequences of 512 tokens, batch 4; on a CPU a model of six layers, so that all rows take
// minutes. `more` follows the words of every row and wins over them.
std::vector<Experiment> document_experiments(ExperimentDevice device, const std::vector<std::string>& more);

// A row for each combination of the values: "per_device_train_batch_size=8,16", "bf16=0,1". The first values
// make the first row, the last sweep changes fastest. Errors: kUsage for what is not NAME=VALUE,... or is no
// argument, and for more than 1000 rows.
std::vector<Experiment> sweep_experiments(const std::vector<std::string>& sweeps,
                                          const std::vector<std::string>& more);

// Runs that say how long ops take on this CPU, in fp32 and, where it multiplies that, in bf16: ten steps each
// of what document_experiments() trains. Words that `more` shares with these runs' own change nothing.
std::vector<Experiment> calibration_runs(const std::vector<std::string>& more);

// What the folders of such runs come to, as --calibration reads it: of every kind of op the time that it took
// over the time that was estimated. Reads files. Errors: kBadData where one is missing or broken.
std::string calibration_json(const std::vector<std::string>& folders);

// Keeps it where --calibration auto looks. Returns the path. Errors: kDevice; kUsage where the environment
// has no cache.
std::string keep_calibration(const std::string& json, const std::map<std::string, std::string>& environment);

// Runs that say what a process holds on the GPU beside its arena, six steps each in fp32 and in fp16. `more`
// names the device and wins over these runs' own words.
std::vector<Experiment> gpu_constant_runs(const std::vector<std::string>& more);

// Keeps what the folders of such runs come to for plans of that card, driver and build of the program.
// Returns the path. Reads files and asks the driver. Errors: kBadData where a file is missing or broken;
// kDevice; kUsage where others used the card meanwhile, and where the environment has no cache.
std::string keep_gpu_constant(const std::vector<std::string>& folders,
                              const std::map<std::string, std::string>& environment);

// What a run left in its output folder: plan.json, memory.json, log.jsonl, train_results.json,
// eval_results.json where there is one. Reads files. Errors: kBadData where one is missing or broken.
ExperimentFigures read_experiment(const std::string& folder);

// A row as JSON and back: what `plimsoll bench` keeps to go on after it was stopped. Errors: kBadData.
std::string experiment_row_json(const ExperimentRow& row);
ExperimentRow parse_experiment_row(std::string_view text, std::string_view source);

// What a peer's script wrote: {"samples_per_s": ..., "measured_bytes": ..., "refused": ""}. Errors: kBadData.
PeerFigures parse_peer_figures(std::string_view text, std::string_view source);

// Texts of a finished table. Requires: at least one row.
struct ExperimentReport {
  std::string table;    // for people: rows, refusals, the peer's column where there is one
  std::string summary;  // which method helps speed and which memory, counted from the rows
  std::string json;
  std::string csv;
  std::string svg;  // memory and speed by method
};
ExperimentReport make_experiment_report(const std::vector<ExperimentRow>& rows);

// The same plot as a PNG file. Returns false, and writes nothing, where the program is built without cairo.
// Errors: kDevice.
bool write_experiment_png(const std::vector<ExperimentRow>& rows, const std::string& path);

}  // namespace plimsoll
