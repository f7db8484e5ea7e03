#include "train/divided_states.h"

#include <algorithm>
#include <span>

#include "device/comm/communicator.h"
#include "exec/executor.h"
#include "graph/ops/slice.h"
#include "graph/ops/update.h"
#include "train/weight_loading.h"

namespace plimsoll {

std::map<std::string, DividedState> divided_states(const Plan& plan) {
  std::map<std::string, DividedState> states;
  const ProgramPlan* program = plan.programs.find(kTrainProgram);
  if (program == nullptr) return states;
  const Graph& graph = program->graph;
  for (const Op& op : graph.ops()) {
    const auto* update = dynamic_cast<const Update*>(op.def);
    const std::optional<RankSlices> slices = rank_slices_of(op.attributes);
    if (update == nullptr || !slices) continue;
    const OpView view{graph, op};
    const int stride = update->stride(view);
    for (int i = UpdateOp::kParameter; i < view.num_inputs(); i += stride) {
      const Shape& parameter = view.in_shape(i);
      const int64_t elements = parameter.elements({});
      for (int k = 0; k < stride; ++k) {
        if (!update->is_state(view, k)) continue;
        const int64_t whole = update->numbers_in_state(view, k, elements);
        DividedState state{.shape = {whole}, .slice = view.in_shape(i + k).elements({})};
        // A state with a number per element has the shape of the parameter.
        if (whole == elements) {
          state.shape.clear();
          for (const Dim& dim : parameter.dims()) state.shape.push_back(dim.offset);
        }
        states[view.input(i + k).name] = std::move(state);
      }
    }
  }
  return states;
}

TensorSource whole_state(Executor& executor, Communicator& ranks, const std::string& name,
                         const DividedState& state) {
  TensorSource source{.name = name, .dtype = executor.plan().type_of(name).dtype, .shape = state.shape};
  const int64_t width = dtype_bytes(source.dtype);
  source.fill = [&executor, &ranks, name, state, width](int64_t from, std::span<std::byte> bytes) {
    const int64_t end = from + std::ssize(bytes);
    for (int rank = 0; rank < ranks.size(); ++rank) {
      const int64_t begin_of_rank = state.first_of(rank) * width;
      const int64_t first = std::max(from, begin_of_rank);
      const int64_t last = std::min(end, state.end_of(rank) * width);
      if (first >= last) continue;
      const std::span part =
          bytes.subspan(static_cast<size_t>(first - from), static_cast<size_t>(last - first));
      if (rank == ranks.rank()) executor.read(name, first - begin_of_rank, part);
      ranks.broadcast(part, rank);
    }
  };
  return source;
}

void read_slice(Executor& executor, int64_t rank, const std::string& name, const DividedState& state,
                const SafetensorsFile& file, const StoredTensor& tensor) {
  const DType dtype = executor.plan().type_of(name).dtype;
  const int64_t bytes_per_element = dtype_bytes(dtype);
  const int64_t begin = state.first_of(rank);
  const int64_t end = state.end_of(rank);
  if (begin >= end) return;
  const int64_t row = state.num_elements() / state.shape[0];
  const int64_t piece_rows = std::max<int64_t>(1, kPieceElements / row);
  std::vector<std::byte> rows(
      static_cast<size_t>(std::min(state.shape[0], piece_rows) * row * bytes_per_element));
  for (int64_t first_row = begin / row; first_row * row < end; first_row += piece_rows) {
    const int64_t count = std::min(piece_rows, state.shape[0] - first_row);
    file.read_rows(tensor, {first_row, count}, {rows.data(), dtype});
    const int64_t first = std::max(begin, first_row * row);
    const int64_t last = std::min(end, (first_row + count) * row);
    executor.write(name, (first - begin) * bytes_per_element,
                   std::span(rows).subspan(static_cast<size_t>((first - first_row * row) * bytes_per_element),
                                           static_cast<size_t>((last - first) * bytes_per_element)));
  }
}

}  // namespace plimsoll
