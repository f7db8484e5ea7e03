// Estimates how long an op takes, from its operations and bytes and the rates in src/hardware. Pure functions;
// thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/rank_mesh.h"
#include "graph/analysis/analysis.h"
#include "graph/ops/op.h"
#include "plan/compile/plan.h"

namespace plimsoll {

// The relative error of an estimated speed: if the estimates of two plans differ by less than this, it is unknown which plan is faster. The
// errors were smaller for all measured configurations of `bench --experiments` (bench/results/README.md).
inline constexpr double kEstimateError = 0.15;

// Returns the milliseconds of one op for this batch size. Must not be called for copies between memory spaces: see link_bytes_per_ms().
double estimated_ms(const OpSchema& schema, const OpView& op, const Cost& cost, const Bucket& bucket,
                    const PlanRequest& request);

// The same for a run of a program that generates text, in which each sequence has one token.
double estimated_decode_ms(const OpSchema& schema, const OpView& op, const Cost& cost, const Bucket& bucket,
                           const PlanRequest& request);
// Returns the time between two such runs, in which the host selects tokens. It was measured on GPUs only; on a CPU it is 0.
double time_between_decode_runs_ms(const PlanRequest& request);

// Returns the milliseconds of each op of a training program for the largest training batch of the request.
std::vector<double> op_times(const Graph& graph, const OpKinds& kinds, const PlanRequest& request);

// Returns the bytes per millisecond that the link between a GPU and its host transfers in one direction, while the other direction is
// idle (kOneWay) or busy too (kBothWays). On a CPU, where only tests have a separate host arena, this is the memory bandwidth.
enum class LinkUse : uint8_t { kOneWay, kBothWays };
double link_bytes_per_ms(const PlanRequest& request, LinkUse use);

// The rate at which a rank sends data to others, and the latency: the time of an exchange with very little data.
struct RankLink {
  double gb_per_s = 0;
  double latency_ms = 0;
  bool is_measured = false;
};
// Returns the rate and the latency of exchanges between the ranks along an axis of the mesh. If bench --links has measured all_reduce and
// the user names no links, they are those of all_reduce; otherwise they are assumed for `collective`. On a CPU the assumed rate is a
// constant (hardware/cpu_efficiency.h), without a latency. On GPUs the rate is the smaller of two: a share of the nominal rate of the
// links, and the measured rate of copy engines (hardware/gpu_efficiency.h). The latency is gpu_exchange_latency_ms() if the group has
// several ranks in a machine.
//
// If the user names the network and the group is in several machines, the rate is the smaller one of this rate and that of the network.
// Each byte leaves a machine once per ring, so the rate of the network is that of the adapters of all ranks of the group in this machine
// (LinkSharing::kAdapterPerGpu), or the share of these ranks in the only adapter of the machine. Each hop between machines adds
// kNetworkHopMs.
RankLink rank_link(const PlanRequest& request, MeshAxis axis = MeshAxis::kData,
                   Collective collective = Collective::kAllReduce);

// Returns the time in milliseconds of a collective operation in which each rank sends this number of bytes, from measurements for
// different sizes or, without them, from the rate and the latency of rank_link().
double rank_exchange_ms(const PlanRequest& request, Collective collective, double sent_bytes,
                        MeshAxis axis = MeshAxis::kData);

// Returns the milliseconds that a disk takes to read or write this number of bytes of states.
double disk_ms(const PlanRequest& request, Queue queue, double bytes, LinkUse use);

// Returns the pause in milliseconds between two consecutive copies that are enqueued on the same queue; 0 on a CPU.
double between_copies_ms(const PlanRequest& request);

// Returns the data-sheet rate of matrix products with operands of this type, in GFLOP/s. `fp32` states how fp32 operands are multiplied
// (for example as tf32).
double gpu_product_gflops(const GpuTarget& gpu, DType type, Fp32Products fp32);

// Estimates how long the ops of a program wait for copies between memory spaces and for other ranks. Pure functions;
// thread-safe.

// A copy or an exchange between ranks. It runs on a queue of its own, at the same time as ops that compute. It is enqueued at position `op`
// of the program, and must have ended before the op at position `end` starts.
struct TimedTransfer {
  uint32_t op = 0;
  uint32_t end = 0;
  Queue queue = Queue::kToHost;
  double bytes = 0;  // bytes moved by a copy, or bytes that each rank sends in a collective operation
  // the kind of collective operation, if `queue` is kCommunication
  Collective collective = Collective::kAllReduce;
  MeshAxis axis = MeshAxis::kData;  // axis of the mesh along which the participating ranks differ
  bool uses_disk = false;           // true for a copy from or to a disk
};

// Returns the copies and exchanges between ranks of a graph, in the order of their positions.
std::vector<TimedTransfer> timed_transfers(const Graph& graph, const Bucket& bucket);

// Simulates the queues of a program to find out how long computing ops (queue kCompute) wait for transfers. `op_ms` contains the time of
// each op; for a transfer, the function replaces it by the time of these waits. Requires: program.ops states where each transfer ends.
void add_transfer_waits(const ProgramPlan& program, const PlanRequest& request, std::vector<double>& op_ms);
// Simulates the queues with the given transfers: replaces the time of each transfer in `op_ms` by the time of the waits for it. Requires:
// `transfers` is in the order of their positions.
void add_transfer_waits(std::span<const TimedTransfer> transfers, const PlanRequest& request,
                        std::vector<double>& op_ms);

// The times at which an op is enqueued, starts and ends. An op of kCompute starts when it is enqueued; a transfer starts when its queue
// is free.
struct OpSpan {
  double issued_ms = 0;
  double start_ms = 0;
  double end_ms = 0;
};

// Simulates the queues as add_transfer_waits() does and returns when each op starts and ends. `op_ms` contains the times of the ops of
// kCompute; its entries for transfers are not read. Requires: as add_transfer_waits().
std::vector<OpSpan> op_spans(const ProgramPlan& program, const PlanRequest& request,
                             std::vector<double> op_ms);

}  // namespace plimsoll
