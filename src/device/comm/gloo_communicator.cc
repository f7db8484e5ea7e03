#include "device/comm/gloo_communicator.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/hash.h"
#include "base/units.h"
#include "device/comm/blocked_signals.h"
#include "device/comm/collectives.h"
#include "device/comm/gloo_mesh.h"
#include "device/comm/gloo_operations.h"
#include "device/comm/store_client.h"
#include "device/comm/store_server.h"

namespace plimsoll {
namespace {

using std::chrono::milliseconds;

// After a transfer has failed, this rank waits this long for the store to report which rank caused the failure.
constexpr milliseconds kCauseLimit{300};
// A rank that waits too long asks the others what they are doing. It waits for the answers for kPositionLimit or, if another rank may be
// working alone, for kSilenceLimit; a rank that does not answer within kSilenceLimit counts as stopped.
constexpr milliseconds kPositionLimit{1000};
constexpr milliseconds kSilenceLimit{10000};
// A time limit so long that Gloo's own limits never end a wait. Gloo would also count the time in
// which the process was stopped. RankProgress limits the waits instead.
constexpr std::chrono::hours kNoLimit{100000};

// Returns the interval between two checks of the clock, short enough for short time limits.
milliseconds watch_pause(milliseconds limit) {
  return std::clamp(limit / 8, milliseconds(20), milliseconds(250));
}

std::string limit_text(milliseconds limit) {
  return fmt::format("{:g} s", static_cast<double>(limit.count()) / 1000.0);
}

// Stores which other rank was the first to fail, to die or to leave the run. The thread of the store client reports it.
class FirstEnd {
 public:
  void report(const RankEnd& end) {
    const std::lock_guard lock(mutex_);
    // A rank that failed explains a failed operation better than a rank that left after its last operation. The report of a
    // failure therefore replaces the report that a rank left.
    if (!end_ || (end_->kind == RankEnd::Kind::kLeft && end.kind != RankEnd::Kind::kLeft)) end_ = end;
    changed_.notify_all();
  }
  std::optional<RankEnd> get() const {
    const std::lock_guard lock(mutex_);
    return end_;
  }
  std::optional<RankEnd> wait(milliseconds limit) const {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, limit, [&] { return end_.has_value(); });
    return end_;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::optional<RankEnd> end_;
};

std::string end_text(const RankEnd& end, int size) {
  switch (end.kind) {
    case RankEnd::Kind::kLeft:
      return fmt::format("rank {} of {} ended its part of the run before that operation", end.rank, size);
    case RankEnd::Kind::kFailed:
      // If the text has several lines, it contains a table, which has to begin on its own line.
      return end.text.find('\n') == std::string::npos
                 ? fmt::format("rank {} of {} failed ({})", end.rank, size, end.text)
                 : fmt::format("rank {} of {} failed: {}", end.rank, size, end.text);
    case RankEnd::Kind::kDied:
      break;
  }
  return fmt::format("the process of rank {} of {} ended, or its host cannot be reached", end.rank, size);
}

// Adds a period to a text of one line. A text of several lines ends with a table and is not changed.
std::string sentence(const std::string& text) {
  return text.find('\n') == std::string::npos ? text + "." : text;
}

class GlooCommunicator final : public GlooOperations, private StoreObserver {
 public:
  GlooCommunicator(const RankPlace& place, const CommunicatorOptions& options) : place_(place) {
    const SteadyTime deadline = std::chrono::steady_clock::now() + options.connect_timeout;
    const auto left = [&] { return milliseconds(std::max(1, milliseconds_until(deadline))); };
    if (place.is_first()) server_.emplace(place.store_host, place.store_port, place.size);
    store_.emplace(place.store_host, place.store_port, place.rank, place.size, options.connect_timeout,
                   options.program);
    try {
      mesh_.emplace(place.rank, place.size, store_->own_address(), left());
      store_->set(address_key(place.rank), mesh_->addresses(), left());
      std::vector<std::vector<std::byte>> addresses;
      addresses.reserve(static_cast<size_t>(place.size));
      for (int peer = 0; peer < place.size; ++peer)
        addresses.push_back(store_->get(address_key(peer), left()));
      store_->watch(*this, watch_pause(options.operation_timeout));
      const std::string what = fmt::format("The connection of {} ranks", place.size);
      const uint64_t slot = slot_of(num_operations_++, what);
      run_until(what, slot, deadline, options.connect_timeout, [&](const Transfer& transfer) {
        for (int peer = 0; peer < place.size; ++peer) {
          if (peer != place.rank) mesh_->connect(peer, addresses[static_cast<size_t>(peer)]);
        }
        dissemination_barrier(transfer);
      });
      progress().set_longest_wait(options.operation_timeout);
    } catch (const Error& error) {
      store_->leave(error.what());
      throw;
    }
  }

