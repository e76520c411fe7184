#include "checkpoint/row_sorter.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "sparse_table/rows/packed_rows.h"

namespace oarlock::checkpoint {
namespace {

constexpr size_t kWriteBytes = size_t{1} << 20;
// Read at a time of each file.
constexpr size_t kMinReadBytes = size_t{64} << 10;
constexpr size_t kMaxReadBytes = size_t{4} << 20;

struct EntryHeader {
  uint64_t partition;
  uint64_t origin;
};

EntryHeader HeaderOf(const std::byte* entry) {
  EntryHeader header;
  std::memcpy(&header, entry, sizeof(header));
  return header;
}

}  // namespace

class RowSorter::Run {
 public:
  // Of a file.
  Run(std::unique_ptr<storage::SequentialFile> file, size_t entry_bytes,
      size_t buffer_bytes)
      : file_(std::move(file)),
        entry_bytes_(entry_bytes),
        buffer_(std::max<size_t>(buffer_bytes / entry_bytes, 1) * entry_bytes) {
  }
  // Of the entries `order` of `entries`, which outlive it.
  Run(const std::vector<std::byte>* entries, const std::vector<uint32_t>* order,
      size_t entry_bytes)
      : entry_bytes_(entry_bytes), entries_(entries), order_(order) {}

  // The next entry, null at the end.
  absl::StatusOr<const std::byte*> Advance() {
    current_ = nullptr;
    if (entries_ != nullptr) {
      if (next_ < order_->size()) {
        current_ = entries_->data() + (*order_)[next_++] * entry_bytes_;
      }
      return current_;
    }
    if (next_ == end_) {
      next_ = 0;
      OARLOCK_ASSIGN_OR_RETURN(
          end_, file_->Read(
                    {reinterpret_cast<char*>(buffer_.data()), buffer_.size()}));
      if (end_ % entry_bytes_ != 0) {
        return absl::InternalError("a file of sorted rows was cut short");
      }
      if (end_ == 0) return current_;
    }
    current_ = buffer_.data() + next_;
    next_ += entry_bytes_;
    return current_;
  }
  const std::byte* current() const { return current_; }

 private:
  const std::unique_ptr<storage::SequentialFile> file_;
  const size_t entry_bytes_;
  std::vector<std::byte> buffer_;
  const std::vector<std::byte>* const entries_ = nullptr;
  const std::vector<uint32_t>* const order_ = nullptr;
  // In order_ or, in bytes, in buffer_.
  size_t next_ = 0;
  size_t end_ = 0;
  const std::byte* current_ = nullptr;
};

RowSorter::RowSorter(const RowSorterOptions& options)
    : options_(options),
      max_entries_(std::clamp<uint64_t>(
          options.memory_bytes / (entry_bytes() + sizeof(uint32_t)), 1,
          std::numeric_limits<uint32_t>::max())) {}

RowSorter::~RowSorter() = default;

bool RowSorter::Less(const std::byte* a, const std::byte* b) const {
  const EntryHeader x = HeaderOf(a), y = HeaderOf(b);
  if (x.partition != y.partition) return x.partition < y.partition;
  const Key x_key = sparse_table::PackedRows::KeyOf(a + kEntryHeaderBytes);
  const Key y_key = sparse_table::PackedRows::KeyOf(b + kEntryHeaderBytes);
  if (x_key != y_key) return x_key < y_key;
  return x.origin < y.origin;
}

absl::Status RowSorter::Add(PartitionIndex partition, uint64_t origin,
                            const std::byte* packed) {
  OARLOCK_CHECK(!merging_);
  if (buffer_.size() / entry_bytes() == max_entries_) {
    OARLOCK_RETURN_IF_ERROR(WriteRun());
  }
  // Address space; pages come as they are filled.
  if (buffer_.capacity() == 0) buffer_.reserve(max_entries_ * entry_bytes());
  const EntryHeader header = {partition.value(), origin};
  const auto* const bytes = reinterpret_cast<const std::byte*>(&header);
  buffer_.insert(buffer_.end(), bytes, bytes + sizeof(header));
  buffer_.insert(buffer_.end(), packed, packed + options_.row_bytes);
  return absl::OkStatus();
}

void RowSorter::SortBuffer() {
  order_.resize(buffer_.size() / entry_bytes());
  std::iota(order_.begin(), order_.end(), 0);
  std::sort(order_.begin(), order_.end(), [this](uint32_t a, uint32_t b) {
    return Less(buffer_.data() + a * entry_bytes(),
                buffer_.data() + b * entry_bytes());
  });
}

absl::Status RowSorter::WriteRun() {
  if (num_files_ == kMaxRuns) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the rows fill more than ", kMaxRuns, " times ",
                     options_.memory_bytes, " bytes of memory; give more"));
  }
  OARLOCK_RETURN_IF_ERROR(options_.files->MakeFolders(options_.folder));
  SortBuffer();
  OARLOCK_ASSIGN_OR_RETURN(const std::unique_ptr<storage::AppendedFile> file,
                           options_.files->CreateFile(
                               absl::StrCat(options_.folder, "/", num_files_)));
  std::string bytes;
  for (const uint32_t entry : order_) {
    bytes.append(
        reinterpret_cast<const char*>(buffer_.data()) + entry * entry_bytes(),
        entry_bytes());
    if (bytes.size() < kWriteBytes) continue;
    OARLOCK_RETURN_IF_ERROR(file->Append(bytes));
    bytes.clear();
  }
  OARLOCK_RETURN_IF_ERROR(file->Append(bytes));
  OARLOCK_RETURN_IF_ERROR(file->Close());
  ++num_files_;
  buffer_.clear();
  return absl::OkStatus();
}

