#include "coordinator/job_progress.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "coordinator/recorded_time.h"

namespace oarlock::coordinator {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

void AddScalars(const v1::PhaseProgress& from, v1::PhaseProgress* to) {
  to->set_examples(to->examples() + from.examples());
  to->set_steps(to->steps() + from.steps());
  to->set_bad_lines(to->bad_lines() + from.bad_lines());
  to->set_loss_sum(to->loss_sum() + from.loss_sum());
  to->set_label_sum(to->label_sum() + from.label_sum());
  to->set_prediction_sum(to->prediction_sum() + from.prediction_sum());
  to->set_right_in_one(to->right_in_one() + from.right_in_one());
  to->set_right_in_five(to->right_in_five() + from.right_in_five());
  to->set_row_cache_lookups(to->row_cache_lookups() + from.row_cache_lookups());
  to->set_row_cache_hits(to->row_cache_hits() + from.row_cache_hits());
}

void AddStages(const v1::PhaseProgress& from, v1::PhaseProgress* to) {
  for (const v1::StageTime& time : from.stages()) {
    auto it = std::find_if(
        to->mutable_stages()->begin(), to->mutable_stages()->end(),
        [&](const v1::StageTime& s) { return s.stage() == time.stage(); });
    if (it != to->mutable_stages()->end()) {
      it->set_seconds(it->seconds() + time.seconds());
    } else if (to->stages_size() < JobProgress::kMaxStages) {
      *to->add_stages() = time;
    }
  }
}

void AddCounts(const google::protobuf::RepeatedField<uint64_t>& from,
               google::protobuf::RepeatedField<uint64_t>* to) {
  if (to->size() < from.size()) to->Resize(from.size(), 0);
  for (int i = 0; i < from.size(); ++i) *to->Mutable(i) += from.Get(i);
}

// All but the histogram.
void AddSums(const v1::PhaseProgress& from, v1::PhaseProgress* to) {
  AddScalars(from, to);
  AddStages(from, to);
  AddCounts(from.staleness_histogram(), to->mutable_staleness_histogram());
  AddCounts(from.dense_staleness_histogram(),
            to->mutable_dense_staleness_histogram());
}

}  // namespace

bool JobProgress::Phase::HasHistogram() const {
  if (sum.histogram != nullptr) return true;
  return std::any_of(open.begin(), open.end(), [](const auto& entry) {
    return entry.second.histogram != nullptr;
  });
}

AucHistogram JobProgress::Phase::Histogram() const {
  AucHistogram all;
  if (sum.histogram != nullptr) all = *sum.histogram;
  for (const auto& [worker, its] : open) {
    if (its.histogram != nullptr) all.Merge(*its.histogram);
  }
  return all;
}

void JobProgress::Phase::Keep(uint32_t worker) {
  const auto its = open.find(worker);
  if (its == open.end()) return;
  AddSums(its->second.progress, &sum.progress);
  if (sum.histogram == nullptr) {
    sum.histogram = std::move(its->second.histogram);
  } else if (its->second.histogram != nullptr) {
    sum.histogram->Merge(*its->second.histogram);
  }
  open.erase(its);
}

std::string JobProgress::NameOf(const v1::PhaseProgress& progress) {
  return absl::StrCat(progress.phase(), "/", progress.epoch());
}

void JobProgress::SetNumExamples(const std::string& name,
                                 uint64_t num_examples) {
  Find(name).num_examples = num_examples;
}

bool JobProgress::IsWhole(const std::string& name,
                          uint64_t num_examples) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end() || found->second->num_examples == 0) return false;
  const Phase& phase = *found->second;
  return num_examples == phase.num_examples ||
         num_examples + phase.sum.progress.bad_lines() == phase.num_examples;
}

void JobProgress::RecordStart(const std::string& name, absl::Time now) {
  Phase& phase = Find(name);
  phase.first = std::min(phase.first, now);
}

absl::Status JobProgress::Validate(const v1::PhaseProgress& progress) {
  if (progress.phase().empty() || progress.phase().size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "progress report for a phase whose name has ", progress.phase().size(),
        " bytes; legal are 1 to ", kMaxNameBytes, ", such as \"train\""));
  }
  if (progress.buckets_size() != progress.positives_size() ||
      progress.buckets_size() != progress.negatives_size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "progress report of ", NameOf(progress), " with ",
        progress.buckets_size(), " buckets, ", progress.positives_size(),
        " positives and ", progress.negatives_size(),
        " negatives; they must be equally many"));
  }
  for (uint32_t bucket : progress.buckets()) {
    if (bucket < AucHistogram::kNumBuckets) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "progress report of ", NameOf(progress), " with AUC bucket ", bucket,
        "; there are ", AucHistogram::kNumBuckets,
        "; worker and server must be of one version"));
  }
  const int staleness_buckets =
      std::max(progress.staleness_histogram_size(),
               progress.dense_staleness_histogram_size());
  if (staleness_buckets > kMaxStalenessBuckets ||
      progress.stages_size() > kMaxStages) {
    return absl::InvalidArgumentError(absl::StrCat(
        "progress report of ", NameOf(progress), " with ", staleness_buckets,
        " staleness buckets and ", progress.stages_size(), " stages; at most ",
        kMaxStalenessBuckets, " and ", kMaxStages, " are kept"));
  }
  return absl::OkStatus();
}

