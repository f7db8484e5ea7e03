#include "io/data/arrow_reader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <regex>
#include <set>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "base/guarded_json.h"
#include "base/hash.h"
#include "io/data/table_reader.h"

#if PLIMSOLL_HAS_ARROW
#include <arrow/api.h>
#include <arrow/io/api.h>
#include <arrow/ipc/api.h>
#include <parquet/arrow/reader.h>
#include <parquet/properties.h>
#endif

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

bool is_saved_dataset(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return false;
  return fs::exists(path / "dataset_info.json", ignored) || fs::exists(path / "dataset_dict.json", ignored);
}

// Returns the Parquet files in a folder, in the order of their names.
std::vector<fs::path> parquet_files_in(const fs::path& folder) {
  std::error_code ignored;
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.is_regular_file(ignored) && data_extension(entry.path()) == ".parquet")
      files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

// Returns the Parquet files in a folder or, if it has none, in its subfolder `data`.
std::vector<fs::path> parquet_files_of(const fs::path& folder) {
  std::vector<fs::path> files = parquet_files_in(folder);
  return files.empty() ? parquet_files_in(folder / "data") : files;
}

bool is_parquet_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored) && !is_saved_dataset(path) && !parquet_files_of(path).empty();
}

// Returns true for a pattern such as data/train-*.parquet, unless a file has exactly this name.
bool is_parquet_pattern(const fs::path& path) {
  std::error_code ignored;
  return path.filename().string().find('*') != std::string::npos && data_extension(path) == ".parquet" &&
         !fs::exists(path, ignored);
}

// Returns true if `name` matches `pattern`, in which each * matches any text.
bool matches(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  for (size_t at = star; at <= name.size(); ++at) {
    if (matches(pattern.substr(star + 1), name.substr(at))) return true;
  }
  return false;
}

// The position of a file in a split that consists of several files, as its name states it. For example, train-00000-of-00002.parquet is
// the first of two files of the split "train".
struct Shard {
  std::string split;  // name of the split; empty if the file name does not contain it
  int64_t index = 0;
  int64_t count = 0;  // number of files of the split; 0 if the file name does not state it
};
Shard shard_of(const fs::path& file) {
  static const std::regex kNumbered("(.+)-([0-9]+)-of-([0-9]+)");
  const std::string stem = file.stem().string();
  std::smatch parts;
  if (std::regex_match(stem, parts, kNumbered) && parts[2].length() <= 9 && parts[3].length() <= 9)
    return {parts[1], std::stol(parts[2]), std::stol(parts[3])};
  for (const char* split : {"train", "validation", "valid", "dev", "test"})
    if (stem == split) return {stem};
  return {};
}

// Throws an error if a numbered file of a split is missing. Requires: all files are of one split.
void require_every_shard(const std::vector<fs::path>& files) {
  const Shard first = shard_of(files.front());
  std::set<int64_t> found;
  for (const fs::path& file : files) {
    const Shard shard = shard_of(file);
    if (shard.count != first.count) {
      throw_error(
          ErrorCode::kBadData,
          "{} and {} belong to different data sets: they state {} and {} files; remove one of the data sets",
          files.front().string(), file.string(), first.count, shard.count);
    }
    found.insert(shard.index);
  }
  for (int64_t index = 0; index < first.count; ++index) {
    if (found.contains(index)) continue;
    const fs::path folder = files.front().parent_path();
    throw_error(
        ErrorCode::kBadData,
        "{}: the folder has {} of the {} files of the data set, without {}-{:05}-of-{:05}.parquet; copy the "
        "missing files, or give '{}' to read the others",
        folder.string(), found.size(), first.count, first.split, index, first.count,
        (folder / (first.split + "-*.parquet")).string());
  }
}

