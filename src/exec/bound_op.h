// An op made ready to run: its kernel with every address and size filled in. Binding may allocate; running
// may not.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/philox.h"
#include "base/view.h"
#include "exec/arena_map.h"
#include "graph/ops/op.h"
#include "plan/compile/plan.h"

namespace plimsoll {

struct BoundOp {
  std::function<void()> run;
  Segment segment = Segment::kForward;
  uint32_t index = 0;  // of the op in its program
};

// The arenas of both spaces.
struct ArenaMaps {
  const ArenaMap& device;
  const ArenaMap& host;
  const ArenaMap& of(Space space) const { return space == Space::kDevice ? device : host; }
};

// Everything a binder may ask of the plan: where operands lie and how large they are in this bucket.
class BindContext {
 public:
  BindContext(const Plan& plan, const ProgramPlan& program, const Bucket& bucket, ArenaMaps arenas,
              uint32_t index)
      : plan_(plan), program_(program), bucket_(bucket), arenas_(arenas), index_(index) {}

  const Op& op() const { return program_.graph.ops()[index_]; }
  OpView view() const { return {program_.graph, op()}; }
  const Bucket& bucket() const { return bucket_; }
  const Attributes& attributes() const { return op().attributes; }
  const PlanRequest& request() const { return plan_.request; }

  // The space that a copy between spaces writes to; nothing for other ops.
  std::optional<Space> copies_to() const { return program_.ops[index_].copies_to; }

  bool has_input(int i) const { return view().has_input(i); }
  // Null view for an absent operand and for an output without a place.
  ConstView input(int i) const {
    return i < view().num_inputs() ? place(op().inputs[static_cast<size_t>(i)]) : View{};
  }
  View output(int i) const {
    return i < view().num_outputs() ? place(op().outputs[static_cast<size_t>(i)]) : View{};
  }
  int64_t input_elements(int i) const { return view().in_shape(i).elements(bucket_); }
  int64_t output_elements(int i) const { return view().out_shape(i).elements(bucket_); }
  // Size of one dimension of an operand in this bucket.
  int64_t input_size(int i, int dim) const { return view().in_shape(i)[dim].at(bucket_); }
  int64_t output_size(int i, int dim) const { return view().out_shape(i)[dim].at(bucket_); }

  View scratch() const;
  int64_t scratch_bytes() const { return program_.ops[index_].scratch_bytes; }
  std::string_view kernel() const { return program_.ops[index_].kernel->implementation; }
  bool is_reference() const { return program_.ops[index_].kernel->backend == Backend::kRef; }
  // The reference or the fast function, as the plan chose.
  template <typename Function>
  Function* pick(Function* reference, Function* fast) const {
    return is_reference() ? reference : fast;
  }

 private:
  View place(ValueId id) const;

  const Plan& plan_;
  const ProgramPlan& program_;
  Bucket bucket_;
  ArenaMaps arenas_;
  uint32_t index_;
};

// These read inputs that the host wrote before the run. A flag or a random counter that is absent gives the
// default.
inline int64_t read_integer(ConstView view, int64_t i = 0) {
  return view.dtype == DType::kI64 ? view.as<int64_t>()[i] : static_cast<int64_t>(view.as<int32_t>()[i]);
}
inline Accumulate read_flag(ConstView flag) {
  return flag && read_integer(flag) != 0 ? Accumulate::kAdd : Accumulate::kOverwrite;
}
// Seed and number of the micro-batch are data; the site is the op's.
inline RandomSite read_site(ConstView rng, int64_t site) {
  if (!rng) return {};
  return {.seed = static_cast<uint64_t>(read_integer(rng, 0)),
          .step = static_cast<uint32_t>(read_integer(rng, 1)),
          .site = static_cast<uint32_t>(site)};
}

// Binds one op for the CPU. Errors: kInternal for an op that has no binder.
std::function<void()> bind_cpu(const BindContext& context);

// By family, tried in turn; an empty function where the op is of another family.
std::function<void()> bind_matmul_cpu(const BindContext& context);
std::function<void()> bind_attention_cpu(const BindContext& context);
std::function<void()> bind_embedding_cpu(const BindContext& context);
std::function<void()> bind_element_wise_cpu(const BindContext& context);
std::function<void()> bind_norm_cpu(const BindContext& context);
std::function<void()> bind_loss_cpu(const BindContext& context);
std::function<void()> bind_optimizer_cpu(const BindContext& context);

}  // namespace plimsoll
