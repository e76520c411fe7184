// The bytes of a push log; docs/push_log_format.md has them with an example.
//
// A log is a folder of segments, files "00000001.log", "00000002.log" ... with
// no number missing. All integers are little endian; a checksum is XXH3-64 of
// all bytes before it in its header.
//
//   segment header, 32 bytes
//      0  magic            8  "OARLKLOG"
//      8  number           8  that of the file's name
//     16  previous_bytes   8  size of the segment before; 0: the log's first
//     24  checksum         8
//   records, one after the other:
//      0  magic            4  "OLKR"
//      4  kind             4  the owner's; 0: the log was closed here
//      8  cut              8  see PushLog
//     16  synced_bytes     8  of this segment when this was written
//     24  size             8  of the bytes that follow the header
//     32  bytes_checksum   8  XXH3-64 of these bytes
//     40  checksum         8  seeded with the header's place: number of the
//                             segment * 2^36 + offset in it
//     48  the bytes
//
// What a process that was killed leaves is a log whose last record may be
// incomplete. What a system that lost its power leaves is a log whose last
// segment is whole up to what was synced. A reader takes what it cannot read
// for the end if it is in the last segment and nothing behind it says that it
// had been synced (synced_bytes of a record whose header is sound); otherwise
// it is damage. A segment before the last must be sound throughout and of the
// size that the next one says.
//
// A last segment without a sound header, of which no record says that it was
// synced, is one that was being made: the one before it is the last.

#ifndef OARLOCK_STORAGE_PUSH_LOG_FORMAT_H_
#define OARLOCK_STORAGE_PUSH_LOG_FORMAT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace oarlock::storage {

inline constexpr uint64_t kLogSegmentHeaderBytes = 32;
inline constexpr uint64_t kLogRecordHeaderBytes = 48;
// A message of the data plane and what its owner adds to it.
inline constexpr uint64_t kMaxLogRecordBytes = uint64_t{65} << 20;
// A segment ends before its offsets would not fit the seed.
inline constexpr uint64_t kMaxLogSegmentBytes = uint64_t{1} << 32;
inline constexpr absl::string_view kLogRecordMagic = "OLKR";
// Kind of the record that ends a log that was closed in order.
inline constexpr uint32_t kLogClosed = 0;

struct LogSegmentHeader {
  uint64_t number = 0;
  uint64_t previous_bytes = 0;
};

struct LogRecordHeader {
  uint32_t kind = 0;
  uint64_t cut = 0;
  uint64_t synced_bytes = 0;
  uint64_t size = 0;
  uint64_t bytes_checksum = 0;
};

// Of a record's bytes, given as slices that lie one after the other.
uint64_t LogBytesChecksum(absl::Span<const absl::string_view> slices);

// "00000042.log".
std::string LogSegmentName(uint64_t number);
// None when `name` is not one.
std::optional<uint64_t> LogSegmentNumber(absl::string_view name);

// kLogSegmentHeaderBytes.
std::string EncodeLogSegmentHeader(const LogSegmentHeader& header);
// None when `bytes` does not begin with a sound header.
std::optional<LogSegmentHeader> DecodeLogSegmentHeader(absl::string_view bytes);

// kLogRecordHeaderBytes to `bytes`, for the record at `offset` of the segment.
void EncodeLogRecordHeader(const LogRecordHeader& header,
                           uint64_t segment_number, uint64_t offset,
                           char* bytes);
// None when `bytes` does not begin with a sound header for this place. Its size
// is at most kMaxLogRecordBytes.
std::optional<LogRecordHeader> DecodeLogRecordHeader(absl::string_view bytes,
                                                     uint64_t segment_number,
                                                     uint64_t offset);

}  // namespace oarlock::storage

#endif  // OARLOCK_STORAGE_PUSH_LOG_FORMAT_H_
