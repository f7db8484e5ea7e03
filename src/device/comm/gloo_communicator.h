// The communicator of several ranks: the collective operations of collectives.h over the connections of gloo_mesh.h,
// with the end of other ranks learned from the store (store_client.h). Internal to src/device/comm; see communicator.h.
#pragma once

#include <memory>

#include "base/rank_place.h"
#include "device/comm/communicator.h"

namespace plimsoll {

// Requires: at least two ranks. Errors: as connect_ranks().
std::unique_ptr<Communicator> connect_by_gloo(const RankPlace& place, const CommunicatorOptions& options);

}  // namespace plimsoll
