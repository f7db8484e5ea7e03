// Declares the part of NVML that this folder uses, because the machine that builds this program may not have the
// library's own header. Names, numbers and layouts are those of NVIDIA's "NVML API Reference Guide"; a versioned
// struct has its size and version in its first field. Declarations only.
#pragma once

#include <cstdint>

namespace plimsoll::nvml {

using Device = struct NvmlDevice*;

// The return values that the program distinguishes.
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

// Constants and structs for the connections of a GPU.

// Values of nvmlGpuTopologyLevel_t.
inline constexpr unsigned int kTopologyInternal = 0;
inline constexpr unsigned int kTopologySingle = 10;
inline constexpr unsigned int kTopologyMultiple = 20;
inline constexpr unsigned int kTopologyHostBridge = 30;
inline constexpr unsigned int kTopologyNode = 40;
inline constexpr unsigned int kTopologySystem = 50;

// Values of nvmlGpuP2PCapsIndex_t and nvmlGpuP2PStatus_t.
inline constexpr unsigned int kP2pRead = 0;
inline constexpr unsigned int kP2pWrite = 1;
inline constexpr unsigned int kP2pOk = 0;
inline constexpr unsigned int kP2pChipset = 1;
inline constexpr unsigned int kP2pGpu = 2;
inline constexpr unsigned int kP2pHostBridges = 3;
inline constexpr unsigned int kP2pDisabled = 4;
inline constexpr unsigned int kP2pNotSupported = 5;

// Values of nvmlIntNvLinkDeviceType_t.
inline constexpr unsigned int kNvLinkToGpu = 0;
inline constexpr unsigned int kNvLinkToSwitch = 2;

inline constexpr unsigned int kAffinityOfNode = 0;  // NVML's constant NVML_AFFINITY_SCOPE_NODE
// NVML's constant NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON
inline constexpr unsigned int kFieldNvLinkMbPerS = 90;
inline constexpr unsigned int kValueUnsigned = 1;  // NVML's constant NVML_VALUE_TYPE_UNSIGNED_INT

struct PciInfo {
  char legacy_bus_id[16];
  unsigned int domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};

struct FieldValue {
  unsigned int field, scope;
  long long time, latency;
  unsigned int type;
  int status;
  union {
    double real;
    unsigned int natural;
    unsigned long long large;
  } value;
};

}  // namespace plimsoll::nvml
