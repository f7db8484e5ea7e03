#include "io/data/table_reader.h"

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/disguised_file.h"

namespace plimsoll {
namespace {

std::string extension_of(const std::filesystem::path& path) {
  std::string extension = path.extension().string();
  for (char& letter : extension) {
    letter = letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  }
  return extension;
}

constexpr size_t kPieceBytes = size_t{1} << 18;

// Collects the decompressed text and refuses a text that exceeds the size limits.
class Output {
 public:
  Output(const std::string& name, size_t compressed_bytes, int64_t max_bytes)
      : name_(name),
        compressed_bytes_(static_cast<int64_t>(compressed_bytes)),
        limit_(std::max(kLeastLimit, kMostExpansion * static_cast<int64_t>(compressed_bytes))),
        max_bytes_(max_bytes) {}

  void append(const char* bytes, size_t count) {
    const int64_t size = static_cast<int64_t>(text_.size() + count);
    if (max_bytes_ > 0 && size > max_bytes_) {
      throw_error(
          ErrorCode::kWillNotFit,
          "{}: the file is decompressed into memory and has more than {} bytes, which is --memory_limit; "
          "raise the limit, or split the file",
          name_, max_bytes_);
    }
    if (size > limit_) {
      throw_error(ErrorCode::kBadData,
                  "{}: the file has {} bytes and decompresses to more than {}, which is too much for a text; "
                  "if the file is correct, decompress it first",
                  name_, compressed_bytes_, limit_);
    }
    text_.append(bytes, count);
  }

  int64_t size() const { return static_cast<int64_t>(text_.size()); }
  std::string take() { return std::move(text_); }

