#include "coordinator/dead_worker_recovery.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "base/push_window.h"
#include "coordinator/ranges/range_set.h"

namespace oarlock::coordinator {
namespace {

using Intervals = google::protobuf::RepeatedPtrField<v1::ExampleInterval>;
using Ranges = google::protobuf::RepeatedPtrField<v1::DataRange>;

v1::DataRange RangeOf(const v1::ExampleInterval& interval) {
  v1::DataRange range;
  range.set_source(interval.source());
  range.set_begin(interval.begin());
  range.set_end(interval.end());
  return range;
}

// A push, as the ledgers of all servers together describe it.
struct Push {
  uint32_t message_count = 0;
  std::set<uint32_t> messages;
  Intervals examples;
  Intervals dense_examples;

  bool IsWhole() const {
    return !messages.empty() && messages.size() >= message_count;
  }
};

// By sequence.
std::map<uint64_t, Push> PushesOf(
    const std::vector<v1::WorkerLedger>& ledgers) {
  std::map<uint64_t, Push> pushes;
  for (const v1::WorkerLedger& ledger : ledgers) {
    for (const v1::PushRecord& record : ledger.pushes()) {
      Push& push = pushes[record.sequence()];
      push.message_count = record.message_count();
      push.messages.insert(record.messages().begin(), record.messages().end());
      push.examples = record.examples();
      push.dense_examples = record.dense_examples();
    }
  }
  return pushes;
}

uint64_t HighestOf(const std::vector<v1::WorkerLedger>& ledgers) {
  uint64_t highest = 0;
  for (const v1::WorkerLedger& ledger : ledgers) {
    highest = std::max<uint64_t>(highest, ledger.highest());
  }
  return highest;
}

// The leased examples, and where their lines are.
class LeasedSet {
 public:
  void Add(const v1::DataRange& range) {
    v1::DataRange bounded = range;
    if (range.end() == 0) bounded.set_end(kNoEnd);
    set_.Add(bounded);
    by_begin_[{range.source(), range.begin()}] = bounded;
  }
  bool Touches(const Intervals& intervals) const {
    return std::any_of(intervals.begin(), intervals.end(),
                       [this](const v1::ExampleInterval& interval) {
                         return !set_.Common(RangeOf(interval)).empty();
                       });
  }
  // Adds the interval to `to`, in pieces. A piece that is leased has the place
  // of its lines.
  void Locate(const v1::ExampleInterval& interval, Ranges* to) const {
    uint64_t begin = interval.begin();
    while (begin < interval.end()) {
      v1::DataRange* const piece = to->Add();
      *piece = RangeOf(interval);
      const auto after = by_begin_.upper_bound({interval.source(), begin});
      if (after != by_begin_.begin()) {
        const v1::DataRange& range = std::prev(after)->second;
        if (range.source() == interval.source() && range.end() > begin) {
          piece->set_byte_offset(range.byte_offset());
          piece->set_skip_lines(range.skip_lines() + begin - range.begin());
          piece->set_end(std::min(interval.end(), range.end()));
        }
      }
      if (after != by_begin_.end() &&
          after->second.source() == interval.source()) {
        piece->set_end(std::min(piece->end(), after->second.begin()));
      }
      piece->set_begin(begin);
      begin = piece->end();
    }
  }

 private:
  static constexpr uint64_t kNoEnd = std::numeric_limits<uint64_t>::max();

  RangeSet set_;
  std::map<std::pair<uint32_t, uint64_t>, v1::DataRange> by_begin_;
};

// One epoch.
struct EpochExamples {
  LeasedSet leased;
  // Examples whose gradients (for rows, for dense parameters) are applied, or
  // will be when their push is completed.
  RangeSet rows;
  RangeSet dense;
  RecoveredEpoch result;
};

class Recovery {
 public:
  explicit Recovery(const DeadWorker& dead)
      : dead_(dead),
        pushes_(PushesOf(dead.ledgers)),
        highest_(HighestOf(dead.ledgers)) {
    for (const auto& [epoch, leased] : dead.leased) {
      LeasedSet& set = epochs_[epoch].leased;
      for (const v1::DataRange& range : leased.ranges) set.Add(range);
      for (const v1::PushCompletion& completion : leased.push_completions) {
        for (const v1::DataRange& range : completion.examples()) set.Add(range);
        for (const v1::DataRange& range : completion.dense_examples()) {
          set.Add(range);
        }
      }
    }
    for (const v1::WorkerLedger& ledger : dead.ledgers) {
      AddTo(ledger.fully_applied_examples(), &EpochExamples::rows);
      AddTo(ledger.fully_applied_dense_examples(), &EpochExamples::dense);
    }
  }

  std::map<uint32_t, RecoveredEpoch> Run() {
    for (const auto& [sequence, push] : pushes_) Judge(sequence, push);
    for (const auto& [epoch, leased] : dead_.leased) {
      Return(leased, &epochs_[epoch]);
    }
    std::map<uint32_t, RecoveredEpoch> recovered;
    for (auto& [epoch, of_epoch] : epochs_) {
      RangeSet covered = std::move(of_epoch.rows);
      for (const v1::DataRange& range : of_epoch.dense.ranges())
        covered.Add(range);
      of_epoch.result.covered = covered.ranges();
      recovered[epoch] = std::move(of_epoch.result);
    }
    return recovered;
  }

