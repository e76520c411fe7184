#include "storage/cold_rows.h"

#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/slice.h>
#include <rocksdb/snapshot.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "storage/scratch_dir.h"

namespace oarlock::storage {
namespace {

constexpr double kFilterBitsPerRow = 10;
constexpr uint64_t kFileBytes = uint64_t{64} << 20;
// Files that are open at a time. Well below the usual limit of a process.
constexpr int kMaxOpenFiles = 512;
// Threads that bring rows from memory to files and merge files.
constexpr int kBackgroundJobs = 2;
// What two bytes of a name tell apart.
constexpr uint32_t kMaxPartitions = 1 << 16;

constexpr uint64_t BigEndian(uint64_t x) {
  return std::endian::native == std::endian::big ? x : __builtin_bswap64(x);
}

// The name of a row as RocksDB knows it.
class StoredName {
 public:
  static constexpr size_t kBytes = 10;

  StoredName() = default;
  StoredName(PartitionIndex partition, Key key) {
    OARLOCK_CHECK(partition.value() < kMaxPartitions);
    bytes_[0] = static_cast<char>(partition.value() >> 8);
    bytes_[1] = static_cast<char>(partition.value());
    const uint64_t big_endian = BigEndian(static_cast<uint64_t>(key));
    std::memcpy(bytes_.data() + 2, &big_endian, sizeof(big_endian));
  }

  rocksdb::Slice slice() const { return {bytes_.data(), kBytes}; }

  static Key KeyOf(const rocksdb::Slice& name) {
    uint64_t big_endian;
    std::memcpy(&big_endian, name.data() + 2, sizeof(big_endian));
    return Key{BigEndian(big_endian)};
  }

 private:
  std::array<char, kBytes> bytes_{};
};

rocksdb::Slice AsSlice(const std::byte* row, size_t row_bytes) {
  return {reinterpret_cast<const char*>(row), row_bytes};
}

rocksdb::Options StoreOptions(uint64_t buffer_bytes) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.error_if_exists = true;
  // One fills while the other goes to disk.
  options.write_buffer_size = buffer_bytes / 2;
  options.max_write_buffer_number = 2;
  options.target_file_size_base = std::min(kFileBytes, 2 * buffer_bytes);
  options.max_bytes_for_level_base = 4 * options.target_file_size_base;
  // Nine tenths of the rows in the last level: few copies that are outdated.
  options.level_compaction_dynamic_level_bytes = true;
  options.max_background_jobs = kBackgroundJobs;
  options.max_open_files = kMaxOpenFiles;
  // Floats do not compress.
  options.compression = rocksdb::kNoCompression;
  options.bottommost_compression = rocksdb::kNoCompression;
  // Scratch: nothing is read after an end, orderly or not.
  options.avoid_flush_during_shutdown = true;
  options.allow_concurrent_memtable_write = true;
  options.keep_log_file_num = 1;
  options.info_log_level = rocksdb::InfoLogLevel::WARN_LEVEL;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;

  rocksdb::BlockBasedTableOptions table;
  // A row that was read is in memory from then on, and its neighbours are as
  // cold as any: 1 % of reads hit a cache of blocks when there was one.
  table.no_block_cache = true;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(kFilterBitsPerRow));
  table.whole_key_filtering = true;
  table.data_block_index_type =
      rocksdb::BlockBasedTableOptions::kDataBlockBinaryAndHash;
  table.format_version = 5;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

class RocksColdRows final : public ColdRows {
 public:
  RocksColdRows(std::unique_ptr<ScratchDir> scratch,
                std::unique_ptr<rocksdb::DB> db, size_t row_bytes)
      : scratch_(std::move(scratch)),
        db_(std::move(db)),
        row_bytes_(row_bytes) {
    write_.disableWAL = true;
  }

  absl::Status Read(absl::Span<const RowName> names, std::byte* rows,
                    bool* found) const override {
    return ReadAs(read_, names, rows, found);
  }
  absl::StatusOr<std::optional<Key>> Visit(
      PartitionIndex partition, Key first, size_t max_rows,
      absl::FunctionRef<void(Key, const std::byte*)> visit) const override {
    return VisitAs(read_, partition, first, max_rows, visit);
  }
  absl::Status Write(PartitionIndex partition, absl::Span<const Key> keys,
                     absl::Span<const std::byte* const> rows) override;
  absl::Status Delete(PartitionIndex partition,
                      absl::Span<const Key> keys) override;
  std::unique_ptr<const ColdRowsReader> TakeSnapshot() const override;

