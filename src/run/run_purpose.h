// The purpose of a run, and the warnings and notes that its preparation collects: small types that every file of
// src/run uses.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/arguments.h"

namespace plimsoll {

// The purpose of a run, as its caller states it. It never changes. kPlan plans a run that trains, and kPlanGeneration one that generates
// texts; both need no weights, no tokenizer and no device.
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

// Returns true if the run ends when its plan has been made, and hence needs no GPU and no output folder.
inline bool ends_with_plan(RunPurpose purpose, const Arguments& arguments) {
  return is_plan(purpose) || arguments.dry_run;
}

// The use of data by a run. A plan reads data only if it is given training data. With a tokenizer it then has the exact
// sizes of the run's batches; without one it reads rows and labels, and every text counts as the longest one. Every other
// run reads its data.
enum class DataUse : uint8_t { kNone, kReadsRows, kReads };

// Warnings and notes to print, in the order in which they were found.
struct Diagnostics {
  std::vector<std::string> warnings = {};
  std::vector<std::string> notes = {};
  void warn(std::string text) { warnings.push_back(std::move(text)); }
  void note(std::string text) { notes.push_back(std::move(text)); }
};

}  // namespace plimsoll
