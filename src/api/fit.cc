#include "plimsoll/fit.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <sstream>
#include <utility>

#include "api/plan_report.h"
#include "api/searched_run.h"
#include "base/check.h"
#include "base/disguised_file.h"
#include "base/file.h"
#include "base/units.h"
#include "hardware/gpu_target.h"
#include "models/architecture.h"
#include "models/model.h"
#include "plan/search/fit_search.h"
#include "plimsoll/plan.h"
#include "run/captured_buckets.h"
#include "run/device_choice.h"
#include "run/run_setup.h"
#include "show/report/fit_table.h"

namespace plimsoll {
namespace {

int64_t mib_up(int64_t bytes) {
  return (bytes + kMiB - 1) / kMiB;
}

std::vector<std::string> split_words(int64_t micro_batch, int64_t accumulation) {
  return {"--per_device_train_batch_size", std::to_string(micro_batch), "--gradient_accumulation_steps",
          std::to_string(accumulation)};
}

std::string names_of(const std::vector<const Method*>& methods) {
  std::string names;
  for (const Method* method : methods) names += (names.empty() ? "" : ", ") + std::string(method->name);
  return names;
}

std::vector<std::string> card_names() {
  std::vector<std::string> names;
  for (const GpuTarget& target : gpu_targets()) names.push_back(target.name);
  return names;
}

// Returns the short form of the reason why a card cannot use a method: "no TF32" for "t4 has no TF32 (a GPU of ...);
// leave it out".
std::string short_reason(std::string reason, const std::string& device) {
  for (const std::string& beginning : {device + " ", std::string("has ")}) {
    if (reason.starts_with(beginning)) reason.erase(0, beginning.size());
  }
  return reason.substr(0, std::min(reason.find(" ("), reason.find(';')));
}

// Appends the texts that the list does not contain yet. When cards are compared, most of their warnings and notes are
// equal.
void add_new(std::vector<std::string>& texts, const std::vector<std::string>& more) {
  for (const std::string& text : more) {
    if (std::ranges::find(texts, text) == texts.end()) texts.push_back(text);
  }
}

// A device for which the search finds the fastest methods, the run on this device, and the methods that this run can use.
struct AskedDevice {
  std::string device = {};
  RunSpec run = {};
  UsableMethods methods = {};
};

// Returns true for a card that the released programs do not support, so that runs on it can only be planned.
bool is_plan_only(const std::string& device) {
  const std::optional<GpuTarget> target = find_gpu_target(device);
  return target && !runs_release(*target);
}

class Fit {
 public:
  Fit(const FitOptions& options, const Environment& environment)
      : options_(options), environment_(environment), base_(options.arguments) {
    resolve_arguments(base_);
    length_ = planned_length(base_);
    evaluates_ = evaluates(base_);
    base_ = without_data(base_, environment);
    effective_ = options.effective_batch_size.value_or(base_.train_batch_size.value_or(
        base_.per_device_train_batch_size * base_.gradient_accumulation_steps));
    base_.train_batch_size.reset();
    if (effective_ < 1 || effective_ > kMostEffective) {
      throw_error(ErrorCode::kUsage, "--effective_batch_size {}: expected 1 to {}", effective_,
                  kMostEffective);
    }
    if (options.epoch_samples < 1) {
      throw_error(ErrorCode::kUsage, "--epoch_samples {}: expected an integer of at least 1",
                  options.epoch_samples);
    }
    for (const CardPrice& price : options.prices) {
      if (!find_gpu_target(price.device)) {
        throw_error(ErrorCode::kUsage, "prices: no card is called '{}'; the cards are {}", price.device,
                    fmt::join(card_names(), ", "));
      }
      if (!(price.per_hour > 0)) {
        throw_error(ErrorCode::kUsage, "prices: the price of {} is {}, but has to be above 0", price.device,
                    price.per_hour);
      }
    }
  }

  FitReport run() {
    for (const std::string& device : devices()) search_card(device);
    if (report_.rows.empty() && unable_) throw Error(*unable_);
    rank();
    FitReport& report = report_;
    report.plans_per_s = plan_ms_ > 0 ? 1e3 * static_cast<double>(report.num_plans) / plan_ms_ : 0;
    report.refused = refused_text();
    report.plan_only = plan_only_text();
    if (report.rows.empty() || report.rows.front().micro_batch == 0) refuse();
    const bool only_plans = !compares_cards() && is_plan_only(base_.device);
    const SearchedCommand command =
        command_of_search(options_.arguments, label_, {.is_plan = only_plans, .is_for_one_gpu = true});
    const FitTableContext context{.subject = subject(),
                                  .command = command.words,
                                  .to_fill_in = command.to_fill_in,
                                  .compares_cards = compares_cards(),
                                  .is_plan_only = only_plans,
                                  .epoch_samples = options_.epoch_samples};
    report.table = fit_table(report, context);
    report.json = fit_json(report, context);
    return std::move(report_);
  }

