#include "collective/group_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"

namespace oarlock::collective {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RecordingMemberConnection : public MemberConnection {
 public:
  void Send(const v1::GroupMessage& message) override {
    if (!message.has_heartbeat()) messages.push_back(message);
  }
  void Close() override { closed = true; }

  // Of the last message, which is a failure; else empty.
  std::string Failure() const {
    return messages.empty() ? "" : messages.back().failure().message();
  }

  std::vector<v1::GroupMessage> messages;
  bool closed = false;
};

class GroupStateTest : public ::testing::Test {
 protected:
  GroupStateTest() : group_state_(Options(), clock_) {}

  static v1::JoinHello Hello(int rank) {
    v1::JoinHello hello;
    hello.set_protocol_version(kRendezvousVersion);
    hello.set_job_id("job");
    hello.set_generation(2);
    hello.set_rank(rank);
    hello.set_size(3);
    hello.set_digest("digest");
    hello.set_backend("tcp");
    hello.set_address(absl::StrCat("address ", rank));
    return hello;
  }
  static GroupState::Options Options() {
    return {.expected = Hello(0),
            .endpoints = {"a:1", "b:2", "c:3"},
            .secret = "secret",
            .join_timeout = absl::Seconds(2),
            .heartbeat_timeout = absl::Seconds(1)};
  }

  void EnterAll() {
    for (int rank = 0; rank < 3; ++rank) {
      ASSERT_EQ(group_state_.Enter(Hello(rank), &connections_[rank]),
                absl::OkStatus());
    }
  }
  void Heartbeat(int rank, std::vector<uint64_t> operations = {}) {
    v1::MemberMessage message;
    message.mutable_heartbeat()->mutable_operations()->Assign(
        operations.begin(), operations.end());
    group_state_.OnMessage(rank, &connections_[rank], message);
  }
  void Fail(int rank, const std::string& text, uint64_t operation = 0) {
    v1::MemberMessage message;
    message.mutable_failure()->set_code(
        static_cast<int>(absl::StatusCode::kDeadlineExceeded));
    message.mutable_failure()->set_message(text);
    message.mutable_failure()->set_operation(operation);
    group_state_.OnMessage(rank, &connections_[rank], message);
  }
  void Leave(int rank) {
    v1::MemberMessage message;
    message.mutable_leave();
    group_state_.OnMessage(rank, &connections_[rank], message);
  }

