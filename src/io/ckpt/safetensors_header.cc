// Implements the table of element types and the parsing of the header.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/guarded_json.h"
#include "base/printable.h"
#include "io/ckpt/safetensors.h"

namespace plimsoll {
namespace {

struct TypeRow {
  std::string_view name;
  int bits;
};

constexpr TypeRow kTypes[kNumStoredTypes] = {
    {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
    {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
    {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64},
};

constexpr std::string_view kMetadataKey = "__metadata__";
constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();

// A tensor as the JSON of the header describes it. It is not known yet if type, shape and offsets are consistent.
struct RawTensor {
  StoredTensor tensor;
  bool has_type = false;
  bool has_shape = false;
  bool has_offsets = false;
};

// Receives the events of the JSON parser for a header. No tree of JSON values is built, because that of a header of 100 MB would need 1 GB
// of memory. Unknown members of a tensor are skipped, whatever they contain.
class HeaderEvents : public JsonEvents {
 public:
  bool null() override {
    if (depth() == 1 && key_ == kMetadataKey) return true;
    return skipping() || unexpected("null");
  }
  bool boolean(bool) override { return skipping() || unexpected("a boolean"); }
  bool number_integer(int64_t value) override {
    return skipping() || (in_list() ? refuse(here() + fmt::format("the negative number {}", value))
                                    : unexpected("a number"));
  }
  bool number_unsigned(uint64_t value) override {
    if (skipping()) return true;
    if (!in_list()) return unexpected("a number");
    if (value > static_cast<uint64_t>(kMaxInt64)) {
      return refuse(here() + fmt::format("the number {}, which exceeds the size of any file", value));
    }
    if (member_ == "data_offsets" && num_offsets_ == 2) return refuse(here() + "more than two numbers");
    if (member_ == "shape") {
      current_.tensor.shape.push_back(static_cast<int64_t>(value));
    } else {
      (num_offsets_++ == 0 ? current_.tensor.begin : current_.tensor.end) = static_cast<int64_t>(value);
    }
    return true;
  }
  bool number_float(double, const std::string& text) override {
    return skipping() ||
           (in_list() ? refuse(here() + "the number " + quoted_name(text) + ", which is not an integer")
                      : unexpected("a number"));
  }
  bool string(std::string& value) override {
    if (skipping()) return true;
    if (in_metadata()) {
      metadata[member_] = std::move(value);
      return true;
    }
    if (depth() != 2 || member_ != "dtype") return unexpected("a string");
    const auto type = parse_stored_type(value);
    if (!type)
      return refuse(here() + "the type " + quoted_name(value) + ", which the format does not define");
    current_.tensor.type = *type;
    current_.has_type = true;
    return true;
  }
  bool start_object() override {
    if (!skipping() && depth() >= 2) return unexpected("an object");
    if (depth() == 1) begin_tensor();
    return true;
  }
  bool start_array() override {
    if (!skipping()) {
      if (depth() != 2 || in_metadata() || (member_ != "shape" && member_ != "data_offsets")) {
        return unexpected("a list");
      }
      (member_ == "shape" ? current_.has_shape : current_.has_offsets) = true;
    }
    return true;
  }
  bool end_object() override {
    if (depth() == 1 && key_ != kMetadataKey) return end_tensor();
    return true;
  }
  bool end_array() override { return true; }
  bool key(std::string& name) override {
    if (depth() == 1) key_ = std::move(name);
    if (depth() == 2) member_ = std::move(name);
    return true;
  }

  std::vector<StoredTensor> tensors;
  std::map<std::string, std::string> metadata;

 private:
  bool in_metadata() const { return depth() == 2 && key_ == kMetadataKey; }
  bool in_list() const { return depth() == 3 && (member_ == "shape" || member_ == "data_offsets"); }
  // Returns true if the current position is inside a member that the format does not define.
  bool skipping() const {
    return depth() >= 2 && key_ != kMetadataKey && member_ != "dtype" && member_ != "shape" &&
           member_ != "data_offsets";
  }
  std::string here() const {
    return depth() >= 2 ? fmt::format("{} of tensor {} has ", member_, quoted_name(key_))
                        : fmt::format("tensor {} has ", quoted_name(key_));
  }
  bool unexpected(const char* what) {
    if (depth() == 0) return refuse(fmt::format("the header is {}, but an object {{...}} is expected", what));
    if (key_ == kMetadataKey) {
      return refuse(fmt::format("__metadata__ contains {}; it must map strings to strings", what));
    }
    if (depth() == 1)
      return refuse(fmt::format("tensor {} is {}, but an object is expected", quoted_name(key_), what));
    return refuse(here() + what + ", which the format does not allow there");
  }
  void begin_tensor() {
    current_ = {};
    num_offsets_ = 0;
    member_.clear();
  }
  bool end_tensor() {
    const char* missing = !current_.has_type      ? "dtype"
                          : !current_.has_shape   ? "shape"
                          : !current_.has_offsets ? "data_offsets"
                                                  : nullptr;
    if (missing != nullptr) return refuse(fmt::format("tensor {} has no {}", quoted_name(key_), missing));
    if (num_offsets_ != 2) {
      return refuse(fmt::format("data_offsets of tensor {} has {} numbers, but two are expected",
                                quoted_name(key_), num_offsets_));
    }
    current_.tensor.name = key_;
    tensors.push_back(std::move(current_.tensor));
    return true;
  }

  std::string key_;     // the current key of the outer object: the name of a tensor, or __metadata__
  std::string member_;  // the current key of the inner object, such as "shape"
  RawTensor current_;
  int num_offsets_ = 0;
};

std::optional<int64_t> checked_product(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// Checks that the shape, type and offsets of one tensor are consistent.
void check_extent(const StoredTensor& tensor, const std::string& file) {
  std::optional<int64_t> elements = 1;
  // If one dimension is 0, the tensor is empty, even if the product of the other dimensions overflows.
  if (std::ranges::find(tensor.shape, 0) != tensor.shape.end()) {
    elements = 0;
  } else {
    for (const int64_t size : tensor.shape) {
      if (elements) elements = checked_product(*elements, size);
    }
  }
  const auto bits = elements ? checked_product(*elements, stored_type_bits(tensor.type)) : std::nullopt;
  if (!bits) {
    throw_error(ErrorCode::kBadData,
                "{}: tensor {}: its shape {} overflows 64 bits. The file is damaged or was manipulated; "
                "download it again",
                file, quoted_name(tensor.name), format_shape(tensor.shape));
  }
  if (*bits % 8 != 0) {
    throw_error(ErrorCode::kBadData,
                "{}: tensor {}: shape {} of {} takes {} bits, which is not a whole number of bytes; save or "
                "download the file again",
                file, quoted_name(tensor.name), format_shape(tensor.shape), stored_type_name(tensor.type),
                *bits);
  }
  if (tensor.end < tensor.begin) {
    throw_error(ErrorCode::kBadData,
                "{}: tensor {}: its data ends at byte {}, before its start at byte {}. The header is wrong; "
                "save or download the file again",
                file, quoted_name(tensor.name), tensor.end, tensor.begin);
  }
  if (tensor.end - tensor.begin != *bits / 8) {
    throw_error(ErrorCode::kBadData,
                "{}: tensor {}: shape {} of {} takes {} bytes, but data_offsets [{}, {}] span {}. The header "
                "is wrong; "
                "save or download the file again",
                file, quoted_name(tensor.name), format_shape(tensor.shape), stored_type_name(tensor.type),
                *bits / 8, tensor.begin, tensor.end, tensor.end - tensor.begin);
  }
}

// Checks that the tensors, sorted by offset, are contiguous without gaps or overlaps.
void check_contiguous(const std::vector<StoredTensor>& tensors, const std::string& file) {
  int64_t expected = 0;
  const StoredTensor* previous = nullptr;
  for (const StoredTensor& tensor : tensors) {
    if (tensor.begin != expected) {
      const std::string before = previous == nullptr
                                     ? "the data begins"
                                     : fmt::format("tensor {} ends", quoted_name(previous->name));
      throw_error(
          ErrorCode::kBadData,
          "{}: tensor {} begins at data byte {}, but {} at byte {}: {}. Save or download the file again",
          file, quoted_name(tensor.name), tensor.begin, before, expected,
          tensor.begin < expected ? "they overlap" : "there is a gap between them");
    }
    expected = tensor.end;
    previous = &tensor;
  }
}

void check_file_size(const SafetensorsHeader& header, int64_t file_size_bytes, const std::string& file) {
  const int64_t data_bytes = header.tensors.empty() ? 0 : header.tensors.back().end;
  if (data_bytes > kMaxInt64 - header.data_offset) {
    throw_error(ErrorCode::kBadData,
                "{}: tensor {}: its data ends at byte {}, which is beyond the largest possible file; save or "
                "download the file again",
                file, quoted_name(header.tensors.back().name), data_bytes);
  }
  const int64_t expected = header.data_offset + data_bytes;
  if (expected > file_size_bytes) {
    // The message names the first tensor whose data ends after the end of the file.
    const auto cut = std::ranges::find_if(header.tensors, [&](const StoredTensor& tensor) {
      return header.data_offset + tensor.end > file_size_bytes;
    });
    throw_error(ErrorCode::kBadData,
                "{}: tensor {} takes bytes {} to {}, but the file has only {}: it is incomplete. Download or "
                "copy it again; expected size {}",
                file, quoted_name(cut->name), header.data_offset + cut->begin, header.data_offset + cut->end,
                file_size_bytes, expected);
  }
  if (expected < file_size_bytes) {
    throw_error(ErrorCode::kBadData,
                "{}: the file has {} bytes, but its tensors end at byte {}: {} more bytes follow. Data was "
                "appended to the file; `truncate -s {} {}` would restore it",
                file, file_size_bytes, expected, file_size_bytes - expected, expected, file);
  }
}

}  // namespace

int stored_type_bits(StoredType type) {
  return kTypes[static_cast<size_t>(type)].bits;
}
std::string_view stored_type_name(StoredType type) {
  return kTypes[static_cast<size_t>(type)].name;
}

std::optional<StoredType> parse_stored_type(std::string_view name) {
  for (size_t i = 0; i < std::size(kTypes); ++i) {
    if (kTypes[i].name == name) return static_cast<StoredType>(i);
  }
  return std::nullopt;
}

std::optional<DType> stored_type_dtype(StoredType type) {
  switch (type) {
    case StoredType::kF64:
      return DType::kF64;
    case StoredType::kF32:
      return DType::kF32;
    case StoredType::kBF16:
      return DType::kBF16;
    case StoredType::kF16:
      return DType::kF16;
    case StoredType::kI64:
      return DType::kI64;
    case StoredType::kI32:
      return DType::kI32;
    case StoredType::kU8:
    case StoredType::kBool:
      return DType::kU8;
    default:
      return std::nullopt;
  }
}

StoredType to_stored_type(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return StoredType::kF64;
    case DType::kF32:
      return StoredType::kF32;
    case DType::kBF16:
      return StoredType::kBF16;
    case DType::kF16:
      return StoredType::kF16;
    case DType::kI64:
      return StoredType::kI64;
    case DType::kI32:
      return StoredType::kI32;
    case DType::kU8:
      return StoredType::kU8;
    case DType::kE4M3:
      return StoredType::kF8E4M3;
    case DType::kE5M2:
      return StoredType::kF8E5M2;
  }
  PLIMSOLL_CHECK(false, "unknown dtype");
  return StoredType::kU8;
}

std::string format_shape(std::span<const int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

int64_t StoredTensor::num_elements() const {
  int64_t product = 1;
  if (std::ranges::find(shape, 0) != shape.end()) return 0;
  for (const int64_t size : shape) product *= size;
  return product;
}

SafetensorsHeader parse_safetensors_header(std::string_view json, int64_t file_size_bytes,
                                           const std::string& file) {
  const std::string where = file + ", header";
  HeaderEvents events;
  const JsonRules rules = strict_json(kMaxSafetensorsHeaderBytes);
  if (const auto fault = read_json(json, rules, events)) refuse_json(json, where, *fault, rules);
  SafetensorsHeader header;
  header.data_offset = 8 + std::ssize(json);
  header.tensors = std::move(events.tensors);
  header.metadata = std::move(events.metadata);
  for (const StoredTensor& tensor : header.tensors) check_extent(tensor, file);
  std::ranges::sort(header.tensors, {}, [](const StoredTensor& tensor) {
    return std::tuple(tensor.begin, tensor.end, std::string_view(tensor.name));
  });
  check_contiguous(header.tensors, file);
  check_file_size(header, file_size_bytes, file);
  return header;
}

}  // namespace plimsoll
