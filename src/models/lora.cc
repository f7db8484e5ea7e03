#include "models/lora.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <regex>
#include <set>
#include <utility>

#include "graph/ops/ops.h"
#include "models/architecture.h"
#include "models/freeze.h"

namespace plimsoll {
namespace {

constexpr std::string_view kAllLinear = "all-linear";
constexpr std::string_view kTargets = "lora_target_modules";
constexpr std::string_view kExcluded = "exclude_modules";
constexpr std::string_view kLayers = "layers_to_transform";
constexpr std::string_view kSaved = "modules_to_save";
constexpr std::string_view kWeightSuffix = ".weight";
// The largest accepted length of a regular expression for module names. Useful expressions are shorter.
constexpr size_t kMaxExpressionLength = 1000;
// The largest accepted number of digits of a number in a regular expression for module names. Useful numbers are shorter.
constexpr size_t kMaxDigits = 9;
// Dropout of adapters uses the numbered random sequences (random sites) from this number on; dropout of the model uses smaller numbers.
constexpr int64_t kFirstSite = int64_t{1} << 20;

// Returns how messages name a setting: as the argument --NAME, or as the key of the adapter_config.json that contains it.
std::string setting_name(const LoraConfig& config, std::string_view argument) {
  if (config.source.empty()) return fmt::format("--{}", argument);
  return fmt::format("{}: \"{}\"", config.source, argument == kTargets ? "target_modules" : argument);
}

// Returns how messages name a setting and one of its values.
std::string setting_text(const LoraConfig& config, std::string_view argument, std::string_view value) {
  return fmt::format("{} {}{}", setting_name(config, argument), config.source.empty() ? "" : "contains ",
                     value);
}

// Returns what a message advises for an adapter with a module that Plimsoll does not adapt or train in full. The user of an existing adapter
// cannot choose other modules.
std::string_view other_program(const LoraConfig& config) {
  return config.source.empty()
             ? ""
             : "; if the adapter belongs to this base model, merge it in PEFT (merge_and_unload) and use "
               "the merged model";
}

std::string_view module_of(std::string_view parameter) {
  return parameter.substr(0, parameter.rfind('.'));
}

bool is_or_ends_with(std::string_view name, std::string_view end) {
  return name == end ||
         (name.size() > end.size() && name.ends_with(end) && name[name.size() - end.size() - 1] == '.');
}

// Returns true if the parameter belongs to a module whose name is `module` or ends with it.
bool is_part_of(std::string_view parameter, std::string_view module) {
  for (size_t dot = parameter.rfind('.'); dot != std::string_view::npos; dot = parameter.rfind('.')) {
    parameter = parameter.substr(0, dot);
    if (is_or_ends_with(parameter, module)) return true;
  }
  return false;
}

// Returns every linear module of the model, which is a module whose matrix a matrix product reads.
std::vector<LoraTarget> linear_modules(const std::vector<WeightSpec>& specs) {
  std::vector<LoraTarget> modules;
  for (const WeightSpec& spec : specs) {
    if (spec.shape.size() != 2 || spec.is_table || !spec.name.ends_with(kWeightSuffix)) continue;
    for (const WeightPart& part : spec.parts) {
      const std::string_view module = module_of(part.disk_names.front());
      modules.push_back({.module = std::string(module),
                         .weight = spec.name,
                         .first_row = part.first_row,
                         .out = part.num_rows,
                         .in = spec.shape[1]});
    }
  }
  return modules;
}

// Returns the last components of the names of these modules, without repetition. A user may refer to modules by these names.
std::vector<std::string> short_names(const std::vector<LoraTarget>& modules) {
  std::vector<std::string> names;
  for (const LoraTarget& target : modules) {
    std::string name = target.module.substr(target.module.rfind('.') + 1);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
  }
  return names;
}

bool is_expression(const std::vector<std::string>& targets) {
  return targets.size() == 1 && targets[0].find_first_of("*+?()[]{}|\\^$") != std::string::npos;
}

// Returns true if the parameter is in a module whose name ends with `end`. As in PEFT, `end` need not begin after a dot.
bool is_in_module_ending(std::string_view parameter, std::string_view end) {
  for (size_t dot = parameter.rfind('.'); dot != std::string_view::npos; dot = parameter.rfind('.')) {
    parameter = parameter.substr(0, dot);
    if (parameter.ends_with(end)) return true;
  }
  return false;
}

bool is_saved_in_full(std::string_view parameter, const LoraConfig& config) {
  if (config.saves_head && std::ranges::any_of(kHeadModules, [&](std::string_view head) {
        return is_in_module_ending(parameter, head);
      }))
    return true;
  return std::any_of(config.modules_to_save.begin(), config.modules_to_save.end(),
                     [&](const std::string& module) { return is_in_module_ending(parameter, module); });
}

[[noreturn]] void refuse_target(const std::vector<WeightSpec>& specs, const std::vector<LoraTarget>& modules,
                                const std::string& target, const LoraConfig& config,
                                std::string_view argument = kTargets) {
  for (const WeightSpec& spec : specs) {
    for (const WeightPart& part : spec.parts) {
      if (!is_part_of(part.disk_names.front(), target)) continue;
      throw_error(
          ErrorCode::kUsage,
          "{}: '{}' cannot be adapted, because it is not a linear module, or because it is trained "
          "in full and saved with the adapter; the modules of this model that can be adapted are {}{}",
          setting_text(config, argument, target), module_of(part.disk_names.front()),
          fmt::join(short_names(modules), ", "), other_program(config));
    }
  }
  throw_error(
      ErrorCode::kUsage,
      "{}: no module of this model has such a name; linear modules are {}; the nearest names are {}{}",
      setting_text(config, argument, target), fmt::join(short_names(modules), ", "),
      fmt::join(nearest_names(target, short_names(modules)), ", "), other_program(config));
}

// Compiles an expression, which may come from an untrusted adapter. References to groups are refused, so the time of matching is
// proportional to the number of states of the expression. This number is bounded by the limit on the length and, if counted repetitions
// such as (a{99}){99} multiply it, by a limit of the C++ library.
// The error messages contain `shown` instead of the expression if it is not empty.
std::regex expression_of(const std::string& text, std::string_view setting, std::string_view shown = {}) {
  if (text.size() > kMaxExpressionLength) {
    throw_error(ErrorCode::kUsage,
                "{}: the expression has {} characters, but at most {} are accepted; shorten it", setting,
                text.size(), kMaxExpressionLength);
  }
  // std::regex reads numbers (repetitions, references to groups) into an integer that can overflow, so longer numbers
  // are refused.
  size_t num_digits = 0;
  for (const char c : text) {
    num_digits = c >= '0' && c <= '9' ? num_digits + 1 : 0;
    if (num_digits <= kMaxDigits) continue;
    throw_error(ErrorCode::kUsage,
                "{} {}: the expression contains a number of more than {} digits; shorten the number", setting,
                shown.empty() ? text : shown, kMaxDigits);
  }
  try {
    return std::regex(text, std::regex::ECMAScript | std::regex_constants::__polynomial);
  } catch (const std::regex_error& error) {
    throw_error(ErrorCode::kUsage, "{} {}: this is not a valid regular expression ({}); correct it", setting,
                shown.empty() ? text : shown, error.what());
  }
}

// A component of a module's name that is a number, such as 3 in "layer.3.attention", and the part of the name before it.
struct NumberedPart {
  std::string_view before;
  int64_t number = 0;
};

// Returns the components of a module's name that may be layer numbers by PEFT's rules: numbers that follow at least `fewest_before`
// components and are not the last one. `fewest_before` is 1 if a pattern names the component before the number, otherwise 2.
std::vector<NumberedPart> numbered_parts(std::string_view module, int fewest_before) {
  constexpr size_t kMostDigits = 6;
  std::vector<NumberedPart> parts;
  int place = 0;
  for (size_t begin = 0, end = module.find('.'); end != std::string_view::npos;
       begin = end + 1, end = module.find('.', begin), ++place) {
    const std::string_view part = module.substr(begin, end - begin);
    const bool is_number = !part.empty() && part.size() <= kMostDigits &&
                           std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!is_number || place < fewest_before) continue;
    NumberedPart found{.before = module.substr(0, begin - 1)};
    for (const char digit : part) found.number = 10 * found.number + (digit - '0');
    parts.push_back(found);
  }
  return parts;
}

// Returns the layer number in a module's name, or -1 if it has none. Without `patterns` this is the first number in the name. Otherwise, it
// is the first number for which a pattern matches the part of the name before the number.
int64_t layer_of(std::string_view module, const std::vector<std::regex>& patterns = {}) {
  const std::vector<NumberedPart> parts = numbered_parts(module, patterns.empty() ? 2 : 1);
  if (patterns.empty()) return parts.empty() ? -1 : parts.front().number;
  for (const std::regex& pattern : patterns) {
    for (const NumberedPart& part : parts) {
      if (std::regex_match(part.before.begin(), part.before.end(), pattern)) return part.number;
    }
  }
  return -1;
}

bool has_any_end(std::string_view module, const std::vector<std::string>& ends) {
  return std::any_of(ends.begin(), ends.end(),
                     [&](const std::string& end) { return is_or_ends_with(module, end); });
}

// Removes the modules that `exclude_modules` names and those outside the layers of `layers_to_transform`.
void leave_out(std::vector<LoraTarget>& targets, const LoraConfig& config) {
  const std::vector<std::string>& excluded = config.exclude_modules;
  if (is_expression(excluded)) {
    const std::regex expression = expression_of(excluded[0], setting_name(config, kExcluded));
    std::erase_if(targets,
                  [&](const LoraTarget& target) { return std::regex_match(target.module, expression); });
  } else {
    std::erase_if(targets, [&](const LoraTarget& target) { return has_any_end(target.module, excluded); });
  }
  const std::vector<int64_t>& layers = config.layers_to_transform;
  if (!layers.empty()) {
    std::vector<std::regex> patterns;
    for (const std::string& pattern : config.layers_pattern) {
      patterns.push_back(expression_of("(?:.*\\.)?(?:" + pattern + ")", "layers_pattern",
                                       fmt::format("'{}' in adapter_config.json", pattern)));
    }
    std::erase_if(targets, [&](const LoraTarget& target) {
      return std::find(layers.begin(), layers.end(), layer_of(target.module, patterns)) == layers.end();
    });
  }
  if (!targets.empty()) return;
  if (!config.layers_pattern.empty()) {
    throw_error(ErrorCode::kUsage,
                "layers_pattern '{}' in adapter_config.json: none of the modules in target_modules is in a "
                "list of layers with this name and has a number of layers_to_transform ({}), so no module is "
                "left to adapt; set layers_pattern to null",
                fmt::join(config.layers_pattern, "', '"), fmt::join(layers, ", "));
  }
  throw_error(ErrorCode::kUsage,
              "{}: the setting excludes all modules that {} chooses, so no module is left to adapt; "
              "exclude fewer",
              setting_name(config, layers.empty() ? kExcluded : kLayers),
              config.source.empty() ? "--lora_target_modules" : "target_modules");
}

// Refuses layers_to_transform unless target_modules is a list of names. PEFT refuses such a configuration, and it must be able to read a
// saved adapter.
void check_layers(const LoraConfig& config) {
  const std::vector<std::string>& targets = config.target_modules;
  const bool is_text = is_expression(targets) || (targets.size() == 1 && targets[0] == kAllLinear);
  if (config.layers_to_transform.empty() || !is_text) return;
  throw_error(ErrorCode::kUsage,
              "{}: layers can only be chosen together with suffixes of module names, "
              "but {} is {}; give suffixes such as query,value, or put the layers into the expression: "
              ".*layer\\.[0-3]\\..*query",
              setting_text(config, kLayers, fmt::format("{}", fmt::join(config.layers_to_transform, ","))),
              config.source.empty() ? "--lora_target_modules" : "target_modules", targets[0]);
}

void check_modules_to_save(const std::vector<WeightSpec>& specs, const LoraConfig& config) {
  for (const std::string& module : config.modules_to_save) {
    // The default of modules_to_save in PEFT lists every name that a classifier may have. A name of a classifier that this model does not
    // have is therefore no error.
    if (std::ranges::find(kHeadModules, module) != kHeadModules.end()) continue;
    const auto is_inside = [&](const WeightPart& part) {
      return is_in_module_ending(part.disk_names.front(), module);
    };
    const auto has_part = [&](const WeightSpec& spec) {
      return std::any_of(spec.parts.begin(), spec.parts.end(), is_inside);
    };
    if (std::none_of(specs.begin(), specs.end(), has_part)) {
      throw_error(ErrorCode::kUsage, "{}: no module of this model has such a name; {}",
                  setting_text(config, kSaved, module),
                  config.source.empty()
                      ? "give the end of a module's name, such as classifier"
                      : "a head that shares its matrix with the embeddings, as lm_head does in GPT-2, cannot "
                        "be trained separately here. If the adapter belongs to this base model, merge it in "
                        "PEFT (merge_and_unload) and use the merged model");
    }
    for (const WeightSpec& spec : specs) {
      const bool is_whole = std::all_of(spec.parts.begin(), spec.parts.end(), [&](const WeightPart& part) {
        return is_saved_in_full(part.disk_names.front(), config);
      });
      if (is_whole || !has_part(spec)) continue;
      throw_error(ErrorCode::kUsage,
                  "{}: query, key and value of a layer are one matrix in memory and can only be "
                  "trained together{}",
                  setting_text(config, kSaved, module),
                  config.source.empty()
                      ? ": name all three or attention.self, or adapt it with --lora_target_modules"
                      : other_program(config));
    }
  }
}

// Returns the modules that target_modules selects by suffixes of names, by an expression or by all-linear.
std::vector<LoraTarget> named_modules(const std::vector<WeightSpec>& specs,
                                      const std::vector<LoraTarget>& modules,
                                      const std::vector<std::string>& wanted, const LoraConfig& config) {
  if (wanted.size() == 1 && wanted[0] == kAllLinear) return modules;
  std::vector<LoraTarget> chosen;
  if (is_expression(wanted)) {
    const std::regex expression = expression_of(wanted[0], setting_name(config, kTargets));
    std::copy_if(modules.begin(), modules.end(), std::back_inserter(chosen),
                 [&](const LoraTarget& target) { return std::regex_match(target.module, expression); });
    if (chosen.empty()) refuse_target(specs, modules, wanted[0], config);
    return chosen;
  }
  for (const std::string& name : wanted) {
    if (std::none_of(modules.begin(), modules.end(),
                     [&](const LoraTarget& target) { return is_or_ends_with(target.module, name); })) {
      refuse_target(specs, modules, name, config);
    }
  }
  std::copy_if(modules.begin(), modules.end(), std::back_inserter(chosen),
               [&](const LoraTarget& target) { return has_any_end(target.module, wanted); });
  return chosen;
}

// Rebuilds a graph op by op and inserts each adapter after the matrix product of its module.
class AddLora {
 public:
  AddLora(Graph& graph, const std::vector<LoraTarget>& targets, const LoraConfig& config, Mode mode)
      : graph_(graph), targets_(targets), config_(config), mode_(mode) {}

