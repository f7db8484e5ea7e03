// The only place of the library that reads the environment of the process: the default of functions that look up
// caches, so that a program finds models where Hugging Face's own tools keep them, and the variables with which a
// launcher tells a process its rank.
#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/training.h"

namespace plimsoll {
namespace {

// The variables that the functions of include/plimsoll use.
constexpr const char* kVariables[] = {
    "HF_HOME",
    "HF_HUB_CACHE",
    "HUGGINGFACE_HUB_CACHE",
    "XDG_CACHE_HOME",
    "HOME",
    // the hub
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
    // torchrun's variables, of which other launchers use those with the address of the store of the ranks
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_USE_AGENT_STORE",
    // Open MPI
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    // NCCL
    "NCCL_P2P_DISABLE",
    // Slurm
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
  // Services and containers are started without HOME; Python's tools use the password database too.
  if (!environment.contains("HOME")) {
    if (std::string home = home_of_user(); !home.empty()) environment["HOME"] = std::move(home);
  }
  return environment;
}

}  // namespace plimsoll
