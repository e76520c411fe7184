#include "worker/cut/cut_marker.h"

#include <algorithm>
#include <utility>

#include "absl/synchronization/blocking_counter.h"
#include "base/check.h"
#include "base/log.h"
#include "proto/v1/coordinator_ranges.pb.h"

namespace oarlock::worker {
namespace {

// All numbers of pushes are below this.
constexpr uint64_t kNoLimit = ~uint64_t{0};
// From the opening of a cut until the coordinator knows its round it asks all
// servers, once.
constexpr int kRoundQuestions = 20;
constexpr absl::Duration kRoundPause = absl::Milliseconds(50);

}  // namespace

CutMarker::CutMarker(client::ParameterClient* parameters,
                     client::JobClient* job, Numbering numbering,
                     const Clock& clock)
    : parameters_(parameters),
      job_(job),
      numbering_(numbering),
      clock_(clock),
      takes_cuts_(job->takes_cuts()),
      newest_(job->first_cut()),
      opened_(job->first_cut()),
      cut_(job->first_cut()) {
  if (!takes_cuts_) return;
  thread_ = std::thread([this] { Run(); });
  if (numbering == Numbering::kByCut) {
    parameters->SetCutObserver([this](uint64_t cut) { OnCut(cut); });
  }
  job->SetCutObserver(
      [this](uint64_t cut, uint64_t round) { OnCutAndRound(cut, round); });
}

CutMarker::~CutMarker() {
  if (!takes_cuts_) return;
  parameters_->SetCutObserver(nullptr);
  job_->SetCutObserver(nullptr);
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

uint64_t CutMarker::cut() const {
  absl::MutexLock lock(&mutex_);
  return cut_;
}

void CutMarker::OnCut(uint64_t cut) {
  absl::MutexLock lock(&mutex_);
  newest_ = std::max(newest_, cut);
}

void CutMarker::OnCutAndRound(uint64_t cut, uint64_t round) {
  if (numbering_ == Numbering::kByCut) return OnCut(cut);
  absl::MutexLock lock(&mutex_);
  opened_ = std::max(opened_, cut);
  if (round == 0 || cut <= newest_) return;
  newest_ = cut;
  newest_round_ = round;
}

void CutMarker::Push(const std::string& phase_name,
                     const client::PushRequest& push,
                     client::TableVersions* versions,
                     std::shared_ptr<const void> memory,
                     client::ParameterClient::Done done) {
  if (!takes_cuts_) {
    return parameters_->Push(push, versions, std::move(memory),
                             std::move(done));
  }
  const uint64_t number =
      numbering_ == Numbering::kByCut ? push.cut : push.round;
  {
    absl::MutexLock lock(&mutex_);
    ++under_way_[number];
    data::ExampleIntervals& examples = trained_[number][phase_name];
    for (const data::ExampleRange& range : push.examples) examples.Add(range);
  }
  Send(number, push, versions, std::move(memory), std::move(done));
}

void CutMarker::SendCompletingPush(client::PushRequest push,
                                   std::shared_ptr<const void> memory,
                                   client::ParameterClient::Done done) {
  OARLOCK_CHECK(numbering_ == Numbering::kByCut);
  {
    absl::MutexLock lock(&mutex_);
    // In one step, so that no mark comes in between.
    push.cut = cut_;
    ++under_way_[push.cut];
  }
  Send(push.cut, push, /*versions=*/nullptr, std::move(memory),
       std::move(done));
}

void CutMarker::Send(uint64_t number, const client::PushRequest& push,
                     client::TableVersions* versions,
                     std::shared_ptr<const void> memory,
                     client::ParameterClient::Done done) {
  parameters_->Push(
      push, versions, std::move(memory),
      [this, number, done = std::move(done)](absl::Status status) mutable {
        {
          absl::MutexLock lock(&mutex_);
          if (!status.ok()) failed_ = true;
          const auto count = under_way_.find(number);
          if (--count->second == 0) under_way_.erase(count);
          if (numbering_ == Numbering::kByRound) {
            last_round_ = std::max(last_round_, number);
          }
        }
        done(std::move(status));
      });
}

void CutMarker::BeginEpoch(DenseCopyPool* copies, Flush flush) {
  absl::MutexLock lock(&mutex_);
  OARLOCK_CHECK(copies_ == nullptr);
  // Nobody else has them yet.
  std::vector<DenseCopy*> all;
  for (size_t i = 0; i < copies->num_copies(); ++i) {
    all.push_back(copies->Acquire());
    all.back()->set_cut(cut_);
  }
  for (DenseCopy* copy : all) copies->Release(copy);
  copies_ = copies;
  flush_ = std::move(flush);
}

void CutMarker::EndEpoch(bool failed) {
  DenseCopyPool* copies;
  Flush flush;
  {
    absl::MutexLock lock(&mutex_);
    OARLOCK_CHECK(copies_ != nullptr);
    mutex_.Await(absl::Condition(
        +[](bool* in_use) { return !*in_use; }, &copies_in_use_));
    copies_in_use_ = true;
    copies = copies_;
    flush = flush_;
  }
  bool dropped = false;
  absl::BlockingCounter flushing(static_cast<int>(copies->num_copies()));
  for (size_t i = 0; i < copies->num_copies(); ++i) {
    // Not given back: no compute thread wants it any more.
    DenseCopy* const copy = copies->Acquire();
    if (failed) {
      dropped = dropped || copy->HasGradients();
      flushing.DecrementCount();
      continue;
    }
    flush(copy, copy->cut(),
          [&flushing](const absl::Status&) { flushing.DecrementCount(); });
  }
  flushing.Wait();
  absl::MutexLock lock(&mutex_);
  failed_ = failed_ || dropped;
  copies_ = nullptr;
  flush_ = nullptr;
  copies_in_use_ = false;
}

void CutMarker::JoinedRounds(uint64_t complete) {
  absl::MutexLock lock(&mutex_);
  in_rounds_ = true;
  last_round_ = std::max(last_round_, complete);
}

void CutMarker::LeftRounds() {
  absl::MutexLock lock(&mutex_);
  in_rounds_ = false;
}

bool CutMarker::MustMark() const {
  if (failed_ || copies_in_use_ || newest_ <= cut_) return false;
  return numbering_ == Numbering::kByCut || !in_rounds_ ||
         last_round_ >= newest_round_;
}

uint64_t CutMarker::Limit() const {
  return numbering_ == Numbering::kByCut ? cut_ : cut_round_ + 1;
}

bool CutMarker::OlderPushesAnswered() const {
  return under_way_.empty() || under_way_.begin()->first >= Limit();
}

void CutMarker::Run() {
  for (;;) {
    uint64_t cut;
    {
      absl::MutexLock lock(&mutex_);
      const auto must_mark = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stopping_ || MustMark();
      };
      mutex_.Await(absl::Condition(&must_mark));
      if (stopping_) return;
      // In one step with looking for an epoch: the next one begins with it.
      cut = cut_ = newest_;
      cut_round_ = newest_round_;
      marking_ = true;
      copies_in_use_ = copies_ != nullptr;
    }
    AdvanceCopies(cut);
    uint64_t limit;
    {
      absl::MutexLock lock(&mutex_);
      const auto answered = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stopping_ || failed_ || OlderPushesAnswered();
      };
      mutex_.Await(absl::Condition(&answered));
      if (stopping_) return;
      if (failed_) {
        marking_ = false;
        continue;
      }
      limit = Limit();
    }
    const absl::Status status = Mark(cut, limit);
    if (!status.ok()) {
      Log().warn("cut {} was not marked: {}", cut,
                 std::string(status.message()));
    }
    absl::MutexLock lock(&mutex_);
    marking_ = false;
  }
}