  const std::string& directory() const override { return scratch_->path(); }
  uint64_t memory_bytes() const override {
    return Property(rocksdb::DB::Properties::kCurSizeAllMemTables) +
           Property(rocksdb::DB::Properties::kEstimateTableReadersMem);
  }
  uint64_t disk_bytes() const override {
    return Property(rocksdb::DB::Properties::kTotalSstFilesSize);
  }

 private:
  class Snapshot;

  uint64_t Property(const std::string& name) const {
    uint64_t value = 0;
    return db_->GetIntProperty(name, &value) ? value : 0;
  }

  absl::Status ReadAs(const rocksdb::ReadOptions& options,
                      absl::Span<const RowName> names, std::byte* rows,
                      bool* found) const;
  absl::StatusOr<std::optional<Key>> VisitAs(
      const rocksdb::ReadOptions& options, PartitionIndex partition, Key first,
      size_t max_rows,
      absl::FunctionRef<void(Key, const std::byte*)> visit) const;
  absl::Status Apply(rocksdb::WriteBatch* batch, absl::string_view what);
  absl::Status ErrorOf(const rocksdb::Status& status,
                       absl::string_view what) const;
  absl::Status CheckSize(const rocksdb::Slice& row) const {
    if (row.size() == row_bytes_) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat("a row on disk in ", directory(), " has ", row.size(),
                     " bytes; legal is ", row_bytes_,
                     "; the files were changed from outside"));
  }

  // Constant.
  const std::unique_ptr<ScratchDir> scratch_;
  // Synchronises itself. Closed before its directory goes.
  const std::unique_ptr<rocksdb::DB> db_;
  const size_t row_bytes_;
  const rocksdb::ReadOptions read_;
  rocksdb::WriteOptions write_;
};

absl::Status RocksColdRows::ErrorOf(const rocksdb::Status& status,
                                    absl::string_view what) const {
  if (status.ok()) return absl::OkStatus();
  const std::string message =
      absl::StrCat("cannot ", what, " rows on disk in ", directory(), ": ",
                   status.ToString());
  if (status.IsNoSpace() ||
      status.subcode() == rocksdb::Status::SubCode::kNoSpace) {
    return absl::ResourceExhaustedError(
        absl::StrCat(message,
                     "; make room there, or raise the table's memory "
                     "budget"));
  }
  if (status.IsCorruption()) {
    return absl::DataLossError(absl::StrCat(
        message,
        "; start the servers again from a checkpoint, and look at the "
        "disk"));
  }
  return absl::InternalError(
      absl::StrCat(message, "; look at the disk and its permissions"));
}

// Rows as they were when it was made.
class RocksColdRows::Snapshot final : public ColdRowsReader {
 public:
  explicit Snapshot(const RocksColdRows* rows)
      : rows_(*rows), snapshot_(rows->db_.get()) {
    read_.snapshot = snapshot_.snapshot();
  }

  absl::Status Read(absl::Span<const RowName> names, std::byte* rows,
                    bool* found) const override {
    return rows_.ReadAs(read_, names, rows, found);
  }
  absl::StatusOr<std::optional<Key>> Visit(
      PartitionIndex partition, Key first, size_t max_rows,
      absl::FunctionRef<void(Key, const std::byte*)> visit) const override {
    return rows_.VisitAs(read_, partition, first, max_rows, visit);
  }

 private:
  const RocksColdRows& rows_;
  rocksdb::ManagedSnapshot snapshot_;
  rocksdb::ReadOptions read_;
};

std::unique_ptr<const ColdRowsReader> RocksColdRows::TakeSnapshot() const {
  return std::make_unique<Snapshot>(this);
}

