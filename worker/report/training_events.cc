#include "worker/report/training_events.h"

#include <cmath>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace oarlock::worker {
namespace {

// Upper end of the bucket below which `share` of the steps lie; as in the
// summary.
double StalenessQuantile(const std::vector<uint64_t>& histogram, double share) {
  uint64_t total = 0;
  for (const uint64_t steps : histogram) total += steps;
  uint64_t below = 0;
  for (size_t bucket = 0; bucket < histogram.size(); ++bucket) {
    below += histogram[bucket];
    if (total > 0 &&
        static_cast<double>(below) >= share * static_cast<double>(total)) {
      return std::ldexp(1.0, static_cast<int>(bucket)) - 1;
    }
  }
  return std::nan("");
}

absl::Time FromUnixSeconds(double seconds) {
  return absl::UnixEpoch() + absl::Seconds(seconds);
}

}  // namespace

TrainingCurves::TrainingCurves(const v1::JobStatusResponse& first) {
  for (const v1::Evaluation& evaluation : first.evaluations()) {
    evaluations_.emplace(evaluation.work(), evaluation.unix_seconds());
  }
}

TrainingCurves::Mark TrainingCurves::MarkOf(const v1::JobStatusResponse& status,
                                            absl::Time now) {
  Mark mark;
  mark.time = now;
  for (const v1::PhaseStatus& phase : status.phases()) {
    const v1::PhaseProgress& progress = phase.progress();
    if (progress.phase() != "train") continue;
    mark.examples += progress.examples();
    mark.steps += progress.steps();
    mark.loss_sum += progress.loss_sum();
    const auto& histogram = progress.staleness_histogram();
    if (static_cast<size_t>(histogram.size()) > mark.staleness.size()) {
      mark.staleness.resize(histogram.size());
    }
    for (int i = 0; i < histogram.size(); ++i)
      mark.staleness[i] += histogram[i];
  }
  return mark;
}

std::vector<TrainingCurves::Point> TrainingCurves::Update(
    const v1::JobStatusResponse& status, absl::Time now) {
  std::vector<Point> points;
  Mark mark = MarkOf(status, now);
  Mark nothing;
  nothing.time = now;
  const Mark before = std::exchange(mark_, mark).value_or(nothing);
  if (mark.examples > before.examples) {
    Point point{static_cast<int64_t>(mark.steps), now, {}};
    const auto examples = static_cast<double>(mark.examples - before.examples);
    point.scalars.emplace_back("train/loss",
                               (mark.loss_sum - before.loss_sum) / examples);
    for (const v1::PhaseStatus& phase : status.phases()) {
      if (phase.progress().phase() != "train") continue;
      // The newest phase stands last.
      if (!point.scalars.empty() && point.scalars.back().first == "train/auc") {
        point.scalars.pop_back();
      }
      point.scalars.emplace_back("train/auc", phase.auc());
    }
    const double seconds = absl::ToDoubleSeconds(now - before.time);
    if (seconds > 0) {
      point.scalars.emplace_back("train/examples_per_second",
                                 examples / seconds);
    }
    for (size_t i = 0; i < before.staleness.size(); ++i) {
      mark.staleness[i] -= before.staleness[i];
    }
    point.scalars.emplace_back("train/staleness_p50",
                               StalenessQuantile(mark.staleness, .5));
    point.scalars.emplace_back("train/staleness_p99",
                               StalenessQuantile(mark.staleness, .99));
    points.push_back(std::move(point));
  }
  for (const v1::Evaluation& evaluation : status.evaluations()) {
    if (!evaluations_.emplace(evaluation.work(), evaluation.unix_seconds())
             .second) {
      continue;
    }
    // "predict/7" is another curve than the test files' two kinds.
    const std::string tag =
        absl::StartsWith(evaluation.work(), "predict/") ? "predict" : "test";
    points.push_back({static_cast<int64_t>(evaluation.trained_steps()),
                      FromUnixSeconds(evaluation.unix_seconds()),
                      {{tag + "/auc", evaluation.auc()},
                       {tag + "/logloss", evaluation.logloss()}}});
  }
  return points;
}

absl::StatusOr<std::unique_ptr<TrainingEvents>> TrainingEvents::Start(
    const std::string& folder, absl::Duration period, Source source,
    const Clocks& clocks) {
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<EventFile> file,
                           EventFile::Create(folder, clocks.wall->Now()));
  Log().info("events for TensorBoard go to {}", file->path());
  OARLOCK_ASSIGN_OR_RETURN(const v1::JobStatusResponse first, source());
  return absl::WrapUnique(new TrainingEvents(std::move(file), period,
                                             std::move(source), clocks, first));
}

TrainingEvents::TrainingEvents(std::unique_ptr<EventFile> file,
                               absl::Duration period, Source source,
                               const Clocks& clocks,
                               const v1::JobStatusResponse& first)
    : period_(period),
      source_(std::move(source)),
      clocks_(clocks),
      file_(std::move(file)),
      curves_(first) {
  // From here on examples and seconds are counted.
  curves_.Update(first, clocks_.wall->Now());
  thread_ = std::thread([this] { Run(); });
}

TrainingEvents::~TrainingEvents() { EndThread(); }

void TrainingEvents::EndThread() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void TrainingEvents::Finish(const v1::JobStatusResponse& last) {
  EndThread();
  const absl::Status written = Write(last);
  if (!written.ok()) Log().warn("{}", std::string(written.message()));
}

void TrainingEvents::Run() {
  for (;;) {
    {
      absl::MutexLock lock(&mutex_);
      if (clocks_.monotonic->AwaitFor(&mutex_, absl::Condition(&stopping_),
                                      period_))
        return;
    }
    const absl::StatusOr<v1::JobStatusResponse> status = source_();
    // Said elsewhere: whoever trains asks the same servers.
    if (!status.ok()) continue;
    const absl::Status written = Write(*status);
    if (!written.ok()) {
      Log().warn("{}; no further events", std::string(written.message()));
      return;
    }
  }
}

absl::Status TrainingEvents::Write(const v1::JobStatusResponse& status) {
  for (const TrainingCurves::Point& point :
       curves_.Update(status, clocks_.wall->Now())) {
    OARLOCK_RETURN_IF_ERROR(file_->Add(point.step, point.time, point.scalars));
  }
  return absl::OkStatus();
}

}  // namespace oarlock::worker
