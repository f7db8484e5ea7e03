// What fits: the largest batch, the longest sequence, the best split of an effective batch and the fastest
// set of methods for a memory and a device that need not be there. Every answer was planned by the code that
// `plan` and `train` use, so that a run with the same arguments holds what the answer says. Pure functions
// that read the files which the arguments name; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/arguments.h"
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
  // Methods that train something else, such as SGD, too.
  bool with_other_paths = false;
};

struct FitRow {
  std::string device;
  std::vector<std::string> methods;  // names of method_table(); empty: the arguments as they are
  int64_t micro_batch = 0;           // per_device_train_batch_size; 0: nothing fits, and the rest is not set
  int64_t accumulation = 0;          // gradient_accumulation_steps
  int64_t total_bytes = 0;           // planned
  double samples_per_s = 0;          // estimated
  double relative_speed = 0;     // over the first method set that fits without methods, else the slowest row
  int64_t largest_batch = 0;     // that fits without accumulation; of the first twelve rows, else 0
  int64_t longest_sequence = 0;  // that fits with this split; of the first twelve rows, else 0
  int64_t smallest_bytes = 0;    // the least that this set of methods needs
  double epoch_cost = 0;         // in the money of the prices; 0 without one for the device
  std::vector<std::string> arguments;  // that differ from those asked about: what to add to a command
};

struct FitReport {
  std::vector<FitRow> rows;  // those that fit, best first; then those that do not
  int64_t num_plans = 0;
  double plans_per_s = 0;
  std::string table;    // for people
  std::string json;     // for programs
  std::string refused;  // sets of methods that the device or another method rules out, and why; may be empty
};

// Errors: kUsage and kBadData for the arguments; kWillNotFit where no row fits, with what the smallest run
// needs. Cost: some seconds for BERT-large and a device: hundreds of plans.
FitReport fit_run(const FitOptions& options, const Environment& environment = {});

}  // namespace plimsoll
