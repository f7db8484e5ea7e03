#include "base/opened_library.h"

#include <dlfcn.h>
#include <link.h>

#include <cstddef>
#include <new>

namespace plimsoll {
namespace {

constexpr const char* kSitePackages = "$ORIGIN/../../";
constexpr const char* kToolkit = "/usr/local/cuda/lib64/";

}  // namespace

LibrarySearch search_library(std::span<const std::string> names) {
  LibrarySearch search;
  for (const std::string& name : names) {
    void* library = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) {
      const char* error = dlerror();
      search.tried.push_back({name, error == nullptr ? "unknown error" : error});
      continue;
    }
    link_map* map = nullptr;
    search.file = dlinfo(library, RTLD_DI_LINKMAP, static_cast<void*>(&map)) == 0 ? map->l_name : name;
    dlclose(library);
    break;
  }
  return search;
}

std::vector<std::string> loader_folders() {
  std::vector<std::string> folders;
  void* program = dlopen(nullptr, RTLD_LAZY);
  if (program == nullptr) return folders;
  Dl_serinfo size{};
  if (dlinfo(program, RTLD_DI_SERINFOSIZE, &size) == 0 && size.dls_size >= sizeof size) {
    // dlinfo() writes a structure followed by the texts to which it points, so the memory is larger than the structure.
    std::vector<std::max_align_t> memory(size.dls_size / sizeof(std::max_align_t) + 1);
    auto* info = new (memory.data()) Dl_serinfo(size);
    if (dlinfo(program, RTLD_DI_SERINFO, info) == 0) {
      const Dl_serpath* paths = info->dls_serpath;
      for (unsigned int i = 0; i < info->dls_cnt; ++i) folders.emplace_back(paths[i].dls_name);
    }
  }
  dlclose(program);
  return folders;
}

std::vector<std::string> cublaslt_names() {
  const std::string soname = "libcublasLt.so.13";
  return {soname, kSitePackages + ("nvidia/cu13/lib/" + soname), kToolkit + soname, "libcublasLt.so"};
}

std::vector<std::string> nccl_names() {
  const std::string soname = "libnccl.so.2";
  return {soname, kSitePackages + ("nvidia/nccl/lib/" + soname), kToolkit + soname};
}

}  // namespace plimsoll