// Returns the files of a data set that consists of several Parquet files, as on Hugging Face's hub: those of a folder, which must be of
// one split, or those whose names match a pattern. Errors: kUsage for several splits; kBadData if a file is missing.
std::vector<std::string> parquet_shards(const fs::path& path) {
  const bool is_pattern = is_parquet_pattern(path);
  std::vector<fs::path> files =
      is_pattern ? parquet_files_in(path.parent_path() / ".") : parquet_files_of(path);
  if (is_pattern) {
    std::erase_if(files, [&](const fs::path& file) {
      return !matches(path.filename().string(), file.filename().string());
    });
    if (files.empty())
      throw_error(ErrorCode::kBadData, "{}: no file has such a name; check the folder and the name",
                  path.string());
  } else {
    std::set<std::string> splits;
    for (const fs::path& file : files) splits.insert(shard_of(file).split);
    if (splits.size() > 1) {
      throw_error(ErrorCode::kUsage,
                  "{}: the folder has Parquet files of several splits ({}); name those to read, such as '{}'",
                  path.string(), fmt::join(splits, ", "),
                  (files.front().parent_path() / (*splits.rbegin() + "-*.parquet")).string());
    }
    require_every_shard(files);
  }
  std::vector<std::string> names;
  names.reserve(files.size());
  for (const fs::path& file : files) names.push_back(file.lexically_normal().string());
  return names;
}

bool is_in_shards(const fs::path& path) {
  return is_parquet_folder(path) || is_parquet_pattern(path);
}

// Returns the hash of a file, or of all files of a folder. Files that cannot be opened are skipped, because reading them later reports
// the error.
uint64_t hash_of_files(const fs::path& path) {
  std::error_code ignored;
  std::vector<std::string> names;
  if (is_in_shards(path)) {
    names = parquet_shards(path);
  } else if (fs::is_directory(path, ignored)) {
    for (const fs::directory_entry& entry : fs::directory_iterator(path, ignored))
      if (entry.is_regular_file(ignored)) names.push_back(entry.path().string());
    std::ranges::sort(names);
  } else {
    names.push_back(path.string());
  }
  std::vector<uint64_t> hashes;
  for (const std::string& name : names) {
    try {
      hashes.push_back(hash_file(posix_file_system(), name).hash.low);
    } catch (const Error&) {
      hashes.push_back(0);
    }
  }
  return hash64(std::as_bytes(std::span(hashes)));
}

}  // namespace

bool is_arrow_data(const fs::path& path) {
  const std::string extension = data_extension(path);
  return extension == ".parquet" || extension == ".arrow" || extension == ".feather" ||
         is_saved_dataset(path) || is_parquet_folder(path);
}

Table read_arrow_table(const fs::path& path, const ArrowOptions& options) {
  std::optional<Table> all;
  ArrowOptions at_once = options;
  if (has_arrow() && options.max_rows < 0) at_once.content_hash = hash_of_files(path);
  at_once.part_bytes = std::numeric_limits<int64_t>::max();
  read_arrow(path, at_once, [&](Table table) { all = std::move(table); });
  return *std::move(all);
}

#if !PLIMSOLL_HAS_ARROW

bool has_arrow() {
  return false;
}

void read_arrow(const fs::path& path, const ArrowOptions&, const std::function<void(Table)>&) {
  const std::string name = path.string();
  std::error_code ignored;
  std::string python;
  if (is_saved_dataset(path)) {
    const bool has_splits = fs::exists(path / "dataset_dict.json", ignored);
    python = fmt::format("import datasets; datasets.load_from_disk('{}'){}.to_json('train.jsonl')", name,
                         has_splits ? "['train']" : "");
  } else if (is_parquet_pattern(path)) {
    python = fmt::format(
        "import datasets; datasets.load_dataset('parquet', data_files='{}', "
        "split='train').to_json('train.jsonl')",
        name);
  } else if (data_extension(path) == ".parquet" || is_parquet_folder(path)) {
    python = fmt::format(
        "import pandas; pandas.read_parquet('{}').to_json('train.jsonl', orient='records', lines=True)",
        name);
  } else {
    python = fmt::format("import datasets; datasets.Dataset.from_file('{}').to_json('train.jsonl')", name);
  }
  const char* const kind = is_saved_dataset(path) ? "Folders of Hugging Face's datasets (save_to_disk)"
                           : data_extension(path) == ".parquet" || is_parquet_folder(path) ? "Parquet files"
                                                                                           : "Arrow files";
  throw_error(ErrorCode::kUsage,
              "{}: {} are not read, because this Plimsoll was built without Apache Arrow; convert it to "
              "JSONL: python -c "
              "\"{}\", or build Plimsoll where the libraries Arrow and Parquet are installed",
              name, kind, python);
}