  void run() {
    const std::vector<Op> old_ops = graph_.ops();
    const std::vector<const Op*> bias_of = find_biases(old_ops);
    graph_.replace_ops({});
    // Contains, for each value to which the result of an adapter is added, the sum, which later ops read instead of the value; kNoValue for
    // all other values.
    std::vector<ValueId> replacement(graph_.values().size(), kNoValue);
    // Contains, for each value after whose op an adapter is to be inserted, the weight and the input of the matrix product that gets the
    // adapter.
    struct Pending {
      ValueId weight;
      ValueId x;
    };
    std::vector<std::optional<Pending>> pending(graph_.values().size());
    for (Op op : old_ops) {
      for (ValueId& id : op.inputs) {
        if (id != kNoValue && replacement[index_of(id)] != kNoValue) id = replacement[index_of(id)];
      }
      const ValueId y = op.outputs.front();
      if (op.def == &matmul_op() && has_adapter(op.inputs[MatmulOp::kB])) {
        const Op* bias = bias_of[index_of(y)];
        const ValueId at = bias != nullptr ? bias->outputs.front() : y;
        pending[index_of(at)] = Pending{op.inputs[MatmulOp::kB], op.inputs[MatmulOp::kA]};
      }
      graph_.set_current_module(op.module);
      graph_.set_segment(op.segment);
      graph_.ops().push_back(std::move(op));
      if (index_of(y) < pending.size() && pending[index_of(y)]) {
        const Pending& product = *pending[index_of(y)];
        replacement[index_of(y)] = adapted(y, product.weight, product.x);
      }
    }
    graph_.replace_ops(graph_.ops());
  }