 private:
  void AddTo(const Intervals& intervals, RangeSet EpochExamples::*set) {
    for (const v1::ExampleInterval& interval : intervals) {
      (epochs_[interval.epoch()].*set).Add(RangeOf(interval));
    }
  }

  void Judge(uint64_t sequence, const Push& push) {
    const Intervals& any =
        push.examples.empty() ? push.dense_examples : push.examples;
    if (any.empty()) return;
    EpochExamples& of_epoch = epochs_[any[0].epoch()];
    const bool applied =
        sequence + PushWindows::kWindowSequences <= highest_ || push.IsWhole();
    AddTo(push.examples, &EpochExamples::rows);
    AddTo(push.dense_examples, &EpochExamples::dense);
    if (applied || !(of_epoch.leased.Touches(push.examples) ||
                     of_epoch.leased.Touches(push.dense_examples))) {
      return;
    }
    v1::PushCompletion& completion =
        of_epoch.result.push_completions.emplace_back();
    completion.mutable_worker()->set_worker_index(dead_.worker.value());
    completion.mutable_worker()->set_worker_generation(
        dead_.generation.value());
    completion.set_sequence(sequence);
    for (const v1::ExampleInterval& interval : push.examples) {
      of_epoch.leased.Locate(interval, completion.mutable_examples());
    }
    for (const v1::ExampleInterval& interval : push.dense_examples) {
      of_epoch.leased.Locate(interval, completion.mutable_dense_examples());
    }
  }

  // Decides about leased examples that are in no push, or in a push for one
  // kind of gradients alone.
  void Return(const LeasedExamples& leased, EpochExamples* of_epoch) {
    std::vector<v1::DataRange> rows_alone;
    std::vector<v1::DataRange> dense_alone;
    const auto append = [](std::vector<v1::DataRange> ranges,
                           std::vector<v1::DataRange>* to) {
      to->insert(to->end(), ranges.begin(), ranges.end());
    };
    for (const v1::DataRange& range : leased.ranges) {
      for (const v1::DataRange& no_rows : of_epoch->rows.Missing(range)) {
        append(of_epoch->dense.Missing(no_rows), &of_epoch->result.returned);
        append(of_epoch->dense.Common(no_rows), &rows_alone);
      }
      for (const v1::DataRange& no_dense : of_epoch->dense.Missing(range)) {
        append(of_epoch->rows.Common(no_dense), &dense_alone);
      }
    }
    for (const v1::PushCompletion& completion : leased.push_completions) {
      for (const v1::DataRange& range : completion.examples()) {
        append(of_epoch->rows.Missing(range), &rows_alone);
      }
      for (const v1::DataRange& range : completion.dense_examples()) {
        append(of_epoch->dense.Missing(range), &dense_alone);
      }
    }
    AddUnnamed(rows_alone, &v1::PushCompletion::mutable_examples, of_epoch);
    AddUnnamed(dense_alone, &v1::PushCompletion::mutable_dense_examples,
               of_epoch);
  }

  // REQUIRES: the ranges have ends.
  static void AddUnnamed(const std::vector<v1::DataRange>& ranges,
                         Ranges* (v1::PushCompletion::*field)(),
                         EpochExamples* of_epoch) {
    v1::PushCompletion completion;
    uint64_t room = kMaxCompletionExamples;
    for (v1::DataRange range : ranges) {
      while (range.begin() < range.end()) {
        v1::DataRange* const piece = (completion.*field)()->Add();
        *piece = range;
        piece->set_end(std::min(range.end(), range.begin() + room));
        const uint64_t size = piece->end() - range.begin();
        range.set_begin(piece->end());
        range.set_skip_lines(range.skip_lines() + size);
        room -= size;
        if (room > 0) continue;
        of_epoch->result.push_completions.push_back(
            std::exchange(completion, {}));
        room = kMaxCompletionExamples;
      }
    }
    if (room < kMaxCompletionExamples) {
      of_epoch->result.push_completions.push_back(completion);
    }
  }

  const DeadWorker& dead_;
  std::map<uint32_t, EpochExamples> epochs_;
  const std::map<uint64_t, Push> pushes_;
  const uint64_t highest_;
};

}  // namespace

PartialPushes FindPartialPushes(const std::vector<v1::WorkerLedger>& ledgers) {
  PartialPushes partial;
  const uint64_t highest = HighestOf(ledgers);
  for (const auto& [sequence, push] : PushesOf(ledgers)) {
    if (sequence + PushWindows::kWindowSequences <= highest || push.IsWhole()) {
      continue;
    }
    (push.examples.empty() && push.dense_examples.empty()
         ? partial.without_examples
         : partial.with_examples) = true;
  }
  return partial;
}

std::map<uint32_t, RecoveredEpoch> RecoverExamples(const DeadWorker& dead) {
  return Recovery(dead).Run();
}

}  // namespace oarlock::coordinator