#else

bool has_arrow() {
  return true;
}

namespace {

void append_text(std::string_view text, std::string& out) {
  out += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Returns true for dates, times and decimals, which are written as plain text.
bool has_plain_text(arrow::Type::type type) {
  switch (type) {
    case arrow::Type::DATE32:
    case arrow::Type::DATE64:
    case arrow::Type::TIME32:
    case arrow::Type::TIME64:
    case arrow::Type::TIMESTAMP:
    case arrow::Type::DECIMAL128:
    case arrow::Type::DECIMAL256:
      return true;
    default:
      return false;
  }
}

// The content of a table cell, converted from an Arrow value. Lists and structs are converted to JSON text.
struct CellValue {
  CellKind kind = CellKind::kNull;
  std::string text;
};

CellValue value_of(const arrow::Array& array, int64_t i);

void append_json(const CellValue& value, std::string& out) {
  if (value.kind == CellKind::kText || value.kind == CellKind::kInvalid) {
    append_text(value.text, out);
  } else {
    out += value.kind == CellKind::kNull ? "null" : value.text;
  }
}

template <typename ListArray>
CellValue list_of(const ListArray& array, int64_t i) {
  CellValue value{CellKind::kList, "["};
  const std::shared_ptr<arrow::Array> items = array.value_slice(i);
  for (int64_t item = 0; item < items->length(); ++item) {
    if (item > 0) value.text += ',';
    append_json(value_of(*items, item), value.text);
  }
  value.text += ']';
  return value;
}

CellValue struct_of(const arrow::StructArray& array, int64_t i) {
  CellValue value{CellKind::kObject, "{"};
  for (int field = 0; field < array.num_fields(); ++field) {
    if (field > 0) value.text += ',';
    append_text(array.struct_type()->field(field)->name(), value.text);
    value.text += ':';
    append_json(value_of(*array.field(field), i), value.text);
  }
  value.text += '}';
  return value;
}

template <typename Array>
CellValue integer_of(const arrow::Array& array, int64_t i) {
  return {CellKind::kInteger, fmt::format("{}", static_cast<const Array&>(array).Value(i))};
}

CellValue float_of(double number) {
  if (!std::isfinite(number)) return {CellKind::kInvalid, fmt::format("{}", number)};
  return {CellKind::kFloat, fmt::format("{}", number)};
}

template <typename Array>
CellValue text_of(const arrow::Array& array, int64_t i) {
  return {CellKind::kText, std::string(static_cast<const Array&>(array).GetView(i))};
}

CellValue value_of(const arrow::Array& array, int64_t i) {
  if (array.IsNull(i)) return {};
  switch (array.type_id()) {
    case arrow::Type::STRING:
      return text_of<arrow::StringArray>(array, i);
    case arrow::Type::LARGE_STRING:
      return text_of<arrow::LargeStringArray>(array, i);
    case arrow::Type::STRING_VIEW:
      return text_of<arrow::StringViewArray>(array, i);
    case arrow::Type::BOOL:
      return {CellKind::kBool, static_cast<const arrow::BooleanArray&>(array).Value(i) ? "true" : "false"};
    case arrow::Type::INT8:
      return integer_of<arrow::Int8Array>(array, i);
    case arrow::Type::INT16:
      return integer_of<arrow::Int16Array>(array, i);
    case arrow::Type::INT32:
      return integer_of<arrow::Int32Array>(array, i);
    case arrow::Type::INT64:
      return integer_of<arrow::Int64Array>(array, i);
    case arrow::Type::UINT8:
      return integer_of<arrow::UInt8Array>(array, i);
    case arrow::Type::UINT16:
      return integer_of<arrow::UInt16Array>(array, i);
    case arrow::Type::UINT32:
      return integer_of<arrow::UInt32Array>(array, i);
    case arrow::Type::UINT64:
      return integer_of<arrow::UInt64Array>(array, i);
    case arrow::Type::FLOAT:
      return float_of(double{static_cast<const arrow::FloatArray&>(array).Value(i)});
    case arrow::Type::DOUBLE:
      return float_of(static_cast<const arrow::DoubleArray&>(array).Value(i));
    case arrow::Type::LIST:
      return list_of(static_cast<const arrow::ListArray&>(array), i);
    case arrow::Type::LARGE_LIST:
      return list_of(static_cast<const arrow::LargeListArray&>(array), i);
    case arrow::Type::FIXED_SIZE_LIST:
      return list_of(static_cast<const arrow::FixedSizeListArray&>(array), i);
    case arrow::Type::STRUCT:
      return struct_of(static_cast<const arrow::StructArray&>(array), i);
    case arrow::Type::DICTIONARY: {
      const auto& dictionary = static_cast<const arrow::DictionaryArray&>(array);
      return value_of(*dictionary.dictionary(), dictionary.GetValueIndex(i));
    }
    default:
      break;
  }
  if (has_plain_text(array.type_id())) {
    const arrow::Result<std::shared_ptr<arrow::Scalar> > scalar = array.GetScalar(i);
    if (scalar.ok()) return {CellKind::kText, (*scalar)->ToString()};
  }
  return {CellKind::kInvalid, fmt::format("a value of type {}", array.type()->ToString())};
}

[[noreturn]] void fail(const std::string& name, const std::string& reason) {
  throw_error(ErrorCode::kBadData,
              "{}: the file is damaged, cut short, or of another format: {}; copy or write it again", name,
              reason);
}

void require(const arrow::Status& status, const std::string& name) {
  if (!status.ok()) fail(name, status.message());
}

template <typename Value>
Value require(arrow::Result<Value> result, const std::string& name) {
  require(result.status(), name);
  return *std::move(result);
}

std::shared_ptr<arrow::io::ReadableFile> open(const std::string& name) {
  arrow::Result<std::shared_ptr<arrow::io::ReadableFile> > file = arrow::io::ReadableFile::Open(name);
  if (file.ok()) return *file;
  throw_error(ErrorCode::kBadData, "{}: cannot open the file: {}; check its name and permissions", name,
              file.status().message());
}

// Collects the rows of Arrow's record batches in a table. When the table has reached options.part_bytes, visit() is called with it and a
// new table is started.
class Parts {
 public:
  Parts(std::string name, const ArrowOptions& options, const std::function<void(Table)>& visit)
      : name_(std::move(name)), options_(options), visit_(visit) {}

  // Returns the columns to read from a file with this schema. Errors: kBadData if two columns have the same name, or if an earlier file
  // of the data set has other columns.
  std::vector<int> columns_of(const arrow::Schema& schema, const std::string& file) {
    std::vector<int> columns;
    std::vector<std::string> chosen;
    std::set<std::string> names;
    for (int i = 0; i < schema.num_fields(); ++i) {
      const std::string& column = schema.field(i)->name();
      if (!names.insert(column).second)
        throw_error(ErrorCode::kBadData, "{}: two columns are called '{}'; rename one", name_, column);
      if (options_.columns.empty() || std::ranges::find(options_.columns, column) != options_.columns.end())
        columns.push_back(i), chosen.push_back(column);
    }
    if (!chosen_) chosen_ = chosen;
    if (chosen != *chosen_) {
      throw_error(
          ErrorCode::kBadData,
          "{}: the file has the columns '{}', but the files before it have '{}'; give files of one data set",
          file, fmt::join(chosen, "', '"), fmt::join(*chosen_, "', '"));
    }
    return columns;
  }

  bool is_done() const { return options_.max_rows >= 0 && num_rows_ >= options_.max_rows; }

  // Appends the rows of a record batch. Requires: all batches have the same columns as the first batch. Errors: kBadData for offsets and
  // indices outside of their data, and for texts that are not UTF-8, which Arrow does not check when it reads.
  void add(const arrow::RecordBatch& batch) {
    require(batch.ValidateFull(), name_);
    if (!table_) {
      std::vector<std::string> names;
      for (const std::shared_ptr<arrow::Field>& field : batch.schema()->fields())
        names.push_back(field->name());
      table_.emplace(name_, options_.content_hash, std::move(names));
      table_->set_typed();
    }
    for (int64_t row = 0; row < batch.num_rows() && !is_done(); ++row) {
      table_->begin_row(++num_rows_);
      for (int column = 0; column < batch.num_columns(); ++column) {
        const CellValue value = value_of(*batch.column(column), row);
        table_->add_cell(value.text, value.kind);
      }
    }
    if (table_->held_bytes() >= options_.part_bytes) pass_on();
  }

  void finish() {
    if (num_rows_ == 0)
      throw_error(ErrorCode::kBadData, "{}: the file has no rows; check that it is complete", name_);
    if (table_ && table_->num_rows() > 0) pass_on();
  }

 private:
  void pass_on() {
    table_->set_text_bytes(table_->held_bytes());
    visit_(*std::exchange(table_, std::nullopt));
  }

  const std::string name_;
  const ArrowOptions& options_;
  const std::function<void(Table)>& visit_;
  std::optional<std::vector<std::string> >
      chosen_;  // names of the columns that were read from the first file
  std::optional<Table> table_;
  int64_t num_rows_ = 0;
};

constexpr int64_t kBatchRows = 1024;

// Returns the leaf columns of a Parquet file that store these columns. A list or a struct is stored in several leaf columns.
std::vector<int> leaves_of(const parquet::FileMetaData& metadata, const arrow::Schema& schema,
                           const std::vector<int>& columns) {
  std::set<std::string> names;
  for (const int column : columns) names.insert(schema.field(column)->name());
  std::vector<int> leaves;
  for (int leaf = 0; leaf < metadata.num_columns(); ++leaf) {
    if (names.contains(metadata.schema()->GetColumnRoot(leaf)->name())) leaves.push_back(leaf);
  }
  return leaves;
}

void read_parquet(const std::string& name, Parts& parts) {
  parquet::ReaderProperties properties = parquet::default_reader_properties();
  properties.enable_buffered_stream();
  parquet::ArrowReaderProperties arrow_properties;
  arrow_properties.set_batch_size(kBatchRows);
  arrow_properties.set_pre_buffer(false);
  parquet::arrow::FileReaderBuilder builder;
  require(builder.Open(open(name), properties), name);
  builder.properties(arrow_properties);
  std::unique_ptr<parquet::arrow::FileReader> reader;
  require(builder.Build(&reader), name);
  std::shared_ptr<arrow::Schema> schema;
  require(reader->GetSchema(&schema), name);
  const std::vector<int> leaves =
      leaves_of(*reader->parquet_reader()->metadata(), *schema, parts.columns_of(*schema, name));
  for (int group = 0; group < reader->num_row_groups() && !parts.is_done(); ++group) {
    const auto batches = require(reader->GetRecordBatchReader({group}, leaves), name);
    std::shared_ptr<arrow::RecordBatch> batch;
    while (!parts.is_done()) {
      require(batches->ReadNext(&batch), name);
      if (batch == nullptr) break;
      parts.add(*batch);
    }
  }
}

// Adds a record batch of an Arrow file in slices of a few rows, so that the collected table does not become much larger than
// ArrowOptions::part_bytes.
void add_slices(const arrow::RecordBatch& batch, const std::vector<int>& columns, const std::string& name,
                Parts& parts) {
  const std::shared_ptr<arrow::RecordBatch> chosen = require(batch.SelectColumns(columns), name);
  require(chosen->Validate(), name);
  for (int64_t row = 0; row < chosen->num_rows() && !parts.is_done(); row += kBatchRows)
    parts.add(*chosen->Slice(row, kBatchRows));
}

// Reads an Arrow file or an Arrow stream, the two formats that Hugging Face's library `datasets` writes.
void read_ipc(const std::string& name, Parts& parts) {
  const std::shared_ptr<arrow::io::ReadableFile> file = open(name);
  if (const auto reader = arrow::ipc::RecordBatchFileReader::Open(file.get()); reader.ok()) {
    const std::vector<int> columns = parts.columns_of(*(*reader)->schema(), name);
    for (int i = 0; i < (*reader)->num_record_batches() && !parts.is_done(); ++i)
      add_slices(*require((*reader)->ReadRecordBatch(i), name), columns, name, parts);
    return;
  }
  require(file->Seek(0), name);
  const auto reader = require(arrow::ipc::RecordBatchStreamReader::Open(file), name);
  const std::vector<int> columns = parts.columns_of(*reader->schema(), name);
  std::shared_ptr<arrow::RecordBatch> batch;
  while (!parts.is_done()) {
    require(reader->ReadNext(&batch), name);
    if (batch == nullptr) break;
    add_slices(*batch, columns, name, parts);
  }
}

// Returns the files of a folder that save_to_disk() wrote, in order.
std::vector<std::string> files_of_dataset(const fs::path& folder) {
  std::error_code ignored;
  if (fs::exists(folder / "dataset_dict.json", ignored)) {
    std::string splits;
    const nlohmann::json dictionary = read_json_object((folder / "dataset_dict.json").string());
    for (const nlohmann::json& split : dictionary.value("splits", nlohmann::json::array()))
      splits +=
          fmt::format("{}{}", splits.empty() ? "" : ", ", split.is_string() ? split.get<std::string>() : "?");
    throw_error(ErrorCode::kUsage,
                "{}: the folder has the splits {}; give the folder of one of them, such as {}",
                folder.string(), splits, (folder / "train").string());
  }
  const std::string path = (folder / "state.json").string();
  const nlohmann::json state = read_json_object(path);
  std::vector<std::string> files;
  for (const nlohmann::json& file : state.value("_data_files", nlohmann::json::array())) {
    if (!file.is_object() || !file.value("filename", nlohmann::json()).is_string())
      throw_error(ErrorCode::kBadData,
                  "{}: _data_files should list objects with a \"filename\"; save the data set again", path);
    files.push_back((folder / file.at("filename").get<std::string>()).string());
  }
  if (const auto indices = state.find("_indices_files"); indices != state.end() && !indices->empty())
    throw_error(ErrorCode::kUsage,
                "{}: the data set selects rows by an index, which is not read; save flatten_indices() of it",
                path);
  return files;
}

}  // namespace

void read_arrow(const fs::path& path, const ArrowOptions& options, const std::function<void(Table)>& visit) {
  Parts parts(path.string(), options, visit);
  try {
    if (is_saved_dataset(path)) {
      for (const std::string& file : files_of_dataset(path)) read_ipc(file, parts);
    } else if (is_in_shards(path)) {
      for (const std::string& file : parquet_shards(path)) {
        if (!parts.is_done()) read_parquet(file, parts);
      }
    } else if (data_extension(path) == ".parquet") {
      read_parquet(path.string(), parts);
    } else {
      read_ipc(path.string(), parts);
    }
  } catch (const parquet::ParquetException& error) {
    fail(path.string(), error.what());
  }
  parts.finish();
}

#endif

}  // namespace plimsoll