 private:
  bool compares_cards() const { return !options_.devices.empty(); }

  std::vector<std::string> devices() const {
    if (!compares_cards()) return {base_.device};
    if (options_.devices != std::vector<std::string>{"all"}) return options_.devices;
    std::vector<std::string> names;
    for (const GpuTarget& target : gpu_targets()) {
      if (runs_release(target)) names.push_back(target.name);
    }
    return names;
  }

  // Returns a note about cards on which releases do not run, so that runs on them can only be planned. With `--device all`, the note names
  // all such cards, because the search left them out; otherwise it names those that the user gave.
  std::string plan_only_text() const {
    const bool is_all = options_.devices == std::vector<std::string>{"all"};
    std::vector<std::string> names;
    for (const GpuTarget& target : gpu_targets()) {
      const bool is_asked = std::ranges::any_of(devices(), [&](const std::string& name) {
        const std::optional<GpuTarget> asked_target = find_gpu_target(name);
        return asked_target && asked_target->name == target.name;
      });
      if (!runs_release(target) && (is_all || is_asked)) names.push_back(describe_capability(target));
    }
    if (names.empty()) return {};
    return fmt::format("{}{}: releases of Plimsoll run on compute capability {}.{} and later",
                       is_all ? "not compared: " : "plan only: ", fmt::join(names, ", "),
                       kOldestSmOfReleases / 10, kOldestSmOfReleases % 10);
  }

  Effect most() const { return options_.with_other_paths ? Effect::kOtherModel : Effect::kRounding; }

  AskedDevice asked(const Arguments& arguments, const std::string& device, Effect most_effect) {
    Arguments planned = without_recompute_choice(arguments);
    planned.device = device;
    const RunSetup setup = prepare_run(planned, RunPurpose::kPlan, environment_, posix_file_system());
    AskedDevice asked{.device = device, .run = setup.spec()};
    RunSpec& run = asked.run;
    run.arguments.recompute = arguments.recompute;
    run.arguments.recompute_budget = arguments.recompute_budget;
    run.facts.evaluate = evaluates_;
    run.facts.lengths = SequenceLengths::kAllLongest;
    // `fit` does not read the rows of data files, so if there is training data here, it is random and the lengths of its sequences are
    // known. From these lengths follows the number of CUDA graphs that a run with a given batch size would capture.
    if (setup.data.train && run.facts.device.is_gpu()) {
      run.facts.captured.count = [counted = counted_run(setup)](const BatchOptions& batches) {
        return captured_buckets_of_dummy(counted, batches);
      };
    }
    length_ = run.facts.train_bucket.longest;
    length_argument_ = setup.plan_labels.length_argument;
    most_tokens_ = max_sequence_length(setup.model.config);
    if (label_.empty()) label_ = setup.model.label;
    add_new(report_.warnings, setup.diagnostics.warnings);
    add_new(report_.notes, setup.diagnostics.notes);
    if (!compares_cards()) {
      device_label_ = setup.device.label;
      limit_bytes_ = setup.request.memory_limit_bytes;
    }
    asked.methods = usable_methods(run, most_effect);
    return asked;
  }

  MethodSpace space_of(const AskedDevice& asked) const {
    return {asked.run, asked.methods.scope, effective_, effective_};
  }

  FitQuestion question() const {
    FitQuestion question{.effective_batch = effective_, .longest = length_, .most_tokens = most_tokens_};
    // In a comparison of cards, only the fastest row of each card is needed.
    if (compares_cards()) {
      question.num_answers = 1;
      question.of_each_effect = false;
      question.num_detailed = 0;
    }
    question.num_threads = base_.num_threads > 0 ? static_cast<int>(base_.num_threads) : available_threads();
    return question;
  }

  // If the arguments are refused for one card, the comparison continues with the other cards.
  void search_card(const std::string& device) {
    const bool has_others = compares_cards() && devices().size() > 1 && find_gpu_target(device);
    try {
      search_device(device);
    } catch (const Error& error) {
      if (!has_others || error.code() != ErrorCode::kUsage) throw;
      if (!unable_) unable_ = error;
      note_refusal(device, "this run", error.what());
    }
  }

