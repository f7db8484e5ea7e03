// The facts that `plimsoll env` reports, as values. environment_report.cc gathers them and environment_text.cc formats them for people.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/opened_library.h"
#include "device/monitor/host.h"
#include "device/monitor/nvml.h"
#include "device/monitor/topology.h"
#include "exec/product_library.h"
#include "plimsoll/training.h"

namespace plimsoll {

// Properties of this build of the program. CMake writes build_facts.cc, which contains the values.
struct BuildFacts {
  std::string_view version;             // version of Plimsoll
  std::string_view compiler;            // name and version of the compiler: "GNU 12.2.0"
  std::string_view type;                // build type of CMake, such as "Release"
  std::string_view sanitizer;           // sanitizers of the build; "" if there are none
  std::string_view cuda;                // version of the CUDA toolkit; "" for a program without CUDA
  std::string_view cuda_architectures;  // architectures for which CUDA code was built: "80-real, 90-real"
  bool has_arrow;                       // true if the program can read Parquet and Arrow files
};

BuildFacts build_facts();

struct SystemFacts {
  std::string kernel = {};        // name and version of the kernel: "Linux 6.1.0"
  std::string architecture = {};  // architecture of the CPU, such as "x86_64"
  std::string distribution = {};  // PRETTY_NAME of os-release; "" if the system has none
  std::string c_library = {};     // name and version of the C library: "glibc 2.36"
};

struct ProcessorFacts {
  std::string name = {};
  CpuIsa isa = CpuIsa::kBaseline;
  std::vector<std::string> flags = {};  // instruction sets of the CPU that matrix products can use
  int num_processors = 0;               // number of processors of the machine
  std::vector<int> usable = {};         // processors that this process may use
  // Number of processors whose time the control group permits this process to use; empty without a limit.
  std::optional<double> cgroup_limit = {};
  int thread_limit = 0;  // largest number of threads that a parallel loop uses
};

// A library that is opened at run time when it is needed.
struct LibraryFacts {
  std::string name = {};
  std::string purpose = {};
  LibrarySearch search = {};
};

struct GpuFacts {
  std::string driver = {};       // version of the driver; "" without a driver
  std::optional<int> cuda = {};  // the latest version of CUDA that the driver supports
  // the reason why no GPU is reported, as a part of a sentence; "" if there are GPUs
  std::string why_no_gpu = {};
  std::vector<GpuSample> gpus = {};
};

struct CacheFolder {
  std::string holds = {};
  std::string path = {};  // path of the folder; "" if the environment defines none
  bool exists = false;
};

struct EnvironmentFacts {
  BuildFacts build = {};
  std::string build_id = {};
  SystemFacts system = {};
  ProcessorFacts processor = {};
  ProductLibrary products = {};
  MachineMemory memory = {};
  std::vector<NumaNode> nodes = {};
  GpuFacts nvidia = {};
  std::vector<LibraryFacts> libraries = {};
  std::vector<std::string> loader_folders = {};
  Environment variables = {};
  std::vector<CacheFolder> caches = {};
};

// Returns the variables of this process that change what Plimsoll or a library that it uses does. Values of secrets are
// replaced by "(set)", and credentials in addresses are removed. This function is in environment.cc, because no other
// file of the library may read the environment.
Environment reported_variables();

// Returns the value of a variable as a report may show it. If `name` is that of a secret, the value is hidden.
std::string shown_value(std::string_view name, std::string_view value);

// Formats the report for people. Ends with a newline.
std::string environment_text(const EnvironmentFacts& facts);

}  // namespace plimsoll
