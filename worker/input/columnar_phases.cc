#include "worker/input/columnar_phases.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "base/log.h"
#include "base/mix.h"
#include "base/status_macros.h"
#include "data/rows/row_feed.h"
#include "data/rows/window_rows.h"

namespace oarlock::worker {
namespace {

constexpr WorkerIndex kFirstWorker(0);
// With fewer units than so many of each worker some have much more to do than
// others.
constexpr uint64_t kUnitsPerWorker = 4;
// See DefinePhaseRequest.
constexpr absl::string_view kOrderSeparator = ", ";

data::ShuffleRule ShuffleOf(const v1::JobConfig& config) {
  return config.shuffle() == "global"  ? data::ShuffleRule::kGlobal
         : config.shuffle() == "local" ? data::ShuffleRule::kLocal
                                       : data::ShuffleRule::kNone;
}

uint64_t MemoryBytesOf(const v1::JobConfig& config) {
  return static_cast<uint64_t>(config.dataset_memory_mb()) << 20;
}

using NewStream =
    std::function<std::unique_ptr<data::RowStream>(data::BadLines*)>;

// The feeds of a phase: readers that have one source have one feed.
class Feeds {
 public:
  explicit Feeds(NewStream new_stream) : new_stream_(std::move(new_stream)) {}

  std::shared_ptr<data::RowFeed> Of(data::RangeSource* source,
                                    data::BadLines* bad_lines) {
    absl::MutexLock lock(&mutex_);
    std::weak_ptr<data::RowFeed>& feed = feeds_[source];
    std::shared_ptr<data::RowFeed> found = feed.lock();
    if (found == nullptr) {
      found = std::make_shared<data::RowFeed>(new_stream_(bad_lines), source,
                                              /*num_turns=*/0);
      feed = found;
    }
    return found;
  }

 private:
  const NewStream new_stream_;
  absl::Mutex mutex_;
  std::map<data::RangeSource*, std::weak_ptr<data::RowFeed>> feeds_
      ABSL_GUARDED_BY(mutex_);
};

// The one feed of all compute threads, which take turns.
class TurnFeed {
 public:
  TurnFeed(NewStream new_stream, size_t num_turns)
      : new_stream_(std::move(new_stream)), num_turns_(num_turns) {}

  std::shared_ptr<data::RowFeed> Get(data::RangeSource* source,
                                     data::BadLines* bad_lines) {
    absl::MutexLock lock(&mutex_);
    if (feed_ == nullptr) {
      feed_ = std::make_shared<data::RowFeed>(new_stream_(bad_lines), source,
                                              num_turns_);
    }
    return feed_;
  }

