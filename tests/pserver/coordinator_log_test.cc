// A coordinator that died and came back is the coordinator that never died.

#include "pserver/coordinator_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/auc.h"
#include "base/clock.h"
#include "base/random.h"
#include "pserver/coordinator.h"
#include "storage/file_system.h"
#include "tests/storage/forgetful_file_system.h"

namespace oarlock {
namespace {

constexpr uint32_t kWorkers = 4;
constexpr uint32_t kServers = 2;
constexpr absl::Duration kLease = absl::Seconds(10);
constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

CoordinatorOptions Options() {
  CoordinatorOptions options;
  options.num_workers = kWorkers;
  options.num_servers = kServers;
  options.lease = kLease;
  // Few jobs end before the test does.
  options.restart_grace = absl::Minutes(10);
  return options;
}

std::string FreshFolder(const std::string& name) {
  const std::string path =
      absl::StrCat(testing::TempDir(), "/coordinator_log_", name);
  std::filesystem::remove_all(path);
  return path;
}

template <typename Response>
std::string Text(const absl::StatusOr<Response>& answer) {
  return answer.ok() ? answer->SerializeAsString() : answer.status().ToString();
}

// Makes the call; what the caller is told.
std::string Apply(const v1::CoordinatorCall& call, Coordinator* to) {
  switch (call.call_case()) {
    case v1::CoordinatorCall::kRegisterWorker:
      return Text(to->RegisterWorker(call.register_worker()));
    case v1::CoordinatorCall::kHeartbeat:
      return Text(to->Heartbeat(call.heartbeat()));
    case v1::CoordinatorCall::kFinishWorker:
      return to->FinishWorker(call.finish_worker()).ToString();
    case v1::CoordinatorCall::kServerHeartbeat:
      return Text(to->ServerHeartbeat(call.server_heartbeat()));
    case v1::CoordinatorCall::kDefineWork:
      return Text(to->DefineWork(call.define_work()));
    case v1::CoordinatorCall::kLeaseWork:
      return Text(to->LeaseWork(call.lease_work()));
    case v1::CoordinatorCall::kBarrier: {
      // One that waits is asked again by whoever waits.
      auto answer = std::make_shared<std::string>();
      to->Barrier(call.barrier(), [answer](const absl::Status& status) {
        *answer = status.ToString();
      });
      return call.barrier().wait_ms() == 0 ? *answer : "";
    }
    case v1::CoordinatorCall::kMarkCut:
      return to->MarkCut(call.mark_cut()).ToString();
    case v1::CoordinatorCall::kOpenCut: {
      const absl::StatusOr<uint64_t> cut = to->OpenCut();
      return cut.ok() ? absl::StrCat(*cut) : cut.status().ToString();
    }
    case v1::CoordinatorCall::kSetCutRound:
      to->SetCutRound(call.set_cut_round());
      return "";
    case v1::CoordinatorCall::kCloseCut:
      to->CloseCut();
      return "";
    case v1::CoordinatorCall::kEndJob:
      return to->Drain(call.end_job().reason()).ToString();
    default:
      to->Sweep();
      return "";
  }
}

// What it tells whoever asks without changing anything.
std::string Described(const Coordinator& coordinator) {
  v1::CheckpointManifest manifest;
  coordinator.DescribeCut(&manifest);
  v1::JobStatusRequest request;
  request.set_with_histograms(true);
  v1::JobStatusResponse status = coordinator.JobStatus(request);
  // Of the process.
  status.clear_uptime_seconds();
  return absl::StrCat(manifest.DebugString(), status.DebugString());
}

// Calls as workers, servers and checkpoints make them, and wrong ones.
class RandomCalls {
 public:
  explicit RandomCalls(uint64_t seed) : random_(seed) {}

