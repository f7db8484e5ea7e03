// Names the version of oneDNN and the instructions that it uses on this machine. Thread-safe.
#pragma once

#include <string>

namespace plimsoll {

// Returns the version of the library that the program has loaded, which may differ from that of its headers: "2.6.3".
std::string onednn_version();

// Returns the largest instruction set that the library may use on this machine, with its own name: "avx512_core_amx". The environment
// variable ONEDNN_MAX_CPU_ISA limits it.
std::string onednn_instruction_set();

}  // namespace plimsoll