 private:
  // Returns, for each value, the op that adds a bias to it, or null.
  std::vector<const Op*> find_biases(const std::vector<Op>& ops) const {
    std::vector<const Op*> biases(graph_.values().size(), nullptr);
    for (const Op& op : ops) {
      if (op.def == &bias_add_op()) biases[index_of(op.inputs[BiasAddOp::kX])] = &op;
    }
    return biases;
  }

  bool has_adapter(ValueId weight) const {
    const std::string& name = graph_.value(weight).name;
    return std::any_of(targets_.begin(), targets_.end(),
                       [&](const LoraTarget& target) { return target.weight == name; });
  }

  ValueId weight(const std::string& name, int64_t rows, int64_t columns, DType dtype) {
    return graph_.add_value(name, {dtype, Shape{rows, columns}}, Storage::kWeight);
  }

  ValueId dropped(ValueId x, int64_t site, const std::string& module) {
    if (mode_ != Mode::kTrain || config_.dropout == 0.0) return x;
    ValueId rng = graph_.find("rng");
    if (rng == kNoValue)
      rng = graph_.add_input("rng", {DType::kI64, Shape{2}}, {.source = InputSource::kRandom});
    return emit_dropout(graph_, x, rng, {.p = config_.dropout, .site = site}, module + ".lora_dropout");
  }

