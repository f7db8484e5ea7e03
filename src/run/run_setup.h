// Determines everything about a run that must be known before its plan is made: model, tokenizer, data, labels, steps and the request for
// the plan. prepare_run() gathers these facts from arguments, files and the machine, by calling the functions of model_source.h,
// device_choice.h, tokenizer_source.h, data_sets.h, label_choice.h and run_length.h. Owns the data.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/rank_place.h"
#include "plan/compile/plan.h"
#include "plan/compile/plan_labels.h"
#include "plan/request/request_of.h"
#include "plimsoll/arguments.h"
#include "plimsoll/data.h"
#include "plimsoll/training.h"
#include "run/data_sets.h"
#include "run/device_choice.h"
#include "run/model_source.h"
#include "run/run_length.h"
#include "run/run_purpose.h"
#include "run/tokenizer_source.h"

namespace plimsoll {

struct TaskChoice;  // the result of inferring a task; run/corpus.h defines it

struct RunSetup {
  Arguments arguments;
  RunPurpose purpose = RunPurpose::kTrain;
  RankPlace place = {};
  PassOptions passes = {};
  ChosenDevice device = {};
  ModelSource model = {};
  DataUse data_use = DataUse::kReads;
  TokenizerSource tokenizer = {};
  DataSets data = {};
  SamplerOptions sampler = {};  // sampler of the training data
  RunSteps steps = {};          // steps and batch sizes; set if the run trains, all zero without data
  RunFacts facts = {};
  GenerationSizes generation = {};  // sizes of the text generation; set if the run generates texts
  PlanRequest request = {};         // result of request_of() for the arguments and facts
  PlanLabels plan_labels = {};
  // if true, the run measures, before its first step, the algorithms of matrix products that are missing in the tuning table
  bool measures_products = false;
  std::string tuning_file = {};  // path of the tuning table that the run updates; "" if there is none
  std::vector<std::shared_ptr<Metric>> metrics = {};  // metrics that the calling program defines
  Diagnostics diagnostics = {};

  bool reads_data() const { return data_use != DataUse::kNone; }
  // Returns the arguments and facts of the run, with which callers can make plans for changed arguments.
  RunSpec spec() const { return {.arguments = arguments, .facts = facts}; }
};

// Prepares the setup of a run. `parts` contains data and metrics that the calling program provides. The device is chosen before data is
// read. Errors: kUsage and kBadData for arguments, files and rows; those of the functions that it calls (see the start of this file).
RunSetup prepare_run(const Arguments& arguments, RunPurpose purpose, const Environment& environment,
                     FileSystem& files, const TrainerParts& parts = {});

// Infers the task of a training run from the name and the beginning of its training file, and returns it with a note for the user. Returns
// no task if other arguments, the model or the labels in the file decide. Reads no other data and no weights. Errors: as prepare_run() for
// the model.
TaskChoice task_of_file(const Arguments& arguments, const Environment& environment, FileSystem& files);

// Prepares the setup of a run that generates texts, or, with kPlanGeneration, of its plan. Calls `size` with the setup as soon as the model
// and, for a run, the tokenizer are known, to get the sizes that the plan must have room for. Errors: as prepare_run(); kUsage for a model
// without a head for language modelling.
RunSetup prepare_generation(const Arguments& arguments, RunPurpose purpose, const Environment& environment,
                            FileSystem& files, const std::function<GenerationSizes(const RunSetup&)>& size);

}  // namespace plimsoll
