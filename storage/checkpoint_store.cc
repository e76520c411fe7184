#include "storage/checkpoint_store.h"

#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/file_checksum.h>
#include <rocksdb/listener.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/checkpoint.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "storage/file_sum.h"
#include "storage/rocksdb_status.h"
#include "storage/scratch_dir.h"

namespace oarlock::storage {
namespace {

// A record has a block of its own when it is larger.
constexpr size_t kBlockBytes = 64 << 10;
// What goes to the system at a time.
constexpr size_t kWriteBufferBytes = 4 << 20;
constexpr int kMaxOpenFiles = 256;
constexpr char kSumName[] = "XXH3-64";

// Sums a file's bytes while they are written.
class SumGenerator final : public rocksdb::FileChecksumGenerator {
 public:
  void Update(const char* data, size_t n) override { sum_.Add({data, n}); }
  void Finalize() override {
    const uint64_t sum = sum_.value();
    text_.assign(reinterpret_cast<const char*>(&sum), sizeof(sum));
  }
  std::string GetChecksum() const override { return text_; }
  const char* Name() const override { return kSumName; }

 private:
  FileSummer sum_;
  std::string text_;
};

class SumGeneratorFactory final : public rocksdb::FileChecksumGenFactory {
 public:
  std::unique_ptr<rocksdb::FileChecksumGenerator> CreateFileChecksumGenerator(
      const rocksdb::FileChecksumGenContext& context) override {
    return std::make_unique<SumGenerator>();
  }
  const char* Name() const override { return kSumName; }
};

// What RocksDB has to say reaches the caller as a status.
class NoLog final : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char* format, va_list arguments) override {}
};

// After an error the store opens its database anew. RocksDB's own ways back, in
// threads of theirs, end in one of its assertions now and then.
class NoRecovery final : public rocksdb::EventListener {
 public:
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason reason,
                            rocksdb::Status error,
                            bool* auto_recovery) override {
    *auto_recovery = false;
  }
};

