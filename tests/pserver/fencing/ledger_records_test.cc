#include "pserver/fencing/ledger_records.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "base/random.h"
#include "tests/pserver/fencing/ledger_testing.h"

namespace oarlock::pserver {
namespace {

using Outcome = LedgerRecords::Outcome;

v1::WorkerLedger Describe(const LedgerRecords& records) {
  v1::WorkerLedger ledger;
  records.Describe(&ledger);
  return ledger;
}

TEST(LedgerRecordsTest, TellsWhichMessagesOfAPushAreApplied) {
  LedgerRecords records;
  PushMessageHeader message =
      MessageHeaderOf({.sequence = 7, .message_index = 3, .message_count = 5});
  message.cut = 2;
  *message.examples.Add() = IntervalOf({.epoch = 1, .source = 4}, 100, 200);
  *message.dense_examples.Add() = IntervalOf({.epoch = 1, .source = 4}, 0, 200);
  records.Add(message, Outcome::kApplied);
  message.message_index = 1;
  records.Add(message, Outcome::kApplied);
  records.Add(message, Outcome::kApplied);  // It came again.

  const v1::WorkerLedger ledger = Describe(records);
  EXPECT_EQ(ledger.highest(), 7u);
  EXPECT_TRUE(ledger.fully_applied_examples().empty());
  ASSERT_EQ(ledger.pushes_size(), 1);
  EXPECT_EQ(ledger.pushes(0).ShortDebugString(),
            "sequence: 7 cut: 2 "
            "examples { source: 4 begin: 100 end: 200 epoch: 1 } "
            "dense_examples { source: 4 end: 200 epoch: 1 } "
            "message_count: 5 messages: 1 messages: 3");
}

TEST(LedgerRecordsTest, APartialPushIsThereWithoutTheMessage) {
  LedgerRecords records;
  records.Add(MessageHeaderOf({.sequence = 1, .message_count = 2}),
              Outcome::kPartial);
  EXPECT_EQ(Describe(records).pushes(0).ShortDebugString(),
            "sequence: 1 message_count: 2");
  records.Add(MessageHeaderOf({.sequence = 1, .message_count = 2}),
              Outcome::kApplied);
  EXPECT_EQ(Describe(records).pushes(0).ShortDebugString(),
            "sequence: 1 message_count: 2 messages: 0");
}

TEST(LedgerRecordsTest, ExamplesOf64SequencesAgoAreFullyAppliedAndMerged) {
  LedgerRecords records;
  for (uint64_t sequence = 1; sequence <= 66; ++sequence) {
    PushMessageHeader message = MessageHeaderOf({.sequence = sequence});
    *message.examples.Add() = IntervalOf({}, sequence * 10, sequence * 10 + 10);
    records.Add(message, Outcome::kApplied);
  }
  const v1::WorkerLedger ledger = Describe(records);
  ASSERT_EQ(ledger.pushes_size(), 64);
  EXPECT_EQ(ledger.pushes(0).sequence(), 3u);
  EXPECT_EQ(ledger.pushes(63).sequence(), 66u);
  ASSERT_EQ(ledger.fully_applied_examples_size(), 1);
  EXPECT_EQ(ledger.fully_applied_examples(0).ShortDebugString(),
            "begin: 10 end: 30");
  EXPECT_TRUE(ledger.fully_applied_dense_examples().empty());
}

// Keeps every message that was ever added.
class ModelRecords {
 public:
  void Add(const PushMessageHeader& message, Outcome outcome) {
    const uint64_t sequence = message.sequence.value();
    highest_ = std::max(highest_, sequence);
    auto [push, is_new] = pushes_.try_emplace(sequence);
    if (is_new) push->second.first = message;
    if (outcome == Outcome::kApplied) {
      push->second.second.insert(message.message_index);
    }
  }