  v1::CoordinatorCall Next(const v1::CoordinatorState& state) {
    v1::CoordinatorCall call;
    const uint64_t dice = random_.Below(1000);
    if (dice < 40) {
      v1::RegisterWorkerRequest& request = *call.mutable_register_worker();
      request.set_worker_index(Below(kWorkers + (Below(8) == 0)));
      request.set_pid(Below(1000));
      request.set_host("h");
    } else if (dice < 250) {
      Heartbeat(state, call.mutable_heartbeat());
    } else if (dice < 252) {
      Name(state, call.mutable_finish_worker());
      call.mutable_finish_worker()->set_succeeded(Below(8) != 0);
    } else if (dice < 450) {
      ServerHeartbeat(state, call.mutable_server_heartbeat());
    } else if (dice < 500) {
      DefineWork(call.mutable_define_work());
    } else if (dice < 650) {
      LeaseWork(state, call.mutable_lease_work());
    } else if (dice < 750) {
      v1::BarrierRequest& request = *call.mutable_barrier();
      Name(state, &request);
      request.set_name(absl::StrCat("b", Below(20)));
      request.set_wait_ms(Below(2) * 1000);
    } else if (dice < 810) {
      MarkCut(state, call.mutable_mark_cut());
    } else if (dice < 825 && !state.cuts().open()) {
      call.set_open_cut(true);
    } else if (dice < 840 && state.cuts().open()) {
      call.set_set_cut_round(Below(100));
    } else if (dice < 860 && state.cuts().open()) {
      call.set_close_cut(true);
    } else if (dice == 860 && Below(5) == 0) {
      call.mutable_end_job()->set_reason("enough");
    } else {
      call.set_sweep(true);
    }
    return call;
  }

  uint64_t Below(uint64_t bound) { return random_.Below(bound); }

 private:
  // Mostly the newest incarnation of a worker.
  template <typename Request>
  void Name(const v1::CoordinatorState& state, Request* request) {
    request->set_worker_index(Below(kWorkers));
    request->set_worker_generation(
        state.workers(request->worker_index()).state().worker_generation() -
        (Below(20) == 0));
  }
  std::string Work() {
    return absl::StrCat(Below(3) == 0 ? "test/" : "train/", Below(4));
  }

  void Heartbeat(const v1::CoordinatorState& state,
                 v1::HeartbeatRequest* request) {
    Name(state, request);
    request->set_report(state.workers(request->worker_index()).last_report() +
                        Below(2));
    for (uint64_t i = Below(3); i > 0; --i) {
      v1::PhaseProgress& progress = *request->add_progress();
      progress.set_phase(Below(2) == 0 ? "train" : "test");
      progress.set_epoch(Below(20));
      progress.set_examples(Below(1000));
      progress.set_loss_sum(random_.Uniform());
      v1::StageTime& stage = *progress.add_stages();
      stage.set_stage(Below(2) == 0 ? "pull" : "push");
      stage.set_seconds(random_.Uniform());
      for (uint64_t j = Below(4); j > 0; --j) {
        progress.add_staleness_histogram(Below(9));
      }
      for (uint64_t j = Below(4); j > 0; --j) {
        progress.add_buckets(Below(AucHistogram::kNumBuckets));
        progress.add_positives(Below(3));
        progress.add_negatives(Below(3));
      }
    }
  }

  // Says, often, what the server has of workers that died.
  void ServerHeartbeat(const v1::CoordinatorState& state,
                       v1::ServerHeartbeatRequest* request) {
    const uint32_t server = Below(kServers);
    request->set_server_index(server);
    request->set_server_generation(
        std::max<uint64_t>(1, state.servers(server).server_generation()) +
        (Below(50) == 0));
    request->set_membership_version(state.membership_version() - Below(2));
    for (const v1::DeathState& death : state.deaths().deaths()) {
      if (!death.needs_ledgers() || Below(2) == 0) continue;
      v1::WorkerLedger& ledger = *request->add_ledgers();
      *ledger.mutable_worker() = death.worker();
      ledger.set_highest(3);
      for (uint64_t sequence = 1; sequence <= 3; ++sequence) {
        v1::PushRecord& push = *ledger.add_pushes();
        push.set_sequence(sequence);
        push.set_part_count(2);
        for (uint32_t part = 0; part < 2; ++part) {
          if (Below(2) == 0) push.add_parts(part);
        }
        v1::ExampleInterval& interval = *push.add_examples();
        interval.set_begin(sequence * 10);
        interval.set_end(sequence * 10 + 7);
        *push.add_dense_examples() = interval;
      }
    }
  }

