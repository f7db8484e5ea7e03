// Passes bytes to the JSON, JSONL and CoNLL readers and reads the resulting table and its labels. The only permitted
// errors are plimsoll::Error for invalid data. The first byte selects the reader and the problem type.
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "base/testing/fuzz_answer.h"
#include "io/data/data_columns.h"
#include "io/data/labels.h"
#include "io/data/table_reader.h"
#include "io/data/text_split.h"
#include "io/data/word_labels.h"

namespace plimsoll {
namespace {

Table read(uint8_t choice, const TextFile& file) {
  switch (choice & 3) {
    case 0:
      return read_json(file);
    case 1:
      return read_jsonl(file);
    case 2:
      return read_conll(file,
                        (choice & 4) != 0 ? ConllFormat::kUniversalDependencies : ConllFormat::kColumns);
    default:
      return looks_like_jsonl(file) ? read_jsonl(file) : read_json(file);
  }
}

void read_all(uint8_t choice, std::string bytes) {
  const TextFile file = text_file_from_memory("fuzz", std::move(bytes));
  Table table = read(choice, file);
  for (int64_t row = 0; row < table.num_rows(); ++row) {
    for (int64_t column = 0; column < table.num_columns(); ++column) {
      if (table.kind(row, column) == CellKind::kList) {
        find_json_list(table.cell(row, column)).value();
      }
    }
  }
  const ColumnChoice columns = choose_columns(table);
  const TextSplit split(std::move(table), columns);
  if (split.has_ids()) {
    PLIMSOLL_CHECK(split.tokens(16).longest() <= 16);
    split.largest_type();
  }
  if (split.has_words()) {
    const LabelScheme tags = infer_word_labels(split);
    PLIMSOLL_CHECK(!encode_word_labels(split, tags).classes.empty());
    return;
  }
  LabelOptions options;
  if ((choice & 4) != 0) {
    options.kind = (choice & 8) != 0 ? LabelKind::kClasses : LabelKind::kNumbers;
  }
  const LabelScheme scheme = infer_labels(split, options);
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
