// Test cases of bad input: files whose content is not what their name says.
#include <filesystem>

#include "tests/bad_input/ground.h"

namespace plimsoll::testing {
namespace {

namespace fs = std::filesystem;
using std::string_literals::operator""s;

const std::string kPointer =
    "version https://git-lfs.github.com/spec/v1\noid "
    "sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
    "size 231508\n";
const std::string kGzip = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x4b\x04"s;
const std::string kZip = "PK\x03\x04\x14\x00\x00\x00\x08\x00"s;
const std::string kPage = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>\n";

// Makes a test case that predicts with a model after one of its files was replaced by this content.
Case model_file(std::string name, Words message, std::string file, std::string content) {
  message.insert(message.begin(), file);
  return {std::move(name), 4, std::move(message),
          [file = std::move(file), content = std::move(content)](const Ground& ground) {
            return ground.predict(ground.model_with(file, content));
          }};
}

// Makes a test case that trains with a data file of this content.
Case data_file(std::string name, Words message, std::string file, std::string content) {
  message.insert(message.begin(), file);
  return {std::move(name), 4, std::move(message),
          [file = std::move(file), content = std::move(content)](const Ground& ground) {
            return ground.train(ground.file(file, content));
          }};
}

// Makes a test case that trains a tokenizer on a file of this content.
Case tokenizer_text(std::string name, Words message, std::string content) {
  return {std::move(name), 4, std::move(message), [content = std::move(content)](const Ground& ground) {
            return Words{"tokenize",
                         "--train",
                         "bpe",
                         "--output_dir",
                         ground.path("trained_tokenizer"),
                         ground.file("text_" + std::to_string(content.size()) + ".txt", content)};
          }};
}

// Makes a test case that tokenizes a file of this content line by line.
Case line_text(std::string name, Words message, std::string content, Words more = {}) {
  return {
      std::move(name), 4, std::move(message),
      [content = std::move(content), more = std::move(more)](const Ground& ground) {
        Words command = {"tokenize", "--tokenizer_name", ground.model(), ground.file("lines.txt", content)};
        command.insert(command.end(), more.begin(), more.end());
        return command;
      }};
}

}  // namespace

std::vector<Case> disguise_cases() {
  return {
      model_file("PointerConfig", {"git lfs pull"}, "config.json", kPointer),
      model_file("PointerVocabulary", {"git lfs pull"}, "vocab.txt", kPointer),
      model_file("PointerTokenizer", {"git lfs pull"}, "tokenizer.json", kPointer),
      model_file("PointerTokenizerConfig", {"git lfs pull"}, "tokenizer_config.json", kPointer),
      model_file("PointerSpecialTokens", {"git lfs pull"}, "special_tokens_map.json", kPointer),
      model_file("PointerWeights", {"git lfs pull"}, "model.safetensors", kPointer),
      {"PointerIndex",
       4,
       {"model.safetensors.index.json", "git lfs pull"},
       [](const Ground& ground) {
         const std::string model = ground.model_without("model.safetensors");
         ground.file(fs::path(model).filename().string() + "/model.safetensors.index.json", kPointer);
         return ground.predict(model);
       }},
      {"PointerAdapterConfig",
       4,
       {"adapter_config.json", "git lfs pull"},
       [](const Ground& ground) {
         const std::string adapter = ground.adapter_copy();
         ground.file(fs::path(adapter).filename().string() + "/adapter_config.json", kPointer);
         return ground.predict(adapter);
       }},
      {"PointerAdapterWeights",
       4,
       {"adapter_model.safetensors", "git lfs pull"},
       [](const Ground& ground) {
         const std::string adapter = ground.adapter_copy();
         ground.file(fs::path(adapter).filename().string() + "/adapter_model.safetensors", kPointer);
         return ground.predict(adapter);
       }},
      {"PointerPickle",
       4,
       {"pytorch_model.bin", "git lfs pull"},
       [](const Ground& ground) {
         const std::string model = ground.model_without("model.safetensors");
         ground.file(fs::path(model).filename().string() + "/pytorch_model.bin", kPointer);
         return ground.predict(model);
       }},
      {"PointerAdapterPickle",
       4,
       {"adapter_model.bin", "git lfs pull"},
       [](const Ground& ground) {
         const std::string adapter = ground.adapter_copy();
         fs::remove(adapter + "/adapter_model.safetensors");
         ground.file(fs::path(adapter).filename().string() + "/adapter_model.bin", kPointer);
         return ground.predict(adapter);
       }},
      {"PointerInCheckpoint",
       4,
       {"is a Git LFS pointer", "git lfs pull"},
       [](const Ground& ground) {
         const std::string run = ground.run_copy();
         ground.file(fs::path(run).filename().string() + "/checkpoint-2/model.safetensors", kPointer);
         return ground.resume(run, {"--resume_from_checkpoint", run + "/checkpoint-2"});
       }},
      line_text("PointerLines", {"lines.txt", "git lfs pull"}, kPointer),
      line_text("GzipLines", {"lines.txt", "gunzip"}, kGzip),
      line_text("PointerIds", {"lines.txt", "git lfs pull"}, kPointer, {"--decode"}),
      tokenizer_text("PointerTokenizerText", {"git lfs pull"}, kPointer),
      tokenizer_text("GzipTokenizerText", {"gzip", "gunzip"}, kGzip),
      tokenizer_text("Utf16TokenizerText", {"UTF-16", "save it as UTF-8"}, "\xff\xfe\x61\0b\0\n\0"s),
      {"PointerPrices",
       4,
       {"prices.csv", "git lfs pull"},
       [](const Ground& ground) {
         return Words{"fit",
                      "--config_name",
                      "bert-base-uncased",
                      "--device",
                      "all",
                      "--prices",
                      ground.file("prices.csv", kPointer)};
       }},
      data_file("PointerCsv", {"git lfs pull"}, "pointer.csv", kPointer),
      data_file("PointerTsv", {"git lfs pull"}, "pointer.tsv", kPointer),
      data_file("PointerJsonl", {"git lfs pull"}, "pointer.jsonl", kPointer),
      data_file("PointerParquet", {"git lfs pull"}, "pointer.parquet", kPointer),
      data_file("PointerSpreadsheet", {"git lfs pull"}, "pointer.xlsx", kPointer),
      data_file("PointerJson", {"git lfs pull"}, "pointer.json", kPointer),
      {"PointerInspected",
       4,
       {"config.json", "git lfs pull"},
       [](const Ground& ground) {
         return Words{"inspect", ground.model_with("config.json", kPointer)};
       }},
      model_file("GzipConfig", {"gzip", "gunzip"}, "config.json", kGzip),
      model_file("GzipVocabulary", {"gzip", "gunzip"}, "vocab.txt", kGzip),
      model_file("GzipWeights", {"gzip", "gunzip"}, "model.safetensors", kGzip + std::string(40, 'x')),
      data_file("GzipAsCsv", {"gzip", "gunzip"}, "packed.csv", kGzip),
      data_file("GzipAsJsonl", {"gzip", "gunzip"}, "packed.jsonl", kGzip),
      data_file("ZipAsCsv", {"zip archive", "save the table as CSV"}, "excel.csv", kZip),
      data_file("ZstdAsTsv", {"zstd"}, "packed.tsv", "\x28\xb5\x2f\xfd\x04\x58\x09"s),
      data_file("ParquetAsCsv", {"Parquet", "JSON Lines"}, "columns.csv", "PAR1\x15\x04\x15\x06"s),
      data_file("PageAsCsv", {"web page", "resolve"}, "page.csv", kPage),
      model_file("PageAsConfig", {"web page", "resolve"}, "config.json", kPage),
      model_file("PageAsVocabulary", {"web page"}, "vocab.txt", kPage),
      model_file("WeightsAsConfig", {"safetensors"}, "config.json", "\x40\x01\0\0\0\0\0\0{\"a\": {}}"s),
      model_file("Utf16Vocabulary", {"UTF-16", "save it as UTF-8"}, "vocab.txt", "\xff\xfe[\0P\0A\0D\0]\0"s),
      model_file("PickleAsTokenizer", {"pickle"}, "tokenizer.json", "\x80\x04\x95\x10\0\0\0"s),
  };
}

}  // namespace plimsoll::testing
