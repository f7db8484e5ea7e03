// The exchange between host and device in every step: the batch, the learning rate and the step number go to the device; loss, norm and
// flags come back. The host reads and writes the twin, which is a copy of the inputs and outputs of the arena in pinned host memory. A
// batch is copied from the twin to a staging buffer on the device while the previous batch is still computed, and from there to the inputs
// when that batch is done; if the device is idle, it goes to the inputs directly. A short run whose results the host needs at once, such as
// one that computes one token, copies inputs and outputs by kernels within its CUDA graph instead. Only for the CUDA backend; not
// thread-safe.
#pragma once

#include <array>
#include <cstdint>

#include "device/cuda/cuda_device.h"
#include "device/cuda/event.h"
#include "exec/backend.h"
#include "kernels/communication/host_copy.h"

namespace plimsoll {

class HostExchange {
 public:
  // Fills the twin (the copy of the inputs and outputs in pinned host memory) with `fill`. `map` and `device` must outlive the object.
  HostExchange(const Plan& plan, CudaDevice& device, const ArenaMap& map, uint8_t fill);

  // Fills the outputs on the device, because they may be read before a program has written them, and separate buffers are not filled when
  // they are allocated.
  void fill_outputs(uint8_t fill);

  // Returns the address in the twin (pinned host memory) of the input or output at this offset of the arena. Errors: kInternal for another
  // offset.
  std::byte* at(int64_t offset) const;

  // These functions do what the functions of ExecutorBackend with the same names describe.
  void before_host_writes(Inputs inputs);
  void before_host_reads();
  void fetch_outputs();
  const std::byte* fetched(int64_t offset);
  bool is_fetching() const {
    return outputs_in_flight_ && !(counts_copies_ ? has_copied_outputs() : fetched_.is_reached());
  }

  // Has to be called before a forward pass, backward pass or update. Copies to the device those
  // inputs that the host has changed, and notes that the outputs on the host will be out of date.
  void begin_segment();

  // Returns true if inputs and outputs are so small that kernels can copy them (kernels/communication/host_copy.h).
  bool has_short_copies() const { return has_short_copies_; }
  // The three steps of a run whose inputs and outputs are copied by kernels. begin_short_run() has to be called before each run. The other
  // two enqueue the copies before and after the ops of the run, and may be captured in a CUDA graph. Afterwards, fetched() waits for the
  // outputs of this run. Requires: has_short_copies(), no changed inputs of Inputs::kUpdate.
  void begin_short_run();
  void enqueue_inputs();
  void enqueue_outputs();

 private:
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
  };
  struct Sent {
    // True if the host has changed inputs of one group (enum Inputs) since they were copied to the device.
    bool is_changed = false;
    // True if a copy to the device may still be reading the inputs of this group from pinned host memory.
    bool is_in_flight = false;
  };

  std::array<Range, 2> batch_ranges() const;
  void send_batch();
  void stage_batch();
  std::byte* staged_at(int64_t offset) const { return map_.at(staged_begin_) + (offset - all_.begin); }
  void wait_for_outputs();
  bool has_copied_outputs() const;
  void wait_for_copied_outputs() const;

  CudaDevice& device_;
  const ArenaMap& map_;
  Range all_ = {};      // the range of all inputs and outputs in the arena; inputs come first
  Range update_ = {};   // the range of the inputs of Inputs::kUpdate
  Range outputs_ = {};  // the range of all outputs, at the end of all_
  int64_t staged_begin_ = 0;
  PinnedMemory twin_;  // a copy of the range all_ in pinned host memory
  // The numbers by which the host notices that a kernel has copied the outputs. They are in the memory block of twin_, after the copy of
  // the range all_.
  HostCopyNumbers* numbers_ = nullptr;
  bool has_short_copies_ = false;
  // True if the outputs in flight are copied by a kernel, so that their arrival is shown by numbers_ and not by the event fetched_.
  bool counts_copies_ = false;
  Sent sent_[2] = {};               // one element for each group of inputs (enum Inputs)
  bool outputs_stale_ = false;      // true if ops were enqueued after the last fetch
  bool outputs_in_flight_ = false;  // true if a fetch was started and no caller has waited for it
  CudaSideStream staging_;
  CudaEvent staged_;  // event: the batch has been copied out of pinned host memory
  CudaEvent taken_;   // event: the batch has been copied out of the staging buffer
  CudaEvent update_sent_;
  CudaEvent fetched_;
};

}  // namespace plimsoll
