#include "models/blocks/model_builder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "models/architecture.h"

namespace plimsoll {

ModelBuilder::ModelBuilder(const ModelConfig& config, const ForwardOptions& options,
                           std::span<const WeightSpec> specs)
    : config_(config),
      options_(options),
      graph_(options.mode == Mode::kTrain ? "train" : "evaluate"),
      specs_(specs) {
  for (uint32_t i = 0; i < specs_.size(); ++i)
    specs_by_name_.insert(specs_[i].name, i,
                          [&](uint32_t spec) { return std::string_view(specs_[spec].name); });
  cu_seqlens_ = graph_.add_input("cu_seqlens", {DType::kI32, Shape{Dim(1, Symbol::kSequences, 1)}},
                                 {.content = InputContent::kSequenceStarts});
  if (options.cache) {
    const Dim pages = options.cache->pages_per_sequence;
    page_table_ = graph_.add_input("page_table", {DType::kI32, Shape{kDimB, pages}});
    lengths_ = graph_.add_input("lengths", {DType::kI32, Shape{kDimB}});
    copy_from_ = graph_.add_input("copy_from", {DType::kI32, Shape{kDimB}}, {.unused = -1});
  }
  const bool draws = config.hidden_dropout_prob > 0 || config.attention_probs_dropout_prob > 0 ||
                     config.embedding_dropout_prob.value_or(0.0) > 0 ||
                     config.classifier_dropout.value_or(0.0) > 0;
  if (options.mode == Mode::kTrain && draws) {
    rng_ = graph_.add_input("rng", {DType::kI64, Shape{2}}, {.source = InputSource::kRandom});
  }
}

const WeightSpec* ModelBuilder::find_spec(std::string_view name) const {
  const auto name_of = [&](uint32_t spec) { return std::string_view(specs_[spec].name); };
  const uint32_t found = specs_by_name_.find(name, name_of);
  return found == NameIndex::kAbsent ? nullptr : &specs_[found];
}

ValueId ModelBuilder::weight(std::string_view name) {
  if (const ValueId id = graph_.find(name); id != kNoValue) return id;
  const WeightSpec* spec = find_spec(name);
  PLIMSOLL_CHECK(spec != nullptr,
                 "the architecture must declare the weight '{}' before its graph reads it, but does not",
                 name);
  const std::vector<Dim> dims(spec->shape.begin(), spec->shape.end());
  return graph_.add_value(name, {options_.dtype, Shape(std::span<const Dim>(dims))}, Storage::kWeight);
}

ValueId ModelBuilder::positions() {
  return graph_.add_input("positions", {DType::kI32, Shape{kDimT}},
                          {.content = InputContent::kTableRows,
                           .table_rows = config_.max_position_embeddings,
                           .position_padding_id = static_cast<int32_t>(position_padding_id(config_))});
}

ValueId ModelBuilder::cached_attention(ValueId qkv, const Attributes& attributes, const std::string& name) {
  const int64_t heads = attributes.integer("heads");
  const int64_t kv_heads = attributes.integer_or("kv_heads", heads);
  const int64_t width = graph_.value(qkv).type.shape[1].offset / (heads + 2 * kv_heads);
  const KvCacheSizes& sizes = *options_.cache;
  const ValueId cache = graph_.add_value(
      name + ".cache",
      {graph_.value(qkv).type.dtype, Shape{sizes.num_pages, 2, sizes.page_size, kv_heads * width}},
      Storage::kCache);
  const ValueId written =
      emit(graph_, append_kv_op(), {qkv, cu_seqlens_, page_table_, lengths_, copy_from_, cache}, attributes,
           name + ".appended");
  return emit(graph_, paged_attention_op(), {qkv, cu_seqlens_, page_table_, lengths_, written}, attributes,
              name);
}

ValueId ModelBuilder::rms_norm(ValueId x, const std::string& name) {
  return emit(graph_, rms_norm_op(), {x, weight(name + ".weight"), kNoValue, kNoValue},
              {{"eps", config_.layer_norm_eps}, {"heads", int64_t{1}}, {"second_heads", int64_t{0}}}, name);
}

ValueId ModelBuilder::norm_of_heads(ValueId qkv, const std::string& q_name, const std::string& k_name,
                                    const std::string& name) {
  return emit(graph_, rms_norm_op(), {qkv, weight(q_name + ".weight"), weight(k_name + ".weight"), kNoValue},
              {{"eps", config_.layer_norm_eps},
               {"heads", config_.num_attention_heads},
               {"second_heads", config_.heads_of_keys()}},
              name);
}

ValueId ModelBuilder::rotate_heads(ValueId qkv, const RopeParameters& rope, const std::string& name) {
  const auto [table, is_new] = rope_tables_.try_emplace(rope_text(rope), kNoValue);
  if (is_new) {
    // Rotary positions have no table that would limit them. The limit is that of attention, which supports at most 2^20 positions.
    const ValueId declared = graph_.find("positions");
    const ValueId positions = declared != kNoValue ? declared : table_rows("positions", int64_t{1} << 20);
    Attributes attributes{{"dim", config_.head_width()}, {"rope", table->first}};
    if (options_.dtype == DType::kF64) attributes.set("dtype", std::string(dtype_name(DType::kF64)));
    table->second = emit(graph_, rope_table_op(), {positions, cu_seqlens_}, attributes, "rope_table");
  }
  return emit(graph_, rope_op(), {qkv, table->second},
              {{"heads", config_.num_attention_heads + config_.heads_of_keys()}}, name);
}

ValueId ModelBuilder::attention(ValueId qkv, AttentionDirection direction, const std::string& name,
                                int64_t window) {
  Attributes attributes{{"heads", config_.num_attention_heads},
                        {"scale", 1.0 / std::sqrt(static_cast<double>(config_.head_width()))}};
  if (config_.heads_of_keys() != config_.num_attention_heads)
    attributes.set("kv_heads", config_.heads_of_keys());
  if (window > 0) attributes.set("window", window);
  if (options_.cache) return cached_attention(qkv, attributes, name);
  const DropoutSpec dropout = next_dropout(config_.attention_probs_dropout_prob);
  attributes.set("causal", int64_t{direction == AttentionDirection::kCausal});
  attributes.set("p", dropout.p);
  attributes.set("site", dropout.site);
  attributes.set("lse", int64_t{options_.mode == Mode::kTrain});
  return emit(graph_, attention_op(), {qkv, cu_seqlens_, dropout.p > 0 ? rng_ : kNoValue},
              std::move(attributes), name);
}

DropoutSpec ModelBuilder::next_dropout(double p) {
  return {.p = options_.mode == Mode::kTrain ? p : 0.0, .site = next_site_++};
}

ValueId ModelBuilder::dropout(ValueId x, double p) {
  return emit_dropout(graph_, x, rng_, next_dropout(p), "dropout");
}

ForwardGraph ModelBuilder::finish(ValueId logits) && {
  if (options_.mode == Mode::kEvaluate && options_.outputs_logits)
    graph_.value(logits).storage = Storage::kOutput;
  if (graph_.value(logits).name != "logits") graph_.rename(logits, "logits");
  return {std::move(graph_), kNoValue, logits};
}

}  // namespace plimsoll
