// Identifies this process among the processes of a run. Each process is a rank and uses one device. A run of a single process is
// rank 0 of 1. A value; thread-safe.
#pragma once

#include <cstdint>
#include <string>

namespace plimsoll {

struct RankPlace {
  int rank = 0;        // number of this process in the run, from 0 to size - 1
  int size = 1;        // number of ranks of the run
  int local_rank = 0;  // number of this process among those on its host, from 0 to local_size - 1
  int local_size = 1;  // number of ranks of this host
  // The address of the rendezvous store, a server in rank 0 through which the ranks find each other. Unused if the run has only
  // one rank.
  std::string store_host = {};
  uint16_t store_port = 0;

  bool is_alone() const { return size == 1; }
  // Returns true for the rank that writes files and talks to the user.
  bool is_first() const { return rank == 0; }
  friend bool operator==(const RankPlace&, const RankPlace&) = default;
};

}  // namespace plimsoll
