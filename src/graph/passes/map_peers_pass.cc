// Chooses how the GPUs of an axis of the mesh exchange data: the attribute "peers" of an operation between ranks (ops.h) states that
// they map each other's memory. Operations without the attribute are executed by a communication library. This pass runs after all passes
// that insert such operations, so that those passes need not know the devices.
#include "graph/ops/ops.h"
#include "graph/ops/slice.h"
#include "graph/passes/pass.h"

namespace plimsoll {

Pass map_peers_pass(MeshAxis axis) {
  return {.name = "map_peers",
          .numerics = Numerics::kPreserving,
          .help = "lets GPUs that map each other's memory exchange data without a communication library",
          .needed_for = "GPUs that map each other's memory",
          .run = [axis](Graph& graph) {
            for (Op& op : graph.ops()) {
              if (schema_of(op).is_communication() && mesh_axis_of(op.attributes) == axis)
                set_maps_peers(op.attributes);
            }
          }};
}

}  // namespace plimsoll
