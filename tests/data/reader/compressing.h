// Bytes compressed in memory, for tests of what reads them.

#ifndef OARLOCK_TESTS_DATA_READER_COMPRESSING_H_
#define OARLOCK_TESTS_DATA_READER_COMPRESSING_H_

#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "data/reader/byte_source.h"
#include "gtest/gtest.h"

namespace oarlock::data {

inline std::string Gzip(std::string_view bytes) {
  z_stream stream = {};
  EXPECT_EQ(
      deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY),
      Z_OK);
  std::string out(deflateBound(&stream, bytes.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

inline std::string Xz(std::string_view bytes) {
  std::string out(lzma_stream_buffer_bound(bytes.size()), '\0');
  size_t size = 0;
  EXPECT_EQ(lzma_easy_buffer_encode(
                1, LZMA_CHECK_CRC64, nullptr,
                reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(),
                reinterpret_cast<uint8_t*>(out.data()), &size, out.size()),
            LZMA_OK);
  out.resize(size);
  return out;
}

// With a checksum, as the zstd program does, in a frame that says that it looks
// back over 2^window_log bytes.
inline std::string Zstd(std::string_view bytes, int window_log) {
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log);
  // Its length is not said: then the window has to be.
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
  std::string out(ZSTD_compressBound(bytes.size()) + 64, '\0');
  ZSTD_inBuffer in = {bytes.data(), bytes.size(), 0};
  ZSTD_outBuffer to = {out.data(), out.size(), 0};
  // Begun before the end is known, so that the window is not made smaller.
  EXPECT_EQ(
      ZSTD_isError(ZSTD_compressStream2(context, &to, &in, ZSTD_e_continue)),
      0u);
  EXPECT_EQ(ZSTD_compressStream2(context, &to, &in, ZSTD_e_end), 0u);
  out.resize(to.pos);
  ZSTD_freeCCtx(context);
  return out;
}

inline std::string Zstd(std::string_view bytes) { return Zstd(bytes, 17); }

// Bytes in memory as a source that gives at most `piece` of them at a time.
class BytesSource : public ByteSource {
 public:
  explicit BytesSource(std::string bytes, size_t piece = ~size_t{0})
      : bytes_(std::move(bytes)), piece_(piece) {}

  absl::StatusOr<size_t> Read(char* data, size_t size) override {
    const size_t n = std::min({size, piece_, bytes_.size() - at_});
    std::memcpy(data, bytes_.data() + at_, n);
    at_ += n;
    return n;
  }
  absl::Status Seek(uint64_t offset) override {
    at_ = std::min<size_t>(offset, bytes_.size());
    return absl::OkStatus();
  }

 private:
  const std::string bytes_;
  const size_t piece_;
  size_t at_ = 0;
};

}  // namespace oarlock::data

#endif  // OARLOCK_TESTS_DATA_READER_COMPRESSING_H_
