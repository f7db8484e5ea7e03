// Tests that the program opens the libraries of NVIDIA's driver at run time and only if it needs them. The same
// program therefore runs on machines with and without the driver, and making a plan needs no driver.
#include <elf.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/file.h"
#include "device/cuda/cuda_device.h"
#include "plimsoll/arguments.h"
#include "run/run_setup.h"
#include "tests/bad_input/binary.h"
#include "tests/support/places.h"

namespace plimsoll::testing {
namespace {

constexpr const char* kOfTheDriver[] = {"libcuda.so", "libnvidia-ml.so", "libcublasLt.so", "libcublas.so",
                                        "libcudnn"};

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

template <typename T>
T read_at(const std::string& bytes, size_t offset) {
  T value{};
  if (offset + sizeof value <= bytes.size()) std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

// Returns the libraries that the dynamic section of a 64-bit ELF file names.
std::vector<std::string> needed_by(const std::string& path) {
  const std::string bytes = bytes_of(path);
  const auto header = read_at<Elf64_Ehdr>(bytes, 0);
  EXPECT_TRUE(bytes.starts_with(ELFMAG)) << path;
  std::vector<Elf64_Shdr> sections;
  for (size_t i = 0; i < header.e_shnum; ++i)
    sections.push_back(read_at<Elf64_Shdr>(bytes, header.e_shoff + i * sizeof(Elf64_Shdr)));
  std::vector<std::string> names;
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_DYNAMIC || section.sh_link >= sections.size()) continue;
    const size_t texts = sections[section.sh_link].sh_offset;
    for (size_t at = 0; at < section.sh_size; at += sizeof(Elf64_Dyn)) {
      const auto entry = read_at<Elf64_Dyn>(bytes, section.sh_offset + at);
      if (entry.d_tag == DT_NEEDED) names.emplace_back(bytes.c_str() + texts + entry.d_un.d_val);
    }
  }
  return names;
}

TEST(Driver, NothingOfItIsLinked) {
  std::vector<std::string> files{place("PLIMSOLL_PROGRAM", PLIMSOLL_BINARY_DIR "/plimsoll")};
  // Besides the program, the shared library libplimsoll.so is checked if it exists; some builds do not create it.
  if (const std::string library = PLIMSOLL_BINARY_DIR "/libplimsoll.so"; std::filesystem::exists(library))
    files.push_back(library);
  for (const std::string& file : files) {
    const std::vector<std::string> needed = needed_by(file);
    EXPECT_TRUE(std::ranges::any_of(needed, [](const std::string& n) { return n.starts_with("libc.so"); }))
        << file;
    for (const std::string& library : needed) {
      for (const char* part : kOfTheDriver)
        EXPECT_FALSE(library.starts_with(part)) << file << " needs " << library;
    }
  }
}

std::vector<std::string> plan_arguments(const char* device) {
  return {"--config_name", "bert-large-uncased", "--max_seq_length", "512", "--bf16", "--device", device};
}

// Runs `plimsoll plan` and returns the libraries of the driver that it opened. The list is empty on a machine
// without the driver.
std::vector<std::string> opened_by_a_plan(const char* device) {
  std::vector<std::string> words = plan_arguments(device);
  words.insert(words.begin(), "plan");
  std::erase(words, "--bf16");
  const ProcessResult result =
      run_plimsoll(words, ::testing::TempDir() + "/plimsoll_driver_log", 60000,
                   {"LD_DEBUG=files", std::string("LD_LIBRARY_PATH=") + PLIMSOLL_FAKE_CUDA});
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_NE(result.output.find("model weights"), std::string::npos);
  std::vector<std::string> opened;
  for (const char* part : kOfTheDriver) {
    // The dynamic linker prints "generating link map" only for a library that it found and loads, and not for a
    // library that it merely searches for.
    const std::string taken = std::string("file=") + part;
    for (size_t at = result.output.find(taken); at != std::string::npos;
         at = result.output.find(taken, at + 1)) {
      const std::string line = result.output.substr(at, result.output.find('\n', at) - at);
      if (line.find("generating link map") == std::string::npos) continue;
      opened.emplace_back(part);
      break;
    }
  }
  return opened;
}

TEST(Driver, APlanForACardOfTheTableOpensNothingOfIt) {
  EXPECT_TRUE(opened_by_a_plan("h200").empty());
  if (is_built_with_cuda()) {
    EXPECT_EQ(opened_by_a_plan("auto"), std::vector<std::string>{"libcuda.so"})
        << "who asks for a GPU opens it";
  }
}

TEST(Driver, APlanForACardOfTheTableMakesNoCallOfIt) {
  const Arguments arguments = parse_arguments(plan_arguments("h200")).arguments;
  const RunSetup setup = prepare_run(arguments, RunPurpose::kPlan, {}, posix_file_system());
  const Plan plan = build_plan(setup.request);
  EXPECT_TRUE(plan.is_on_gpu());
  EXPECT_FALSE(is_cuda_driver_open());
  EXPECT_FALSE(setup.device.holds_gpu_driver);
}

}  // namespace
}  // namespace plimsoll::testing
