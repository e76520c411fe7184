#include "pserver/progress_board.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "pserver/recorded_time.h"

namespace oarlock {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::string NameOf(const v1::PhaseProgress& progress) {
  return absl::StrCat(progress.phase(), "/", progress.epoch());
}

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
    } else if (to->stages_size() < ProgressBoard::kMaxStages) {
      *to->add_stages() = time;
    }
  }
}

void AddCounts(const google::protobuf::RepeatedField<uint64_t>& from,
               google::protobuf::RepeatedField<uint64_t>* to) {
  if (to->size() < from.size()) to->Resize(from.size(), 0);
  for (int i = 0; i < from.size(); ++i) *to->Mutable(i) += from.Get(i);
}

}  // namespace

void ProgressBoard::SetNumExamples(const std::string& name,
                                   uint64_t num_examples) {
  Find(name).num_examples = num_examples;
}

void ProgressBoard::NoteStart(const std::string& name, absl::Time now) {
  Phase& phase = Find(name);
  phase.first = std::min(phase.first, now);
}

absl::Status ProgressBoard::Validate(const v1::PhaseProgress& progress) {
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
        "progress report of ", NameOf(progress), " with ",
        staleness_buckets, " staleness buckets and ",
        progress.stages_size(), " stages; at most ", kMaxStalenessBuckets,
        " and ", kMaxStages, " are kept"));
  }
  return absl::OkStatus();
}

void ProgressBoard::Add(const v1::PhaseProgress& progress, absl::Time now) {
  Phase& phase = Find(NameOf(progress));
  phase.first = std::min(phase.first, now);
  phase.last = std::max(phase.last, now);
  AddScalars(progress, &phase.sum);
  AddStages(progress, &phase.sum);
  AddCounts(progress.staleness_histogram(),
            phase.sum.mutable_staleness_histogram());
  AddCounts(progress.dense_staleness_histogram(),
            phase.sum.mutable_dense_staleness_histogram());
  AddHistogram(progress, &phase);
}

void ProgressBoard::AddHistogram(const v1::PhaseProgress& progress,
                                 Phase* phase) {
  if (progress.buckets_size() == 0 || phase->histogram_dropped) return;
  if (phase->histogram == nullptr) {
    phase->histogram = std::make_unique<AucHistogram>();
    size_t kept = 0;
    for (auto it = phases_.rbegin(); it != phases_.rend(); ++it) {
      if ((*it)->histogram == nullptr || ++kept <= kMaxHistograms) continue;
      (*it)->last_auc = (*it)->histogram->Auc();
      (*it)->histogram_dropped = true;
      (*it)->histogram.reset();
    }
    // A straggler's report of a pass that is long over may find no room.
    if (phase->histogram == nullptr) return;
  }
  for (int i = 0; i < progress.buckets_size(); ++i) {
    phase->histogram->AddBucket(progress.buckets(i), progress.positives(i),
                                progress.negatives(i));
  }
}

ProgressBoard::Phase& ProgressBoard::Find(const std::string& name) {
  if (auto it = by_name_.find(name); it != by_name_.end()) return *it->second;
  if (phases_.size() == kMaxPhases) {
    by_name_.erase(phases_.front()->name);
    phases_.pop_front();
  }
  phases_.push_back(std::make_unique<Phase>());
  Phase& phase = *phases_.back();
  phase.name = name;
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(name, absl::MaxSplits('/', 1));
  phase.sum.set_phase(std::string(parts.first));
  uint32_t epoch = 0;
  if (absl::SimpleAtoi(parts.second, &epoch)) phase.sum.set_epoch(epoch);
  by_name_[name] = &phase;
  return phase;
}

void ProgressBoard::Describe(
    bool with_histograms,
    google::protobuf::RepeatedPtrField<v1::PhaseStatus>* phases) const {
  for (const std::unique_ptr<Phase>& phase : phases_) {
    // Defined, but nobody has come to it yet.
    if (phase->first == absl::InfiniteFuture()) continue;
    v1::PhaseStatus* status = phases->Add();
    *status->mutable_progress() = phase->sum;
    status->set_num_examples(phase->num_examples);
    const uint64_t examples = phase->sum.examples();
    status->set_logloss(examples == 0 ? kNaN
                                      : phase->sum.loss_sum() /
                                            static_cast<double>(examples));
    if (phase->last >= phase->first) {
      status->set_seconds(absl::ToDoubleSeconds(phase->last - phase->first));
    }
    if (phase->histogram == nullptr) {
      status->set_auc(phase->histogram_dropped ? phase->last_auc : kNaN);
      continue;
    }
    status->set_auc(phase->histogram->Auc());
    if (!with_histograms) continue;
    CopyHistogram(*phase->histogram, status->mutable_progress());
  }
}

void ProgressBoard::CopyHistogram(const AucHistogram& from,
                                  v1::PhaseProgress* to) {
  from.VisitNonEmpty(
      [to](uint32_t bucket, uint64_t positives, uint64_t negatives) {
        to->add_buckets(bucket);
        to->add_positives(positives);
        to->add_negatives(negatives);
      });
}

void ProgressBoard::Save(
    google::protobuf::RepeatedPtrField<v1::PhaseState>* state) const {
  for (const std::unique_ptr<Phase>& phase : phases_) {
    v1::PhaseState* saved = state->Add();
    saved->set_name(phase->name);
    *saved->mutable_sum() = phase->sum;
    saved->set_num_examples(phase->num_examples);
    saved->set_has_histogram(phase->histogram != nullptr);
    if (phase->histogram != nullptr) {
      CopyHistogram(*phase->histogram, saved->mutable_sum());
    }
    saved->set_histogram_dropped(phase->histogram_dropped);
    saved->set_last_auc(phase->last_auc);
    saved->set_first_unix_ns(ToRecorded(phase->first));
    saved->set_last_unix_ns(ToRecorded(phase->last));
  }
}

void ProgressBoard::Load(
    const google::protobuf::RepeatedPtrField<v1::PhaseState>& state) {
  phases_.clear();
  by_name_.clear();
  for (const v1::PhaseState& saved : state) {
    Phase& phase = Find(saved.name());
    phase.sum = saved.sum();
    phase.sum.clear_buckets();
    phase.sum.clear_positives();
    phase.sum.clear_negatives();
    phase.num_examples = saved.num_examples();
    if (saved.has_histogram()) {
      phase.histogram = std::make_unique<AucHistogram>();
      const v1::PhaseProgress& sum = saved.sum();
      for (int i = 0; i < sum.buckets_size(); ++i) {
        phase.histogram->AddBucket(sum.buckets(i), sum.positives(i),
                                   sum.negatives(i));
      }
    }
    phase.histogram_dropped = saved.histogram_dropped();
    phase.last_auc = saved.last_auc();
    phase.first = FromRecorded(saved.first_unix_ns());
    phase.last = FromRecorded(saved.last_unix_ns());
  }
}

}  // namespace oarlock
