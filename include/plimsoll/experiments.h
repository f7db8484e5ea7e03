// The table of experiments: a row per method or combination of methods, with the speed and the memory of its
// run, predicted beside measured. This header has the data and the texts that are made of it. It runs
// nothing: to fill a row, start `plimsoll train` with the row's Experiment::words, one process for each row,
// as `plimsoll bench` does. Values and pure functions, unless a function says that it reads or writes files;
// thread-safe.
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

// One run, before it is done.
struct Experiment {
  std::string name;  // for people: "gradient accumulation, 1 x 4"
  std::string key;   // a name for its folder
  // What the run changes against the table's first row. A row that changes one thing shows what that does.
  std::vector<std::string> methods;
  std::vector<std::string> words;  // the arguments of `plimsoll train`, without output_dir
  std::string note;  // what differs from the source, such as bf16 in place of fp16; may be empty
  bool operator==(const Experiment&) const = default;
};

// What a run did. Bytes are measured as the device counts them: of the process on a CPU, of the card on a
// GPU.
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
  std::string device = {};  // "cuda:0, NVIDIA H200", or "cpu: " and what it is called, threads and vectors
  int64_t sequence_length = 0;
  bool is_calibrated = false;  // whether the prediction of speed is by a calibration of this CPU
  std::string date = {};       // when the run ended, as ExperimentOrigin's
  MetricMap evaluation;        // with --do_eval
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

// When and where a table was made, and by what.
struct ExperimentOrigin {
  std::string date;     // UTC: "2026-11-25T09:30:00Z"
  std::string version;  // of the program
  std::string build;    // tells this build of the program from others
  std::string cpu;      // with what its vectors and matrices compute in
  std::string driver;   // of the GPU; "" where no row ran on one
};
// The origin of a table that is made now, on this machine. Asks the GPU's driver if a row ran on a GPU.
ExperimentOrigin experiment_origin(const std::vector<ExperimentRow>& rows);

enum class ExperimentDevice { kCpu, kGpu };

// The rows of `plimsoll bench --experiments`: first the nine experiments of Hugging Face's page on training
// on one GPU, in that page's order, then those that Plimsoll adds. On a GPU they train BERT-large on
// sequences of 512 tokens, in batches of 4 unless the row changes that; on a CPU they train MiniLM, a model
// of six layers, so that all rows together take minutes. `more` has further arguments of `plimsoll train`:
// they are added to the words of every row and override these.
std::vector<Experiment> document_experiments(ExperimentDevice device, const std::vector<std::string>& more);

// A row for each combination of values. Each of `sweeps` names an argument and its values:
// "per_device_train_batch_size=8,16". Values that contain commas are separated by ';':
// "lora_target_modules=all-linear;query,value". The first row has the first value of every sweep; from
// row to row the last sweep changes fastest. Errors: kUsage for what is not
// NAME=VALUE,..., for a NAME that is no argument, for commas without a ';' where the argument takes a list or
// key=value, and for more than 1000 rows.
std::vector<Experiment> sweep_experiments(const std::vector<std::string>& sweeps,
                                          const std::vector<std::string>& more);

// Runs that measure how long ops take on this CPU: ten steps of the model of document_experiments() in fp32
// and, where the CPU has bf16 products, ten in bf16. Arguments in `more` are added, but do not override those
// that these runs set themselves.
std::vector<Experiment> calibration_runs(const std::vector<std::string>& more);

// The calibration that those runs measured, from their output folders, as the JSON that --calibration reads:
// for every kind of op the time that it took over the time that was estimated. Reads files. Errors: kBadData
// where one is missing or broken.
std::string calibration_json(const std::vector<std::string>& folders);

// Writes that JSON to the place in the user's cache where `--calibration auto` looks. Returns the path.
// Errors: kDevice where it cannot be written; kUsage where `environment` has no cache.
std::string keep_calibration(const std::string& json, const std::map<std::string, std::string>& environment);

// Runs that measure what a process holds on a GPU beside its arena: six steps of BERT-base in fp32 and six in
// fp16. `more` names the device; its arguments override all of these runs' own but the precision.
std::vector<Experiment> gpu_constant_runs(const std::vector<std::string>& more);

// Writes what those runs measured, from their output folders, to the user's cache, where plans for the same
// card, driver and build of the program find it. Returns the path. Reads files and asks the driver. Errors:
// kBadData where a file is missing or broken; kDevice; kUsage where others used the card meanwhile, and where
// the environment has no cache.
std::string keep_gpu_constant(const std::vector<std::string>& folders,
                              const std::map<std::string, std::string>& environment);

// What a run left in its output folder: plan.json, memory.json, log.jsonl, train_results.json,
// eval_results.json where there is one. Reads files. Errors: kBadData where one is missing or broken.
ExperimentFigures read_experiment(const std::string& folder);

// A row as JSON and back, so that `plimsoll bench` can go on after it was stopped. Errors: kBadData.
std::string experiment_row_json(const ExperimentRow& row);
ExperimentRow parse_experiment_row(std::string_view text, std::string_view source);

// What a peer's script wrote: {"samples_per_s": ..., "measured_bytes": ..., "refused": ""}. Errors: kBadData.
PeerFigures parse_peer_figures(std::string_view text, std::string_view source);

// Texts of a finished table. Requires: at least one row.
struct ExperimentReport {
  std::string table;    // for people: rows, refusals, the peer's column where there is one
  std::string summary;  // which method helps speed and which memory, counted from the rows, in words
  std::string json;
  std::string csv;
  std::string svg;  // memory and speed by method
};
ExperimentReport make_experiment_report(const std::vector<ExperimentRow>& rows,
                                        const ExperimentOrigin& origin);

// The same plot as a PNG file. Returns false, and writes nothing, where the program is built without cairo.
// Errors: kDevice.
bool write_experiment_png(const std::vector<ExperimentRow>& rows, const ExperimentOrigin& origin,
                          const std::string& path);

}  // namespace plimsoll
