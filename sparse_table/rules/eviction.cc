#include "sparse_table/rules/eviction.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/mix.h"
#include "base/status_macros.h"
#include "base/types.h"
#include "sparse_table/rows/reader_writer_lock.h"
#include "sparse_table/rows/row_cells.h"
#include "sparse_table/rows/row_layout.h"

namespace oarlock::sparse_table {
namespace {

constexpr float kDefaultLowMark = 0.9f;
// Half of what a last touch can tell apart, so that a row is found idle long
// before its touch would be taken for a later one.
constexpr uint32_t kMaxIdleTicks = 1u << (RowHeader::kTouchBits - 1);

// What eviction asks of a row.
struct RowFacts {
  uint32_t last_touch = 0;
  // 0 without statistics.
  float score = 0;
  Key key{};

  // Ascending: who goes first.
  friend bool operator<(const RowFacts& a, const RowFacts& b) {
    return std::tie(a.score, a.last_touch, a.key) <
           std::tie(b.score, b.last_touch, b.key);
  }
};

// Why a row goes.
enum class Cause { kStays, kIdle, kLowScore, kCapacity };

class Sweep {
 public:
  Sweep(const EvictionScope& scope, const EvictionLimits& limits,
        DoStep do_step)
      : do_step_(do_step),
        rows_(scope.rows),
        score_rule_(scope.score_rule),
        tier_(scope.tier),
        index_(scope.index),
        limits_(limits),
        partition_(scope.partition) {}

  absl::StatusOr<EvictionResult> Run(uint32_t logical_time) {
    const auto observe = [&]()
                             ABSL_EXCLUSIVE_LOCKS_REQUIRED(partition_.lock()) {
                               partition_.ObserveTime(logical_time);
                               return absl::Span<const Key>();
                             };
    OARLOCK_RETURN_IF_ERROR(Do(observe, [] { return absl::OkStatus(); }));
    if (limits_.idle_ticks != 0 || limits_.score_min.has_value()) {
      OARLOCK_RETURN_IF_ERROR(EvictWhere(
          [&](const RowFacts& facts) { return BeyondLimits(facts); }));
    }
    if (limits_.partition_rows_max.has_value()) {
      OARLOCK_RETURN_IF_ERROR(EvictDownToLowMark());
    }
    return result_;
  }

 private:
  struct Going {
    RowRef ref;
    std::byte* row;
    Cause cause;
  };

  // REQUIRES: the partition is locked and now_ its time.
  RowFacts FactsOf(const std::byte* row) const {
    const RowHeader& header = RowLayout::Header(row);
    RowFacts facts{.last_touch = WidenTouch(header.low_touch(), now_),
                   .key = header.key};
    if (score_rule_ != nullptr) {
      const float* statistics = rows_.layout().Statistics(row);
      const float score = score_rule_->Score(statistics[0], statistics[1]) *
                          score_rule_->DecayFactor(facts.last_touch, now_);
      // What is no number is worth nothing, and must not upset the order.
      facts.score = std::isnan(score) ? 0 : score;
    }
    return facts;
  }

  Cause BeyondLimits(const RowFacts& facts) const {
    if (limits_.idle_ticks != 0 &&
        now_ - facts.last_touch >= limits_.idle_ticks) {
      return Cause::kIdle;
    }
    if (limits_.score_min.has_value() && facts.score < *limits_.score_min) {
      return Cause::kLowScore;
    }
    return Cause::kStays;
  }

  void Count(Cause cause) {
    ++(cause == Cause::kIdle       ? result_.idle_rows
       : cause == Cause::kLowScore ? result_.low_score_rows
                                   : result_.capacity_rows);
  }

  // `choose` returns the keys that go and `erase` takes them away, both under
  // the lock, which the analysis cannot follow from the one to the other.
  template <typename ChooseKeys, typename EraseRows>
  class Step final : public EvictionStep {
   public:
    Step(ReaderWriterLock* lock, ChooseKeys choose, EraseRows erase)
        : lock_(lock), choose_(std::move(choose)), erase_(std::move(erase)) {}

