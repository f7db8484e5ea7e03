#include "io/data/batch.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/problem_type.h"

namespace plimsoll {
namespace {

// The rows from which a batch is filled, and functions that write the tensors of the batch. In masked language modelling, `epoch`
// determines which tokens are masked.
struct BatchRows {
  const Dataset& data;
  std::span<const int32_t> rows;
  int64_t epoch = 0;

  // Writes the token ids that the model reads. In masked language modelling some of them are replaced by the mask token.
  void copy_inputs(int32_t sequence, int32_t* to) const {
    data.tokens.copy_ids(sequence, to);
    if (!data.labels.masking) return;
    mask_ids(*data.labels.masking, {epoch, sequence},
             {to, static_cast<size_t>(data.tokens.length(sequence))});
  }
};

// Fills `out`, which has one element per token of the batch, by calling copy(sequence, destination) for each sequence of the batch in
// order.
template <typename Copy>
void write_per_token(const BatchRows& from, std::span<int32_t> out, const Copy& copy) {
  const Dataset& data = from.data;
  int32_t* at = out.data();
  int64_t written = 0;
  data.each_sequence(from.rows, [&](int32_t sequence) { written += data.tokens.length(sequence); });
  PLIMSOLL_CHECK(written == std::ssize(out),
                 "the rows of the batch have {} tokens, but the tensor to fill has {} elements", written,
                 out.size());
  data.each_sequence(from.rows, [&](int32_t sequence) {
    copy(sequence, at);
    at += data.tokens.length(sequence);
  });
}

void write_ids(const BatchRows& from, TensorBatch& out) {
  write_per_token(from, out.ints("ids"),
                  [&](int32_t sequence, int32_t* to) { from.copy_inputs(sequence, to); });
}

void write_token_types(const BatchRows& from, TensorBatch& out) {
  write_per_token(from, out.ints("token_types"),
                  [&](int32_t sequence, int32_t* to) { from.data.tokens.copy_types(sequence, to); });
}

void write_positions(const BatchRows& from, TensorBatch& out) {
  const int32_t padding_id = out.spec("positions").position_padding_id;
  write_per_token(from, out.ints("positions"), [&](int32_t sequence, int32_t* to) {
    const auto length = static_cast<int32_t>(from.data.tokens.length(sequence));
    if (padding_id < 0) {
      std::iota(to, to + length, 0);
      return;
    }
    from.copy_inputs(sequence, to);
    int32_t next = padding_id + 1;
    for (int32_t i = 0; i < length; ++i) to[i] = to[i] == padding_id ? padding_id : next++;
  });
}

void write_starts(const BatchRows& from, TensorBatch& out) {
  const std::span<int32_t> starts = out.ints("cu_seqlens");
  int32_t at = 0;
  size_t count = 0;
  from.data.each_sequence(from.rows, [&](int32_t sequence) {
    starts[count++] = at;
    at += static_cast<int32_t>(from.data.tokens.length(sequence));
  });
  starts[count] = at;
}

// Writes the labels of a language model: the label of a token is the id of the next token of its sequence. The label is kNoLabel at the
// last token of a sequence, and if the next token is excluded from the loss.
void write_next_tokens(const BatchRows& from, std::span<int32_t> out) {
  write_per_token(from, out, [&](int32_t sequence, int32_t* to) {
    const int64_t length = from.data.tokens.length(sequence);
    if (length == 0) return;
    from.data.tokens.copy_ids(sequence, to);
    std::copy(to + 1, to + length, to);
    to[length - 1] = kNoLabel;
    std::fill_n(to, std::min(from.data.labels.first_target(sequence) - 1, length), kNoLabel);
    if (from.data.tokens.type_use() != TypeUse::kTrained) return;
    const auto begin = static_cast<size_t>(from.data.tokens.offsets()[static_cast<size_t>(sequence)]);
    const std::span<const uint8_t> types =
        from.data.tokens.types().subspan(begin, static_cast<size_t>(length));
    for (size_t i = 1; i < types.size(); ++i) {
      if (types[i] == 0) to[i - 1] = kNoLabel;
    }
  });
}

// Writes the labels of masked language modelling: the original id at every masked token, and kNoLabel at all other tokens.
void write_hidden_tokens(const BatchRows& from, std::span<int32_t> out) {
  write_per_token(from, out, [&](int32_t sequence, int32_t* to) {
    from.data.tokens.copy_ids(sequence, to);
    mask_labels(*from.data.labels.masking, {from.epoch, sequence},
                {to, static_cast<size_t>(from.data.tokens.length(sequence))});
  });
}

// Calls visit(index of a token in the batch, label) for every token with a label. In masked language modelling these are the masked
// tokens; otherwise they are the tokens whose label in the data is not kNoLabel.
template <typename Visit>
void each_label(const BatchRows& from, const Visit& visit) {
  const Dataset& data = from.data;
  const Labels& labels = data.labels;
  PLIMSOLL_CHECK(
      labels.masking || labels.is_per_token,
      "the batch needs one label per token, but its data set has neither masking nor labels per token");
  int64_t first = 0;
  data.each_sequence(from.rows, [&](int32_t sequence) {
    const int64_t length = data.tokens.length(sequence);
    if (labels.masking) {
      const auto id_at = [&](size_t i) { return data.tokens.id(sequence, static_cast<int64_t>(i)); };
      for_each_hidden(*labels.masking, {from.epoch, sequence}, static_cast<size_t>(length), id_at,
                      [&](size_t i) { visit(first + static_cast<int64_t>(i), id_at(i)); });
    } else {
      int64_t token = first;
      for (const int32_t label : data.of_row(labels.classes, sequence)) {
        if (label != kNoLabel) visit(token, label);
        ++token;
      }
    }
    first += length;
  });
}

// Fills the tensor `label_ends`: 0, followed by (index of the token + 1) for each token with a label.
void write_label_ends(const BatchRows& from, TensorBatch& out) {
  const std::span<int32_t> ends = out.ints("label_ends");
  size_t count = 0;
  ends[count++] = 0;
  each_label(from, [&](int64_t token, int32_t) { ends[count++] = static_cast<int32_t>(token + 1); });
  PLIMSOLL_CHECK(count == ends.size(), "label_ends needs {} elements, but the tensor has {}", count,
                 ends.size());
}

void write_labels_only(const BatchRows& from, std::span<int32_t> out) {
  size_t count = 0;
  each_label(from, [&](int64_t, int32_t label) { out[count++] = label; });
  PLIMSOLL_CHECK(count == out.size(),
                 "the batch has {} tokens with a label, but the tensor of labels has {} elements", count,
                 out.size());
}

void write_classes(const BatchRows& from, std::span<int32_t> out) {
  const Dataset& data = from.data;
  const std::span<const int32_t> rows = from.rows;
  const Labels& labels = data.labels;
  if (labels.is_next_token) return write_next_tokens(from, out);
  if (labels.masking) return write_hidden_tokens(from, out);
  if (labels.classes.empty()) {
    std::ranges::fill(out, kNoLabel);
    return;
  }
  if (labels.is_per_token) {
    write_per_token(from, out, [&](int32_t sequence, int32_t* to) {
      std::ranges::copy(data.of_row(labels.classes, sequence), to);
    });
    return;
  }
  PLIMSOLL_CHECK(rows.size() == out.size(),
                 "the batch has {} rows with one label each, but the tensor of labels has {} elements",
                 rows.size(), out.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    out[i] = labels.classes[static_cast<size_t>(rows[i])];
  }
}

void write_values(const Labels& labels, std::span<const int32_t> rows, std::span<float> out) {
  if (labels.values.empty()) {
    std::ranges::fill(out, 0.0f);
    return;
  }
  const auto width = static_cast<size_t>(labels.width);
  PLIMSOLL_CHECK(rows.size() * width == out.size(),
                 "each row has {} labels and the batch has {} rows, but the tensor of labels has {} elements",
                 width, rows.size(), out.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    std::copy_n(labels.values.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(rows[i]) * width),
                width, out.begin() + static_cast<std::ptrdiff_t>(i * width));
  }
}

void write_labels(const BatchRows& from, TensorBatch& out) {
  if (out.spec("labels").per_label > 0) {
    write_labels_only(from, out.ints("labels"));
  } else if (out.has_ints("labels")) {
    write_classes(from, out.ints("labels"));
  } else {
    write_values(from.data.labels, from.rows, out.floats("labels"));
  }
}

struct TensorWriter {
  std::string_view name;
  void (*write)(const BatchRows& from, TensorBatch& out);
};
constexpr TensorWriter kWriters[] = {
    {"ids", write_ids},           {"token_types", write_token_types}, {"positions", write_positions},
    {"cu_seqlens", write_starts}, {"label_ends", write_label_ends},   {"labels", write_labels}};

}  // namespace