rocksdb::Options StoreOptions(FileSystem* files) {
  rocksdb::Options options;
  options.env = files->env();
  options.create_if_missing = true;
  options.listeners.push_back(std::make_shared<NoRecovery>());
  options.max_bgerror_resume_count = 0;
  options.info_log = std::make_shared<NoLog>();
  options.file_checksum_gen_factory = std::make_shared<SumGeneratorFactory>();
  options.disable_auto_compactions = true;
  options.avoid_flush_during_shutdown = true;
  options.max_open_files = kMaxOpenFiles;
  options.writable_file_max_buffer_size = kWriteBufferBytes;
  options.compression = rocksdb::kNoCompression;
  options.bottommost_compression = rocksdb::kNoCompression;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;

  rocksdb::BlockBasedTableOptions table;
  table.block_size = kBlockBytes;
  table.no_block_cache = true;
  // A record has a sum, a file has a sum: a third one is CPU time of training.
  table.checksum = rocksdb::kNoChecksum;
  table.format_version = 5;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

// A file that a writer has finished.
struct WrittenFile {
  std::string path;
  std::string sum;
  RecordName first;
  RecordName last;
  uint64_t bytes = 0;
};

class RocksCheckpointStore;

class RocksCutWriter final : public CutWriter {
 public:
  RocksCutWriter(RocksCheckpointStore* store, uint64_t cut, std::string folder)
      : store_(store), cut_(cut), folder_(std::move(folder)) {}
  ~RocksCutWriter() override;

  std::unique_ptr<RecordWriter> NewRecordWriter() override;
  absl::Status Finish() override;
  uint64_t written_bytes() const override {
    absl::MutexLock lock(&mutex_);
    return written_bytes_;
  }

  // For its writers.
  RocksCheckpointStore* store() const { return store_; }
  uint64_t cut() const { return cut_; }
  absl::StatusOr<std::string> NextPath();
  void AddFile(WrittenFile file);
  void WriterEnds(bool finished);

 private:
  // Constant.
  RocksCheckpointStore* const store_;
  const uint64_t cut_;
  const std::string folder_;

  mutable absl::Mutex mutex_;
  bool folder_made_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  int num_paths_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_writers_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_abandoned_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t written_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<WrittenFile> written_ ABSL_GUARDED_BY(mutex_);
};

class RocksCheckpointStore final : public CheckpointStore {
 public:
  RocksCheckpointStore(const CheckpointStoreOptions& options,
                       std::unique_ptr<ScratchDir> scratch)
      : options_(options),
        scratch_(std::move(scratch)),
        rocks_(StoreOptions(options.files)) {}

  // Opens the database unless it is open.
  absl::Status Open() ABSL_LOCKS_EXCLUDED(files_mutex_) {
    absl::MutexLock lock(&files_mutex_);
    return OpenLocked();
  }

  std::unique_ptr<CutWriter> BeginCut(uint64_t cut) override;
  absl::StatusOr<std::vector<StoredFile>> Publish(
      const std::string& folder) override;
  absl::Status Forget(uint64_t begin_cut, uint64_t end_cut) override;
  const std::string& directory() const override { return scratch_->path(); }
  uint64_t disk_bytes() const override {
    absl::MutexLock lock(&files_mutex_);
    uint64_t bytes = 0;
    if (db_ == nullptr) return bytes;
    db_->GetIntProperty(rocksdb::DB::Properties::kTotalSstFilesSize, &bytes);
    return bytes;
  }

  // For cuts and their writers.
  FileSystem* files() const { return options_.files; }
  uint64_t file_bytes() const { return options_.file_bytes; }
  const rocksdb::Options& rocks() const { return rocks_; }
  absl::Status Ingest(absl::Span<const WrittenFile> written);
  void CutEnds();

 private:
  absl::Status OpenLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(files_mutex_);
  // The same status. One that changed files and failed has left the database
  // with an error that it does not leave: the next one opens it anew, as it
  // was before.
  absl::Status Changed(const rocksdb::Status& status, absl::string_view what)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(files_mutex_);
  // Sums of the files that the published folder has.
  absl::StatusOr<std::vector<StoredFile>> FilesOf(const std::string& folder)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(files_mutex_);

  // Constant.
  const CheckpointStoreOptions options_;
  const std::unique_ptr<ScratchDir> scratch_;
  const rocksdb::Options rocks_;

  // Held where the files of the database change or are listed.
  mutable absl::Mutex files_mutex_;
  // Closed before its directory goes. None after an error.
  std::unique_ptr<rocksdb::DB> db_ ABSL_GUARDED_BY(files_mutex_);

  absl::Mutex mutex_;
  uint64_t last_cut_ ABSL_GUARDED_BY(mutex_) = 0;
  bool cut_is_open_ ABSL_GUARDED_BY(mutex_) = false;
};

class RocksRecordWriter final : public RecordWriter {
 public:
  explicit RocksRecordWriter(RocksCutWriter* cut) : cut_(cut) {}
  ~RocksRecordWriter() override { cut_->WriterEnds(finished_); }

  absl::Status Add(const RecordName& name, std::string& bytes) override;
  absl::Status Finish() override;

 private:
  absl::Status BeginFile();
  absl::Status FinishFile();

  RocksCutWriter* const cut_;
  // The file that is being written; none between two.
  std::unique_ptr<rocksdb::SstFileWriter> sst_;
  WrittenFile file_;
  std::optional<RecordName> last_;
  bool finished_ = false;
};

absl::Status RocksRecordWriter::BeginFile() {
  OARLOCK_ASSIGN_OR_RETURN(file_.path, cut_->NextPath());
  // Past the page cache: training has better use for it, and the last sync has
  // nothing left to do.
  rocksdb::EnvOptions direct;
  direct.use_direct_writes = true;
  // Its blocks are not looked for one by one: no filter.
  sst_ = std::make_unique<rocksdb::SstFileWriter>(
      direct, cut_->store()->rocks(), nullptr,
      /*invalidate_page_cache=*/false, rocksdb::Env::IOPriority::IO_TOTAL,
      /*skip_filters=*/true);
  return FromRocksDb(sst_->Open(file_.path), "make", file_.path);
}

absl::Status RocksRecordWriter::FinishFile() {
  rocksdb::ExternalSstFileInfo info;
  OARLOCK_RETURN_IF_ERROR(
      FromRocksDb(sst_->Finish(&info), "write", file_.path));
  sst_.reset();
  OARLOCK_CHECK(info.file_checksum_func_name == kSumName);
  file_.sum = info.file_checksum;
  file_.last = *last_;
  file_.bytes = info.file_size;
  cut_->AddFile(std::exchange(file_, WrittenFile()));
  return absl::OkStatus();
}

absl::Status RocksRecordWriter::Add(const RecordName& name,
                                    std::string& bytes) {
  OARLOCK_CHECK(!finished_ && name.cut == cut_->cut());
  OARLOCK_CHECK(!last_.has_value() || *last_ < name);
  OARLOCK_CHECK(bytes.size() <= kMaxRecordBytes);
  if (sst_ == nullptr) {
    OARLOCK_RETURN_IF_ERROR(BeginFile());
    file_.first = name;
  }
  const auto encoded = EncodeRecordName(name);
  SealRecord({encoded.data(), encoded.size()}, bytes);
  OARLOCK_RETURN_IF_ERROR(FromRocksDb(
      sst_->Put({encoded.data(), encoded.size()}, bytes), "write", file_.path));
  bytes.clear();
  last_ = name;
  if (sst_->FileSize() < cut_->store()->file_bytes()) return absl::OkStatus();
  return FinishFile();
}

absl::Status RocksRecordWriter::Finish() {
  OARLOCK_CHECK(!finished_);
  if (sst_ != nullptr) OARLOCK_RETURN_IF_ERROR(FinishFile());
  finished_ = true;
  return absl::OkStatus();
}

RocksCutWriter::~RocksCutWriter() {
  absl::MutexLock lock(&mutex_);
  OARLOCK_CHECK(num_writers_ == 0);
  // What cannot be removed goes with the store.
  if (folder_made_) store_->files()->RemoveTree(folder_).IgnoreError();
  if (!ended_) store_->CutEnds();
}

std::unique_ptr<RecordWriter> RocksCutWriter::NewRecordWriter() {
  absl::MutexLock lock(&mutex_);
  OARLOCK_CHECK(!ended_);
  ++num_writers_;
  return std::make_unique<RocksRecordWriter>(this);
}

absl::StatusOr<std::string> RocksCutWriter::NextPath() {
  absl::MutexLock lock(&mutex_);
  if (!folder_made_) {
    OARLOCK_RETURN_IF_ERROR(store_->files()->MakeFolders(folder_));
    folder_made_ = true;
  }
  return absl::StrFormat("%s/%06d.sst", folder_, num_paths_++);
}

void RocksCutWriter::AddFile(WrittenFile file) {
  absl::MutexLock lock(&mutex_);
  written_bytes_ += file.bytes;
  written_.push_back(std::move(file));
}

void RocksCutWriter::WriterEnds(bool finished) {
  absl::MutexLock lock(&mutex_);
  --num_writers_;
  if (!finished) ++num_abandoned_;
}

absl::Status RocksCutWriter::Finish() {
  absl::MutexLock lock(&mutex_);
  OARLOCK_CHECK(!ended_ && num_writers_ == 0);
  if (num_abandoned_ > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(num_abandoned_, " of the writers of cut ", cut_,
                     " did not finish; all must; write the next cut"));
  }
  std::sort(written_.begin(), written_.end(),
            [](const WrittenFile& a, const WrittenFile& b) {
              return a.first < b.first;
            });
  for (size_t i = 1; i < written_.size(); ++i) {
    OARLOCK_CHECK(written_[i - 1].last < written_[i].first);
  }
  OARLOCK_RETURN_IF_ERROR(store_->Ingest(written_));
  ended_ = true;
  store_->CutEnds();
  return absl::OkStatus();
}

