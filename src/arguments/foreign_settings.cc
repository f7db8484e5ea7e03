// Sets the settings that configurations of other programs request, and refuses values that contradict settings that the
// user gave.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "arguments/argument_file.h"
#include "arguments/foreign_config.h"
#include "arguments/value.h"
#include "base/check.h"
#include "base/optimizer_table.h"

namespace plimsoll {
namespace {

// Returns true for a JSON object on the command line or in a settings file; any other text is the name of a file.
bool is_json(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && (text[first] == '{' || text[first] == '[');
}

ForeignConfig load(const ForeignKeys& table, const std::string& value) {
  const std::string argument = fmt::format("--{}", table.argument);
  if (is_json(value)) return read_foreign_config(table, value, argument);
  const std::string name = fmt::format("{} {}", argument, value);
  return read_foreign_config(table, read_argument_text(value, name), name);
}

std::optional<double> parsed_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// Returns true if two values of a setting have the same meaning, such as two names of one optimizer.
bool are_equal(const Setting& setting, const std::string& a, const std::string& b) {
  if (a == b) return true;
  if (setting.info.name == "optim") {
    const OptimizerName *first = find_optimizer_name(a), *second = find_optimizer_name(b);
    return first != nullptr && second != nullptr && first->is_here() && first->runs == second->runs &&
           first->is_paged == second->is_paged;
  }
  const std::optional<double> first = parsed_number(a), second = parsed_number(b);
  return first && second && *first == *second;
}

class Replacer {
 public:
  Replacer(Arguments& arguments, const std::set<std::string>* given)
      : arguments_(arguments), original_(arguments), given_(given) {}

  void replace_deepspeed() {
    if (arguments_.deepspeed.empty()) return;
    const ForeignConfig config = load(deepspeed_keys(), arguments_.deepspeed);
    apply(config);
    finish(config, "write \"auto\" for the key, or leave the argument out");
    check_equal(config);
  }

  void replace_fsdp() {
    const std::optional<bool> flag = bool_from_text(arguments_.fsdp);
    if (arguments_.fsdp.empty() || flag == false) {
      if (!arguments_.fsdp_config.empty())
        result_.notes.emplace_back("--fsdp_config has no effect without --fsdp");
      return;
    }
    ForeignConfig options = read_fsdp_options(arguments_.fsdp);
    ForeignConfig config;
    if (!arguments_.fsdp_config.empty()) config = load(fsdp_keys(), arguments_.fsdp_config);
    const auto is_stage = [](const ForeignValue& value) { return value.setting == "zero_stage"; };
    const bool has_stage =
        std::ranges::any_of(options.values, is_stage) || std::ranges::any_of(config.values, is_stage);
    // If --fsdp names no sharding strategy, FSDP divides weights, gradients and optimizer states.
    if (!has_stage) {
      options.values.push_back({.key = nullptr,
                                .where = "--fsdp",
                                .shown = arguments_.fsdp,
                                .setting = "zero_stage",
                                .text = "3"});
    }
    for (const ForeignConfig& part : {options, config}) {
      apply(part);
      finish(part, "give one of them");
    }
  }

  void replace_parallelism() {
    if (arguments_.parallelism_config.empty()) return;
    const ForeignConfig config = load(parallelism_keys(), arguments_.parallelism_config);
    apply_sizes(config);
    finish(config, "change one of them");
  }

  Replacement take() {
    for (std::string Arguments::*text :
         {&Arguments::deepspeed, &Arguments::fsdp, &Arguments::fsdp_config, &Arguments::parallelism_config})
      (arguments_.*text).clear();
    return std::move(result_);
  }

 private:
  bool is_given(const Setting& setting) const {
    return given_ != nullptr ? given_->contains(std::string(setting.info.name))
                             : !is_default(original_, setting);
  }
  bool is_given(std::string_view name) const { return is_given(*find_setting(name)); }

  void apply(const ForeignConfig& config) {
    for (const ForeignValue& value : config.values) {
      if (value.key == nullptr || value.key->use == KeyUse::kSets) apply(value);
    }
  }

