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

// What the program was built with. CMake writes build_facts.cc, which has the values.
struct BuildFacts {
  std::string_view version;             // of Plimsoll
  std::string_view compiler;            // "GNU 12.2.0"
  std::string_view type;                // CMake's build type
  std::string_view sanitizer;           // "" without one
  std::string_view cuda;                // version of the CUDA toolkit; "" for a program without CUDA
  std::string_view cuda_architectures;  // "80-real, 90-real"
  bool has_arrow;                       // reads Parquet and Arrow files
};

BuildFacts build_facts();

struct SystemFacts {
  std::string kernel = {};        // "Linux 6.1.0"
  std::string architecture = {};  // "x86_64"
  std::string distribution = {};  // PRETTY_NAME of os-release; "" if the system has none
  std::string c_library = {};     // "glibc 2.36"
};

struct ProcessorFacts {
  std::string name = {};
  CpuIsa isa = CpuIsa::kBaseline;
  std::vector<std::string> flags = {};  // those of the CPU's flags that matter for products
  int num_processors = 0;               // of the machine
  std::vector<int> usable = {};         // processors that this process may use
  std::optional<double> cgroup_limit =
      {};                // processors whose time the control group allows; empty without a limit
  int thread_limit = 0;  // the most threads of one loop
};

// A library that is opened when it is needed.
struct LibraryFacts {
  std::string name = {};
  std::string purpose = {};
  LibrarySearch search = {};
};

struct GpuFacts {
  std::string driver = {};       // "" without a driver
  std::optional<int> cuda = {};  // the latest version of CUDA that the driver supports
  std::string why_no_gpu = {};   // as a part of a sentence; "" if there are GPUs
  std::vector<GpuSample> gpus = {};
};

struct CacheFolder {
  std::string holds = {};
  std::string path = {};  // "" if the environment defines none
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

// Returns the variables of this process that change what Plimsoll or a library under it does. Values of secrets are replaced by "(set)",
// and credentials in addresses are removed. Implemented in environment.cc, the only file that reads the environment.
Environment reported_variables();

// Returns the value of a variable as a report may show it. `name` decides if the value is a secret.
std::string shown_value(std::string_view name, std::string_view value);

// Formats the report for people. Ends with a newline.
std::string environment_text(const EnvironmentFacts& facts);

}  // namespace plimsoll