std::unique_ptr<CutWriter> RocksCheckpointStore::BeginCut(uint64_t cut) {
  absl::MutexLock lock(&mutex_);
  OARLOCK_CHECK(!cut_is_open_ && cut > last_cut_);
  cut_is_open_ = true;
  last_cut_ = cut;
  return std::make_unique<RocksCutWriter>(
      this, cut, absl::StrFormat("%s/cut-%08d", scratch_->data_path(), cut));
}

absl::Status RocksCheckpointStore::OpenLocked() {
  if (db_ != nullptr) return absl::OkStatus();
  const std::string path = absl::StrCat(scratch_->data_path(), "/db");
  rocksdb::DB* db = nullptr;
  OARLOCK_RETURN_IF_ERROR(
      FromRocksDb(rocksdb::DB::Open(rocks_, path, &db), "open", path));
  db_.reset(db);
  return absl::OkStatus();
}

absl::Status RocksCheckpointStore::Changed(const rocksdb::Status& status,
                                           absl::string_view what) {
  if (!status.ok()) db_.reset();
  return FromRocksDb(status, what, directory());
}

void RocksCheckpointStore::CutEnds() {
  absl::MutexLock lock(&mutex_);
  cut_is_open_ = false;
}

absl::Status RocksCheckpointStore::Ingest(
    absl::Span<const WrittenFile> written) {
  if (written.empty()) return absl::OkStatus();
  rocksdb::IngestExternalFileArg files;
  files.options.move_files = true;
  files.options.snapshot_consistency = false;
  files.options.allow_global_seqno = false;
  files.options.write_global_seqno = false;
  files.options.verify_file_checksum = false;
  files.options.fail_if_not_bottommost_level = true;
  for (const WrittenFile& file : written) {
    files.external_files.push_back(file.path);
    files.files_checksums.push_back(file.sum);
    files.files_checksum_func_names.emplace_back(kSumName);
  }
  absl::MutexLock lock(&files_mutex_);
  OARLOCK_RETURN_IF_ERROR(OpenLocked());
  files.column_family = db_->DefaultColumnFamily();
  return Changed(db_->IngestExternalFiles({files}), "add records to");
}

