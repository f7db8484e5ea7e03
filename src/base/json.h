// Writes JSON byte for byte as Python's json module does, so that files saved by Plimsoll equal those saved by Hugging Face.
// base/guarded_json.h reads JSON. Thread-safe: pure functions.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace plimsoll {

// Formats a value as Python's json.dumps(value, indent=indent, sort_keys=True): ASCII only, and floats in the
// shortest form that reads back equal. There is no newline at the end. Requires: indent >= 1, no binary
// values, no NaN or infinity.
std::string python_json(const nlohmann::json& value, int indent);

// Formats a float as Python's repr: the shortest digits that read back equal, exponent form below 1e-4 and
// from 1e16 on, always with a point or an exponent. Requires: the value is finite.
std::string python_float(double value);

}  // namespace plimsoll
