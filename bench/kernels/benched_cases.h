// The plans whose ops kernel_rows_bench runs: small models of every kind with every loss, optimizer, precision and adapter, in sizes
// that are large enough for times. A row of the kernel catalog is benched if it accepts the types and sizes of an op of one of these
// plans, so that a new row is benched without a line of code. tests/benchmarks/benched_rows_test.cc reports a row that no plan
// reaches. Thread-safe: values and pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/compile/plan.h"
#include "tests/spine/tiny_run.h"

namespace plimsoll {

struct BenchedCase {
  std::string name;
  testing::TinyCase test;
  PlanRequest request;
};

// Returns the cases for a device.
std::vector<BenchedCase> benched_cases(const DeviceOptions& device);

// Returns the batch of a case, with ids from its whole vocabulary.
testing::TinyBatch benched_batch(const BenchedCase& benched);

// One run of a case: its plan uses the implementations that it chooses itself, or those that --kernels would force.
struct BenchedRound {
  std::vector<std::string> forced;     // DeviceOptions::forced_kernels; empty in the first round
  std::vector<const KernelRow*> rows;  // the implementations whose ops are timed, without references
};
// Returns the runs of a case. The first one uses the implementations that its plan chooses. Each following one forces, for every
// kernel, another implementation that accepts all ops of the kernel.
std::vector<BenchedRound> benched_rounds(const Plan& plan);

// Returns why a row is not run by kernel_rows_bench, or "" if it has to be.
std::string_view reason_not_benched(const KernelRow& row);

}  // namespace plimsoll
