// Which implementations of each kernel exist: for which backend and element types, which problems they accept
// and why they decline others, and how many bytes of scratch they need. Host-only and pure: nothing here runs
// a kernel or asks the machine anything, so that a plan is the same on every machine.
//
// Thread-safe: all functions are pure; rows are constants that live as long as the program.
//
// A family (src/kernels/<family>/) adds its rows in `<family>_catalog.inc`, one per implementation, in the order of
// preference for each op: fastest first, reference last. For example src/kernels/layer_norm/layer_norm_catalog.inc:
//
//   // op, implementation, backend, element types, support function, scratch function
//   PLIMSOLL_KERNEL(layer_norm_fwd, layer_norm_fwd_cpu, kCpu, kF32 | kBF16, any_problem, no_scratch)
//   PLIMSOLL_KERNEL(layer_norm_fwd, layer_norm_fwd_ref, kRef, kF64 | kF32 | kBF16, any_problem, no_scratch)
//
// A row whose implementation calls a library that allocates by itself is a PLIMSOLL_KERNEL_WITH_LIBRARY with
// one more function: the most bytes that this takes, which are in the plan. Support and scratch functions
// other than any_problem and no_scratch are written by the family in its `<family>_catalog.cc`, in namespace
// plimsoll::catalog_rows; the rows declare them. They may include only this header, target/ and base/:
//
//   namespace plimsoll::catalog_rows {
//   // A row of partial sums of d_gamma and one of d_beta for each thread.
//   int64_t layer_norm_bwd_cpu_scratch(const Problem& problem) {
//     return 2 * problem.num_threads * problem.dim("C") * 4;
//   }
//   }  // namespace plimsoll::catalog_rows
//
// The kernel's header uses the same formula (it may include this header). A family is listed in catalog.cc
// and in this folder's CMakeLists.txt.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "hardware/cpu_isa.h"

namespace plimsoll {

// How a row is implemented. References run on the CPU.
enum class Backend : uint8_t { kRef, kCpu, kCuda };
// Where a problem is to run.
enum class KernelDevice : uint8_t { kCpu, kCuda };

constexpr std::string_view backend_name(Backend backend) {
  switch (backend) {
    case Backend::kRef:
      return "ref";
    case Backend::kCpu:
      return "cpu";
    case Backend::kCuda:
      return "cuda";
  }
  return "?";
}
constexpr std::string_view kernel_device_name(KernelDevice device) {
  return device == KernelDevice::kCpu ? "cpu" : "cuda";
}

// What is asked of the catalog: an op on tensors of certain sizes on a certain device.
struct Problem {
  std::string_view op;
  DType dtype = DType::kF32;  // of the activations
  KernelDevice device = KernelDevice::kCpu;
  // Named sizes and options, as the op's kernel header lists them, such as {"T", 512}, {"C", 768}.
  std::vector<std::pair<std::string_view, int64_t>> dims;
  int num_threads = 1;
  CpuIsa isa = CpuIsa::kBaseline;
  int sm = 0;  // compute capability where device is kCuda, 90 for 9.0

  // Errors: kInternal if the problem does not name this dimension.
  int64_t dim(std::string_view name) const;
  // The dimension, or `otherwise` if the problem does not name it.
  int64_t dim_or(std::string_view name, int64_t otherwise) const;
};

// Whether an implementation takes a problem; when not, why, as words for `plan --why`.
struct Support {
  bool ok = true;
  std::string reason;
};

// Sets of element types are made by `|` from these names.
struct DTypeSet {
  uint32_t bits = 0;
  constexpr bool has(DType dtype) const { return ((bits >> static_cast<uint32_t>(dtype)) & 1u) != 0; }
  friend constexpr DTypeSet operator|(DTypeSet a, DTypeSet b) { return {a.bits | b.bits}; }
};

struct KernelRow {
  std::string_view op;              // "layer_norm_fwd"
  std::string_view implementation;  // "layer_norm_fwd_cpu"; unique
  Backend backend;
  DTypeSet dtypes;
  Support (*support)(const Problem&);        // never called with a type outside dtypes or for another device
  int64_t (*scratch_bytes)(const Problem&);  // never called with a problem that support declines
  int64_t (*library_bytes)(const Problem&);  // as scratch_bytes
};

// Every row, by op in the order of the families' files, within an op fastest first and reference last.
std::span<const KernelRow> kernel_rows();
// The rows of one op, in the same order. Empty if the op has no kernel.
std::vector<const KernelRow*> kernel_rows_of(std::string_view op);
// The row of one implementation; null if there is none.
const KernelRow* find_kernel_row(std::string_view implementation);

// Whether the row takes the problem: device and element type first, then the row's own support function.
Support kernel_support(const KernelRow& row, const Problem& problem);

struct Refusal {
  const KernelRow* row;
  std::string reason;
};
struct Selection {
  const KernelRow* row = nullptr;  // null if every row refuses
  int64_t scratch_bytes = 0;       // of `row`
  int64_t library_bytes = 0;       // what its library allocates by itself while it runs, at most
  std::vector<Refusal> refused;    // the rows for this kind of device before `row`, in order
};

// The first row that accepts the problem. With `forced`, the name of an implementation, only that row is
// asked. Errors: kUsage if `forced` is no implementation of this op; the message lists those that are.
Selection select_kernel(const Problem& problem, std::string_view forced = {});

// One line of the matrix op x type x device: the implementations in the order of preference.
struct KernelMatrixEntry {
  std::string_view op;
  DType dtype;
  KernelDevice device;
  std::vector<std::string_view> implementations;  // empty where nothing exists
};
// Every op with every floating type and every device.
std::vector<KernelMatrixEntry> kernel_matrix();
// The matrix as a Markdown table for the docs: a line per op, a column per device and type, the best row's
// name in it.
std::string kernel_matrix_markdown();

// What rows are made of; families write theirs beside these.
namespace catalog_rows {
inline constexpr DTypeSet kF64{1u << static_cast<uint32_t>(DType::kF64)};
inline constexpr DTypeSet kF32{1u << static_cast<uint32_t>(DType::kF32)};
inline constexpr DTypeSet kBF16{1u << static_cast<uint32_t>(DType::kBF16)};
inline constexpr DTypeSet kF16{1u << static_cast<uint32_t>(DType::kF16)};
Support any_problem(const Problem& problem);
int64_t no_scratch(const Problem& problem);
}  // namespace catalog_rows

}  // namespace plimsoll
