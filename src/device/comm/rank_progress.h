// The position of a rank in its work: the part of the run, the operation in which it waits for other ranks, and since when. If
// a rank stops without ending, the others wait for it; this class decides when they have waited too long, and the table of the
// positions of all ranks shows where each of them is.
//
// The threads that train write the position, and the thread that watches the other ranks (store_client.h) reads it. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll {

// The part of a run. In a training step all ranks do the same work at the same time, so that a long wait is a failure. In the
// other parts one rank may work alone for a long time, for example while it writes a checkpoint to a slow disk.
enum class RankPhase : uint8_t { kBegin, kStep, kEvaluation, kCheckpoint, kEnd };

struct RankPosition {
  RankPhase phase = RankPhase::kBegin;
  int64_t step = 0;            // the step of kStep; the step before an evaluation or a checkpoint
  bool waits = false;          // the rank waits for others in the operation
  int peer = -1;               // the rank for which it waits, if that is known
  int64_t number = 0;          // the number of the operation, from 1; 0 if it has none
  std::string operation = {};  // "barrier"; if the rank does not wait, the operation that ended last
  std::chrono::milliseconds time =
      std::chrono::milliseconds(0);  // since it began or, if the rank does not wait, ended
};

// Returns "step 12", "evaluation after step 12", "checkpoint of step 12", or "" at the begin and the end of a run.
std::string phase_text(RankPhase phase, int64_t step);
// Returns a table of the positions of all ranks, one line per rank, which begins with a line of names. A rank without a position
// did not answer. Of many ranks, those that do not wait come first, and the others are cut off. `own_rank` knows the others from the
// store of rank 0.
std::string position_table(const std::vector<std::optional<RankPosition>>& positions, int own_rank);

class RankProgress {
 public:
  using Clock = std::chrono::steady_clock;
  using milliseconds = std::chrono::milliseconds;
  using Now = std::function<Clock::time_point()>;

  // `now`: the clock, which tests replace.
  explicit RankProgress(Now now = &Clock::now);

  // The kinds of waits: in an operation whose end shows that all ranks have reached it; in another operation, such as a broadcast; for
  // the GPU of this rank, which waits for other ranks. The last one is no operation of the host and has no number.
  enum class Kind : uint8_t { kAllRanks, kSomeRanks, kGpu };

  // While an object of this class exists, the rank waits for others in an operation.
  class Wait {
   public:
    Wait(RankProgress& progress, std::string operation, Kind kind);
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    RankProgress& progress_;
    Kind kind_;
  };

  // A wait that takes longer than it may.
  struct Overdue {
    RankPosition position;
    milliseconds limit = milliseconds(0);
    // A rank that works alone may need this time, but it answers questions meanwhile: the wait is only too long if a rank is silent.
    bool needs_silence = false;
    uint64_t wait = 0;  // for is_in()
  };

  // Sets the longest wait in parts without a limit of their own. Waits are not limited before this call.
  void set_longest_wait(milliseconds limit);
  // Begins a part of the run. `limit`: the longest wait in a step. It applies once an operation of the step has shown that all
  // ranks have ended the part before, in which one of them may have worked alone. Until the next step begins, it is also the limit
  // of waits for a silent rank.
  void begin(RankPhase phase, int64_t step, std::optional<milliseconds> limit = std::nullopt);

  RankPosition position() const;
  // Returns phase_text() of the current part, followed by ": " if it is not empty.
  std::string prefix() const;

  // Has to be called at least four times per second, in one thread. Time in which this process did not run, because it was
  // stopped and continued, is not counted as time of a wait.
  void note_time();
  // Returns the wait of this moment if it takes longer than it may.
  std::optional<Overdue> overdue() const;
  // Returns true if the rank is still in this wait.
  bool is_in(uint64_t wait) const;

 private:
  // Returns the time since then in which this process ran. Requires: mutex_ is locked.
  milliseconds time_since(Clock::time_point begin, Clock::duration stopped_before) const;

  const Now now_;
  mutable std::mutex mutex_;  // protects the members below
  std::optional<milliseconds> longest_wait_;
  RankPhase phase_ = RankPhase::kBegin;
  int64_t step_ = 0;
  std::optional<milliseconds> step_limit_;
  bool all_arrived_ = false;  // all ranks have reached the steps after the part before
  int waits_ = 0;             // nested objects of Wait
  uint64_t num_waits_ = 0;
  int64_t num_operations_ = 0;  // waits that are not for the GPU
  int64_t number_ = 0;          // of operation_, or 0
  std::string operation_;
  Clock::time_point changed_;               // when the operation began or ended
  Clock::duration stopped_at_change_ = {};  // stopped_ at that time
  Clock::duration stopped_ = {};            // the time in which this process did not run
  std::optional<Clock::time_point> noted_;  // the last call of note_time()
};

}  // namespace plimsoll
