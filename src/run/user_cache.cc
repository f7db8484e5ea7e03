#include "run/user_cache.h"

#include "base/check.h"

namespace plimsoll {

std::string cache_folder(const std::string& name, const Environment& environment) {
  const auto get = [&](const char* variable) {
    const auto it = environment.find(variable);
    return it == environment.end() ? std::string() : it->second;
  };
  if (const std::string cache = get("XDG_CACHE_HOME"); !cache.empty())
    return join_path(cache, "plimsoll/" + name);
  if (const std::string home = get("HOME"); !home.empty()) return join_path(home, ".cache/plimsoll/" + name);
  return {};
}

bool is_in_cache(FileSystem& files, const std::string& path) {
  try {
    return files.status(path).has_value();
  } catch (const Error&) {
    return false;
  }
}

void keep_in_cache(FileSystem& files, const std::string& path, const std::string& text,
                   const std::string& what) {
  if (path.empty()) {
    throw_error(ErrorCode::kUsage,
                "the environment has neither HOME nor XDG_CACHE_HOME, so Plimsoll knows no folder in which "
                "to save {}",
                what);
  }
  make_folders(files, parent_folder(path));
  replace_file(files, path, text);
}

}  // namespace plimsoll
