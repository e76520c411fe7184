// Servers and workers of a job in which workers die, by rule and without a
// wire: who has applied what is counted for each example and server.

#ifndef OARLOCK_TESTS_COORDINATOR_DEATH_MODEL_H_
#define OARLOCK_TESTS_COORDINATOR_DEATH_MODEL_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/types.h"
#include "proto/v1/coordinator_ranges.pb.h"
#include "proto/v1/coordinator_servers.pb.h"

namespace oarlock::coordinator {

// An example's number: source * kSourceExamples + its ordinal there.
inline constexpr uint64_t kSourceExamples = 700;
inline constexpr uint32_t kSources = 2;
inline constexpr uint64_t kExamples = kSources * kSourceExamples;
inline constexpr uint64_t kRangeExamples = 40;

// The ranges of a phase over all examples. The last one of a source has no end.
std::vector<v1::DataRange> DefinedRanges();

// Expects that the range says where its lines are, as its definition does.
std::vector<uint64_t> ExamplesOf(const v1::DataRange& range);
template <typename Ranges>
std::set<uint64_t> ExampleSetOf(const Ranges& ranges) {
  std::set<uint64_t> examples;
  for (const v1::DataRange& range : ranges) {
    for (uint64_t example : ExamplesOf(range)) examples.insert(example);
  }
  return examples;
}

struct ModelPush {
  uint32_t worker = 0;
  uint64_t generation = 0;
  uint64_t sequence = 0;
  uint64_t cut = 0;
  std::vector<uint64_t> rows;
  std::vector<uint64_t> dense;
};

// Every example has rows on some of the servers and a part of the dense
// parameters on each. A message carries the rows of a push on one server, two
// groups of them, or its dense gradients there, one group.
class ModelServers {
 public:
  struct Message {
    uint32_t server = 0;
    bool dense = false;
  };

  explicit ModelServers(uint32_t num_servers)
      : num_servers_(num_servers), ledgers_(num_servers) {}

  uint32_t num_servers() const { return num_servers_; }
  std::vector<Message> Messages(const ModelPush& push) const;
  // The message arrives and is applied, unless it has been or counts as fully
  // applied.
  void Apply(const ModelPush& push, uint32_t message_index);
  // It arrives, and fails before its last group.
  void ApplyPartly(const ModelPush& push, uint32_t message_index);
  v1::WorkerLedger Ledger(uint32_t server, uint32_t worker,
                          uint64_t generation) const;
  // The server comes back from the checkpoint of this cut, with its log.
  void Restart(uint32_t server, uint64_t cut);
  // All of the push is applied or counts as fully applied.
  bool IsWhole(const ModelPush& push) const;
  // Each of the example's gradients was applied so many times.
  bool WasApplied(uint64_t example, int times) const;

 private:
  struct Record {
    ModelPush push;
    uint32_t message_count = 0;
    std::set<uint32_t> messages;
  };
  using Incarnation = std::pair<uint32_t, uint64_t>;

  bool HasRows(uint64_t example, uint32_t server) const;
  bool InWindow(const ModelPush& push, uint32_t server, int group) const;
  // REQUIRES: it is not in the window.
  void ApplyGroup(const ModelPush& push, uint32_t server, int group);
  Record& RecordOf(const ModelPush& push, uint32_t server);
  // Of what the push has there.
  std::vector<int> Groups(const ModelPush& push, const Message& message) const;

  const uint32_t num_servers_;
  // By server, incarnation and sequence.
  std::vector<std::map<Incarnation, std::map<uint64_t, Record>>> ledgers_;
  // The windows, by server and group.
  std::map<std::tuple<uint32_t, int, Incarnation>, std::set<uint64_t>> windows_;
  // By example, server, dense or not.
  std::map<std::tuple<uint64_t, uint32_t, bool>, int> times_;
};

// The push that is completed; generation 0: none.
ModelPush PushOf(const v1::PushCompletion& completion);

// One incarnation.
class ModelWorker {
 public:
  enum class Fate { kApply, kRefuse, kHold };
  // What becomes of a message of this cut at a server.
  using Gate = std::function<Fate(uint32_t server, uint64_t cut)>;
  struct Mark {
    uint64_t cut = 0;
    std::set<uint64_t> examples;
  };

  ModelWorker(uint32_t worker, uint64_t generation, uint64_t first_cut,
              ModelServers* servers, RandomSequence* random);

  uint64_t generation() const { return generation_; }
  // Leases have numbers.
  void AddRange(const v1::DataRange& range, uint64_t lease);
  void AddPushCompletion(const v1::PushCompletion& completion);
  size_t num_examples_left() const { return todo_.size(); }
  // Does something: computes, sends, advances a dense copy to the newest cut.
  void Turn(uint64_t newest_cut, const Gate& gate);
  // A message that is under way arrives.
  void Deliver(const Gate& gate);
  // Leases that were done since the last call.
  std::vector<uint64_t> TakeDone();
  // Nothing to do and nothing under way.
  bool Idle() const;
  // The mark of the newest cut, once it can be made.
  std::optional<Mark> TakeMark();

 private:
  struct DenseCopy {
    uint64_t cut = 0;
    std::vector<uint64_t> dense;
    int steps = 0;
  };
  struct UnderWay {
    ModelPush push;
    std::set<uint32_t> messages;
    // Of the push completion that it is for; 0: of ranges.
    uint64_t lease = 0;
  };

  void Compute();
  void Flush(DenseCopy* copy);
  void Work(const v1::PushCompletion& completion);
  bool HasRoom() const;
  // REQUIRES: HasRoom(), if the push gets a sequence of this worker.
  void Send(ModelPush push, uint64_t cut, uint64_t lease);
  void Delay(ModelPush push, uint64_t lease);

  const uint32_t worker_;
  const uint64_t generation_;
  ModelServers* const servers_;
  RandomSequence* const random_;
  const bool shuffles_;
  std::vector<DenseCopy> copies_;
  std::vector<uint64_t> todo_;
  std::vector<uint64_t> leases_;
  std::deque<v1::PushCompletion> push_completions_;
  // Completing pushes that are to be sent.
  std::deque<UnderWay> backlog_;
  // Completing pushes that are not answered, by lease.
  std::map<uint64_t, int> completing_;
  std::vector<uint64_t> completed_;
  std::vector<UnderWay> under_way_;
  uint64_t next_sequence_ = 1;
  uint64_t newest_cut_;
  uint64_t marked_cut_;
  // By cut.
  std::map<uint64_t, std::set<uint64_t>> unreported_;
};

}  // namespace oarlock::coordinator

#endif  // OARLOCK_TESTS_COORDINATOR_DEATH_MODEL_H_
