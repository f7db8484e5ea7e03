// Keeps one stage of a pipeline of a forward graph: some layers, in the first stage also what comes before them, in the last one also what
// comes after them, such as the head and the loss. A value that a later stage reads is sent from each stage to the next until it arrives
// there:
//
//   y = layer_1(x)              stage 0: y = layer_1(x); send(y) {to=1}
//   z = layer_2(y)        ->    stage 1: y = receive() {from=0}; z = layer_2(y)
//
// Ops that depend on inputs alone, such as tables of rotary positions, run in each stage
// that reads them. All inputs stay declared in all stages, so that every stage reads the
// same batches, with the same sizes. The pass runs on a forward graph, before autodiff.
#include <algorithm>

#include "graph/analysis/analysis.h"
#include "graph/analysis/liveness.h"
#include "graph/ops/chunk.h"
#include "graph/ops/ops.h"
#include "graph/passes/pass.h"

namespace plimsoll {
namespace {

constexpr int64_t kEveryStage = -1;

// Returns the index of the block in the list. Appends the block if the list does not contain it.
size_t number_of_block(std::string_view block, std::vector<std::string>& blocks) {
  const auto found = std::ranges::find(blocks, block);
  const auto number = static_cast<size_t>(found - blocks.begin());
  if (found == blocks.end()) blocks.emplace_back(block);
  return number;
}

// Returns the pipeline stage of each op of a forward graph, or kEveryStage for an op that depends only on inputs of the program.
std::vector<int64_t> stages_of_ops(const Graph& graph, const std::vector<int64_t>& first_blocks) {
  std::vector<bool> is_of_inputs(graph.values().size(), false);
  for (size_t i = 0; i < graph.values().size(); ++i)
    is_of_inputs[i] = graph.values()[i].storage == Storage::kInput;
  std::vector<std::string> blocks;
  std::vector<int64_t> stages;
  for (const Op& op : graph.ops()) {
    const bool everywhere = std::ranges::all_of(
        op.inputs, [&](ValueId id) { return id == kNoValue || is_of_inputs[index_of(id)]; });
    for (const ValueId id : op.outputs) is_of_inputs[index_of(id)] = everywhere;
    const std::string_view block = block_of(graph.module_name(op.module));
    int64_t stage = blocks.empty() ? 0 : std::ssize(first_blocks) - 1;
    if (!block.empty()) {
      const auto number = static_cast<int64_t>(number_of_block(block, blocks));
      stage = std::ranges::upper_bound(first_blocks, number) - first_blocks.begin() - 1;
    }
    stages.push_back(everywhere ? kEveryStage : stage);
  }
  return stages;
}

class StageCut {
 public:
  StageCut(const Graph& graph, const PipelineDivision& division)
      : graph_(graph),
        stage_(division.stage),
        division_(division),
        op_stages_(stages_of_ops(graph, division.first_blocks)),
        born_(graph.values().size(), kEveryStage),
        last_use_(graph.values().size(), kEveryStage),
        new_ids_(graph.values().size(), kNoValue),
        tails_(find_tails(graph)),
        result_(graph.name()) {}

  Graph run() {
    find_uses();
    // Declares the modules in the order of the original graph, so that they keep their numbers.
    for (const std::string& module : graph_.modules()) result_.set_module(module);
    for (uint32_t i = 0; i < graph_.values().size(); ++i) {
      if (graph_.values()[i].storage == Storage::kInput) new_id(ValueId{i});
    }
    for (int64_t chunk = 0; chunk < division_.chunks; ++chunk) {
      if (chunk > 0) begin_chunk();
      find_kept();
      receive_values();
      for (size_t i = 0; i < graph_.ops().size(); ++i) {
        if (is_kept_[i]) keep(graph_.ops()[i], op_stages_[i] == kEveryStage);
      }
    }
    return std::move(result_);
  }