  void search_device(const std::string& device) {
    const AskedDevice asked_device = asked(base_, device, most());
    const MethodSpace space = space_of(asked_device);
    const FitSearch search = search_fit(space, question());
    for (const FitRefusal& refusal : search.refused) {
      if (refusal.set.empty()) throw_error(ErrorCode::kUsage, "{}", refusal.reason);
      note_refusal(device, refusal.set.text(), reason_of(refusal.reason));
    }
    for (const auto& [method, reason] : asked_device.methods.refused)
      note_refusal(device, std::string(method->name), reason);
    report_.num_plans += search.num_plans;
    plan_ms_ += search.plan_ms;
    const std::vector<const Method*> methods = space.methods();
    if (methods.size() >= num_methods_) {
      num_methods_ = methods.size();
      report_.searched = searched_text(space, search);
    }
    bool is_own_there = false;
    for (const FitAnswer& answer : search.answers) {
      add_row(asked_device, answer);
      is_own_there = is_own_there || answer.set.empty();
    }
    if (search.answers.empty()) {
      add_smallest(asked_device, space);
    } else if (!is_own_there && !compares_cards() && search.own_bytes > limit_bytes_.value_or(0)) {
      report_.rows.push_back(
          {.device = device, .methods = {}, .smallest_bytes = search.own_bytes, .arguments = {}});
    }
  }

  // Called if no set of methods fits. Adds a row with the set of methods that needs the least memory.
  void add_smallest(const AskedDevice& asked_device, const MethodSpace& space) {
    const std::optional<MinimumMemoryRun> smallest = minimum_memory_run(space, question());
    if (!smallest) return;
    report_.num_plans += smallest->num_plans;
    FitRow row{.device = asked_device.device,
               .methods = {},
               .effect = public_effect(space.effect(smallest->set)),
               .smallest_bytes = smallest->total_bytes,
               .arguments = arguments_of(asked_device, *smallest)};
    for (const Method* method : smallest->set.methods()) row.methods.emplace_back(method->name);
    report_.rows.push_back(std::move(row));
  }

  static std::vector<std::string> arguments_of(const AskedDevice& asked_device,
                                               const MinimumMemoryRun& smallest) {
    std::vector<std::string> words = words_of(smallest.set, asked_device.run);
    for (std::string& word : split_words(smallest.shape.micro_batch, smallest.shape.accumulation))
      words.push_back(std::move(word));
    return words;
  }

  void add_row(const AskedDevice& asked_device, const FitAnswer& answer) {
    FitRow row{.device = asked_device.device,
               .methods = {},
               .effect = public_effect(answer.extent.effect),
               .tie = answer.tie,
               .is_plan_only = is_plan_only(asked_device.device),
               .micro_batch = answer.micro_batch,
               .accumulation = answer.accumulation,
               .total_bytes = answer.total_bytes,
               .samples_per_s = answer.ms_per_sample > 0 ? 1e3 / answer.ms_per_sample : 0,
               .largest_batch = answer.largest_batch,
               .longest_sequence = answer.longest_sequence,
               .arguments = words_of(answer.set, asked_device.run)};
    for (const Method* method : answer.set.methods()) row.methods.emplace_back(method->name);
    for (std::string& word : split_words(answer.micro_batch, answer.accumulation))
      row.arguments.push_back(std::move(word));
    for (const CardPrice& price : options_.prices) {
      if (price.device != asked_device.device) continue;
      row.epoch_cost =
          price.per_hour * static_cast<double>(options_.epoch_samples) / row.samples_per_s / 3600;
    }
    extents_[row.device] = answer.extent;
    report_.rows.push_back(std::move(row));
  }

  void note_refusal(const std::string& device, const std::string& methods, const std::string& reason) {
    refused_[device][compares_cards() ? short_reason(reason, device) : reason].push_back(methods);
  }

