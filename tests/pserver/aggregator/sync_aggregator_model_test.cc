// Rounds in any order of arrival, with retries, deaths and threads, against a
// naive model.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/random.h"
#include "pserver/aggregator/sync_aggregator.h"
#include "tests/pserver/service/push_responses.h"
#include "tests/pserver/service/push_testing.h"

namespace oarlock::pserver {
namespace {

// Each worker's pushes of all rounds, cut into messages, as it would send
// them.
struct Message {
  uint32_t worker;
  uint64_t generation;
  uint64_t sequence;
  uint64_t round;
  uint32_t index;
  uint32_t num_messages;
  SparseGradients gradients;

  std::string Prefix() const {
    return std::to_string(worker) + "." + std::to_string(generation) + "." +
           std::to_string(sequence) + "." + std::to_string(index) + "#";
  }
  std::string Name(int call) const { return Prefix() + std::to_string(call); }
  wire::PushSparseRequestView View() const {
    v1::RequestHeader header = PushHeader(worker, generation, sequence, round);
    header.set_message_index(index);
    header.set_message_count(num_messages);
    header.set_table_message_count(num_messages);
    return SparsePushOf(header, gradients);
  }
};

constexpr uint32_t kDim = 3;
constexpr float kLearningRate = 0.37f;

std::vector<Message> MessagesOf(uint64_t data_seed, uint32_t worker,
                                uint64_t generation, uint64_t sequence,
                                uint64_t round, uint32_t num_messages,
                                SparseGradients* whole) {
  *whole = RandomGradients(
      DeriveSeed(data_seed, (worker * 1000 + generation) * 1000 + round), 40,
      60, kDim);
  const auto pieces = CutByPartition(*whole, num_messages);
  std::vector<Message> messages;
  for (uint32_t i = 0; i < num_messages; ++i) {
    messages.push_back(
        {worker, generation, sequence, round, i, num_messages, pieces[i]});
  }
  return messages;
}

// Delivers the messages of a job in a random order with retries, lets workers
// die and come back, and keeps book of what must come of it.
class RandomJob {
 public:
  RandomJob(uint64_t seed, uint64_t data_seed, uint32_t num_workers,
            uint64_t num_rounds, bool with_deaths, bool with_ahead)
      : random_(seed),
        data_seed_(data_seed),
        num_rounds_(num_rounds),
        with_deaths_(with_deaths),
        with_ahead_(with_ahead),
        table_(
            MakeSparse(SparseConfig(kDim, kLearningRate, v1::SYNC, v1::MEAN))),
        aggregator_(table_.get()),
        workers_(num_workers) {}

  void Run() {
    for (uint32_t w = 0; w < workers_.size(); ++w) Join(w, 1);
    int steps_left = 200000;  // A job that hangs must end too.
    while (!AllDone() && --steps_left > 0) Step();
    ASSERT_GT(steps_left, 0) << "the rounds stand still";
    aggregator_.Shutdown();
  }

  // Compares responses and rows with the book.
  void Check() {
    SgdModel model(kLearningRate);
    for (const auto& [round, contributions] : counted_) {
      std::vector<const SparseGradients*> gradients;
      for (const auto& [name, gradient] : contributions) {
        gradients.push_back(&gradient);
      }
      model.ApplyRound(gradients, gradients.size());
    }
    EXPECT_EQ(RowsOf(*table_), model.rows());
    for (const auto& [name, code] : expected_) {
      EXPECT_EQ(responses_.Get(name).times, 1) << name;
      EXPECT_EQ(responses_.Get(name).status.code(), code)
          << name << ": " << responses_.Get(name).status;
    }
    EXPECT_EQ(aggregator_.CompleteRounds(), num_rounds_);
    EXPECT_EQ(aggregator_.HeldPushes(), 0u);
  }

  SparseGradients Rows() const { return RowsOf(*table_); }

 private:
  struct Worker {
    uint64_t generation = 0;
    uint64_t next_round = 1;
    uint64_t first_round = 1;
    uint64_t sequence = 0;
    bool left = false;
    // Of the round `next_round - 1`, not yet delivered.
    std::vector<Message> to_send;
    SparseGradients whole;
    // Delivered at least once.
    std::deque<Message> sent;
  };

  void Join(uint32_t w, uint64_t generation) {
    Worker worker;
    worker.generation = generation;
    aggregator_.SetRoundMember(WorkerIndex(w), Generation(generation), true);
    worker.first_round = worker.next_round = aggregator_.CompleteRounds() + 1;
    workers_[w] = worker;
  }

