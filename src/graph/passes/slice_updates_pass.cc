// Cuts the update of a parameter with many elements into several, each of which updates some rows:
//
//   p.1, m.1 = adamw(.., p, g, m)   ->   p.1, m.1 = adamw(.., p, g, m) {first=0, elements=n}
//                                        p.2, m.2 = adamw(.., p.1, g, m.1) {first=n, elements=n} ..
//
// so that one update needs little memory on the device. The gradient of an embedding table that only the update and the norm read never
// exists as a whole either: some of its rows are computed before each update, and once earlier for the norm and the check for finite
// values. The gradient, the states and the noise of an element are the same as if one op made the whole update, and so are the bits of all
// weights and states. The norm is computed from the norms of the slices, each rounded to fp32; if updates run in the backward pass, only
// the log reads it.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "graph/analysis/analysis.h"
#include "graph/ops/ops.h"
#include "graph/ops/update.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

// Slices begin at multiples of this number of elements, because stochastic rounding draws random numbers for four elements at a time.
constexpr int64_t kElementsOfNoise = 4;

class SliceUpdates {
 public:
  SliceUpdates(Graph& graph, int64_t most_elements, SlicedUpdates which)
      : graph_(graph), most_elements_(most_elements), which_(which) {}

  void run() {
    readers_ = find_readers(graph_);
    const std::vector<Op> old_ops = graph_.ops();
    for (const Op& op : old_ops) find_gradients_by_rows(op);
    for (const Op& op : old_ops) {
      if (const auto* update = dynamic_cast<const Update*>(op.def); update != nullptr) {
        cut_update(*update, op);
      } else if (op.def == &global_norm_op()) {
        cut_norm(op);
      } else if (op.def != &embedding_bwd_op() || !by_rows_.contains(op.outputs[EmbeddingBwdOp::kDTable])) {
        ops_.push_back(op);
      }
    }
    graph_.replace_ops(std::move(ops_));
    graph_.drop_unused_values();
  }

 private:
  // Returns the slices into which the update of a parameter is cut; a single slice if it is not cut.
  std::vector<Slice> slices_of(ValueId parameter) const {
    const Shape& shape = graph_.value(parameter).type.shape;
    const int64_t rows = shape[0].offset;
    const int64_t row = elements_per_row(shape);
    int64_t rows_at_once = std::max<int64_t>(1, most_elements_ / row);
    if (row % kElementsOfNoise != 0)
      rows_at_once = (rows_at_once + kElementsOfNoise - 1) / kElementsOfNoise * kElementsOfNoise;
    std::vector<Slice> slices;
    for (int64_t first = 0; first < rows; first += rows_at_once) {
      slices.push_back(
          {.first = first * row, .elements = std::min(rows_at_once, rows - first) * row, .of = rows * row});
    }
    return slices;
  }

  bool is_gradient_by_rows(const Op& update, ValueId gradient) const {
    const Value& value = graph_.value(gradient);
    if (update.segment != Segment::kBackward || value.producer == kNoOp || value.version_of != kNoValue)
      return false;
    const Op& producer = graph_.op(value.producer);
    if (producer.def != &embedding_bwd_op() || producer.segment != Segment::kBackward ||
        producer.inputs[EmbeddingBwdOp::kInto] != kNoValue) {
      return false;
    }
    const auto readers = readers_[index_of(gradient)];
    return std::ranges::all_of(readers, [&](uint32_t reader) {
      const Op& op = graph_.ops()[reader];
      return op.def == &global_norm_op() || op.outputs == update.outputs;
    });
  }

  void find_gradients_by_rows(const Op& op) {
    const auto* update = dynamic_cast<const Update*>(op.def);
    if (update == nullptr || !update->is_element_wise()) return;
    const auto stride = static_cast<size_t>(update->stride({graph_, op}));
    for (size_t i = UpdateOp::kParameter; i < op.inputs.size(); i += stride) {
      std::vector<Slice> slices = slices_of(op.inputs[i]);
      if (slices.size() > 1 && is_gradient_by_rows(op, op.inputs[i + 1]))
        by_rows_.emplace(op.inputs[i + 1],
                         std::pair{graph_.op(graph_.value(op.inputs[i + 1]).producer), std::move(slices)});
    }
  }

  ValueId add_like(ValueId value, std::string_view what) {
    const Value like = graph_.value(value);
    const ValueId id =
        graph_.add_value(graph_.unique_name(like.name + std::string(what)), like.type, like.storage);
    graph_.value(id).module = like.module;
    graph_.value(id).space = like.space;
    graph_.value(id).is_parameter_gradient = like.is_parameter_gradient;
    return id;
  }

  // Appends the op that computes one slice of the gradient of a table.
  ValueId add_rows(ValueId gradient, const Slice& slice) {
    Op op = by_rows_.at(gradient).first;
    const ValueId rows = add_like(gradient, ".rows");
    Value& value = graph_.value(rows);
    const int64_t row = elements_per_row(value.type.shape);
    op.attributes.set("of_rows", value.type.shape[0].offset);
    value.type.shape = shape_of(slice, value.type.shape);
    op.attributes.set("first_row", slice.first / row);
    op.attributes.set("rows", value.type.shape[0].offset);
    op.outputs = {rows};
    ops_.push_back(std::move(op));
    return rows;
  }

