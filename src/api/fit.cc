#include "plimsoll/fit.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "base/units.h"
#include "plan/search/fit.h"
#include "plimsoll/methods.h"
#include "show/report/fit_table.h"
#include "target/gpu_target.h"
#include "train/host_memory.h"
#include "train/run_setup.h"
#include "train/run_threads.h"

namespace plimsoll {
namespace {

using MethodSet = std::vector<const Method*>;

bool has_kind(const MethodSet& set, std::string_view kind) {
  return std::any_of(set.begin(), set.end(), [&](const Method* method) { return method->kind == kind; });
}

// Every set with at most one method of each kind. Accumulation is the search's own; a loss in chunks is
// for many thousands of labels; and where a part is trained, another optimizer saves little of the little
// that its states are. The same goes for moving them.
std::vector<MethodSet> method_sets(bool with_other_paths) {
  std::vector<std::string_view> kinds;
  for (const Method& method : method_table()) {
    if (method.kind == "accumulation" || method.kind == "loss") continue;
    if (std::find(kinds.begin(), kinds.end(), method.kind) == kinds.end()) kinds.push_back(method.kind);
  }
  std::vector<MethodSet> sets{{}};
  for (const std::string_view kind : kinds) {
    const size_t before = sets.size();
    for (size_t i = 0; i < before; ++i) {
      for (const Method& method : method_table()) {
        if (method.kind != kind || !method.not_in_fit.empty()) continue;
        if (method.effect == MethodEffect::kOtherPath && !with_other_paths) continue;
        if (method.kind == "trained part" && has_kind(sets[i], "optimizer")) continue;
        const bool has_few_states = method.kind == "trained part" || method.kind == "optimizer";
        if (has_few_states && has_kind(sets[i], "offload")) continue;
        sets.push_back(sets[i]);
        sets.back().push_back(&method);
      }
    }
  }
  return sets;
}

// The arguments with the words of the methods: only what these set is taken over. Errors: kUsage where it is
// refused.
Arguments with_methods(const Arguments& arguments, const MethodSet& methods) {
  if (methods.empty()) return arguments;
  std::vector<std::string> words;
  for (const Method* method : methods) words.insert(words.end(), method->words.begin(), method->words.end());
  const ParseResult parsed = parse_arguments(words);
  const nlohmann::json set = nlohmann::json::parse(arguments_json(parsed.arguments));
  nlohmann::json all = nlohmann::json::parse(arguments_json(arguments));
  for (const std::string& name : parsed.explicitly_set) all[name] = set.at(name);
  Arguments changed = arguments_from_json(all.dump(), "methods");
  resolve_arguments(changed);
  return changed;
}

std::string names_of(const MethodSet& methods) {
  std::string names;
  for (const Method* method : methods) names += (names.empty() ? "" : " with ") + std::string(method->name);
  return names;
}

std::vector<std::string> words_of(const MethodSet& methods, const FitAnswer& answer) {
  std::vector<std::string> words;
  for (const Method* method : methods) words.insert(words.end(), method->words.begin(), method->words.end());
  words.insert(words.end(), {"--per_device_train_batch_size", std::to_string(answer.micro_batch),
                             "--gradient_accumulation_steps", std::to_string(answer.accumulation)});
  return words;
}

class Fit {
 public:
  Fit(const FitOptions& options, const Environment& environment)
      : options_(options), environment_(environment) {
    base_ = options.arguments;
    // A budget's choice would stay as it was for the first batch, and no other would keep to the budget.
    if (base_.recompute == "selective" || base_.recompute_budget) {
      throw_error(ErrorCode::kUsage,
                  "--recompute{}: {}; leave it out, and add it to the command that fit gives",
                  base_.recompute_budget ? "_budget" : " selective", find_method("selective")->not_in_fit);
    }
    // A plan is made for batches of the longest sequences, whatever the data; so the data need not be read.
    length_ = base_.dataset_name == "dummy" ? base_.dummy_seq_length : base_.max_seq_length;
    evaluates_ = base_.do_eval || base_.do_predict || base_.eval_strategy != "no";
    if (base_.dataset_name != "dummy") base_.dataset_name.clear();
    base_.train_file.clear();
    base_.validation_file.clear();
    base_.test_file.clear();
    base_.max_seq_length = length_;
    effective_ = options.effective_batch_size.value_or(base_.per_device_train_batch_size *
                                                       base_.gradient_accumulation_steps);
    if (effective_ < 1 || effective_ > kMostEffective) {
      throw_error(ErrorCode::kUsage, "--effective_batch_size {}: expected 1 to {}", effective_,
                  kMostEffective);
    }
  }