  // Tells the other ranks that this rank leaves, before they see that its connections close.
  ~GlooCommunicator() override {
    forget_messages();
    store_.reset();
    mesh_.reset();
    server_.reset();
  }

  int rank() const override { return place_.rank; }
  int size() const override { return place_.size; }

  std::unique_ptr<Communicator> group(const std::vector<int>& members) override {
    if (members.size() == 1) return Communicator::group(members);
    return std::make_unique<Group>(*this, members);
  }

  void send(std::span<const std::byte> bytes, RankChannel to) override {
    if (bytes.empty()) return;
    const uint64_t slot = message_slot(num_sent_[to]++, bytes.size(), place_.rank, to.rank, to.channel);
    run_message(fmt::format("send of {} bytes to rank {}", bytes.size(), to.rank), slot,
                [&](const Transfer& transfer) {
                  auto* data = const_cast<std::byte*>(bytes.data());
                  sending_[to].push_back(
                      std::make_unique<TransferBuffer>(transfer.mesh, to.rank, data, bytes.size()));
                  sending_[to].back()->send(transfer.slot, 0, bytes.size());
                });
  }

  void wait_sent(RankChannel to) override {
    std::vector<std::unique_ptr<TransferBuffer>>& messages = sending_[to];
    if (messages.empty()) return;
    run_message(
        fmt::format("wait until rank {} has received {}", to.rank, counted(messages.size(), "message")), 0,
        [&](const Transfer& transfer) {
          for (const auto& message : messages) message->wait_sent(transfer.deadline);
        });
    messages.clear();
  }

  void receive(std::span<std::byte> bytes, RankChannel from) override {
    if (bytes.empty()) return;
    const uint64_t slot =
        message_slot(num_received_[from]++, bytes.size(), from.rank, place_.rank, from.channel);
    run_message(fmt::format("receive of {} bytes from rank {}", bytes.size(), from.rank), slot,
                [&](const Transfer& transfer) {
                  TransferBuffer buffer(transfer.mesh, from.rank, bytes.data(), bytes.size());
                  buffer.receive(transfer.slot, 0, bytes.size());
                  buffer.wait_received(transfer.deadline);
                });
  }

  void on_failure(std::function<void(const std::string&)> report) override {
    set_failure_report(*this, std::move(report));
  }

 private:
  // A communicator between some of the ranks. It uses the connections, the progress and the staging memory of the communicator
  // between all ranks.
  class Group final : public GlooOperations {
   public:
    Group(GlooCommunicator& all, const std::vector<int>& members)
        : all_(all),
          group_{.members = members},
          name_(fmt::format(" of ranks {}", fmt::join(members, ", "))) {
      const auto own = std::ranges::find(members, all.rank());
      PLIMSOLL_CHECK(
          own != members.end(),
          "the members of a group must include the rank that creates it, but rank {} is not in the group{}",
          all.rank(), name_);
      group_.rank = static_cast<int>(own - members.begin());
    }
    ~Group() override { all_.set_failure_report(*this, {}); }
    Group(const Group&) = delete;
    Group& operator=(const Group&) = delete;
    int rank() const override { return group_.rank; }
    int size() const override { return static_cast<int>(group_.members.size()); }
    void send(std::span<const std::byte> bytes, RankChannel to) override { all_.send(bytes, in_mesh(to)); }
    void wait_sent(RankChannel to) override { all_.wait_sent(in_mesh(to)); }
    void receive(std::span<std::byte> bytes, RankChannel from) override {
      all_.receive(bytes, in_mesh(from));
    }
    void on_failure(std::function<void(const std::string&)> report) override {
      all_.set_failure_report(*this, std::move(report));
    }