    absl::StatusOr<absl::Span<const Key>> Choose() override
        ABSL_NO_THREAD_SAFETY_ANALYSIS {
      guard_.emplace(lock_);
      return choose_();
    }
    absl::Status Erase() override ABSL_NO_THREAD_SAFETY_ANALYSIS {
      const absl::Status erased = erase_();
      guard_.reset();
      return erased;
    }

   private:
    ReaderWriterLock* const lock_;
    ChooseKeys choose_;
    EraseRows erase_;
    std::optional<WriterGuard> guard_;
  };

  template <typename Choose, typename Erase>
  absl::Status Do(Choose choose, Erase erase) {
    Step step(partition_.lock(), std::move(choose), std::move(erase));
    return do_step_(step);
  }

  // Looks at every row once, calls cause(facts), and evicts those for which it
  // still is not kStays under the exclusive lock.
  template <typename CauseOf>
  absl::Status EvictWhere(CauseOf cause_of) {
    RowCells::Cursor cursor;
    std::vector<RowRef> found;
    for (bool more = true; more;) {
      found.clear();
      {
        ReaderGuard guard(partition_.lock());
        now_ = partition_.latest_touch();
        more = partition_.cells().VisitRows(
            &cursor, kCellsPerHold, [&](RowRef ref, const std::byte* row) {
              ++result_.examined_rows;
              if (cause_of(FactsOf(row)) != Cause::kStays) found.push_back(ref);
            });
      }
      if (!found.empty()) OARLOCK_RETURN_IF_ERROR(EvictFound(found, cause_of));
    }
    return tier_ == nullptr ? absl::OkStatus() : EvictColdWhere(cause_of);
  }

  template <typename CauseOf>
  absl::Status EvictFound(const std::vector<RowRef>& found, CauseOf cause_of) {
    std::vector<Going> going;
    std::vector<Key> keys;
    const auto choose = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(partition_.lock()) {
      now_ = partition_.latest_touch();
      for (const RowRef ref : found) {
        std::byte* const row = rows_.At(ref);
        // Another sweep may have been here, or the row was demoted.
        if (RowLayout::Header(row).is_free()) continue;
        const Cause cause = cause_of(FactsOf(row));
        if (cause == Cause::kStays) continue;
        going.push_back({ref, row, cause});
        keys.push_back(RowLayout::Header(row).key);
      }
      return absl::MakeConstSpan(keys);
    };
    const auto erase = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(partition_.lock()) {
      if (tier_ != nullptr) {
        OARLOCK_RETURN_IF_ERROR(tier_->Forget(index_, keys, partition_));
      }
      for (const Going& row : going) {
        partition_.EvictRow(row.ref, row.row);
        Count(row.cause);
      }
      return absl::OkStatus();
    };
    return Do(choose, erase);
  }

  // The same for rows that are on disk alone.
  template <typename CauseOf>
  absl::Status EvictColdWhere(CauseOf cause_of) {
    std::optional<Key> next = Key{0};
    while (next.has_value()) {
      OARLOCK_ASSIGN_OR_RETURN(ColdRead read, ReadCold(*next));
      next = read.next;
      std::vector<std::byte*> found;
      {
        ReaderGuard guard(partition_.lock());
        now_ = partition_.latest_touch();
        for (std::byte* const row : read.rows) {
          if (InMemory(row)) continue;
          ++result_.examined_rows;
          if (cause_of(FactsOf(row)) != Cause::kStays) found.push_back(row);
        }
      }
      absl::Span<std::byte* const> left = found;
      while (!left.empty()) {
        OARLOCK_RETURN_IF_ERROR(EvictFoundCold(read.version, cause_of, &left));
      }
    }
    return absl::OkStatus();
  }

