#include "capi/work_progress.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace oarlock::capi {
namespace {

// As the coordinator has it: a longer name has no progress.
constexpr size_t kMaxNameBytes = 64;
// The nearest that a prediction is taken to be to 0 and 1, so that the loss is
// finite: the distance of 1 to the float before it.
constexpr double kLeastProbability = 1.0 / (1 << 24);
// Losses are added up in multiples of this, so that the sum does not tell in
// which order workers have added theirs.
constexpr double kLossUnit = 1.0 / (1 << 24);

double LossOf(float label, float prediction) {
  const double p =
      std::clamp<double>(prediction, kLeastProbability, 1 - kLeastProbability);
  return label > 0.5f ? -std::log(p) : -std::log1p(-p);
}

}  // namespace

std::string NameOf(const WorkId& work) {
  return absl::StrCat(work.first, "/", work.second);
}

void WorkProgress::AddStep(const WorkId& work, uint64_t examples) {
  if (work.first.size() > kMaxNameBytes) return;
  absl::MutexLock lock(&mutex_);
  v1::PhaseProgress& progress = done_[work];
  progress.set_steps(progress.steps() + 1);
  progress.set_examples(progress.examples() + examples);
}

absl::Status WorkProgress::AddPredictions(const WorkId& evaluation,
                                          absl::Span<const float> labels,
                                          absl::Span<const float> predictions) {
  if (evaluation.first.empty() || evaluation.first.size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the name of an evaluation has ", evaluation.first.size(),
                     " bytes; legal are 1 to ", kMaxNameBytes));
  }
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] != 0.0f && labels[i] != 1.0f) {
      return absl::InvalidArgumentError(
          absl::StrCat("label ", i, " is ", labels[i], "; legal are 0 and 1"));
    }
    if (!(predictions[i] >= 0.0f && predictions[i] <= 1.0f)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "prediction ", i, " is ", predictions[i],
          "; legal are probabilities, 0 to 1: apply the sigmoid first"));
    }
  }
  absl::MutexLock lock(&mutex_);
  if (evaluations_.size() >= kMaxEvaluations &&
      !evaluations_.contains(evaluation)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("'", NameOf(evaluation), "' would be evaluation ",
                     evaluations_.size() + 1, " that is open; legal are ",
                     kMaxEvaluations, ": sum up one first"));
  }
  Sums& sums = evaluations_[evaluation];
  double loss = 0;
  double label_sum = 0;
  double prediction_sum = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    sums.histogram.Add(predictions[i], labels[i] > 0.5f);
    loss += std::round(LossOf(labels[i], predictions[i]) / kLossUnit);
    label_sum += labels[i];
    prediction_sum += std::round(predictions[i] / kLossUnit);
  }
  v1::PhaseProgress& progress = sums.progress;
  progress.set_steps(progress.steps() + 1);
  progress.set_examples(progress.examples() + labels.size());
  progress.set_loss_sum(progress.loss_sum() + loss * kLossUnit);
  progress.set_label_sum(progress.label_sum() + label_sum);
  progress.set_prediction_sum(progress.prediction_sum() +
                              prediction_sum * kLossUnit);
  return absl::OkStatus();
}

void WorkProgress::EndEvaluation(const WorkId& evaluation, bool report) {
  absl::MutexLock lock(&mutex_);
  auto sums = evaluations_.extract(evaluation);
  if (sums.empty() || !report) return;
  v1::PhaseProgress& progress = done_[evaluation];
  progress = sums.mapped().progress;
  sums.mapped().histogram.VisitNonEmpty(
      [&progress](uint32_t bucket, uint64_t positives, uint64_t negatives) {
        progress.add_buckets(bucket);
        progress.add_positives(positives);
        progress.add_negatives(negatives);
      });
}

std::vector<v1::PhaseProgress> WorkProgress::Take() {
  absl::MutexLock lock(&mutex_);
  std::vector<v1::PhaseProgress> taken;
  for (auto& [work, progress] : done_) {
    progress.set_phase(work.first);
    progress.set_epoch(work.second);
    taken.push_back(std::move(progress));
  }
  done_.clear();
  return taken;
}

}  // namespace oarlock::capi
