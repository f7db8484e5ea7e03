// Reads the recorded results of Hugging Face's tokenizers (fixtures/make_fixtures.py) and creates small tokenizers from them. For
// tests only.
#pragma once

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/check.h"
#include "io/text/tokenizer.h"
#include "io/text/tokenizer_spec.h"

namespace plimsoll::text {

inline std::string fixture_path(const std::string& name) {
  return std::string(PLIMSOLL_SOURCE_DIR) + "/src/io/text/fixtures/" + name;
}

inline std::string read_fixture(const std::string& name) {
  std::ifstream file(fixture_path(name), std::ios::binary);
  PLIMSOLL_CHECK(file.good(), "no fixture '{}'", name);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline nlohmann::json read_json_fixture(const std::string& name) {
  return nlohmann::json::parse(read_fixture(name));
}

// Returns one of the normalizer settings with which the fixtures were made.
inline NormalizerSpec normalizer_setting(const std::string& name) {
  const nlohmann::json value = read_json_fixture("made_with.json").at("settings").at(name);
  NormalizerSpec spec;
  spec.clean_text = value.at("clean_text");
  spec.handle_chinese_chars = value.at("handle_chinese_chars");
  if (!value.at("strip_accents").is_null()) spec.strip_accents = value.at("strip_accents").get<bool>();
  spec.lowercase = value.at("lowercase");
  return spec;
}

// Creates a tokenizer from the fixture folder bert/, with these settings of its normalizer.
inline Tokenizer make_tokenizer(const std::string& setting) {
  TokenizerSpec spec = parse_tokenizer_json(read_fixture("bert/tokenizer.json"), "tokenizer.json");
  spec.normalizer = normalizer_setting(setting);
  return Tokenizer(std::move(spec));
}

inline std::vector<int32_t> flat(const std::vector<TextSpan>& offsets) {
  std::vector<int32_t> result;
  for (const TextSpan& span : offsets) {
    result.push_back(span.begin);
    result.push_back(span.end);
  }
  return result;
}

// Runs a function that must throw an Error with this code, and returns the message of the error. If the function throws nothing,
// returns an empty string, so that the caller's check of the message fails.
template <typename Run>
std::string error_message(Run&& run, ErrorCode code) {
  try {
    run();
  } catch (const Error& error) {
    return error.code() == code ? error.what() : "another code: " + std::string(error.what());
  }
  return {};
}

}  // namespace plimsoll::text
