// The table of experiments: one row per method or combination of methods, with predicted and measured speed
// and memory.
//
// This header contains the data and the reports made from it. It does not run anything. To fill a row, run `plimsoll
// train` with the row's Experiment::words in a separate process, as `plimsoll bench` does. Thread-safe: values and pure
// functions, except for the functions whose comments say that they read or write files.
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

// Describes one run that is to be measured.
struct Experiment {
  std::string name;  // name for people, such as "gradient accumulation, 1 x 4"
  std::string key;   // name of the folder with the results of the run
  // The methods in which this row differs from the first row of the table. A row with one method shows the
  // effect of that method.
  std::vector<std::string> methods;
  std::vector<std::string> words;  // the arguments of `plimsoll train`, without output_dir
  // environment variables NAME=VALUE that are set for the processes of the run
  std::vector<std::string> environment = {};
  // If the row repeats a run of Hugging Face's page on training on GPUs: how it differs from that run, such as by bf16
  // instead of fp16. May be empty.
  std::string note;
  bool operator==(const Experiment&) const = default;
};

// The results of a run. On a CPU, bytes are those of the process; on a GPU, those in use on the card.
struct ExperimentFigures {
  double seconds = 0;        // duration of the training, the same as Trainer's train_runtime
  double samples_per_s = 0;  // steady speed: samples per second over the last two thirds of the steps
  double predicted_samples_per_s = 0;  // samples per second that the plan predicts
  int64_t measured_bytes = 0;          // peak of the memory, including the context of the device
  int64_t predicted_bytes = 0;
  int64_t arena_bytes = 0;
  int64_t high_water_bytes = 0;
  double loss = 0;  // mean training loss over the run
  std::string model = {};
  // device, such as "cuda:0, NVIDIA H200", or "cpu: " with the model, threads and vector width
  std::string device = {};
  int64_t sequence_length = 0;
  bool is_calibrated = false;  // true if a calibration of this CPU was used to predict the speed
  std::string date = {};       // time at which the run ended, in the format of ExperimentOrigin::date
  MetricMap evaluation;        // metrics of the evaluation; only with --do_eval
  // The value of samples_per_s in each run of this row, in the order of the runs. If there are several runs,
  // samples_per_s is the median of these values, measured_bytes is the maximum over the runs, and all other fields are
  // those of the last run.
  std::vector<double> speeds = {};
  bool operator==(const ExperimentFigures&) const = default;
};

// Adds the results of another run of an experiment to `figures`, the results of its earlier runs.
void add_run(ExperimentFigures& figures, const ExperimentFigures& run);
// Returns the spread of the speeds of a row: half the distance between the slowest and the fastest run, as a share of the
// median. With five runs or more, the single fastest and the single slowest run are left out first, so that one outlier on either
// side does not count. Returns nothing with fewer than three runs.
std::optional<double> speed_spread(const ExperimentFigures& figures);
// A row whose spread (speed_spread()) is at most this share counts as steady.
inline constexpr double kSteadySpread = 0.05;

// The results of the run of a row of the table with Hugging Face's Trainer instead of Plimsoll.
struct PeerFigures {
  double samples_per_s = 0;
  int64_t measured_bytes = 0;
  std::string refused;      // the reason why Trainer did not run the row; empty if it did
  std::string device = {};  // name of the device as Trainer reports it; empty in files of earlier versions
  bool operator==(const PeerFigures&) const = default;
};

struct ExperimentRow {
  Experiment experiment;
  std::optional<ExperimentFigures> figures;
  std::string refused;  // the error message if the run failed and has no measurements
  std::optional<PeerFigures> peer;
  bool operator==(const ExperimentRow&) const = default;
};

// The date, machine and program that produced a table of experiments.
struct ExperimentOrigin {
  std::string date;     // time in UTC: "2026-11-25T09:30:00Z"
  std::string version;  // version of Plimsoll
  std::string build;    // identifies this build of Plimsoll
  std::string cpu;      // name of the CPU with its vector and matrix instructions
  std::string driver;   // version of the GPU driver; empty if no row ran on a GPU
};
// Returns the origin of a table that is made now on this machine. If a row ran on a GPU, the GPU driver is asked for
// its version.
ExperimentOrigin experiment_origin(const std::vector<ExperimentRow>& rows);

enum class ExperimentDevice { kCpu, kGpu };

// Returns the rows of `plimsoll bench --experiments`: first the nine experiments of Hugging Face's page on
// training on one GPU, in the order of that page, then the rows that Plimsoll adds. On a GPU they train
// BERT-large on sequences of 512 tokens, with batches of 4 if the row does not set another size. On a CPU
// they train MiniLM, a model of six layers, so that all rows together take minutes. `more` contains further
// arguments of `plimsoll train`, which override the arguments of every row.
std::vector<Experiment> document_experiments(ExperimentDevice device, const std::vector<std::string>& more);

// Returns the rows of `plimsoll bench --parallel`, in which `num_ranks` processes on this kind of device train together. The first rows
// are those of Hugging Face's page on training on several GPUs: DataParallel, DDP and, on GPUs, DDP without NVLink
// (NCCL_P2P_DISABLE=1). Rows for DDP through NCCL and for the stages of ZeRO follow. On GPUs all rows train GPT-2 on blocks of 1024
// tokens with batches of 4 per process, as that page does; on CPUs they train a model of six layers. `more` as in document_experiments().
// Requires: num_ranks >= 2.
std::vector<Experiment> parallel_experiments(ExperimentDevice device, int64_t num_ranks,
                                             const std::vector<std::string>& more);