absl::StatusOr<std::vector<StoredFile>> RocksCheckpointStore::FilesOf(
    const std::string& folder) {
  std::vector<rocksdb::LiveFileMetaData> live;
  db_->GetLiveFilesMetaData(&live);
  std::map<std::string, StoredFile> sums;
  for (const rocksdb::LiveFileMetaData& file : live) {
    StoredFile stored{.name = file.relative_filename, .bytes = file.size};
    OARLOCK_CHECK(file.file_checksum.size() == sizeof(stored.xxh3));
    std::memcpy(&stored.xxh3, file.file_checksum.data(), sizeof(stored.xxh3));
    sums[stored.name] = stored;
  }
  OARLOCK_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                           files()->List(folder));
  std::vector<StoredFile> stored;
  for (const std::string& name : names) {
    if (const auto known = sums.find(name); known != sums.end()) {
      stored.push_back(known->second);
      continue;
    }
    OARLOCK_ASSIGN_OR_RETURN(StoredFile summed,
                             SumFile(files(), absl::StrCat(folder, "/", name)));
    summed.name = name;
    stored.push_back(std::move(summed));
  }
  return stored;
}

absl::StatusOr<std::vector<StoredFile>> RocksCheckpointStore::Publish(
    const std::string& folder) {
  absl::MutexLock lock(&files_mutex_);
  OARLOCK_ASSIGN_OR_RETURN(const bool exists, files()->Exists(folder));
  if (exists) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder,
                     " is there already; a checkpoint needs a new "
                     "folder; remove it or write the next cut"));
  }
  OARLOCK_RETURN_IF_ERROR(OpenLocked());
  rocksdb::Checkpoint* made = nullptr;
  OARLOCK_RETURN_IF_ERROR(FromRocksDb(
      rocksdb::Checkpoint::Create(db_.get(), &made), "publish", folder));
  const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
  OARLOCK_RETURN_IF_ERROR(
      FromRocksDb(checkpoint->CreateCheckpoint(folder), "publish", folder));
  absl::StatusOr<std::vector<StoredFile>> stored = FilesOf(folder);
  if (stored.ok()) {
    const absl::Status synced =
        files()->SyncFolder(folder.substr(0, folder.find_last_of('/') + 1));
    if (synced.ok()) return stored;
    stored = synced;
  }
  files()->RemoveTree(folder).IgnoreError();
  return stored;
}

absl::Status RocksCheckpointStore::Forget(uint64_t begin_cut,
                                          uint64_t end_cut) {
  OARLOCK_CHECK(begin_cut <= end_cut);
  const auto begin = EncodeRecordName({.cut = begin_cut});
  const auto end = EncodeRecordName({.cut = end_cut});
  const rocksdb::Slice begin_slice(begin.data(), begin.size());
  const rocksdb::Slice end_slice(end.data(), end.size());
  const rocksdb::RangePtr range(&begin_slice, &end_slice);
  absl::MutexLock lock(&files_mutex_);
  OARLOCK_RETURN_IF_ERROR(OpenLocked());
  return Changed(
      rocksdb::DeleteFilesInRanges(db_.get(), db_->DefaultColumnFamily(),
                                   &range, 1, /*include_end=*/false),
      "remove old records of");
}

}  // namespace

absl::StatusOr<std::unique_ptr<CheckpointStore>> CheckpointStore::Create(
    const CheckpointStoreOptions& options) {
  OARLOCK_CHECK(options.file_bytes >= CheckpointStoreOptions::kMinFileBytes);
  OARLOCK_ASSIGN_OR_RETURN(
      std::unique_ptr<ScratchDir> scratch,
      ScratchDir::Create(options.directory, options.files));
  auto store =
      std::make_unique<RocksCheckpointStore>(options, std::move(scratch));
  OARLOCK_RETURN_IF_ERROR(store->Open());
  return store;
}

}  // namespace oarlock::storage
