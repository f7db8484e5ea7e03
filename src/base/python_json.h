// JSON written byte for byte as Python's json module writes it, so that files we save equal those that
// Hugging Face saves. Thread-safe: pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace plimsoll {

// As json.dumps(value, indent=indent, sort_keys=True) of Python: ASCII only, floats in the shortest form that
// reads back equal. No newline at the end. Requires: indent >= 1, no binary values, no NaN or infinity.
std::string python_json(const nlohmann::json& value, int indent);

// Python's repr of a float: the shortest digits that read back equal, exponent form below 1e-4 and from 1e16
// on, always a point or an exponent. Requires: finite.
std::string python_float(double value);

}  // namespace plimsoll
