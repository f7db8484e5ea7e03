// Draws a table of experiments: memory and speed by method, as bars next to each other. Pure; thread-safe.
//
// The colours are those of Okabe and Ito (2008), which people with any common form of colour blindness can
// distinguish: blue for this program, orange for Hugging Face's Trainer if it ran the rows too. Predictions
// are marks across the bars, so they need no colour.
#pragma once

#include <vector>

#include "plimsoll/experiments.h"
#include "show/report/picture.h"

namespace plimsoll {

// Draws the picture. Rows without figures have no bars; the caption names them. Requires: at least one row.
Picture experiment_picture(const std::vector<ExperimentRow>& rows, const ExperimentOrigin& origin);

}  // namespace plimsoll
