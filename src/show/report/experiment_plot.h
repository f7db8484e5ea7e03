// The picture of a table of experiments: memory and speed by method, as bars beside each other. Pure;
// thread-safe.
//
// Colours are those of Okabe and Ito (2008), told apart by people with any common form of colour blindness:
// blue is this program, orange Hugging Face's Trainer where it ran the rows too. Predictions are marks across
// the bars, so that they need no colour.
#pragma once

#include <vector>

#include "plimsoll/experiments.h"
#include "show/report/picture.h"

namespace plimsoll {

// Requires: at least one row. Rows without figures have no bars; the caption names them.
Picture experiment_picture(const std::vector<ExperimentRow>& rows, const ExperimentOrigin& origin);

}  // namespace plimsoll
