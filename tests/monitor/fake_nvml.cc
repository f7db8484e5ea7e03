// A fake management library with the part of NVML that the program calls. The variable PLIMSOLL_FAKE_GPUS
// selects the machine that determines its figures. Built as libnvidia-ml.so.1 in its own folder, so that a
// test opens it by its path and a process under test by LD_LIBRARY_PATH. With PLIMSOLL_FAKE_OLD_DRIVER it
// lacks the functions of 2021.
//
//   one          an H200 at work               several     two cards of different kinds
//   none         a driver without a card       not_loaded  init fails
//   mismatch     init fails after an update    denied      some figures need permissions
//   bare         a card with few figures       lost        the second of two cards fell off the bus
//   throttling   power cap, and too hot        braked      the power supply requested less
//   crowded      more processes than requested    hot      83 C, and not yet slower
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

NvmlDevice devices[] = {{0}, {1}};
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

// The second card is a desktop card.
bool is_desktop(Device device) {
  return device->index == 1;
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
  *count = is("none") ? 0 : has_two() ? 2 : 1;
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
  return give_text(text, length, is_desktop(device) ? "NVIDIA GeForce RTX 3090" : "NVIDIA H200");
}

int nvmlDeviceGetUUID(Device device, char* text, unsigned int length) {
  return give_text(text, length, kUuids[device->index]);
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
  // The numbers are beyond the largest process number, so no real name is found.
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
  *major = is_desktop(device) ? 8 : 9;
  *minor = is_desktop(device) ? 6 : 0;
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

// The name before 2023; the later name is missing, as in drivers of that time.
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
  return give(generation, is_desktop(device) ? 4 : 5);
}

int nvmlDeviceGetCurrPcieLinkWidth(Device, unsigned int* width) {
  return give(width, 16);
}

int nvmlDeviceGetMaxPcieLinkWidth(Device, unsigned int* width) {
  return give(width, 16);
}

int nvmlDeviceGetNvLinkState(Device device, unsigned int link, unsigned int* is_up) {
  if (is_desktop(device)) return kNotSupported;
  return give(is_up, link < 16 ? 1 : 0);
}

}  // extern "C"
