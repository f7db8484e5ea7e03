// Finds free TCP ports for the rendezvous (the key-value store) of ranks that one process starts. Thread-safe.
#pragma once

#include <cstdint>

namespace plimsoll {

// Returns a port that no program on this host uses now, chosen at random; the next `count` - 1 ports are free, too.
// Another program can take a port before the caller uses it. To make that unlikely, the ports are below those that the
// system gives to outgoing connections (32768 and above on Linux), so that only a program that listens at exactly this
// port can take it. Errors: kDevice if the system has no free port.
uint16_t free_port(int count = 1);

}  // namespace plimsoll
