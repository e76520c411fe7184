#include "storage/push_log.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "storage/fault_points.h"
#include "storage/push_log_format.h"

namespace oarlock::storage {
namespace {

// Slices from here on are written where they lie; shorter ones are put
// together first, so that they share a write: one of 8 KiB costs 2.7 us written
// by itself, .4 us copied (bench/storage/push_log_bench).
constexpr size_t kDirectBytes = size_t{32} << 10;
constexpr size_t kBufferBytes = size_t{256} << 10;

class SegmentedLog final : public PushLog {
 public:
  SegmentedLog(const PushLogOptions& options, FileSystem* files,
               const Clock& clock)
      : options_(options), files_(files), clock_(clock) {}

  // Once, before anything else.
  absl::Status Start(LogVisitor visit);
  ~SegmentedLog() override;

  absl::Status Append(uint32_t kind, uint64_t cut,
                      absl::Span<const absl::string_view> slices) override;
  absl::Status Sync() override { return SyncFile(); }
  absl::Status Roll() override;
  absl::Status Trim(uint64_t cut) override;

  uint64_t bytes() const override {
    return bytes_.load(std::memory_order_relaxed);
  }
  const LogContents& found() const override { return found_; }

 private:
  struct Waiter {
    LogRecordHeader header;
    absl::Span<const absl::string_view> slices;
    bool done = false;
    absl::Status status;
  };

  std::string PathOf(uint64_t number) const {
    return absl::StrCat(options_.directory, "/", LogSegmentName(number));
  }

  // Start: what a crash has left is cut off, what is left is on disk.
  absl::Status Repair();

  // Below: with the pen (see writing_).

  absl::Status WriteBatch(absl::Span<Waiter* const> batch);
  // Adds the records to `segment`, which says where they begin.
  absl::Status WriteRecords(absl::Span<Waiter* const> batch,
                            uint64_t synced_bytes, LogSegment* segment);
  absl::Status Put(absl::string_view bytes);
  absl::Status Flush();
  // Removes from the file what a failed write may have left in it.
  absl::Status CutBack() ABSL_LOCKS_EXCLUDED(sync_mutex_);
  // Makes `next`, which is empty, the file that is written to.
  absl::Status SwitchTo(std::unique_ptr<AppendedFile> next)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(roll_mutex_);
  absl::Status WriteClosedRecord();

  // With or without the pen.

  absl::Status SyncFile() ABSL_LOCKS_EXCLUDED(sync_mutex_, mutex_);
  absl::Status SyncFileLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(sync_mutex_);
  void TakePen() ABSL_LOCKS_EXCLUDED(mutex_);
  void GiveBackPen() ABSL_LOCKS_EXCLUDED(mutex_);
  // The thread of the log.
  void SyncAndRoll();

  // Constant after Start.
  const PushLogOptions options_;
  FileSystem* const files_;
  const Clock& clock_;
  LogContents found_;

  std::atomic<uint64_t> bytes_ = 0;

  // Locks are taken in this order, and the pen between the first two.

  // Held while the set of files changes.
  absl::Mutex roll_mutex_;
  // All segments but the one that is written to, oldest first.
  std::deque<LogSegment> closed_ ABSL_GUARDED_BY(roll_mutex_);

  // Held while file_ is synced or replaced.
  absl::Mutex sync_mutex_ ABSL_ACQUIRED_AFTER(roll_mutex_);

  absl::Mutex mutex_ ABSL_ACQUIRED_AFTER(sync_mutex_);
  // Appenders whose records nobody writes yet.
  std::vector<Waiter*> queue_ ABSL_GUARDED_BY(mutex_);
  // Whether somebody has the pen: may write to file_.
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  // The segment that is written to, changed with the pen only, and how much of
  // it is on disk, changed with sync_mutex_ only.
  LogSegment segment_ ABSL_GUARDED_BY(mutex_);
  uint64_t synced_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // Not OK: for ever.
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  bool roll_wanted_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  // Belong to the pen. file_ is replaced with the pen and sync_mutex_, so it
  // may be used with either; null after it could not be opened again.
  std::unique_ptr<AppendedFile> file_;
  // Whether the file may have more than segment_.bytes.
  bool torn_ = false;
  std::string buffer_;
  std::vector<Waiter*> batch_;

