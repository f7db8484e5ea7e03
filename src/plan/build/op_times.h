// How long an op takes, as an estimate: from its operations and bytes and the rates of src/target. Pure
// functions; thread-safe.
#pragma once

#include <vector>

#include "graph/analysis/alike.h"
#include "graph/ops/op.h"
#include "plan/build/plan.h"

namespace plimsoll {

// Milliseconds in a bucket. Of a copy between memory spaces it says nothing: see link_bytes_per_ms().
double estimated_ms(const OpSchema& schema, const OpView& op, const Cost& cost, const Bucket& bucket,
                    const PlanRequest& request);

// The same of each op of a training program in the request's bucket, asked once for ops that are alike.
std::vector<double> op_times(const Graph& graph, const OpKinds& kinds, const PlanRequest& request);

// Bytes that a millisecond carries between a GPU and its host in one direction, while nothing or others go in
// the other; on a CPU, where tests alone keep something apart, its memory's rate.
enum class LinkUse : uint8_t { kOneWay, kBothWays };
double link_bytes_per_ms(const PlanRequest& request, LinkUse use);

// The rate of products at which fp32 operands are multiplied as asked. GFLOP/s of the data sheet.
double gpu_product_gflops(const GpuTarget& gpu, DType type, Fp32Products fp32);

}  // namespace plimsoll
