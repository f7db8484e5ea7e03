// A fake of NVML, NVIDIA's management library, with the functions that the program calls. The environment
// variable PLIMSOLL_FAKE_GPUS selects the simulated machine, which determines the returned values. The library
// is built as libnvidia-ml.so.1 in a folder of its own, so that a test can open it by its path and a process
// under test by LD_LIBRARY_PATH. If it is built with PLIMSOLL_FAKE_OLD_DRIVER, it lacks the functions that NVML
// has since 2021.
//
//   one          an H200 that computes            several     two cards of different kinds
//   none         a driver without a card          not_loaded  nvmlInit() fails: the driver is not loaded
//   mismatch     nvmlInit() fails after an update denied      some values need permissions
//   bare         a card that reports few values   lost        the second of two cards fell off the bus
//   throttling   slowed down by power and heat    braked      slowed down by the power supply
//   crowded      very many processes on a card    hot         a card at 83 C that is not slowed down yet
//   hgx          eight H100 with NVSwitches       hgx_old     the same with an older driver
//   bridges      four A100, NVLink in pairs       sockets     two desktop cards on two CPU sockets
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "device/monitor/nvml_interface.h"

using namespace plimsoll::nvml;

namespace plimsoll::nvml {
struct NvmlDevice {
  unsigned int index;
};
}  // namespace plimsoll::nvml

namespace {

NvmlDevice devices[] = {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}};
constexpr unsigned long long kMiB = 1ull << 20;
constexpr const char* kUuids[] = {"GPU-00112233-4455-6677-8899-aabbccddeeff",
                                  "GPU-ffeeddcc-bbaa-9988-7766-554433221100"};

bool is(const char* name) {
  const char* value = std::getenv("PLIMSOLL_FAKE_GPUS");
  return std::strcmp(value == nullptr ? "one" : value, name) == 0;
}

bool has_two() {
  return is("several") || is("lost");
}

bool is_hgx() {
  return is("hgx") || is("hgx_old");
}

unsigned int num_gpus() {
  return is("none") ? 0 : is_hgx() ? 8 : is("bridges") ? 4 : has_two() || is("sockets") ? 2 : 1;
}

// Returns true if the simulated GPU is a desktop card: both cards of the machine "sockets", and the second card
// of all other machines, except the machines with NVLink ("hgx" and "bridges"), which have none.
bool is_desktop(Device device) {
  return is("sockets") || (device->index == 1 && !is_hgx() && !is("bridges"));
}

// Fills in the PCI address of a device. GPUs are on the buses 16, 32 and so on, NVSwitches on the buses 5 to 8.
void fill_place(PciInfo* info, unsigned int bus) {
  *info = {};
  info->bus = bus;
  std::snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02X:00.0", bus);
}

unsigned int socket_of(Device device) {
  return num_gpus() > 1 && device->index >= num_gpus() / 2 ? 1 : 0;
}

int give(unsigned int* value, unsigned int figure) {
  if (is("bare")) return kNotSupported;
  *value = figure;
  return kSuccess;
}

int give_text(char* text, unsigned int length, const char* figure) {
  std::strncpy(text, figure, length);
  return kSuccess;
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  return is("not_loaded") ? kDriverNotLoaded : is("mismatch") ? kVersionMismatch : kSuccess;
}

int nvmlDeviceGetCount_v2(unsigned int* count) {
  *count = num_gpus();
  return kSuccess;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, Device* device) {
  if (is("lost") && index == 1) return kGpuIsLost;
  *device = &devices[index];
  return kSuccess;
}

int nvmlDeviceGetHandleByUUID(const char* uuid, Device* device) {
  for (unsigned int i = 0; i < 2; ++i) {
    if (std::strcmp(uuid, kUuids[i]) != 0) continue;
    *device = &devices[i];
    return kSuccess;
  }
  return kNotFound;
}

int nvmlDeviceGetName(Device device, char* text, unsigned int length) {
  if (is_hgx()) return give_text(text, length, "NVIDIA H100 80GB HBM3");
  if (is("bridges")) return give_text(text, length, "NVIDIA A100 80GB PCIe");
  if (is("sockets")) return give_text(text, length, "NVIDIA GeForce RTX 4090");
  return give_text(text, length, is_desktop(device) ? "NVIDIA GeForce RTX 3090" : "NVIDIA H200");
}