   private:
    // Runs an operation of this group. The kind of wait is always kSomeRanks, because the end of
    // the operation proves only that the ranks of the group, not all ranks, have reached it.
    void run(const std::string& what, const Operation& operation, RankProgress::Kind) override {
      all_.run_in(&group_, num_operations_, what + name_, operation, RankProgress::Kind::kSomeRanks);
    }
    RankChannel in_mesh(RankChannel of_group) const {
      return {group_.members[static_cast<size_t>(of_group.rank)], of_group.channel};
    }
    std::span<std::byte> staging() override { return all_.staging(); }

    GlooCommunicator& all_;
    RankGroup group_;
    std::string name_;
    uint64_t num_operations_ = 0;
  };

  // Sets the function that is called with the text of a failure of another rank; an empty function removes it.
  // `owner` is this object or one of its groups. If a failure is already known, the function is called at once.
  void set_failure_report(const Communicator& owner, std::function<void(const std::string&)> report) {
    const std::lock_guard lock(report_mutex_);
    if (!report) {
      failure_reports_.erase(&owner);
      return;
    }
    const auto& added = failure_reports_[&owner] = std::move(report);
    if (!long_wait_.empty()) return added(long_wait_);
    const std::optional<RankEnd> end = first_end_.get();
    if (end && end->kind != RankEnd::Kind::kLeft) added(end_text(*end, place_.size));
  }
  // Calls all functions of failure_reports_. Requires: report_mutex_ is locked.
  void report_failure(const std::string& text) {
    for (const auto& [owner, report] : failure_reports_) report(text);
  }

  std::span<std::byte> staging() override { return {staging_.get(), kStagingBytes}; }

  static std::string address_key(int rank) { return fmt::format("addresses of rank {}", rank); }

  // When this rank has waited too long, it asks the other ranks for their positions (what they are doing). This struct contains
  // the state of such a question: the wait, the end of the time for answers, and the answers so far.
  struct Question {
    RankProgress::Overdue wait;
    SteadyTime end;
    std::vector<std::optional<RankPosition>> positions;
  };

  void on_end(const RankEnd& end) override {
    first_end_.report(end);
    if (end.kind == RankEnd::Kind::kLeft) return;
    mesh_->close();
    const std::lock_guard lock(report_mutex_);
    report_failure(progress().prefix() + end_text(end, place_.size));
  }

  RankPosition own_position() override { return with_peer(progress().position()); }

  void on_position(int rank, const RankPosition& position) override {
    if (question_) question_->positions[static_cast<size_t>(rank)] = position;
  }

  // If this rank has waited too long and no failed rank is known, asks the other ranks what they are
  // doing, and then makes the operation fail. If the wait ends in the meantime, nothing happens.
  void on_time(StoreClient& store) override {
    progress().note_time();
    if (has_waited_too_long_) return;
    const SteadyTime now = std::chrono::steady_clock::now();
    if (!question_) return ask_if_overdue(store, now);
    const auto num_known = std::ranges::count_if(question_->positions, [](const auto& p) { return !!p; });
    const bool is_silent = num_known + 1 < size();
    if (is_silent && now < question_->end) return;
    const Question question = *std::exchange(question_, std::nullopt);
    if (question.wait.needs_silence && !is_silent) {
      next_question_ = now + question.wait.limit;
    } else if (progress().is_in(question.wait.wait)) {
      fail_wait(store, question);
    }
  }