 private:
  void find_uses() {
    for (size_t i = 0; i < graph_.ops().size(); ++i) {
      const Op& op = graph_.ops()[i];
      for (const ValueId id : op.outputs) born_[index_of(id)] = op_stages_[i];
      for (const ValueId id : op.inputs) {
        if (id == kNoValue || op_stages_[i] == kEveryStage) continue;
        const int64_t born = born_[index_of(id)];
        PLIMSOLL_CHECK(born <= op_stages_[i],
                       "a pipeline stage can only read values of earlier stages, but '{}' is computed in "
                       "stage {} and read in stage {}",
                       graph_.value(id).name, born, op_stages_[i]);
        last_use_[index_of(id)] = std::max(last_use_[index_of(id)], op_stages_[i]);
      }
    }
  }

  // Moves on to the next chunk of this stage, and forgets which values the previous chunk computed. Chunks run at different times, so a
  // chunk cannot read a value that another chunk computes.
  void begin_chunk() {
    stage_ += division_.num_stages();
    for (size_t i = 0; i < new_ids_.size(); ++i) {
      const Storage storage = graph_.values()[i].storage;
      if (storage == Storage::kTransient || storage == Storage::kOutput) new_ids_[i] = kNoValue;
    }
  }

  // If the stage has several chunks of layers, sets the attributes "chunk" and "channel" (ops/chunk.h) of the last op in the new graph,
  // which is a send or a receive.
  void set_channel(int64_t channel) {
    if (division_.chunks == 1) return;
    Attributes& attributes = result_.ops().back().attributes;
    attributes.set(kChunkAttribute, chunk());
    attributes.set(kChannelAttribute, channel);
  }
  int64_t chunk() const { return stage_ / division_.num_stages(); }

  // Marks the ops that this stage keeps: its own ops, and those ops of kEveryStage whose results they need.
  void find_kept() {
    is_kept_.assign(graph_.ops().size(), false);
    std::vector<bool> is_needed(graph_.values().size(), false);
    for (size_t i = graph_.ops().size(); i-- > 0;) {
      const Op& op = graph_.ops()[i];
      is_kept_[i] = op_stages_[i] == stage_ ||
                    (op_stages_[i] == kEveryStage &&
                     std::ranges::any_of(op.outputs, [&](ValueId id) { return is_needed[index_of(id)]; }));
      if (!is_kept_[i]) continue;
      for (const ValueId id : op.inputs) {
        if (id != kNoValue) is_needed[index_of(id)] = true;
      }
    }
  }

  bool is_computed_by_a_stage(size_t value) const { return born_[value] != kEveryStage; }

  // Receives values in the order in which they are computed, because the previous stage sends them in this order.
  void receive_values() {
    for (const Op& op : graph_.ops()) {
      for (const ValueId id : op.outputs) {
        const size_t i = index_of(id);
        if (!is_computed_by_a_stage(i) || born_[i] >= stage_ || last_use_[i] < stage_) continue;
        const Value& value = graph_.values()[i];
        PLIMSOLL_CHECK(is_floating(value.type.dtype) && value.storage == Storage::kTransient,
                       "only floating-point activations can be sent from one pipeline stage to the next, but "
                       "'{}' is not one",
                       value.name);
        result_.set_module(kPipelineModule);
        const int64_t from = (stage_ - 1) % division_.num_stages();
        new_ids_[i] = emit_receive(result_, value.type, from, value.name, is_zero(i));
        set_channel(channel_into(stage_));
        send_on(i);
      }
    }
  }

  // Sends value i to the next stage if that stage or a later one reads it.
  void send_on(size_t i) {
    if (!is_computed_by_a_stage(i) || last_use_[i] <= stage_) return;
    result_.set_module(kPipelineModule);
    const int64_t to = (stage_ + 1) % division_.num_stages();
    emit_send(result_, new_ids_[i], to, graph_.values()[i].name, is_zero(i));
    set_channel(channel_into(stage_ + 1));
  }

