#include "graph/passes/divided_vocabulary.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "graph/analysis/analysis.h"
#include "graph/ops/ops.h"
#include "graph/ops/slice.h"
#include "graph/passes/rewriter.h"

namespace plimsoll {
namespace {

// The positions of the ops of a language-model head, from the matrix product to the loss.
struct LanguageHead {
  uint32_t loss = 0;
  std::optional<uint32_t> log_softmax = {};
  std::optional<uint32_t> count = {};
  std::optional<uint32_t> bias_add = {};
  uint32_t product = 0;
};

class DivideVocabulary {
 public:
  DivideVocabulary(Graph& graph, int64_t ranks)
      : graph_(graph), rewriter_(graph), readers_(find_readers(graph)), ranks_(ranks) {}

  void run(DividedHeads heads) {
    const std::optional<uint32_t> lookup = find_lookup();
    if (!lookup) return;
    const ValueId words = rewriter_.op(*lookup).inputs[EmbeddingSumOp::kTable];
    const int64_t vocabulary = graph_.value(words).type.shape[0].offset;
    for (uint32_t i = 0; heads == DividedHeads::kYes && i < rewriter_.num_ops(); ++i) {
      if (const auto head = find_head(i, vocabulary)) heads_.push_back(*head);
    }
    std::erase_if(heads_, [&](const LanguageHead& head) { return !can_divide(weight_of(head), *lookup); });
    std::vector<ValueId> weights;
    const auto add = [&](ValueId weight) {
      if (weight != kNoValue && std::ranges::find(weights, weight) == weights.end())
        weights.push_back(weight);
    };
    if (can_divide(words, *lookup)) {
      add(words);
      graph_.ops()[*lookup].attributes.set(kTensorRanks, ranks_);
    }
    for (const LanguageHead& head : heads_) {
      add(weight_of(head));
      if (head.bias_add) add(rewriter_.op(*head.bias_add).inputs[BiasAddOp::kBias]);
      graph_.ops()[head.product].attributes.set(kTensorRanks, ranks_);
      replace_loss(head, vocabulary);
    }
    for (const ValueId weight : weights) divide(weight);
    rewriter_.apply();
  }

 private:
  std::optional<uint32_t> find_lookup() const {
    for (uint32_t i = 0; i < rewriter_.num_ops(); ++i) {
      if (rewriter_.is(i, embedding_sum_op())) return i;
    }
    return std::nullopt;
  }

  std::optional<uint32_t> find_count(ValueId logits) const {
    for (const uint32_t reader : readers_[index_of(logits)]) {
      if (rewriter_.is(reader, count_correct_op())) return reader;
    }
    return std::nullopt;
  }

  // Returns the language-model head whose loss is the op at this position, if it is one.
  std::optional<LanguageHead> find_head(uint32_t at, int64_t vocabulary) const {
    LanguageHead head{.loss = at};
    uint32_t reader = at;
    if (rewriter_.is(at, nll_op())) {
      head.log_softmax =
          rewriter_.find_producer(at, rewriter_.op(at).inputs[ClassLossOp::kLogits], log_softmax_op());
      if (!head.log_softmax) return std::nullopt;
      reader = *head.log_softmax;
    } else if (!rewriter_.is(at, softmax_cross_entropy_op())) {
      return std::nullopt;
    }
    static_assert(int{LogSoftmaxOp::kX} == ClassLossOp::kLogits);
    const ValueId logits = rewriter_.op(reader).inputs[ClassLossOp::kLogits];
    head.count = find_count(logits);
    ValueId result = logits;
    head.bias_add = rewriter_.find_producer(reader, logits, bias_add_op(), head.count);
    if (head.bias_add) {
      const Op& bias_add = rewriter_.op(*head.bias_add);
      if (readers_[index_of(bias_add.inputs[BiasAddOp::kBias])].size() > 1) return std::nullopt;
      result = bias_add.inputs[BiasAddOp::kX];
    }
    const auto product = head.bias_add ? rewriter_.find_producer(*head.bias_add, result, matmul_op())
                                       : rewriter_.find_producer(reader, result, matmul_op(), head.count);
    if (!product) return std::nullopt;
    head.product = *product;
    const Op& op = rewriter_.op(*product);
    const bool is_linear = op.attributes.integer("ta") == 0 && op.attributes.integer("tb") != 0 &&
                           op.inputs[MatmulOp::kBias] == kNoValue && op.inputs[MatmulOp::kInto] == kNoValue;
    const Value& weight = graph_.value(op.inputs[MatmulOp::kB]);
    if (!is_linear || weight.storage != Storage::kWeight || weight.type.shape[0].offset != vocabulary)
      return std::nullopt;
    return head;
  }

