// Names the ops of a module for tools that watch the process (Nsight Systems): consecutive launches of ops
// of one module form an NVTX range such as "bert.encoder.layer.3.attention, backward". Without such a tool,
// a range only costs the test of a pointer. Create one object for each pass over the ops; not thread-safe.
#pragma once

#include <nvtx3/nvToolsExt.h>

#include <optional>
#include <string>

#include "exec/backend.h"

namespace plimsoll {

class ModuleRange {
 public:
  ModuleRange() = default;
  ~ModuleRange() { leave(); }
  ModuleRange(const ModuleRange&) = delete;
  ModuleRange& operator=(const ModuleRange&) = delete;

  // Has to be called right before `op` is launched.
  void enter(const BoundProgram& program, const BoundOp& op) {
    const Graph& graph = program.plan->graph;
    const ModuleId module = graph.ops()[op.index].module;
    if (module_ == module) return;
    leave();
    module_ = module;
    const std::string name = graph.module_name(module) + ", " + std::string(segment_name(op.segment));
    nvtxRangePushA(name.c_str());
  }

 private:
  void leave() {
    if (module_) nvtxRangePop();
    module_.reset();
  }
  std::optional<ModuleId> module_;
};

}  // namespace plimsoll
