#include "pserver/checkpoint/part_writer.h"

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "checkpoint/manifest.h"
#include "pserver/checkpoint/fault_points.h"
#include "pserver/checkpoint/save_throttle.h"
#include "sparse_table/cut/cut_sink.h"
#include "sparse_table/cut/table_cuts.h"
#include "storage/checkpoint_record.h"

namespace oarlock::pserver {
namespace {

// The records of one unit, in their order.
class UnitRecords : public sparse_table::CutSink {
 public:
  UnitRecords(storage::RecordWriter* writer, SaveThrottle* throttle,
              const storage::RecordName& first)
      : writer_(writer), throttle_(throttle), name_(first) {}

  absl::Status Rows(absl::Span<const std::byte> packed,
                    size_t num_rows) override {
    return Add(packed.data(), packed.size());
  }
  // Kept until all rows are written, since names of records ascend.
  absl::Status Erased(absl::Span<const Key> keys) override {
    erased_.insert(erased_.end(), keys.begin(), keys.end());
    return absl::OkStatus();
  }
  absl::Status Floats(absl::Span<const float> floats) {
    return Add(floats.data(), floats.size() * sizeof(float));
  }
  template <typename State>
  absl::Status Finish(const State& state) {
    constexpr size_t kKeysPerRecord = kRecordBytes / sizeof(Key);
    Next(storage::RecordKind::kErased);
    for (size_t i = 0; i < erased_.size(); i += kKeysPerRecord) {
      const size_t count = std::min(kKeysPerRecord, erased_.size() - i);
      OARLOCK_RETURN_IF_ERROR(Add(&erased_[i], count * sizeof(Key)));
    }
    Next(storage::RecordKind::kState);
    buffer_ = state.SerializeAsString();
    bytes_ += buffer_.size();
    return writer_->Add(name_, buffer_);
  }

  uint64_t bytes() const { return bytes_; }

 private:
  void Next(storage::RecordKind kind) {
    name_.kind = kind;
    name_.number = 0;
  }
  absl::Status Add(const void* data, size_t size) {
    buffer_.assign(static_cast<const char*>(data), size);
    bytes_ += size;
    OARLOCK_RETURN_IF_ERROR(writer_->Add(name_, buffer_));
    ++name_.number;
    throttle_->Rest();
    return absl::OkStatus();
  }

