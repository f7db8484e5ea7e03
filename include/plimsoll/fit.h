// Finds the runs that fit into a given memory of a given device, which this machine need not have: the
// largest batch, the longest sequence, the best split of an effective batch into micro-batches, and the
// fastest set of methods that save memory or time (methods.h). Every answer is planned by the same code as `plan` and `train`, so a run
// with these arguments holds exactly the stated memory. The functions are pure except that they read the files that the arguments name.
// Thread-safe.
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
  std::string device;   // name of the card as --device accepts it
  double per_hour = 0;  // price per hour in any currency, which must be the same for all cards
};
// Parses lines of the form "NAME,PRICE" or "NAME PRICE". Empty lines and lines that begin with # are ignored.
// Errors: kUsage; the message names the line. kBadData for a text that is another kind of file.
std::vector<CardPrice> parse_prices(std::string_view text, std::string_view source);

struct FitOptions {
  // Model, sequence length, device and the other settings of the run. memory_limit is the memory that the run
  // may use.
  Arguments arguments;
  // Number of sequences per optimizer step. Default: the product of the batch size and the accumulation steps
  // in `arguments`.
  std::optional<int64_t> effective_batch_size = {};
  // Devices to compare. Default: the device in `arguments`. "all" selects every card in the table of devices on which
  // releases of Plimsoll run; other cards of the table, for which Plimsoll can only plan, have to be named.
  std::vector<std::string> devices = {};
  // prices of cards; if several devices are compared, the devices are sorted by cost
  std::vector<CardPrice> prices = {};
  int64_t epoch_samples = 100000;  // number of samples in an epoch, for the cost of an epoch
  // Also try methods that change the result of training, such as SGD or LoRA (MethodEffect::kOtherPath).
  bool with_other_paths = false;
};

struct FitRow {
  std::string device;
  // names from method_table() of the methods that this row adds to the run; empty if it adds none
  std::vector<std::string> methods;
  // The numerical effect of the methods: kSameSums, kRounding or kOtherPath.
  MethodEffect effect = MethodEffect::kSameSums;
  // Rows with the same number are a tie: the speed of each differs from that of the fastest of them by less than the
  // error of the estimates.
  int tie = 0;
  bool is_plan_only = false;  // true if no release supports this card, so runs can only be planned
  // Value of per_device_train_batch_size. 0 if nothing fits; smallest_bytes then states the memory that is needed.
  int64_t micro_batch = 0;
  int64_t accumulation = 0;  // value of gradient_accumulation_steps
  int64_t total_bytes = 0;   // planned memory
  double samples_per_s = 0;  // estimated samples per second
  // Speed divided by that of the row without methods, or by that of the first row if the run without methods does not
  // fit.
  double relative_speed = 0;
  // The next two fields are 0 if micro_batch is 0, and if FitOptions::devices is not empty.
  int64_t largest_batch = 0;  // the largest batch that fits without accumulation
  // the longest sequence that fits with micro_batch and accumulation of this row
  int64_t longest_sequence = 0;
  int64_t smallest_bytes = 0;  // if micro_batch is 0: the least memory that this set of methods needs
  double epoch_cost = 0;       // cost of an epoch in the currency of the prices; 0 if the device has no price
  // The arguments that differ from the given ones; a user adds them to the command.
  std::vector<std::string> arguments;
};

struct FitReport {
  // The rows that fit, fastest first. Rows whose speeds are tied are sorted by `effect` in the order of MethodEffect, and rows with the
  // same effect by the number of arguments. A set of methods is listed only if all of its methods are needed to fit. If the run does not
  // fit without methods, the last row describes the run without methods, and its micro_batch is 0; a comparison of devices has no such row.
  std::vector<FitRow> rows;
  int64_t num_plans = 0;
  double plans_per_s = 0;
  std::string table;  // the rows as a table for people
  std::string json;   // the rows as JSON for programs
  // methods that cannot be used on the device or with the arguments, with the reasons; may be empty
  std::string refused;
  std::string searched;  // description of the sets of methods that were compared, for people
  // The cards on which no release of Plimsoll runs, with the reason: those that "all" left out of the comparison, or those that `devices`
  // names, for which Plimsoll can only plan. May be empty.
  std::string plan_only;
  // Warnings and notes about the run, for example about settings without effect.
  std::vector<std::string> warnings = {};
  std::vector<std::string> notes = {};
};

// Finds the fastest ways to run within the memory limit. Errors: kUsage and kBadData for the arguments;
// kWillNotFit if no row fits, and the message states the smallest memory that any set of methods needs. Cost:
// one to three seconds per device for BERT-large (hundreds of plans).
FitReport fit_run(const FitOptions& options, const Environment& environment = process_environment());

}  // namespace plimsoll