 private:
  const NewStream new_stream_;
  const size_t num_turns_;
  absl::Mutex mutex_;
  std::shared_ptr<data::RowFeed> feed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::Status ColumnarPhases::CheckConfig(const v1::JobConfig& config) {
  const auto refuse = [&](absl::string_view what, absl::string_view advice) {
    return absl::InvalidArgumentError(
        absl::StrCat("--data_format ", config.data_format(),
                     " is read by whole row groups, and does not go with ",
                     what, "; ", advice));
  };
  if (!config.pipe_command().empty()) {
    return refuse("--pipe_command", "use --prepare for derived columns");
  }
  if (!config.watch_dir().empty()) {
    return refuse("--watch_dir", "name the files with --train_files");
  }
  if (config.split() == "contiguous" || config.split() == "by_file") {
    return refuse(absl::StrCat("--split ", config.split()),
                  "legal are auto, leased and interleaved");
  }
  if (config.drop_tail()) return refuse("--drop_tail", "leave it out");
  if (config.sampling() == "with_replacement") {
    return refuse("--sampling with_replacement",
                  "legal is without_replacement");
  }
  return absl::OkStatus();
}

ColumnarPhases::ColumnarPhases(const v1::JobConfig& config, bool trains,
                               bool is_static, const ColumnarData* data,
                               client::JobClient* job, const Clock& clock)
    : config_(config),
      trains_(trains),
      is_static_(is_static),
      has_order_(trains && (config.shuffle() != "none" ||
                            config.repeats_per_epoch() > 1 ||
                            config.dataset() == "memory")),
      data_(*data),
      job_(job),
      clock_(clock) {
  for (const data::DataRange& unit : data_.source().units) {
    unit_rows_.push_back(unit.end - unit.begin);
    num_rows_ += unit_rows_.back();
  }
  if (is_static && config.dataset() == "memory") {
    memory_ = std::make_shared<data::UnitMemory>(
        MemoryBytesOf(config),
        "raise --dataset_memory_mb, or use --dataset queue");
  }
  if (is_static) WarnOfFewUnits();
}

void ColumnarPhases::WarnOfFewUnits() const {
  const uint64_t workers = job_->num_workers();
  if (job_->worker_index() != kFirstWorker || workers == 1 ||
      unit_rows_.size() >= kUnitsPerWorker * workers) {
    return;
  }
  const uint64_t most = (unit_rows_.size() + workers - 1) / workers;
  Log().warn(
      "the files have {} row groups for {} workers, and a group is read by one "
      "worker: some read up to {} of them, {:.0f} % of the rows instead of "
      "{:.0f} %; write them with at least {} row groups (pyarrow: "
      "row_group_size={})",
      unit_rows_.size(), workers, most,
      100.0 * static_cast<double>(most) /
          static_cast<double>(std::max<size_t>(unit_rows_.size(), 1)),
      100.0 / static_cast<double>(workers), kUnitsPerWorker * workers,
      std::max<uint64_t>(1, num_rows_ / (kUnitsPerWorker * workers)));
}

std::shared_ptr<const data::GroupOrder> ColumnarPhases::OrderOf(
    uint32_t epoch) const {
  if (!has_order_) return nullptr;
  data::GroupOrderOptions options;
  options.shuffle = ShuffleOf(config_);
  options.num_repeats = static_cast<uint32_t>(config_.repeats_per_epoch());
  options.num_workers = is_static_ ? job_->num_workers() : 1;
  options.window_units = memory_ != nullptr
                             ? std::numeric_limits<uint32_t>::max()
                         : options.shuffle == data::ShuffleRule::kNone
                             ? 1
                             : static_cast<uint32_t>(config_.shuffle_groups());
  options.seed = static_cast<uint64_t>(config_.seed());
  options.epoch = epoch;
  return std::make_shared<const data::GroupOrder>(unit_rows_, options);
}

std::string ColumnarPhases::OrderText() const {
  // An evaluation trains nothing, so it may be of other files than before.
  if (!trains_) return "";
  std::vector<std::string> parts;
  const auto say = [&parts](absl::string_view flag, const auto& value) {
    parts.push_back(absl::StrCat("--", flag, " ", value));
  };
  if (has_order_) {
    say("shuffle", config_.shuffle());
    if (config_.shuffle() != "none") {
      say("seed", config_.seed());
      say("shuffle_groups", config_.shuffle_groups());
      say("dataset", config_.dataset());
    }
    say("repeats_per_epoch", config_.repeats_per_epoch());
    if (is_static_) say("worker_num", job_->num_workers());
  }
  const Key lengths = FeatureHash(absl::StrJoin(unit_rows_, ","), 0, 0);
  parts.push_back(absl::StrCat(data_.source().files.size(), " files of ",
                               num_rows_, " rows (lengths ",
                               absl::Hex(static_cast<uint64_t>(lengths)), ")"));
  return absl::StrJoin(parts, kOrderSeparator);
}

absl::StatusOr<std::unique_ptr<EpochRanges>> ColumnarPhases::Start(
    const PhaseId& phase, LeasedRanges::RunCompletion run_completion) {
  std::shared_ptr<const data::GroupOrder> order = OrderOf(phase.epoch);
  return is_static_ ? StartStatic(phase.Name(), std::move(order))
                    : StartLeased(phase.Name(), std::move(order),
                                  std::move(run_completion));
}

std::unique_ptr<data::RowStream> ColumnarPhases::NewStream(
    std::shared_ptr<const data::GroupOrder> order,
    data::BadLines* bad_lines) const {
  auto rows = std::make_unique<data::FileRows>(&data_.source(), bad_lines);
  if (order == nullptr) return rows;
  std::shared_ptr<data::UnitMemory> memory = memory_;
  if (memory == nullptr) {
    memory = std::make_shared<data::UnitMemory>(
        MemoryBytesOf(config_),
        "raise --dataset_memory_mb, lower --shuffle_groups, or write smaller "
        "row groups");
  }
  return std::make_unique<data::WindowRows>(std::move(rows), std::move(order),
                                            std::move(memory));
}

EpochRanges::NewReader ColumnarPhases::NewLeasedReader(
    std::shared_ptr<const data::GroupOrder> order) const {
  auto feeds =
      std::make_shared<Feeds>([this, order](data::BadLines* bad_lines) {
        return NewStream(order, bad_lines);
      });
  return [feeds](size_t compute_thread, data::RangeSource* source,
                 data::BadLines* bad_lines) {
    return std::make_unique<data::RowReader>(feeds->Of(source, bad_lines),
                                             compute_thread);
  };
}

absl::StatusOr<std::unique_ptr<EpochRanges>> ColumnarPhases::StartLeased(
    const std::string& phase_name,
    std::shared_ptr<const data::GroupOrder> order,
    LeasedRanges::RunCompletion run_completion) const {
  if (job_->worker_index() == kFirstWorker) {
    std::vector<data::DataRange> items;
    if (order == nullptr) {
      items = data_.source().units;
    } else {
      for (const data::GroupOrder::Window& window : order->windows()) {
        items.push_back({.begin = window.begin, .end = window.end});
      }
    }
    OARLOCK_RETURN_IF_ERROR(
        job_->DefinePhase(phase_name, items,
                          order == nullptr ? num_rows_ : order->size(),
                          OrderText())
            .status());
  }
  OARLOCK_RETURN_IF_ERROR(job_->Barrier(absl::StrCat(phase_name, "/defined")));
  return NewLeasedRanges(
      job_, phase_name, static_cast<size_t>(config_.thread_num()),
      std::move(run_completion), NewLeasedReader(std::move(order)), clock_);
}

std::vector<std::vector<data::ExampleRange>> ColumnarPhases::Shares(
    const data::GroupOrder* order) const {
  const uint32_t num_workers = job_->num_workers();
  std::vector<std::vector<data::ExampleRange>> shares(num_workers);
  if (order != nullptr) {
    for (uint32_t worker = 0; worker < num_workers; ++worker) {
      shares[worker].push_back(order->PositionsOf(worker));
    }
    return shares;
  }
  const std::vector<data::DataRange>& units = data_.source().units;
  for (size_t g = 0; g < units.size(); ++g) {
    shares[g % num_workers].push_back(
        {units[g].source, units[g].begin, units[g].end});
  }
  return shares;
}

absl::StatusOr<std::unique_ptr<EpochRanges>> ColumnarPhases::StartStatic(
    const std::string& phase_name,
    std::shared_ptr<const data::GroupOrder> order) const {
  OARLOCK_ASSIGN_OR_RETURN(
      data::ExampleIntervals covered,
      job_->DefinePhase(phase_name, {},
                        order == nullptr ? num_rows_ : order->size(),
                        OrderText()));
  const auto num_threads = static_cast<size_t>(config_.thread_num());
  auto feed = std::make_shared<TurnFeed>(
      [this, order](data::BadLines* bad_lines) {
        return NewStream(order, bad_lines);
      },
      num_threads);
  return NewSharedRanges(
      Shares(order.get()), std::move(covered),
      static_cast<uint64_t>(config_.batch_size()), job_->worker_index(),
      num_threads,
      [feed](size_t compute_thread, data::RangeSource* source,
             data::BadLines* bad_lines) {
        return std::make_unique<data::RowReader>(feed->Get(source, bad_lines),
                                                 compute_thread);
      });
}

}  // namespace oarlock::worker
