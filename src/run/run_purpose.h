// Small types that every file of src/run uses: the purpose of a run, and the warnings and notes that are collected while it is prepared.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/arguments.h"

namespace plimsoll {

// The purpose of a run. The caller sets it once. kPlan plans a run that trains, and kPlanGeneration one that generates texts; both need
// no weights, no tokenizer and no device.
enum class RunPurpose : uint8_t { kPlan, kTrain, kEvaluate, kPredict, kGenerate, kPlanGeneration };

inline bool is_training(RunPurpose purpose) {
  return purpose == RunPurpose::kTrain || purpose == RunPurpose::kPlan;
}

inline bool is_generation(RunPurpose purpose) {
  return purpose == RunPurpose::kGenerate || purpose == RunPurpose::kPlanGeneration;
}
inline bool is_plan(RunPurpose purpose) {
  return purpose == RunPurpose::kPlan || purpose == RunPurpose::kPlanGeneration;
}

// Returns true if the run ends when its plan has been made, so that it needs no GPU and no output folder.
inline bool ends_with_plan(RunPurpose purpose, const Arguments& arguments) {
  return is_plan(purpose) || arguments.dry_run;
}

// States how a run uses data. A plan reads data only if it is given training data. With a tokenizer it then knows the exact sizes of the
// run's batches; without one it reads rows and labels, and assumes that every text has the greatest length. A run that generates texts, and
// its plan, read no data. Every other run reads its data.
enum class DataUse : uint8_t { kNone, kReadsRows, kReads };

// Warnings and notes to be printed, in the order in which they were added.
struct Diagnostics {
  std::vector<std::string> warnings = {};
  std::vector<std::string> notes = {};
  void warn(std::string text) { warnings.push_back(std::move(text)); }
  void note(std::string text) { notes.push_back(std::move(text)); }
};

}  // namespace plimsoll
