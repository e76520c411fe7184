#include "sparse_table/tier.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/mix.h"
#include "base/status_macros.h"
#include "sparse_table/fault_points.h"
#include "sparse_table/rows/row_index.h"
#include "sparse_table/rows/row_layout.h"

namespace oarlock::sparse_table {
namespace {

// Memory for buffers of the store, as a share of the budget and at most.
constexpr uint64_t kBufferShare = 8;
constexpr uint64_t kMaxBufferBytes = uint64_t{128} << 20;

// An index has just doubled at worst: half of the least load at which it does.
uint64_t IndexBytes(uint64_t num_rows) {
  constexpr double kBucketBytes = 64;
  return static_cast<uint64_t>(
      static_cast<double>(num_rows) *
      (kBucketBytes / (RowIndex::kEntries * RowIndex::kMinLoad / 2)));
}

// Rows of a partition in whole chunks, since a chunk is what it takes.
absl::StatusOr<size_t> QuotaOf(const TierOptions& options,
                               const RowSpace& rows) {
  const uint64_t chunk_bytes =
      Arena::kChunkBytes + IndexBytes(rows.rows_per_chunk());
  const uint64_t num_chunks =
      (options.budget_bytes >> options.partition_bits) / chunk_bytes;
  if (num_chunks == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "memory_budget_bytes is ", options.budget_bytes,
        "; legal is 0 or at least ", chunk_bytes << options.partition_bits,
        ", ", chunk_bytes, " for each of ", 1 << options.partition_bits,
        " partitions; raise it (--memory_budget_mb) or have fewer partitions "
        "(--num_partitions)"));
  }
  return num_chunks * rows.rows_per_chunk();
}

// Kept by the thread, so that a group allocates nothing.
struct Scratch {
  std::vector<uint64_t> mixes;
  std::vector<RowRef> candidates;
  std::vector<storage::ColdRows::RowName> names;
  std::vector<std::byte> stored;
  std::vector<char> found;
};
Scratch& ThreadScratch() {
  thread_local Scratch scratch;
  return scratch;
}

// Appends those of `keys` that have no row in memory to `names`; calls
// visit(row) for the rows of the others.
template <typename Visit>
void FindMissing(const RowSpace& rows, const Partition& partition,
                 PartitionIndex index, absl::Span<const Key> keys, Visit visit,
                 std::vector<storage::ColdRows::RowName>* names)
    ABSL_SHARED_LOCKS_REQUIRED(partition.lock()) {
  Scratch& scratch = ThreadScratch();
  scratch.mixes.resize(keys.size());
  scratch.candidates.resize(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    scratch.mixes[i] = Mix(keys[i]);
    partition.PrefetchBucket(scratch.mixes[i]);
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    const RowRef row = partition.FindCandidate(scratch.mixes[i]);
    scratch.candidates[i] = row;
    if (row != kNoRow) __builtin_prefetch(rows.At(row));
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    RowRef row = scratch.candidates[i];
    if (row != kNoRow && rows.KeyAt(row) != keys[i]) {
      row = partition.Find(keys[i], scratch.mixes[i]);
    }
    if (row == kNoRow) {
      names->push_back({index, keys[i]});
    } else {
      visit(rows.At(row));
    }
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tier>> Tier::Create(const RowSpace* rows,
                                                   const TierOptions& options) {
  size_t quota = options.partition_memory_rows;
  if (quota == 0) {
    OARLOCK_ASSIGN_OR_RETURN(quota, QuotaOf(options, *rows));
  }
  storage::ColdRowsOptions store;
  store.directory = options.directory;
  store.row_bytes = rows->layout().row_bytes() - sizeof(Key);
  store.buffer_bytes =
      std::clamp(options.budget_bytes / kBufferShare,
                 storage::ColdRowsOptions::kMinBufferBytes, kMaxBufferBytes);
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<storage::ColdRows> cold_rows,
                           storage::ColdRows::Create(store));
  return std::unique_ptr<Tier>(new Tier(rows, quota, std::move(cold_rows)));
}

void Tier::Restore(Key key, const std::byte* stored, std::byte* row) const {
  RowLayout::Header(row).key = key;
  std::memcpy(row + sizeof(Key), stored, stored_bytes());
}

RowHeader Tier::HeaderOf(Key key, const std::byte* stored) {
  RowHeader header{.key = key};
  std::memcpy(&header.packed, stored, sizeof(header.packed));
  return header;
}

absl::Status Tier::ReadAll(const storage::ColdRowsReader& from,
                           absl::Span<const storage::ColdRows::RowName> names,
                           std::vector<std::byte>* stored,
                           std::vector<char>* found) const {
  stored->resize(names.size() * stored_bytes());
  found->resize(names.size());
  static_assert(sizeof(bool) == sizeof(char));
  for (size_t first = 0; first < names.size();
       first += storage::ColdRows::kMaxBatchRows) {
    OARLOCK_RETURN_IF_ERROR(
        from.Read(names.subspan(first, storage::ColdRows::kMaxBatchRows),
                  stored->data() + first * stored_bytes(),
                  reinterpret_cast<bool*>(found->data() + first)));
  }
  return absl::OkStatus();
}

void Tier::Insert(absl::Span<const storage::ColdRows::RowName> names,
                  const std::byte* stored, const char* found,
                  Partition* partition) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (!found[i]) continue;
    const Key key = names[i].key;
    const uint64_t mix = Mix(key);
    // Named twice, or brought by somebody else.
    if (partition->Find(key, mix) != kNoRow) continue;
    std::byte* const row =
        partition->PromoteRow(HeaderOf(key, stored + i * stored_bytes()), mix);
    Restore(key, stored + i * stored_bytes(), row);
    RowHeader& header = RowLayout::Header(row);
    header.packed |= RowHeader::kRecent | RowHeader::kClean;
  }
}

