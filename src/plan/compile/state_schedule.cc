#include "plan/compile/state_schedule.h"

#include <algorithm>
#include <unordered_map>

#include "plan/compile/kernel_choice.h"
#include "plan/compile/op_times.h"
#include "plan/compile/program_buffers.h"

namespace plimsoll {

StateSchedules::StateSchedules(const Graph& graph, const PlanRequest& request)
    : device_(request.device.kind),
      on_disk_(request.update.states_on_disk),
      updates_(find_moved_updates(graph)) {
  const size_t n = graph.ops().size();
  for (const Op& op : graph.ops()) segments_.push_back(op.segment);
  segment_end_.assign(n, static_cast<uint32_t>(n));
  for (size_t i = n; i-- > 1;) {
    segment_end_[i - 1] = segments_[i - 1] == segments_[i] ? segment_end_[i] : static_cast<uint32_t>(i);
  }
  const KernelChoice kernels(graph);
  const std::vector<int64_t> scratch_bytes = kernels.scratch_bytes(graph, request.batches.train, request);
  op_ms_ = op_times(graph, kernels.kinds(), request);
  buffers_ = ProgramBuffers(graph).of(graph, request.batches.train, scratch_bytes, device_).on_device;
  std::unordered_map<ValueId, uint32_t> held_until;
  copies_ = timed_transfers(graph, request.batches.train);
  for (const TimedTransfer& copy : copies_) {
    const Op& op = graph.ops()[copy.op];
    const auto hold = [&](ValueId id) {
      uint32_t& end = held_until[root_of(graph, id)];
      end = std::max(end, copy.end);
    };
    std::ranges::for_each(std::span(op.inputs).first(op.outputs.size()), hold);
    std::ranges::for_each(op.outputs, hold);
  }
  for (const TransientBuffer& buffer : buffers_) {
    const auto it = held_until.find(buffer.root);
    held_until_.push_back(it == held_until.end() ? 0 : it->second);
  }
}

std::vector<int64_t> StateSchedules::live_bytes() const {
  std::vector<LiveRange> ranges;
  for (const TransientBuffer& buffer : buffers_)
    ranges.push_back(
        {.root = buffer.root, .bytes = buffer.bytes, .first = buffer.first, .last = buffer.last});
  return plimsoll::live_bytes(ranges, segments_.size(), arena_alignment(device_));
}

// Computes the positions of ops, updates and copies in the program with copies of optimizer states from their positions in the program
// without them.
class StateSchedules::Positions {
 public:
  Positions(const StateSchedules& program, const TransferSchedule& traffic)
      : program_(program), traffic_(traffic), first_deferred_(program.updates_.size() - traffic.deferred) {
    const size_t n = program.segments_.size();
    const size_t num_updates = program.updates_.size();
    in_.resize(num_updates);
    out_.resize(num_updates);
    for (size_t k = num_updates; k-- > first_deferred_;) out_[k] = size_++;
    const std::vector<size_t> order = order_of_copies(traffic);
    size_t brought = 0, updated = 0;
    for (uint32_t i = 0; i < n; ++i) {
      begin_.push_back(size_);
      while (brought < num_updates && traffic.transfers[order[brought]].before == i)
        in_[order[brought++]] = size_++;
      op_.push_back(size_++);
      if (updated == num_updates || program.updates_[updated].op != i) continue;
      if (updated < first_deferred_) out_[updated] = size_++;
      ++updated;
    }
    begin_.push_back(size_);
    PLIMSOLL_CHECK(brought == num_updates && updated == num_updates,
                   "every update must have a copy of its optimizer states to the device and back, but only "
                   "{} of {} have one",
                   brought, num_updates);
    end_copies();
  }

  uint32_t size() const { return size_; }
  uint32_t op(size_t i) const { return op_[i]; }
  uint32_t begin(size_t i) const { return begin_[i]; }
  bool is_deferred(size_t k) const { return k >= first_deferred_; }
  bool is_early(size_t k) const { return k < traffic_.prefetched; }
  // Returns the copies of the states of an update to the device and back, with the positions where they start and end.
  TimedTransfer in(size_t k) const {
    return {.op = in_[k],
            .end = in_end_[k],
            .queue = Queue::kToDevice,
            .bytes = bytes(k),
            .uses_disk = program_.on_disk_};
  }
  TimedTransfer out(size_t k) const {
    return {.op = out_[k],
            .end = out_end_[k],
            .queue = Queue::kToHost,
            .bytes = bytes(k),
            .uses_disk = program_.on_disk_};
  }
  // Converts the end of a copy (the position before which the copy must have ended) from the program without copies of states to the
  // program with them. The copy must still have ended before the same op. If this op is the first one of a segment (forward, backward or
  // optimizer), the copy must have ended before the copies of states that are inserted in front of the op.
  uint32_t end_of(uint32_t end) const {
    const std::vector<Segment>& segments = program_.segments_;
    const bool is_same = end > 0 && end < segments.size() && segments[end] == segments[end - 1];
    return is_same ? op_[end] : begin_[end];
  }

 private:
  double bytes(size_t k) const { return static_cast<double>(program_.updates_[k].bytes); }

