// The catalog of kernels: the implementations of each kernel, the backend and element types of each, the problems
// that it accepts, the reasons why it declines others, and the bytes of scratch memory that it needs. Host-only and
// pure: nothing here runs a kernel or queries the machine, so that a plan is the same on every machine.
//
// Thread-safe: all functions are pure; rows are constants that live as long as the program.
//
// A family (src/kernels/<family>/) lists its rows in `<family>_catalog.inc`, one per implementation, in the order of
// preference for each kernel: the fastest first, the reference last. For example
// src/kernels/layer_norm/layer_norm_catalog.inc:
//
//   // kernel, implementation, backend, element types, support function, scratch function
//   PLIMSOLL_KERNEL(normalize_fwd, normalize_fwd_cpu, kCpu, kF32 | kBF16, norm_row_fits, no_scratch)
//   PLIMSOLL_KERNEL(normalize_fwd, normalize_fwd_ref, kRef, kF64 | kF32 | kBF16, any_problem, no_scratch)
//
// The implementation is the name of a function. kernel_functions.h makes a table of these functions from the rows, so the executor and the
// tests need no lists of their own. Some implementations have no function of their name, because they are prepared for a problem before
// they run or share the function of another row. Their row is a PLIMSOLL_PREPARED_KERNEL, and code in exec/ops calls them. Such a row has
// one more entry: a function that returns the largest number of bytes that a library called by the implementation allocates by itself,
// which the plan includes, or no_scratch if there is no such library.
//
// Support and scratch functions other than any_problem and no_scratch are declared in the family's
// `<family>_catalog.h` and defined in its `<family>_catalog.cc`, in namespace plimsoll::catalog_rows. They take the
// family's own description of a problem, with the common part of the problem (Problem) before it if they need that:
//
//   // Partial sums of d_gain, d_beta and d_bias.
//   int64_t three_column_sums_scratch(const RowsProblem& rows) {
//     return column_sums_scratch_bytes(rows.rows, rows.columns, 3);
//   }
//
// The catalog header of a family may include only these headers of the project: kernel_target.h, the catalog headers of other families,
// hardware/ and base/. The source file may also include catalog.h. The header that declares the kernel uses the same formulas. A family is
// listed in families.inc and in this folder's CMakeLists.txt.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "kernels/attention/attention_catalog.h"
#include "kernels/catalog/kernel_target.h"
#include "kernels/communication/communication_catalog.h"
#include "kernels/element_wise/element_wise_catalog.h"
#include "kernels/embedding/embedding_catalog.h"
#include "kernels/layer_norm/layer_norm_catalog.h"
#include "kernels/loss/loss_catalog.h"
#include "kernels/matmul/matmul_catalog.h"
#include "kernels/optimizer/optimizer_catalog.h"

namespace plimsoll {

// The backend of an implementation. The reference implementations (kRef), with which tests compare the others, run on the CPU.
enum class Backend : uint8_t { kRef, kCpu, kCuda };

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

// The sizes and options of a problem, as its family describes them; std::monostate for kernels that accept every
// problem and need no scratch.
using FamilyProblem =
    std::variant<std::monostate, RowsProblem, MatmulProblem, AttentionDims, FirstTokenAttentionProblem,
                 PagedAttentionDims, SortIdsProblem, EmbeddingProblem, LinearCrossEntropyProblem,
                 NormLinearProblem, AdafactorProblem, AllReduceProblem>;

// A request to the catalog for an implementation: the name of a kernel, the type and sizes of its tensors, and the device on which it will
// run.
struct Problem {
  std::string_view kernel = {};  // name of the kernel, for example "attention_fwd"
  DType dtype = DType::kF32;     // type of the activations
  KernelTarget target = {};
  FamilyProblem family = {};
};

// A set of element types. Namespace catalog_rows has names for them, which are combined by `|`.
struct DTypeSet {
  uint32_t bits = 0;
  constexpr bool has(DType dtype) const { return ((bits >> static_cast<uint32_t>(dtype)) & 1u) != 0; }
  friend constexpr DTypeSet operator|(DTypeSet a, DTypeSet b) { return {a.bits | b.bits}; }
};

struct KernelRow {
  std::string_view kernel;          // name of the kernel, for example "layer_norm_fwd"
  std::string_view implementation;  // unique name of the implementation, for example "layer_norm_fwd_cpu"
  Backend backend;
  DTypeSet dtypes;
  // The functions that state whether the row supports a problem, the bytes of scratch memory, and the bytes that a library allocates. All
  // three throw kInternal if the problem does not belong to the row's family. `support` requires a data type that `dtypes` lists and a device
  // of the backend; the other two functions require a problem that `support` accepts.
  Support (*support)(const Problem&);
  int64_t (*scratch_bytes)(const Problem&);
  int64_t (*library_bytes)(const Problem&);
};

// Returns all rows. Kernels are in the order in which the files of their families list them; the rows of a kernel are ordered from the
// fastest to the reference.
std::span<const KernelRow> kernel_rows();
// Returns the rows of one kernel, the fastest first and the reference last. The list is empty if the catalog does not have the kernel.
std::vector<const KernelRow*> kernel_rows_of(std::string_view kernel);
// Returns the row of one implementation, or null if there is none.
const KernelRow* find_kernel_row(std::string_view implementation);

// Returns whether the implementation of the row accepts the problem and, if not, the reason. It first checks the kind of device and the
// element type, and then calls the support function of the row.
Support kernel_support(const KernelRow& row, const Problem& problem);

struct Refusal {
  const KernelRow* row;
  std::string reason;
};
struct Selection {
  const KernelRow* row = nullptr;  // row of the chosen implementation; null if none accepts the problem
  int64_t scratch_bytes = 0;       // number of bytes of scratch memory that `row` needs
  int64_t library_bytes = 0;  // upper bound of the bytes that the library of `row` allocates while it runs
  // Faster implementations for this device that do not accept the problem, with their reasons.
  std::vector<Refusal> refused;
};

// Returns the first row that accepts the problem, which is the fastest. If `forced` names an implementation, only its row is tried.
// Errors: kUsage if `forced` is not an implementation of this kernel; the message lists the implementations.
Selection select_kernel(const Problem& problem, std::string_view forced = {});

// An entry of the table in docs/KERNELS.md: the implementations of one kernel for one data type and one kind of device, fastest
// first.
struct KernelMatrixEntry {
  std::string_view kernel;
  DType dtype;
  KernelDevice device;
  // Empty if no implementation supports this type on this device.
  std::vector<std::string_view> implementations;
};
// Returns an entry for every combination of a kernel, a floating-point type and a kind of device.
std::vector<KernelMatrixEntry> kernel_matrix();
// Returns the entries as the Markdown table of docs/KERNELS.md: a line per kernel, a column per device and type, and in each cell the name
// of the preferred implementation.
std::string kernel_matrix_markdown();

// Names for the columns of a catalog row, such as element types and support functions. Families define further names in their own headers.
namespace catalog_rows {
inline constexpr DTypeSet kF64{1u << static_cast<uint32_t>(DType::kF64)};
inline constexpr DTypeSet kF32{1u << static_cast<uint32_t>(DType::kF32)};
inline constexpr DTypeSet kBF16{1u << static_cast<uint32_t>(DType::kBF16)};
inline constexpr DTypeSet kF16{1u << static_cast<uint32_t>(DType::kF16)};
inline constexpr DTypeSet kI32{1u << static_cast<uint32_t>(DType::kI32)};
Support any_problem(const Problem& problem);
int64_t no_scratch(const Problem& problem);
}  // namespace catalog_rows

}  // namespace plimsoll
