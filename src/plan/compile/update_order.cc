#include "plan/compile/state_schedule.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "plan/compile/op_times.h"
#include "plan/compile/program_buffers.h"

namespace plimsoll {
namespace {

// Early transfers of states may raise the peak of the transient bytes by a twentieth. Otherwise the first layers of the backward pass
// would have no unused memory for states, and would wait for the copies of each of their updates. For BERT-large (4 sequences of 512
// tokens, fp32, H200), these waits are 13 of the 122 ms of a step, and both directions of the link are idle for two thirds of that
// time.
constexpr int64_t kShareForSpeed = 20;
// Shares of the unused memory below the peak that are not used for early transfers, in the order in which they are tried. Usually the
// layout can use either nearly all of that memory or only a much smaller part.
constexpr double kSharesLeftFree[] = {0.0, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3};
// Shares of the unused memory that are not used for early transfers if updates run in the forward pass. Then copies to the host limit the
// step time, so transferring states long before their update gains nothing. A step of BERT-large (4 sequences of 512 tokens, fp32, H200)
// is estimated at 117.6 ms if all of the memory is used and at 117.2 ms with half of it, which is the first share with which the layout
// succeeds.
constexpr double kSharesLeftFreeByLateUpdates[] = {0.35, 0.5, 0.65};

// Returns the first position of the program at which states may be transferred: the start of the backward pass. If the backward pass runs
// several times per step, it is the start of the optimizer segment, because otherwise states would be transferred several times per step.
uint32_t first_position(std::span<const Segment> segments, const PlanRequest& request) {
  const Segment from = request.batches.accumulation_steps > 1 ? Segment::kOptimizer : Segment::kBackward;
  const auto it = std::ranges::find_if(segments, [&](Segment segment) { return segment >= from; });
  return static_cast<uint32_t>(it - segments.begin());
}

double disk_bytes_per_ms(const PlanRequest& request, Queue queue, LinkUse use) {
  constexpr double kMegabyte = 1e6;
  return kMegabyte / disk_ms(request, queue, kMegabyte, use);
}

// Returns the rate of transfers of states in one direction while transfers in the other direction run too.
double state_bytes_per_ms(const PlanRequest& request) {
  return request.update.states_on_disk ? disk_bytes_per_ms(request, Queue::kToDevice, LinkUse::kBothWays)
                                       : link_bytes_per_ms(request, LinkUse::kBothWays);
}

// Returns true if gradients and states may stay on the device from one step to the next.
bool may_defer(const PlanRequest& request) {
  return request.batches.accumulation_steps == 1 && !request.offload.activations && !request.separate_buffers;
}

// A candidate: the available memory (headroom), the transfer schedule that uses it, and the estimated time of a step.
struct Offer {
  MemoryHeadroom room = {};
  TransferSchedule transfers = {};
  double ms = std::numeric_limits<double>::infinity();
};

class Offers {
 public:
  // The schedules of transfers may use at most `most_bytes` of transient memory on the device. If `most_bytes` is 0, the limit is the
  // transient memory of the plan with the latest transfers, plus the increase that early transfers are allowed.
  Offers(const Graph& graph, const PlanRequest& request, int64_t most_bytes = 0)
      : request_(request), schedules_(graph, request), most_bytes_(most_bytes) {
    if (schedules_.updates().empty()) return;
    room_ = {.live_bytes = schedules_.live_bytes(),
             .op_ms = schedules_.op_ms(),
             .link_bytes_per_ms = state_bytes_per_ms(request),
             .first = first_position(schedules_.segments(), request),
             .is_disk = request.update.states_on_disk};
    if (room_.is_disk) {
      room_.in_alone_bytes_per_ms = disk_bytes_per_ms(request, Queue::kToDevice, LinkUse::kOneWay);
      room_.out_alone_bytes_per_ms = disk_bytes_per_ms(request, Queue::kToHost, LinkUse::kOneWay);
    }
    if (most_bytes_ > 0) return;
    const int64_t tight_bytes = transient_bytes(schedules_.with(tight().transfers), 0);
    most_bytes_ = tight_bytes + std::max(tight_bytes / kShareForSpeed, request.offload.extra_state_bytes);
  }

  bool has_none() const { return schedules_.updates().empty(); }
  int64_t most_bytes() const { return most_bytes_; }
  bool are_in_forward() const {
    return !has_none() && schedules_.updates().front().segment == Segment::kForward;
  }

  // Returns the schedule with transfers as late as possible, which needs the least memory.
  Offer tight() const {
    return timed({.transfers = {.transfers = late_transfers(schedules_.updates(), room_.is_disk)}});
  }

  // States whether states of the last updates may be copied back to the host in the next run of the program. of() returns one candidate
  // for each share in kSharesLeftFree, the one that uses the most memory first.
  enum class Defers : uint8_t { kNo, kYes };
  std::vector<Offer> of(Defers may_defer) const {
    const int64_t free_bytes = most_bytes_ - *std::ranges::min_element(room_.live_bytes);
    std::vector<Offer> offers;
    for (const double share : kSharesLeftFree) {
      Offer offer{.room = room_};
      offer.room.may_defer = may_defer == Defers::kYes;
      offer.room.most_bytes = most_bytes_ - static_cast<int64_t>(share * static_cast<double>(free_bytes));
      offer.transfers =
          transfers_as_early_as_possible(schedules_.updates(), schedules_.segments(), offer.room);
      offers.push_back(timed(std::move(offer)));
    }
    return offers;
  }

