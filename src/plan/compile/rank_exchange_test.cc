// Tests the estimated times of exchanges between ranks, both from assumed rates and from measurements.
#include <gtest/gtest.h>

#include "hardware/gpu_efficiency.h"
#include "plan/compile/op_times.h"
#include "plan/compile/testing/plan_case.h"

namespace plimsoll {
namespace {

PlanRequest request_of_ranks() {
  PlanRequest request = small_request();
  request.ranks.count = 4;
  return request;
}

// Returns measurements for 4 ranks. In all_reduce each rank sends 1.5 times the bytes of the data, and in all_gather 0.75 times.
MeasuredLinks measured_links() {
  MeasuredLinks links{.exchange = LinkExchange::kGloo, .num_ranks = 4, .date = "2026-11-27"};
  links.curves[Collective::kAllReduce] = {{.bytes = 1000, .median_ms = 0.25},
                                          {.bytes = 1'000'000, .median_ms = 3}};
  links.curves[Collective::kAllGather] = {{.bytes = 1000, .median_ms = 7}};
  return links;
}

TEST(RankExchange, RatesAreAssumedWithoutMeasurements) {
  const PlanRequest request = request_of_ranks();
  EXPECT_FALSE(rank_link(request).is_measured);
  EXPECT_EQ(rank_link(request).gb_per_s, 1);
  EXPECT_EQ(rank_exchange_ms(request, Collective::kAllReduce, 5e6), 5);
  EXPECT_EQ(rank_exchange_ms(request, Collective::kAllGather, 0), 0);
}

TEST(RankExchange, MeasuredTimesHaveLatencyAndRate) {
  PlanRequest request = request_of_ranks();
  request.links = measured_links();
  EXPECT_TRUE(rank_link(request).is_measured);
  EXPECT_EQ(rank_link(request).latency_ms, 0.25);
  EXPECT_EQ(rank_link(request).gb_per_s, 0.5);
  EXPECT_EQ(rank_exchange_ms(request, Collective::kAllReduce, 1), 0.25) << "the latency";
  EXPECT_EQ(rank_exchange_ms(request, Collective::kAllReduce, 1'500'000), 3);
  EXPECT_EQ(rank_exchange_ms(request, Collective::kAllReduce, 3'000'000), 6);
  EXPECT_EQ(rank_exchange_ms(request, Collective::kAllGather, 750), 7);
}

PlanRequest request_with_links(int64_t count, int64_t machines, const RankLinks& links) {
  PlanRequest request = small_request();
  request.device.kind = KernelDevice::kCuda;
  request.device.gpu = *find_gpu_target("h100");
  request.ranks.count = count;
  request.num_machines = machines;
  request.named_links = links;
  return request;
}

// Ranks of one machine use the links inside it. Operations are assumed to reach the share kGpuShareOfPeerLink of the nominal rate of
// these links.
TEST(RankExchange, NamedLinksInsideAMachine) {
  const PlanRequest request = request_with_links(8, 1, {.inside = "pcie4", .between = "ib400"});
  EXPECT_FALSE(rank_link(request).is_measured);
  EXPECT_EQ(rank_link(request).gb_per_s, kGpuShareOfPeerLink * 32);
  EXPECT_EQ(rank_link(request).latency_ms, 0.045);
  EXPECT_DOUBLE_EQ(rank_exchange_ms(request, Collective::kAllGather, 32e6), 0.025 + 1 / kGpuShareOfPeerLink);
  // If no link is named, the link of the GPU model is used: 450 GB/s for an H100, of which copy engines reach only a part.
  EXPECT_EQ(rank_link(request_with_links(8, 1, {.between = "ib400"})).gb_per_s, kGpuGroupGbPerS);
  EXPECT_EQ(rank_link(request_with_links(2, 1, {.between = "ib400"})).gb_per_s, kGpuPairGbPerS);
}

// If the user names no link and there are no measurements, the link of the GPU model is assumed.
TEST(RankExchange, TheLinksOfTheCardAreAssumed) {
  const PlanRequest request = request_with_links(4, 1, {});
  EXPECT_FALSE(rank_link(request).is_measured);
  EXPECT_DOUBLE_EQ(rank_exchange_ms(request, Collective::kAllReduce, 161e6), 0.045 + 1);
  EXPECT_EQ(rank_exchange_ms(request, Collective::kBroadcast, 0), 0.028);
}

// The eight network adapters of a machine have 12.5 GB/s each, together 100 GB/s, which is less than the copy engines of its GPUs reach.
// With one such adapter per machine, the rate is lower still. Over 8 machines, all_reduce passes a tree of 3 levels up and down, and
// all_gather passes a ring with 7 hops.
TEST(RankExchange, TheSlowerLinkLimitsRanksOfSeveralMachines) {
  const PlanRequest request = request_with_links(64, 8, {.inside = "nvlink4", .between = "ib100"});
  EXPECT_EQ(rank_link(request).gb_per_s, kGpuShareOfPeerLink * 100);
  EXPECT_EQ(rank_link(request).latency_ms, 0.045 + 6 * kNetworkHopMs);
  EXPECT_DOUBLE_EQ(rank_exchange_ms(request, Collective::kAllReduce, 100e6),
                   0.045 + 6 * kNetworkHopMs + 1 / kGpuShareOfPeerLink);
  EXPECT_DOUBLE_EQ(rank_exchange_ms(request, Collective::kAllGather, 100e6),
                   0.025 + 7 * kNetworkHopMs + 1 / kGpuShareOfPeerLink);
  // Eight network adapters of 50 GB/s together would be faster than the copy engines of the GPUs, which therefore limit the rate.
  EXPECT_EQ(rank_link(request_with_links(64, 8, {.between = "ib400"})).gb_per_s, kGpuGroupGbPerS);
  EXPECT_EQ(rank_link(request_with_links(64, 8, {.inside = "pcie4", .between = "ib400"})).gb_per_s,
            kGpuShareOfPeerLink * 32);
  EXPECT_EQ(rank_link(request_with_links(64, 8, {.between = "eth100"})).gb_per_s, kGpuShareOfPeerLink * 12.5);
  // With one rank per machine, one network adapter limits the rate.
  EXPECT_EQ(rank_link(request_with_links(8, 8, {.between = "ib400"})).gb_per_s, kGpuShareOfPeerLink * 50);
}

// The eight ranks of a machine form a tensor-parallel group and exchange activations inside the machine. Each rank exchanges gradients with
// one rank of every other machine, through a network adapter of its own or one that all eight ranks share.
TEST(RankExchange, GroupsThatDivideTheLayersStayInAMachine) {
  PlanRequest request = request_with_links(64, 8, {.inside = "nvlink4", .between = "ib400"});
  request.ranks.tensor_size = 8;
  EXPECT_EQ(rank_link(request, MeshAxis::kTensor).gb_per_s, kGpuGroupGbPerS);
  EXPECT_EQ(rank_link(request, MeshAxis::kTensor).latency_ms, 0.045);
  EXPECT_EQ(rank_link(request).gb_per_s, kGpuShareOfPeerLink * 50);
  EXPECT_EQ(rank_link(request).latency_ms, 6 * kNetworkHopMs);
  request.named_links.between = "eth100";
  EXPECT_EQ(rank_link(request).gb_per_s, kGpuShareOfPeerLink * 12.5 / 8);
}

// Links that the user names replace measurements.
TEST(RankExchange, NamedLinksReplaceMeasuredOnes) {
  PlanRequest request = request_of_ranks();
  request.links = measured_links();
  request.named_links = {.between = "eth10"};
  request.num_machines = 2;
  EXPECT_FALSE(rank_link(request).is_measured);
  // Processes on CPUs of one machine are assumed to exchange 1 GB/s. The network is assumed to reach 73 % (kGpuShareOfPeerLink) of the
  // adapter's 1.25 GB/s, which is less, so the adapter limits the rate.
  EXPECT_EQ(rank_link(request).gb_per_s, kGpuShareOfPeerLink * 1.25);
}

double waited_ms(const Plan& plan) {
  const ProgramPlan& program = plan.programs.at(kTrainProgram);
  // All computing ops are given the time 0, so that exchanges cannot overlap with computation and the program waits for their full time.
  std::vector<double> op_ms(program.graph.ops().size());
  add_transfer_waits(program, plan.request, op_ms);
  double sum = 0;
  for (const double milliseconds : op_ms) sum += milliseconds;
  return sum;
}

TEST(RankExchange, TheExchangesOfAPlanTakeTheMeasuredTimes) {
  PlanRequest request = request_of_ranks();
  EXPECT_GT(waited_ms(build_plan(request)), 0);
  MeasuredLinks links{.num_ranks = 4};
  // In these measurements an operation takes 100 ms for every size, so each operation must be waited for 100 ms.
  links.curves[Collective::kAllReduce] = {{.bytes = int64_t{1} << 40, .median_ms = 100}};
  request.links = links;
  const Plan plan = build_plan(request);
  double num_exchanges = 0;
  for (const OpPlan& op : plan.programs.at(kTrainProgram).ops)
    num_exchanges += op.is_queued() && op.queue == Queue::kCommunication ? 1 : 0;
  ASSERT_GT(num_exchanges, 0);
  EXPECT_EQ(waited_ms(plan), 100 * num_exchanges) << "multiples of 100 are exact";
}

// The pass shard_states replaces each all_reduce by a reduce_scatter and an all_gather. The time of each of these is interpolated between
// the measured times of the same operation for smaller and larger data.
TEST(RankExchange, DividedStatesUseTheCurvesOfTheirOperations) {
  PlanRequest request = request_of_ranks();
  request.ranks.zero_stage = ZeroStage::kStates;
  request.links = {.num_ranks = 4};
  request.links.curves[Collective::kAllReduce] = {{.bytes = int64_t{1} << 40, .median_ms = 1}};
  const double before = waited_ms(build_plan(request));
  request.links.curves[Collective::kAllGather] = {{.bytes = int64_t{1} << 40, .median_ms = 1000}};
  EXPECT_GE(waited_ms(build_plan(request)), before + 999);
  request.links.curves.erase(Collective::kAllGather);
  request.links.curves[Collective::kReduceScatter] = {{.bytes = int64_t{1} << 40, .median_ms = 1000}};
  EXPECT_GE(waited_ms(build_plan(request)), before + 999);
}

}  // namespace
}  // namespace plimsoll
