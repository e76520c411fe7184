// Pushes of a worker that is gone, completed by another one.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "pserver/service/parameter_service.h"
#include "tests/pserver/fencing/ledger_testing.h"
#include "tests/pserver/service/parameter_service_testing.h"
#include "tests/pserver/service/push_testing.h"

namespace oarlock::pserver {
namespace {

// Worker 0 generation 1 dies; worker 1 completes what it left.
class PushCompletionTest : public ParameterServiceTest {
 protected:
  void StartWith(v1::UpdateMode mode) {
    Start();
    ASSERT_TRUE(registry_->Create(SparseConfig(1, -1, mode)).ok());
  }
  static v1::RequestHeader HeaderOfDead(uint64_t sequence,
                                        uint32_t message_index = 0,
                                        uint32_t message_count = 1) {
    v1::RequestHeader header = HeaderOfPush(0, sequence);
    header.set_message_index(message_index);
    header.set_message_count(message_count);
    header.set_table_message_count(message_count);
    *header.add_examples() = IntervalOf({}, sequence * 8, sequence * 8 + 8);
    return header;
  }
  static v1::RequestHeader Completing(v1::RequestHeader header) {
    header.clear_oldest_unanswered();
    header.set_completing_worker(1);
    header.set_completing_generation(1);
    return header;
  }
  void LoseWorker0() { fences_->Update(StateOf(0, 1, v1::WorkerState::LOST)); }
  v1::WorkerLedger Ledger() {
    std::optional<v1::WorkerLedger> ledger =
        ledger_->Collect(WorkerIndex(0), Generation(1));
    EXPECT_TRUE(ledger.has_value());
    return ledger.value_or(v1::WorkerLedger());
  }
};

// Gradient 1 for each key.
SparseGradients Ones(uint64_t num_keys) {
  SparseGradients gradients;
  for (uint64_t key = 0; key < num_keys; ++key) gradients[Key{key}] = {1};
  return gradients;
}

TEST_F(PushCompletionTest, SkipsGroupsThatAreAppliedAndAppliesTheRest) {
  StartWith(v1::ASYNC);
  const SparseGradients all = Ones(100);
  // Two of three messages arrive.
  const std::vector<SparseGradients> messages = CutByPartition(all, 3);
  for (uint32_t i : {0, 2}) {
    ASSERT_TRUE(Push(PushOf(HeaderOfDead(5, i, 3), messages[i])).ok());
  }
  LoseWorker0();
  const v1::WorkerLedger ledger = Ledger();
  ASSERT_EQ(ledger.pushes_size(), 1);
  EXPECT_EQ(ledger.pushes(0).ShortDebugString(),
            "sequence: 5 examples { begin: 40 end: 48 } message_count: 3 "
            "messages: 0 messages: 2 routing_generation: 1");

  // Its successor cuts the push into messages as it likes.
  const v1::PushSparseRequest completion =
      PushOf(Completing(HeaderOfDead(5)), all);
  v1::PushResponse response;
  ASSERT_TRUE(Push(completion, &response).ok());
  EXPECT_LT(response.duplicate_groups(), completion.partitions_size());
  EXPECT_GT(response.duplicate_groups(), 0u);
  EXPECT_EQ(RowsOf(sparse()), all);

  ASSERT_TRUE(Push(completion, &response).ok());
  EXPECT_EQ(response.duplicate_groups(), completion.partitions_size());
  EXPECT_EQ(RowsOf(sparse()), all);
  EXPECT_EQ(Ledger().ShortDebugString(), ledger.ShortDebugString());
}

TEST_F(PushCompletionTest, IsRefusedWhileTheNamedIncarnationIsAlive) {
  StartWith(v1::ASYNC);
  ASSERT_TRUE(Push(PushOf(HeaderOfDead(1), Ones(10))).ok());
  const v1::PushSparseRequest completion =
      PushOf(Completing(HeaderOfDead(2)), Ones(10));
  ExpectError(Push(completion), grpc::FAILED_PRECONDITION,
              {"worker 1 completes push 2 of worker 0 generation 1"});
  EXPECT_EQ(RowsOf(sparse()), Ones(10));
  LoseWorker0();
  EXPECT_TRUE(Push(completion).ok());
  ExpectError(Push(PushOf(HeaderOfDead(3), Ones(10))), grpc::ABORTED);
}

TEST_F(PushCompletionTest, IsRefusedWhenItsSenderIsFencedOrAllIsAccountedFor) {
  StartWith(v1::ASYNC);
  ASSERT_TRUE(Push(PushOf(HeaderOfDead(1), Ones(10))).ok());
  LoseWorker0();
  const v1::PushSparseRequest completion =
      PushOf(Completing(HeaderOfDead(1)), Ones(10));
  fences_->Update(StateOf(1, 1, v1::WorkerState::LOST));
  ExpectError(Push(completion), grpc::ABORTED, {"worker 1 generation 1"});
  v1::PushSparseRequest successors = completion;
  successors.mutable_header()->set_completing_generation(2);
  v1::PushResponse response;
  ASSERT_TRUE(Push(successors, &response).ok());
  EXPECT_EQ(response.duplicate_groups(), successors.partitions_size());

  // A late one would be applied again when the windows are gone.
  ASSERT_TRUE(ledger_->Forget(WorkerIndex(0), Generation(1)));
  registry_->ForgetWorker(WorkerIndex(0), Generation(1));
  ExpectError(Push(successors), grpc::ABORTED, {"is accounted for"});
  EXPECT_EQ(RowsOf(sparse()), Ones(10));
}

TEST_F(PushCompletionTest, IsNotForRounds) {
  StartWith(v1::SYNC);
  LoseWorker0();
  ExpectError(Push(PushOf(Completing(HeaderOfDead(1)), Ones(1))),
              grpc::INVALID_ARGUMENT, {"SYNC"});
}

TEST_F(PushCompletionTest, CompletesDenseBlocksToo) {
  Start();
  ASSERT_TRUE(registry_->Create(DenseConfig(8, 4, -1)).ok());
  v1::PushDenseRequest push;
  *push.mutable_header() = HeaderOfDead(1, 0, 2);
  push.set_table(2);
  const auto push_blocks = [&](const std::vector<uint32_t>& blocks) {
    push.clear_blocks();
    push.clear_values();
    for (const uint32_t block : blocks) {
      push.add_blocks(block);
      for (int i = 0; i < 4; ++i) push.add_values(1);
    }
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::DenseResponse response;
    const grpc::Status status = stub_->PushDense(&context, push, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.duplicate_groups();
  };
  EXPECT_EQ(push_blocks({1}), 0u);
  LoseWorker0();
  EXPECT_EQ(Ledger().pushes(0).messages_size(), 1);
  *push.mutable_header() = Completing(HeaderOfDead(1));
  EXPECT_EQ(push_blocks({0, 1}), 1u);
  const sparse_table::DenseTable& table =
      *(*registry_->Find(TableId(2)))->dense;
  for (uint32_t block : {0, 1}) {
    EXPECT_EQ(BlockOf(table, BlockIndex(block)), std::vector<float>(4, 1));
  }
}

// Refused messages: nothing of them is in the ledger, and it waits for none.
TEST_F(PushCompletionTest, RefusedPushesAreInNoLedger) {
  StartWith(v1::ASYNC);
  v1::PushSparseRequest too_wide = PushOf(HeaderOfDead(1), Ones(10));
  const auto values = too_wide.values();
  too_wide.mutable_values()->MergeFrom(values);
  EXPECT_FALSE(Push(too_wide).ok());
  v1::PushSparseRequest other_table = PushOf(HeaderOfDead(2), Ones(10));
  other_table.set_table(9);
  EXPECT_FALSE(Push(other_table).ok());
  v1::PushSparseRequest no_show = PushOf(HeaderOfDead(3), Ones(1));
  no_show.add_shows(-1);
  EXPECT_FALSE(Push(no_show).ok());
  LoseWorker0();
  EXPECT_FALSE(Push(PushOf(HeaderOfDead(4), Ones(1))).ok());
  EXPECT_EQ(Ledger().ShortDebugString(), "worker { worker_generation: 1 }");
}

// Random pushes of several messages, some of which are lost; then each push
// that its ledger does not have as a whole is completed by its name.
TEST_F(PushCompletionTest, WhateverArrivedEveryGradientIsAppliedOnce) {
  StartWith(v1::ASYNC);
  const uint64_t seed = 11;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  RandomSequence random(seed);
  constexpr uint64_t kNumPushes = 60;
  SgdModel model(-1);
  std::map<uint64_t, SparseGradients> pushes;
  for (uint64_t sequence = 1; sequence <= kNumPushes; ++sequence) {
    SparseGradients& push = pushes[sequence];
    for (const auto& [key, gradient] : RandomGradients(random(), 20, 1000, 1)) {
      push[key] = {1};  // Order must not matter.
    }
    model.Apply(push);
    const std::vector<SparseGradients> messages = CutByPartition(push, 4);
    for (uint32_t i = 0; i < 4; ++i) {
      for (uint64_t times = random.Below(3); times > 0; --times) {
        ASSERT_TRUE(
            Push(PushOf(HeaderOfDead(sequence, i, 4), messages[i])).ok());
      }
    }
  }
  LoseWorker0();
  std::map<uint64_t, int> num_messages;
  const v1::WorkerLedger ledger = Ledger();
  for (const v1::PushRecord& push : ledger.pushes()) {
    num_messages[push.sequence()] = push.messages_size();
  }
  int partial = 0;
  for (const auto& [sequence, push] : pushes) {
    if (num_messages[sequence] == 4) continue;
    partial += num_messages[sequence] > 0;
    ASSERT_TRUE(Push(PushOf(Completing(HeaderOfDead(sequence)), push)).ok());
  }
  EXPECT_GT(partial, 0);
  EXPECT_EQ(RowsOf(sparse()), model.rows());
}

}  // namespace
}  // namespace oarlock::pserver