  // As many of `left` as one step may look at; takes them from there.
  template <typename CauseOf>
  absl::Status EvictFoundCold(uint64_t version, CauseOf cause_of,
                              absl::Span<std::byte* const>* left) {
    std::vector<Key> keys;
    std::vector<Cause> causes;
    const auto choose =
        [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(
            partition_.lock()) -> absl::StatusOr<absl::Span<const Key>> {
      now_ = partition_.latest_touch();
      const bool is_stale = partition_.tiers().disk_version != version;
      const absl::Span<std::byte* const> found =
          left->subspan(0, is_stale ? kColdReadsPerHold : left->size());
      left->remove_prefix(found.size());
      for (std::byte* const row : found) {
        if (InMemory(row)) continue;
        const Key key = RowLayout::Header(row).key;
        if (is_stale) {
          OARLOCK_ASSIGN_OR_RETURN(const bool there,
                                   tier_->Read(index_, key, row));
          if (!there) continue;
        }
        const Cause cause = cause_of(FactsOf(row));
        if (cause == Cause::kStays) continue;
        keys.push_back(key);
        causes.push_back(cause);
      }
      return absl::MakeConstSpan(keys);
    };
    const auto erase = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(partition_.lock()) {
      OARLOCK_RETURN_IF_ERROR(tier_->Forget(index_, keys, partition_));
      partition_.ForgetColdRows(keys);
      for (const Cause cause : causes) Count(cause);
      return absl::OkStatus();
    };
    return Do(choose, erase);
  }

  // Rows on disk, as of this version.
  struct ColdRead {
    uint64_t version = 0;
    std::vector<std::byte> bytes;
    std::vector<std::byte*> rows;
    std::optional<Key> next;
  };

  absl::StatusOr<ColdRead> ReadCold(Key first) const {
    ColdRead read;
    {
      ReaderGuard guard(partition_.lock());
      read.version = partition_.tiers().disk_version;
      if (partition_.tiers().cold_rows == 0) return read;
    }
    const size_t row_bytes = rows_.layout().row_bytes();
    read.bytes.resize(kCellsPerHold * row_bytes);
    OARLOCK_ASSIGN_OR_RETURN(
        read.next,
        tier_->VisitDisk(tier_->cold_rows(), index_, first, kCellsPerHold,
                         [&](const std::byte* row) {
                           read.rows.push_back(read.bytes.data() +
                                               read.rows.size() * row_bytes);
                           std::copy_n(row, row_bytes, read.rows.back());
                         }));
    return read;
  }

  bool InMemory(const std::byte* row) const
      ABSL_SHARED_LOCKS_REQUIRED(partition_.lock()) {
    const Key key = RowLayout::Header(row).key;
    return partition_.Find(key, Mix(key)) != kNoRow;
  }

  // Finds the last one that has to go, then evicts it and all before it.
  absl::Status EvictDownToLowMark() {
    std::vector<RowFacts> all;
    RowCells::Cursor cursor;
    for (bool more = true; more;) {
      ReaderGuard guard(partition_.lock());
      if (partition_.num_rows() <= *limits_.partition_rows_max) {
        return absl::OkStatus();
      }
      now_ = partition_.latest_touch();
      more = partition_.cells().VisitRows(
          &cursor, kCellsPerHold,
          [&](RowRef, const std::byte* row) { all.push_back(FactsOf(row)); });
    }
    if (tier_ != nullptr) OARLOCK_RETURN_IF_ERROR(AddColdFacts(&all));
    if (all.size() <= limits_.partition_rows_low) return absl::OkStatus();
    const size_t num_to_go = all.size() - limits_.partition_rows_low;
    const auto last = all.begin() + static_cast<ptrdiff_t>(num_to_go - 1);
    std::nth_element(all.begin(), last, all.end());
    const RowFacts cut = *last;
    return EvictWhere([&](const RowFacts& facts) {
      return cut < facts ? Cause::kStays : Cause::kCapacity;
    });
  }

  absl::Status AddColdFacts(std::vector<RowFacts>* all) {
    std::optional<Key> next = Key{0};
    while (next.has_value()) {
      OARLOCK_ASSIGN_OR_RETURN(const ColdRead read, ReadCold(*next));
      next = read.next;
      ReaderGuard guard(partition_.lock());
      now_ = partition_.latest_touch();
      for (const std::byte* const row : read.rows) {
        if (!InMemory(row)) all->push_back(FactsOf(row));
      }
    }
    // A row that was demoted in between is there twice.
    std::sort(all->begin(), all->end(),
              [](const auto& a, const auto& b) { return a.key < b.key; });
    all->erase(std::unique(
                   all->begin(), all->end(),
                   [](const auto& a, const auto& b) { return a.key == b.key; }),
               all->end());
    return absl::OkStatus();
  }

  const DoStep do_step_;
  const RowSpace& rows_;
  const ScoreRule* const score_rule_;
  Tier* const tier_;
  const PartitionIndex index_;
  const EvictionLimits& limits_;
  Partition& partition_;
  // The partition's time while it is locked.
  uint32_t now_ = 0;
  EvictionResult result_;
};

}  // namespace

absl::StatusOr<EvictionLimits> MakeEvictionLimits(
    const v1::EvictionConfig& config, bool has_statistics, int partition_bits) {
  EvictionLimits limits;
  if (config.idle_ticks() > kMaxIdleTicks) {
    return absl::InvalidArgumentError(absl::StrCat(
        "eviction idle_ticks is ", config.idle_ticks(), "; legal is up to ",
        kMaxIdleTicks, "; count in longer ticks"));
  }
  limits.idle_ticks = config.idle_ticks();
  if (config.has_score_min()) {
    if (!has_statistics || !std::isfinite(config.score_min())) {
      return absl::InvalidArgumentError(
          absl::StrCat("eviction score_min is ", config.score_min(),
                       ", accessor ", has_statistics ? "ctr" : "plain",
                       "; legal is a finite number, with accessor ctr"));
    }
    limits.score_min = config.score_min();
  }
  const float low_mark =
      config.low_mark() == 0 ? kDefaultLowMark : config.low_mark();
  if (!(low_mark > 0 && low_mark <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("eviction low_mark is ", low_mark,
                     "; legal is above 0 to 1, or 0 for ", kDefaultLowMark));
  }
  if (config.rows_max() != 0) {
    const uint64_t rows = config.rows_max() >> partition_bits;
    if (rows == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "eviction rows_max is ", config.rows_max(), "; legal is at least ",
          1 << partition_bits, ", one a partition, or 0 for no limit"));
    }
    limits.partition_rows_max = rows;
    limits.partition_rows_low = static_cast<size_t>(
        static_cast<double>(low_mark) * static_cast<double>(rows));
  }
  return limits;
}