  // Sets a setting that the user did not give. If the user gave it another value, a message about the contradiction is
  // stored, and finish() throws it.
  void apply(const ForeignValue& value) {
    const size_t dot = value.setting.find('.');
    const std::string name = value.setting.substr(0, dot);
    const Setting* setting = find_setting(name);
    PLIMSOLL_CHECK(setting != nullptr, "{} sets the unknown setting {}", value.where, name);
    if (const auto [before, is_new] = keys_.emplace(value.setting, value);
        !is_new && before->second.text != value.text) {
      throw_error(ErrorCode::kUsage, "{} is {}, but {} is {}; both set --{}, give one of them", value.where,
                  value.shown, before->second.where, before->second.shown, name);
    }
    Arguments wanted = arguments_;
    std::string before, after;
    bool is_set = is_given(*setting);
    if (dot == std::string::npos) {
      set_from_text(wanted, *setting, value.text, value.where);
      before = format_value(arguments_, *setting);
      after = format_value(wanted, *setting);
    } else {
      const std::string option = value.setting.substr(dot + 1);
      KeyValues& pairs = wanted.*std::get<KeyValues Arguments::*>(setting->member);
      const auto present = pairs.find(option);
      is_set = present != pairs.end();
      before = is_set ? present->second : "";
      after = pairs[option] = value.text;
    }
    const bool is_same = are_equal(*setting, before, after);
    if (is_set) {
      if (!is_same) {
        contradictions_.push_back(fmt::format(
            "{} is {}, but --{} is {}", value.where, value.shown,
            dot == std::string::npos ? name : fmt::format("{} {}", name, value.setting.substr(dot + 1)),
            before.empty() ? "not set" : before));
      }
      return;
    }
    result_.places[name] = value.where;
    if (is_same) return;
    assign(arguments_, wanted, *setting);
    sets_.push_back(fmt::format("--{} {}", name, format_value(arguments_, *setting)));
  }

  // Throws if the configuration contradicts given settings. Otherwise adds notes about what the configuration set and
  // which of its keys have no effect.
  void finish(const ForeignConfig& config, std::string_view remedy) {
    if (!contradictions_.empty())
      throw_error(ErrorCode::kUsage, "{}; {}", fmt::join(contradictions_, "; "), remedy);
    if (!sets_.empty())
      result_.notes.push_back(fmt::format("{} sets {}", config.name, fmt::join(sets_, ", ")));
    sets_.clear();
    if (!config.unused.empty()) {
      result_.notes.push_back(fmt::format(
          "{}: {} no effect here, for the reasons in docs/ARGUMENTS.md: {}", config.name,
          config.unused.size() == 1 ? "one key has" : "these keys have", fmt::join(config.unused, ", ")));
    }
    result_.notes.insert(result_.notes.end(), config.notes.begin(), config.notes.end());
  }

  // Throws if a key whose use is KeyUse::kEquals differs from the value of its setting.
  void check_equal(const ForeignConfig& config) const {
    for (const ForeignValue& value : config.values) {
      if (value.key == nullptr || value.key->use != KeyUse::kEquals) continue;
      const Setting& setting = *find_setting(value.setting);
      const std::string now = format_value(arguments_, setting);
      if (are_equal(setting, now, value.text)) continue;
      throw_error(ErrorCode::kUsage,
                  "{} is {}, but --{} is {}: {}; give --{} {}, or write \"auto\" for the key", value.where,
                  value.shown, value.setting, now, value.key->note, value.setting, value.text);
    }
  }

