// Reads the environment of the process. No other file of the library reads it. Some variables determine where caches are, so
// that a program finds models where Hugging Face's own tools store them. Others tell a process that was started by a
// launcher which rank of a run it is.
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/environment_facts.h"
#include "plimsoll/training.h"

namespace plimsoll {
namespace {

// The environment variables that the functions declared in include/plimsoll use.
constexpr const char* kVariables[] = {
    "HF_HOME",
    "HF_HUB_CACHE",
    "HUGGINGFACE_HUB_CACHE",
    "XDG_CACHE_HOME",
    "HOME",
    // variables that configure downloads from the Hugging Face Hub
    "HF_ENDPOINT",
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "HF_TOKEN_PATH",
    "HF_HUB_DISABLE_IMPLICIT_TOKEN",
    "HF_HUB_OFFLINE",
    "TRANSFORMERS_OFFLINE",
    "HF_HUB_ETAG_TIMEOUT",
    "HF_HUB_DOWNLOAD_TIMEOUT",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    // The variables that torchrun sets for each rank. MASTER_ADDR and MASTER_PORT are read for other launchers too.
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_USE_AGENT_STORE",
    // Open MPI's variables of a rank
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    // variables that change what NCCL does
    "NCCL_P2P_DISABLE",
    // Slurm's variables of a rank
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_JOB_ID",
    "SLURM_JOBID",
    "SLURM_STEP_ID",
    "SLURM_STEPID",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_NTASKS",
    "SLURM_STEP_TASKS_PER_NODE",
    "SLURM_TASKS_PER_NODE",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_STEP_NODELIST",
    "SLURM_JOB_NODELIST",
    "SLURM_NODELIST",
};

// The prefixes of the names of further variables that the report of `plimsoll env` lists, because they change what the program or
// a library does.
constexpr std::string_view kReportedPrefixes[] = {
    "PLIMSOLL_", "HF_",     "HUGGINGFACE_", "HUGGING_FACE_", "TRANSFORMERS_", "CUDA_",
    "NVIDIA_",   "CUBLAS",  "NCCL_",        "OMP_",          "GOMP_",         "ONEDNN_",
    "DNNL_",     "MALLOC_", "GLIBC_",       "CURL_",         "SSL_",
};

// The names of further variables that the report of `plimsoll env` lists. libcurl reads the variables of proxies, some of them in upper and
// in lower case.
constexpr std::string_view kReportedNames[] = {
    "LD_LIBRARY_PATH", "LD_PRELOAD", "http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy",
    "ALL_PROXY",       "no_proxy",   "NO_PROXY",   "TMPDIR",      "TERM",        "NO_COLOR",
    "LC_ALL",          "LC_CTYPE",   "LANG",
};

bool is_reported(std::string_view name) {
  return std::ranges::any_of(kReportedPrefixes,
                             [&](std::string_view prefix) { return name.starts_with(prefix); }) ||
         std::ranges::find(kReportedNames, name) != std::end(kReportedNames) ||
         std::ranges::find(kVariables, name) != std::end(kVariables);
}

// Returns true if a variable of this name probably contains a secret, such as a token or a password. The path of a file that contains a
// token is not a secret.
bool is_secret(std::string_view name) {
  if (name.ends_with("_PATH") || name.ends_with("_FILE") || name.find("DISABLE") != std::string_view::npos)
    return false;
  return std::ranges::any_of(
      std::initializer_list<std::string_view>{"TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "_KEY",
                                              "AUTH"},
      [&](std::string_view word) { return name.find(word) != std::string_view::npos; });
}

// Returns the home directory of this process's user from the password database, or an empty string.
std::string home_of_user() {
  std::vector<char> text(size_t{1} << 14);
  passwd entry{};
  passwd* found = nullptr;
  const int failed = getpwuid_r(getuid(), &entry, text.data(), text.size(), &found);
  return failed != 0 || found == nullptr || entry.pw_dir == nullptr ? std::string() : entry.pw_dir;
}

}  // namespace

Environment process_environment() {
  Environment environment;
  for (const char* name : kVariables) {
    if (const char* value = std::getenv(name)) environment[name] = value;
  }
  // The home directory comes from the password database if HOME is not set, as in services and containers. Python's
  // tools do the same.
  if (!environment.contains("HOME")) {
    if (std::string home = home_of_user(); !home.empty()) environment["HOME"] = std::move(home);
  }
  return environment;
}

std::string shown_value(std::string_view name, std::string_view value) {
  if (value.empty()) return {};
  if (is_secret(name)) return "(set)";
  constexpr std::string_view kScheme = "://";
  if (name.ends_with("_proxy") || name.ends_with("_PROXY")) {
    // In the address of a proxy, the user and the password precede the last '@'. The address may have no scheme such as
    // http://.
    const size_t at = value.rfind('@');
    if (at == std::string_view::npos) return std::string(value);
    const size_t scheme = value.find(kScheme);
    const size_t kept = scheme < at ? scheme + kScheme.size() : 0;
    return std::string(value.substr(0, kept)).append(value.substr(at + 1));
  }
  // Values may be lists of addresses. The path of an address may contain '@', so the credentials are searched only
  // between the scheme and the path.
  std::string shown;
  while (true) {
    const size_t scheme = value.find(kScheme);
    if (scheme == std::string_view::npos) return shown.append(value);
    const size_t host = scheme + kScheme.size();
    const size_t end = std::min(value.find_first_of("/?# ,", host), value.size());
    const size_t at = value.substr(0, end).rfind('@');
    const size_t start = at == std::string_view::npos || at < host ? host : at + 1;
    shown.append(value.substr(0, host)).append(value.substr(start, end - start));
    value.remove_prefix(end);
  }
}

Environment reported_variables() {
  Environment reported;
  for (char* const* entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = text.substr(0, equals);
    if (!is_reported(name)) continue;
    std::string value = shown_value(name, text.substr(equals + 1));
    // Line breaks in a value are replaced, because a report has one line per variable.
    std::ranges::replace_if(
        value, [](unsigned char c) { return c < ' ' || c == 127; }, '?');
    reported.emplace(name, std::move(value));
  }
  return reported;
}

}  // namespace plimsoll
