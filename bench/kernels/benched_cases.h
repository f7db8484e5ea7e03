// The plans whose ops kernel_rows_bench measures: small models of every kind with every loss, optimizer, precision and
// adapter, in sizes that are large enough to measure times. A row of the kernel catalog is one implementation of a
// kernel. It is measured if it supports the types and sizes of an op of one of these plans, so usually a new row needs
// no change in this file. tests/benchmarks/benched_rows_test.cc reports each row that no op of these plans can use.
// Thread-safe: values and pure functions.
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

// Returns the batch with which a case runs. Its token ids are from the whole vocabulary.
testing::TinyBatch benched_batch(const BenchedCase& benched);

// One run of a case. In the first run the plan chooses the implementations of its kernels; in the others some are
// forced, as with --kernels.
struct BenchedRound {
  // implementations that are forced (DeviceOptions::forced_kernels); empty in the first run
  std::vector<std::string> forced;
  // implementations that are timed in this run, without the slow references
  std::vector<const KernelRow*> rows;
};
// Returns the runs of a case. The first one uses the implementations that the plan chooses. Each further run forces,
// for every kernel, an implementation that no earlier run used and that supports all ops of the kernel in this plan.
std::vector<BenchedRound> benched_rounds(const Plan& plan);

// Returns the reason why kernel_rows_bench does not run an implementation, or "" if it must run it.
std::string_view reason_not_benched(const KernelRow& row);

}  // namespace plimsoll