  // Sets the number of ranks and what they divide, from the keys whose use is KeyUse::kSize.
  void apply_sizes(const ForeignConfig& config) {
    constexpr int64_t kMostRanks = int64_t{1} << 24;
    int64_t copies = 1, slices = 1;
    // `groups` has the sizes of groups of ranks that read the same batches, by setting (such as tp_size); group_sources has their keys.
    std::map<std::string_view, int64_t> groups;
    std::vector<const ForeignValue*> group_sources;
    const ForeignValue* source = nullptr;  // the key that states the number of ranks with different batches
    for (const ForeignValue& value : config.values) {
      int64_t size = 0;
      std::from_chars(value.text.data(), value.text.data() + value.text.size(), size);
      if (size < 1 || size > kMostRanks) {
        throw_error(ErrorCode::kUsage, "{} is {}: expected a number of ranks from 1 to {}", value.where,
                    value.shown, kMostRanks);
      }
      if (!value.key->path.starts_with("dp_")) {
        if (size == 1) continue;
        const auto [it, inserted] = groups.try_emplace(value.key->setting, size);
        if (!inserted) {
          throw_error(
              ErrorCode::kUsage,
              "{} is {}, but another key also sets --{}, to {}: both state over how many ranks the same "
              "sequences are divided; give one of them",
              value.where, value.shown, value.key->setting, it->second);
        }
        group_sources.push_back(&value);
        continue;
      }
      (value.key->path == "dp_shard_size" ? slices : copies) = size;
      if (size > 1) source = &value;
    }
    int64_t group_size = 1;
    for (const auto& [setting, size] : groups) group_size *= size;
    for (const ForeignValue* value : group_sources) apply(*value);
    // If the configuration states only sizes of groups that read the same batches, the number of groups follows from the number of ranks
    // that the user gave; if the user gave none, there is one group.
    if (!group_sources.empty() && source == nullptr && !is_given("nproc_per_node"))
      apply_ranks(*group_sources.front(), group_size);
    if (source == nullptr) return;
    if (copies > 1 && slices > 1) {
      throw_error(
          ErrorCode::kUsage,
          "{}: 'dp_replicate_size' is {} and 'dp_shard_size' is {}: shards within a machine and replicas "
          "among machines are not in this version; give 'dp_shard_size' alone to divide the states "
          "among all ranks, or 'dp_replicate_size' alone to divide nothing",
          config.name, copies, slices);
    }
    apply_ranks(*source, copies * slices * group_size);
    const bool has_stage = is_given("zero_stage") || keys_.contains("zero_stage");
    const bool divides = slices > 1;
    if (has_stage && divides != (arguments_.zero_stage.value_or(0) > 0)) {
      contradictions_.push_back(fmt::format("{} is {}, which divides {}, but --zero_stage is {}",
                                            source->where, source->shown, divides ? "weights" : "nothing",
                                            arguments_.zero_stage.value_or(0)));
    } else if (!has_stage) {
      ForeignValue stage = *source;
      stage.setting = "zero_stage";
      stage.text = divides ? "3" : "0";
      apply(stage);
    }
  }

  void apply_ranks(const ForeignValue& source, int64_t ranks) {
    const int64_t machines = arguments_.nnodes;
    if (is_given("nproc_per_node") || ranks % machines != 0) {
      if (num_ranks(arguments_) == ranks) return;
      contradictions_.push_back(fmt::format("{} is {}, but --nproc_per_node {} and --nnodes {} start {}",
                                            source.where, source.shown, arguments_.nproc_per_node, machines,
                                            num_ranks(arguments_)));
      return;
    }
    ForeignValue processes = source;
    processes.setting = "nproc_per_node";
    processes.text = fmt::format("{}", ranks / machines);
    apply(processes);
  }

  Arguments& arguments_;
  const Arguments original_;
  const std::set<std::string>* given_;
  Replacement result_;
  std::map<std::string, ForeignValue> keys_;  // for each setting that was set, the key that set it
  std::vector<std::string> contradictions_;
  std::vector<std::string> sets_;
};

}  // namespace

Replacement replace_foreign_configs(Arguments& arguments, const std::set<std::string>* given) {
  const bool is_plain = arguments.deepspeed.empty() && arguments.fsdp.empty() &&
                        arguments.fsdp_config.empty() && arguments.parallelism_config.empty();
  if (is_plain) return {};
  for (const Exclusion& row : exclusions()) {
    if (row.first.setting == "deepspeed") check_exclusion(arguments, row);
  }
  Replacer replacer(arguments, given);
  replacer.replace_deepspeed();
  replacer.replace_fsdp();
  replacer.replace_parallelism();
  return replacer.take();
}

}  // namespace plimsoll
