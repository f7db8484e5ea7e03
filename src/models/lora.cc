#include "models/lora.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <regex>
#include <set>
#include <utility>

#include "graph/ops/ops.h"
#include "models/freeze.h"

namespace plimsoll {
namespace {

constexpr std::string_view kAllLinear = "all-linear";
constexpr std::string_view kWeightSuffix = ".weight";
// More than names of modules ask for.
constexpr size_t kMaxExpressionLength = 1000;
// Draws of the model's own dropout count up from 0.
constexpr int64_t kFirstSite = int64_t{1} << 20;

std::string_view module_of(std::string_view parameter) {
  return parameter.substr(0, parameter.rfind('.'));
}

bool is_or_ends_with(std::string_view name, std::string_view end) {
  return name == end ||
         (name.size() > end.size() && name.ends_with(end) && name[name.size() - end.size() - 1] == '.');
}

// Whether the parameter lies in a module of that name.
bool lies_in(std::string_view parameter, std::string_view module) {
  for (size_t dot = parameter.rfind('.'); dot != std::string_view::npos; dot = parameter.rfind('.')) {
    parameter = parameter.substr(0, dot);
    if (is_or_ends_with(parameter, module)) return true;
  }
  return false;
}

// Every linear module of the model: a matrix with a bias beside it.
std::vector<LoraTarget> linear_modules(const std::vector<WeightSpec>& specs) {
  std::set<std::string_view> biases;
  for (const WeightSpec& spec : specs) {
    if (!spec.name.ends_with(".bias")) continue;
    for (const WeightPart& part : spec.parts) biases.insert(module_of(part.disk_names.front()));
  }
  std::vector<LoraTarget> modules;
  for (const WeightSpec& spec : specs) {
    if (spec.shape.size() != 2 || !spec.name.ends_with(kWeightSuffix)) continue;
    for (const WeightPart& part : spec.parts) {
      const std::string_view module = module_of(part.disk_names.front());
      if (!biases.contains(module)) continue;
      modules.push_back({.module = std::string(module),
                         .weight = spec.name,
                         .first_row = part.first_row,
                         .out = part.num_rows,
                         .in = spec.shape[1]});
    }
  }
  return modules;
}

// The last words of the modules' names, each once: what a user may write.
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

bool is_saved_whole(std::string_view parameter, const LoraConfig& config) {
  if (lies_in(parameter, "classifier")) return true;
  return std::any_of(config.modules_to_save.begin(), config.modules_to_save.end(),
                     [&](const std::string& module) { return lies_in(parameter, module); });
}

[[noreturn]] void refuse_target(const std::vector<WeightSpec>& specs, const std::vector<LoraTarget>& modules,
                                const std::string& target) {
  for (const WeightSpec& spec : specs) {
    for (const WeightPart& part : spec.parts) {
      if (!lies_in(part.disk_names.front(), target)) continue;
      throw_error(ErrorCode::kUsage,
                  "--lora_target_modules {}: '{}' is no linear module that can be adapted; those of this "
                  "model are {}",
                  target, module_of(part.disk_names.front()), fmt::join(short_names(modules), ", "));
    }
  }
  throw_error(ErrorCode::kUsage,
              "--lora_target_modules {}: no module of this model has such a name; linear modules are {}; "
              "near it are {}",
              target, fmt::join(short_names(modules), ", "),
              fmt::join(nearest_names(target, short_names(modules)), ", "));
}

// The text may come with somebody's adapter. Matching takes time in proportion to the states of the
// expression (no references back to groups), and the states are bounded: by the length here, and by the
// library where counted repetitions multiply them.
std::regex expression_of(const std::string& text) {
  if (text.size() > kMaxExpressionLength) {
    throw_error(ErrorCode::kUsage,
                "--lora_target_modules: an expression of {} characters; at most {} are read", text.size(),
                kMaxExpressionLength);
  }
  try {
    return std::regex(text, std::regex::ECMAScript | std::regex_constants::__polynomial);
  } catch (const std::regex_error& error) {
    throw_error(ErrorCode::kUsage, "--lora_target_modules {}: it is no regular expression ({})", text,
                error.what());
  }
}

void check_modules_to_save(const std::vector<WeightSpec>& specs, const LoraConfig& config) {
  for (const std::string& module : config.modules_to_save) {
    // PEFT names every head that a classifier may have.
    if (module == "classifier" || module == "score") continue;
    bool found = false;
    for (const WeightSpec& spec : specs) {
      const auto saved = std::count_if(spec.parts.begin(), spec.parts.end(), [&](const WeightPart& part) {
        return lies_in(part.disk_names.front(), module);
      });
      found = found || saved > 0;
      if (saved == 0 || saved == std::ssize(spec.parts)) continue;
      throw_error(
          ErrorCode::kUsage,
          "--modules_to_save {}: query, key and value of a layer are one matrix in memory and are trained "
          "whole together: name attention.self, or adapt it with --lora_target_modules",
          module);
    }
    if (!found) {
      throw_error(ErrorCode::kUsage, "--modules_to_save {}: no module of this model has such a name", module);
    }
  }
}

// Rebuilds a graph op by op with the adapters behind the products that they belong to.
class AddLora {
 public:
  AddLora(Graph& graph, const std::vector<LoraTarget>& targets, const LoraConfig& config, Mode mode)
      : graph_(graph), targets_(targets), config_(config), mode_(mode) {}