  // Returns y plus the results of all adapters of the weight `base` for the input x.
  ValueId adapted(ValueId y, ValueId base, ValueId x) {
    const DType dtype = graph_.value(base).type.dtype;
    for (size_t i = 0; i < targets_.size(); ++i) {
      const LoraTarget& target = targets_[i];
      if (target.weight != graph_.value(base).name) continue;
      const ValueId a = weight(target.a(), target.r, target.in, dtype);
      const ValueId b = weight(target.b(), target.out, target.r, dtype);
      const ValueId input = dropped(x, kFirstSite + static_cast<int64_t>(i), target.module);
      ValueId low = emit_matmul(graph_, input, MatmulTranspose::kNo, a, MatmulTranspose::kYes,
                                target.module + ".lora_A");
      // The scale is applied to the product with A, which is much narrower than the output.
      if (config_.scale() != 1.0) {
        low = emit(graph_, columns_op(), {low},
                   {{"first", int64_t{0}}, {"count", target.r}, {"scale", config_.scale()}},
                   target.module + ".scaled");
      }
      const ValueId delta =
          emit_matmul(graph_, low, MatmulTranspose::kNo, b, MatmulTranspose::kYes, target.module + ".lora_B");
      const bool whole = graph_.value(y).type == graph_.value(delta).type;
      const std::string name = target.module + ".adapted";
      y = whole ? emit(graph_, add_op(), {y, delta}, {}, name)
                : emit(graph_, add_columns_op(), {y, delta}, {{"first", target.first_row}}, name);
    }
    return y;
  }

