// The communicator between several ranks: it runs the collective operations of collectives.h over the connections of gloo_mesh.h, and
// learns from the store (store_client.h) that another rank has ended. Internal to src/device/comm; see communicator.h.
#pragma once

#include <memory>

#include "base/rank_place.h"
#include "device/comm/communicator.h"

namespace plimsoll {

// Connects this rank with all others. Requires: at least two ranks. Errors: as connect_ranks().
std::unique_ptr<Communicator> connect_by_gloo(const RankPlace& place, const CommunicatorOptions& options);

}  // namespace plimsoll