  std::thread thread_;
};

absl::Status SegmentedLog::Start(LogVisitor visit) {
  OARLOCK_RETURN_IF_ERROR(files_->MakeFolders(options_.directory));
  OARLOCK_ASSIGN_OR_RETURN(found_,
                           ReadPushLog(files_, options_.directory, visit));
  OARLOCK_RETURN_IF_ERROR(Repair());
  absl::MutexLock roll(&roll_mutex_);
  closed_.assign(found_.segments.begin(), found_.segments.end());
  const LogSegment previous = closed_.empty() ? LogSegment() : closed_.back();
  {
    absl::MutexLock lock(&mutex_);
    segment_ = {.number = previous.number + 1, .bytes = kLogSegmentHeaderBytes};
    const std::string path = PathOf(segment_.number);
    OARLOCK_ASSIGN_OR_RETURN(file_, files_->CreateFile(path));
    OARLOCK_RETURN_IF_ERROR(file_->Append(EncodeLogSegmentHeader(
        {.number = segment_.number, .previous_bytes = previous.bytes})));
    OARLOCK_RETURN_IF_ERROR(file_->Sync());
    OARLOCK_RETURN_IF_ERROR(files_->SyncFolder(options_.directory));
    synced_bytes_ = segment_.bytes;
  }
  uint64_t bytes = kLogSegmentHeaderBytes;
  for (const LogSegment& segment : closed_) bytes += segment.bytes;
  bytes_.store(bytes, std::memory_order_relaxed);
  thread_ = std::thread([this] { SyncAndRoll(); });
  return absl::OkStatus();
}

absl::Status SegmentedLog::Repair() {
  FaultPoint("log.open.before_truncate");
  if (found_.unfinished_segment != 0) {
    OARLOCK_RETURN_IF_ERROR(
        files_->RemoveFile(PathOf(found_.unfinished_segment)));
    OARLOCK_RETURN_IF_ERROR(files_->SyncFolder(options_.directory));
  }
  if (!found_.segments.empty()) {
    const LogSegment& last = found_.segments.back();
    const std::string path = PathOf(last.number);
    OARLOCK_ASSIGN_OR_RETURN(const uint64_t file_bytes,
                             files_->FileBytes(path));
    if (file_bytes > last.bytes) {
      OARLOCK_RETURN_IF_ERROR(files_->Truncate(path, last.bytes));
    }
    // A process that was killed has left what it did not sync with the system.
    // It must be on disk before anything behind it is.
    OARLOCK_ASSIGN_OR_RETURN(const std::unique_ptr<AppendedFile> file,
                             files_->OpenToAppend(path));
    OARLOCK_RETURN_IF_ERROR(file->Sync());
    OARLOCK_RETURN_IF_ERROR(file->Close());
  }
  FaultPoint("log.open.after_truncate");
  return absl::OkStatus();
}

SegmentedLog::~SegmentedLog() {
  if (!thread_.joinable()) return;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
  TakePen();
  // What fails here is what a crash at this place would leave.
  (void)WriteClosedRecord();
  GiveBackPen();
}

absl::Status SegmentedLog::WriteClosedRecord() {
  OARLOCK_RETURN_IF_ERROR(SyncFile());
  Waiter closed;
  closed.header.kind = kLogClosed;
  closed.header.bytes_checksum = LogBytesChecksum({});
  Waiter* const batch[] = {&closed};
  OARLOCK_RETURN_IF_ERROR(WriteBatch(batch));
  OARLOCK_RETURN_IF_ERROR(SyncFile());
  return file_->Close();
}

absl::Status SegmentedLog::Append(uint32_t kind, uint64_t cut,
                                  absl::Span<const absl::string_view> slices) {
  OARLOCK_CHECK(kind != kLogClosed);
  Waiter waiter;
  waiter.header = {.kind = kind, .cut = cut};
  for (const absl::string_view slice : slices) {
    waiter.header.size += slice.size();
  }
  OARLOCK_CHECK(waiter.header.size <= kMaxLogRecordBytes);
  waiter.header.bytes_checksum = LogBytesChecksum(slices);
  waiter.slices = slices;
  {
    absl::MutexLock lock(&mutex_);
    queue_.push_back(&waiter);
    const auto my_turn = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return waiter.done || !writing_;
    };
    mutex_.Await(absl::Condition(&my_turn));
    if (waiter.done) return waiter.status;
    writing_ = true;
    batch_.swap(queue_);
  }
  const absl::Status status = WriteBatch(batch_);
  absl::MutexLock lock(&mutex_);
  for (Waiter* const other : batch_) {
    other->status = status;
    other->done = true;
  }
  batch_.clear();
  writing_ = false;
  return status;
}

absl::Status SegmentedLog::WriteBatch(absl::Span<Waiter* const> batch) {
  if (torn_) OARLOCK_RETURN_IF_ERROR(CutBack());
  LogSegment after;
  uint64_t synced_bytes = 0;
  {
    absl::MutexLock lock(&mutex_);
    OARLOCK_RETURN_IF_ERROR(failure_);
    after = segment_;
    synced_bytes = synced_bytes_;
  }
  if (absl::Status status = WriteRecords(batch, synced_bytes, &after);
      !status.ok()) {
    torn_ = true;
    (void)CutBack();  // Else before the next write.
    return status;
  }
  {
    absl::MutexLock lock(&mutex_);
    bytes_.fetch_add(after.bytes - segment_.bytes, std::memory_order_relaxed);
    segment_ = after;
    roll_wanted_ = roll_wanted_ || after.bytes >= options_.segment_bytes;
  }
  if (options_.sync_interval > absl::ZeroDuration()) return absl::OkStatus();
  return SyncFile();
}

absl::Status SegmentedLog::WriteRecords(absl::Span<Waiter* const> batch,
                                        uint64_t synced_bytes,
                                        LogSegment* segment) {
  FaultPoint("log.append.before_write");
  buffer_.clear();
  for (Waiter* const waiter : batch) {
    LogRecordHeader& header = waiter->header;
    header.synced_bytes = synced_bytes;
    char head[kLogRecordHeaderBytes];
    EncodeLogRecordHeader(header, segment->number, segment->bytes, head);
    segment->bytes += sizeof(head) + header.size;
    segment->max_cut = std::max(segment->max_cut, header.cut);
    if (segment->bytes > kMaxLogSegmentBytes) {
      return absl::ResourceExhaustedError(absl::StrFormat(
          "%s cannot grow beyond %d bytes, and the next segment could not be "
          "made; is there space in the folder?",
          PathOf(segment->number), kMaxLogSegmentBytes));
    }
    OARLOCK_RETURN_IF_ERROR(Put(absl::string_view(head, sizeof(head))));
    for (const absl::string_view slice : waiter->slices) {
      OARLOCK_RETURN_IF_ERROR(Put(slice));
    }
  }
  OARLOCK_RETURN_IF_ERROR(Flush());
  FaultPoint("log.append.after_write");
  return absl::OkStatus();
}

absl::Status SegmentedLog::Put(absl::string_view bytes) {
  if (bytes.size() < kDirectBytes) {
    if (buffer_.size() + bytes.size() > kBufferBytes) {
      OARLOCK_RETURN_IF_ERROR(Flush());
      FaultPoint("log.append.half_written");
    }
    buffer_.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  }
  OARLOCK_RETURN_IF_ERROR(Flush());
  FaultPoint("log.append.half_written");
  return file_->Append(bytes);
}

absl::Status SegmentedLog::Flush() {
  if (buffer_.empty()) return absl::OkStatus();
  const absl::Status status = file_->Append(buffer_);
  buffer_.clear();
  return status;
}

absl::Status SegmentedLog::CutBack() {
  absl::MutexLock sync(&sync_mutex_);
  LogSegment segment;
  {
    absl::MutexLock lock(&mutex_);
    segment = segment_;
  }
  const std::string path = PathOf(segment.number);
  file_ = nullptr;
  OARLOCK_RETURN_IF_ERROR(files_->Truncate(path, segment.bytes));
  OARLOCK_ASSIGN_OR_RETURN(file_, files_->OpenToAppend(path));
  torn_ = false;
  return absl::OkStatus();
}

absl::Status SegmentedLog::SyncFile() {
  absl::MutexLock sync(&sync_mutex_);
  return SyncFileLocked();
}

absl::Status SegmentedLog::SyncFileLocked() {
  uint64_t written_bytes = 0;
  {
    absl::MutexLock lock(&mutex_);
    OARLOCK_RETURN_IF_ERROR(failure_);
    if (synced_bytes_ == segment_.bytes) return absl::OkStatus();
    written_bytes = segment_.bytes;
  }
  if (file_ == nullptr) {
    return absl::InternalError(absl::StrCat(
        options_.directory,
        ": the segment could not be opened again after a failed write; the "
        "next record tries it"));
  }
  const absl::Status status = file_->Sync();
  absl::MutexLock lock(&mutex_);
  if (status.ok()) {
    synced_bytes_ = written_bytes;
    return absl::OkStatus();
  }
  failure_ = absl::DataLossError(absl::StrCat(
      "the push log cannot be synced: ", status.message(),
      "; what was written since the sync before may be lost, and no later "
      "sync would tell; the log takes no more records; save a checkpoint and "
      "start the server again"));
  return failure_;
}

absl::Status SegmentedLog::Roll() {
  absl::MutexLock roll(&roll_mutex_);
  uint64_t next_number = 0;
  {
    absl::MutexLock lock(&mutex_);
    roll_wanted_ = false;
    OARLOCK_RETURN_IF_ERROR(failure_);
    if (segment_.bytes == kLogSegmentHeaderBytes) return absl::OkStatus();
    next_number = segment_.number + 1;
  }
  // While appenders go on, so that little is left to sync when they may not.
  OARLOCK_RETURN_IF_ERROR(SyncFile());
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<AppendedFile> next,
                           files_->CreateFile(PathOf(next_number)));
  OARLOCK_RETURN_IF_ERROR(files_->SyncFolder(options_.directory));
  FaultPoint("log.roll.before_header");
  TakePen();
  absl::Status status = SwitchTo(std::move(next));
  GiveBackPen();
  return status;
}

