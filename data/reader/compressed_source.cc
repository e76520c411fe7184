#include "data/reader/compressed_source.h"

#include <lzma.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace oarlock::data {
namespace {

// Number of bytes read at a time.
constexpr size_t kInputBytes = 64 << 10;

absl::Status Damaged(const std::string& name, absl::string_view format,
                     absl::string_view what) {
  return absl::DataLossError(
      absl::StrCat("'", name, "': ", what, "; legal is a whole ", format,
                   " file; get it again, or check it with ", format, " -t"));
}

// Input and output of a call of Decoder::Decode.
struct Exchange {
  const char* in = nullptr;
  size_t in_size = 0;
  // No input follows `in`.
  bool in_ended = false;
  char* out = nullptr;
  size_t out_size = 0;
};

// A decompressor of one format.
class Decoder {
 public:
  virtual ~Decoder() = default;
  // Decodes from `in` to `out` and advances both. True at the end of all
  // streams.
  virtual absl::StatusOr<bool> Decode(Exchange* exchange) = 0;
};

class GzipDecoder : public Decoder {
 public:
  explicit GzipDecoder(std::string name) : name_(std::move(name)) {
    // 15: the largest window; 16 added: gzip's header and checksum.
    ready_ = inflateInit2(&stream_, 15 + 16) == Z_OK;
  }
  ~GzipDecoder() override {
    if (ready_) inflateEnd(&stream_);
  }

  absl::StatusOr<bool> Decode(Exchange* exchange) override {
    if (!ready_) {
      return absl::ResourceExhaustedError(
          absl::StrCat("'", name_, "': no memory to read gzip"));
    }
    if (between_streams_) {
      if (exchange->in_size == 0) return exchange->in_ended;
      // Zeros behind a stream fill up a block of a tape or a device.
      if (padded_ || exchange->in[0] == '\0') return SkipPadding(exchange);
      inflateReset(&stream_);
      between_streams_ = false;
    }
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(exchange->in));
    stream_.avail_in = static_cast<uInt>(exchange->in_size);
    stream_.next_out = reinterpret_cast<Bytef*>(exchange->out);
    const size_t out_size = std::min<size_t>(exchange->out_size, INT_MAX);
    stream_.avail_out = static_cast<uInt>(out_size);
    const int result = inflate(&stream_, Z_NO_FLUSH);
    exchange->in += exchange->in_size - stream_.avail_in;
    exchange->in_size = stream_.avail_in;
    exchange->out += out_size - stream_.avail_out;
    exchange->out_size -= out_size - stream_.avail_out;
    if (result == Z_STREAM_END) {
      between_streams_ = true;
      return exchange->in_size == 0 && exchange->in_ended;
    }
    if (result == Z_OK || result == Z_BUF_ERROR) return false;
    return Damaged(name_, "gzip",
                   stream_.msg != nullptr ? stream_.msg : "damaged");
  }

 private:
  absl::StatusOr<bool> SkipPadding(Exchange* exchange) {
    padded_ = true;
    for (; exchange->in_size > 0; ++exchange->in, --exchange->in_size) {
      if (*exchange->in != '\0') {
        return Damaged(name_, "gzip", "other bytes behind zeros");
      }
    }
    return exchange->in_ended;
  }

  const std::string name_;
  z_stream stream_ = {};
  bool ready_ = false;
  bool between_streams_ = false;
  // Only zeros may follow.
  bool padded_ = false;
};

class XzDecoder : public Decoder {
 public:
  explicit XzDecoder(std::string name) : name_(std::move(name)) {
    ready_ = lzma_stream_decoder(&stream_, kMaxXzMemoryBytes,
                                 LZMA_CONCATENATED) == LZMA_OK;
  }
  ~XzDecoder() override { lzma_end(&stream_); }

  absl::StatusOr<bool> Decode(Exchange* exchange) override {
    if (!ready_) {
      return absl::ResourceExhaustedError(
          absl::StrCat("'", name_, "': no memory to read xz"));
    }
    stream_.next_in = reinterpret_cast<const uint8_t*>(exchange->in);
    stream_.avail_in = exchange->in_size;
    stream_.next_out = reinterpret_cast<uint8_t*>(exchange->out);
    stream_.avail_out = exchange->out_size;
    const lzma_ret result =
        lzma_code(&stream_, exchange->in_ended ? LZMA_FINISH : LZMA_RUN);
    exchange->in += exchange->in_size - stream_.avail_in;
    exchange->in_size = stream_.avail_in;
    exchange->out += exchange->out_size - stream_.avail_out;
    exchange->out_size = stream_.avail_out;
    switch (result) {
      case LZMA_OK:
      case LZMA_BUF_ERROR:
        return false;
      case LZMA_STREAM_END:
        return true;
      case LZMA_FORMAT_ERROR:
        return Damaged(name_, "xz", "these bytes are not xz");
      case LZMA_MEMLIMIT_ERROR:
        return absl::ResourceExhaustedError(absl::StrCat(
            "'", name_, "': reading it wants ", lzma_memusage(&stream_) >> 20,
            " MiB; legal is up to ", kMaxXzMemoryBytes >> 20,
            " MiB; compress it with xz -6"));
      default:
        return Damaged(name_, "xz", "damaged");
    }
  }

