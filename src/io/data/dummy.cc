#include "io/data/dataset.h"

#include <utility>
#include <vector>

#include "base/check.h"
#include "base/philox.h"

namespace plimsoll {
namespace {

// Every user of the random number generator has a number ("site") that keeps its random numbers independent of those of the others. The
// sites of the ops of a graph are numbered from zero and never reach these values.
constexpr uint32_t kIdSite = 0xDA7A0100u;
constexpr uint32_t kLabelSite = 0xDA7A0101u;

// Returns an integer in [0, range) from 32 random bits. The bias is below range / 2^32.
uint32_t scaled(uint32_t bits, uint32_t range) {
  return static_cast<uint32_t>((static_cast<uint64_t>(bits) * range) >> 32);
}

bool is_narrow(const DummyOptions& options) {
  return options.end_id <= 65536;
}

}  // namespace

Dataset make_dummy_dataset(const DummyOptions& options) {
  if (options.num_rows < 1 || options.length < 1 || options.num_labels < 0) {
    throw_error(ErrorCode::kUsage,
                "--dataset_name dummy needs at least 1 row of 1 token and no negative number of labels, but "
                "got {} rows of {} tokens and {} labels",
                options.num_rows, options.length, options.num_labels);
  }
  if (options.first_id < 0 || options.end_id <= options.first_id) {
    throw_error(ErrorCode::kUsage,
                "--dataset_name dummy: its ids begin at {}, but the model's vocab_size is {}; use a larger "
                "vocabulary, or data from a file",
                options.first_id, options.end_id);
  }
  const auto range = static_cast<uint32_t>(options.end_id - options.first_id);
  const int64_t total = options.num_rows * options.length;
  std::vector<uint16_t> narrow_ids;
  std::vector<int32_t> wide_ids;
  if (is_narrow(options)) {
    narrow_ids.reserve(static_cast<size_t>(total));
  } else {
    wide_ids.reserve(static_cast<size_t>(total));
  }
  const RandomSite where{options.seed, 0, kIdSite};
  for (int64_t block = 0; block * 4 < total; ++block) {
    const std::array<uint32_t, 4> bits = philox_block(where, static_cast<uint64_t>(block));
    for (int64_t lane = 0; lane < 4 && block * 4 + lane < total; ++lane) {
      const uint32_t id =
          static_cast<uint32_t>(options.first_id) + scaled(bits[static_cast<size_t>(lane)], range);
      if (is_narrow(options)) {
        narrow_ids.push_back(static_cast<uint16_t>(id));
      } else {
        wide_ids.push_back(static_cast<int32_t>(id));
      }
    }
  }
  std::vector<int64_t> offsets(static_cast<size_t>(options.num_rows) + 1);
  for (int64_t row = 0; row <= options.num_rows; ++row) {
    offsets[static_cast<size_t>(row)] = row * options.length;
  }
  Dataset data;
  data.tokens = TokenSet::from_parts(std::move(narrow_ids), std::move(wide_ids), {}, std::move(offsets), {});
  data.labels.masking = options.masking;
  data.labels.is_next_token = options.num_labels == 0 && !options.masking;
  if (options.num_labels == 0) return data;
  const RandomSite label_site{options.seed, 0, kLabelSite};
  data.labels.classes.reserve(static_cast<size_t>(options.num_rows));
  for (int64_t row = 0; row < options.num_rows; ++row) {
    const uint32_t bits = philox_element(label_site, static_cast<uint64_t>(row));
    data.labels.classes.push_back(
        static_cast<int32_t>(scaled(bits, static_cast<uint32_t>(options.num_labels))));
  }
  return data;
}

int64_t dummy_dataset_bytes(const DummyOptions& options) {
  const int64_t id_bytes = is_narrow(options) ? sizeof(uint16_t) : sizeof(int32_t);
  const int64_t label_bytes = options.num_labels == 0 ? 0 : sizeof(int32_t);
  constexpr int64_t kOffsetBytes = sizeof(int64_t);
  return options.num_rows * (options.length * id_bytes + kOffsetBytes + label_bytes) + kOffsetBytes;
}

}  // namespace plimsoll