  ValueId weight_of(const LanguageHead& head) const {
    return rewriter_.op(head.product).inputs[MatmulOp::kB];
  }

  // Returns true if the weight is only read by the embedding lookup of words and by the matrix products of language-model heads.
  bool can_divide(ValueId weight, uint32_t lookup) const {
    if (graph_.value(weight).storage != Storage::kWeight) return false;
    return std::ranges::all_of(readers_[index_of(weight)], [&](uint32_t reader) {
      if (reader == lookup) return rewriter_.op(reader).inputs[EmbeddingSumOp::kTable] == weight;
      return std::ranges::any_of(heads_, [&](const LanguageHead& head) { return head.product == reader; });
    });
  }

  // Replaces a loss by three ops: one that computes sums over the classes of this rank (class_sums), one that adds up the sums of all
  // ranks, and one that computes the loss from the result.
  void replace_loss(const LanguageHead& head, int64_t vocabulary) {
    const Op loss = rewriter_.op(head.loss);
    const ValueId logits = rewriter_.op(head.log_softmax.value_or(head.loss)).inputs[ClassLossOp::kLogits];
    Attributes attributes = class_loss_attributes(loss.attributes);
    attributes.set(kTensorRanks, ranks_);
    attributes.set(kAllClasses, vocabulary);
    if (head.count) attributes.set("counts_correct", int64_t{1});
    Op sums{.def = &class_sums_op(),
            .inputs = {logits, loss.inputs[ClassLossOp::kLabels]},
            .outputs = {},
            .attributes = attributes,
            .segment = loss.segment,
            .module = loss.module};
    const ValueType type =
        class_sums_type(graph_.value(logits).type.dtype, graph_.value(logits).type.shape[0], sums.attributes);
    sums.outputs = {add_value("class_sums", type, loss.module)};
    Op exchange{.def = &all_reduce_op(),
                .inputs = sums.outputs,
                .outputs = {add_value("class_sums.sum", type, loss.module)},
                .attributes = {{"ranks", ranks_}},
                .segment = loss.segment,
                .module = loss.module};
    set_mesh_axis(exchange.attributes, MeshAxis::kTensor);
    graph_.value(exchange.outputs.front()).version_of = sums.outputs.front();
    attributes.set(kRankClasses, TensorSplit::rows_of_rank(vocabulary, ranks_));
    Op total = op_instead_of(
        loss, class_sums_loss_op(),
        {exchange.outputs.front(), loss.inputs[ClassLossOp::kLabels], loss.inputs[ClassLossOp::kDenominator]},
        std::move(attributes));
    if (head.count) {
      total.outputs.push_back(rewriter_.op(*head.count).outputs[CountCorrectOp::kCount]);
      rewriter_.remove(*head.count);
    }
    if (head.log_softmax) rewriter_.remove(*head.log_softmax);
    rewriter_.insert_before(head.loss, std::move(sums));
    rewriter_.insert_before(head.loss, std::move(exchange));
    rewriter_.replace(head.loss, std::move(total));
  }

  ValueId add_value(std::string_view name, const ValueType& type, ModuleId module) {
    const ValueId id = graph_.add_value(graph_.unique_name(name), type, Storage::kTransient);
    graph_.value(id).module = module;
    return id;
  }

  // Divides the rows of a weight among the ranks.
  void divide(ValueId id) {
    Value& value = graph_.value(id);
    const Shape whole = value.type.shape;
    std::vector<Dim> dims(whole.dims().begin(), whole.dims().end());
    dims.front() = Dim(TensorSplit::rows_of_rank(whole[0].offset, ranks_));
    value.type.shape = Shape(dims);
    value.split = TensorSplit::of_rows(whole, ranks_);
  }

  Graph& graph_;
  Rewriter rewriter_;
  OpLists readers_;
  int64_t ranks_;
  std::vector<LanguageHead> heads_;
};

}  // namespace

void divide_vocabulary(Graph& graph, int64_t ranks, DividedHeads heads) {
  DivideVocabulary(graph, ranks).run(heads);
}

}  // namespace plimsoll