  bool AllDone() const {
    return std::all_of(workers_.begin(), workers_.end(),
                       [](const Worker& worker) { return worker.left; });
  }

  void Step() {
    const uint32_t w = random_.Below(workers_.size());
    Worker& worker = workers_[w];
    if (worker.left) return;
    const uint64_t complete = aggregator_.CompleteRounds();
    if (with_deaths_ && complete + 1 < num_rounds_ && random_.Below(60) == 0) {
      Die(w);
      return;
    }
    if (!worker.sent.empty() && random_.Below(4) == 0) {
      const Message& message = worker.sent[random_.Below(worker.sent.size())];
      if (NumOpenCalls(message) < SyncAggregator::kMaxCallersPerMessage) {
        Deliver(message);
      }
      return;
    }
    if (!worker.to_send.empty()) {
      const size_t i = random_.Below(worker.to_send.size());
      const Message message = worker.to_send[i];
      worker.to_send.erase(worker.to_send.begin() + i);
      if (worker.to_send.empty()) {
        counted_[message.round][{w, worker.generation}] = worker.whole;
      }
      worker.sent.push_back(message);
      if (worker.sent.size() > 12) worker.sent.pop_front();
      Deliver(message);
      return;
    }
    if (worker.next_round > num_rounds_) {
      if (complete < num_rounds_) return;
      worker.left = true;
      aggregator_.SetRoundMember(WorkerIndex(w), Generation(worker.generation),
                                 false);
      return;
    }
    // A joiner awaits the responses of its first round.
    const bool may_be_ahead =
        with_ahead_ && worker.next_round > worker.first_round + 1;
    if (worker.next_round > complete + (may_be_ahead ? 2 : 1)) return;
    worker.to_send =
        MessagesOf(data_seed_, w, worker.generation, ++worker.sequence,
                   worker.next_round, 1 + random_.Below(3), &worker.whole);
    ++worker.next_round;
  }

  size_t NumOpenCalls(const Message& message) {
    size_t n = 0;
    for (const std::string& name :
         calls_[{message.worker, message.generation, message.round}]) {
      n += name.starts_with(message.Prefix()) && !responses_.Has(name);
    }
    return n;
  }

  void Deliver(const Message& message) {
    const std::string name = message.Name(num_calls_++);
    expected_[name] = absl::StatusCode::kOk;
    calls_[{message.worker, message.generation, message.round}].push_back(name);
    aggregator_.PushSparse(message.View(), responses_.Expect(name));
  }

  void Die(uint32_t w) {
    Worker& worker = workers_[w];
    if (!worker.to_send.empty()) {
      // Whoever waits for a message of the incomplete push is told so.
      for (const std::string& name :
           calls_[{w, worker.generation, worker.next_round - 1}]) {
        expected_[name] = absl::StatusCode::kAborted;
      }
    }
    const uint64_t generation = worker.generation;
    if (random_.Below(2) == 0) {
      aggregator_.SetRoundMember(WorkerIndex(w), Generation(generation), false);
    }
    Join(w, generation + 1);
  }

  RandomSequence random_;
  const uint64_t data_seed_;
  const uint64_t num_rounds_;
  const bool with_deaths_;
  const bool with_ahead_;
  std::unique_ptr<sparse_table::SparseTable> table_;
  PushResponses responses_;
  SyncAggregator aggregator_;
  std::vector<Worker> workers_;
  int num_calls_ = 0;
  std::map<std::string, absl::StatusCode> expected_;
  // By worker, generation and round.
  std::map<std::tuple<uint32_t, uint64_t, uint64_t>, std::vector<std::string>>
      calls_;
  // By round, then by (worker, generation): the pushes that were delivered
  // completely.
  std::map<uint64_t, std::map<std::pair<uint32_t, uint64_t>, SparseGradients>>
      counted_;
};

TEST(SyncAggregatorModelTest, AnyOrderOfArrivalGivesTheModelsRows) {
  SparseGradients first;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomJob job(seed, /*data_seed=*/11, 4, 12, /*with_deaths=*/false,
                  /*with_ahead=*/seed % 2 == 0);
    job.Run();
    job.Check();
    // The same data in another order: bitwise the same rows.
    if (seed == 1) first = job.Rows();
    EXPECT_EQ(job.Rows(), first);
  }
}

TEST(SyncAggregatorModelTest, DeathsAndReturnsGiveTheModelsRows) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomJob job(seed, /*data_seed=*/seed, 1 + seed % 4, 15,
                  /*with_deaths=*/true, /*with_ahead=*/seed % 2 == 0);
    job.Run();
    job.Check();
  }
}

