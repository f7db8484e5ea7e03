// Finds what fits into a given memory of a given device, which this machine need not have: the largest batch,
// the longest sequence, the best split of an effective batch into micro-batches, and the fastest set of
// methods. Every answer was planned by the code that `plan` and `train` use, so that a run with the same
// arguments holds what the answer says. Pure functions that read the files which the arguments name;
// thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/arguments.h"
#include "plimsoll/methods.h"
#include "plimsoll/training.h"

namespace plimsoll {

struct CardPrice {
  std::string device;   // as --device takes it
  double per_hour = 0;  // in any money, the same for all cards
};
// Lines "NAME,PRICE" or "NAME PRICE"; empty lines and those that begin with # are left out. Errors: kUsage
// with the line.
std::vector<CardPrice> parse_prices(std::string_view text, std::string_view source);

struct FitOptions {
  // Model, length, device and all else of a run; memory_limit is the memory that it may take.
  Arguments arguments;
  // Sequences of an optimizer step; default: what the arguments' batch and accumulation make.
  std::optional<int64_t> effective_batch_size = {};
  // Devices to compare; default: the arguments' own. "all": every card that plans can be made for.
  std::vector<std::string> devices = {};
  std::vector<CardPrice> prices = {};  // with several devices
  int64_t epoch_samples = 100000;      // of the epoch whose cost is compared
  // Whether to try methods too that change what is learned, such as SGD or LoRA (MethodEffect::kOtherPath).
  bool with_other_paths = false;
};

struct FitRow {
  std::string device;
  std::vector<std::string> methods;  // names of method_table(); empty: the arguments as they are
  // What they do to the numbers of this run: kSameSums, kRounding or kOtherPath.
  MethodEffect effect = MethodEffect::kSameSums;
  int64_t micro_batch = 0;   // per_device_train_batch_size; 0: nothing fits, and the rest is not set
  int64_t accumulation = 0;  // gradient_accumulation_steps
  int64_t total_bytes = 0;   // planned
  double samples_per_s = 0;  // estimated
  // samples_per_s over that of the row without methods, or over the first row's where that does not fit.
  double relative_speed = 0;
  // Both are looked for in the first twelve rows of a device, and are 0 in the others.
  int64_t largest_batch = 0;           // that fits without accumulation
  int64_t longest_sequence = 0;        // that fits with this split
  int64_t smallest_bytes = 0;          // where nothing fits: the least that this set of methods needs
  double epoch_cost = 0;               // in the money of the prices; 0 without one for the device
  std::vector<std::string> arguments;  // that differ from those asked about: what to add to a command
};

struct FitReport {
  // Those that fit, best first: the fastest sets of methods of which none has a method that it can do
  // without. Then the run as it is, where that does not fit.
  std::vector<FitRow> rows;
  int64_t num_plans = 0;
  double plans_per_s = 0;
  std::string table;     // for people
  std::string json;      // for programs
  std::string refused;   // methods that the device or the run's arguments rule out, and why; may be empty
  std::string searched;  // between which sets of methods was chosen
};

// Errors: kUsage and kBadData for the arguments; kWillNotFit where no row fits, with what the smallest run of
// all sets of methods needs. Cost: one to three seconds for BERT-large and a device: hundreds of plans.
FitReport fit_run(const FitOptions& options, const Environment& environment = {});

}  // namespace plimsoll