EvictionResult& EvictionResult::operator+=(const EvictionResult& other) {
  examined_rows += other.examined_rows;
  idle_rows += other.idle_rows;
  low_score_rows += other.low_score_rows;
  capacity_rows += other.capacity_rows;
  return *this;
}

absl::StatusOr<EvictionResult> EvictRows(const EvictionScope& scope,
                                         const EvictionLimits& limits,
                                         uint32_t logical_time,
                                         DoStep do_step) {
  return Sweep(scope, limits, do_step).Run(logical_time);
}

absl::Status EvictKeys(const EvictionScope& scope, absl::Span<const Key> keys,
                       uint32_t logical_time) {
  Partition& partition = scope.partition;
  WriterGuard guard(partition.lock());
  partition.ObserveTime(logical_time);
  std::vector<RowRef> refs;
  std::vector<Key> cold_keys;
  std::vector<std::byte> row(scope.rows.layout().row_bytes());
  for (const Key key : keys) {
    const RowRef ref = partition.Find(key, Mix(key));
    if (ref != kNoRow) {
      refs.push_back(ref);
    } else if (scope.tier != nullptr && partition.tiers().cold_rows > 0) {
      OARLOCK_ASSIGN_OR_RETURN(const bool there,
                               scope.tier->Read(scope.index, key, row.data()));
      if (there) cold_keys.push_back(key);
    }
  }
  if (scope.tier != nullptr) {
    OARLOCK_RETURN_IF_ERROR(scope.tier->Forget(scope.index, keys, partition));
  }
  for (const RowRef ref : refs) partition.EvictRow(ref, scope.rows.At(ref));
  partition.ForgetColdRows(cold_keys);
  return absl::OkStatus();
}

}  // namespace oarlock::sparse_table