  void DefineWork(v1::DefineWorkRequest* request) {
    request->set_work(Work());
    const int num_ranges = request->work() == "train/3" ? 0 : 12;
    for (int i = 0; i < num_ranges; ++i) {
      v1::WorkRange& range = *request->add_ranges();
      range.set_source(i / 6);
      range.set_begin(i % 6 * 10);
      if (i % 6 != 5) range.set_end(i % 6 * 10 + 10);
    }
    // Now and then another definition of the same work.
    request->set_num_examples(100 + (Below(10) == 0));
  }

  void LeaseWork(const v1::CoordinatorState& state,
                 v1::LeaseWorkRequest* request) {
    Name(state, request);
    request->set_work(Work());
    request->set_max_ranges(Below(3));
    uint64_t& last = last_request_[request->worker_generation()];
    // Now and then one again.
    if (last == 0 || Below(5) != 0) ++last;
    request->set_request(last);
    const uint64_t newest = state.work().next_lease();
    for (uint64_t i = Below(4); i > 0; --i) {
      request->add_done(newest - std::min(newest, Below(12)));
    }
  }

  void MarkCut(const v1::CoordinatorState& state, v1::MarkCutRequest* request) {
    Name(state, request);
    request->set_cut(state.cuts().newest() + Below(3) - (Below(3) == 0));
    for (uint64_t i = Below(3); i > 0; --i) {
      v1::TrainedExamples& trained = *request->add_trained();
      trained.set_work(Work());
      for (uint64_t j = Below(3); j > 0; --j) {
        v1::WorkRange& range = *trained.add_ranges();
        range.set_source(Below(2));
        range.set_begin(Below(60));
        range.set_end(range.begin() + Below(15));
      }
    }
  }

  RandomSequence random_;
  // By generation.
  std::map<uint64_t, uint64_t> last_request_;
};

// A coordinator with a log that dies and comes back.
class MortalCoordinator {
 public:
  MortalCoordinator(const std::string& directory, FileSystem* files,
                    const Clock* clock)
      : files_(files), clock_(clock) {
    options_.directory = directory;
    options_.boot_id = "this boot";
    // Often, and in parts.
    options_.calls_bytes_max = 3000;
    options_.record_bytes = 500;
    const absl::Status begun = Begin(/*replay=*/false);
    EXPECT_TRUE(begun.ok()) << begun;
  }
  ~MortalCoordinator() { Die(); }

  CoordinatorLogOptions& options() { return options_; }
  Coordinator& operator*() { return *coordinator_; }
  Coordinator* operator->() { return coordinator_.get(); }

  void Die() {
    coordinator_.reset();
    log_.reset();
  }
  // As it was when it died; writes nothing yet.
  absl::Status Open(bool replay) {
    coordinator_ = std::make_unique<Coordinator>(Options(), *clock_);
    options_.replay = replay;
    auto log = CoordinatorLog::Open(options_, files_, coordinator_.get());
    if (!log.ok()) return log.status();
    log_ = *std::move(log);
    EXPECT_EQ(log_->replayed(), replay);
    return absl::OkStatus();
  }
  absl::Status Serve() { return coordinator_->SetJournal(log_.get()); }
  // As Coordinator::WriteState, with a call of somebody else in the middle.
  absl::Status WriteStateAround(const std::function<void()>& call) {
    absl::Status status = log_->BeginState();
    if (!status.ok()) return status;
    call();
    status = log_->AppendState(coordinator_->Save());
    return status.ok() ? log_->EndState() : status;
  }

 private:
  absl::Status Begin(bool replay) {
    const absl::Status opened = Open(replay);
    return opened.ok() ? Serve() : opened;
  }

