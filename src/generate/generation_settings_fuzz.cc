// Fuzzes the reader of generation_config.json. A fault is found if the reader returns settings outside
// their ranges, if it permits more new tokens than the model has positions, or if it throws an error other
// than kBadData or kUsage. The first byte of the input is the length of the prompt; the rest is the file.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/guarded_json.h"
#include "base/testing/fuzz_answer.h"
#include "generate/generation_settings.h"

namespace plimsoll {
namespace {

constexpr int64_t kPositions = 128;

void check_file(uint8_t prompt_length, std::string_view text) {
  GenerationSettings settings;
  read_generation_config(parse_json(text, "fuzz"), "fuzz", &settings);
  // The reader has already checked every range, so this second check must not find an error.
  try {
    check_generation_settings(settings);
  } catch (const Error& error) {
    PLIMSOLL_CHECK(false, "settings that were accepted before must not be refused: {}", error.what());
  }
  const int64_t length = 1 + prompt_length;
  const int64_t most = max_new_tokens(settings, length, kPositions);
  PLIMSOLL_CHECK(most >= 1 && length + most <= kPositions,
                 "at least one new token must fit into the model's positions, but {} new tokens are allowed "
                 "after a prompt of {}",
                 most, length);
  PLIMSOLL_CHECK(min_new_tokens(settings, length) >= 0);
  check_generation_vocabulary(settings, 300);
  for (const int32_t id : settings.eos_token_ids) PLIMSOLL_CHECK(is_end_token(settings, id) && id < 300);
  PLIMSOLL_CHECK(settings.beams.num_beams == 1 || settings.beams.num_beams <= max_num_beams(settings, 300));
}

}  // namespace
}  // namespace plimsoll

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  plimsoll::expect_value_or({plimsoll::ErrorCode::kBadData, plimsoll::ErrorCode::kUsage}, [&] {
    plimsoll::check_file(data[0], {reinterpret_cast<const char*>(data) + 1, size - 1});
  });
  return 0;
}
