// The setup of a run: everything that is decided before the plan is made, such as model, tokenizer, data,
// labels and sizes of batches. Owns the data. prepare_run builds it once per run; not thread-safe while it is
// built.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "io/ckpt/model_folder.h"
#include "io/data/batch_census.h"
#include "io/data/dataset.h"
#include "io/data/labels.h"
#include "io/data/sampler.h"
#include "io/text/tokenizer.h"
#include "models/model.h"
#include "plan/compile/plan.h"
#include "plan/compile/plan_labels.h"
#include "plimsoll/arguments.h"
#include "plimsoll/training.h"

namespace plimsoll {

// What a setup is for. A plan (kPlan) needs neither weights nor data. If it is given training data and a
// tokenizer it reads them, and its setup is then that of a run that trains (kTrain).
enum class RunPurpose : uint8_t { kPlan, kTrain, kEvaluate, kPredict };

// Where a run begins: with its first step, or where a checkpoint left it.
struct RunStart {
  int64_t step = 0;                // done before
  DataPosition position;           // of the next batch
  bool evaluation_is_due = false;  // of that step, before the next one
};

// The device that a run is planned for.
struct ChosenDevice {
  DeviceOptions options = {};
  std::string label = {};         // for tables and messages: "cpu, 2 threads", "cuda:0, NVIDIA H200"
  int gpu_ordinal = 0;            // among the visible GPUs
  bool holds_gpu_driver = false;  // the process has opened the GPU driver, even if it runs on a CPU
};

struct RunSetup {
  Arguments arguments;
  RunPurpose purpose = RunPurpose::kTrain;
  // The purpose as it was asked for: still kPlan where a plan reads data, and kPlan for --dry_run. Such a run
  // needs no GPU.
  RunPurpose asked = RunPurpose::kTrain;
  ChosenDevice device;
  PassOptions passes;
  ModelConfig model;
  std::optional<LoraConfig> lora;        // nothing: the run trains no adapter
  std::string model_label;               // for tables
  std::optional<ModelFolder> weights;    // nothing: every weight is initialised
  std::optional<ModelFolder> adapter;    // that the run begins with
  std::string base_model;                // as an adapter that is saved names it
  std::unique_ptr<Tokenizer> tokenizer;  // nothing for the dummy data set
  std::string tokenizer_folder;
  LabelScheme labels;
  std::string label_column;  // of the files
  std::optional<Dataset> train;
  std::optional<Dataset> evaluate;
  std::optional<Dataset> evaluate_mismatched;  // MNLI
  std::optional<Dataset> predict;
  std::optional<Dataset> predict_mismatched;  // MNLI
  int64_t reading_bytes = 0;                  // at most, while data files were read; 0: none were
  uint64_t train_data_hash = 0;               // of the file and what of it is used; 0: random ids
  std::vector<std::string> metric_names;      // empty: the problem type's own
  SamplerOptions sampler;
  BatchCensus train_census;  // of all batches of this run; empty without data
  RunStart start;            // of a run that trains
  int64_t rows_per_epoch = 0;
  int64_t batches_per_epoch = 0;
  int64_t steps_per_epoch = 0;
  int64_t max_steps = 0;
  double num_epochs = 0;
  std::string token_cache;  // a line for people: which tokens were read or kept where; "" without text
  std::vector<std::string> warnings;
  std::vector<std::string> notes;
  std::string tuning_file;  // where the tuning table lies between runs; "" where none is kept
  PlanRequest request;
  PlanLabels plan_labels;
};

// Errors: kUsage and kBadData for arguments and files; see each reader.
RunSetup prepare_run(const Arguments& arguments, RunPurpose purpose, const Environment& environment,
                     FileSystem& files);

}  // namespace plimsoll
