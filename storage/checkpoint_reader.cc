#include "storage/checkpoint_reader.h"

#include <rocksdb/db.h>
#include <rocksdb/iterator.h>
#include <rocksdb/table.h>

#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "storage/file_sum.h"
#include "storage/rocksdb_status.h"

namespace oarlock::storage {
namespace {

// Of one thread that reads records in order.
constexpr size_t kReadAheadBytes = 2 << 20;

// What RocksDB has to say reaches the caller as a status; a log would need a
// folder that can be written.
class NoLog final : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char* format, va_list arguments) override {}
};

rocksdb::Options ReaderOptions(FileSystem* files) {
  rocksdb::Options options;
  options.env = files->env();
  options.info_log = std::make_shared<NoLog>();
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  rocksdb::BlockBasedTableOptions table;
  table.no_block_cache = true;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

absl::string_view View(const rocksdb::Slice& slice) {
  return {slice.data(), slice.size()};
}

class RocksCheckpointReader final : public CheckpointReader {
 public:
  RocksCheckpointReader(std::string folder, std::unique_ptr<rocksdb::DB> db)
      : folder_(std::move(folder)), db_(std::move(db)) {
    // Each record has a sum of its own.
    read_.verify_checksums = false;
    read_.fill_cache = false;
    scan_ = read_;
    scan_.readahead_size = kReadAheadBytes;
  }

  absl::Status Visit(uint64_t cut, TableId table, uint32_t unit,
                     RecordKind kind, Visitor visit) const override;
  absl::StatusOr<std::string> Read(const RecordName& name) const override;
  absl::StatusOr<std::vector<RecordName>> StatesOf(uint64_t cut) const override;

 private:
  absl::StatusOr<RecordName> NameOf(const rocksdb::Slice& name) const;
  absl::StatusOr<absl::string_view> BytesOf(const RecordName& name,
                                            const rocksdb::Slice& value) const;

  const std::string folder_;
  const std::unique_ptr<rocksdb::DB> db_;
  rocksdb::ReadOptions read_;
  rocksdb::ReadOptions scan_;
};

absl::StatusOr<RecordName> RocksCheckpointReader::NameOf(
    const rocksdb::Slice& name) const {
  const std::optional<RecordName> decoded = DecodeRecordName(View(name));
  if (decoded.has_value()) return *decoded;
  return absl::DataLossError(absl::StrCat(
      folder_, " has a record with the name 0x", name.ToString(/*hex=*/true),
      "; legal are cut, table, unit, kind and number; use another checkpoint"));
}

absl::StatusOr<absl::string_view> RocksCheckpointReader::BytesOf(
    const RecordName& name, const rocksdb::Slice& value) const {
  const auto encoded = EncodeRecordName(name);
  const std::optional<absl::string_view> bytes =
      OpenRecord({encoded.data(), encoded.size()}, View(value));
  if (bytes.has_value()) return *bytes;
  return absl::DataLossError(absl::StrCat(
      folder_, " has a record, ", ToString(name), ", of ", value.size(),
      " bytes that do not fit their checksum; use "
      "another checkpoint, and look at the disk"));
}

absl::Status RocksCheckpointReader::Visit(uint64_t cut, TableId table,
                                          uint32_t unit, RecordKind kind,
                                          Visitor visit) const {
  RecordName wanted{.cut = cut, .table = table, .unit = unit, .kind = kind};
  const auto first = EncodeRecordName(wanted);
  wanted.number = std::numeric_limits<uint32_t>::max();
  const auto last = EncodeRecordName(wanted);
  // So far reads ahead; beyond it is one more record at most.
  const rocksdb::Slice last_slice(last.data(), last.size());
  const std::unique_ptr<rocksdb::Iterator> records(db_->NewIterator(scan_));
  for (records->Seek({first.data(), first.size()});
       records->Valid() && records->key().compare(last_slice) <= 0;
       records->Next()) {
    OARLOCK_ASSIGN_OR_RETURN(const RecordName name, NameOf(records->key()));
    OARLOCK_ASSIGN_OR_RETURN(const absl::string_view bytes,
                             BytesOf(name, records->value()));
    OARLOCK_RETURN_IF_ERROR(visit(name, bytes));
  }
  return FromRocksDb(records->status(), "read records of", folder_);
}

absl::StatusOr<std::string> RocksCheckpointReader::Read(
    const RecordName& name) const {
  const auto encoded = EncodeRecordName(name);
  rocksdb::PinnableSlice value;
  const rocksdb::Status status =
      db_->Get(read_, db_->DefaultColumnFamily(),
               {encoded.data(), encoded.size()}, &value);
  if (status.IsNotFound()) {
    return absl::NotFoundError(absl::StrCat(folder_, " has no record ",
                                            ToString(name),
                                            "; use another checkpoint"));
  }
  OARLOCK_RETURN_IF_ERROR(FromRocksDb(status, "read a record of", folder_));
  OARLOCK_ASSIGN_OR_RETURN(const absl::string_view bytes, BytesOf(name, value));
  return std::string(bytes);
}

absl::StatusOr<std::vector<RecordName>> RocksCheckpointReader::StatesOf(
    uint64_t cut) const {
  std::vector<RecordName> states;
  // The unit whose state is looked for.
  RecordName next{.cut = cut, .kind = RecordKind::kState};
  const std::unique_ptr<rocksdb::Iterator> records(db_->NewIterator(read_));
  for (;;) {
    const auto encoded = EncodeRecordName(next);
    records->Seek({encoded.data(), encoded.size()});
    if (!records->Valid()) break;
    OARLOCK_ASSIGN_OR_RETURN(const RecordName name, NameOf(records->key()));
    if (name.cut != cut) break;
    next = name;
    next.kind = RecordKind::kState;
    next.number = 0;
    if (name.kind != RecordKind::kState) continue;
    states.push_back(name);
    // Past this one: the first name that a later one can have.
    next.number = name.number + 1;
    if (next.number == 0) break;
  }
  OARLOCK_RETURN_IF_ERROR(
      FromRocksDb(records->status(), "read records of", folder_));
  return states;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CheckpointReader>> CheckpointReader::Open(
    const CheckpointReaderOptions& options) {
  if (options.verify_threads > 0) {
    OARLOCK_RETURN_IF_ERROR(VerifyFiles(
        options.files, options.folder, options.stored, options.verify_threads));
  }
  rocksdb::DB* db = nullptr;
  const rocksdb::Status opened = rocksdb::DB::OpenForReadOnly(
      ReaderOptions(options.files), options.folder, &db);
  if (opened.IsNotFound() || opened.IsPathNotFound() ||
      opened.IsInvalidArgument()) {
    return absl::DataLossError(absl::StrCat(
        options.folder, " is no database of records: ", opened.ToString(),
        "; use another checkpoint"));
  }
  OARLOCK_RETURN_IF_ERROR(
      FromRocksDb(opened, "open the records of", options.folder));
  return std::make_unique<RocksCheckpointReader>(
      options.folder, std::unique_ptr<rocksdb::DB>(db));
}

}  // namespace oarlock::storage