void JobProgress::Add(const v1::PhaseProgress& progress, absl::Time now) {
  Phase& phase = RecordReport(progress, now);
  AddTo(progress, &phase, &phase.sum);
}

void JobProgress::AddOpen(WorkerIndex worker, const v1::PhaseProgress& progress,
                          absl::Time now) {
  Phase& phase = RecordReport(progress, now);
  AddTo(progress, &phase, &phase.open[worker.value()]);
}

void JobProgress::Keep(WorkerIndex worker, const std::string& name) {
  const auto phase = by_name_.find(name);
  if (phase != by_name_.end()) phase->second->Keep(worker.value());
}

void JobProgress::KeepAll(WorkerIndex worker) {
  for (const std::unique_ptr<Phase>& phase : phases_) {
    phase->Keep(worker.value());
  }
}

void JobProgress::Withdraw(WorkerIndex worker) {
  for (const std::unique_ptr<Phase>& phase : phases_) {
    phase->open.erase(worker.value());
  }
}

JobProgress::Phase& JobProgress::RecordReport(const v1::PhaseProgress& progress,
                                              absl::Time now) {
  Phase& phase = Find(NameOf(progress));
  phase.first = std::min(phase.first, now);
  phase.last = std::max(phase.last, now);
  return phase;
}

void JobProgress::AddTo(const v1::PhaseProgress& progress, Phase* phase,
                        Sum* sum) {
  AddSums(progress, &sum->progress);
  if (progress.buckets_size() == 0 || phase->histogram_dropped) return;
  if (sum->histogram == nullptr) {
    sum->histogram = std::make_unique<AucHistogram>();
    DropOldHistograms();
    // A late report about an old phase may find no room for its histogram.
    if (sum->histogram == nullptr) return;
  }
  for (int i = 0; i < progress.buckets_size(); ++i) {
    sum->histogram->AddBucket(progress.buckets(i), progress.positives(i),
                              progress.negatives(i));
  }
}

void JobProgress::DropOldHistograms() {
  size_t kept = 0;
  for (auto it = phases_.rbegin(); it != phases_.rend(); ++it) {
    Phase& phase = **it;
    if (!phase.HasHistogram() || ++kept <= kMaxHistograms) continue;
    phase.last_auc = phase.Histogram().Auc();
    phase.histogram_dropped = true;
    phase.sum.histogram.reset();
    for (auto& [worker, its] : phase.open) its.histogram.reset();
  }
}

void JobProgress::FoldOldest() {
  const std::unique_ptr<Phase> oldest = std::move(phases_.front());
  phases_.pop_front();
  by_name_.erase(oldest->name);
  const v1::PhaseProgress& progress = oldest->sum.progress;
  const bool begun = oldest->first != absl::InfiniteFuture();
  if (!begun || (!folded_.contains(progress.phase()) &&
                 folded_.size() == kMaxFoldedNames)) {
    return;
  }
  while (!oldest->open.empty()) oldest->Keep(oldest->open.begin()->first);
  Phase& all = folded_[progress.phase()];
  all.name = oldest->name;
  AddSums(progress, &all.sum.progress);
  all.sum.progress.set_phase(progress.phase());
  all.sum.progress.set_epoch(progress.epoch());
  all.num_examples += oldest->num_examples;
  all.first = std::min(all.first, oldest->first);
  all.last = std::max(all.last, oldest->last);
}

JobProgress::Phase& JobProgress::Find(const std::string& name) {
  if (auto it = by_name_.find(name); it != by_name_.end()) return *it->second;
  if (phases_.size() == kMaxPhases) FoldOldest();
  phases_.push_back(std::make_unique<Phase>());
  Phase& phase = *phases_.back();
  phase.name = name;
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(name, absl::MaxSplits('/', 1));
  phase.sum.progress.set_phase(std::string(parts.first));
  uint32_t epoch = 0;
  if (absl::SimpleAtoi(parts.second, &epoch)) {
    phase.sum.progress.set_epoch(epoch);
  }
  by_name_[name] = &phase;
  return phase;
}