MicroBatch make_micro_batch(const BatchLayout& layout) {
  MicroBatch batch{.tensors = TensorBatch(layout), .rows = {}, .info = {}};
  batch.rows.reserve(static_cast<size_t>(layout.capacity.sequences));
  return batch;
}

BatchSize size_of_batch(const Dataset& data, std::span<const int32_t> rows) {
  for (const int32_t row : rows)
    PLIMSOLL_CHECK(row >= 0 && row < data.num_rows(), "row {} is not in the data set, which has {} rows", row,
                   data.num_rows());
  BatchSize size;
  data.each_sequence(rows, [&](int32_t sequence) {
    const int64_t length = data.tokens.length(sequence);
    ++size.sequences;
    size.tokens += length;
    size.longest = std::max(size.longest, length);
  });
  return size;
}

void assemble_batch(const Dataset& data, std::span<const int32_t> rows, MicroBatch& batch) {
  const int64_t epoch = batch.info.position.epoch;
  batch.info.num_labels = data.num_labels(rows, epoch);
  BatchSize size = size_of_batch(data, rows);
  const bool selects_rows = std::ranges::any_of(
      batch.tensors.specs(), [](const BatchTensorSpec& spec) { return spec.per_label > 0; });
  if (selects_rows) size.labels = batch.info.num_labels;
  batch.tensors.resize(size);
  batch.rows.assign(rows.begin(), rows.end());
  const BatchRows from{.data = data, .rows = rows, .epoch = epoch};
  for (const BatchTensorSpec& spec : batch.tensors.specs()) {
    const auto* writer = std::ranges::find(kWriters, std::string_view(spec.name), &TensorWriter::name);
    PLIMSOLL_CHECK(
        writer != std::end(kWriters),
        "the program declares the input '{}', but no function fills a tensor of this name from a data set",
        spec.name);
    writer->write(from, batch.tensors);
  }
  data.tokens.release_pages();
}

}  // namespace plimsoll