  void ask_if_overdue(StoreClient& store, SteadyTime now) {
    std::optional<RankProgress::Overdue> wait = progress().overdue();
    const std::optional<RankEnd> end = first_end_.get();
    if (!wait || (end && end->kind != RankEnd::Kind::kLeft)) return;
    if (wait->needs_silence && now < next_question_) return;
    wait->position = with_peer(std::move(wait->position));
    const milliseconds answer_limit = wait->needs_silence ? kSilenceLimit : kPositionLimit;
    question_ = Question{.wait = *std::move(wait),
                         .end = now + answer_limit,
                         .positions = std::vector<std::optional<RankPosition>>(static_cast<size_t>(size()))};
    store.ask_positions();
  }

  // Makes an operation that has waited too long fail, on this rank and on the others.
  void fail_wait(StoreClient& store, const Question& question) {
    const RankPosition& own = question.wait.position;
    std::vector<std::optional<RankPosition>> positions = question.positions;
    positions[static_cast<size_t>(rank())] = own;
    const std::string part = phase_text(own.phase, own.step);
    const std::string text = fmt::format(
        "{}{}{} did not end within {}: {}. Check that no process has stopped, and that every rank calls the "
        "same operations with the same sizes; --ddp_timeout permits longer waits.\n{}",
        part, part.empty() ? "" : ": ", own.operation, limit_text(question.wait.limit),
        own.peer < 0 ? fmt::format("rank {} of {} waits", rank(), size())
                     : fmt::format("rank {} waits for rank {} of {}", rank(), own.peer, size()),
        position_table(positions, rank()));
    has_waited_too_long_ = true;
    const std::lock_guard lock(report_mutex_);
    long_wait_ = text;
    store.leave(text);
    mesh_->close();
    report_failure(text);
  }

  RankPosition with_peer(RankPosition position) const {
    // The host knows for which rank it waits only in an operation, which has a number, and not while it waits for the GPU.
    if (position.waits && position.number > 0) position.peer = mesh_->awaited_peer();
    return position;
  }

  std::string long_wait() {
    const std::lock_guard lock(report_mutex_);
    return long_wait_;
  }

  void run(const std::string& what, const Operation& operation, RankProgress::Kind kind) override {
    run_in(nullptr, num_operations_, what, operation, kind);
  }

  // Runs an operation of a group. The ranks of a group count their operations, so that each operation has the same number on all of them.
  void run_in(const RankGroup* group, uint64_t& num_operations, const std::string& what,
              const Operation& operation, RankProgress::Kind kind) {
    const RankProgress::Wait wait(progress(), what, kind);
    run_until(what, slot_of(num_operations++, what), std::chrono::steady_clock::now() + kNoLimit, kNoLimit,
              operation, group);
  }

  // Runs the send or the receive of a message between two ranks.
  void run_message(const std::string& what, uint64_t slot, const Operation& operation) {
    const RankProgress::Wait wait(progress(), what, RankProgress::Kind::kSomeRanks);
    run_until(what, slot, std::chrono::steady_clock::now() + kNoLimit, kNoLimit, operation);
  }

  // Returns the number by which Gloo matches messages. It depends on the number, the name and the sizes of the operation, so that
  // ranks that call different operations, or the same operation with different sizes, wait for each other until the time limit.
  // If they exchanged messages, a rank could receive more bytes than its memory can hold, and Gloo would then end the process.
  static uint64_t slot_of(uint64_t number, const std::string& name) {
    return (number << 32) | ((hash64(name) << 1) & 0xffffffffu);
  }
  static uint64_t message_slot(uint64_t number, size_t bytes, int from, int to, int64_t channel) {
    return slot_of(number, fmt::format("message of {} bytes from rank {} to rank {} in channel {}", bytes,
                                       from, to, channel));
  }

  // Frees the buffers of sent messages. The only caller of send() is the executor, and it has waited for all its messages before this
  // object is destroyed, unless a rank has failed. Any other caller of send() must call wait_sent() itself.
  void forget_messages() {
    for (const auto& [to, messages] : sending_) {
      try {
        for (const auto& message : messages)
          message->wait_sent(std::chrono::steady_clock::now() + kCauseLimit);
      } catch (const TransferFailure&) {
        break;
      }
    }
    sending_.clear();
  }