  // Returns the text that lists the methods which cannot be used, one line per reason. If cards are compared, the text names the cards.
  std::string refused_text() const {
    std::string text;
    std::vector<std::pair<std::string, std::vector<std::string>>> cards_by_text;
    for (const auto& [device, reasons] : refused_) {
      std::string of_card;
      for (const auto& [reason, methods] : reasons) {
        const std::string line = fmt::format("{}: {}", fmt::join(methods, ", "), reason);
        if (!compares_cards()) text += fmt::format("not possible: {}\n", line);
        of_card += (of_card.empty() ? "" : "; ") + line;
      }
      auto it =
          std::ranges::find(cards_by_text, of_card, &std::pair<std::string, std::vector<std::string>>::first);
      if (it == cards_by_text.end()) it = cards_by_text.insert(it, {of_card, {}});
      it->second.push_back(device);
    }
    if (!compares_cards()) return text;
    for (const auto& [of_cards, cards] : cards_by_text)
      text += fmt::format("not possible on {}: {}\n", fmt::join(cards, ", "), of_cards);
    return text;
  }

  std::string searched_text(const MethodSpace& space, const FitSearch& search) const {
    const auto num_sets = counted(space.all_fixed().size(), "set");
    const std::string text = fmt::format(
        "searched: {} of methods in each split of the batch, {} of them planned, because the others are "
        "slower or need too much memory: {}",
        num_sets, search.num_sets, names_of(space.methods()));
    return options_.with_other_paths ? text : text + "; --all_methods adds those that train differently";
  }

  void rank() {
    std::vector<FitRow>& rows = report_.rows;
    if (compares_cards()) rank_cards();
    double reference = rows.empty() ? 0 : rows.front().samples_per_s;
    for (const FitRow& row : rows) {
      if (row.methods.empty() && row.micro_batch > 0 && !compares_cards()) reference = row.samples_per_s;
    }
    for (FitRow& row : rows) row.relative_speed = reference > 0 ? row.samples_per_s / reference : 0;
  }

  // Sorts the cards with a price by cost, then those without one by time, then those on which nothing fits.
  void rank_cards() {
    const auto unpriced = std::ranges::stable_partition(
        report_.rows, [](const FitRow& row) { return row.micro_batch > 0 && row.epoch_cost > 0; });
    const auto unfit =
        std::ranges::stable_partition(unpriced, [](const FitRow& row) { return row.micro_batch > 0; });
    const auto extent = [&](const FitRow& row) { return extents_.at(row.device); };
    const std::span<FitRow> priced(report_.rows.begin(), unpriced.begin());
    order_ties(priced, &FitRow::epoch_cost, extent);
    const std::span<FitRow> others(unpriced.begin(), unfit.begin());
    order_ties(
        others, [](const FitRow& row) { return 1 / row.samples_per_s; }, extent);
    for (FitRow& row : others) row.tie += priced.empty() ? 0 : priced.back().tie;
  }

  // Returns the number of bytes that a run may use: the memory limit, or --recompute_budget if it is smaller.
  int64_t allowed_bytes() const {
    const int64_t limit = limit_bytes_.value_or(0);
    return std::min(limit, base_.recompute_budget.value_or(limit));
  }

  // Returns advice for the case that no set of methods fits into the memory. It suggests methods that the search did
  // not try, or a run without gradient clipping, if these need less memory than `needed`.
  std::string what_else_is_there(const std::string& device, int64_t needed) {
    std::string text;
    const auto note = [&](const std::string& how, const AskedDevice& asked_device,
                          std::vector<std::string> words) {
      const MethodSpace space = space_of(asked_device);
      const std::optional<MinimumMemoryRun> smallest = minimum_memory_run(space, question());
      if (!smallest || smallest->total_bytes >= needed) return;
      for (const std::string& word : arguments_of(asked_device, *smallest)) words.push_back(shell_word(word));
      text +=
          fmt::format("\n  {} the smallest needs {} MiB{}: {}", how, mib_up(smallest->total_bytes),
                      smallest->total_bytes <= allowed_bytes() ? ", which fits" : "", fmt::join(words, " "));
    };
    if (base_.max_grad_norm > 0 && !options_.with_other_paths) {
      Arguments unclipped = base_;
      unclipped.max_grad_norm = 0;
      note("without clipping", asked(unclipped, device, most()), {"--max_grad_norm", "0"});
    }
    if (!options_.with_other_paths)
      note("with --all_methods, which may train differently,", asked(base_, device, Effect::kOtherModel), {});
    return text;
  }

