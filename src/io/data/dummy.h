// The data set of Hugging Face's performance guides: sequences of random ids with two labels. Thread-safe: a
// pure function.
#pragma once

#include <cstdint>

#include "io/data/dataset.h"

namespace plimsoll {

struct DummyOptions {
  int64_t num_rows = 512;
  int64_t length = 512;
  int32_t first_id = 100;  // ids are in [first_id, end_id)
  int32_t end_id = 30000;
  int32_t num_labels = 2;
  uint64_t seed = 42;
};

// Creates sequences of equal length without special tokens; labels are evenly distributed. Errors: kUsage for
// a count below one or an empty range of ids.
Dataset make_dummy_dataset(const DummyOptions& options = {});
// Returns held_bytes() of such a data set without creating it.
int64_t dummy_dataset_bytes(const DummyOptions& options);

}  // namespace plimsoll
