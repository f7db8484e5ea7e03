// Checks rows of ready-made token ids against the model that reads them. The reader of the rows (io/data) knows no model, so it checks only
// what holds for every model. Pure functions; thread-safe.
#pragma once

#include <string>

#include "io/data/text_split.h"
#include "models/config.h"

namespace plimsoll {

// Checks the token types and positions that the file states. Errors: kBadData with the name of the file if the model has no embedding for
// a token type, if it is a model for which transformers computes something else from token types, or if the positions do not begin at the
// first position of the model. Requires: split.has_ids().
void check_ready_columns(const TextSplit& split, const ModelConfig& config);

// Returns a warning if rows have padding before their tokens and transformers would count it as positions of this model, else an empty
// string. Requires: split.has_ids().
std::string left_padding_warning(const TextSplit& split, const ModelConfig& config);

// Checks that the model has an embedding for every token id. Errors: kBadData, naming the first row with an id that is too large.
// Requires: `tokens` contains the rows of `split`.
void check_ready_ids(const TextSplit& split, const TokenSet& tokens, const ModelConfig& config);

}  // namespace plimsoll
