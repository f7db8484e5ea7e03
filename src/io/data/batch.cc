#include "io/data/batch.h"

#include <algorithm>

#include "base/check.h"

namespace plimsoll {
namespace {

void write_labels(const Labels& labels, std::span<const int32_t> rows, const BatchBuffers& out) {
  if (!out.classes.empty()) {
    for (size_t i = 0; i < rows.size(); ++i) {
      out.classes[i] = labels.classes.empty() ? kNoLabel : labels.classes[static_cast<size_t>(rows[i])];
    }
    std::fill(out.classes.begin() + static_cast<std::ptrdiff_t>(rows.size()), out.classes.end(), kNoLabel);
  }
  if (!out.values.empty()) {
    const auto width = static_cast<size_t>(labels.width);
    const size_t used = labels.values.empty() ? 0 : rows.size() * width;
    PLIMSOLL_CHECK(used <= out.values.size(), "{} label values in a buffer of {}", used, out.values.size());
    for (size_t i = 0; i < used / width; ++i) {
      std::copy_n(labels.values.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(rows[i]) * width),
                  width, out.values.begin() + static_cast<std::ptrdiff_t>(i * width));
    }
    std::fill(out.values.begin() + static_cast<std::ptrdiff_t>(used), out.values.end(), 0.0f);
  }
}

}  // namespace

BatchInfo assemble_batch(const Dataset& data, std::span<const int32_t> rows, const BatchBuffers& out) {
  const TokenSet& tokens = data.tokens;
  BatchInfo info;
  info.num_sequences = static_cast<int64_t>(rows.size());
  for (const int32_t row : rows) {
    PLIMSOLL_CHECK(row >= 0 && row < tokens.num_rows(), "row {} of {}", row, tokens.num_rows());
    info.num_tokens += tokens.length(row);
    info.longest = std::max(info.longest, tokens.length(row));
  }
  const auto used = static_cast<size_t>(info.num_tokens);
  PLIMSOLL_CHECK(
      used <= out.ids.size() && out.types.size() == out.ids.size() && out.positions.size() == out.ids.size(),
      "a batch of {} tokens in buffers of {}, {}, {}", used, out.ids.size(), out.types.size(),
      out.positions.size());
  PLIMSOLL_CHECK(rows.size() < out.cu_seqlens.size() && rows.size() <= out.rows.size(),
                 "a batch of {} sequences in buffers of {} and {}", rows.size(), out.cu_seqlens.size(),
                 out.rows.size());
  PLIMSOLL_CHECK(out.classes.empty() || rows.size() <= out.classes.size());
  size_t at = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto length = static_cast<size_t>(tokens.length(rows[i]));
    out.cu_seqlens[i] = static_cast<int32_t>(at);
    out.rows[i] = rows[i];
    tokens.copy_ids(rows[i], out.ids.data() + at);
    tokens.copy_types(rows[i], out.types.data() + at);
    for (size_t j = 0; j < length; ++j) {
      out.positions[at + j] = static_cast<int32_t>(j) + out.position_offset;
    }
    at += length;
  }
  std::fill(out.cu_seqlens.begin() + static_cast<std::ptrdiff_t>(rows.size()), out.cu_seqlens.end(),
            static_cast<int32_t>(at));
  std::fill(out.rows.begin() + static_cast<std::ptrdiff_t>(rows.size()), out.rows.end(), -1);
  const auto tail = static_cast<std::ptrdiff_t>(at);
  std::fill(out.ids.begin() + tail, out.ids.end(), 0);
  std::fill(out.types.begin() + tail, out.types.end(), 0);
  std::fill(out.positions.begin() + tail, out.positions.end(), 0);
  write_labels(data.labels, rows, out);
  return info;
}

OwnedBatch::LabelKind OwnedBatch::label_kind(const Dataset& data) {
  if (data.labels.empty()) {
    return LabelKind::kNone;
  }
  return data.labels.is_float() ? LabelKind::kValues : LabelKind::kClasses;
}

OwnedBatch::OwnedBatch(const BatchCapacity& capacity, LabelKind labels, int32_t position_offset) {
  const auto tokens = static_cast<size_t>(capacity.tokens);
  const auto sequences = static_cast<size_t>(capacity.sequences);
  const size_t classes = labels == LabelKind::kClasses ? sequences : 0;
  ints_.resize(3 * tokens + 2 * sequences + 1 + classes);
  floats_.resize(labels == LabelKind::kValues ? sequences * static_cast<size_t>(capacity.label_values) : 0);
  std::span<int32_t> rest = ints_;
  const auto take = [&rest](size_t count) {
    const std::span<int32_t> taken = rest.first(count);
    rest = rest.subspan(count);
    return taken;
  };
  buffers_.ids = take(tokens);
  buffers_.types = take(tokens);
  buffers_.positions = take(tokens);
  buffers_.cu_seqlens = take(sequences + 1);
  buffers_.rows = take(sequences);
  buffers_.classes = take(classes);
  buffers_.values = floats_;
  buffers_.position_offset = position_offset;
}

}  // namespace plimsoll
