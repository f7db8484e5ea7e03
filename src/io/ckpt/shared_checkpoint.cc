#include "io/ckpt/shared_checkpoint.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <utility>

#include "base/byte_shares.h"
#include "base/check.h"
#include "io/ckpt/checkpoint_folder.h"

namespace plimsoll {
namespace {

// Each time this number of bytes was written, the writer asks the operating system to start writing them to the disk. The number is small
// enough that the disk works while the next bytes are hashed, and large enough for long contiguous writes.
constexpr int64_t kBytesPerStartedSync = 8 * 1024 * 1024;

void read_bytes(const TensorSource& tensor, int64_t offset, std::span<std::byte> bytes) {
  if (tensor.own) return tensor.own->fill(offset, bytes);
  if (tensor.fill) return tensor.fill(offset, bytes);
  std::memcpy(bytes.data(), static_cast<const std::byte*>(tensor.data) + offset, bytes.size());
}

}  // namespace

// Writes this rank's parts of the tensor files, one file after the other. After a disk error, put() does nothing, and finish() throws the
// error.
class SharedCheckpoint::PartWriter {
 public:
  PartWriter(FileSystem& files, std::string folder, const std::vector<TensorFile>& tensor_files)
      : files_(files), folder_(std::move(folder)), tensor_files_(tensor_files) {}

  void put(size_t file, int64_t offset, std::span<const std::byte> bytes) {
    if (error_ || bytes.empty()) return;
    try {
      open(file);
      if (parts_.empty() || parts_.back().file != narrow<int64_t>(file) ||
          parts_.back().offset + parts_.back().bytes != offset) {
        end_part();
        parts_.push_back({.file = narrow<int64_t>(file), .offset = offset, .bytes = 0, .hash = {}});
        hash_ = HashStream128();
      }
      hash_.update(bytes);
      opened_.back()->write_at(bytes, offset);
      parts_.back().bytes += std::ssize(bytes);
      written_ += std::ssize(bytes);
      if (written_ >= kBytesPerStartedSync) start_sync();
    } catch (const Error&) {
      error_ = std::current_exception();
    }
  }

  // Syncs all files. This happens only after all files were written, so that the disk can write one file while the next one is filled.
  std::vector<WrittenPart> finish() {
    if (error_) std::rethrow_exception(error_);
    start_sync();
    for (const std::unique_ptr<File>& file : opened_) {
      file->sync();
      file->close();
    }
    end_part();
    return std::move(parts_);
  }

 private:
  void open(size_t file) {
    if (!opened_.empty() && number_ == file) return;
    start_sync();
    number_ = file;
    opened_.push_back(files_.open_write(join_path(folder_, tensor_files_[file].name)));
  }
  // Asks the operating system to start writing the most recent bytes to the disk. These bytes may be several ranges, but only the last
  // one is named in the call. This is sufficient, because the call is only a hint and finish() syncs everything.
  void start_sync() {
    if (std::exchange(written_, 0) == 0) return;
    const WrittenPart& part = parts_.back();
    const int64_t bytes = std::min(part.bytes, kBytesPerStartedSync);
    opened_.back()->start_sync(part.offset + part.bytes - bytes, bytes);
  }
  void end_part() {
    if (!parts_.empty()) parts_.back().hash = hash_.digest();
  }