  FitReport run() {
    for (const std::string& device : devices()) search_device(device);
    rank();
    FitReport& report = report_;
    report.plans_per_s = plan_ms_ > 0 ? 1e3 * static_cast<double>(report.num_plans) / plan_ms_ : 0;
    for (const auto& [reason, sets] : refused_) {
      std::vector<std::string> names;
      for (const MethodSet& set : sets) names.push_back(names_of(set));
      report.refused += fmt::format("not possible: {}: {}\n", fmt::join(names, ", "), reason);
    }
    if (report.rows.empty())
      throw_error(ErrorCode::kUsage, "no set of methods is possible here\n{}", report.refused);
    if (report.rows.front().micro_batch == 0) refuse();
    const FitTableContext context{.subject = subject(),
                                  .command = command(),
                                  .compares_cards = compares_cards(),
                                  .epoch_samples = options_.epoch_samples};
    report.table = fit_table(report, context);
    report.json = fit_json(report, context);
    return std::move(report_);
  }

 private:
  static constexpr int64_t kMostEffective = 65536;

  bool compares_cards() const { return !options_.devices.empty(); }

  std::vector<std::string> devices() const {
    if (!compares_cards()) return {base_.device};
    if (options_.devices != std::vector<std::string>{"all"}) return options_.devices;
    std::vector<std::string> names;
    for (const GpuTarget& target : gpu_targets()) names.push_back(target.name);
    return names;
  }

  // Of a card that is compared with others only the fastest counts: sets that compute again are looked at
  // where nothing else fits.
  void search_device(const std::string& device) {
    std::vector<MethodSet> sets = method_sets(options_.with_other_paths);
    if (!compares_cards()) {
      search_sets(device, sets);
      return;
    }
    const auto middle = std::stable_partition(
        sets.begin(), sets.end(), [](const MethodSet& set) { return !has_kind(set, "recompute"); });
    const auto before = static_cast<std::ptrdiff_t>(report_.rows.size());
    search_sets(device, {sets.begin(), middle});
    const bool fits = std::any_of(report_.rows.begin() + before, report_.rows.end(),
                                  [](const FitRow& row) { return row.micro_batch > 0; });
    if (!fits) search_sets(device, {middle, sets.end()});
  }

  void search_sets(const std::string& device, const std::vector<MethodSet>& tried) {
    std::vector<FitCandidate> candidates;
    std::vector<MethodSet> sets;
    FitQuestion question{.effective_batch = effective_, .longest = length_};
    if (compares_cards()) question.num_detailed = 0;
    question.num_threads = base_.num_threads > 0 ? static_cast<int>(base_.num_threads) : available_threads();
    for (const MethodSet& set : tried) {
      try {
        Arguments arguments = with_methods(base_, set);
        arguments.device = device;
        const RunSetup setup = prepare_run(arguments, RunPurpose::kPlan, environment_, posix_file_system());
        FitCandidate candidate{
            .methods = {}, .request = setup.request, .host_bytes_per_token = batch_bytes_per_token(setup)};
        candidate.request.evaluate = evaluates_;
        question.longest = setup.request.train_bucket.longest;
        question.most_tokens = setup.model.max_position_embeddings;
        if (is_without_effect(set, candidate.request)) continue;
        if (label_.empty()) label_ = setup.model_label;
        if (!compares_cards()) {
          device_label_ = candidate.request.device_label;
          limit_bytes_ = candidate.request.memory_limit_bytes;
        }
        candidates.push_back(std::move(candidate));
        sets.push_back(set);
      } catch (const Error& error) {
        // Without methods it is the question itself that is wrong.
        if (set.empty() || error.code() != ErrorCode::kUsage) throw;
        note_refusal(set, error.what());
      }
    }
    length_ = question.longest;
    const FitSearch search = search_fit(candidates, question);
    for (const FitRefusal& refusal : search.refused) {
      if (sets[refusal.candidate].empty()) throw_error(ErrorCode::kUsage, "{}", refusal.reason);
      note_refusal(sets[refusal.candidate], refusal.reason);
    }
    report_.num_plans += search.num_plans;
    plan_ms_ += search.plan_ms;
    for (const FitAnswer& answer : search.answers) add_row(device, sets[answer.candidate], answer);
  }

