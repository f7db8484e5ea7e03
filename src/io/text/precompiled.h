// The Precompiled normalizer: SentencePiece's map from strings to strings. Immutable after construction; thread-safe.
#pragma once

#include <memory>

#include "io/text/json_fields.h"
#include "io/text/pipeline.h"

namespace plimsoll::text {

// Reads the field "precompiled_charsmap", base64 of a double array and the strings to which it points. Errors:
// kBadData if it is malformed.
std::unique_ptr<Normalizer> read_precompiled(const JsonFields& fields);

}  // namespace plimsoll::text