  FileSystem& files_;
  std::string folder_;
  const std::vector<TensorFile>& tensor_files_;
  std::vector<std::unique_ptr<File>> opened_;
  size_t number_ = 0;    // index of the file that was opened last
  int64_t written_ = 0;  // bytes written since the last call of start_sync()
  std::vector<WrittenPart> parts_;
  HashStream128 hash_;  // hash of the bytes in the last element of parts_
  std::exception_ptr error_;
};

SharedCheckpoint::SharedCheckpoint(FileSystem& files, std::string output_folder, int64_t step,
                                   CheckpointContents contents, int rank, int num_ranks)
    : files_(files),
      output_folder_(std::move(output_folder)),
      step_(step),
      contents_(std::move(contents)),
      rank_(rank),
      num_ranks_(num_ranks) {
  std::vector<WeightFile> weights = weight_files_of(contents_.model);
  tensor_files_.reserve(weights.size() + 1);
  for (WeightFile& file : weights) add_file(std::move(file.name), std::move(file.tensors));
  if (internal::writes_optimizer(contents_))
    add_file(std::string(kOptimizerFile), contents_.optimizer_tensors);
  for (size_t i = 0; i < tensor_files_.size(); ++i) find_own_ranges(i);
}

void SharedCheckpoint::add_file(std::string name, std::vector<TensorSource> tensors) {
  TensorFile& file =
      tensor_files_.emplace_back(TensorFile{.name = std::move(name), .tensors = std::move(tensors)});
  file.layout = lay_out_safetensors(file.tensors);
}

void SharedCheckpoint::find_own_ranges(size_t file) {
  const SafetensorsLayout& layout = tensor_files_[file].layout;
  ByteShares shares{.bytes = 0, .ranks = num_ranks_};
  for (const SafetensorsLayout::Place& place : layout.places) {
    if (!place.tensor->own) shares.bytes += place.tensor->size_bytes();
  }
  // The bytes of tensors without TensorSource::own are divided into equal shares, one per rank. They are counted in the order of the
  // file, in which wide types come first. Each tensor therefore begins at a multiple of its element size in this count, and no share ends
  // inside of an element.
  int64_t shared = 0;
  for (const SafetensorsLayout::Place& place : layout.places) {
    OwnRange range{.file = file, .place = &place};
    const int64_t size = place.tensor->size_bytes();
    if (place.tensor->own) {
      range.begin = place.tensor->own->begin;
      range.end = place.tensor->own->end;
    } else {
      range.begin = std::clamp<int64_t>(shares.begin_of(rank_) - shared, 0, size);
      range.end = std::clamp<int64_t>(shares.end_of(rank_) - shared, 0, size);
      shared += size;
    }
    own_bytes_ += range.end - range.begin;
    if (range.begin < range.end || place.tensor->is_exchanged) ranges_.push_back(range);
  }
}

template <typename Put>
void SharedCheckpoint::for_each_own_piece(const std::atomic<bool>& cancelled, const Put& put) const {
  std::vector<std::byte> chunk;
  for (const OwnRange& range : ranges_) {
    const TensorSource& tensor = *range.place->tensor;
    const int64_t first = tensor.is_exchanged ? 0 : range.begin;
    const int64_t last = tensor.is_exchanged ? tensor.size_bytes() : range.end;
    for (int64_t at = first; at < last; at += kFileChunkBytes) {
      if (cancelled) return;
      const int64_t end = std::min(at + kFileChunkBytes, last);
      std::span<const std::byte> bytes;
      if (tensor.data != nullptr && !tensor.own) {
        bytes = {static_cast<const std::byte*>(tensor.data) + at, narrow<size_t>(end - at)};
      } else {
        chunk.resize(narrow<size_t>(end - at));
        read_bytes(tensor, at, chunk);
        bytes = chunk;
      }
      const int64_t own_begin = std::clamp(range.begin, at, end), own_end = std::clamp(range.end, at, end);
      if (own_begin == own_end) continue;
      put(range.file, range.place->offset + own_begin,
          bytes.subspan(narrow<size_t>(own_begin - at), narrow<size_t>(own_end - own_begin)));
    }
  }
}

void SharedCheckpoint::copy_to(std::span<std::byte> buffer) {
  PLIMSOLL_CHECK(std::ssize(buffer) >= own_bytes_,
                 "the buffer for the copy of a checkpoint has {} bytes, but this rank writes {}",
                 buffer.size(), own_bytes_);
  int64_t copied = 0;
  for_each_own_piece(false, [&](size_t /*file*/, int64_t /*offset*/, std::span<const std::byte> bytes) {
    std::memcpy(buffer.data() + copied, bytes.data(), bytes.size());
    copied += std::ssize(bytes);
  });
  copy_ = buffer.first(narrow<size_t>(copied));
  is_copied_ = true;
}

void SharedCheckpoint::create_files() {
  internal::begin_checkpoint(files_, output_folder_, step_);
  const std::string folder = internal::temporary_checkpoint_path(output_folder_, step_);
  manifest_ = {.step = step_, .run = contents_.run, .files = {}, .parts = {}};
  manifest_.files = write_model_texts(files_, folder, contents_.model);
  for (const TensorFile& file : tensor_files_)
    manifest_.files.push_back({.name = file.name, .size_bytes = file.layout.size_bytes, .hash = {}});
  internal::write_texts(files_, folder, contents_, manifest_);
  internal::write_run_state(files_, folder, contents_, manifest_);
  for (const TensorFile& file : tensor_files_) {
    const auto created = files_.create(join_path(folder, file.name));
    created->resize(file.layout.size_bytes);
    created->close();
  }
}

std::vector<WrittenPart> SharedCheckpoint::write_parts(const std::atomic<bool>& cancelled) {
  PartWriter writer(files_, internal::temporary_checkpoint_path(output_folder_, step_), tensor_files_);
  size_t num_headers = 0;
  // The first rank writes the header of a file before it writes its part of the tensors of this file.
  const auto put_headers = [&](size_t end) {
    for (; rank_ == 0 && num_headers < end; ++num_headers)
      writer.put(num_headers, 0, std::as_bytes(std::span(tensor_files_[num_headers].layout.header)));
  };
  const auto put = [&](size_t file, int64_t offset, std::span<const std::byte> bytes) {
    put_headers(file + 1);
    writer.put(file, offset, bytes);
  };
  if (!is_copied_) {
    for_each_own_piece(cancelled, put);
  } else {
    std::span<const std::byte> rest = copy_;
    for (const OwnRange& range : ranges_) {
      for (int64_t at = range.begin; at < range.end && !cancelled; at += kFileChunkBytes) {
        const auto count = narrow<size_t>(std::min(kFileChunkBytes, range.end - at));
        put(range.file, range.place->offset + at, rest.first(count));
        rest = rest.subspan(count);
      }
    }
  }
  put_headers(tensor_files_.size());
  return writer.finish();
}

std::string SharedCheckpoint::commit(std::span<const WrittenPart> parts_of_all_ranks) {
  std::vector<WrittenPart> parts(parts_of_all_ranks.begin(), parts_of_all_ranks.end());
  std::ranges::sort(parts, {}, [](const WrittenPart& part) { return std::pair(part.file, part.offset); });
  auto part = parts.begin();
  for (size_t i = 0; i < tensor_files_.size(); ++i) {
    std::vector<internal::HashedPart>& hashed = manifest_.parts[tensor_files_[i].name];
    int64_t end = 0;
    for (; part != parts.end() && part->file == narrow<int64_t>(i); ++part) {
      PLIMSOLL_CHECK(
          part->offset == end,
          "the byte range of {} that a rank wrote begins at byte {}, but the range before it ends at byte {}",
          tensor_files_[i].name, part->offset, end);
      hashed.push_back({part->bytes, part->hash});
      end += part->bytes;
    }
    PLIMSOLL_CHECK(end == tensor_files_[i].layout.size_bytes,
                   "the byte ranges of {} that the ranks wrote end at byte {}, but the file has {} bytes",
                   tensor_files_[i].name, end, tensor_files_[i].layout.size_bytes);
  }
  return internal::commit_checkpoint(files_, output_folder_, manifest_);
}

void SharedCheckpoint::discard() {
  internal::discard_checkpoint(files_, output_folder_, step_);
}

std::string SharedCheckpoint::not_saved_message(std::string_view cause) const {
  return internal::not_saved_message(output_folder_, step_, cause);
}

std::string SharedCheckpoint::path() const {
  return internal::checkpoint_path(output_folder_, step_);
}

}  // namespace plimsoll