 private:
  const std::string& name_;
  const int64_t compressed_bytes_;
  const int64_t limit_;
  const int64_t max_bytes_;
  std::string text_;
};

[[noreturn]] void fail_cut(const std::string& name, int64_t bytes) {
  throw_error(
      ErrorCode::kBadData,
      "{}: the compressed data ends too early, after {} bytes of text: the file is cut; copy or download "
      "it again",
      name, bytes);
}

[[noreturn]] void fail_damaged(const std::string& name, int64_t bytes, const char* reason) {
  throw_error(ErrorCode::kBadData,
              "{}: the compressed data is damaged after {} bytes of text ({}); copy or download it again",
              name, bytes, reason);
}

[[noreturn]] void fail_kind(const std::string& name, std::string_view bytes, const char* kind,
                            const char* extension) {
  refuse_disguised_text(bytes.substr(0, kDisguiseBytes), name);
  throw_error(
      ErrorCode::kBadData,
      "{}: the name ends in {}, but the file is not compressed by {}; remove {} from its name if it is a "
      "text",
      name, extension, kind, extension);
}

void inflate_all(const std::string& name, std::string_view bytes, Output& output) {
  z_stream stream{};
  constexpr int kGzipOnly = 16 + MAX_WBITS;
  if (inflateInit2(&stream, kGzipOnly) != Z_OK) {
    throw_error(ErrorCode::kDevice,
                "{}: zlib has no memory to decompress the file; free memory, or decompress it first", name);
  }
  const std::unique_ptr<z_stream, int (*)(z_stream*)> owner(&stream, inflateEnd);
  std::string piece(kPieceBytes, '\0');
  bool at_end = false;
  while (!at_end || stream.avail_in > 0 || !bytes.empty()) {
    if (stream.avail_in == 0) {
      // Passes at most 1 GiB to zlib at a time, because zlib counts input with 32 bits.
      const size_t count = std::min<size_t>(bytes.size(), size_t{1} << 30);
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
      stream.avail_in = static_cast<uInt>(count);
      bytes.remove_prefix(count);
    }
    if (at_end) {
      // A gzip member may be followed by another one, or by padding with zeros.
      while (stream.avail_in > 0 && *stream.next_in == 0) {
        ++stream.next_in;
        --stream.avail_in;
      }
      if (stream.avail_in == 0) continue;
      if (*stream.next_in != 0x1F) {
        fail_damaged(name, output.size(), "other bytes follow its end");
      }
      inflateReset(&stream);
      at_end = false;
    }
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    const int status = inflate(&stream, Z_NO_FLUSH);
    output.append(piece.data(), piece.size() - stream.avail_out);
    at_end = status == Z_STREAM_END;
    if (at_end) continue;
    if (status == Z_BUF_ERROR ||
        (status == Z_OK && stream.avail_in == 0 && bytes.empty() && stream.avail_out > 0)) {
      fail_cut(name, output.size());
    }
    if (status != Z_OK) fail_damaged(name, output.size(), stream.msg == nullptr ? "unknown" : stream.msg);
  }
}

void expand_all_frames(const std::string& name, std::string_view bytes, Output& output) {
  const std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
  if (context == nullptr)
    throw_error(ErrorCode::kDevice,
                "{}: zstd has no memory to decompress the file; free memory, or decompress it first", name);
  std::string piece(kPieceBytes, '\0');
  ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
  size_t status = 1;
  bool is_piece_full = false;
  while (in.pos < in.size || is_piece_full) {
    ZSTD_outBuffer out{piece.data(), piece.size(), 0};
    status = ZSTD_decompressStream(context.get(), &out, &in);
    output.append(piece.data(), out.pos);
    if (ZSTD_getErrorCode(status) == ZSTD_error_frameParameter_windowTooLarge) {
      throw_error(
          ErrorCode::kBadData,
          "{}: decompressing the file needs more memory (a larger window) than is allowed; decompress it "
          "with `zstd -d --long=31`, or compress it again without --long and --ultra",
          name);
    }
    if (ZSTD_isError(status)) fail_damaged(name, output.size(), ZSTD_getErrorName(status));
    is_piece_full = out.pos == out.size && status != 0;
  }
  if (status != 0) fail_cut(name, output.size());
}

}  // namespace

Compression compression_of(const std::filesystem::path& path) {
  const std::string extension = extension_of(path);
  if (extension == ".gz") return Compression::kGzip;
  return extension == ".zst" || extension == ".zstd" ? Compression::kZstd : Compression::kNone;
}

std::filesystem::path without_compression(const std::filesystem::path& path) {
  return compression_of(path) == Compression::kNone ? path : std::filesystem::path(path).replace_extension();
}

std::string_view unpacking_command(Compression compression) {
  return compression == Compression::kGzip ? "gunzip -c" : "zstd -dc";
}

std::string decompress(const std::string& name, std::string_view bytes, Compression compression,
                       int64_t max_bytes) {
  if (compression == Compression::kNone || bytes.empty()) return std::string(bytes);
  Output output(name, bytes.size(), max_bytes);
  if (compression == Compression::kGzip) {
    if (!std::string_view("\x1F\x8B", 2).starts_with(bytes.substr(0, 2)))
      fail_kind(name, bytes, "gzip", ".gz");
    inflate_all(name, bytes, output);
  } else {
    // A Zstandard file may begin with a skippable frame, which has a different magic number.
    const bool is_skippable = bytes.size() >= 4 && bytes.substr(1, 3) == "\x2A\x4D\x18" &&
                              (static_cast<unsigned char>(bytes[0]) & 0xF0u) == 0x50u;
    if (!is_skippable && !std::string_view("\x28\xB5\x2F\xFD", 4).starts_with(bytes.substr(0, 4))) {
      fail_kind(name, bytes, "Zstandard", ".zst");
    }
    expand_all_frames(name, bytes, output);
  }
  std::string text = output.take();
  const std::string_view start = std::string_view(text).substr(0, kDisguiseBytes);
  // The reader of the text refuses other encodings, and tells how to convert a compressed file.
  if (const std::string what = describe_disguise(start); !what.empty() && encoding_of_mark(start).empty()) {
    throw_error(ErrorCode::kBadData, "{}: unpack the file with `{} {} > NEW` first: NEW is {}", name,
                unpacking_command(compression), name, what);
  }
  return text;
}

}  // namespace plimsoll