  Graph& graph_;
  const std::vector<LoraTarget>& targets_;
  const LoraConfig& config_;
  Mode mode_;
};

}  // namespace

std::vector<std::string> default_lora_targets(std::string_view model_type) {
  const auto targets = architecture_of(model_type).lora_targets;
  return {targets.begin(), targets.end()};
}

double LoraConfig::scale() const {
  return alpha / (use_rslora ? std::sqrt(static_cast<double>(r)) : static_cast<double>(r));
}

int64_t LoraConfig::rank_of(int64_t rows, int64_t columns) const {
  return base_change == BaseChange::kNone ? r : std::min({r, rows, columns});
}

std::vector<LoraTarget> lora_targets(const std::vector<WeightSpec>& specs, std::string_view model_type,
                                     const LoraConfig& config) {
  if (config.r < 1) throw_error(ErrorCode::kUsage, "--lora_r {}: the rank must be at least 1", config.r);
  check_modules_to_save(specs, config);
  check_layers(config);
  std::vector<LoraTarget> modules = linear_modules(specs);
  std::erase_if(modules, [&](const LoraTarget& target) {
    return is_saved_in_full(target.module + std::string(kWeightSuffix), config);
  });
  std::vector<std::string> wanted = config.target_modules;
  if (wanted.empty()) wanted = default_lora_targets(model_type);
  if (wanted.empty()) {
    throw_error(ErrorCode::kUsage,
                "{}LoRA has no default modules for the architecture {}: give {} with some "
                "of {}, or all-linear",
                config.source.empty() ? "" : config.source + ": ", model_type,
                config.source.empty() ? "--lora_target_modules" : "\"target_modules\"",
                fmt::join(short_names(modules), ", "));
  }
  std::vector<LoraTarget> chosen = named_modules(specs, modules, wanted, config);
  leave_out(chosen, config);
  for (LoraTarget& target : chosen) target.r = config.rank_of(target.out, target.in);
  return chosen;
}

