// make_dataset --output_dir DIR [--min_class 200] [--max_train_rows 0] [--vocab_file FILE] [--vocab_size
// 8000] < LISTS
//
// Reads the output of `apt-cache dumpavail` and writes train.tsv, validation.tsv, test.tsv and a line of
// statistics.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <string_view>

#include "package_list.h"

namespace {

using plimsoll::demo::Dataset;
using plimsoll::demo::Options;
using plimsoll::demo::Package;

constexpr std::string_view kNames[] = {"--output_dir", "--min_class", "--max_train_rows", "--vocab_file",
                                       "--vocab_size"};

int run(int argc, char** argv) {
  const Options options(argc, argv, kNames);
  const std::filesystem::path folder = options.required("--output_dir");
  const std::vector<Package> packages = plimsoll::demo::read_packages(std::cin);
  if (packages.empty()) {
    std::fputs(
        "make_dataset: no packages in the input; run 'apt-get update', then pipe 'apt-cache dumpavail' into "
        "it\n",
        stderr);
    return 4;
  }
  const Dataset dataset = plimsoll::demo::make_dataset(packages, options.number("--min_class", 200),
                                                       options.number("--max_train_rows", 0));
  std::filesystem::create_directories(folder);
  plimsoll::demo::write_rows(folder / "train.tsv", dataset.train);
  plimsoll::demo::write_rows(folder / "validation.tsv", dataset.validation);
  plimsoll::demo::write_rows(folder / "test.tsv", dataset.test);
  const std::string vocabulary = options.optional("--vocab_file", "");
  if (!vocabulary.empty()) {
    plimsoll::demo::write_text(
        vocabulary, plimsoll::demo::make_vocabulary(dataset.train, options.number("--vocab_size", 8000)));
  }
  std::printf("%zu packages, %d classes (%d sections too small and grouped as 'other'): ", packages.size(),
              dataset.num_classes, dataset.num_grouped);
  std::printf("%zu rows to train, %zu to validate, %zu to test\n", dataset.train.size(),
              dataset.validation.size(), dataset.test.size());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "make_dataset: %s\n", error.what());
    return 2;
  }
}