absl::StatusOr<bool> Tier::MakeRoom(PartitionIndex index, size_t num_new,
                                    Partition* partition) {
  const size_t wanted = partition->memory_rows() + num_new;
  if (wanted <= quota_ || partition->memory_rows() == 0) return false;
  OARLOCK_RETURN_IF_ERROR(Demote(
      index, std::max({wanted - quota_, quota_ / kDemotedShare, size_t{1}}),
      partition));
  return true;
}

absl::Status Tier::Demote(PartitionIndex index, size_t num_rows,
                          Partition* partition) {
  struct Victim {
    RowRef ref;
    std::byte* row;
  };
  num_rows = std::min(num_rows, partition->memory_rows());
  std::vector<Victim> victims;
  victims.reserve(num_rows);
  // In two turns of the hand every row is met without its flag once. A victim
  // gets the flag, so that the second turn does not choose it again.
  for (size_t i = 0; i < 2 * partition->cells().num_used(); ++i) {
    if (victims.size() == num_rows) break;
    const RowRef ref = partition->AdvanceHand();
    RowHeader& header = RowLayout::Header(rows_.At(ref));
    if (header.is_free()) continue;
    if ((header.packed & RowHeader::kRecent) == 0) {
      victims.push_back({ref, rows_.At(ref)});
    }
    header.packed ^= RowHeader::kRecent;
  }

  constexpr uint64_t kMemoryFlags = RowHeader::kRecent | RowHeader::kClean;
  std::vector<Key> keys;
  std::vector<const std::byte*> stored;
  for (size_t first = 0; first < victims.size();) {
    keys.clear();
    stored.clear();
    size_t end = first;
    for (;
         end < victims.size() && keys.size() < storage::ColdRows::kMaxBatchRows;
         ++end) {
      RowHeader& header = RowLayout::Header(victims[end].row);
      if ((header.packed & RowHeader::kClean) != 0) continue;
      header.packed &= ~kMemoryFlags;
      keys.push_back(header.key);
      stored.push_back(victims[end].row + sizeof(Key));
    }
    if (!keys.empty()) {
      FaultPoint("tier.demote.before_write");
      OARLOCK_RETURN_IF_ERROR(cold_rows_->Write(index, keys, stored));
      FaultPoint("tier.demote.after_write");
    }
    for (; first < end; ++first) {
      partition->DemoteRow(victims[first].ref, victims[first].row);
    }
  }
  return absl::OkStatus();
}

