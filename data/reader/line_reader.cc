#include "data/reader/line_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "data/reader/compressed_source.h"
#include "data/reader/known_formats.h"

namespace oarlock::data {
namespace {

// The suffix of the compressed form that starts with `head`; empty when no form
// does.
absl::string_view EndingOf(absl::string_view head) {
  for (const CompressionForm& form : kCompressionForms) {
    if (absl::StartsWith(head, form.first_bytes)) return form.suffix;
  }
  return "";
}

bool IsTar(std::string_view name) {
  return name.ends_with(".tgz") || name.ends_with(".txz") ||
         name.ends_with(".tzst");
}

}  // namespace

absl::Status CheckText(std::string_view head, std::string_view name) {
  head = head.substr(0, kBinaryProbeBytes);
  const std::string known = KnownFormat(head);
  if (!known.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(name), " is ", known));
  }
  const absl::string_view ending = EndingOf({head.data(), head.size()});
  if (!ending.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(name),
                     " is compressed, but its name does not end in ", ending,
                     IsTar(name) ? "; unpack it: it is a tar archive"
                                 : "; rename it, or unpack it"));
  }
  const size_t nul = head.find('\0');
  if (nul == std::string_view::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(name), " is not text: byte ", nul,
                   " is NUL; data files hold one example a line, see "
                   "docs/data.md"));
}

LineReader::LineReader(std::string name, std::unique_ptr<ByteSource> source)
    : name_(std::move(name)),
      source_(std::move(source)),
      buffer_(std::make_unique_for_overwrite<char[]>(kMaxLineBytes +
                                                     kReadBytes + 2)) {}

bool LineReader::Next(std::string_view* line) {
  while (true) {
    const char* const data = buffer_.get();
    const void* newline =
        end_ == scanned_ ? nullptr
                         : std::memchr(data + scanned_, '\n', end_ - scanned_);
    size_t length;
    size_t next;
    if (newline != nullptr) {
      next = static_cast<size_t>(static_cast<const char*>(newline) - data) + 1;
      length = next - 1 - begin_;
    } else {
      scanned_ = end_;
      if (Refill()) continue;
      if (!status_.ok() || begin_ == end_) return false;
      // A file of a mark alone is an empty file.
      if (line_number_ == 0 &&
          std::string_view(data + begin_, end_ - begin_) == kByteOrderMark) {
        begin_ = end_;
        return false;
      }
      next = end_;
      length = end_ - begin_;
    }
    if (length > 0 && data[begin_ + length - 1] == '\r') --length;
    if (length > kMaxLineBytes) {
      status_ = absl::InvalidArgumentError(absl::StrCat(
          name_, ":", line_number_ + 1, ": the line is longer than ",
          kMaxLineBytes, " bytes; is this a text file of examples?"));
      begin_ = scanned_ = end_;
      return false;
    }
    *line = std::string_view(data + begin_, length);
    if (line_number_ == 0 && line->starts_with(kByteOrderMark)) {
      line->remove_prefix(kByteOrderMark.size());
    }
    begin_ = scanned_ = next;
    ++line_number_;
    return true;
  }
}

bool LineReader::Refill() {
  if (at_end_ || !status_.ok()) return false;
  if (end_ - begin_ > kMaxLineBytes + 1) {
    // Next() returns the error.
    return false;
  }
  if (begin_ > 0) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    scanned_ -= begin_;
    end_ -= begin_;
    begin_ = 0;
  }
  absl::StatusOr<size_t> n = source_->Read(buffer_.get() + end_, read_bytes_);
  if (!n.ok()) {
    status_ = n.status();
    return false;
  }
  if (*n == 0) {
    at_end_ = true;
    return false;
  }
  if (end_offset_ == 0) {
    status_ = CheckText({buffer_.get() + end_, *n}, name_);
    if (!status_.ok()) return false;
  }
  end_ += *n;
  end_offset_ += *n;
  read_bytes_ = std::min(2 * read_bytes_, kReadBytes);
  return true;
}

uint64_t LineReader::Skip(uint64_t count) {
  std::string_view line;
  uint64_t skipped = 0;
  while (skipped < count && Next(&line)) ++skipped;
  return skipped;
}

absl::Status LineReader::Seek(uint64_t offset, uint64_t line) {
  OARLOCK_RETURN_IF_ERROR(status_);
  line_number_ = line;
  if (offset <= end_offset_ && offset + end_ >= end_offset_) {
    // The offset is still in the buffer.
    begin_ = scanned_ = end_ - static_cast<size_t>(end_offset_ - offset);
    return absl::OkStatus();
  }
  begin_ = scanned_ = end_ = 0;
  end_offset_ = offset;
  at_end_ = false;
  read_bytes_ = kFirstReadBytes;
  status_ = source_->Seek(offset);
  return status_;
}

}  // namespace oarlock::data
