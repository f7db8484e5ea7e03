#include "plan/anatomy/anatomy.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "plan/anatomy/memory.h"

namespace plimsoll {
namespace {

bool is_number(std::string_view word) {
  return !word.empty() &&
         std::all_of(word.begin(), word.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

// Replaces layer numbers in a name by "*", and removes the number at the end that makes a repeated name unique.
std::string kind_of(std::string_view name) {
  std::string kind;
  while (!name.empty()) {
    const size_t dot = std::min(name.find('.'), name.size());
    const std::string_view word = name.substr(0, dot);
    name = name.substr(std::min(dot + 1, name.size()));
    if (is_number(word) && name.empty()) break;
    if (!kind.empty()) kind += '.';
    kind += is_number(word) ? "*" : std::string(word);
  }
  return kind;
}

}  // namespace

std::vector<SavedKind> saved_kinds(const Plan& plan) {
  if (!plan.trains()) return {};
  const ProgramPlan& program = plan.programs.at(kTrainProgram);
  const size_t peak = memory_timeline(plan, program).peak;
  std::map<std::string, SavedKind> kinds;
  for (const TransientBuffer& buffer : program.buffers) {
    if (buffer.purpose != Purpose::kSaved || buffer.first > peak || buffer.last < peak) continue;
    const Value& value = program.graph.value(buffer.root);
    const std::string name = kind_of(value.name);
    const std::string producer =
        value.producer == kNoOp ? "" : std::string(program.graph.op(value.producer).def->name());
    SavedKind& kind = kinds[producer + " " + name + " " + format_type(value.type)];
    kind.values = name;
    kind.producer = producer;
    kind.type = format_type(value.type);
    ++kind.count;
    kind.bytes += buffer.bytes;
  }
  std::vector<SavedKind> sorted;
  for (auto& [key, kind] : kinds) sorted.push_back(std::move(kind));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const SavedKind& a, const SavedKind& b) { return a.bytes > b.bytes; });
  return sorted;
}

}  // namespace plimsoll