// Threads as workers, each awaiting its responses, the last rounds with fewer
// of them; messages of a push are sent by two threads at once.
SparseGradients RunThreads(uint32_t num_workers, uint32_t num_messages,
                           SgdModel* model) {
  const auto table =
      MakeSparse(SparseConfig(kDim, kLearningRate, v1::SYNC, v1::SUM));
  SyncAggregator aggregator(table.get());
  const auto rounds_of = [](uint32_t w) { return 20u + 5u * w; };
  for (uint32_t w = 0; w < num_workers; ++w) {
    aggregator.SetRoundMember(WorkerIndex(w), Generation(1), true);
  }
  std::vector<std::thread> threads;
  for (uint32_t w = 0; w < num_workers; ++w) {
    threads.emplace_back([&, w] {
      for (uint64_t round = 1; round <= rounds_of(w); ++round) {
        SparseGradients whole;
        const auto messages =
            MessagesOf(3, w, 1, round, round, num_messages, &whole);
        absl::Mutex mutex;
        size_t num_responses = 0;
        const auto send = [&](size_t begin) {
          for (size_t i = begin; i < messages.size(); i += 2) {
            aggregator.PushSparse(
                messages[i].View(), [&](absl::StatusOr<PushOutcome> outcome) {
                  EXPECT_TRUE(outcome.ok()) << outcome.status();
                  absl::MutexLock lock(&mutex);
                  ++num_responses;
                });
          }
        };
        std::thread helper(send, 1);
        send(0);
        helper.join();
        const auto all = [&] { return num_responses == messages.size(); };
        absl::MutexLock lock(&mutex);
        ASSERT_TRUE(
            mutex.AwaitWithTimeout(absl::Condition(&all), absl::Seconds(60)));
      }
      aggregator.SetRoundMember(WorkerIndex(w), Generation(1), false);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (uint64_t round = 1; round <= rounds_of(num_workers - 1); ++round) {
    std::vector<SparseGradients> wholes(num_workers);
    std::vector<const SparseGradients*> gradients;
    for (uint32_t w = 0; w < num_workers; ++w) {
      if (round > rounds_of(w)) continue;
      MessagesOf(3, w, 1, round, round, num_messages, &wholes[w]);
      gradients.push_back(&wholes[w]);
    }
    model->ApplyRound(gradients, 1);
  }
  EXPECT_EQ(aggregator.HeldPushes(), 0u);
  return RowsOf(*table);
}

TEST(SyncAggregatorThreadsTest, WorkersInThreadsGiveTheModelsRows) {
  SgdModel model(kLearningRate);
  const SparseGradients rows = RunThreads(4, 3, &model);
  EXPECT_EQ(rows, model.rows());
  SgdModel again(kLearningRate);
  EXPECT_EQ(RunThreads(4, 1, &again), rows) << "however it is cut in messages";
}

TEST(SyncAggregatorThreadsTest, ShutdownAmongPushesAnswersEveryCall) {
  for (int trial = 0; trial < 20; ++trial) {
    const auto table =
        MakeSparse(SparseConfig(kDim, kLearningRate, v1::SYNC, v1::SUM));
    SyncAggregator aggregator(table.get());
    PushResponses responses;
    for (uint32_t w = 0; w < 2; ++w) {
      aggregator.SetRoundMember(WorkerIndex(w), Generation(1), true);
    }
    std::vector<std::thread> threads;
    for (uint32_t w = 0; w < 2; ++w) {
      threads.emplace_back([&, w] {
        for (uint64_t round = 1; round <= 50; ++round) {
          aggregator.PushSparse(
              SparsePushOf(PushHeader(w, 1, round, round),
                           RandomGradients(round, 5, 20, kDim)),
              responses.Expect(std::to_string(w) + "." +
                               std::to_string(round)));
        }
      });
    }
    aggregator.Shutdown();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(responses.size(), 100u);
    EXPECT_EQ(aggregator.HeldPushes(), 0u);
  }
}

}  // namespace
}  // namespace oarlock::pserver
