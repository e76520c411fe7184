#include "capi/step_marks.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace oarlock::capi {

std::vector<v1::TrainedExamples> StepMarks::Mark::ToProto() const {
  std::vector<v1::TrainedExamples> result;
  for (const auto& [name, examples] : trained) {
    if (examples.empty()) continue;
    v1::TrainedExamples& entry = result.emplace_back();
    entry.set_phase_name(name);
    for (const data::ExampleRange& range : examples.ranges()) {
      v1::DataRange* const to = entry.add_ranges();
      to->set_source(range.source);
      to->set_begin(range.begin);
      to->set_end(range.end);
    }
  }
  return result;
}

uint64_t StepMarks::Begin(const std::string& phase_name,
                          const std::vector<data::ExampleRange>& examples,
                          uint64_t round) {
  const uint64_t number = sync_ ? round : cut_;
  ++under_way_[number];
  if (!examples.empty()) {
    data::ExampleIntervals& trained = trained_[number][phase_name];
    for (const data::ExampleRange& range : examples) trained.Add(range);
  }
  return number;
}

void StepMarks::End(uint64_t number, bool ok) {
  const auto count = under_way_.find(number);
  OARLOCK_CHECK(count != under_way_.end());
  if (--count->second == 0) under_way_.erase(count);
  if (!ok) failed_ = true;
  if (sync_) last_round_ = std::max(last_round_, number);
}

void StepMarks::Observe(uint64_t cut, uint64_t round) {
  opened_ = std::max(opened_, cut);
  if (!sync_) {
    newest_ = std::max(newest_, cut);
    return;
  }
  if (round == 0 || cut <= newest_) return;
  newest_ = cut;
  newest_round_ = round;
}

void StepMarks::JoinedRounds(uint64_t complete) {
  sync_ = in_rounds_ = true;
  last_round_ = std::max(last_round_, complete);
}

std::optional<StepMarks::Mark> StepMarks::TakeDue() {
  if (failed_ || marking_) return std::nullopt;
  if (newest_ > cut_ &&
      (!sync_ || !in_rounds_ || last_round_ >= newest_round_)) {
    cut_ = newest_;
    due_ = true;
  }
  const uint64_t limit = sync_ ? newest_round_ + 1 : cut_;
  if (!due_) return std::nullopt;
  if (!under_way_.empty() && under_way_.begin()->first < limit) {
    return std::nullopt;
  }
  due_ = false;
  marking_ = true;
  return Take(cut_, limit);
}

StepMarks::Mark StepMarks::Take(uint64_t cut, uint64_t limit) {
  Mark mark;
  mark.cut = cut;
  const auto end = trained_.lower_bound(limit);
  for (auto it = trained_.begin(); it != end; ++it) {
    for (const auto& [name, examples] : it->second) {
      mark.trained[name].Merge(examples);
    }
  }
  trained_.erase(trained_.begin(), end);
  return mark;
}

void StepMarks::EndMark(const Mark& mark, bool ok) {
  marking_ = false;
  if (ok) return;
  auto& kept = trained_[0];
  for (const auto& [name, examples] : mark.trained) kept[name].Merge(examples);
}

std::optional<StepMarks::Mark> StepMarks::TakeRest() {
  if (failed_ || trained_.empty()) return std::nullopt;
  Mark mark = Take(std::max({cut_, newest_, opened_}) + 1, ~uint64_t{0});
  if (mark.trained.empty()) return std::nullopt;
  return mark;
}

}  // namespace oarlock::capi