void check_left_out(const std::vector<WeightSpec>& specs, const LoraConfig& config) {
  const std::vector<LoraTarget> modules = linear_modules(specs);
  if (!config.exclude_modules.empty() && !is_expression(config.exclude_modules)) {
    for (const std::string& name : config.exclude_modules) {
      if (std::none_of(modules.begin(), modules.end(),
                       [&](const LoraTarget& module) { return is_or_ends_with(module.module, name); }))
        refuse_target(specs, modules, name, config, kExcluded);
    }
  }
  std::set<int64_t> layers;
  for (const LoraTarget& module : modules) layers.insert(layer_of(module.module));
  layers.erase(-1);
  for (const int64_t layer : config.layers_to_transform) {
    if (layers.contains(layer)) continue;
    throw_error(
        ErrorCode::kUsage,
        "--layers_to_transform {}: there is no such layer; this model has {}; give numbers in this range",
        layer, layers.empty() ? "none" : fmt::format("{} to {}", *layers.begin(), *layers.rbegin()));
  }
  for (const std::string& name : config.as_loaded_modules) {
    const bool exists = std::any_of(specs.begin(), specs.end(), [&](const WeightSpec& spec) {
      return std::any_of(spec.parts.begin(), spec.parts.end(),
                         [&](const WeightPart& part) { return is_part_of(part.disk_names.front(), name); });
    });
    // Users of PEFT list every name that a classifier may have in llm_int8_skip_modules, so it is no error if the model has no module of
    // one of these names.
    if (exists || name == "score" || name == "pre_classifier") continue;
    throw_error(
        ErrorCode::kUsage,
        "--llm_int8_skip_modules {}: no module of this model has such a name; the nearest names are {}", name,
        fmt::join(nearest_names(name, short_names(modules)), ", "));
  }
}

