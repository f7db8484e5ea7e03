// Fuzzes the readers of untrusted JSON: the index of shards, the manifest, and configurations that are
// written again. A finding is anything other than a value or an Error with code kBadData, a shard outside the
// folder, and a configuration that changes when it is written and read again.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/guarded_json.h"
#include "base/json.h"
#include "base/testing/fuzz_answer.h"
#include "io/ckpt/manifest.h"
#include "io/ckpt/model_folder.h"

namespace plimsoll {
namespace {

void check_index(std::string_view text) {
  for (const auto& [tensor, shard] : parse_weight_index(text, "fuzz")) {
    PLIMSOLL_CHECK(!shard.empty() && shard.front() != '/' && shard != ".." && !shard.starts_with("../") &&
                   shard.find("/../") == std::string::npos && !shard.ends_with("/.."));
  }
}

void check_manifest(std::string_view text) {
  const internal::Manifest manifest = internal::parse_manifest(text, "fuzz");
  for (const WrittenFile& file : manifest.files) PLIMSOLL_CHECK(file.name.find('/') == std::string::npos);
  const internal::Manifest again = internal::parse_manifest(internal::format_manifest(manifest), "fuzz");
  PLIMSOLL_CHECK(again.step == manifest.step && again.files.size() == manifest.files.size());
}

void check_rewriting(std::string_view text) {
  const nlohmann::json value = parse_json(text, "fuzz", strict_json());
  const std::string written = python_json(value, 2);
  const nlohmann::json again = parse_json(written, "fuzz", strict_json());
  PLIMSOLL_CHECK(again == value && python_json(again, 2) == written);
}

}  // namespace
}  // namespace plimsoll

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  plimsoll::expect_value_or({plimsoll::ErrorCode::kBadData}, [&] { plimsoll::check_index(text); });
  plimsoll::expect_value_or({plimsoll::ErrorCode::kBadData}, [&] { plimsoll::check_manifest(text); });
  plimsoll::expect_value_or({plimsoll::ErrorCode::kBadData}, [&] { plimsoll::check_rewriting(text); });
  return 0;
}