  // Returns the first candidate for whose transfer schedule a layout is found that fits into the memory, or an empty candidate.
  Offer first_that_fits(std::vector<Offer> offers) {
    for (Offer& offer : offers) {
      if (fits(offer.transfers)) return std::move(offer);
    }
    return {};
  }

  // Tries schedules in which the updates of a step run in the forward pass of the next step, just before their weights are read. Returns
  // the first schedule whose layout fits into most_bytes() and whose step is faster than `most_ms`, or an empty candidate.
  Offer late_that_fits(double most_ms) {
    for (const double share : kSharesLeftFreeByLateUpdates) {
      Offer offer{.room = room_};
      offer.room.most_bytes = most_bytes_;
      for (int64_t& live : offer.room.live_bytes)
        live += static_cast<int64_t>(share * static_cast<double>(most_bytes_ - live));
      std::optional<TransferSchedule> transfers =
          transfers_for_forward_updates(schedules_.updates(), schedules_.segments(), offer.room);
      if (!transfers) continue;
      offer.transfers = std::move(*transfers);
      offer = timed(std::move(offer));
      if (offer.ms < most_ms && fits(offer.transfers)) return offer;
    }
    return {};
  }

 private:
  Offer timed(Offer offer) const {
    StateSchedule schedule = schedules_.with(offer.transfers);
    add_transfer_waits(schedule.copies, request_, schedule.op_ms);
    offer.ms = std::accumulate(schedule.op_ms.begin(), schedule.op_ms.end(), 0.0);
    return offer;
  }

  int64_t transient_bytes(StateSchedule schedule, int64_t enough_bytes) const {
    const auto num_positions = static_cast<uint32_t>(schedule.op_ms.size());
    return place_buffers(schedule.buffers, num_positions, request_, schedule.cut_at, enough_bytes).bytes;
  }

  // Returns true if the layout of the program with this schedule fits. Results are cached, because different amounts of available memory
  // may lead to the same schedule.
  bool fits(const TransferSchedule& transfers) {
    for (const auto& [known, fit] : known_) {
      if (known == transfers) return fit;
    }
    const bool fit = transient_bytes(schedules_.with(transfers), most_bytes_) <= most_bytes_;
    known_.emplace_back(transfers, fit);
    return fit;
  }

  const PlanRequest& request_;
  StateSchedules schedules_;
  MemoryHeadroom room_;
  int64_t most_bytes_ = 0;
  std::vector<std::pair<TransferSchedule, bool>> known_;
};

bool is_faster(const Offer& a, const Offer& b) {
  return a.ms < b.ms;
}

// Returns the fastest schedule in which updates stay in their segment of the step, instead of running in the forward pass of the next step.
Offer fastest_in_step(Offers& offers, const PlanRequest& request) {
  std::vector<Offer> plain = offers.of(Offers::Defers::kNo);
  // may_defer() returns false in three cases, in which updates cannot be deferred to the next run: activations are offloaded and use the
  // link in the forward pass; the forward pass runs several times per step, so that transfers of states take only a small part of its time;
  // or buffers must not share addresses, while a deferred buffer needs two separate lifetimes.
  if (!may_defer(request)) return offers.first_that_fits(std::move(plain));
  Offer deferred = offers.first_that_fits(offers.of(Offers::Defers::kYes));
  if (is_faster(deferred, *std::ranges::min_element(plain, is_faster))) return deferred;
  Offer best = offers.first_that_fits(std::move(plain));
  return is_faster(deferred, best) ? deferred : best;
}

// Updates run in the next step's forward pass only if this is estimated to shorten the step by at least this fraction, because the
// estimates have errors. On an H200, steps with such updates take 6 % longer than estimated: 124.2 ms instead of 117.2 ms for BERT-large
// with 4 sequences of 512 tokens in fp32, and 115.8 instead of 109.0 ms with 32 sequences in bf16. With updates in the optimizer segment
// the same steps took 145.4 instead of 140.2 ms, and 110.6 instead of 112.1 ms.
constexpr double kLeastGain = 0.06;

// Returns the schedule for updates in the next step's forward pass, or an empty one if none is fast enough.
Offer late_offer(const Graph& graph, const PlanRequest& request, int64_t most_bytes, double most_ms) {
  const Pass pass = updates_at_use_pass();
  if (!may_defer(request) || !request.passes.is_on(pass.name)) return {};
  Graph moved = graph;
  pass.run(moved);
  Offers offers(moved, request, most_bytes);
  return offers.are_in_forward() ? offers.late_that_fits(most_ms) : Offer();
}

}  // namespace

std::optional<UpdateOrder> find_update_order(const Graph& graph, const PlanRequest& request) {
  Offers offers(graph, request);
  if (offers.has_none()) return std::nullopt;
  Offer in_step = fastest_in_step(offers, request);
  if (in_step.room.live_bytes.empty()) in_step.ms = offers.tight().ms;
  const bool must_win = request.offload.updates_at_use == UpdatesAtUse::kWhereFaster;
  const double most_ms = must_win ? (1 - kLeastGain) * in_step.ms : std::numeric_limits<double>::infinity();
  Offer at_use = late_offer(graph, request, offers.most_bytes(), most_ms);
  const bool is_at_use = !at_use.room.live_bytes.empty();
  return UpdateOrder{.place = {.is_at_use = is_at_use, .at_use_ms = at_use.ms, .in_step_ms = in_step.ms},
                     .room = std::move(is_at_use ? at_use.room : in_step.room)};
}

}  // namespace plimsoll
