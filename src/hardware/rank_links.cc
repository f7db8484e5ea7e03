#include "hardware/rank_links.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "base/check.h"

namespace plimsoll {
namespace {

// Data sheets of NVLink state the sum of both directions, so the rates here are half of the published ones. Rates of networks are
// published per direction, in Gbit/s.
constexpr std::array kNamedLinks{
    NamedLink{"nvlink2", LinkSharing::kInsideMachine, 150, "NVIDIA V100 data sheet: 300 GB/s"},
    NamedLink{"nvlink3", LinkSharing::kInsideMachine, 300, "NVIDIA A100 data sheet: 600 GB/s"},
    NamedLink{"nvlink4", LinkSharing::kInsideMachine, 450, "NVIDIA H100 data sheet: 900 GB/s"},
    NamedLink{"nvlink5", LinkSharing::kInsideMachine, 900, "NVIDIA DGX B200 data sheet: 1.8 TB/s per GPU"},
    NamedLink{"pcie3", LinkSharing::kInsideMachine, 16, "PCI Express 3.0, 16 lanes of 8 GT/s"},
    NamedLink{"pcie4", LinkSharing::kInsideMachine, 32, "PCI Express 4.0, 16 lanes of 16 GT/s"},
    NamedLink{"pcie5", LinkSharing::kInsideMachine, 64, "PCI Express 5.0, 16 lanes of 32 GT/s"},
    NamedLink{"ib100", LinkSharing::kAdapterPerGpu, 12.5, "InfiniBand EDR, 100 Gbit/s"},
    NamedLink{"ib200", LinkSharing::kAdapterPerGpu, 25, "InfiniBand HDR, 200 Gbit/s, as in DGX A100"},
    NamedLink{"ib400", LinkSharing::kAdapterPerGpu, 50, "InfiniBand NDR, 400 Gbit/s, as in DGX H100"},
    NamedLink{"ib800", LinkSharing::kAdapterPerGpu, 100, "InfiniBand XDR, 800 Gbit/s"},
    NamedLink{"eth10", LinkSharing::kAdapterPerMachine, 1.25, "Ethernet, 10 Gbit/s"},
    NamedLink{"eth25", LinkSharing::kAdapterPerMachine, 3.125, "Ethernet, 25 Gbit/s"},
    NamedLink{"eth100", LinkSharing::kAdapterPerMachine, 12.5, "Ethernet, 100 Gbit/s"},
    NamedLink{"eth200", LinkSharing::kAdapterPerMachine, 25, "Ethernet, 200 Gbit/s"},
    NamedLink{"eth400", LinkSharing::kAdapterPerMachine, 50, "Ethernet, 400 Gbit/s"},
};

std::string names_of(bool are_networks) {
  std::vector<std::string_view> names;
  for (const NamedLink& link : kNamedLinks) {
    if (link.is_network() == are_networks) names.push_back(link.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<std::string> split_names(std::string_view text) {
  std::vector<std::string> names{""};
  for (const char c : text) {
    if (c == ',') {
      names.emplace_back();
    } else {
      names.back() += c;
    }
  }
  return names;
}

}  // namespace

std::span<const NamedLink> named_links() {
  return kNamedLinks;
}

const NamedLink* find_named_link(std::string_view name) {
  const auto found = std::ranges::find(kNamedLinks, name, &NamedLink::name);
  return found == kNamedLinks.end() ? nullptr : &*found;
}

RankLinks parse_rank_links(std::string_view text) {
  RankLinks links;
  for (const std::string& name : split_names(text)) {
    const NamedLink* link = find_named_link(name);
    if (link == nullptr) {
      throw_error(ErrorCode::kUsage,
                  "--links {}: the link '{}' is unknown; name a link inside a machine ({}), a link between "
                  "machines ({}), or both, as in nvlink4,ib400",
                  text, name, names_of(false), names_of(true));
    }
    std::string& place = link->is_network() ? links.between : links.inside;
    if (!place.empty()) {
      throw_error(ErrorCode::kUsage, "--links {}: {} and {} are both links {}; give only one of the two",
                  text, place, name, link->is_network() ? "between machines" : "inside a machine");
    }
    place = name;
  }
  return links;
}

double gpu_exchange_latency_ms(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return 0.045;
    case Collective::kReduceScatter:
      return 0.03;
    case Collective::kAllGather:
      return 0.025;
    case Collective::kBroadcast:
      break;
  }
  return 0.028;
}

int64_t network_hops(Collective collective, int64_t num_machines) {
  if (collective != Collective::kAllReduce) return num_machines - 1;
  // the depth of a binary tree whose nodes are the machines
  const auto depth = static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(num_machines - 1)));
  return std::min(2 * depth, 2 * (num_machines - 1));
}

}  // namespace plimsoll
