// Links between ranks by names for which data sheets state a rate, such as nvlink4 and ib400 (`--links`). Plans for machines that are not
// available, and whose links could not be measured, use these rates. Pure data; the functions are pure. Thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "hardware/link_calibration.h"

namespace plimsoll {

// States where a kind of link is used, and which GPUs share one link.
enum class LinkSharing : uint8_t {
  kInsideMachine,      // each GPU has its own links to the other GPUs of its machine
  kAdapterPerGpu,      // between machines: each GPU has a network adapter
  kAdapterPerMachine,  // between machines: the ranks of a machine share one adapter
};

struct NamedLink {
  std::string_view name = {};
  LinkSharing sharing = LinkSharing::kInsideMachine;
  double gb_per_s = 0;  // rate in each direction of one GPU's links, or of one network adapter
  std::string_view source = {};

  bool is_network() const { return sharing != LinkSharing::kInsideMachine; }
};

// Returns all links that have a name. Those between the GPUs of one machine come first.
std::span<const NamedLink> named_links();
// Returns the link, or nullptr if no link has this name.
const NamedLink* find_named_link(std::string_view name);

// The links that the user named by --links. If `inside` is empty, the GPU table (gpu_target.h) gives the rate between the GPUs of
// a machine.
struct RankLinks {
  std::string inside = {};   // name of the link between the GPUs of a machine
  std::string between = {};  // name of the network between machines

  bool empty() const { return inside.empty() && between.empty(); }
  friend bool operator==(const RankLinks&, const RankLinks&) = default;
};

// Parses one or two names, "nvlink4" or "nvlink4,ib400", in any order. Errors: kUsage for an unknown name (the message lists all names),
// and for two links inside a machine or two links between machines.
RankLinks parse_rank_links(std::string_view text);

// The time that each consecutive transfer between machines adds to an operation. The value comes from NCCL's performance model,
// which assumes 9.6 us per hop of a ring over a network with NCCL's protocol "Simple" (NVIDIA/nccl, src/graph/tuning.cc of
// version 2.9, hwLat). Plimsoll did not measure it.
inline constexpr double kNetworkHopMs = 0.0096;

// Returns the assumed constant part of the time of an operation between GPUs of one machine, in milliseconds. The time for the bytes is
// added to it. Fitted to measurements on two and four H200 for 1 KiB to 16 MiB through mapped memory (bench/results/h200-2026-11-28.md).
double gpu_exchange_latency_ms(Collective collective);

// Returns the number of consecutive hops between machines: all_reduce passes up and down a binary tree over the machines, and the
// other operations pass a ring. Requires: num_machines >= 1.
int64_t network_hops(Collective collective, int64_t num_machines);

}  // namespace plimsoll
