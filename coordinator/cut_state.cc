#include "coordinator/cut_state.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace oarlock::coordinator {

uint64_t CutState::Open(std::set<uint32_t> workers) {
  OARLOCK_CHECK(!open_);
  open_ = true;
  round_ = 0;
  ended_why_.clear();
  ++newest_;
  waited_for_ = std::move(workers);
  const auto due = std::stable_partition(
      later_.begin(), later_.end(),
      [this](const Report& report) { return report.cut > newest_; });
  for (auto it = due; it != later_.end(); ++it) {
    RangeSet& covered = covered_[it->trained.phase_name()];
    for (const v1::DataRange& range : it->trained.ranges()) covered.Add(range);
  }
  later_.erase(due, later_.end());
  return newest_;
}

absl::Status CutState::Mark(const v1::MarkCutRequest& request) {
  if (request.cut() > newest_ + 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "worker ", request.worker_index(), " marks cut ", request.cut(),
        ", but the newest is ", newest_, "; legal is up to ", newest_ + 1));
  }
  for (const v1::TrainedExamples& trained : request.trained()) {
    for (const v1::DataRange& range : trained.ranges()) {
      if (range.end() > range.begin()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("worker ", request.worker_index(), " marks cut ",
                       request.cut(), " with examples ", range.begin(), " to ",
                       range.end(), " of '", trained.phase_name(),
                       "'; legal is a range with an end after its begin"));
    }
  }
  for (const v1::TrainedExamples& trained : request.trained()) {
    if (request.cut() > newest_) {
      later_.push_back({request.cut(), trained});
      continue;
    }
    RangeSet& covered = covered_[trained.phase_name()];
    for (const v1::DataRange& range : trained.ranges()) covered.Add(range);
  }
  if (open_ && request.cut() == newest_) Withdraw(request.worker_index());
  return absl::OkStatus();
}

void CutState::Close() {
  open_ = false;
  round_ = 0;
  ended_why_.clear();
  waited_for_.clear();
}

void CutState::EndEarly(std::string why) {
  OARLOCK_CHECK(open_);
  if (ended_why_.empty()) ended_why_ = std::move(why);
}

void CutState::Cover(const std::string& phase_name,
                     const std::vector<v1::DataRange>& ranges) {
  if (ranges.empty()) return;
  if (open_) {
    Report& report = later_.emplace_back();
    report.cut = newest_ + 1;
    report.trained.set_phase_name(phase_name);
    report.trained.mutable_ranges()->Assign(ranges.begin(), ranges.end());
    return;
  }
  RangeSet& covered = covered_[phase_name];
  for (const v1::DataRange& range : ranges) covered.Add(range);
}

std::map<std::string, RangeSet> CutState::Covered() const { return covered_; }

void CutState::Restore(const v1::CheckpointManifest& manifest) {
  newest_ = std::max(newest_, manifest.cut());
  for (const v1::PhaseCoverage& coverage : manifest.works()) {
    RangeSet& covered = covered_[coverage.work()];
    for (const v1::DataRange& range : coverage.covered()) covered.Add(range);
  }
}

void CutState::Save(v1::SavedCutState* state) const {
  state->set_newest(newest_);
  state->set_open(open_);
  state->set_round(round_);
  state->set_ended_why(ended_why_);
  state->mutable_waited_for()->Add(waited_for_.begin(), waited_for_.end());
  SaveCovered(covered_, state->mutable_covered());
  for (const Report& report : later_) {
    v1::CutReportState* saved = state->add_later();
    saved->set_cut(report.cut);
    *saved->mutable_trained() = report.trained;
  }
}

void CutState::Load(const v1::SavedCutState& state) {
  newest_ = state.newest();
  open_ = state.open();
  round_ = state.round();
  ended_why_ = state.ended_why();
  waited_for_ = {state.waited_for().begin(), state.waited_for().end()};
  LoadCovered(state.covered(), &covered_);
  later_.clear();
  for (const v1::CutReportState& saved : state.later()) {
    later_.push_back({saved.cut(), saved.trained()});
  }
}

}  // namespace oarlock::coordinator
