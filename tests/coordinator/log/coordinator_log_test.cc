// A coordinator that died and came back is the coordinator that never died.

#include "coordinator/log/coordinator_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "coordinator/coordinator.h"
#include "storage/file_system.h"
#include "tests/coordinator/coordinator_calls.h"
#include "tests/storage/forgetful_file_system.h"

namespace oarlock::coordinator {
namespace {

constexpr uint32_t kWorkers = RandomCalls::kNumWorkers;
constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

std::string FreshFolder(const std::string& name) {
  const std::string path =
      absl::StrCat(testing::TempDir(), "/coordinator_log_", name);
  std::filesystem::remove_all(path);
  return path;
}

// A coordinator with a log that dies and comes back.
class MortalCoordinator {
 public:
  MortalCoordinator(const std::string& directory, storage::FileSystem* files,
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
    coordinator_ =
        std::make_unique<Coordinator>(RandomCalls::Options(), *clock_);
    options_.replay = replay;
    auto log =
        CoordinatorLog::Open(options_, files_, coordinator_.get(), *clock_);
    if (!log.ok()) return log.status();
    log_ = *std::move(log);
    EXPECT_EQ(log_->replayed(), replay);
    return absl::OkStatus();
  }
  absl::Status Serve() { return coordinator_->SetLog(log_.get()); }
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