// The speed and memory that Hugging Face's page states for one of its rows.
struct DocumentFigures {
  double samples_per_s = 0;
  int64_t mib = 0;  // used memory of the whole card in MiB; the page calls the unit MB
  bool operator==(const DocumentFigures&) const = default;
};

// The predicted speed and memory of one row of the table of experiments.
struct PlannedExperiment {
  Experiment experiment;
  double samples_per_s = 0;  // estimated samples per second
  int64_t total_bytes = 0;
  bool fits = true;     // true if it fits into the memory of the device, or into --memory_limit
  std::string refused;  // the error message if the row cannot be planned, otherwise empty
  // The values that Hugging Face's page states for this row. Empty if the page does not contain the row or states no values
  // for it (as for the settings of the DataLoader), and if the row does not train the page's model on a GPU with
  // sequences of the page's length.
  std::optional<DocumentFigures> document = {};
};

enum class PlannedRows {
  // only the nine experiments of Hugging Face's page on one GPU, and the settings of the DataLoader
  kDocuments,
  kAll  // all rows of `plimsoll bench --experiments`
};

struct ExperimentPlan {
  std::string model;
  std::string device;
  std::vector<PlannedExperiment> rows;
  std::vector<std::string> warnings;
  std::vector<std::string> notes;
  std::string table;  // table for people, in 80 columns
  std::string json;
};

// Plans the rows of document_experiments(), with the further arguments `more`, which may name any device that
// plan_run() accepts. It needs no GPU, no weights and no data. Errors: kUsage if the arguments in `more` are refused.
// If only a row's own arguments are refused, the row contains the reason. Cost: some milliseconds per row, and up to
// a second for the rows that choose what they recompute.
ExperimentPlan plan_experiments(const std::vector<std::string>& more,
                                PlannedRows rows = PlannedRows::kDocuments,
                                const Environment& environment = process_environment());

// Refuses arguments of `plimsoll train` whose --device is the name of a card, such as l4, instead of a device of this
// machine: such a card can only be planned for. Errors: kUsage.
void require_device_that_runs(const std::vector<std::string>& more);

// Returns one row per combination of values. Each element of `sweeps` names an argument and its values:
// "per_device_train_batch_size=8,16". Values that contain commas are separated by ';':
// "lora_target_modules=all-linear;query,value". The first row has the first value of every sweep, and the
// last sweep varies fastest. Errors: kUsage if an element is not NAME=VALUE,..., if NAME is not an argument,
// if values of a list or key=value argument contain commas but no ';', and for more than 1000 rows.
std::vector<Experiment> sweep_experiments(const std::vector<std::string>& sweeps,
                                          const std::vector<std::string>& more);

// Returns the runs that measure how long each kind of op takes on this CPU: ten steps of the model of
// document_experiments() in fp32 and, if the CPU has bf16 products, ten in bf16. The arguments in `more` are
// added, but do not override the arguments that these runs set.
std::vector<Experiment> calibration_runs(const std::vector<std::string>& more);

// Computes the calibration from the output folders of the calibration runs: for each kind of op, the ratio of
// measured to estimated time. Returns the JSON that --calibration reads. Reads files. Errors: kBadData if a
// file is missing or invalid.
std::string calibration_json(const std::vector<std::string>& folders);

// Writes the calibration to the place in the user's cache where `--calibration auto` looks for it. Returns
// the path. Errors: kDevice if the file cannot be written; kUsage if `environment` does not define a cache.
std::string keep_calibration(const std::string& json, const std::map<std::string, std::string>& environment);

// Returns the runs that measure how much GPU memory a process holds outside its arena: six steps of BERT-base
// in fp32 and six in fp16. `more` names the device; its arguments override all arguments of these runs except
// the precision.
std::vector<Experiment> gpu_constant_runs(const std::vector<std::string>& more);

// Reads the output folders of the runs of gpu_constant_runs() and writes the measured memory to the user's cache.
// Later plans for the same card, driver and build of the program use them. Returns the path. Reads files and asks the
// driver. Errors: kBadData if a file is missing or invalid; kDevice; kUsage if other processes used the card during
// the runs, or if the environment does not define a cache.
std::string keep_gpu_constant(const std::vector<std::string>& folders,
                              const std::map<std::string, std::string>& environment);

// Reads the results of a run from its output folder: plan.json, memory.json, log.jsonl, train_results.json,
// and eval_results.json if it exists. Errors: kBadData if a file is missing or invalid.
ExperimentFigures read_experiment(const std::string& folder);

// Convert a row to JSON and back. `plimsoll bench` stores the finished rows in this form, so that it can resume after an
// interruption. Errors: kBadData.
std::string experiment_row_json(const ExperimentRow& row);
ExperimentRow parse_experiment_row(std::string_view text, std::string_view source);

// Parses the output of a script that measured another program: {"samples_per_s": ..., "measured_bytes": ...,
// "refused": ""}. Errors: kBadData.
PeerFigures parse_peer_figures(std::string_view text, std::string_view source);

// The texts and the plot that are made from a table of experiments. Requires: at least one row.
struct ExperimentReport {
  std::string
      table;  // Table for people: rows, refusals, and a column for Hugging Face's Trainer if it was measured.
  // sentences on which methods improve speed and which save memory, computed from the rows
  std::string summary;
  std::string json;
  std::string csv;
  std::string svg;  // plot of memory and speed by method
};
ExperimentReport make_experiment_report(const std::vector<ExperimentRow>& rows,
                                        const ExperimentOrigin& origin);

// Writes the plot of ExperimentReport::svg as a PNG file. Returns false and writes nothing if the program was built without
// cairo. Errors: kDevice.
bool write_experiment_png(const std::vector<ExperimentRow>& rows, const ExperimentOrigin& origin,
                          const std::string& path);

}  // namespace plimsoll