absl::Status Tier::BringGroup(PartitionIndex index, absl::Span<const Key> keys,
                              Partition* partition) {
  Scratch& scratch = ThreadScratch();
  const auto find_missing =
      [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(partition->lock()) {
        scratch.names.clear();
        // What is about to be used should not be what is demoted for it.
        FindMissing(
            rows_, *partition, index, keys,
            [](std::byte* row) {
              RowLayout::Header(row).packed |= RowHeader::kRecent;
            },
            &scratch.names);
      };
  // Rows of the group may be among those demoted for it, so that there is more
  // to bring then; each turn leaves fewer rows in memory.
  for (bool demoted = true; demoted;) {
    find_missing();
    if (scratch.names.empty()) return absl::OkStatus();
    OARLOCK_ASSIGN_OR_RETURN(demoted,
                             MakeRoom(index, scratch.names.size(), partition));
  }
  OARLOCK_RETURN_IF_ERROR(partition->Reserve(scratch.names.size()));
  if (partition->tiers().cold_rows == 0) return absl::OkStatus();
  OARLOCK_RETURN_IF_ERROR(
      ReadAll(*cold_rows_, scratch.names, &scratch.stored, &scratch.found));
  FaultPoint("tier.promote.before_insert");
  Insert(scratch.names, scratch.stored.data(), scratch.found.data(), partition);
  return absl::OkStatus();
}

absl::Status Tier::Forget(PartitionIndex index, absl::Span<const Key> keys,
                          const Partition& partition) {
  // Nothing of this partition has ever been on disk.
  if (partition.tiers().demoted_rows == 0) return absl::OkStatus();
  for (size_t first = 0; first < keys.size();
       first += storage::ColdRows::kMaxBatchRows) {
    OARLOCK_RETURN_IF_ERROR(cold_rows_->Delete(
        index, keys.subspan(first, storage::ColdRows::kMaxBatchRows)));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Tier::Read(PartitionIndex index, Key key,
                                std::byte* row) const {
  const storage::ColdRows::RowName name = {index, key};
  bool found = false;
  RowLayout::Header(row).key = key;
  OARLOCK_RETURN_IF_ERROR(
      cold_rows_->Read({&name, 1}, row + sizeof(Key), &found));
  return found;
}

absl::StatusOr<std::optional<Key>> Tier::VisitDisk(
    const storage::ColdRowsReader& from, PartitionIndex index, Key first,
    size_t max_rows,
    absl::FunctionRef<void(const std::byte* row)> visit) const {
  std::vector<std::byte> row(rows_.layout().row_bytes());
  return from.Visit(index, first, max_rows,
                    [&](Key key, const std::byte* stored) {
                      Restore(key, stored, row.data());
                      visit(row.data());
                    });
}

absl::Status Tier::ReadDisk(
    const storage::ColdRowsReader& from, PartitionIndex index,
    absl::Span<const Key> keys,
    absl::FunctionRef<void(const std::byte* row)> visit) const {
  std::vector<storage::ColdRows::RowName> names;
  names.reserve(keys.size());
  for (const Key key : keys) names.push_back({index, key});
  std::vector<std::byte> stored;
  std::vector<char> found;
  OARLOCK_RETURN_IF_ERROR(ReadAll(from, names, &stored, &found));
  std::vector<std::byte> row(rows_.layout().row_bytes());
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!found[i]) continue;
    Restore(keys[i], stored.data() + i * stored_bytes(), row.data());
    visit(row.data());
  }
  return absl::OkStatus();
}

absl::Status ColdLookup::Promote(const Partitions& partitions,
                                 absl::Span<const KeyGroup> groups,
                                 const Key* keys) {
  if (tier_ == nullptr) return absl::OkStatus();
  clean_.assign(groups.size(), kNeverClean);
  size_t first_key = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    const PartitionIndex index = groups[g].partition;
    const Partition& partition = *partitions[index.value()];
    GroupRead read{
        .group = g, .first_key = first_key, .first_name = names_.size()};
    {
      ReaderGuard guard(partition.lock());
      if (partition.tiers().cold_rows > 0) {
        FindMissing(
            tier_->rows_, partition, index,
            {keys + first_key, groups[g].num_keys}, [](std::byte*) {}, &names_);
      }
      read.version = partition.tiers().disk_version;
    }
    first_key += groups[g].num_keys;
    read.end_name = names_.size();
    if (read.end_name == read.first_name) {
      clean_[g] = read.version;
      continue;
    }
    reads_.push_back(read);
    if (names_.size() >= storage::ColdRows::kMaxBatchRows) {
      OARLOCK_RETURN_IF_ERROR(ReadAndInsert(partitions, groups, keys));
    }
  }
  return ReadAndInsert(partitions, groups, keys);
}