absl::Status SegmentedLog::SwitchTo(std::unique_ptr<AppendedFile> next) {
  if (torn_) OARLOCK_RETURN_IF_ERROR(CutBack());
  absl::MutexLock sync(&sync_mutex_);
  OARLOCK_RETURN_IF_ERROR(SyncFileLocked());
  LogSegment old;
  {
    absl::MutexLock lock(&mutex_);
    old = segment_;
  }
  if (absl::Status status = next->Append(EncodeLogSegmentHeader(
          {.number = old.number + 1, .previous_bytes = old.bytes}));
      !status.ok()) {
    // If the header is there after all, no record may follow in the old file.
    next = nullptr;
    const std::string path = PathOf(old.number + 1);
    if (absl::Status removed = files_->RemoveFile(path); !removed.ok()) {
      absl::MutexLock lock(&mutex_);
      failure_ = Annotate(removed, "the push log takes no more records");
    }
    return status;
  }
  FaultPoint("log.roll.after_header");
  (void)file_->Close();  // All of it is on disk.
  file_ = std::move(next);
  closed_.push_back(old);
  absl::MutexLock lock(&mutex_);
  segment_ = {.number = old.number + 1, .bytes = kLogSegmentHeaderBytes};
  synced_bytes_ = 0;
  bytes_.fetch_add(kLogSegmentHeaderBytes, std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::Status SegmentedLog::Trim(uint64_t cut) {
  absl::MutexLock roll(&roll_mutex_);
  // The header of the segment that is written to must not be lost when those
  // before it are gone: there would be no telling where the log begins.
  OARLOCK_RETURN_IF_ERROR(SyncFile());
  while (!closed_.empty() && closed_.front().max_cut < cut) {
    const LogSegment& oldest = closed_.front();
    OARLOCK_RETURN_IF_ERROR(files_->RemoveFile(PathOf(oldest.number)));
    // One by one, else a crash may bring back some and leave a gap.
    OARLOCK_RETURN_IF_ERROR(files_->SyncFolder(options_.directory));
    bytes_.fetch_sub(oldest.bytes, std::memory_order_relaxed);
    closed_.pop_front();
    FaultPoint("log.trim.between_segments");
  }
  return absl::OkStatus();
}

void SegmentedLog::TakePen() {
  absl::MutexLock lock(&mutex_);
  const auto is_free = [this]()
                           ABSL_NO_THREAD_SAFETY_ANALYSIS { return !writing_; };
  mutex_.Await(absl::Condition(&is_free));
  writing_ = true;
}

void SegmentedLog::GiveBackPen() {
  absl::MutexLock lock(&mutex_);
  writing_ = false;
}

void SegmentedLog::SyncAndRoll() {
  const absl::Duration interval = options_.sync_interval > absl::ZeroDuration()
                                      ? options_.sync_interval
                                      : absl::InfiniteDuration();
  const auto has_work = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return stopping_ || roll_wanted_;
  };
  for (;;) {
    bool roll = false;
    {
      absl::MutexLock lock(&mutex_);
      clock_.AwaitFor(&mutex_, absl::Condition(&has_work), interval);
      if (stopping_) return;
      roll = roll_wanted_;
    }
    // Appenders are told what matters of an error: failure_. A segment that
    // could not be made is tried again after the next record.
    (void)(roll ? Roll() : SyncFile());
  }
}

}  // namespace

absl::Status PushLogOptions::Validate() const {
  if (directory.empty()) {
    return absl::InvalidArgumentError(
        "the push log has no directory; name a folder of its own");
  }
  if (segment_bytes < kMinSegmentBytes || segment_bytes > kMaxSegmentBytes) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "segment_bytes of the push log is %d; legal is %d to %d", segment_bytes,
        kMinSegmentBytes, kMaxSegmentBytes));
  }
  if (sync_interval < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the sync interval of the push log is ",
        absl::FormatDuration(sync_interval), "; legal is at least 0"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<PushLog>> PushLog::Open(
    const PushLogOptions& options, FileSystem* files, const Clock& clock,
    LogVisitor visit) {
  OARLOCK_RETURN_IF_ERROR(options.Validate());
  auto log = std::make_unique<SegmentedLog>(options, files, clock);
  OARLOCK_RETURN_IF_ERROR(log->Start(visit));
  return log;
}

}  // namespace oarlock::storage