  // A method that changes nothing on this device, such as tf32 on a CPU, would only repeat a row.
  static bool is_without_effect(const MethodSet& set, const PlanRequest& request) {
    return request.device == KernelDevice::kCpu &&
           std::any_of(set.begin(), set.end(),
                       [](const Method* method) { return !method->not_on_cpu.empty(); });
  }

  // By what the program says of it, without the arguments that it names first: those are the set.
  void note_refusal(const MethodSet& set, const std::string& said) {
    std::string reason = said.substr(0, said.find('\n'));
    const size_t colon = reason.find(": ");
    if (reason.starts_with("--") && colon != std::string::npos) reason.erase(0, colon + 2);
    std::vector<MethodSet>& sets = refused_[reason];
    // A set that contains a refused one is refused for the same reason: the smaller one is named.
    const bool is_named = std::any_of(sets.begin(), sets.end(), [&](const MethodSet& named) {
      return std::all_of(named.begin(), named.end(), [&](const Method* method) {
        return std::find(set.begin(), set.end(), method) != set.end();
      });
    });
    if (!is_named) sets.push_back(set);
  }

  void add_row(const std::string& device, const MethodSet& set, const FitAnswer& answer) {
    FitRow row{.device = device, .methods = {}, .smallest_bytes = answer.smallest_bytes, .arguments = {}};
    for (const Method* method : set) row.methods.emplace_back(method->name);
    row.largest_batch = answer.largest_batch;
    if (answer.micro_batch > 0) {
      row.micro_batch = answer.micro_batch;
      row.accumulation = answer.accumulation;
      row.total_bytes = answer.total_bytes;
      row.samples_per_s = answer.samples_per_s;
      row.longest_sequence = answer.longest_sequence;
      row.arguments = words_of(set, answer);
      for (const CardPrice& price : options_.prices) {
        if (price.device != device) continue;
        row.epoch_cost =
            price.per_hour * static_cast<double>(options_.epoch_samples) / row.samples_per_s / 3600;
      }
    }
    report_.rows.push_back(std::move(row));
  }

  void rank() {
    std::vector<FitRow>& rows = report_.rows;
    if (compares_cards()) {
      // Of a card the fastest set alone; by cost where there are prices, else by speed.
      std::stable_sort(rows.begin(), rows.end(), [](const FitRow& a, const FitRow& b) {
        return a.micro_batch > 0 && b.micro_batch == 0;
      });
      std::vector<FitRow> best;
      for (FitRow& row : rows) {
        const bool has =
            std::any_of(best.begin(), best.end(), [&](const FitRow& b) { return b.device == row.device; });
        if (!has) best.push_back(std::move(row));
      }
      rows = std::move(best);
      std::stable_sort(rows.begin(), rows.end(), [](const FitRow& a, const FitRow& b) {
        if ((a.micro_batch > 0) != (b.micro_batch > 0)) return a.micro_batch > 0;
        if ((a.epoch_cost > 0) != (b.epoch_cost > 0)) return a.epoch_cost > 0;
        return a.epoch_cost > 0 ? a.epoch_cost < b.epoch_cost : a.samples_per_s > b.samples_per_s;
      });
    }
    double plain = 0;
    for (const FitRow& row : rows) {
      if (row.micro_batch == 0) continue;
      if (row.methods.empty()) plain = row.samples_per_s;
    }
    for (const FitRow& row : rows) {
      if (row.micro_batch > 0 && plain == 0) plain = row.samples_per_s;
    }
    for (FitRow& row : rows) row.relative_speed = plain > 0 ? row.samples_per_s / plain : 0;
  }