absl::Status ColdLookup::ReadAndInsert(const Partitions& partitions,
                                       absl::Span<const KeyGroup> groups,
                                       const Key* keys) {
  OARLOCK_RETURN_IF_ERROR(
      tier_->ReadAll(*tier_->cold_rows_, names_, &stored_, &found_));
  for (const GroupRead& read : reads_) {
    const KeyGroup& group = groups[read.group];
    Partition* const partition = partitions[group.partition.value()].get();
    WriterGuard guard(partition->lock());
    absl::Status inserted = InsertGroup(read, group, keys, partition);
    // Without room for them the rows are read where they are, one by one.
    if (!inserted.ok() && !absl::IsResourceExhausted(inserted)) return inserted;
  }
  reads_.clear();
  names_.clear();
  return absl::OkStatus();
}

absl::Status ColdLookup::InsertGroup(const GroupRead& read,
                                     const KeyGroup& group, const Key* keys,
                                     Partition* partition) {
  const PartitionIndex index = group.partition;
  const absl::Span<const Key> group_keys(keys + read.first_key, group.num_keys);
  if (partition->tiers().disk_version != read.version) {
    // What was read may be older than what is on disk now.
    OARLOCK_RETURN_IF_ERROR(tier_->BringGroup(index, group_keys, partition));
    clean_[read.group] = partition->tiers().disk_version;
    return absl::OkStatus();
  }
  const size_t num_names = read.end_name - read.first_name;
  const absl::Span<const storage::ColdRows::RowName> names =
      absl::MakeConstSpan(names_).subspan(read.first_name, num_names);
  char* const found = found_.data() + read.first_name;
  size_t num_new = 0;
  size_t num_absent = 0;
  for (size_t i = 0; i < num_names; ++i) {
    num_absent += !found[i];
    // What somebody has brought meanwhile may be newer than what was read, also
    // when making room moves it back to disk.
    if (partition->Find(names[i].key, Mix(names[i].key)) != kNoRow) {
      found[i] = false;
    }
    num_new += found[i];
  }
  OARLOCK_ASSIGN_OR_RETURN(const bool demoted,
                           tier_->MakeRoom(index, num_new, partition));
  OARLOCK_RETURN_IF_ERROR(partition->Reserve(num_new));
  tier_->Insert(names, stored_.data() + read.first_name * tier_->stored_bytes(),
                found, partition);
  if (demoted) {
    // Rows of this group may have been among them.
    std::vector<storage::ColdRows::RowName>& missing = ThreadScratch().names;
    missing.clear();
    FindMissing(
        tier_->rows_, *partition, index, group_keys, [](std::byte*) {},
        &missing);
    if (missing.size() > num_absent) return absl::OkStatus();
  }
  clean_[read.group] = partition->tiers().disk_version;
  return absl::OkStatus();
}

const std::byte* ColdLookup::ReadRow(PartitionIndex index, Key key) {
  row_.resize(tier_->rows_.layout().row_bytes());
  const absl::StatusOr<bool> found = tier_->Read(index, key, row_.data());
  status_.Update(found.status());
  return found.ok() && *found ? row_.data() : nullptr;
}

}  // namespace oarlock::sparse_table
