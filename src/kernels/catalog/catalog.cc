#include "kernels/catalog/catalog.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace plimsoll {
namespace catalog_rows {

Support any_problem(const Problem&) {
  return {};
}
int64_t no_scratch(const Problem&) {
  return 0;
}

// A function may be declared by several rows.
#define PLIMSOLL_KERNEL_WITH_LIBRARY(op, implementation, backend, dtypes, support, scratch, library) \
  Support support(const Problem&);                                                                   \
  int64_t scratch(const Problem&);                                                                   \
  int64_t library(const Problem&);
#define PLIMSOLL_KERNEL(op, implementation, backend, dtypes, support, scratch) \
  PLIMSOLL_KERNEL_WITH_LIBRARY(op, implementation, backend, dtypes, support, scratch, no_scratch)
#include "kernels/catalog/families.inc"
#undef PLIMSOLL_KERNEL_WITH_LIBRARY

namespace {
#define PLIMSOLL_KERNEL_WITH_LIBRARY(op, implementation, backend, dtypes, support, scratch, library) \
  KernelRow{#op, #implementation, Backend::backend, dtypes, support, scratch, library},
constexpr KernelRow kRows[] = {
#include "kernels/catalog/families.inc"
};
#undef PLIMSOLL_KERNEL_WITH_LIBRARY
#undef PLIMSOLL_KERNEL
}  // namespace
}  // namespace catalog_rows

namespace {

bool runs_on(Backend backend, KernelDevice device) {
  return (backend == Backend::kCuda) == (device == KernelDevice::kCuda);
}

constexpr DType kFloatingTypes[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16};
constexpr KernelDevice kDevices[] = {KernelDevice::kCpu, KernelDevice::kCuda};

}  // namespace

int64_t Problem::dim(std::string_view name) const {
  const auto found =
      std::find_if(dims.begin(), dims.end(), [&](const auto& entry) { return entry.first == name; });
  PLIMSOLL_CHECK(found != dims.end(), "a problem for {} does not say {}", op, name);
  return found->second;
}

int64_t Problem::dim_or(std::string_view name, int64_t otherwise) const {
  const auto found =
      std::find_if(dims.begin(), dims.end(), [&](const auto& entry) { return entry.first == name; });
  return found == dims.end() ? otherwise : found->second;
}

std::span<const KernelRow> kernel_rows() {
  return catalog_rows::kRows;
}

std::vector<const KernelRow*> kernel_rows_of(std::string_view op) {
  std::vector<const KernelRow*> rows;
  for (const KernelRow& row : kernel_rows()) {
    if (row.op == op) rows.push_back(&row);
  }
  return rows;
}

const KernelRow* find_kernel_row(std::string_view implementation) {
  for (const KernelRow& row : kernel_rows()) {
    if (row.implementation == implementation) return &row;
  }
  return nullptr;
}

Support kernel_support(const KernelRow& row, const Problem& problem) {
  PLIMSOLL_CHECK(row.op == problem.op, "{} asked about {}", row.implementation, problem.op);
  if (!runs_on(row.backend, problem.device)) {
    return {false, fmt::format("runs on {} only", row.backend == Backend::kCuda ? "cuda" : "cpu")};
  }
  if (!row.dtypes.has(problem.dtype)) return {false, fmt::format("has no {}", dtype_name(problem.dtype))};
  return row.support(problem);
}

Selection select_kernel(const Problem& problem, std::string_view forced) {
  std::vector<const KernelRow*> candidates = kernel_rows_of(problem.op);
  // What belongs to the other kind of device is no choice, and no refusal worth a word.
  std::erase_if(candidates, [&](const KernelRow* row) { return !runs_on(row->backend, problem.device); });
  if (!forced.empty()) {
    const KernelRow* row = find_kernel_row(forced);
    if (row == nullptr || row->op != problem.op) {
      std::vector<std::string_view> names;
      names.reserve(candidates.size());
      for (const KernelRow* candidate : candidates) names.push_back(candidate->implementation);
      throw_error(ErrorCode::kUsage, "kernel '{}' is no implementation of {}; choose one of: {}", forced,
                  problem.op, fmt::join(names, ", "));
    }
    candidates = {row};
  }
  Selection selection;
  for (const KernelRow* row : candidates) {
    // Of rows for other devices nobody asked.
    if (forced.empty() && !runs_on(row->backend, problem.device)) continue;
    Support support = kernel_support(*row, problem);
    if (support.ok) {
      selection.row = row;
      selection.scratch_bytes = row->scratch_bytes(problem);
      selection.library_bytes = row->library_bytes(problem);
      return selection;
    }
    selection.refused.push_back({row, std::move(support.reason)});
  }
  return selection;
}

std::vector<KernelMatrixEntry> kernel_matrix() {
  std::vector<std::string_view> ops;
  for (const KernelRow& row : kernel_rows()) {
    if (std::find(ops.begin(), ops.end(), row.op) == ops.end()) ops.push_back(row.op);
  }
  std::vector<KernelMatrixEntry> entries;
  for (const std::string_view op : ops) {
    for (const KernelDevice device : kDevices) {
      for (const DType dtype : kFloatingTypes) {
        KernelMatrixEntry entry{op, dtype, device, {}};
        for (const KernelRow* row : kernel_rows_of(op)) {
          if (runs_on(row->backend, device) && row->dtypes.has(dtype))
            entry.implementations.push_back(row->implementation);
        }
        entries.push_back(std::move(entry));
      }
    }
  }
  return entries;
}

std::string kernel_matrix_markdown() {
  std::string header = "| op |", rule = "|---|", lines;
  for (const KernelDevice device : kDevices) {
    for (const DType dtype : kFloatingTypes) {
      header += fmt::format(" {} {} |", kernel_device_name(device), dtype_name(dtype));
      rule += "---|";
    }
  }
  std::string_view op;
  for (const KernelMatrixEntry& entry : kernel_matrix()) {
    if (entry.op != op) {
      lines += fmt::format("{}| {} |", op.empty() ? "" : "\n", entry.op);
      op = entry.op;
    }
    lines += entry.implementations.empty() ? " - |" : fmt::format(" {} |", entry.implementations.front());
  }
  return header + "\n" + rule + "\n" + lines + (lines.empty() ? "" : "\n");
}

}  // namespace plimsoll