  // Runs an operation and turns its failure into an Error that names the rank that caused it.
  void run_until(const std::string& operation_name, uint64_t slot, SteadyTime deadline, milliseconds limit,
                 const Operation& operation, const RankGroup* group = nullptr) {
    if (!failure_.empty()) throw_error(ErrorCode::kDevice, "cannot start {}: {}", operation_name, failure_);
    const std::string what = progress().prefix() + operation_name;
    if (const std::string text = long_wait(); !text.empty()) fail(text);
    // A rank that has left the run without a failure may have sent its data for this operation before
    // it left, so the operation is tried. It fails at once only if another rank has failed or died.
    if (const std::optional<RankEnd> end = first_end_.get(); end && end->kind != RankEnd::Kind::kLeft) {
      fail(sentence(fmt::format("{} failed: {}", what, end_text(*end, size()))));
    }
    std::optional<TransferFailure> failure;
    try {
      const BlockedSignals blocked = BlockedSignals::sigpipe();
      operation({.mesh = *mesh_, .slot = slot, .deadline = deadline, .group = group});
      return;
    } catch (const TransferFailure& error) {
      failure = error;
    }
    if (const std::string text = long_wait(); !text.empty()) fail(text);
    const bool is_late = std::chrono::steady_clock::now() >= deadline;
    if (const std::optional<RankEnd> end = first_end_.wait(is_late ? milliseconds(0) : kCauseLimit)) {
      fail(sentence(fmt::format("{} failed: {}", what, end_text(*end, size()))));
    }
    if (is_late) {
      fail(
          fmt::format("{} did not end within {}: rank {} waits for rank {} of {}. Check that no process has "
                      "stopped.",
                      what, limit_text(limit), rank(), failure->peer(), size()));
    }
    fail(fmt::format("{} failed: the connection of rank {} to rank {} of {} closed ({}).", what, rank(),
                     failure->peer(), size(), failure->what()));
  }

  // Ends the use of this communicator after a failure: tells the other ranks the reason, and makes every later operation fail.
  [[noreturn]] void fail(const std::string& text) {
    failure_ = text;
    store_->leave(text);
    mesh_->close();
    throw Error(ErrorCode::kDevice, text);
  }

  RankPlace place_;
  std::unique_ptr<std::byte[]> staging_ = std::make_unique_for_overwrite<std::byte[]>(kStagingBytes);
  FirstEnd first_end_;
  std::string failure_;
  std::mutex
      // protects failure_reports_ and long_wait_; is locked while a function in failure_reports_ runs
      report_mutex_;
  // functions to call after a failure, each for one communicator or group
  std::map<const Communicator*, std::function<void(const std::string&)>> failure_reports_;
  std::string long_wait_;  // set if this rank has waited too long: the text of the failure
  // The next three members are used by the thread of the store client only.
  std::optional<Question> question_;
  // If this rank waits for one that may work alone for long: the earliest time to ask the other ranks again what they are doing.
  SteadyTime next_question_ = {};
  bool has_waited_too_long_ = false;
  uint64_t num_operations_ = 0;
  // For each rank and channel: the number of messages sent, the number of messages received, and
  // the buffers of those sent messages for which wait_sent() has not been called yet.
  std::map<RankChannel, uint64_t> num_sent_, num_received_;
  std::map<RankChannel, std::vector<std::unique_ptr<TransferBuffer>>> sending_;
  // Declared last and thus destroyed first, because the thread of the store client uses the members above.
  std::optional<StoreServer> server_;
  std::optional<GlooMesh> mesh_;
  std::optional<StoreClient> store_;
};

}  // namespace

std::unique_ptr<Communicator> connect_by_gloo(const RankPlace& place, const CommunicatorOptions& options) {
  return std::make_unique<GlooCommunicator>(place, options);
}

}  // namespace plimsoll
