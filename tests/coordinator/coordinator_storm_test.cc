// Workers and servers of an asynchronous job die again and again, and all of
// them at once: in the end, and in every checkpoint, each example was trained
// once.

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/random.h"
#include "coordinator/coordinator.h"
#include "proto/v1/checkpoint.pb.h"
#include "tests/coordinator/death_model.h"

namespace oarlock::coordinator {
namespace {

constexpr uint32_t kWorkers = 3;

// A server's side of the control plane.
struct ControlledServer {
  uint64_t generation = 1;
  uint64_t workers_version = 0;
  // By worker index: the newest generation that is refused.
  std::map<uint32_t, uint64_t> refused;
  std::vector<v1::WorkerIncarnation> wanted;
};

class Storm {
 public:
  explicit Storm(uint64_t seed)
      : random_(seed),
        model_(1 + static_cast<uint32_t>(random_.Below(3))),
        servers_(model_.num_servers()),
        clock_(absl::FromUnixMillis(1'000'000)),
        turns_per_death_(300 + random_.Below(1500)) {
    coordinator_.emplace(Options(), clock_);
    Define();
    for (uint32_t i = 0; i < kWorkers; ++i) Register(i);
  }

  void Run() {
    int turn = 0;
    for (; turn < 200'000 && !exhausted_; ++turn) {
      // Nobody dies any more after a while.
      stormy_ = turn < 15'000;
      Turn();
      if (::testing::Test::HasFatalFailure()) return;
    }
    ASSERT_TRUE(exhausted_);
    for (uint64_t example = 0; example < kExamples; ++example) {
      ASSERT_TRUE(model_.WasApplied(example, 1)) << "example " << example;
    }
    stormy_ = false;
    // Everything that died is forgotten.
    for (int i = 0; i < 3; ++i) {
      for (uint32_t s = 0; s < servers_.size(); ++s) ServerBeats(s);
    }
    for (const auto& [worker, generation] : dead_) {
      EXPECT_EQ(forgotten_[worker], generation) << "worker " << worker;
    }
    if (!cut_is_open_) {
      EXPECT_TRUE(coordinator_->OpenCut().ok());
    }
  }

  std::map<std::string, int> happened;

 private:
  struct Life {
    std::optional<ModelWorker> model;
    // 0: dead.
    uint64_t generation = 0;
    uint64_t newest_cut = 0;
    uint64_t last_request = 0;
  };

  CoordinatorOptions Options() const {
    CoordinatorOptions options;
    options.num_workers = num_workers_;
    options.num_servers = model_.num_servers();
    options.lease = absl::Seconds(10);
    options.restart_grace = absl::Hours(10);
    options.start_timeout = absl::Hours(10);
    return options;
  }

  void Define() {
    v1::DefinePhaseRequest define;
    define.set_phase_name("train/0");
    for (const v1::DataRange& range : DefinedRanges()) {
      *define.add_ranges() = range;
    }
    // A run may have other batches.
    define.set_num_examples(random_.Below(2));
    EXPECT_TRUE(coordinator_->DefinePhase(define).ok());
  }

  void Register(uint32_t index) {
    v1::RegisterWorkerRequest request;
    request.set_worker_index(index);
    const auto response = coordinator_->RegisterWorker(request);
    ASSERT_TRUE(response.ok()) << response.status();
    Life& life = lives_[index];
    life.generation = response->worker_generation();
    life.newest_cut = response->cut();
    life.last_request = 0;
    life.model.emplace(index, life.generation, life.newest_cut, &model_,
                       &random_);
  }

  ModelWorker::Gate GateOf(uint32_t worker, uint64_t generation) {
    return [this, worker, generation](uint32_t server, uint64_t cut) {
      ControlledServer& it = servers_[server];
      if (it.workers_version == 0 || generation <= it.refused[worker]) {
        return ModelWorker::Fate::kRefuse;
      }
      return cut > free_cut_ ? ModelWorker::Fate::kHold
                             : ModelWorker::Fate::kApply;
    };
  }

  void ServerBeats(uint32_t index) {
    ControlledServer& server = servers_[index];
    v1::ServerHeartbeatRequest request;
    request.set_server_index(index);
    request.set_server_generation(server.generation);
    request.set_workers_version(server.workers_version);
    for (const v1::WorkerIncarnation& worker : server.wanted) {
      *request.add_ledgers() = model_.Ledger(index, worker.worker_index(),
                                             worker.worker_generation());
    }
    const auto response = coordinator_->ServerHeartbeat(request);
    ASSERT_TRUE(response.ok()) << response.status();
    // A response may be lost.
    if (stormy_ && random_.Below(4) == 0) return;
    server.workers_version = response->workers_version();
    server.wanted.assign(response->wanted_ledgers().begin(),
                         response->wanted_ledgers().end());
    for (const v1::WorkerState& state : response->workers()) {
      uint64_t& refused = server.refused[state.worker_index()];
      const bool alive = state.life() == v1::WorkerState::ALIVE;
      refused = std::max<uint64_t>(refused,
                                   state.worker_generation() - (alive ? 1 : 0));
    }
    for (const v1::WorkerIncarnation& forgotten : response->forgotten()) {
      ASSERT_LE(forgotten.worker_generation(), dead_[forgotten.worker_index()]);
      forgotten_[forgotten.worker_index()] = forgotten.worker_generation();
    }
  }