bool is_held_as_loaded(const WeightSpec& spec, const LoraConfig& config) {
  const auto is_named = [&](const WeightPart& part) {
    return std::any_of(config.as_loaded_modules.begin(), config.as_loaded_modules.end(),
                       [&](const std::string& name) { return is_part_of(part.disk_names.front(), name); });
  };
  const auto named = std::count_if(spec.parts.begin(), spec.parts.end(), is_named);
  if (named == 0 || named == std::ssize(spec.parts)) return named > 0;
  throw_error(ErrorCode::kUsage,
              "--llm_int8_skip_modules {}: query, key and value of a layer are one matrix in memory and are "
              "stored in one format: name all three, or attention.self",
              fmt::join(config.as_loaded_modules, ","));
}

bool is_saved_with_adapter(const std::string& module, const LoraConfig& config) {
  return is_saved_in_full(module + std::string(kWeightSuffix), config);
}

void exclude_saved_targets(const std::vector<WeightSpec>& specs, LoraConfig& config) {
  const auto is_named = [&](const std::string& parameter) {
    if (config.saves_head &&
        std::ranges::any_of(kHeadModules, [&](std::string_view head) { return is_part_of(parameter, head); }))
      return true;
    return std::any_of(config.modules_to_save.begin(), config.modules_to_save.end(),
                       [&](const std::string& module) { return is_part_of(parameter, module); });
  };
  for (const LoraTarget& target : linear_modules(specs)) {
    const std::string parameter = target.module + std::string(kWeightSuffix);
    if (!is_saved_in_full(parameter, config) || is_named(parameter)) continue;
    const std::vector<std::string>& wanted = config.target_modules;
    const bool is_target =
        (wanted.size() == 1 && wanted[0] == kAllLinear) ||
        (is_expression(wanted)
             ? std::regex_match(target.module, expression_of(wanted[0], setting_name(config, kTargets)))
             : has_any_end(target.module, wanted));
    if (!is_target) continue;
    if (is_expression(config.exclude_modules)) {
      config.exclude_modules[0] = "(?:" + config.exclude_modules[0] + ")|" + target.module;
    } else {
      config.exclude_modules.push_back(target.module);
    }
  }
}

void add_lora_weights(std::vector<WeightSpec>& specs, std::string_view model_type, const LoraConfig& config) {
  const std::vector<LoraTarget> targets = lora_targets(specs, model_type, config);
  for (WeightSpec& spec : specs) {
    spec.in_adapter = is_saved_in_full(spec.parts.front().disk_names.front(), config);
    spec.trainable = spec.in_adapter;
  }
  const auto add = [&](std::string name, std::vector<int64_t> shape, Initializer initializer) {
    WeightPart part{{name}, 0, shape[0]};
    specs.push_back({.name = std::move(name),
                     .shape = std::move(shape),
                     .initializer = initializer,
                     .parts = {std::move(part)},
                     .in_model = false,
                     .in_adapter = true});
  };
  for (const LoraTarget& target : targets) {
    add(target.a(), {target.r, target.in}, Initializer::kUniform);
    add(target.b(), {target.out, target.r}, Initializer::kZeros);
  }
}

void add_lora(Graph& graph, const std::vector<LoraTarget>& targets, const LoraConfig& config, Mode mode) {
  AddLora(graph, targets, config, mode).run();
}

}  // namespace plimsoll
