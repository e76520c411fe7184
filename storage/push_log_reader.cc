#include "storage/push_log_reader.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "storage/push_log_format.h"

namespace oarlock::storage {
namespace {

absl::Status DamageAt(const std::string& path, uint64_t offset,
                      absl::string_view what) {
  return absl::DataLossError(absl::StrFormat(
      "%s is damaged at offset %d: %s; what lies behind it cannot be trusted; "
      "bring the file back from a copy, or start from the checkpoint alone",
      path, offset, what));
}

// Numbers of the segments in the folder, ascending.
absl::StatusOr<std::vector<uint64_t>> SegmentsIn(FileSystem* files,
                                                 const std::string& directory) {
  std::vector<uint64_t> numbers;
  OARLOCK_ASSIGN_OR_RETURN(const bool exists, files->Exists(directory));
  if (!exists) return numbers;
  OARLOCK_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                           files->List(directory));
  for (const std::string& name : names) {
    if (const auto number = LogSegmentNumber(name); number.has_value()) {
      numbers.push_back(*number);
    }
  }
  std::sort(numbers.begin(), numbers.end());
  for (size_t i = 1; i < numbers.size(); ++i) {
    if (numbers[i] == numbers[i - 1] + 1) continue;
    return absl::DataLossError(absl::StrFormat(
        "%s/%s is missing, but there is %s; bring it back from a copy, or "
        "start from the checkpoint alone",
        directory, LogSegmentName(numbers[i - 1] + 1),
        LogSegmentName(numbers[i])));
  }
  return numbers;
}

class LogReader {
 public:
  LogReader(FileSystem* files, const std::string& directory, LogVisitor visit)
      : files_(files), directory_(directory), visit_(visit) {}

  absl::StatusOr<LogContents> Read() {
    OARLOCK_ASSIGN_OR_RETURN(std::vector<uint64_t> numbers,
                             SegmentsIn(files_, directory_));
    if (numbers.empty()) return std::move(contents_);
    OARLOCK_ASSIGN_OR_RETURN(const bool unfinished,
                             IsUnfinished(numbers.back()));
    if (unfinished) {
      if (numbers.size() == 1 && numbers.back() != 1) {
        return absl::DataLossError(absl::StrFormat(
            "%s is missing, but there is %s; bring it back from a copy, or "
            "start from the checkpoint alone",
            PathOf(numbers.back() - 1), LogSegmentName(numbers.back())));
      }
      contents_.unfinished_segment = numbers.back();
      numbers.pop_back();
    }
    for (const uint64_t number : numbers) {
      OARLOCK_RETURN_IF_ERROR(ReadSegment(number, number == numbers.back()));
    }
    return std::move(contents_);
  }

 private:
  std::string PathOf(uint64_t number) const {
    return absl::StrCat(directory_, "/", LogSegmentName(number));
  }

  // Whether the last segment has no header yet. Counts its bytes if so.
  absl::StatusOr<bool> IsUnfinished(uint64_t number) {
    const std::string path = PathOf(number);
    OARLOCK_ASSIGN_OR_RETURN(const uint64_t file_bytes,
                             files_->FileBytes(path));
    OARLOCK_ASSIGN_OR_RETURN(const std::unique_ptr<SequentialFile> file,
                             files_->OpenToRead(path));
    std::string head(kLogSegmentHeaderBytes, '\0');
    OARLOCK_ASSIGN_OR_RETURN(const size_t size,
                             file->Read(absl::MakeSpan(head)));
    head.resize(size);
    if (DecodeLogSegmentHeader(head).has_value()) return false;
    OARLOCK_RETURN_IF_ERROR(
        CheckNeverSynced(number, 0, "the segment has no sound header"));
    contents_.dropped_bytes += file_bytes;
    return true;
  }

  absl::Status ReadSegment(uint64_t number, bool is_last) {
    const std::string path = PathOf(number);
    OARLOCK_ASSIGN_OR_RETURN(const uint64_t file_bytes,
                             files_->FileBytes(path));
    OARLOCK_ASSIGN_OR_RETURN(const std::unique_ptr<SequentialFile> file,
                             files_->OpenToRead(path));
    OARLOCK_RETURN_IF_ERROR(ReadSegmentHeader(path, number, *file));
    LogSegment segment = {.number = number, .bytes = kLogSegmentHeaderBytes};
    while (segment.bytes < file_bytes) {
      LogRecordHeader header;
      OARLOCK_ASSIGN_OR_RETURN(const char* const what,
                               ReadRecord(*file, segment, file_bytes, &header));
      if (what != nullptr) {
        if (!is_last) return DamageAt(path, segment.bytes, what);
        OARLOCK_RETURN_IF_ERROR(CheckNeverSynced(number, segment.bytes, what));
        contents_.dropped_bytes += file_bytes - segment.bytes;
        break;
      }
      if (header.kind != kLogClosed) {
        OARLOCK_RETURN_IF_ERROR(
            visit_({.kind = header.kind, .cut = header.cut, .bytes = bytes_}));
        ++contents_.num_records;
        segment.max_cut = std::max(segment.max_cut, header.cut);
      }
      segment.bytes += kLogRecordHeaderBytes + header.size;
    }
    contents_.segments.push_back(segment);
    return absl::OkStatus();
  }

