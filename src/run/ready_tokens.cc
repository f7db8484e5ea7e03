#include "run/ready_tokens.h"

#include <fmt/format.h>

#include <optional>

#include "base/check.h"
#include "models/architecture.h"

namespace plimsoll {

void check_ready_columns(const TextSplit& split, const ModelConfig& config) {
  const std::string& file_name = split.table().file_name();
  if (split.states_types() && architecture_of(config.model_type).types_are_words) {
    throw_error(
        ErrorCode::kBadData,
        "{}: the file has the column 'token_type_ids', whose word embeddings transformers adds to those of "
        "the tokens in a model of type '{}', but Plimsoll does not compute this; remove the column",
        file_name, config.model_type);
  }
  const auto [type, line] = split.largest_type();
  const int64_t num_types = num_token_types(config);
  if (num_types > 0 && type >= num_types) {
    throw_error(ErrorCode::kBadData,
                "{}:{}: token_type_ids has the type {}, but the model's type_vocab_size is {}; correct the "
                "row, or use a model with more types",
                file_name, line, type, num_types);
  }
  const int64_t first_position = position_padding_id(config) + 1;
  if (split.first_position().value_or(first_position) != first_position) {
    throw_error(
        ErrorCode::kBadData,
        "{}: the positions in the column 'position_ids' begin at {}, but Plimsoll counts the positions of "
        "this model from {}; remove the column to use these positions",
        file_name, *split.first_position(), first_position);
  }
}

std::string left_padding_warning(const TextSplit& split, const ModelConfig& config) {
  const std::optional<int64_t> line = split.first_left_padded_line();
  if (!line || split.first_position() || !depends_on_left_padding(config)) return {};
  return fmt::format(
      "{}:{}: the row is padded on the left: Plimsoll counts positions from its first token, but "
      "transformers from "
      "the padding, so that a model of type '{}' gives other results there; pad on the right to get the same",
      split.table().file_name(), *line, config.model_type);
}

void check_ready_ids(const TextSplit& split, const TokenSet& tokens, const ModelConfig& config) {
  if (tokens.max_id() < config.vocab_size) return;
  for (int64_t row = 0; row < split.num_rows(); ++row) {
    for (int64_t i = 0; i < tokens.length(row); ++i) {
      if (tokens.id(row, i) < config.vocab_size) continue;
      throw_error(
          ErrorCode::kBadData,
          "{}:{}: the data has the token id {}, but the model's vocab_size is {}; correct the row, or use "
          "the model whose tokenizer made these ids",
          split.table().file_name(), split.line(row), tokens.id(row, i), config.vocab_size);
    }
  }
}

}  // namespace plimsoll