  [[noreturn]] void refuse() const {
    const auto smallest = std::min_element(
        report_.rows.begin(), report_.rows.end(),
        [](const FitRow& a, const FitRow& b) { return a.smallest_bytes < b.smallest_bytes; });
    const int64_t needed = (smallest->smallest_bytes + kMiB - 1) / kMiB;
    const int64_t allowed = limit_bytes_.value_or(0) / kMiB;
    const std::string methods = smallest->methods.empty()
                                    ? "without further methods"
                                    : fmt::format("with {}", fmt::join(smallest->methods, ", "));
    throw_error(ErrorCode::kWillNotFit,
                "nothing fits: {} MiB allowed; the smallest run of {}, {} of {} tokens a step, needs {} MiB "
                "({}), short by "
                "{} MiB\n  shorten it with --max_seq_length, take a smaller model, or allow --memory {}MiB{}",
                allowed, label_, effective_, length_, needed, methods, needed - allowed, needed,
                options_.with_other_paths ? "" : "; --all_methods tries other optimizers too");
  }

  std::string subject() const {
    std::string text = fmt::format("{}, {} tokens, {} sequences a step", label_, length_, effective_);
    if (compares_cards()) return text + fmt::format(", an epoch of {} sequences", options_.epoch_samples);
    text += ", on " + device_label_;
    return limit_bytes_ ? text + fmt::format(", {} MiB allowed", *limit_bytes_ / kMiB)
                        : text + ", no limit is given";
  }

  // What was asked about, as words, without those that the search chooses and without a card's name, which is
  // not that of a device of the machine that will run it.
  std::string command() const {
    std::string text;
    for (const ArgumentDifference& difference : diff_arguments(Arguments{}, options_.arguments)) {
      const std::string& name = difference.name;
      const bool is_chosen = name == "per_device_train_batch_size" || name == "gradient_accumulation_steps" ||
                             (name == "device" && find_gpu_target(difference.after).has_value());
      // What resolving filled in is no word of the user.
      const bool is_filled = name == "eval_steps" || name == "metric_for_best_model" ||
                             name == "greater_is_better" || name == "do_train";
      if (is_chosen || is_filled) continue;
      const std::optional<int64_t> limit = options_.arguments.memory_limit;
      const bool is_whole = name == "memory_limit" && limit && *limit % kMiB == 0;
      text += fmt::format("{}--{} {}", text.empty() ? "" : " ", name,
                          is_whole ? fmt::format("{}MiB", *limit / kMiB) : difference.after);
    }
    return text;
  }

  const FitOptions& options_;
  const Environment& environment_;
  Arguments base_;
  int64_t length_ = 0;
  int64_t effective_ = 1;
  bool evaluates_ = false;
  std::string label_;
  std::string device_label_;
  std::optional<int64_t> limit_bytes_;
  std::map<std::string, std::vector<MethodSet>> refused_;  // by reason
  double plan_ms_ = 0;
  FitReport report_;
};

}  // namespace

std::vector<CardPrice> parse_prices(std::string_view text, std::string_view source) {
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
      throw_error(ErrorCode::kUsage, "{}:{}: expected a card and its price an hour, 'l4,0.71' for example",
                  source, number);
    }
    if (!find_gpu_target(price.device)) {
      std::vector<std::string> cards;
      for (const GpuTarget& target : gpu_targets()) cards.push_back(target.name);
      throw_error(ErrorCode::kUsage, "{}:{}: '{}' is no card that a plan can be made for; there are {}",
                  source, number, price.device, fmt::join(cards, ", "));
    }
    prices.push_back(std::move(price));
  }
  return prices;
}

FitReport fit_run(const FitOptions& options, const Environment& environment) {
  return Fit(options, environment).run();
}

}  // namespace plimsoll