void CutMarker::AdvanceCopies(uint64_t cut) {
  DenseCopyPool* copies;
  Flush flush;
  {
    absl::MutexLock lock(&mutex_);
    if (!copies_in_use_) return;
    copies = copies_;
    flush = flush_;
  }
  copies->BeginAdvance(cut);
  absl::BlockingCounter advancing(static_cast<int>(copies->num_copies()));
  for (size_t i = 0; i < copies->num_copies(); ++i) {
    DenseCopy* const copy = copies->AcquireToAdvance();
    flush(copy, copy->cut(),
          [cut, copy, copies, &advancing](const absl::Status&) {
            copy->set_cut(cut);
            copies->Release(copy);
            advancing.DecrementCount();
          });
  }
  advancing.Wait();
  absl::MutexLock lock(&mutex_);
  copies_in_use_ = false;
}

CutMarker::Trained CutMarker::TakeTrained(uint64_t limit) {
  Trained taken;
  const auto end = trained_.lower_bound(limit);
  for (auto it = trained_.begin(); it != end; ++it) {
    for (const auto& [name, examples] : it->second) taken[name].Merge(examples);
  }
  trained_.erase(trained_.begin(), end);
  return taken;
}

absl::Status CutMarker::Mark(uint64_t cut, uint64_t limit) {
  Trained taken;
  {
    absl::MutexLock lock(&mutex_);
    taken = TakeTrained(limit);
  }
  std::vector<v1::TrainedExamples> trained;
  for (const auto& [name, examples] : taken) {
    if (examples.empty()) continue;
    v1::TrainedExamples& entry = trained.emplace_back();
    entry.set_phase_name(name);
    for (const data::ExampleRange& range : examples.ranges()) {
      v1::DataRange* const to = entry.add_ranges();
      to->set_source(range.source);
      to->set_begin(range.begin);
      to->set_end(range.end);
    }
  }
  absl::Status status = job_->MarkCut(cut, trained);
  if (status.ok()) return status;
  absl::MutexLock lock(&mutex_);
  Trained& kept = trained_[0];
  for (const auto& [name, examples] : taken) kept[name].Merge(examples);
  return status;
}

absl::Status CutMarker::LearnRound() {
  for (int i = 0; i < kRoundQuestions; ++i) {
    const absl::Status status = job_->Report();
    if (!status.ok()) return status;
    absl::MutexLock lock(&mutex_);
    const auto known = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return opened_ <= newest_;
    };
    if (clock_.AwaitFor(&mutex_, absl::Condition(&known), kRoundPause)) break;
  }
  return absl::OkStatus();
}

absl::Status CutMarker::ReportRest() {
  if (!takes_cuts_) return absl::OkStatus();
  if (numbering_ == Numbering::kByRound) {
    absl::Status status = LearnRound();
    if (!status.ok()) return status;
  }
  uint64_t cut;
  {
    absl::MutexLock lock(&mutex_);
    OARLOCK_CHECK(copies_ == nullptr);
    const auto marked = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return failed_ || (!marking_ && !MustMark());
    };
    mutex_.Await(absl::Condition(&marked));
    const bool nothing =
        std::all_of(trained_.begin(), trained_.end(), [](const auto& entry) {
          return std::all_of(
              entry.second.begin(), entry.second.end(),
              [](const auto& phase) { return phase.second.empty(); });
        });
    if (failed_ || nothing) return absl::OkStatus();
    cut = std::max({cut_, newest_, opened_}) + 1;
  }
  return Mark(cut, kNoLimit);
}

}  // namespace oarlock::worker