int nvmlDeviceGetUUID(Device device, char* text, unsigned int length) {
  return give_text(text, length, kUuids[device->index % 2]);
}

int nvmlSystemGetDriverVersion(char* text, unsigned int length) {
  return give_text(text, length, "580.65.06");
}

int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 13000;
  return kSuccess;
}

#ifndef PLIMSOLL_FAKE_OLD_DRIVER

int nvmlDeviceGetMemoryInfo_v2(Device device, Memory* memory) {
  if (memory->version != kMemoryVersion) return kArgumentVersionMismatch;
  const bool desktop = is_desktop(device);
  memory->total = (desktop ? 24576 : 143771) * kMiB;
  memory->reserved = (desktop ? 376 : 600) * kMiB;
  memory->used = (desktop ? 1200 : 10527) * kMiB;
  memory->free = memory->total - memory->reserved - memory->used;
  return kSuccess;
}

int nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned int* count, ProcessInfo* list) {
  if (is("denied")) return kNoPermission;
  const unsigned int number = is("crowded") ? 200 : is_desktop(device) || is("bare") ? 0 : 2;
  const unsigned int room = *count;
  *count = number;
  if (room < number) return kInsufficientSize;
  // The process ids are larger than the system's maximum, so that they never belong to a real process whose
  // name would be printed.
  for (unsigned int i = 0; i < number; ++i)
    list[i] = {4200000 + i, i == 1 ? kUsedNotKnown : 10000 * kMiB / (is("crowded") ? 200 : 1), 0, 0};
  return kSuccess;
}

#endif

int nvmlDeviceGetGraphicsRunningProcesses_v3(Device device, unsigned int* count, ProcessInfo* list) {
  *count = is_desktop(device) ? 1 : 0;
  if (is_desktop(device)) list[0] = {4199999, 1200 * kMiB, 0, 0};
  return kSuccess;
}

int nvmlDeviceGetCudaComputeCapability(Device device, int* major, int* minor) {
  if (is("bare")) return kNotSupported;
  *major = is_desktop(device) || is("bridges") ? 8 : 9;
  *minor = is("sockets") ? 9 : is_desktop(device) ? 6 : 0;
  return kSuccess;
}

int nvmlDeviceGetUtilizationRates(Device device, Utilization* rates) {
  if (is("bare")) return kNotSupported;
  *rates = is_desktop(device) ? Utilization{4, 2} : Utilization{98, 41};
  return kSuccess;
}

int nvmlDeviceGetClockInfo(Device device, unsigned int type, unsigned int* mhz) {
  if (type == kClockSm) return give(mhz, is_desktop(device) ? 210 : is("throttling") ? 1410 : 1980);
  return give(mhz, is_desktop(device) ? 405 : 3201);
}

int nvmlDeviceGetMaxClockInfo(Device device, unsigned int type, unsigned int* mhz) {
  if (type == kClockSm) return give(mhz, is_desktop(device) ? 2100 : 1980);
  return give(mhz, is_desktop(device) ? 9751 : 3201);
}

int nvmlDeviceGetPowerUsage(Device device, unsigned int* milliwatts) {
  return is("denied") ? kNoPermission : give(milliwatts, is_desktop(device) ? 31400 : 698250);
}

int nvmlDeviceGetEnforcedPowerLimit(Device device, unsigned int* milliwatts) {
  return give(milliwatts, is_desktop(device) ? 350000 : 700000);
}

int nvmlDeviceGetTemperature(Device device, unsigned int, unsigned int* degrees) {
  return give(degrees, is_desktop(device) ? 38 : is("throttling") ? 91 : is("hot") ? 83 : 64);
}

int nvmlDeviceGetTemperatureThreshold(Device device, unsigned int type, unsigned int* degrees) {
  if (type != kThresholdSlowdown || !is_desktop(device)) return kNotSupported;
  return give(degrees, 95);
}

int nvmlDeviceGetMarginTemperature(Device, MarginTemperature* margin) {
  if (is("bare")) return kNotSupported;
  if (margin->version != kMarginVersion) return kArgumentVersionMismatch;
  margin->margin = 23;
  return kSuccess;
}

int nvmlDeviceGetFanSpeed(Device device, unsigned int* percent) {
  return is_desktop(device) ? give(percent, 30) : kNotSupported;
}

