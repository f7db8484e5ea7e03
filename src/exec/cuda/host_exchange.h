// What crosses between the host and the device with every step: a batch, learning rate and step number one
// way, loss, norm and flags the other. The host reads and writes a twin of that part of the arena, in pinned
// memory; a batch goes from there to a second place on the device while the batch before it is still
// computed on, and moves on when that one is done. Used by the CUDA back end alone; not thread-safe.
#pragma once

#include <cstdint>

#include "device/cuda/cuda_device.h"
#include "device/cuda/event.h"
#include "exec/backend.h"

namespace plimsoll {

class HostExchange {
 public:
  // The twin is filled with `fill`. `map` and `device` outlive the object.
  HostExchange(const Plan& plan, CudaDevice& device, const ArenaMap& map, uint8_t fill);

  // Outputs that no program has written yet are read too: where buffers lie apart nobody has filled them.
  void fill_outputs(uint8_t fill);

  // The host's twin of the input or output at this offset of the arena. Errors: kInternal for another one.
  std::byte* at(int64_t offset) const;

  // As the functions of ExecutorBackend.
  void before_host_writes(Inputs inputs);
  void before_host_reads();
  void fetch_outputs();
  const std::byte* fetched(int64_t offset);
  bool is_fetching() const { return outputs_under_way_ && !fetched_.is_reached(); }

  // Before a segment runs: what the host changed goes to the device, and outputs are no longer current.
  void begin_segment();

 private:
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
  };
  struct Sent {
    bool is_changed = false;    // by the host, since it was sent
    bool is_under_way = false;  // the host's copy is still read
  };

  void stage_batch();
  std::byte* staged_at(int64_t offset) const { return map_.at(staged_begin_) + (offset - all_.begin); }
  void wait_for_outputs();

  CudaDevice& device_;
  const ArenaMap& map_;
  Range all_ = {};      // inputs, and outputs behind them
  Range update_ = {};   // of the inputs, those of Inputs::kUpdate
  Range outputs_ = {};  // to the end of all
  int64_t staged_begin_ = 0;
  PinnedMemory twin_;               // of all_
  Sent sent_[2] = {};               // by Inputs
  bool outputs_stale_ = false;      // something ran since they were fetched
  bool outputs_under_way_ = false;  // they were fetched, and nobody has waited for them
  CudaSideStream staging_;
  CudaEvent staged_;  // the batch has left the host's memory
  CudaEvent taken_;   // and the place where it waits
  CudaEvent update_sent_;
  CudaEvent fetched_;
};

}  // namespace plimsoll