  void Check(const v1::WorkerLedger& ledger) const {
    ASSERT_EQ(ledger.highest(), highest_);
    ExampleSet fully_applied, fully_applied_dense;
    int num_records = 0;
    for (const auto& [sequence, push] : pushes_) {
      const auto& [message, applied] = push;
      if (sequence + 64 <= highest_) {
        AddExamples(message.examples, &fully_applied);
        AddExamples(message.dense_examples, &fully_applied_dense);
        continue;
      }
      ASSERT_LT(num_records, ledger.pushes_size());
      const v1::PushRecord& record = ledger.pushes(num_records++);
      ASSERT_EQ(record.sequence(), sequence);
      ASSERT_EQ(record.cut(), message.cut);
      ASSERT_EQ(record.message_count(), message.message_count);
      ASSERT_EQ(ExamplesOf(record.examples()), ExamplesOf(message.examples));
      ASSERT_EQ(ExamplesOf(record.dense_examples()),
                ExamplesOf(message.dense_examples));
      ASSERT_EQ(std::vector<uint32_t>(record.messages().begin(),
                                      record.messages().end()),
                std::vector<uint32_t>(applied.begin(), applied.end()));
    }
    ASSERT_EQ(ledger.pushes_size(), num_records);
    ASSERT_EQ(ExamplesOf(ledger.fully_applied_examples()), fully_applied);
    ASSERT_EQ(ExamplesOf(ledger.fully_applied_dense_examples()),
              fully_applied_dense);
  }

 private:
  uint64_t highest_ = 0;
  // The first message, and which messages are applied.
  std::map<uint64_t, std::pair<PushMessageHeader, std::set<uint32_t>>> pushes_;
};

PushMessageHeader RandomMessage(uint64_t sequence, RandomSequence* random) {
  PushMessageHeader message =
      MessageHeaderOf({.sequence = sequence, .message_count = 6});
  message.cut = sequence / 50;
  const auto add = [&](PushMessageHeader::Intervals* intervals) {
    for (uint64_t n = random->Below(4); n > 0; --n) {
      const Source source = {.epoch = static_cast<uint32_t>(random->Below(2)),
                             .source = static_cast<uint32_t>(random->Below(3))};
      const uint64_t begin = random->Below(500);
      // Empty ones too.
      *intervals->Add() = IntervalOf(source, begin, begin + random->Below(20));
    }
  };
  add(&message.examples);
  add(&message.dense_examples);
  return message;
}

TEST(LedgerRecordsTest, RandomMessagesAgreeWithAModelThatKeepsThemAll) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomSequence random(seed);
    LedgerRecords records;
    ModelRecords model;
    std::map<uint64_t, PushMessageHeader> sent;
    uint64_t newest = 0;
    for (int step = 0; step < 2000; ++step) {
      // Mostly of the newest pushes; now and then a gap, small or large, since
      // a push need not come to every server.
      const uint64_t kind = random.Below(20);
      uint64_t sequence = newest;
      if (kind < 8 || newest == 0) {
        sequence = newest + 1;
      } else if (kind == 8) {
        sequence = newest + 1 + random.Below(100);
      } else if (kind < 14) {
        sequence = newest - std::min(newest - 1, random.Below(64));
      } else {
        // One that has been sent, maybe long ago.
        auto found = sent.lower_bound(1 + random.Below(newest));
        if (found != sent.end()) sequence = found->first;
      }
      newest = std::max(newest, sequence);
      auto [push, is_new] = sent.try_emplace(sequence);
      if (is_new) push->second = RandomMessage(sequence, &random);
      push->second.message_index = random.Below(6);
      const Outcome outcome =
          random.Below(10) == 0 ? Outcome::kPartial : Outcome::kApplied;
      records.Add(push->second, outcome);
      model.Add(push->second, outcome);
      if (step % 200 == 0) model.Check(Describe(records));
      if (testing::Test::HasFatalFailure()) return;
    }
    model.Check(Describe(records));
  }
}

}  // namespace
}  // namespace oarlock::pserver
