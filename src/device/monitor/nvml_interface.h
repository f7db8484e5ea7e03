// Declares the part of NVML that this folder uses, because the machine that builds this program may not have the
// library's own header. Names, numbers and layouts are those of NVIDIA's "NVML API Reference Guide"; a versioned
// struct has its size and version in its first field. Declarations only.
#pragma once

#include <cstdint>

namespace plimsoll::nvml {

using Device = struct NvmlDevice*;

// Statuses that the program distinguishes.
inline constexpr int kSuccess = 0;
inline constexpr int kInvalidArgument = 2;
inline constexpr int kNotSupported = 3;
inline constexpr int kNoPermission = 4;
inline constexpr int kNotFound = 6;
inline constexpr int kInsufficientSize = 7;
inline constexpr int kInsufficientPower = 8;
inline constexpr int kDriverNotLoaded = 9;
inline constexpr int kTimeout = 10;
inline constexpr int kFunctionNotFound = 13;
inline constexpr int kGpuIsLost = 15;
inline constexpr int kResetRequired = 16;
inline constexpr int kOperatingSystem = 17;
inline constexpr int kVersionMismatch = 18;
inline constexpr int kNoData = 21;
inline constexpr int kArgumentVersionMismatch = 25;
inline constexpr int kDeprecated = 26;

inline constexpr unsigned int kTextBytes = 96;  // the longest name or UUID of a device
inline constexpr unsigned int kMaxNvLinks = 18;
inline constexpr unsigned int kClockSm = 1;
inline constexpr unsigned int kClockMemory = 2;
inline constexpr unsigned int kSensorGpu = 0;
inline constexpr unsigned int kThresholdSlowdown = 1;
inline constexpr unsigned int kEccCorrected = 0;
inline constexpr unsigned int kEccUncorrected = 1;
inline constexpr unsigned int kEccSinceLoad = 0;

struct Memory {
  unsigned int version;
  unsigned long long total, reserved, free, used;
};
inline constexpr unsigned int kMemoryVersion = static_cast<unsigned int>(sizeof(Memory)) | (2u << 24);

struct ProcessInfo {
  unsigned int pid;
  unsigned long long used;
  unsigned int gpu_instance, compute_instance;
};
inline constexpr unsigned long long kUsedNotKnown = ~0ull;

struct Utilization {
  unsigned int gpu, memory;
};

struct MarginTemperature {
  unsigned int version;
  int margin;
};
inline constexpr unsigned int kMarginVersion =
    static_cast<unsigned int>(sizeof(MarginTemperature)) | (1u << 24);

}  // namespace plimsoll::nvml