  FileSystem* const files_;
  const Clock* const clock_;
  CoordinatorLogOptions options_;
  std::unique_ptr<CoordinatorLog> log_;
  std::unique_ptr<Coordinator> coordinator_;
};

class CoordinatorLogTest : public ::testing::Test {
 protected:
  CoordinatorLogTest() : clock_(absl::FromUnixMillis(1'000'000)) {}

  // Time between two calls.
  void Pass(RandomCalls* calls) {
    clock_.Advance(absl::Milliseconds(calls->Below(300)));
    // Now and then a lease runs out, or the process stands still.
    if (calls->Below(100) == 0) {
      clock_.Advance(absl::Seconds(calls->Below(20)));
    }
  }

  FakeClock clock_;
};

TEST_F(CoordinatorLogTest, OneThatDiesNowAndThenAnswersAsOneThatNeverDied) {
  for (uint64_t seed = 1; seed <= 25; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    RandomCalls calls(seed);
    Coordinator immortal(Options(), clock_);
    const std::string root = FreshFolder("model");
    std::filesystem::create_directories(root);
    ForgetfulFileSystem files(root);
    MortalCoordinator mortal(root + "/log", files.files(), &clock_);
    for (int step = 0; step < 600; ++step) {
      Pass(&calls);
      const v1::CoordinatorCall call = calls.Next(immortal.Save());
      const std::string answer = Apply(call, &immortal);
      ASSERT_EQ(Apply(call, &*mortal), answer)
          << "step " << step << ": " << call.ShortDebugString();
      if (calls.Below(30) == 0) {
        ASSERT_TRUE(mortal->WriteState().ok());
      }
      if (calls.Below(20) == 0) {
        mortal.Die();
        ASSERT_TRUE(mortal.Open(/*replay=*/true).ok());
        ASSERT_EQ(mortal->Save().SerializeAsString(),
                  immortal.Save().SerializeAsString())
            << "step " << step << "\n"
            << mortal->Save().DebugString() << immortal.Save().DebugString();
        ASSERT_TRUE(mortal.Serve().ok());
      }
      if (calls.Below(10) == 0) {
        ASSERT_EQ(Described(*mortal), Described(immortal)) << "step " << step;
      }
    }
  }
}

TEST_F(CoordinatorLogTest, CallsOfManyThreadsAreReplayedInTheirOrder) {
  MortalCoordinator mortal(FreshFolder("threads"), FileSystem::Real(),
                           &Clock::Real());
  v1::DefineWorkRequest work;
  work.set_work("train/0");
  for (int i = 0; i < 1000; ++i) work.add_ranges()->set_begin(i);
  ASSERT_TRUE(mortal->DefineWork(work).ok());
  std::vector<std::thread> threads;
  for (uint32_t worker = 0; worker < kWorkers; ++worker) {
    threads.emplace_back([&mortal, worker] {
      v1::RegisterWorkerRequest registration;
      registration.set_worker_index(worker);
      v1::LeaseWorkRequest lease;
      lease.set_work("train/0");
      lease.set_worker_index(worker);
      lease.set_worker_generation(
          mortal->RegisterWorker(registration)->worker_generation());
      lease.set_max_ranges(1);
      for (int i = 1; i <= 200; ++i) {
        lease.set_request(i);
        const auto leased = mortal->LeaseWork(lease);
        ASSERT_TRUE(leased.ok()) << leased.status();
        // Half of them are done.
        lease.clear_done();
        if (i % 2 == 0) lease.add_done(leased->leases(0));
      }
    });
  }
  threads.emplace_back([&mortal] {
    for (int i = 0; i < 30; ++i) {
      mortal->Sweep();
      ASSERT_TRUE(mortal->WriteState().ok());
    }
  });
  for (std::thread& thread : threads) thread.join();
  const std::string state = mortal->Save().SerializeAsString();
  mortal.Die();
  ASSERT_TRUE(mortal.Open(/*replay=*/true).ok());
  EXPECT_EQ(mortal->Save().SerializeAsString(), state);
}

TEST_F(CoordinatorLogTest, ACallWhileAStateIsAboutToBeWrittenIsInTheState) {
  MortalCoordinator mortal(FreshFolder("around"), FileSystem::Real(), &clock_);
  v1::RegisterWorkerRequest request;
  ASSERT_TRUE(mortal
                  .WriteStateAround([&] {
                    ASSERT_TRUE(mortal->RegisterWorker(request).ok());
                  })
                  .ok());
  request.set_worker_index(1);
  ASSERT_TRUE(mortal->RegisterWorker(request).ok());
  const std::string state = mortal->Save().SerializeAsString();
  mortal.Die();
  ASSERT_TRUE(mortal.Open(/*replay=*/true).ok());
  EXPECT_EQ(mortal->Save().SerializeAsString(), state);
}

TEST_F(CoordinatorLogTest, ALossOfPowerTakesAnEndOfTheHistory) {
  using Keep = ForgetfulFileSystem::Keep;
  for (uint64_t seed = 1; seed <= 25; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    RandomCalls calls(seed);
    const std::string root = FreshFolder("power");
    std::filesystem::create_directories(root);
    ForgetfulFileSystem files(root);
    MortalCoordinator mortal(root + "/log", files.files(), &clock_);
    // After each call, from the last state that is on disk on.
    std::vector<std::string> states = {mortal->Save().SerializeAsString()};
    for (int life = 0; life < 12; ++life) {
      files.FailAfter(calls.Below(60));
      bool lives = true;
      for (int step = 0; step < 60 && lives; ++step) {
        Pass(&calls);
        const v1::CoordinatorCall call = calls.Next(mortal->Save());
        Apply(call, &*mortal);
        states.push_back(mortal->Save().SerializeAsString());
        if (calls.Below(20) == 0 && mortal->WriteState().ok()) {
          states = {mortal->Save().SerializeAsString()};
        }
        lives = calls.Below(40) != 0;
      }
      mortal.Die();
      const Keep keep[] = {Keep::kNothing, Keep::kNames, Keep::kSome};
      files.Crash(keep[calls.Below(3)], calls.Below(kNever));
      ASSERT_TRUE(mortal.Open(/*replay=*/true).ok());
      const std::string found = mortal->Save().SerializeAsString();
      ASSERT_NE(std::find(states.begin(), states.end(), found), states.end())
          << "life " << life << ": a state that never was";
      ASSERT_TRUE(mortal.Serve().ok());
      states = {found};
    }
  }
}

TEST_F(CoordinatorLogTest, TimeInWhichItWasAwayCountsOnNobodysLease) {
  MortalCoordinator mortal(FreshFolder("away"), FileSystem::Real(), &clock_);
  v1::RegisterWorkerRequest request;
  v1::HeartbeatRequest beat;
  for (uint32_t i = 0; i < kWorkers; ++i) {
    request.set_worker_index(i);
    const auto registered = mortal->RegisterWorker(request);
    ASSERT_TRUE(registered.ok());
    if (i == 0) beat.set_worker_generation(registered->worker_generation());
  }
  mortal->Sweep();
  clock_.Advance(kLease / 4);
  mortal->Sweep();
  mortal.Die();
  clock_.Advance(kLease * 5);
  ASSERT_TRUE(mortal.Open(/*replay=*/true).ok());
  mortal->Return();
  ASSERT_TRUE(mortal.Serve().ok());
  for (int i = 0; i < 7; ++i) {
    clock_.Advance(kLease / 10);
    mortal->Sweep();
    const v1::JobStatusResponse status =
        mortal->JobStatus(v1::JobStatusRequest());
    for (const v1::WorkerState& worker : status.workers()) {
      EXPECT_EQ(worker.life(), v1::WorkerState::ALIVE) << i;
    }
  }
  // Worker 0 goes on, the others have ended meanwhile.
  ASSERT_TRUE(mortal->Heartbeat(beat).ok());
  clock_.Advance(kLease / 10);
  mortal->Sweep();
  const v1::JobStatusResponse status =
      mortal->JobStatus(v1::JobStatusRequest());
  EXPECT_EQ(status.workers(0).life(), v1::WorkerState::ALIVE);
  EXPECT_EQ(status.workers(1).life(), v1::WorkerState::LOST);
  // The ticks are those of its own time.
  EXPECT_LE(mortal->Save().logical_time(), 12);
}

TEST_F(CoordinatorLogTest, ACutThatWasOpenIsOpenUntilItIsClosed) {
  MortalCoordinator mortal(FreshFolder("cut"), FileSystem::Real(), &clock_);
  EXPECT_EQ(mortal->open_cut(), 0);
  ASSERT_EQ(*mortal->OpenCut(), 1);
  mortal.Die();
  ASSERT_TRUE(mortal.Open(/*replay=*/true).ok());
  EXPECT_EQ(mortal->open_cut(), 1);
  ASSERT_TRUE(mortal.Serve().ok());
  mortal->CloseCut();
  EXPECT_EQ(mortal->open_cut(), 0);
  EXPECT_EQ(*mortal->OpenCut(), 2);
}

TEST_F(CoordinatorLogTest, ACallThatCannotBeWrittenIsNotDone) {
  const std::string root = FreshFolder("full");
  std::filesystem::create_directories(root);
  ForgetfulFileSystem files(root);
  MortalCoordinator mortal(root + "/log", files.files(), &clock_);
  const std::string before = mortal->Save().SerializeAsString();
  files.SetRoomBytes(0);
  clock_.Advance(absl::Seconds(2));
  EXPECT_TRUE(absl::IsResourceExhausted(
      mortal->RegisterWorker(v1::RegisterWorkerRequest()).status()));
  EXPECT_TRUE(absl::IsResourceExhausted(mortal->Drain("enough")));
  EXPECT_TRUE(absl::IsResourceExhausted(mortal->OpenCut().status()));
  mortal->Sweep();
  EXPECT_EQ(mortal->Save().SerializeAsString(), before);
  files.SetRoomBytes(uint64_t{1} << 30);
  EXPECT_TRUE(mortal->RegisterWorker(v1::RegisterWorkerRequest()).ok());
}

TEST_F(CoordinatorLogTest, TheLogStaysShortHoweverLongTheJob) {
  const std::string root = FreshFolder("short");
  std::filesystem::create_directories(root);
  ForgetfulFileSystem files(root);
  MortalCoordinator mortal(root + "/log", files.files(), &clock_);
  for (int i = 0; i < 5'000; ++i) {
    clock_.Advance(absl::Milliseconds(100));
    mortal->Sweep();
  }
  uint64_t bytes = 0;
  for (const auto& file : std::filesystem::directory_iterator(root + "/log")) {
    bytes += file.file_size();
  }
  EXPECT_LT(bytes, 20'000);
}

TEST_F(CoordinatorLogTest, ALogOfAnotherBootIsRefused) {
  MortalCoordinator mortal(FreshFolder("boot"), FileSystem::Real(), &clock_);
  mortal.Die();
  mortal.options().boot_id = "another boot";
  EXPECT_TRUE(absl::IsFailedPrecondition(mortal.Open(/*replay=*/true)));
}

TEST_F(CoordinatorLogTest, ALogOfAnotherJobIsRefused) {
  const std::string directory = FreshFolder("shape");
  MortalCoordinator mortal(directory, FileSystem::Real(), &clock_);
  mortal.Die();
  CoordinatorOptions larger = Options();
  larger.num_workers = kWorkers + 1;
  Coordinator coordinator(larger, clock_);
  mortal.options().replay = true;
  EXPECT_TRUE(absl::IsDataLoss(
      CoordinatorLog::Open(mortal.options(), FileSystem::Real(), &coordinator)
          .status()));
}

TEST_F(CoordinatorLogTest, ANewJobDropsWhatIsThere) {
  MortalCoordinator mortal(FreshFolder("new"), FileSystem::Real(), &clock_);
  ASSERT_TRUE(mortal->RegisterWorker(v1::RegisterWorkerRequest()).ok());
  mortal.Die();
  ASSERT_TRUE(mortal.Open(/*replay=*/false).ok());
  EXPECT_EQ(mortal->JobStatus(v1::JobStatusRequest()).workers_size(), 0);
}

}  // namespace
}  // namespace oarlock