  bool is_zero(size_t value) const { return tails_[value] == Tail::kZero; }

  void keep(const Op& op, bool is_of_every_stage) {
    Op copy = op;
    if (is_of_every_stage && chunk() > 0) copy.attributes.set(kChunkAttribute, chunk());
    for (ValueId& id : copy.inputs) {
      if (id != kNoValue) id = new_id(id);
    }
    for (ValueId& id : copy.outputs) id = new_id(id);
    const auto position = static_cast<uint32_t>(result_.ops().size());
    for (const ValueId id : copy.outputs) result_.value(id).producer = OpId{position};
    result_.ops().push_back(std::move(copy));
    for (const ValueId id : op.outputs) send_on(index_of(id));
  }

  ValueId new_id(ValueId id) {
    ValueId& found = new_ids_[index_of(id)];
    if (found != kNoValue) return found;
    Value value = graph_.value(id);
    if (value.version_of != kNoValue) value.version_of = new_id(value.version_of);
    // Every chunk computes its own copy of values that depend on inputs alone, and each copy has a separate name.
    if (chunk() > 0 && result_.find(value.name) != kNoValue) value.name = result_.unique_name(value.name);
    const ValueId added = value.storage == Storage::kInput
                              ? result_.add_input(value.name, value.type, value.input)
                              : result_.add_value(value.name, value.type, value.storage);
    value.producer = kNoOp;
    result_.value(added) = std::move(value);
    new_ids_[index_of(id)] = added;
    return added;
  }

  const Graph& graph_;
  // The chunk of layers that is being built, counted in the whole model. With one chunk per stage this is the number of the stage.
  int64_t stage_;
  const PipelineDivision& division_;
  std::vector<int64_t> op_stages_;
  std::vector<int64_t> born_;      // per value, the stage that computes it
  std::vector<int64_t> last_use_;  // per value, the last stage that reads it
  std::vector<ValueId> new_ids_;   // per value, its number in the graph of this stage
  std::vector<Tail> tails_;
  std::vector<bool> is_kept_;
  Graph result_;
};

}  // namespace

std::vector<std::string> blocks_of(const Graph& graph) {
  std::vector<std::string> blocks;
  for (const Op& op : graph.ops()) {
    const std::string_view block = block_of(graph.module_name(op.module));
    if (!block.empty()) number_of_block(block, blocks);
  }
  return blocks;
}

std::set<std::string> weights_of_both_ends(const Graph& graph, const std::vector<int64_t>& first_blocks) {
  const std::vector<int64_t> stages = stages_of_ops(graph, first_blocks);
  std::vector<std::set<int64_t>> readers(graph.values().size());
  for (size_t i = 0; i < graph.ops().size(); ++i) {
    for (const ValueId id : graph.ops()[i].inputs) {
      if (id != kNoValue && graph.value(id).storage == Storage::kWeight)
        readers[index_of(id)].insert(stages[i]);
    }
  }
  std::set<std::string> shared;
  const std::set<int64_t> ends{0, std::ssize(first_blocks) - 1};
  for (size_t i = 0; i < readers.size(); ++i) {
    if (readers[i].size() < 2) continue;
    PLIMSOLL_CHECK(readers[i] == ends,
                   "a weight that several pipeline stages read must be read by the first and the last only, "
                   "but {} stages read '{}'",
                   readers[i].size(), graph.values()[i].name);
    shared.insert(graph.values()[i].name);
  }
  return shared;
}

Pass pipeline_stage_pass(PipelineDivision division) {
  return {.name = "pipeline_stage",
          .numerics = Numerics::kChanging,
          .help = "keeps the layers of one pipeline stage; stages exchange values by send and receive",
          .needed_for = "--pp_size above 1",
          .run = [division = std::move(division)](Graph& graph) {
            if (division.num_stages() > 1) graph = StageCut(graph, division).run();
          }};
}

}  // namespace plimsoll
