// Lowering: from an op of a graph to the problem that the catalog of kernels is asked about. The planner chooses kernels
// by these problems and the executor runs them, so that both describe an op in the same way. This room does not choose a
// kernel and knows neither plans nor addresses.
//
// A family of kernels has a file, <family>_lowering.cc, with a row per op: the op, the name of its kernel in the catalog,
// and the function that describes the op. Thread-safe: pure functions.
#pragma once

#include <span>
#include <string_view>

#include "graph/ops/op.h"
#include "kernels/catalog/catalog.h"

namespace plimsoll {

// The family's description of an op, and the element type of the activations.
struct LoweredOp {
  DType dtype = DType::kF32;
  FamilyProblem family = {};
};

struct Lowering {
  const OpSchema* op = nullptr;
  std::string_view kernel = {};  // name of the kernel in the catalog
  LoweredOp (*describe)(const OpView& op, const Bucket& bucket, const KernelTarget& target) = nullptr;
};

// Returns the rows of all families, in the order of the catalog's families.
std::span<const Lowering> all_lowerings();
// Returns the row of an op. Errors: kInternal if the op has none.
const Lowering& lowering_of(const OpSchema& op);

// Returns the problem that an op poses in a bucket on a target. Errors: as lowering_of().
Problem lower_op(const OpView& op, const Bucket& bucket, const KernelTarget& target);

}  // namespace plimsoll