  void run() {
    const std::vector<Op> old_ops = graph_.ops();
    const std::vector<const Op*> bias_of = find_biases(old_ops);
    graph_.replace_ops({});
    // What ops read from here on in place of a value.
    std::vector<ValueId> replacement(graph_.values().size(), kNoValue);
    // The value behind which the adapters of a product are added, and the product's weight and input.
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
      if (op.def == &matmul_op() && has_adapter(op.inputs[1])) {
        const Op* bias = bias_of[index_of(y)];
        const ValueId at = bias != nullptr ? bias->outputs.front() : y;
        pending[index_of(at)] = Pending{op.inputs[1], op.inputs[0]};
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
  // The op that adds a bias to a value, where there is one.
  std::vector<const Op*> find_biases(const std::vector<Op>& ops) const {
    std::vector<const Op*> biases(graph_.values().size(), nullptr);
    for (const Op& op : ops) {
      if (op.def == &bias_add_op()) biases[index_of(op.inputs[0])] = &op;
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
    if (rng == kNoValue) rng = graph_.add_value("rng", {DType::kI64, Shape{2}}, Storage::kInput);
    return emit_dropout(graph_, x, rng, {.p = config_.dropout, .site = site}, module + ".lora_dropout");
  }

  // y and what the adapters of this weight add to it.
  ValueId adapted(ValueId y, ValueId base, ValueId x) {
    const DType dtype = graph_.value(base).type.dtype;
    for (size_t i = 0; i < targets_.size(); ++i) {
      const LoraTarget& target = targets_[i];
      if (target.weight != graph_.value(base).name) continue;
      const ValueId a = weight(target.a(), config_.r, target.in, dtype);
      const ValueId b = weight(target.b(), target.out, config_.r, dtype);
      const ValueId input = dropped(x, kFirstSite + static_cast<int64_t>(i), target.module);
      ValueId low = emit_matmul(graph_, input, MatmulTranspose::kNo, a, MatmulTranspose::kYes,
                                target.module + ".lora_A");
      // The factor meets the narrow product, where it costs nothing.
      if (config_.scale() != 1.0) {
        low = emit(graph_, columns_op(), {low},
                   {{"first", int64_t{0}}, {"count", config_.r}, {"scale", config_.scale()}},
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

double LoraConfig::scale() const {
  return alpha / (use_rslora ? std::sqrt(static_cast<double>(r)) : static_cast<double>(r));
}

std::vector<LoraTarget> lora_targets(const std::vector<WeightSpec>& specs, std::string_view model_type,
                                     const LoraConfig& config) {
  if (config.r < 1) throw_error(ErrorCode::kUsage, "--lora_r {}: a rank is at least 1", config.r);
  check_modules_to_save(specs, config);
  std::vector<LoraTarget> modules = linear_modules(specs);
  std::erase_if(modules, [&](const LoraTarget& target) {
    return is_saved_whole(target.module + std::string(kWeightSuffix), config);
  });
  std::vector<std::string> wanted = config.target_modules;
  if (wanted.empty() && model_type == "bert") wanted = {"query", "value"};
  if (wanted.empty()) {
    throw_error(
        ErrorCode::kUsage,
        "LoRA has no usual modules for the architecture {}: give --lora_target_modules with some of {}, or "
        "all-linear",
        model_type, fmt::join(short_names(modules), ", "));
  }
  if (wanted.size() == 1 && wanted[0] == kAllLinear) return modules;
  std::vector<LoraTarget> chosen;
  if (is_expression(wanted)) {
    const std::regex expression = expression_of(wanted[0]);
    for (LoraTarget& target : modules) {
      if (std::regex_match(target.module, expression)) chosen.push_back(std::move(target));
    }
    if (chosen.empty()) refuse_target(specs, modules, wanted[0]);
    return chosen;
  }
  for (const std::string& name : wanted) {
    if (std::none_of(modules.begin(), modules.end(),
                     [&](const LoraTarget& target) { return is_or_ends_with(target.module, name); })) {
      refuse_target(specs, modules, name);
    }
  }
  for (LoraTarget& target : modules) {
    if (std::any_of(wanted.begin(), wanted.end(),
                    [&](const std::string& name) { return is_or_ends_with(target.module, name); })) {
      chosen.push_back(std::move(target));
    }
  }
  return chosen;
}

void add_lora_weights(std::vector<WeightSpec>& specs, std::string_view model_type, const LoraConfig& config) {
  const std::vector<LoraTarget> targets = lora_targets(specs, model_type, config);
  for (WeightSpec& spec : specs) {
    spec.in_adapter = is_saved_whole(spec.parts.front().disk_names.front(), config);
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
    add(target.a(), {config.r, target.in}, Initializer::kUniform);
    add(target.b(), {target.out, config.r}, Initializer::kZeros);
  }
}

void add_lora(Graph& graph, const std::vector<LoraTarget>& targets, const LoraConfig& config, Mode mode) {
  AddLora(graph, targets, config, mode).run();
}

}  // namespace plimsoll