  absl::Status ReadSegmentHeader(const std::string& path, uint64_t number,
                                 SequentialFile& file) {
    std::string head(kLogSegmentHeaderBytes, '\0');
    OARLOCK_ASSIGN_OR_RETURN(const size_t size,
                             file.Read(absl::MakeSpan(head)));
    head.resize(size);
    const std::optional<LogSegmentHeader> header = DecodeLogSegmentHeader(head);
    if (!header.has_value()) {
      return DamageAt(path, 0, "the segment has no sound header");
    }
    if (header->number != number) {
      return DamageAt(path, 0,
                      absl::StrCat("its header is that of ",
                                   LogSegmentName(header->number)));
    }
    if (!contents_.segments.empty() &&
        contents_.segments.back().bytes != header->previous_bytes) {
      const LogSegment& previous = contents_.segments.back();
      return DamageAt(
          PathOf(previous.number), previous.bytes,
          absl::StrCat("it ends there, but had ", header->previous_bytes,
                       " bytes when the next was begun"));
    }
    return absl::OkStatus();
  }

  // The record at the end of `segment`, into bytes_; null, or what is wrong.
  absl::StatusOr<const char*> ReadRecord(SequentialFile& file,
                                         const LogSegment& segment,
                                         uint64_t file_bytes,
                                         LogRecordHeader* header) {
    char head[kLogRecordHeaderBytes];
    OARLOCK_ASSIGN_OR_RETURN(const size_t head_bytes,
                             file.Read(absl::MakeSpan(head)));
    if (head_bytes != sizeof(head)) return "the header of a record is cut off";
    const std::optional<LogRecordHeader> decoded = DecodeLogRecordHeader(
        absl::string_view(head, sizeof(head)), segment.number, segment.bytes);
    if (!decoded.has_value()) return "the header of a record is not sound";
    *header = *decoded;
    if (header->size > file_bytes - segment.bytes - kLogRecordHeaderBytes) {
      return "the bytes of a record are cut off";
    }
    bytes_.resize(header->size);
    OARLOCK_ASSIGN_OR_RETURN(const size_t num_read,
                             file.Read(absl::MakeSpan(bytes_)));
    if (num_read != bytes_.size()) return "the bytes of a record are cut off";
    const absl::string_view bytes = bytes_;
    if (LogBytesChecksum({&bytes, 1}) != header->bytes_checksum) {
      return "the bytes of a record do not match their checksum";
    }
    return nullptr;
  }

  // Whether what is wrong at `offset` may be the end of the log: no record
  // behind it knows that it was synced. DataLoss if one does.
  absl::Status CheckNeverSynced(uint64_t number, uint64_t offset,
                                const char* what) {
    const std::string path = PathOf(number);
    OARLOCK_ASSIGN_OR_RETURN(const uint64_t file_bytes,
                             files_->FileBytes(path));
    OARLOCK_ASSIGN_OR_RETURN(const std::string contents,
                             files_->ReadFile(path, file_bytes));
    const absl::string_view bytes = contents;
    for (size_t at = bytes.find(kLogRecordMagic, offset);
         at != absl::string_view::npos;
         at = bytes.find(kLogRecordMagic, at + 1)) {
      const std::optional<LogRecordHeader> header =
          DecodeLogRecordHeader(bytes.substr(at), number, at);
      if (header.has_value() && header->synced_bytes > offset) {
        return DamageAt(path, offset,
                        absl::StrCat(what, ", and the record at ", at,
                                     " knows that it had been written"));
      }
    }
    return absl::OkStatus();
  }

  FileSystem* const files_;
  const std::string directory_;
  const LogVisitor visit_;
  LogContents contents_;
  std::string bytes_;
};

}  // namespace

absl::StatusOr<LogContents> ReadPushLog(FileSystem* files,
                                        const std::string& directory,
                                        LogVisitor visit) {
  return LogReader(files, directory, visit).Read();
}

}  // namespace oarlock::storage
