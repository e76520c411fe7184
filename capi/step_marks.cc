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
                          const std::vector<data::ExampleRange>& examples) {
  ++under_way_[cut_];
  if (!examples.empty()) {
    data::ExampleIntervals& trained = trained_[cut_][phase_name];
    for (const data::ExampleRange& range : examples) trained.Add(range);
  }
  return cut_;
}

void StepMarks::End(uint64_t cut, bool ok) {
  const auto count = under_way_.find(cut);
  OARLOCK_CHECK(count != under_way_.end());
  if (--count->second == 0) under_way_.erase(count);
  if (!ok) failed_ = true;
}

std::optional<StepMarks::Mark> StepMarks::TakeDue() {
  if (failed_ || marking_) return std::nullopt;
  if (newest_ > cut_) {
    cut_ = newest_;
    due_ = true;
  }
  if (!due_) return std::nullopt;
  if (!under_way_.empty() && under_way_.begin()->first < cut_) {
    return std::nullopt;
  }
  due_ = false;
  marking_ = true;
  return Take(cut_);
}

StepMarks::Mark StepMarks::Take(uint64_t cut) {
  Mark mark;
  mark.cut = cut;
  const auto end = trained_.lower_bound(cut);
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
  Mark mark = Take(std::max(cut_, newest_) + 1);
  if (mark.trained.empty()) return std::nullopt;
  return mark;
}

}  // namespace oarlock::capi
