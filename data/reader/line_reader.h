// Cuts a byte source into lines, without copying them.

#ifndef OARLOCK_DATA_READER_LINE_READER_H_
#define OARLOCK_DATA_READER_LINE_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "data/reader/byte_source.h"

namespace oarlock::data {

// A longer line is an error: the file is probably not a data file.
inline constexpr size_t kMaxLineBytes = size_t{1} << 20;
// Bytes of one read(2). The first read after a seek is the smaller one: a file
// may be read in short interleaved pieces, and the rest of a large read would
// be wasted.
inline constexpr size_t kReadBytes = size_t{1} << 20;
inline constexpr size_t kFirstReadBytes = size_t{1} << 16;
// A source with a NUL byte among this number of first bytes is a binary file.
inline constexpr size_t kBinaryProbeBytes = 8000;

// U+FEFF in UTF-8, which some editors write at the start of a text. It is no
// part of the first line.
inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

// OK, or InvalidArgument when `head`, the first bytes of `name`, are not text;
// the message says when they are gzip, xz or zstd.
absl::Status CheckText(std::string_view head, std::string_view name);

// Lines end with "\n" or "\r\n"; the last one may end with the source. A byte
// order mark (UTF-8) in front of the first line is skipped.
// Thread-compatible.
class LineReader {
 public:
  // `name` is for messages.
  LineReader(std::string name, std::unique_ptr<ByteSource> source);

  // True: `line` is the next line, without its end, valid until the next call
  // of any method. False: the end, or a failure; status() tells which. Failures
  // are read errors, and InvalidArgument for a line over kMaxLineBytes or a
  // binary source. After false, every later call returns false.
  bool Next(std::string_view* line);

  // Skips up to `count` lines and returns how many it skipped.
  uint64_t Skip(uint64_t count);

  // The next line starts `offset` bytes from the source's start.
  // `line` is that line's number, for line_number().
  absl::Status Seek(uint64_t offset, uint64_t line);

  // The number of the line that Next() will return, 0-based.
  uint64_t line_number() const { return line_number_; }
  const std::string& name() const { return name_; }
  const absl::Status& status() const { return status_; }

 private:
  // Reads more bytes to buffer_[end_]; false at the end or on a failure.
  bool Refill();

  const std::string name_;
  const std::unique_ptr<ByteSource> source_;
  absl::Status status_;
  bool at_end_ = false;  // the source has nothing more
  const std::unique_ptr<char[]> buffer_;
  // Unread bytes are buffer_[begin_, end_), of which [begin_, scanned_) hold
  // no newline.
  size_t begin_ = 0;
  size_t scanned_ = 0;
  size_t end_ = 0;
  uint64_t end_offset_ = 0;  // of buffer_[end_] in the source
  size_t read_bytes_ = kFirstReadBytes;
  uint64_t line_number_ = 0;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_READER_LINE_READER_H_