  void cut_norm(const Op& norm) {
    Op joined = norm;
    joined.inputs.clear();
    for (const ValueId gradient : norm.inputs) {
      const auto it = by_rows_.find(gradient);
      if (it == by_rows_.end()) {
        joined.inputs.push_back(gradient);
        continue;
      }
      for (const Slice& slice : it->second.second) {
        Op part = norm;
        part.inputs = {add_rows(gradient, slice)};
        part.attributes = {};
        for (ValueId& output : part.outputs) {
          output = add_like(output, ".rows");
          graph_.value(output).storage = Storage::kTransient;
        }
        joined.inputs.push_back(part.outputs[GlobalNormOp::kNorm]);
        ops_.push_back(std::move(part));
      }
    }
    ops_.push_back(std::move(joined));
  }

  // Returns a copy of the update `op` that updates only its parameters with the indices [first, end).
  static Op with_parameters(const Op& op, size_t stride, size_t first, size_t end) {
    const auto at = [](const ValueIds& list, size_t i) {
      return list.begin() + static_cast<std::ptrdiff_t>(i);
    };
    Op part = op;
    part.inputs.assign(op.inputs.begin(), op.inputs.begin() + UpdateOp::kParameter);
    part.inputs.insert(part.inputs.end(), at(op.inputs, UpdateOp::kParameter + first * stride),
                       at(op.inputs, UpdateOp::kParameter + end * stride));
    part.outputs.assign(at(op.outputs, first * (stride - 1)), at(op.outputs, end * (stride - 1)));
    // Parameter i of an op is rounded with random numbers of the stream `noise_site` + i. The attribute is adjusted so that each parameter
    // keeps the stream, and thus the noise, that it has in `op`.
    if (op.attributes.has("noise_site"))
      part.attributes.set("noise_site", op.attributes.integer("noise_site") + static_cast<int64_t>(first));
    return part;
  }

  void cut_update(const Update& update, const Op& op) {
    const auto stride = static_cast<size_t>(update.stride({graph_, op}));
    const size_t count = (op.inputs.size() - UpdateOp::kParameter) / stride;
    size_t first = 0;  // index of the first parameter whose update has not been appended yet
    for (size_t k = 0; k < count && update.is_element_wise(); ++k) {
      const std::vector<Slice> slices = slices_of(op.inputs[UpdateOp::kParameter + k * stride]);
      const bool is_cut =
          slices.size() > 1 &&
          (which_ == SlicedUpdates::kAll || by_rows_.contains(op.inputs[UpdateOp::kGradient + k * stride]));
      if (!is_cut) continue;
      if (first < k) ops_.push_back(with_parameters(op, stride, first, k));
      add_slices(with_parameters(op, stride, k, k + 1), slices);
      first = k + 1;
    }
    if (first == 0) {
      ops_.push_back(op);
    } else if (first < count) {
      ops_.push_back(with_parameters(op, stride, first, count));
    }
  }

  // Returns the index of the input of which output k of the update is the new version.
  size_t replaced_input(const Op& op, size_t k) const {
    return static_cast<size_t>(schema_of(op).writes_into({graph_, op}, static_cast<int>(k)));
  }

  // Appends one update for each slice. Requires: `op` updates one parameter.
  void add_slices(const Op& op, const std::vector<Slice>& slices) {
    Op part = op;
    const ValueId gradient = op.inputs[UpdateOp::kGradient];
    for (const Slice& slice : slices) {
      if (by_rows_.contains(gradient)) part.inputs[UpdateOp::kGradient] = add_rows(gradient, slice);
      set_slice(part.attributes, slice);
      part.outputs = op.outputs;
      for (size_t k = 0; k < op.outputs.size(); ++k) {
        const ValueId older = part.inputs[replaced_input(op, k)];
        if (&slice != &slices.back()) part.outputs[k] = add_like(op.outputs[k], ".slice");
        graph_.value(part.outputs[k]).version_of = older;
      }
      ops_.push_back(part);
      for (size_t k = 0; k < op.outputs.size(); ++k) part.inputs[replaced_input(op, k)] = part.outputs[k];
    }
  }

  Graph& graph_;
  int64_t most_elements_;
  SlicedUpdates which_;
  OpLists readers_;
  // The gradients that are computed slice by slice. Each is mapped to the op that computed the whole gradient, and to the slices.
  std::map<ValueId, std::pair<Op, std::vector<Slice>>> by_rows_;
  std::vector<Op> ops_;
};

}  // namespace

Pass slice_updates_pass(int64_t most_elements, SlicedUpdates which) {
  return {.name = "slice_updates",
          .numerics = Numerics::kPreserving,
          .help =
              "updates large parameters some rows at a time; the gradient of an embedding table then exists "
              "only for some rows at a time",
          .run = [=](Graph& graph) { SliceUpdates(graph, most_elements, which).run(); }};
}

}  // namespace plimsoll
