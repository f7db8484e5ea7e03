// NVIDIA's library for communication between GPUs (NCCL), opened at run time, so that the program
// starts without it and is compiled without its header. The declarations repeat those parts of
// NCCL's binary interface that all releases since 2.18 share. Thread-safe.
#pragma once

#include <cstddef>
#include <limits>
#include <string>

#include "device/cuda/stream.h"

namespace plimsoll {

struct NcclId {
  char bytes[128] = {};
};

struct NcclState;
using NcclHandle = NcclState*;

// Values of ncclDataType_t and ncclRedOp_t.
enum class NcclType : int { kU8 = 1, kI32 = 2, kF16 = 6, kF32 = 7, kF64 = 8, kBF16 = 9 };
inline constexpr int kNcclSum = 0;

// ncclConfig_t as of release 2.18. NCCL reads as many bytes as the field `size` states, and replaces kUndefined by its defaults and by its
// environment variables.
struct NcclConfig {
  static constexpr int kUndefined = std::numeric_limits<int>::min();
  size_t size = sizeof(NcclConfig);
  unsigned int magic = 0xcafebeef;
  unsigned int version = 21800;
  int blocking = kUndefined;
  int cga_cluster_size = kUndefined;
  int min_ctas = kUndefined;
  int max_ctas = kUndefined;
  const char* net_name = nullptr;
  int split_share = kUndefined;
};

struct NcclLibrary {
  int (*get_version)(int* version) = nullptr;
  int (*get_unique_id)(NcclId* id) = nullptr;
  int (*comm_init)(NcclHandle* comm, int num_ranks, NcclId id, int rank, NcclConfig* config) = nullptr;
  int (*comm_destroy)(NcclHandle comm) = nullptr;
  int (*comm_stop)(NcclHandle comm) = nullptr;
  int (*all_reduce)(const void* from, void* to, size_t count, NcclType type, int operation, NcclHandle comm,
                    CudaStream stream) = nullptr;
  int (*reduce_scatter)(const void* from, void* to, size_t count_of_part, NcclType type, int operation,
                        NcclHandle comm, CudaStream stream) = nullptr;
  int (*all_gather)(const void* from, void* to, size_t count_of_part, NcclType type, NcclHandle comm,
                    CudaStream stream) = nullptr;
  int (*reduce)(const void* from, void* to, size_t count, NcclType type, int operation, int root,
                NcclHandle comm, CudaStream stream) = nullptr;
  int (*broadcast)(const void* from, void* to, size_t count, NcclType type, int root, NcclHandle comm,
                   CudaStream stream) = nullptr;
  int (*send)(const void* from, size_t count, NcclType type, int peer, NcclHandle comm,
              CudaStream stream) = nullptr;
  int (*receive)(void* to, size_t count, NcclType type, int peer, NcclHandle comm,
                 CudaStream stream) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  const char* (*error_string)(int result) = nullptr;
  const char* (*last_error)(NcclHandle comm) = nullptr;
};

// Returns the library. The first call opens it. Errors: kDevice if it is not installed or older than 2.18.
const NcclLibrary& nccl();

}  // namespace plimsoll