  [[noreturn]] void refuse() {
    if (report_.rows.empty())
      throw_error(ErrorCode::kUsage, "no set of methods is possible here\n{}", report_.refused);
    const FitRow smallest = *std::ranges::min_element(report_.rows, {}, &FitRow::smallest_bytes);
    const int64_t needed = mib_up(smallest.smallest_bytes);
    std::string methods =
        smallest.methods.empty() ? "as it is" : fmt::format("{}", fmt::join(smallest.methods, ", "));
    if (compares_cards()) {
      throw_error(ErrorCode::kWillNotFit,
                  "nothing fits on any of these cards: the smallest run of {}, with {} of {} per step, needs "
                  "{} MiB ({}, on {})\n  {}\n  shorten the sequences with {}, or use a smaller model",
                  label_, counted(effective_, "sequence"), counted(length_, "token"), needed, methods,
                  smallest.device, report_.searched, length_argument_);
    }
    const int64_t allowed = allowed_bytes() / kMiB;
    const std::string others = what_else_is_there(base_.device, smallest.smallest_bytes);
    throw_error(
        ErrorCode::kWillNotFit,
        "nothing fits: {} MiB allowed; the smallest run of {}, with {} of {} per step, needs {} MiB "
        "({}), short by {} MiB\n  {}{}\n  shorten the sequences with {}, use a smaller model, or raise the "
        "limit with {} {}MiB",
        allowed, label_, counted(effective_, "sequence"), counted(length_, "token"), needed, methods,
        needed - allowed, report_.searched, others, length_argument_,
        base_.recompute_budget ? "--recompute_budget" : "--memory", needed);
  }

  std::string subject() const {
    std::string text = fmt::format("{}, {}, {} per step", label_, counted(length_, "token"),
                                   counted(effective_, "sequence"));
    if (compares_cards()) return text + ", an epoch of " + counted(options_.epoch_samples, "sequence");
    text += ", on " + device_label_;
    return limit_bytes_ ? text + fmt::format(", {} MiB allowed", *limit_bytes_ / kMiB)
                        : text + ", no limit is given";
  }

  const FitOptions& options_;
  const Environment& environment_;
  Arguments base_;
  int64_t length_ = 0;
  std::string length_argument_ = PlanLabels().length_argument;
  int64_t most_tokens_ = 0;
  int64_t effective_ = 1;
  bool evaluates_ = false;
  std::string label_;
  std::string device_label_;
  std::optional<int64_t> limit_bytes_;
  // For each device and each reason, the methods that cannot be used on the device for this reason.
  std::map<std::string, std::map<std::string, std::vector<std::string>>> refused_;
  std::optional<Error> unable_;  // the first error of a card for which the arguments were refused
  // For each card, how much its fastest set of methods changes the training. It decides the order of cards with equal cost or time.
  std::map<std::string, ExtentOfChange> extents_;
  size_t num_methods_ = 0;
  double plan_ms_ = 0;
  FitReport report_;
};

}  // namespace

std::vector<CardPrice> parse_prices(std::string_view text, std::string_view source) {
  refuse_disguised_text(text.substr(0, kDisguiseBytes), source);
  std::vector<CardPrice> prices;
  std::istringstream lines{std::string(text)};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream words(line);
    CardPrice price;
    if (!(words >> price.device) || price.device.starts_with('#')) continue;
    std::string rest;
    if (!(words >> price.per_hour) || !(price.per_hour > 0) || !std::isfinite(price.per_hour) ||
        words >> rest) {
      throw_error(ErrorCode::kUsage, "{}:{}: expected a card and its price per hour, for example 'l4,0.71'",
                  source, number);
    }
    if (!find_gpu_target(price.device)) {
      std::vector<std::string> cards;
      for (const GpuTarget& target : gpu_targets())
        cards.push_back(target.name + (runs_release(target) ? "" : " (plan only)"));
      const std::vector<std::string> similar = similar_gpu_targets(price.device);
      throw_error(ErrorCode::kUsage, "{}:{}: no plan can be made for the card '{}'; choose from {}{}", source,
                  number, price.device, fmt::join(cards, ", "),
                  similar.empty() ? "" : fmt::format(", did you mean '{}'?", fmt::join(similar, "' or '")));
    }
    price.device = find_gpu_target(price.device)->name;
    prices.push_back(std::move(price));
  }
  return prices;
}

FitReport fit_run(const FitOptions& options, const Environment& environment) {
  if (options.arguments.pp_size > 1) {
    throw_error(ErrorCode::kUsage,
                "--pp_size {}: fit plans one process, and the stages of a pipeline have different plans; use "
                "plimsoll "
                "plan, which shows all stages, or leave --pp_size out",
                options.arguments.pp_size);
  }
  return Fit(options, environment).run();
}

}  // namespace plimsoll
