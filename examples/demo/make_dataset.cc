// make_dataset --wordnet_dir DIR --output_dir DIR [--min_class 300] [--max_class 0] [--max_train_rows 0]
//              [--vocab_file FILE] [--vocab_size 8000]
//
// Reads data.noun and data.verb of WordNet, writes the data files train.tsv, validation.tsv and test.tsv, and prints a
// line of statistics.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "wordnet.h"

namespace {

using plimsoll::demo::Dataset;
using plimsoll::demo::Definition;
using plimsoll::demo::Options;

constexpr std::string_view kNames[] = {"--wordnet_dir",    "--output_dir", "--min_class", "--max_class",
                                       "--max_train_rows", "--vocab_file", "--vocab_size"};

std::vector<Definition> read_all(const std::filesystem::path& folder) {
  std::vector<Definition> definitions;
  for (const char* name : {"data.noun", "data.verb"}) {
    const std::string path = folder / name;
    std::ifstream file(path);
    if (!file) throw std::runtime_error(path + ": cannot be read; Debian's package wordnet-base contains it");
    for (Definition& definition : plimsoll::demo::read_definitions(file, path)) {
      definitions.push_back(std::move(definition));
    }
  }
  return definitions;
}

int run(int argc, char** argv) {
  const Options options(argc, argv, kNames);
  const std::filesystem::path folder = options.required("--output_dir");
  const std::vector<Definition> definitions = read_all(options.required("--wordnet_dir"));
  const Dataset dataset =
      plimsoll::demo::make_dataset(definitions, {.min_class = options.number("--min_class", 300),
                                                 .max_class = options.number("--max_class", 0),
                                                 .max_train_rows = options.number("--max_train_rows", 0)});
  std::filesystem::create_directories(folder);
  plimsoll::demo::write_rows(folder / "train.tsv", dataset.train);
  plimsoll::demo::write_rows(folder / "validation.tsv", dataset.validation);
  plimsoll::demo::write_rows(folder / "test.tsv", dataset.test);
  const std::string vocabulary = options.optional("--vocab_file", "");
  if (!vocabulary.empty()) {
    plimsoll::demo::write_text(
        vocabulary, plimsoll::demo::make_vocabulary(dataset.train, options.number("--vocab_size", 8000)));
  }
  std::printf("%zu definitions, %d classes (%d too small and left out): ", definitions.size(),
              dataset.num_classes, dataset.num_left_out);
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