absl::Status RowSorter::BeginMerge() {
  merging_ = true;
  if (num_files_ == 0) {
    SortBuffer();
    runs_.push_back(std::make_unique<Run>(&buffer_, &order_, entry_bytes()));
  } else {
    OARLOCK_RETURN_IF_ERROR(WriteRun());
    // Its memory is the readers' now.
    buffer_ = {};
    order_ = {};
    const size_t read_bytes = std::clamp<uint64_t>(
        options_.memory_bytes / num_files_, kMinReadBytes, kMaxReadBytes);
    for (uint32_t i = 0; i < num_files_; ++i) {
      OARLOCK_ASSIGN_OR_RETURN(
          std::unique_ptr<storage::SequentialFile> file,
          options_.files->OpenToRead(absl::StrCat(options_.folder, "/", i)));
      runs_.push_back(
          std::make_unique<Run>(std::move(file), entry_bytes(), read_bytes));
    }
  }
  for (const std::unique_ptr<Run>& run : runs_) {
    OARLOCK_RETURN_IF_ERROR(run->Advance().status());
  }
  std::erase_if(runs_,
                [](const auto& run) { return run->current() == nullptr; });
  return absl::OkStatus();
}

absl::StatusOr<bool> RowSorter::Next(SortedRow* row) {
  const auto later = [this](const std::unique_ptr<Run>& a,
                            const std::unique_ptr<Run>& b) {
    return Less(b->current(), a->current());
  };
  if (!merging_) {
    OARLOCK_RETURN_IF_ERROR(BeginMerge());
    std::make_heap(runs_.begin(), runs_.end(), later);
  }
  if (top_is_used_) {
    std::pop_heap(runs_.begin(), runs_.end(), later);
    OARLOCK_ASSIGN_OR_RETURN(const std::byte* const next,
                             runs_.back()->Advance());
    if (next == nullptr) {
      runs_.pop_back();
    } else {
      std::push_heap(runs_.begin(), runs_.end(), later);
    }
    top_is_used_ = false;
  }
  if (runs_.empty()) return false;
  const std::byte* const entry = runs_.front()->current();
  const EntryHeader header = HeaderOf(entry);
  row->partition = PartitionIndex(static_cast<uint32_t>(header.partition));
  row->origin = header.origin;
  row->packed = entry + kEntryHeaderBytes;
  top_is_used_ = true;
  return true;
}

}  // namespace oarlock::checkpoint