 private:
  const std::string name_;
  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool ready_ = false;
};

class ZstdDecoder : public Decoder {
 public:
  explicit ZstdDecoder(std::string name)
      : name_(std::move(name)), stream_(ZSTD_createDStream()) {
    if (stream_ == nullptr) return;
    ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, kMaxZstdWindowLog);
  }
  ~ZstdDecoder() override { ZSTD_freeDStream(stream_); }

  absl::StatusOr<bool> Decode(Exchange* exchange) override {
    if (stream_ == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat("'", name_, "': no memory to read zstd"));
    }
    // Between frames, the end of the input is a regular end. An empty file has
    // no frame and is an error.
    if (between_frames_ && any_frame_ && exchange->in_size == 0) {
      return exchange->in_ended;
    }
    ZSTD_inBuffer in = {exchange->in, exchange->in_size, 0};
    ZSTD_outBuffer out = {exchange->out, exchange->out_size, 0};
    const size_t result = ZSTD_decompressStream(stream_, &out, &in);
    exchange->in += in.pos;
    exchange->in_size -= in.pos;
    exchange->out += out.pos;
    exchange->out_size -= out.pos;
    if (ZSTD_isError(result)) return Failure(result);
    between_frames_ = result == 0;
    any_frame_ = any_frame_ || between_frames_;
    return between_frames_ && exchange->in_size == 0 && exchange->in_ended;
  }

 private:
  absl::Status Failure(size_t result) const {
    if (ZSTD_getErrorCode(result) == ZSTD_error_frameParameter_windowTooLarge) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "'", name_, "': it looks back over more than ",
          kMaxZstdWindowBytes >> 20,
          " MiB, which is the limit; compress it without --long or --ultra"));
    }
    return Damaged(name_, "zstd", ZSTD_getErrorName(result));
  }

  const std::string name_;
  ZSTD_DStream* const stream_;
  bool between_frames_ = true;
  bool any_frame_ = false;
};

class CompressedSource : public ByteSource {
 public:
  CompressedSource(std::string name, std::string format,
                   std::unique_ptr<ByteSource> compressed,
                   std::unique_ptr<Decoder> decoder)
      : name_(std::move(name)),
        format_(std::move(format)),
        compressed_(std::move(compressed)),
        decoder_(std::move(decoder)),
        buffer_(kInputBytes) {}

  absl::StatusOr<size_t> Read(char* data, size_t size) override {
    OARLOCK_RETURN_IF_ERROR(failure_);
    absl::StatusOr<size_t> result = ReadSome(data, size);
    if (!result.ok()) failure_ = result.status();
    return result;
  }

  absl::Status Seek(uint64_t offset) override {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot seek in '", name_, "' to byte ", offset,
                     "; decompress the file to read parts of it"));
  }

 private:
  absl::StatusOr<size_t> ReadSome(char* data, size_t size) {
    exchange_.out = data;
    exchange_.out_size = size;
    while (!done_ && exchange_.out_size == size && size > 0) {
      if (exchange_.in_size == 0 && !exchange_.in_ended) {
        OARLOCK_ASSIGN_OR_RETURN(
            exchange_.in_size,
            compressed_->Read(buffer_.data(), buffer_.size()));
        exchange_.in = buffer_.data();
        exchange_.in_ended = exchange_.in_size == 0;
      }
      const size_t in_before = exchange_.in_size;
      OARLOCK_ASSIGN_OR_RETURN(done_, decoder_->Decode(&exchange_));
      const bool moved =
          exchange_.in_size != in_before || exchange_.out_size != size;
      if (!moved && !done_ && exchange_.in_ended) {
        return Damaged(name_, format_, "it ends too early");
      }
    }
    return size - exchange_.out_size;
  }

  const std::string name_;
  const std::string format_;
  const std::unique_ptr<ByteSource> compressed_;
  const std::unique_ptr<Decoder> decoder_;
  std::vector<char> buffer_;  // [kInputBytes]
  Exchange exchange_;
  bool done_ = false;
  absl::Status failure_;
};

}  // namespace

Compression CompressionOf(const std::string& path) {
  for (const CompressionForm& form : kCompressionForms) {
    if (absl::EndsWith(path, form.suffix)) return form.compression;
  }
  return Compression::kNone;
}

std::unique_ptr<ByteSource> Decompress(Compression compression,
                                       std::string name,
                                       std::unique_ptr<ByteSource> compressed) {
  switch (compression) {
    case Compression::kNone:
      break;
    case Compression::kGzip:
      return std::make_unique<CompressedSource>(
          name, "gzip", std::move(compressed),
          std::make_unique<GzipDecoder>(name));
    case Compression::kXz:
      return std::make_unique<CompressedSource>(
          name, "xz", std::move(compressed), std::make_unique<XzDecoder>(name));
    case Compression::kZstd:
      return std::make_unique<CompressedSource>(
          name, "zstd", std::move(compressed),
          std::make_unique<ZstdDecoder>(name));
  }
  return compressed;
}

absl::StatusOr<std::unique_ptr<ByteSource>> OpenDecompressed(
    const std::string& path) {
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> file, OpenFile(path));
  return Decompress(CompressionOf(path), path, std::move(file));
}

}  // namespace oarlock::data