  void WorkerTurns(uint32_t index) {
    Life& life = lives_[index];
    if (life.generation == 0) {
      // The dead one's messages are still on their way.
      if (life.model.has_value()) {
        life.model->Deliver(GateOf(index, life.model->generation()));
      }
      if (index < num_workers_ && (!stormy_ || random_.Below(400) == 0)) {
        Register(index);
      }
      return;
    }
    v1::HeartbeatRequest beat;
    beat.set_worker_index(index);
    beat.set_worker_generation(life.generation);
    const auto response = coordinator_->Heartbeat(beat);
    ASSERT_TRUE(response.ok()) << response.status();
    if (random_.Below(4) == 0) life.newest_cut = response->cut();
    life.model->Turn(life.newest_cut, GateOf(index, life.generation));
    if (const auto mark = life.model->TakeMark()) MarkCut(index, *mark);
    if (random_.Below(8) == 0 && life.model->num_examples_left() < 20) {
      Lease(index);
    }
  }

  void MarkCut(uint32_t index, const ModelWorker::Mark& mark) {
    v1::MarkCutRequest request;
    request.set_worker_index(index);
    request.set_worker_generation(lives_[index].generation);
    request.set_cut(mark.cut);
    v1::TrainedExamples* const trained = request.add_trained();
    trained->set_phase_name("train/0");
    for (uint64_t example : mark.examples) {
      v1::DataRange* const range = trained->add_ranges();
      range->set_source(example / kSourceExamples);
      range->set_begin(example % kSourceExamples);
      range->set_end(range->begin() + 1);
    }
    ASSERT_TRUE(coordinator_->MarkCut(request).ok());
  }

  void Lease(uint32_t index) {
    Life& life = lives_[index];
    v1::LeaseRangesRequest request;
    request.set_phase_name("train/0");
    request.set_worker_index(index);
    request.set_worker_generation(life.generation);
    request.set_request(++life.last_request);
    request.set_max_ranges(1 + static_cast<uint32_t>(random_.Below(2)));
    for (uint64_t lease : life.model->TakeDone()) request.add_done(lease);
    const auto response = coordinator_->LeaseRanges(request);
    ASSERT_TRUE(response.ok()) << response.status();
    for (int i = 0; i < response->ranges_size(); ++i) {
      life.model->AddRange(response->ranges(i), response->leases(i));
    }
    for (const v1::PushCompletion& completion : response->push_completions()) {
      life.model->AddPushCompletion(completion);
      ++happened[completion.has_worker() ? "push completions with a name"
                                         : "push completions without a name"];
    }
    exhausted_ = response->exhausted();
  }

  void Die(uint32_t index) {
    Life& life = lives_[index];
    if (life.generation == 0) return;
    ++happened["deaths"];
    if (cut_is_open_ && is_frozen_) ++happened["deaths while a cut is written"];
    dead_[index] = life.generation;
    life.generation = 0;
    if (random_.Below(2) == 0) {
      // Before anybody has noticed.
      Register(index);
      return;
    }
    // Silent for longer than its lease; the others are not.
    for (int second = 0; second < 12; ++second) {
      clock_.Advance(absl::Seconds(1));
      for (uint32_t i = 0; i < kWorkers; ++i) {
        v1::HeartbeatRequest beat;
        beat.set_worker_index(i);
        beat.set_worker_generation(lives_[i].generation);
        if (beat.worker_generation() != 0) {
          ASSERT_TRUE(coordinator_->Heartbeat(beat).ok());
        }
      }
      coordinator_->CheckDeadlines();
    }
  }

  // All processes, one of which may have given up before; a new run goes on
  // from the logs.
  void EverythingDies() {
    ++happened["runs"];
    bool fails = random_.Below(3) == 0;
    for (uint32_t i = 0; i < kWorkers; ++i) {
      Life& life = lives_[i];
      if (life.generation == 0) continue;
      if (std::exchange(fails, false)) {
        ++happened["jobs failed"];
        v1::FinishWorkerRequest finish;
        finish.set_worker_index(i);
        finish.set_worker_generation(life.generation);
        ASSERT_TRUE(coordinator_->FinishWorker(finish).ok());
        for (uint32_t s = 0; s < servers_.size(); ++s) {
          if (random_.Below(2) == 0) ServerBeats(s);
        }
      }
      // Its messages are on their way.
      dead_[i] = life.generation;
      life.generation = 0;
    }
    const v1::CoordinatorState state = coordinator_->Save();
    clock_.Advance(absl::Seconds(random_.Below(100)));
    num_workers_ = 1 + static_cast<uint32_t>(random_.Below(kWorkers));
    coordinator_.emplace(Options(), clock_);
    ASSERT_TRUE(coordinator_->Load(state).ok());
    coordinator_->BeginRun();
    for (uint32_t s = 0; s < servers_.size(); ++s) {
      servers_[s] = {servers_[s].generation + 1, 0, {}, {}};
      model_.Restart(s, published_);
    }
    if (cut_is_open_) Close();
    Define();
  }

