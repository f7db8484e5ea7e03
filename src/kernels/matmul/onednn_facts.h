// Returns the version of oneDNN and the instruction set that it uses on this machine. Thread-safe.
#pragma once

#include <string>

namespace plimsoll {

// Returns the version of oneDNN that the program has loaded, such as "2.6.3". It may differ from the version of the headers.
std::string onednn_version();

// Returns the largest instruction set that oneDNN may use on this machine, by oneDNN's own name, such as "avx512_core_amx". The environment
// variable ONEDNN_MAX_CPU_ISA limits it.
std::string onednn_instruction_set();

}  // namespace plimsoll