  RecordingMemberConnection connections_[3];
  FakeClock clock_;
  GroupState group_state_;
};

TEST_F(GroupStateTest, TellsWhoIsMissingAndThenEveryonesAddress) {
  ASSERT_TRUE(group_state_.Enter(Hello(2), &connections_[2]).ok());
  EXPECT_THAT(connections_[2].messages.back().waiting().missing(),
              ElementsAre(0, 1));
  ASSERT_TRUE(group_state_.Enter(Hello(0), &connections_[0]).ok());
  EXPECT_THAT(connections_[2].messages.back().waiting().missing(),
              ElementsAre(1));
  ASSERT_TRUE(group_state_.Enter(Hello(1), &connections_[1]).ok());
  for (const RecordingMemberConnection& connection : connections_) {
    const v1::GroupWelcome& welcome = connection.messages.back().welcome();
    EXPECT_THAT(welcome.addresses(),
                ElementsAre("address 0", "address 1", "address 2"));
    EXPECT_EQ(welcome.secret(), "secret");
  }
}

TEST_F(GroupStateTest, RefusesWhatIsNotOfThisGroupByACodeThatSaysWhoMayRetry) {
  const auto code = [this](auto change) {
    v1::JoinHello hello = Hello(1);
    change(&hello);
    RecordingMemberConnection connection;
    return group_state_.Enter(hello, &connection).code();
  };
  using Hello = v1::JoinHello*;
  const auto wrong = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(code([](Hello h) { h->set_protocol_version(9); }), wrong);
  EXPECT_EQ(code([](Hello h) { h->set_job_id("x"); }), wrong);
  EXPECT_EQ(code([](Hello h) { h->set_size(4); }), wrong);
  EXPECT_EQ(code([](Hello h) { h->set_rank(3); }), wrong);
  EXPECT_EQ(code([](Hello h) { h->set_digest("x"); }), wrong);
  EXPECT_EQ(code([](Hello h) { h->set_backend("nccl"); }), wrong);
  EXPECT_EQ(code([](Hello h) { h->set_generation(1); }),
            absl::StatusCode::kFailedPrecondition);
  EnterAll();
  EXPECT_EQ(code([](Hello h) {}), absl::StatusCode::kAlreadyExists);
  Fail(0, "over");
  EXPECT_EQ(code([](Hello h) {}), absl::StatusCode::kUnavailable);
}

TEST_F(GroupStateTest, ARankOfANewerGenerationEndsAGroupThatStillWaits) {
  ASSERT_TRUE(group_state_.Enter(Hello(0), &connections_[0]).ok());
  v1::JoinHello newer = Hello(1);
  newer.set_generation(3);
  EXPECT_EQ(group_state_.Enter(newer, &connections_[1]).code(),
            absl::StatusCode::kUnavailable);
  EXPECT_THAT(connections_[0].Failure(),
              HasSubstr("rank 1 (b:2) was started again"));
  // What is not of the job ends nothing.
  GroupState other(Options(), clock_);
  ASSERT_TRUE(other.Enter(Hello(0), &connections_[2]).ok());
  newer.set_job_id("x");
  EXPECT_EQ(other.Enter(newer, &connections_[1]).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(connections_[2].Failure(), "");
}

// Rank 0 of an older generation has to end, however early the newer ones come.
TEST_F(GroupStateTest, ARankZeroThatComesToAGroupThatIsOverIsToldSo) {
  v1::JoinHello newer = Hello(1);
  newer.set_generation(3);
  EXPECT_FALSE(group_state_.Enter(newer, &connections_[1]).ok());
  EXPECT_FALSE(group_state_.Enter(Hello(0), &connections_[0]).ok());
  EXPECT_THAT(connections_[0].Failure(),
              HasSubstr("rank 1 (b:2) was started again"));
  // Another one may wait for the new rank 0.
  EXPECT_FALSE(group_state_.Enter(Hello(2), &connections_[2]).ok());
  EXPECT_THAT(connections_[2].messages, IsEmpty());
}

TEST_F(GroupStateTest, TheFirstDeathIsWhatAllAreTold) {
  EnterAll();
  group_state_.Closed(2, &connections_[2]);
  // Those who hung up since.
  group_state_.Closed(1, &connections_[1]);
  EXPECT_THAT(connections_[0].Failure(), HasSubstr("rank 2 (c:3) died"));
  // Waiting, waiting, welcome, failure: once.
  EXPECT_EQ(connections_[0].messages.size(), 4u);
}

TEST_F(GroupStateTest, TheEndOfWhoHasLeftIsNoFailure) {
  EnterAll();
  Leave(2);
  EXPECT_THAT(connections_[0].messages.back().left().ranks(), ElementsAre(2));
  group_state_.Closed(2, &connections_[2]);
  EXPECT_EQ(connections_[0].Failure(), "");
  Leave(0);
  EXPECT_THAT(connections_[1].messages.back().left().ranks(),
              ElementsAre(0, 2));
}

TEST_F(GroupStateTest, OneMissedHeartbeatMoreThanFitsIsDeath) {
  EnterAll();
  for (int tick = 0; tick < kHeartbeatsPerTimeout; ++tick) {
    Heartbeat(0);
    Heartbeat(1);
    group_state_.Tick();
  }
  EXPECT_EQ(connections_[0].Failure(), "");
  Heartbeat(0);
  Heartbeat(1);
  group_state_.Tick();
  EXPECT_THAT(connections_[0].Failure(),
              HasSubstr("rank 2 (c:3) sent no heartbeat for 1s"));
  EXPECT_TRUE(connections_[2].closed);
  EXPECT_FALSE(connections_[1].closed);
}

TEST_F(GroupStateTest, WhoIsMissingWhenTimeIsOverIsToldWithTheLastRefusal) {
  ASSERT_TRUE(group_state_.Enter(Hello(0), &connections_[0]).ok());
  v1::JoinHello other = Hello(1);
  other.set_size(4);
  RecordingMemberConnection refused;
  EXPECT_FALSE(group_state_.Enter(other, &refused).ok());
  for (int tick = 1; tick < 2 * kHeartbeatsPerTimeout; ++tick) {
    Heartbeat(0);
    group_state_.Tick();
  }
  EXPECT_EQ(connections_[0].Failure(), "");
  Heartbeat(0);
  group_state_.Tick();
  EXPECT_THAT(connections_[0].Failure(),
              HasSubstr("rank 1 (b:2), rank 2 (c:3) did not come to rank 0 "
                        "within 2s; refused meanwhile: rank 1 has a group of 4 "
                        "ranks, rank 0 has 3"));
}

TEST_F(GroupStateTest, WhoIsLostWhileOthersAreWaitedForIsMissingAgain) {
  ASSERT_TRUE(group_state_.Enter(Hello(0), &connections_[0]).ok());
  ASSERT_TRUE(group_state_.Enter(Hello(1), &connections_[1]).ok());
  EXPECT_THAT(connections_[0].messages.back().waiting().missing(),
              ElementsAre(2));
  group_state_.Closed(1, &connections_[1]);
  EXPECT_THAT(connections_[0].messages.back().waiting().missing(),
              ElementsAre(1, 2));

  ASSERT_TRUE(group_state_.Enter(Hello(1), &connections_[1]).ok());
  EXPECT_THAT(connections_[0].messages.back().waiting().missing(),
              ElementsAre(2));
  for (int tick = 0; tick <= kHeartbeatsPerTimeout; ++tick) {
    Heartbeat(0);
    group_state_.Tick();
  }
  EXPECT_TRUE(connections_[1].closed);
  EXPECT_THAT(connections_[0].messages.back().waiting().missing(),
              ElementsAre(1, 2));
}

TEST_F(GroupStateTest, AFailureOfTimeNamesWhoHasNotBegunTheOperation) {
  EnterAll();
  Heartbeat(0, {7});
  Heartbeat(1, {7});
  Heartbeat(2, {6});
  Fail(0, "time is over", 7);
  EXPECT_THAT(connections_[1].Failure(),
              HasSubstr("rank 0 (a:1): time is over; as last heard, not begun "
                        "by rank 2 (c:3)"));
  EXPECT_EQ(connections_[1].messages.back().failure().code(),
            static_cast<int>(absl::StatusCode::kDeadlineExceeded));
}

TEST_F(GroupStateTest, AFailureWithoutACodeIsOneAllTheSame) {
  EnterAll();
  v1::MemberMessage message;
  message.mutable_failure();
  group_state_.OnMessage(1, &connections_[1], message);
  ASSERT_TRUE(connections_[0].messages.back().has_failure());
  EXPECT_NE(connections_[0].messages.back().failure().code(), 0);
}

TEST_F(GroupStateTest, WhatAnOldConnectionSaysIsSkipped) {
  RecordingMemberConnection old;
  ASSERT_TRUE(group_state_.Enter(Hello(1), &old).ok());
  group_state_.Closed(1, &old);
  EnterAll();
  v1::MemberMessage leave;
  leave.mutable_leave();
  group_state_.OnMessage(1, &old, leave);
  group_state_.Closed(1, &old);
  EXPECT_TRUE(connections_[0].messages.back().has_welcome());
}

}  // namespace
}  // namespace oarlock::collective