  storage::FileSystem* const files_;
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
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    RandomCalls calls(seed);
    Coordinator immortal(RandomCalls::Options(), clock_);
    const std::string root = FreshFolder("model");
    std::filesystem::create_directories(root);
    storage::ForgetfulFileSystem files(root);
    MortalCoordinator mortal(root + "/log", files.files(), &clock_);
    for (int step = 0; step < 600; ++step) {
      Pass(&calls);
      const v1::CoordinatorCall call = calls.Next(immortal.Save());
      const std::string response = Apply(call, &immortal);
      ASSERT_EQ(Apply(call, &*mortal), response)
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
  MortalCoordinator mortal(FreshFolder("threads"), storage::FileSystem::Real(),
                           &clock_);
  v1::DefinePhaseRequest definition;
  definition.set_phase_name("train/0");
  for (int i = 0; i < 1000; ++i) definition.add_ranges()->set_begin(i);
  ASSERT_TRUE(mortal->DefinePhase(definition).ok());
  std::vector<std::thread> threads;
  for (uint32_t worker = 0; worker < kWorkers; ++worker) {
    threads.emplace_back([&mortal, worker] {
      v1::RegisterWorkerRequest registration;
      registration.set_worker_index(worker);
      v1::LeaseRangesRequest lease;
      lease.set_phase_name("train/0");
      lease.set_worker_index(worker);
      lease.set_worker_generation(
          mortal->RegisterWorker(registration)->worker_generation());
      lease.set_max_ranges(1);
      for (int i = 1; i <= 200; ++i) {
        lease.set_request(i);
        const auto leased = mortal->LeaseRanges(lease);
        ASSERT_TRUE(leased.ok()) << leased.status();
        // Half of them are done.
        lease.clear_done();
        if (i % 2 == 0) lease.add_done(leased->leases(0));
      }
    });
  }
  threads.emplace_back([&mortal] {
    for (int i = 0; i < 30; ++i) {
      mortal->CheckDeadlines();
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
  MortalCoordinator mortal(FreshFolder("around"), storage::FileSystem::Real(),
                           &clock_);
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
  using Keep = storage::ForgetfulFileSystem::Keep;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    RandomCalls calls(seed);
    const std::string root = FreshFolder("power");
    std::filesystem::create_directories(root);
    storage::ForgetfulFileSystem files(root);
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
  MortalCoordinator mortal(FreshFolder("away"), storage::FileSystem::Real(),
                           &clock_);
  v1::RegisterWorkerRequest request;
  v1::HeartbeatRequest beat;
  for (uint32_t i = 0; i < kWorkers; ++i) {
    request.set_worker_index(i);
    const auto registered = mortal->RegisterWorker(request);
    ASSERT_TRUE(registered.ok());
    if (i == 0) beat.set_worker_generation(registered->worker_generation());
  }
  mortal->CheckDeadlines();
  const absl::Duration lease = RandomCalls::Options().lease;
  clock_.Advance(lease / 4);
  mortal->CheckDeadlines();
  mortal.Die();
  clock_.Advance(lease * 5);
  ASSERT_TRUE(mortal.Open(/*replay=*/true).ok());
  mortal->ResumeRun();
  ASSERT_TRUE(mortal.Serve().ok());
  for (int i = 0; i < 7; ++i) {
    clock_.Advance(lease / 10);
    mortal->CheckDeadlines();
    const v1::JobStatusResponse status =
        mortal->JobStatus(v1::JobStatusRequest());
    for (const v1::WorkerState& worker : status.workers()) {
      EXPECT_EQ(worker.life(), v1::WorkerState::ALIVE) << i;
    }
  }
  // Worker 0 goes on, the others have ended meanwhile.
  ASSERT_TRUE(mortal->Heartbeat(beat).ok());
  clock_.Advance(lease / 10);
  mortal->CheckDeadlines();
  const v1::JobStatusResponse status =
      mortal->JobStatus(v1::JobStatusRequest());
  EXPECT_EQ(status.workers(0).life(), v1::WorkerState::ALIVE);
  EXPECT_EQ(status.workers(1).life(), v1::WorkerState::LOST);
  // The ticks are those of its own time.
  EXPECT_LE(mortal->Save().logical_time(), 12);
}

TEST_F(CoordinatorLogTest, ACutThatWasOpenIsOpenUntilItIsClosed) {
  MortalCoordinator mortal(FreshFolder("cut"), storage::FileSystem::Real(),
                           &clock_);
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
  storage::ForgetfulFileSystem files(root);
  MortalCoordinator mortal(root + "/log", files.files(), &clock_);
  const std::string before = mortal->Save().SerializeAsString();
  files.SetRoomBytes(0);
  clock_.Advance(absl::Seconds(2));
  EXPECT_TRUE(absl::IsResourceExhausted(
      mortal->RegisterWorker(v1::RegisterWorkerRequest()).status()));
  EXPECT_TRUE(absl::IsResourceExhausted(mortal->Drain("enough")));
  EXPECT_TRUE(absl::IsResourceExhausted(mortal->OpenCut().status()));
  mortal->CheckDeadlines();
  EXPECT_EQ(mortal->Save().SerializeAsString(), before);
  files.SetRoomBytes(uint64_t{1} << 30);
  EXPECT_TRUE(mortal->RegisterWorker(v1::RegisterWorkerRequest()).ok());
}

TEST_F(CoordinatorLogTest, TheLogStaysShortHoweverLongTheJob) {
  const std::string root = FreshFolder("short");
  std::filesystem::create_directories(root);
  storage::ForgetfulFileSystem files(root);
  MortalCoordinator mortal(root + "/log", files.files(), &clock_);
  for (int i = 0; i < 5'000; ++i) {
    clock_.Advance(absl::Milliseconds(100));
    mortal->CheckDeadlines();
  }
  uint64_t bytes = 0;
  for (const auto& file : std::filesystem::directory_iterator(root + "/log")) {
    bytes += file.file_size();
  }
  EXPECT_LT(bytes, 20'000);
}

TEST_F(CoordinatorLogTest, ALogOfAnotherBootIsRefused) {
  MortalCoordinator mortal(FreshFolder("boot"), storage::FileSystem::Real(),
                           &clock_);
  mortal.Die();
  mortal.options().boot_id = "another boot";
  EXPECT_TRUE(absl::IsFailedPrecondition(mortal.Open(/*replay=*/true)));
}

TEST_F(CoordinatorLogTest, ALogOfAnotherJobIsRefused) {
  const std::string directory = FreshFolder("shape");
  MortalCoordinator mortal(directory, storage::FileSystem::Real(), &clock_);
  mortal.Die();
  CoordinatorOptions larger = RandomCalls::Options();
  larger.num_workers = kWorkers + 1;
  Coordinator coordinator(larger, clock_);
  mortal.options().replay = true;
  EXPECT_TRUE(absl::IsDataLoss(CoordinatorLog::Open(mortal.options(),
                                                    storage::FileSystem::Real(),
                                                    &coordinator, clock_)
                                   .status()));
}

TEST_F(CoordinatorLogTest, ANewJobDropsWhatIsThere) {
  MortalCoordinator mortal(FreshFolder("new"), storage::FileSystem::Real(),
                           &clock_);
  ASSERT_TRUE(mortal->RegisterWorker(v1::RegisterWorkerRequest()).ok());
  mortal.Die();
  ASSERT_TRUE(mortal.Open(/*replay=*/false).ok());
  EXPECT_EQ(mortal->JobStatus(v1::JobStatusRequest()).workers_size(), 0);
}

}  // namespace
}  // namespace oarlock::coordinator
