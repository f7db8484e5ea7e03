#include "plan/anatomy/anatomy.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <unordered_map>

#include "plan/anatomy/memory.h"

namespace plimsoll {
namespace {

// The modules of a plan by name, in the order in which its programs first use them.
class ModuleList {
 public:
  ModuleMemory& operator[](const std::string& name) { return rows_[place_of(name)]; }
  // Adds the modules to which the ops of a program belong.
  void add(const Graph& graph) {
    std::vector<bool> is_added(graph.modules().size(), false);
    for (const Op& op : graph.ops()) {
      if (is_added[index_of(op.module)]) continue;
      is_added[index_of(op.module)] = true;
      place_of(graph.module_name(op.module));
    }
  }
  std::vector<ModuleMemory> take() { return std::move(rows_); }

 private:
  size_t place_of(const std::string& name) {
    const auto [it, inserted] = index_.emplace(name, rows_.size());
    if (inserted) rows_.push_back({.module = name});
    return it->second;
  }

  std::unordered_map<std::string, size_t> index_;
  std::vector<ModuleMemory> rows_;
};

void add_persistent(const Plan& plan, ModuleList& modules) {
  std::unordered_map<std::string_view, const std::string*> module_of_weight;
  for (const PersistentBuffer& buffer : plan.persistent) {
    if (buffer.storage == Storage::kWeight) module_of_weight[buffer.name] = &buffer.module;
  }
  for (const auto& [weight, parts] : plan.split_weights)
    module_of_weight[weight] = &plan.buffer(parts.high).module;
  for (const PersistentBuffer& buffer : plan.persistent) {
    if (buffer.space != Space::kDevice) continue;
    // An optimizer state is called "adamw.m/NAME" for the weight NAME, and belongs to the module of this weight.
    const auto weight =
        module_of_weight.find(std::string_view(buffer.name).substr(buffer.name.find('/') + 1));
    ModuleMemory& row = modules[weight == module_of_weight.end() ? buffer.module : *weight->second];
    switch (purpose_of(buffer.storage)) {
      case Purpose::kWeights:
        row.weight_bytes += buffer.bytes;
        break;
      case Purpose::kOptimizerStates:
        row.state_bytes += buffer.bytes;
        break;
      case Purpose::kGradients:
        row.gradient_bytes_at_most += buffer.bytes;
        break;
      default:
        row.staging_bytes += buffer.bytes;
    }
  }
  for (const WeightSpec& spec : plan.weights) {
    const auto weight = module_of_weight.find(spec.name);
    if (weight != module_of_weight.end()) modules[*weight->second].num_parameters += spec.elements();
  }
}

// A change of the number of live bytes at one position of the program: a buffer's bytes are added at its first op and subtracted after
// its last op.
struct Change {
  uint32_t position = 0;
  int64_t bytes = 0;
};

int64_t highest_sum(std::vector<Change>& changes) {
  // If one buffer ends and another one begins at the same position, the ending one is subtracted first, because it was no longer live at
  // this op.
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return a.position != b.position ? a.position < b.position : a.bytes < b.bytes;
  });
  int64_t sum = 0;
  int64_t highest = 0;
  for (const Change& change : changes) highest = std::max(highest, sum += change.bytes);
  return highest;
}

void add_transient(const ProgramPlan& program, ModuleList& modules) {
  std::map<std::pair<std::string_view, Purpose>, std::vector<Change>> by_name;
  // For each module and purpose, a pointer to the changes of its live bytes in `by_name`; null until there is a change.
  std::vector<std::array<std::vector<Change>*, kNumPurposes>> lists(program.graph.modules().size());
  for (const TransientBuffer& buffer : program.buffers) {
    const ModuleId module = buffer.root == kNoValue ? program.graph.ops()[buffer.op].module
                                                    : program.graph.value(buffer.root).module;
    std::vector<Change>*& list = lists[index_of(module)][index_of(buffer.purpose)];
    if (list == nullptr) list = &by_name[{program.graph.module_name(module), buffer.purpose}];
    list->push_back({buffer.first, buffer.bytes});
    list->push_back({buffer.last + 1, -buffer.bytes});
  }
  for (auto& [key, list] : by_name) {
    ModuleMemory& row = modules[std::string(key.first)];
    const int64_t highest = highest_sum(list);
    if (key.second == Purpose::kGradients) {
      row.gradient_bytes_at_most += highest;
    } else if (key.second == Purpose::kSaved) {
      row.saved_bytes_at_most = std::max(row.saved_bytes_at_most, highest);
    } else {
      row.temporary_bytes_at_most = std::max(row.temporary_bytes_at_most, highest);
    }
  }
}

}  // namespace

std::vector<ModuleMemory> module_memory(const Plan& plan) {
  ModuleList modules;
  for (const ProgramPlan& program : plan.programs) {
    // The training program goes first, so that the table lists modules in the order of its forward pass.
    modules.add(program.graph);
    break;
  }
  add_persistent(plan, modules);
  for (const ProgramPlan& program : plan.programs) {
    add_transient(program, modules);
  }
  return modules.take();
}

}  // namespace plimsoll
