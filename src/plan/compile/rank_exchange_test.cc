// Tests the estimated times of exchanges between ranks: assumed, and from measured curves.
#include <gtest/gtest.h>

#include "plan/compile/op_times.h"
#include "plan/compile/testing/plan_case.h"

namespace plimsoll {
namespace {

PlanRequest request_of_ranks() {
  PlanRequest request = small_request();
  request.ranks.count = 4;
  return request;
}

// all_reduce sends 1.5 times the data of 4 ranks, all_gather 0.75 times.
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

double waited_ms(const Plan& plan) {
  const ProgramPlan& program = plan.programs.at(kTrainProgram);
  // The other ops take no time, so that every exchange is waited for in full.
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
  // Every size takes 100 ms, so that the wait is 100 ms per operation.
  links.curves[Collective::kAllReduce] = {{.bytes = int64_t{1} << 40, .median_ms = 100}};
  request.links = links;
  const Plan plan = build_plan(request);
  double num_exchanges = 0;
  for (const OpPlan& op : plan.programs.at(kTrainProgram).ops)
    num_exchanges += op.is_queued() && op.queue == Queue::kCommunication ? 1 : 0;
  ASSERT_GT(num_exchanges, 0);
  EXPECT_EQ(waited_ms(plan), 100 * num_exchanges) << "multiples of 100 are exact";
}

// The pass shard_states replaces each all_reduce by a reduce_scatter and an all_gather, each of which has a curve of its own.
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