void JobProgress::Describe(
    bool with_histograms,
    google::protobuf::RepeatedPtrField<v1::PhaseStatus>* phases) const {
  for (const auto& [name, phase] : folded_) {
    Describe(phase, with_histograms, phases);
  }
  for (const std::unique_ptr<Phase>& phase : phases_) {
    Describe(*phase, with_histograms, phases);
  }
}

void JobProgress::Describe(
    const Phase& phase, bool with_histograms,
    google::protobuf::RepeatedPtrField<v1::PhaseStatus>* phases) {
  // Defined, but no worker has begun it yet.
  if (phase.first == absl::InfiniteFuture()) return;
  v1::PhaseStatus* const status = phases->Add();
  v1::PhaseProgress& progress = *status->mutable_progress();
  progress = phase.sum.progress;
  for (const auto& [worker, its] : phase.open) {
    AddSums(its.progress, &progress);
  }
  status->set_num_examples(phase.num_examples);
  status->set_logloss(progress.examples() == 0
                          ? kNaN
                          : progress.loss_sum() /
                                static_cast<double>(progress.examples()));
  if (phase.last >= phase.first) {
    status->set_seconds(absl::ToDoubleSeconds(phase.last - phase.first));
  }
  if (!phase.HasHistogram()) {
    status->set_auc(phase.histogram_dropped ? phase.last_auc : kNaN);
    return;
  }
  const AucHistogram histogram = phase.Histogram();
  status->set_auc(histogram.Auc());
  if (with_histograms) CopyHistogram(histogram, &progress);
}

void JobProgress::CopyHistogram(const AucHistogram& from,
                                v1::PhaseProgress* to) {
  from.VisitNonEmpty(
      [to](uint32_t bucket, uint64_t positives, uint64_t negatives) {
        to->add_buckets(bucket);
        to->add_positives(positives);
        to->add_negatives(negatives);
      });
}

bool JobProgress::SaveSum(const Sum& sum, v1::PhaseProgress* saved) {
  *saved = sum.progress;
  if (sum.histogram != nullptr) CopyHistogram(*sum.histogram, saved);
  return sum.histogram != nullptr;
}

JobProgress::Sum JobProgress::LoadSum(const v1::PhaseProgress& saved,
                                      bool has_histogram) {
  Sum sum;
  sum.progress = saved;
  sum.progress.clear_buckets();
  sum.progress.clear_positives();
  sum.progress.clear_negatives();
  if (!has_histogram) return sum;
  sum.histogram = std::make_unique<AucHistogram>();
  for (int i = 0; i < saved.buckets_size(); ++i) {
    sum.histogram->AddBucket(saved.buckets(i), saved.positives(i),
                             saved.negatives(i));
  }
  return sum;
}

void JobProgress::Save(
    google::protobuf::RepeatedPtrField<v1::PhaseState>* state) const {
  for (const auto& [name, phase] : folded_) {
    v1::PhaseState* const saved = state->Add();
    Save(phase, saved);
    saved->set_folded(true);
  }
  for (const std::unique_ptr<Phase>& phase : phases_) {
    Save(*phase, state->Add());
  }
}

void JobProgress::Save(const Phase& phase, v1::PhaseState* saved) {
  saved->set_name(phase.name);
  saved->set_has_histogram(SaveSum(phase.sum, saved->mutable_sum()));
  for (const auto& [worker, its] : phase.open) {
    v1::OpenProgressState* const open = saved->add_open();
    open->set_worker_index(worker);
    open->set_has_histogram(SaveSum(its, open->mutable_sum()));
  }
  saved->set_num_examples(phase.num_examples);
  saved->set_histogram_dropped(phase.histogram_dropped);
  saved->set_last_auc(phase.last_auc);
  saved->set_first_unix_ns(ToRecorded(phase.first));
  saved->set_last_unix_ns(ToRecorded(phase.last));
}

void JobProgress::Load(
    const google::protobuf::RepeatedPtrField<v1::PhaseState>& state) {
  phases_.clear();
  by_name_.clear();
  folded_.clear();
  for (const v1::PhaseState& saved : state) {
    Phase& phase =
        saved.folded() ? folded_[saved.sum().phase()] : Find(saved.name());
    phase.name = saved.name();
    phase.sum = LoadSum(saved.sum(), saved.has_histogram());
    for (const v1::OpenProgressState& open : saved.open()) {
      phase.open[open.worker_index()] =
          LoadSum(open.sum(), open.has_histogram());
    }
    phase.num_examples = saved.num_examples();
    phase.histogram_dropped = saved.histogram_dropped();
    phase.last_auc = saved.last_auc();
    phase.first = FromRecorded(saved.first_unix_ns());
    phase.last = FromRecorded(saved.last_unix_ns());
  }
}

}  // namespace oarlock::coordinator