  storage::RecordWriter* const writer_;
  SaveThrottle* const throttle_;
  storage::RecordName name_;
  std::vector<Key> erased_;
  std::string buffer_;
  uint64_t bytes_ = 0;
};

}  // namespace

bool PartWriter::WantsFull(const Table& table, size_t num_tables) const {
  const size_t num_deltas =
      table.units.empty()
          ? 0
          : std::max_element(table.units.begin(), table.units.end(),
                             [](const RecordCuts& a, const RecordCuts& b) {
                               return a.deltas.size() < b.deltas.size();
                             })
                ->deltas.size();
  return num_deltas >= MaxDeltas(num_tables, num_threads_) ||
         static_cast<double>(table.delta_bytes) >
             kMaxDeltaShare * static_cast<double>(table.base_bytes);
}

void PartWriter::Freeze(uint64_t cut) {
  OARLOCK_CHECK(frozen_ == 0 && cut > 0);
  frozen_ = cut;
  frozen_tables_.clear();
  const std::vector<TableEntry*> entries = registry_->Entries();
  for (TableEntry* entry : entries) {
    FrozenTable& table = frozen_tables_.emplace_back();
    table.entry = entry;
    table.next = tables_[TableId(entry->config.id())];
    table.full = WantsFull(table.next, entries.size());
    table.version = entry->aggregator->Version();
    if (entry->sparse != nullptr) {
      entry->sparse->cuts().Freeze(table.full
                                       ? sparse_table::SaveKind::kFull
                                       : sparse_table::SaveKind::kChanges);
      for (uint32_t p = 0; p < map_.num_partitions(); ++p) {
        if (map_.Owner(PartitionIndex(p)) == server_) table.owned.push_back(p);
      }
      table.next.units.resize(map_.num_partitions());
    } else {
      entry->dense->Freeze(cut);
      for (uint32_t b = 0; b < entry->dense->num_blocks(); ++b) {
        if (entry->dense->Owns(BlockIndex(b))) table.owned.push_back(b);
      }
      table.next.units.resize(entry->dense->num_blocks());
    }
  }
}

std::vector<TableId> PartWriter::frozen_tables() const {
  std::vector<TableId> ids;
  for (const FrozenTable& table : frozen_tables_) {
    ids.emplace_back(table.entry->config.id());
  }
  return ids;
}

absl::Status PartWriter::WritePartition(storage::RecordWriter* records,
                                        SaveThrottle* throttle, uint32_t unit,
                                        FrozenTable* table,
                                        Written* written) const {
  UnitRecords sink(records, throttle,
                   {.cut = frozen_,
                    .table = TableId(table->entry->config.id()),
                    .unit = unit});
  OARLOCK_ASSIGN_OR_RETURN(
      sparse_table::SavedPartition saved,
      table->entry->sparse->cuts().SavePartition(PartitionIndex(unit), sink));
  RecordCuts& cuts = table->next.units[unit];
  if (saved.full) {
    cuts = {.base = frozen_, .deltas = {}};
  } else if (saved.saved_rows + saved.erased_keys > 0) {
    cuts.deltas.push_back(frozen_);
  }
  saved.state.set_base_cut(cuts.base);
  for (const uint64_t delta : cuts.deltas) saved.state.add_delta_cuts(delta);
  OARLOCK_RETURN_IF_ERROR(sink.Finish(saved.state));
  written->rows += saved.state.rows();
  written->bytes += sink.bytes();
  written->digest += saved.state.digest();
  written->all_full = written->all_full && saved.full;
  return absl::OkStatus();
}

absl::Status PartWriter::WriteBlock(storage::RecordWriter* records,
                                    SaveThrottle* throttle, uint32_t unit,
                                    FrozenTable* table,
                                    Written* written) const {
  const sparse_table::DenseBlockCut block =
      table->entry->dense->SaveBlock(BlockIndex(unit), table->full);
  UnitRecords sink(records, throttle,
                   {.cut = frozen_,
                    .table = TableId(table->entry->config.id()),
                    .unit = unit});
  if (!block.floats.empty()) {
    OARLOCK_RETURN_IF_ERROR(sink.Floats(block.floats));
  }
  OARLOCK_RETURN_IF_ERROR(sink.Finish(block.state));
  table->next.units[unit] = {.base = block.state.base_cut(), .deltas = {}};
  ++written->rows;
  written->bytes += sink.bytes();
  written->digest += block.state.digest();
  written->all_full = written->all_full && !block.floats.empty();
  return absl::OkStatus();
}

PartWriter::Written PartWriter::WriteUnits(storage::CutWriter* writer,
                                           size_t first, size_t end,
                                           FrozenTable* table) const {
  Written written;
  SaveThrottle throttle([table] { return table->entry->aggregator->Version(); },
                        clock_);
  const std::unique_ptr<storage::RecordWriter> records =
      writer->NewRecordWriter();
  for (size_t i = first; i < end; ++i) {
    const uint32_t unit = table->owned[i];
    written.status =
        table->entry->sparse != nullptr
            ? WritePartition(records.get(), &throttle, unit, table, &written)
            : WriteBlock(records.get(), &throttle, unit, table, &written);
    if (!written.status.ok()) return written;
    FaultPoint("cut.save.between_units");
  }
  written.status = records->Finish();
  return written;
}

absl::Status PartWriter::WriteTable(storage::CutWriter* writer,
                                    FrozenTable* table,
                                    v1::TablePart* part) const {
  const size_t num_owned = table->owned.size();
  std::vector<Written> written(num_threads_);
  std::vector<std::thread> threads;
  for (int t = 0; t < num_threads_; ++t) {
    const size_t first = num_owned * t / num_threads_;
    const size_t end = num_owned * (t + 1) / num_threads_;
    if (first == end) continue;
    threads.emplace_back([=, this, &written] {
      written[t] = WriteUnits(writer, first, end, table);
    });
  }
  for (std::thread& thread : threads) thread.join();
  bool full = true;
  uint64_t bytes = 0;
  uint64_t digest = 0;
  for (const Written& one : written) {
    OARLOCK_RETURN_IF_ERROR(
        Annotate(one.status,
                 absl::StrCat("saving table ", table->entry->config.name())));
    full = full && one.all_full;
    bytes += one.bytes;
    digest += one.digest;
    part->set_rows(part->rows() + one.rows);
  }
  part->set_table(table->entry->config.id());
  part->set_version(table->version);
  part->set_full(full);
  if (full) {
    part->set_digest(digest);
    table->next.base_bytes = bytes;
    table->next.delta_bytes = 0;
  } else {
    table->next.delta_bytes += bytes;
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::ServerPart> PartWriter::Save(const std::string& folder) {
  OARLOCK_CHECK(frozen_ != 0);
  const absl::Time start = clock_.Now();
  v1::ServerPart part;
  part.set_server_index(server_.value());
  part.set_directory(checkpoint::ServerFolderName(server_.value()));
  const std::unique_ptr<storage::CutWriter> writer = store_->BeginCut(frozen_);
  for (FrozenTable& table : frozen_tables_) {
    OARLOCK_RETURN_IF_ERROR(
        WriteTable(writer.get(), &table, part.add_tables()));
  }
  OARLOCK_RETURN_IF_ERROR(writer->Finish());
  part.set_written_bytes(writer->written_bytes());
  FaultPoint("cut.save.before_publish");
  OARLOCK_ASSIGN_OR_RETURN(
      const std::vector<storage::StoredFile> files,
      store_->Publish(absl::StrCat(folder, "/", part.directory())));
  FaultPoint("cut.save.after_publish");
  checkpoint::SetFiles(files, &part);
  part.set_write_seconds(absl::ToDoubleSeconds(clock_.Now() - start));
  return part;
}

void PartWriter::Thaw(bool current) {
  OARLOCK_CHECK(frozen_ != 0);
  uint64_t oldest = std::numeric_limits<uint64_t>::max();
  for (FrozenTable& table : frozen_tables_) {
    if (table.entry->sparse != nullptr) {
      table.entry->sparse->cuts().Thaw(current);
    } else {
      table.entry->dense->Thaw(current);
    }
    if (!current) continue;
    for (const uint32_t unit : table.owned) {
      oldest = std::min(oldest, table.next.units[unit].base);
    }
    tables_[TableId(table.entry->config.id())] = std::move(table.next);
  }
  // Changes are never older than their base. Records that are not forgotten now
  // take room until the next time.
  if (current && oldest != std::numeric_limits<uint64_t>::max() &&
      oldest > oldest_cut_) {
    store_->Forget(oldest_cut_, oldest).IgnoreError();
    oldest_cut_ = oldest;
  }
  frozen_tables_.clear();
  frozen_ = 0;
}

}  // namespace oarlock::pserver