absl::Status RocksColdRows::ReadAs(const rocksdb::ReadOptions& options,
                                   absl::Span<const RowName> names,
                                   std::byte* rows, bool* found) const {
  OARLOCK_CHECK(names.size() <= kMaxBatchRows);
  // Kept by the thread: a read allocates for its rows alone.
  thread_local std::vector<StoredName> stored;
  thread_local std::vector<rocksdb::Slice> slices;
  thread_local std::vector<rocksdb::PinnableSlice> values;
  thread_local std::vector<rocksdb::Status> statuses;
  const size_t n = names.size();
  stored.clear();
  slices.clear();
  for (const RowName& name : names) {
    stored.emplace_back(name.partition, name.key);
  }
  for (const StoredName& name : stored) slices.push_back(name.slice());
  if (values.size() < n) values.resize(n);
  statuses.assign(n, rocksdb::Status());
  db_->MultiGet(options, db_->DefaultColumnFamily(), n, slices.data(),
                values.data(), statuses.data());
  absl::Status result;
  for (size_t i = 0; i < n; ++i) {
    found[i] = statuses[i].ok();
    if (!found[i] && !statuses[i].IsNotFound()) {
      result.Update(ErrorOf(statuses[i], "read"));
    } else if (found[i]) {
      result.Update(CheckSize(values[i]));
      if (result.ok()) {
        std::memcpy(rows + i * row_bytes_, values[i].data(), row_bytes_);
      }
    }
    values[i].Reset();
  }
  return result;
}

absl::Status RocksColdRows::Apply(rocksdb::WriteBatch* batch,
                                  absl::string_view what) {
  rocksdb::Status status = db_->Write(write_, batch);
  if (!status.ok() && db_->Resume().ok()) {
    // What stopped it, a full disk for example, is over.
    status = db_->Write(write_, batch);
  }
  return ErrorOf(status, what);
}

absl::Status RocksColdRows::Write(PartitionIndex partition,
                                  absl::Span<const Key> keys,
                                  absl::Span<const std::byte* const> rows) {
  OARLOCK_CHECK(keys.size() == rows.size() && keys.size() <= kMaxBatchRows);
  rocksdb::WriteBatch batch(keys.size() *
                            (row_bytes_ + 2 * StoredName::kBytes));
  for (size_t i = 0; i < keys.size(); ++i) {
    const StoredName name(partition, keys[i]);
    OARLOCK_RETURN_IF_ERROR(ErrorOf(
        batch.Put(name.slice(), AsSlice(rows[i], row_bytes_)), "write"));
  }
  return Apply(&batch, "write");
}

absl::Status RocksColdRows::Delete(PartitionIndex partition,
                                   absl::Span<const Key> keys) {
  OARLOCK_CHECK(keys.size() <= kMaxBatchRows);
  rocksdb::WriteBatch batch;
  for (const Key key : keys) {
    OARLOCK_RETURN_IF_ERROR(
        ErrorOf(batch.Delete(StoredName(partition, key).slice()), "delete"));
  }
  return Apply(&batch, "delete");
}

absl::StatusOr<std::optional<Key>> RocksColdRows::VisitAs(
    const rocksdb::ReadOptions& options, PartitionIndex partition, Key first,
    size_t max_rows,
    absl::FunctionRef<void(Key, const std::byte*)> visit) const {
  const StoredName begin(partition, first);
  const StoredName last(partition, Key{std::numeric_limits<uint64_t>::max()});
  const std::unique_ptr<rocksdb::Iterator> rows(db_->NewIterator(options));
  rows->Seek(begin.slice());
  for (size_t i = 0; rows->Valid() && rows->key().compare(last.slice()) <= 0;
       ++i, rows->Next()) {
    const Key key = StoredName::KeyOf(rows->key());
    if (i == max_rows) return key;
    OARLOCK_RETURN_IF_ERROR(CheckSize(rows->value()));
    visit(key, reinterpret_cast<const std::byte*>(rows->value().data()));
  }
  OARLOCK_RETURN_IF_ERROR(ErrorOf(rows->status(), "read"));
  return std::optional<Key>();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ColdRows>> ColdRows::Create(
    const ColdRowsOptions& options) {
  OARLOCK_CHECK(options.row_bytes > 0);
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<ScratchDir> scratch,
                           ScratchDir::Create(options.directory));
  rocksdb::DB* db = nullptr;
  const rocksdb::Status opened = rocksdb::DB::Open(
      StoreOptions(
          std::max(options.buffer_bytes, ColdRowsOptions::kMinBufferBytes)),
      scratch->data_path(), &db);
  if (!opened.ok()) {
    return absl::InternalError(absl::StrCat(
        "cannot open a store for rows on disk in ", options.directory, ": ",
        opened.ToString(), "; look at the disk and its permissions"));
  }
  return std::make_unique<RocksColdRows>(
      std::move(scratch), std::unique_ptr<rocksdb::DB>(db), options.row_bytes);
}

}  // namespace oarlock::storage