  void end_copies() {
    const std::vector<MovedUpdate>& updates = program_.updates_;
    const auto segment_end = [&](uint32_t op) { return begin_[program_.segment_end_[op]]; };
    for (size_t k = 0; k < updates.size(); ++k) {
      const uint32_t end = segment_end(traffic_.transfers[k].before);
      // If states are copied to the device before the run in which their update reads them, the copy may last until the end of the segment
      // in which it starts.
      in_end_.push_back(is_early(k) ? end : std::min(op_[updates[k].op], end));
      out_end_.push_back(segment_end(is_deferred(k) ? 0 : updates[k].op));
    }
    // If copies of states to the host are deferred to the next run, its forward pass makes only these copies, and begins with the states of
    // the last update.
    size_t released = 0;
    for (const Release& release : traffic_.releases) {
      for (; released < release.ended; ++released) {
        const size_t k = traffic_.deferred > 0 ? updates.size() - 1 - released : released;
        out_end_[k] = std::min(out_end_[k], op_[release.before]);
      }
    }
    for (size_t k = 0; k < updates.size(); ++k) end_what_is_waited_for(k);
  }

  // The copies to the device for update k start only after the states of the first updates of the same segment are back on the host; the
  // schedule states the number of these updates (ended_in_segment()). Sets the ends of the copies that bring the states of these updates
  // back to the host.
  void end_what_is_waited_for(size_t k) {
    const std::vector<MovedUpdate>& updates = program_.updates_;
    const Segment segment = program_.segments_[traffic_.transfers[k].before];
    const auto first = std::ranges::find(updates, segment, &MovedUpdate::segment) - updates.begin();
    const size_t ended = ended_in_segment(updates, traffic_.transfers, k);
    for (size_t j = static_cast<size_t>(first); j < first_deferred_ && j < static_cast<size_t>(first) + ended;
         ++j) {
      if (updates[j].segment != segment || out_[j] > in_[k]) break;
      out_end_[j] = std::min(out_end_[j], in_[k]);
    }
  }

  const StateSchedules& program_;
  const TransferSchedule& traffic_;
  size_t first_deferred_;
  uint32_t size_ = 0;
  // For each op, the position of the first copy inserted before it, or of the op itself if there is none. The last element is the
  // number of positions.
  std::vector<uint32_t> begin_;
  std::vector<uint32_t> op_;
  // for each update, the position and the end of its copies to the device
  std::vector<uint32_t> in_, in_end_;
  std::vector<uint32_t> out_, out_end_;
};

StateSchedule StateSchedules::with(const TransferSchedule& transfers) const {
  const Positions at(*this, transfers);
  StateSchedule schedule;
  schedule.op_ms.resize(at.size());
  for (size_t i = 0; i < op_ms_.size(); ++i) schedule.op_ms[at.op(i)] = op_ms_[i];
  for (const TimedTransfer& copy : copies_)
    schedule.copies.push_back({at.op(copy.op), at.end_of(copy.end), copy.queue, copy.bytes});
  for (size_t k = 0; k < updates_.size(); ++k) {
    schedule.copies.push_back(at.in(k));
    schedule.copies.push_back(at.out(k));
  }
  std::ranges::sort(schedule.copies, {}, &TimedTransfer::op);
  // The layout expects the buffers in the order in which ops first use them. If the copy of a state to the host is deferred, the first op
  // of a run that uses the state's buffer is this copy, which reads the value that the previous run left.
  const auto add_states = [&](size_t k) {
    for (const int64_t bytes : updates_[k].state_bytes) {
      schedule.buffers.push_back(
          {.bytes = bytes_in_arena(bytes, device_), .first = at.in(k).op, .last = at.out(k).end - 1});
    }
  };
  for (size_t k = updates_.size(); k-- > 0 && at.is_deferred(k);) add_states(k);
  for (size_t k = 0; k < transfers.prefetched; ++k) add_states(k);
  size_t brought = transfers.prefetched;
  const auto add_states_before = [&](uint32_t position) {
    for (; brought < updates_.size() && at.in(brought).op < position; ++brought) {
      if (!at.is_deferred(brought)) add_states(brought);
    }
  };
  for (size_t b = 0; b < buffers_.size(); ++b) {
    const TransientBuffer& buffer = buffers_[b];
    const bool is_scratch = buffer.root == kNoValue;
    // Gradients that are deferred to the next run (first > last) may be anywhere in the list, because the layout does not depend on their
    // order.
    if (buffer.first <= buffer.last) add_states_before(is_scratch ? at.size() : at.op(buffer.first));
    const bool is_held = held_until_[b] == buffer.last + 1;
    schedule.buffers.push_back({.bytes = buffer.bytes,
                                .first = at.op(buffer.first),
                                .last = is_held ? at.end_of(held_until_[b]) - 1 : at.op(buffer.last)});
  }
  add_states_before(at.size());
  const bool are_late = !updates_.empty() && updates_.front().segment == Segment::kForward;
  if (are_late) schedule.cut_at = at.begin(segment_end_.front());
  return schedule;
}

}  // namespace plimsoll
