#include "plan/build/step_room.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "plan/build/copy_waits.h"
#include "plan/build/op_times.h"
#include "plan/build/program_buffers.h"
#include "plan/build/state_schedule.h"

namespace plimsoll {
namespace {

// States that come early may raise the peak of what is not persistent by a twentieth. The first layers of a
// backward pass find no room else, and wait for each of their updates' copies: 13 of a step's 122 ms for
// BERT-large, 4 x 512 in fp32 on an H200, whose trace shows both directions of the link idle two thirds of
// that time.
constexpr int64_t kShareForSpeed = 20;
// Places are found for all of the room below the peak but little of it, or for nothing near it.
constexpr double kSharesLeftFree[] = {0.0, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3};

// States are brought from the backward pass on. Where that runs several times a step, they would come as
// often.
uint32_t first_position(std::span<const Segment> segments, const PlanRequest& request) {
  const Segment from = request.gradient_accumulation_steps > 1 ? Segment::kOptimizer : Segment::kBackward;
  const auto it = std::ranges::find_if(segments, [&](Segment segment) { return segment >= from; });
  return static_cast<uint32_t>(it - segments.begin());
}

// A room, what is made of it and how long a step then is.
struct Offer {
  StepRoom room = {};
  StateTurns turns = {};
  double ms = std::numeric_limits<double>::infinity();
};

class Offers {
 public:
  Offers(const Graph& graph, const PlanRequest& request) : request_(request), schedules_(graph, request) {
    if (schedules_.updates().empty()) return;
    room_ = {.live_bytes = schedules_.live_bytes(),
             .op_ms = schedules_.op_ms(),
             .link_bytes_per_ms = link_bytes_per_ms(request, LinkUse::kBothWays),
             .first = first_position(schedules_.segments(), request)};
    const StateTurns tight{.turns = tight_turns(schedules_.updates())};
    const int64_t tight_bytes = transient_bytes(schedules_.with(tight), 0);
    most_bytes_ = tight_bytes + tight_bytes / kShareForSpeed;
  }

  bool has_none() const { return schedules_.updates().empty(); }

  // Of each share of the room, the largest first.
  enum class Carries : uint8_t { kNo, kYes };
  std::vector<Offer> of(Carries carries) const {
    const int64_t free_bytes = most_bytes_ - *std::ranges::min_element(room_.live_bytes);
    std::vector<Offer> offers;
    for (const double share : kSharesLeftFree) {
      Offer offer{.room = room_};
      offer.room.carries = carries == Carries::kYes;
      offer.room.most_bytes = most_bytes_ - static_cast<int64_t>(share * static_cast<double>(free_bytes));
      offer.turns = early_turns(schedules_.updates(), schedules_.segments(), offer.room);
      StateSchedule schedule = schedules_.with(offer.turns);
      add_copy_waits(schedule.copies, request_, schedule.op_ms);
      offer.ms = std::accumulate(schedule.op_ms.begin(), schedule.op_ms.end(), 0.0);
      offers.push_back(std::move(offer));
    }
    return offers;
  }

  // The first for which the layout finds places; one of nothing where there is none.
  Offer first_that_fits(std::vector<Offer> offers) {
    for (Offer& offer : offers) {
      if (fits(offer.turns)) return std::move(offer);
    }
    return {};
  }

 private:
  int64_t transient_bytes(StateSchedule schedule, int64_t enough_bytes) const {
    const auto num_positions = static_cast<uint32_t>(schedule.op_ms.size());
    return place_buffers(schedule.buffers, num_positions, request_, enough_bytes).bytes;
  }

  // Different rooms may come to the same.
  bool fits(const StateTurns& turns) {
    for (const auto& [known, fit] : known_) {
      if (known == turns) return fit;
    }
    const bool fit = transient_bytes(schedules_.with(turns), most_bytes_) <= most_bytes_;
    known_.emplace_back(turns, fit);
    return fit;
  }

  const PlanRequest& request_;
  StateSchedules schedules_;
  StepRoom room_;
  int64_t most_bytes_ = 0;
  std::vector<std::pair<StateTurns, bool>> known_;
};

bool is_faster(const Offer& a, const Offer& b) {
  return a.ms < b.ms;
}

}  // namespace

StepRoom find_step_room(const Graph& graph, const PlanRequest& request) {
  Offers offers(graph, request);
  if (offers.has_none()) return {};
  std::vector<Offer> plain = offers.of(Offers::Carries::kNo);
  // Offloaded activations have the link of the forward pass, and where that runs several times a step the
  // states' traffic is little of it. Where no two buffers may share a place, one cannot have two lives
  // either.
  const bool carries =
      request.gradient_accumulation_steps == 1 && !request.offload_activations && !request.separate_buffers;
  if (!carries) return offers.first_that_fits(std::move(plain)).room;
  Offer carried = offers.first_that_fits(offers.of(Offers::Carries::kYes));
  if (is_faster(carried, *std::ranges::min_element(plain, is_faster))) return std::move(carried.room);
  Offer best = offers.first_that_fits(std::move(plain));
  return is_faster(carried, best) ? std::move(carried.room) : std::move(best.room);
}

}  // namespace plimsoll
