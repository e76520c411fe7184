#include "client/range_messages.h"

#include <gtest/gtest.h>

namespace oarlock::client {
namespace {

TEST(RangeMessagesTest, PushCompletionsKeepTheirNamesAndRanges) {
  v1::LeaseRangesResponse response;
  v1::PushCompletion* completion = response.add_push_completions();
  completion->set_lease(17);
  completion->mutable_worker()->set_worker_index(2);
  completion->mutable_worker()->set_worker_generation(5);
  completion->set_sequence(300);
  v1::DataRange* range = completion->add_examples();
  range->set_source(1);
  range->set_begin(10);
  range->set_end(20);
  range->set_byte_offset(99);
  range->set_skip_lines(3);
  completion->add_dense_examples()->set_end(7);
  const Leases leases = ToLeases(response);
  EXPECT_TRUE(leases.items.empty());
  ASSERT_EQ(leases.push_completions.size(), 1u);
  const PushCompletion& got = leases.push_completions[0];
  EXPECT_EQ(got.lease, 17u);
  ASSERT_TRUE(got.push.has_value());
  EXPECT_EQ(got.push->worker, WorkerIndex(2));
  EXPECT_EQ(got.push->generation, Generation(5));
  EXPECT_EQ(got.push->sequence, Sequence(300));
  ASSERT_EQ(got.examples.size(), 1u);
  EXPECT_EQ(got.examples[0].source, 1u);
  EXPECT_EQ(got.examples[0].begin, 10u);
  EXPECT_EQ(got.examples[0].end, 20u);
  EXPECT_EQ(got.examples[0].byte_offset, 99u);
  EXPECT_EQ(got.examples[0].skip_lines, 3u);
  ASSERT_EQ(got.dense_examples.size(), 1u);
  EXPECT_EQ(got.dense_examples[0].end, 7u);
}

TEST(RangeMessagesTest, PushCompletionOfGenerationZeroHasNoName) {
  v1::LeaseRangesResponse response;
  response.add_push_completions()->mutable_worker()->set_worker_index(2);
  EXPECT_FALSE(ToLeases(response).push_completions[0].push.has_value());
}

}  // namespace
}  // namespace oarlock::client
