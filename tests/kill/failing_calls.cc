// A library that is loaded before the C library into a program under test. It counts the calls that change
// files below one folder and makes one of them fail, or one and all later ones, as on a full or defective disk.
//
// The environment configures it: PLIMSOLL_FAIL_UNDER is the folder, PLIMSOLL_FAIL_AT the number of the call
// from 0, PLIMSOLL_FAIL_ERRNO the error, PLIMSOLL_FAIL_ON "once" or "always". Each failing call is reported
// on standard error. PLIMSOLL_SYNC_US is the time, in microseconds, that each sync takes in addition, as on a slow disk.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

std::atomic<long> calls{0};

const char* setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Returns true if this call must fail, and sets errno.
bool fails(const char* what, const char* path) {
  static const char* const folder = setting("PLIMSOLL_FAIL_UNDER");
  if (*folder == '\0' || std::strncmp(path, folder, std::strlen(folder)) != 0) return false;
  const long number = calls.fetch_add(1);
  const long at = std::strtol(setting("PLIMSOLL_FAIL_AT"), nullptr, 10);
  const bool always = std::strcmp(setting("PLIMSOLL_FAIL_ON"), "always") == 0;
  if (number < at || (number > at && !always)) return false;
  if (number == at) std::fprintf(stderr, "failing call %ld: %s %s\n", number, what, path);
  errno = static_cast<int>(std::strtol(setting("PLIMSOLL_FAIL_ERRNO"), nullptr, 10));
  return true;
}

bool fails(const char* what, int descriptor) {
  char link[64];
  char path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return false;
  path[length] = '\0';
  return fails(what, path);
}

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

int open_or_fail(const char* path, int flags, mode_t mode, const char* name) {
  if ((flags & O_CREAT) != 0 && fails("open", path)) return -1;
  return next<int (*)(const char*, int, ...)>(name)(path, flags, mode);
}

mode_t mode_of(int flags, va_list rest) {
  return (flags & O_CREAT) != 0 ? static_cast<mode_t>(va_arg(rest, int)) : 0;
}

}  // namespace

extern "C" {

ssize_t write(int descriptor, const void* bytes, size_t count) {
  if (fails("write", descriptor)) return -1;
  return next<ssize_t (*)(int, const void*, size_t)>("write")(descriptor, bytes, count);
}

ssize_t writev(int descriptor, const iovec* parts, int count) {
  if (fails("writev", descriptor)) return -1;
  return next<ssize_t (*)(int, const iovec*, int)>("writev")(descriptor, parts, count);
}

ssize_t pwrite(int descriptor, const void* bytes, size_t count, off_t offset) {
  if (fails("pwrite", descriptor)) return -1;
  return next<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite")(descriptor, bytes, count, offset);
}

ssize_t pwrite64(int descriptor, const void* bytes, size_t count, off64_t offset) {
  if (fails("pwrite64", descriptor)) return -1;
  return next<ssize_t (*)(int, const void*, size_t, off64_t)>("pwrite64")(descriptor, bytes, count, offset);
}

int fsync(int descriptor) {
  if (fails("fsync", descriptor)) return -1;
  if (const long us = std::strtol(setting("PLIMSOLL_SYNC_US"), nullptr, 10); us > 0)
    usleep(static_cast<useconds_t>(us));
  return next<int (*)(int)>("fsync")(descriptor);
}

int rename(const char* from, const char* to) noexcept {
  if (fails("rename", to)) return -1;
  return next<int (*)(const char*, const char*)>("rename")(from, to);
}

int mkdir(const char* path, mode_t mode) noexcept {
  if (fails("mkdir", path)) return -1;
  return next<int (*)(const char*, mode_t)>("mkdir")(path, mode);
}

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_of(flags, rest);
  va_end(rest);
  return open_or_fail(path, flags, mode, "open");
}

int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_of(flags, rest);
  va_end(rest);
  return open_or_fail(path, flags, mode, "open64");
}

}  // extern "C"
