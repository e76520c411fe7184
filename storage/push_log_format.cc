#include "storage/push_log_format.h"

#include <xxhash.h>

#include <bit>
#include <cstddef>
#include <cstring>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"

namespace oarlock::storage {
namespace {

// The structs below are the bytes.
static_assert(std::endian::native == std::endian::little);

constexpr absl::string_view kSuffix = ".log";
constexpr absl::string_view kSegmentMagic = "OARLKLOG";

struct SegmentBytes {
  char magic[8];
  uint64_t number;
  uint64_t previous_bytes;
  uint64_t checksum;
};
static_assert(sizeof(SegmentBytes) == kLogSegmentHeaderBytes);

struct RecordBytes {
  char magic[4];
  uint32_t kind;
  uint64_t cut;
  uint64_t synced_bytes;
  uint64_t size;
  uint64_t bytes_checksum;
  uint64_t checksum;
};
static_assert(sizeof(RecordBytes) == kLogRecordHeaderBytes);
static_assert(kLogRecordMagic.size() == sizeof(RecordBytes::magic));

uint64_t ChecksumOf(const RecordBytes& bytes, uint64_t segment_number,
                    uint64_t offset) {
  return XXH3_64bits_withSeed(&bytes, offsetof(RecordBytes, checksum),
                              (segment_number << 36) + offset);
}

}  // namespace

uint64_t LogBytesChecksum(absl::Span<const absl::string_view> slices) {
  if (slices.size() == 1) {
    return XXH3_64bits(slices[0].data(), slices[0].size());
  }
  // Kept by the thread: it is 576 bytes, allocated.
  thread_local const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)>
      hash(XXH3_createState(), XXH3_freeState);
  XXH3_64bits_reset(hash.get());
  for (const absl::string_view slice : slices) {
    XXH3_64bits_update(hash.get(), slice.data(), slice.size());
  }
  return XXH3_64bits_digest(hash.get());
}

std::string LogSegmentName(uint64_t number) {
  return absl::StrFormat("%08d%s", number, kSuffix);
}

std::optional<uint64_t> LogSegmentNumber(absl::string_view name) {
  uint64_t number = 0;
  if (!absl::EndsWith(name, kSuffix) ||
      !absl::SimpleAtoi(name.substr(0, name.size() - kSuffix.size()),
                        &number) ||
      number == 0 || LogSegmentName(number) != name) {
    return std::nullopt;
  }
  return number;
}

std::string EncodeLogSegmentHeader(const LogSegmentHeader& header) {
  SegmentBytes bytes = {.magic = {},
                        .number = header.number,
                        .previous_bytes = header.previous_bytes,
                        .checksum = 0};
  kSegmentMagic.copy(bytes.magic, sizeof(bytes.magic));
  bytes.checksum = XXH3_64bits(&bytes, offsetof(SegmentBytes, checksum));
  return std::string(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
}

std::optional<LogSegmentHeader> DecodeLogSegmentHeader(absl::string_view from) {
  SegmentBytes bytes;
  if (from.size() < sizeof(bytes)) return std::nullopt;
  std::memcpy(&bytes, from.data(), sizeof(bytes));
  if (!absl::StartsWith(from, kSegmentMagic) ||
      bytes.checksum != XXH3_64bits(&bytes, offsetof(SegmentBytes, checksum))) {
    return std::nullopt;
  }
  return LogSegmentHeader{.number = bytes.number,
                          .previous_bytes = bytes.previous_bytes};
}

void EncodeLogRecordHeader(const LogRecordHeader& header,
                           uint64_t segment_number, uint64_t offset, char* to) {
  RecordBytes bytes = {.magic = {},
                       .kind = header.kind,
                       .cut = header.cut,
                       .synced_bytes = header.synced_bytes,
                       .size = header.size,
                       .bytes_checksum = header.bytes_checksum,
                       .checksum = 0};
  kLogRecordMagic.copy(bytes.magic, sizeof(bytes.magic));
  bytes.checksum = ChecksumOf(bytes, segment_number, offset);
  std::memcpy(to, &bytes, sizeof(bytes));
}

std::optional<LogRecordHeader> DecodeLogRecordHeader(absl::string_view from,
                                                     uint64_t segment_number,
                                                     uint64_t offset) {
  RecordBytes bytes;
  if (from.size() < sizeof(bytes)) return std::nullopt;
  std::memcpy(&bytes, from.data(), sizeof(bytes));
  if (!absl::StartsWith(from, kLogRecordMagic) ||
      bytes.size > kMaxLogRecordBytes ||
      bytes.checksum != ChecksumOf(bytes, segment_number, offset)) {
    return std::nullopt;
  }
  return LogRecordHeader{.kind = bytes.kind,
                         .cut = bytes.cut,
                         .synced_bytes = bytes.synced_bytes,
                         .size = bytes.size,
                         .bytes_checksum = bytes.bytes_checksum};
}

}  // namespace oarlock::storage