// NVML's name of this function before 2023. The fake library lacks the later name, as drivers of that time do,
// so the program must find this one.
int nvmlDeviceGetCurrentClocksThrottleReasons(Device device, unsigned long long* bits) {
  if (is("bare")) return kNotSupported;
  *bits = is_desktop(device) ? 0x1 : is("throttling") ? 0x4c : is("braked") ? 0x88 : 0;
  return kSuccess;
}

int nvmlDeviceGetTotalEccErrors(Device device, unsigned int type, unsigned int, unsigned long long* count) {
  if (is_desktop(device) || is("bare")) return kNotSupported;
  *count = !is("throttling") ? 0 : type == kEccCorrected ? 5 : 1;
  return kSuccess;
}

int nvmlDeviceGetCurrPcieLinkGeneration(Device device, unsigned int* generation) {
  return give(generation, is_desktop(device) ? 1 : 5);
}

int nvmlDeviceGetMaxPcieLinkGeneration(Device device, unsigned int* generation) {
  return give(generation, is_desktop(device) || is("bridges") ? 4 : 5);
}

// The second card of the machine "sockets" has a PCIe link of only eight lanes. All other cards have 16 lanes.
int nvmlDeviceGetCurrPcieLinkWidth(Device device, unsigned int* width) {
  return give(width, is("sockets") && device->index == 1 ? 8 : 16);
}

int nvmlDeviceGetMaxPcieLinkWidth(Device, unsigned int* width) {
  return give(width, 16);
}

int nvmlDeviceGetNvLinkState(Device device, unsigned int link, unsigned int* is_up) {
  if (is_desktop(device)) return kNotSupported;
  if (is("bridges") && link >= 12) return kInvalidArgument;
  return give(is_up, is_hgx() || is("bridges") || link < 16 ? 1 : 0);
}

// Returns NVML's number 4 (NVLink 3.0) for an A100. Real drivers return 7 (NVLink 5.0) for an H100, although
// its links are of the fourth generation, so the fake one does too.
int nvmlDeviceGetNvLinkVersion(Device, unsigned int, unsigned int* version) {
  return give(version, is("bridges") ? 4 : 7);
}

int nvmlDeviceGetNvLinkRemoteDeviceType(Device, unsigned int, unsigned int* type) {
  if (is("hgx_old")) return kNotSupported;
  return give(type, is("bridges") ? kNvLinkToGpu : kNvLinkToSwitch);
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device device, unsigned int link, PciInfo* info) {
  fill_place(info, is("bridges") ? 16 * ((device->index ^ 1) + 1) : 5 + link % 4);
  return kSuccess;
}

int nvmlDeviceGetFieldValues(Device, int count, FieldValue* values) {
  for (int i = 0; i < count; ++i) {
    values[i].status = values[i].field == kFieldNvLinkMbPerS ? kSuccess : kNotSupported;
    values[i].type = kValueUnsigned;
    values[i].value.natural = is("bridges") ? 25000 : 26562;
  }
  return kSuccess;
}

int nvmlDeviceGetPciInfo_v3(Device device, PciInfo* info) {
  fill_place(info, 16 * (device->index + 1));
  return kSuccess;
}

int nvmlDeviceGetTopologyCommonAncestor(Device one, Device other, unsigned int* level) {
  *level = socket_of(one) == socket_of(other) ? kTopologyNode : kTopologySystem;
  return kSuccess;
}

int nvmlDeviceGetP2PStatus(Device, Device, unsigned int, unsigned int* status) {
  *status = is("sockets") ? kP2pHostBridges : kP2pOk;
  return kSuccess;
}

int nvmlDeviceGetCpuAffinity(Device device, unsigned int num_words, unsigned long* words) {
  if (num_words < 2) return kInsufficientSize;
  // Each socket has 12 cores and 24 logical processors. The first hardware threads of all cores are numbered
  // first, then the second ones.
  const unsigned long cores = 0xfff;
  words[0] = socket_of(device) == 0 ? cores | cores << 24 : cores << 12 | cores << 36;
  return kSuccess;
}

int nvmlDeviceGetMemoryAffinity(Device device, unsigned int num_words, unsigned long* words, unsigned int) {
  if (num_words < 1) return kInsufficientSize;
  words[0] = 1ul << socket_of(device);
  return kSuccess;
}

}  // extern "C"
