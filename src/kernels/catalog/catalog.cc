#include "kernels/catalog/catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/check.h"

namespace plimsoll {
namespace catalog_rows {

Support any_problem(const Problem&) {
  return {};
}
int64_t no_scratch(const Problem&) {
  return 0;
}

namespace {

// Returns the part of a problem that describes the sizes for its family of kernels. Errors: kInternal if the problem has the description of
// another family.
template <typename Part>
const Part& part_of(const Problem& problem) {
  const Part* part = std::get_if<Part>(&problem.family);
  PLIMSOLL_CHECK(part != nullptr, "the kernel {} was looked up with the sizes of another kernel family",
                 problem.kernel);
  return *part;
}

// Calls a function of a catalog row: the one that decides if a problem is supported, or one that computes bytes. The parameters of such a
// function are the complete problem, or the family's description of the problem, or both in this order.
template <typename Result>
Result call(Result (*function)(const Problem&), const Problem& problem) {
  return function(problem);
}
template <typename Result, typename Part>
Result call(Result (*function)(const Part&), const Problem& problem) {
  return function(part_of<Part>(problem));
}
template <typename Result, typename Part>
Result call(Result (*function)(const Problem&, const Part&), const Problem& problem) {
  return function(problem, part_of<Part>(problem));
}
template <auto kFunction>
auto row_function(const Problem& problem) {
  return call(kFunction, problem);
}

#define PLIMSOLL_PREPARED_KERNEL(kernel, implementation, backend, dtypes, support, scratch, library) \
  KernelRow{#kernel,                                                                                 \
            #implementation,                                                                         \
            Backend::backend,                                                                        \
            dtypes,                                                                                  \
            row_function<support>,                                                                   \
            row_function<scratch>,                                                                   \
            row_function<library>},
#define PLIMSOLL_KERNEL(kernel, implementation, backend, dtypes, support, scratch) \
  PLIMSOLL_PREPARED_KERNEL(kernel, implementation, backend, dtypes, support, scratch, no_scratch)
constexpr KernelRow kRows[] = {
#include "kernels/catalog/families.inc"
};
#undef PLIMSOLL_PREPARED_KERNEL
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

std::span<const KernelRow> kernel_rows() {
  return catalog_rows::kRows;
}

std::vector<const KernelRow*> kernel_rows_of(std::string_view kernel) {
  // Maps the name of a kernel to its rows. The map is built once, because each plan looks up the rows of many ops.
  static const std::map<std::string_view, std::vector<const KernelRow*>> kRowsOf = [] {
    std::map<std::string_view, std::vector<const KernelRow*>> rows;
    for (const KernelRow& row : kernel_rows()) rows[row.kernel].push_back(&row);
    return rows;
  }();
  const auto found = kRowsOf.find(kernel);
  return found == kRowsOf.end() ? std::vector<const KernelRow*>() : found->second;
}

const KernelRow* find_kernel_row(std::string_view implementation) {
  for (const KernelRow& row : kernel_rows()) {
    if (row.implementation == implementation) return &row;
  }
  return nullptr;
}

Support kernel_support(const KernelRow& row, const Problem& problem) {
  PLIMSOLL_CHECK(row.kernel == problem.kernel,
                 "the implementation {} computes the kernel {}, but the problem is of the kernel {}",
                 row.implementation, row.kernel, problem.kernel);
  if (!runs_on(row.backend, problem.target.device)) {
    return {false, fmt::format("runs only on {}", row.backend == Backend::kCuda ? "cuda" : "cpu")};
  }
  if (!row.dtypes.has(problem.dtype))
    return {false, fmt::format("does not support {}", dtype_name(problem.dtype))};
  return row.support(problem);
}

Selection select_kernel(const Problem& problem, std::string_view forced) {
  std::vector<const KernelRow*> candidates = kernel_rows_of(problem.kernel);
  // Removes the rows that run on another kind of device (CPU or GPU), because they must not be listed among the implementations that
  // decline.
  std::erase_if(candidates,
                [&](const KernelRow* row) { return !runs_on(row->backend, problem.target.device); });
  if (!forced.empty()) {
    const KernelRow* row = find_kernel_row(forced);
    if (row == nullptr || row->kernel != problem.kernel) {
      std::vector<std::string_view> names;
      names.reserve(candidates.size());
      for (const KernelRow* candidate : candidates) names.push_back(candidate->implementation);
      throw_error(ErrorCode::kUsage, "'{}' is not an implementation of the kernel {}; choose one of: {}",
                  forced, problem.kernel, fmt::join(names, ", "));
    }
    candidates = {row};
  }
  Selection selection;
  for (const KernelRow* row : candidates) {
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
  std::vector<std::string_view> kernels;
  for (const KernelRow& row : kernel_rows()) {
    if (std::find(kernels.begin(), kernels.end(), row.kernel) == kernels.end()) kernels.push_back(row.kernel);
  }
  std::vector<KernelMatrixEntry> entries;
  for (const std::string_view kernel : kernels) {
    for (const KernelDevice device : kDevices) {
      for (const DType dtype : kFloatingTypes) {
        KernelMatrixEntry entry{kernel, dtype, device, {}};
        for (const KernelRow* row : kernel_rows_of(kernel)) {
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
  std::string header = "| kernel |", rule = "|---|", lines;
  for (const KernelDevice device : kDevices) {
    for (const DType dtype : kFloatingTypes) {
      header += fmt::format(" {} {} |", kernel_device_name(device), dtype_name(dtype));
      rule += "---|";
    }
  }
  std::string_view kernel;
  for (const KernelMatrixEntry& entry : kernel_matrix()) {
    if (entry.kernel != kernel) {
      lines += fmt::format("{}| {} |", kernel.empty() ? "" : "\n", entry.kernel);
      kernel = entry.kernel;
    }
    lines += entry.implementations.empty() ? " - |" : fmt::format(" {} |", entry.implementations.front());
  }
  return header + "\n" + rule + "\n" + lines + (lines.empty() ? "" : "\n");
}

}  // namespace plimsoll
