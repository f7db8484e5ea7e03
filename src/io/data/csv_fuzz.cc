// Passes bytes to the CSV and TSV readers with every combination of options and reads the resulting table.
// The only permitted errors are plimsoll::Error for invalid data. The first byte selects the options.
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "base/testing/fuzz_answer.h"
#include "io/data/data_columns.h"
#include "io/data/labels.h"
#include "io/data/table_reader.h"
#include "io/data/text_split.h"

namespace plimsoll {
namespace {

void read_all(uint8_t choice, std::string bytes) {
  CsvOptions options;
  options.delimiter = (choice & 1) != 0 ? '\t' : ',';
  options.quotes = (choice & 2) != 0 ? QuoteRule::kNone : QuoteRule::kRfc4180;
  options.ragged = (choice & 4) != 0 ? RaggedRule::kFill : RaggedRule::kError;
  if ((choice & 8) != 0) {
    options.header = HeaderRule::kGiven;
    options.given_columns = {"sentence", "label", "c"};
  }
  const size_t size = bytes.size();
  Table table = read_csv(text_file_from_memory("fuzz", std::move(bytes)), options);
  size_t cell_bytes = 0;
  for (int64_t row = 0; row < table.num_rows(); ++row) {
    for (int64_t column = 0; column < table.num_columns(); ++column) {
      cell_bytes += table.cell(row, column).size();
    }
  }
  PLIMSOLL_CHECK(cell_bytes <= size, "cells of {} bytes from {}", cell_bytes, size);
  const ColumnChoice columns = choose_columns(table);
  const TextSplit split = TextSplit::skipping_incomplete_rows(std::move(table), columns);
  LabelOptions label_options;
  if ((choice & 16) != 0) {
    label_options.kind = LabelKind::kClasses;
  }
  if ((choice & 32) != 0) {
    label_options.delimiter = "#";
    label_options.has_delimiter = true;
  }
  const LabelScheme scheme = infer_labels(split, label_options);
  label_warnings(split, scheme, false);
  PLIMSOLL_CHECK(!encode_labels(split, scheme).empty());
}

}  // namespace
}  // namespace plimsoll

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  plimsoll::expect_value_or({plimsoll::ErrorCode::kBadData}, [&] {
    plimsoll::read_all(data[0], std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  });
  return 0;
}