  // One step of whoever makes checkpoints.
  void CutTurns() {
    if (!cut_is_open_) {
      if (!stormy_ || random_.Below(20) != 0) return;
      const auto cut = coordinator_->OpenCut();
      if (!cut.ok()) {
        ASSERT_TRUE(absl::IsUnavailable(cut.status())) << cut.status();
        ++happened["cuts refused"];
        return;
      }
      cut_is_open_ = true;
      is_frozen_ = false;
      newest_cut_ = *cut;
      free_cut_ = *cut - 1;
      return;
    }
    // Some take long to write.
    if (random_.Below(is_frozen_ ? 300 : 5) != 0) return;
    if (!is_frozen_) {
      const absl::Status marked =
          coordinator_->AwaitMarks(clock_, absl::ZeroDuration());
      if (absl::IsDeadlineExceeded(marked)) return;
      if (!marked.ok()) {
        ASSERT_TRUE(absl::IsAborted(marked)) << marked;
        ++happened["cuts ended"];
        Close();
        return;
      }
      is_frozen_ = true;
      free_cut_ = newest_cut_;
      frozen_.clear();
      for (uint64_t example = 0; example < kExamples; ++example) {
        if (model_.WasApplied(example, 1)) {
          frozen_.insert(example);
        } else {
          ASSERT_TRUE(model_.WasApplied(example, 0)) << "example " << example;
        }
      }
      return;
    }
    v1::CheckpointManifest manifest;
    coordinator_->DescribeCut(&manifest);
    std::set<uint64_t> covered;
    for (const v1::PhaseCoverage& coverage : manifest.works()) {
      for (const v1::DataRange& range : coverage.covered()) {
        for (uint64_t i = range.begin(); i < range.end(); ++i) {
          covered.insert(range.source() * kSourceExamples + i);
        }
      }
    }
    ASSERT_EQ(covered, frozen_) << "cut " << newest_cut_;
    ++happened["checkpoints"];
    published_ = newest_cut_;
    Close();
  }

  void Close() {
    free_cut_ = newest_cut_;
    coordinator_->CloseCut();
    cut_is_open_ = false;
  }

  void Turn() {
    clock_.Advance(absl::Milliseconds(1));
    if (random_.Below(20) == 0) coordinator_->CheckDeadlines();
    CutTurns();
    WorkerTurns(static_cast<uint32_t>(random_.Below(kWorkers)));
    const auto server = static_cast<uint32_t>(random_.Below(servers_.size()));
    if (random_.Below(4) == 0) ServerBeats(server);
    if (!stormy_) return;
    if (random_.Below(turns_per_death_) == 0) {
      Die(static_cast<uint32_t>(random_.Below(kWorkers)));
    }
    if (random_.Below(1000) == 0) {
      // Comes back from the last checkpoint, with its log.
      ++happened["servers restarted"];
      servers_[server] = {servers_[server].generation + 1, 0, {}, {}};
      model_.Restart(server, published_);
    }
    if (random_.Below(4000) == 0) EverythingDies();
  }

  RandomSequence random_;
  ModelServers model_;
  std::vector<ControlledServer> servers_;
  FakeClock clock_;
  const uint64_t turns_per_death_;
  uint32_t num_workers_ = kWorkers;
  std::optional<Coordinator> coordinator_;
  Life lives_[kWorkers];
  bool stormy_ = true;
  bool exhausted_ = false;
  // By worker: the newest incarnation that died, or was told to be forgotten.
  std::map<uint32_t, uint64_t> dead_;
  std::map<uint32_t, uint64_t> forgotten_;
  bool cut_is_open_ = false;
  bool is_frozen_ = false;
  uint64_t newest_cut_ = 0;
  uint64_t published_ = 0;
  // Servers apply pushes up to this cut.
  uint64_t free_cut_ = 0;
  // Examples that the frozen cut has.
  std::set<uint64_t> frozen_;
};

TEST(CoordinatorStormTest, EveryExampleIsTrainedOnceWhoeverDies) {
  std::map<std::string, int> happened;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Storm storm(seed);
    storm.Run();
    if (HasFatalFailure()) return;
    for (const auto& [what, times] : storm.happened) happened[what] += times;
  }
  for (const char* what :
       {"deaths", "servers restarted", "checkpoints", "cuts refused",
        "cuts ended", "deaths while a cut is written",
        "push completions with a name", "push completions without a name",
        "runs", "jobs failed"}) {
    EXPECT_GT(happened[what], 10) << what;
    RecordProperty(what, happened[what]);
  }
}

}  // namespace
}  // namespace oarlock::coordinator
