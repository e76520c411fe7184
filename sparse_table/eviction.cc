#include "sparse_table/eviction.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/types.h"
#include "sparse_table/row_layout.h"

namespace oarlock {
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
  Sweep(const RowSpace& rows, const ScoreRule* score_rule,
        const EvictionLimits& limits, uint32_t logical_time,
        Partition* partition)
      : rows_(rows),
        score_rule_(score_rule),
        limits_(limits),
        logical_time_(logical_time),
        partition_(*partition) {}

  EvictionResult Run() {
    {
      WriterGuard guard(partition_.lock());
      partition_.ObserveTime(logical_time_);
    }
    if (limits_.idle_ticks != 0 || limits_.score_min.has_value()) {
      EvictWhere([&](const RowFacts& facts) { return BeyondLimits(facts); });
    }
    if (limits_.partition_rows_max.has_value()) EvictDownToLowMark();
    return result_;
  }

 private:
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

  // Looks at every row once, calls cause(facts), and evicts those for which it
  // still is not kStays under the exclusive lock.
  template <typename CauseOf>
  void EvictWhere(CauseOf cause_of) {
    Partition::SlotCursor cursor;
    std::vector<RowRef> found;
    for (bool more = true; more;) {
      found.clear();
      {
        ReaderGuard guard(partition_.lock());
        now_ = partition_.latest_touch();
        more = partition_.VisitSlots(
            &cursor, kSlotsPerHold, [&](RowRef ref, const std::byte* row) {
              ++result_.examined_rows;
              if (cause_of(FactsOf(row)) != Cause::kStays) found.push_back(ref);
            });
      }
      if (found.empty()) continue;
      WriterGuard guard(partition_.lock());
      now_ = partition_.latest_touch();
      for (const RowRef ref : found) {
        std::byte* const row = rows_.At(ref);
        // Another sweep may have been here.
        if (RowLayout::Header(row).is_free()) continue;
        const Cause cause = cause_of(FactsOf(row));
        if (cause == Cause::kStays) continue;
        partition_.EvictRow(ref, row);
        ++(cause == Cause::kIdle       ? result_.idle_rows
           : cause == Cause::kLowScore ? result_.low_score_rows
                                       : result_.capacity_rows);
      }
    }
  }

  // Finds the last one that has to go, then evicts it and all before it.
  void EvictDownToLowMark() {
    std::vector<RowFacts> all;
    Partition::SlotCursor cursor;
    for (bool more = true; more;) {
      ReaderGuard guard(partition_.lock());
      if (partition_.num_rows() <= *limits_.partition_rows_max) return;
      now_ = partition_.latest_touch();
      more = partition_.VisitSlots(&cursor, kSlotsPerHold,
                                   [&](RowRef, const std::byte* row) {
                                     all.push_back(FactsOf(row));
                                   });
    }
    if (all.size() <= limits_.partition_rows_low) return;
    const size_t num_to_go = all.size() - limits_.partition_rows_low;
    const auto last = all.begin() + static_cast<ptrdiff_t>(num_to_go - 1);
    std::nth_element(all.begin(), last, all.end());
    const RowFacts cut = *last;
    EvictWhere([&](const RowFacts& facts) {
      return cut < facts ? Cause::kStays : Cause::kCapacity;
    });
  }

  const RowSpace& rows_;
  const ScoreRule* const score_rule_;
  const EvictionLimits& limits_;
  const uint32_t logical_time_;
  Partition& partition_;
  // The partition's time while it is locked.
  uint32_t now_ = 0;
  EvictionResult result_;
};

}  // namespace

absl::StatusOr<EvictionLimits> MakeEvictionLimits(
    const v1::EvictionConfig& config, bool has_statistics,
    int partition_bits) {
  EvictionLimits limits;
  if (config.idle_ticks() > kMaxIdleTicks) {
    return absl::InvalidArgumentError(
        absl::StrCat("eviction idle_ticks is ", config.idle_ticks(),
                     "; legal is up to ", kMaxIdleTicks,
                     "; count in longer ticks"));
  }
  limits.idle_ticks = config.idle_ticks();
  if (config.has_score_min()) {
    if (!has_statistics || !std::isfinite(config.score_min())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "eviction score_min is ", config.score_min(), ", accessor ",
          has_statistics ? "ctr" : "plain",
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
    limits.partition_rows_low =
        static_cast<size_t>(static_cast<double>(low_mark) *
                            static_cast<double>(rows));
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

EvictionResult EvictRows(const RowSpace& rows, const ScoreRule* score_rule,
                         const EvictionLimits& limits, uint32_t logical_time,
                         Partition* partition) {
  return Sweep(rows, score_rule, limits, logical_time, partition).Run();
}

}  // namespace oarlock
