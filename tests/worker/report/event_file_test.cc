#include "worker/report/event_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/random.h"
#include "proto/vendored/event.pb.h"
#include "tests/data/test_files.h"
#include "worker/report/crc32c.h"
#include "worker/report/training_events.h"

namespace oarlock::worker {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

// Bit by bit, as the polynomial says.
uint32_t SlowCrc32c(const std::string& bytes) {
  uint32_t crc = ~0u;
  for (const char c : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      const bool out = (crc ^ static_cast<uint8_t>(c) >> bit) & 1;
      crc = crc >> 1 ^ (out ? 0x82f63b78u : 0u);
    }
  }
  return ~crc;
}

TEST(Crc32cTest, GivesThePublishedValues) {
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  // RFC 3720, B.4.
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
}

TEST(Crc32cTest, AgreesWithTheLoopOverBits) {
  constexpr uint64_t kSeed = 11;
  RandomSequence random(kSeed);
  for (int length = 0; length < 70; ++length) {
    std::string bytes;
    for (int i = 0; i < length; ++i) {
      bytes.push_back(static_cast<char>(random.Below(256)));
    }
    const uint32_t crc = SlowCrc32c(bytes);
    EXPECT_EQ(Crc32c(bytes), crc) << "seed " << kSeed << " length " << length;
    EXPECT_EQ(MaskedCrc32c(bytes), (crc >> 15 | crc << 17) + 0xa282ead8u);
  }
}

uint64_t LittleEndian(const std::string& bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) {
    value = value << 8 | static_cast<uint8_t>(bytes[i]);
  }
  return value;
}

// Every event of a file, whose checksums must be right.
std::vector<events::Event> ReadEvents(const std::string& path) {
  const std::string bytes = data::ReadAll(path);
  std::vector<events::Event> found;
  for (size_t at = 0; at < bytes.size();) {
    const std::string length = bytes.substr(at, 8);
    const uint64_t size = LittleEndian(length);
    const std::string body = bytes.substr(at + 12, size);
    EXPECT_EQ(LittleEndian(bytes.substr(at + 8, 4)), MaskedCrc32c(length));
    EXPECT_EQ(LittleEndian(bytes.substr(at + 12 + size, 4)),
              MaskedCrc32c(body));
    EXPECT_TRUE(found.emplace_back().ParseFromString(body));
    at += 16 + size;
  }
  return found;
}

TEST(EventFileTest, PointsAreReadBackAndThoseThatAreNoneAreLeftOut) {
  const TestFolder folder;
  auto file = EventFile::Create(folder.Path("deep/er"), kNow);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)
                  ->Add(7, kNow + absl::Milliseconds(500),
                        {{"a", .25}, {"b", std::nan("")}, {"c", -3}})
                  .ok());
  ASSERT_TRUE((*file)->Add(8, kNow, {{"a", INFINITY}}).ok());
  const std::vector<events::Event> events = ReadEvents((*file)->path());
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_EQ(events[0].wall_time(), 1.7e9);
  EXPECT_EQ(events[1].step(), 7);
  EXPECT_EQ(events[1].wall_time(), 1.7e9 + .5);
  ASSERT_EQ(events[1].summary().value_size(), 2);
  EXPECT_EQ(events[1].summary().value(0).tag(), "a");
  EXPECT_EQ(events[1].summary().value(0).simple_value(), .25f);
  EXPECT_EQ(events[1].summary().value(1).simple_value(), -3.f);
}

TEST(EventFileTest, TwoFilesOfOneSecondAreTwo) {
  const TestFolder folder;
  const auto first = EventFile::Create(folder.path(), kNow);
  const auto second = EventFile::Create(folder.path(), kNow);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE((*first)->path(), (*second)->path());
  EXPECT_NE((*first)->path().find("/events.out.tfevents.1700000000."),
            std::string::npos);
}

TEST(EventFileTest, AFolderThatCannotBeMadeIsNamed) {
  const TestFolder folder;
  folder.Write("file", "");
  const auto refused = EventFile::Create(folder.Path("file/in"), kNow);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(refused.status().message().find(folder.Path("file/in")),
            absl::string_view::npos);
}

void Train(v1::JobStatusResponse* status, uint32_t epoch, uint64_t examples,
           uint64_t steps, double loss_sum, double auc) {
  v1::PhaseStatus& phase = *status->add_phases();
  phase.mutable_progress()->set_phase("train");
  phase.mutable_progress()->set_epoch(epoch);
  phase.mutable_progress()->set_examples(examples);
  phase.mutable_progress()->set_steps(steps);
  phase.mutable_progress()->set_loss_sum(loss_sum);
  phase.set_auc(auc);
}

double ValueOf(const TrainingCurves::Point& point, const std::string& tag) {
  for (const auto& [name, value] : point.scalars) {
    if (name == tag) return value;
  }
  ADD_FAILURE() << "no " << tag;
  return 0;
}

TEST(TrainingCurvesTest, APointTellsWhatWasTrainedSinceTheOneBefore) {
  v1::JobStatusResponse status;
  TrainingCurves curves(status);
  EXPECT_TRUE(curves.Update(status, kNow).empty());
  Train(&status, 0, 1000, 10, 600, .6);
  status.mutable_phases(0)->mutable_progress()->add_staleness_histogram(10);
  auto points = curves.Update(status, kNow + absl::Seconds(2));
  ASSERT_EQ(points.size(), 1u);
  EXPECT_EQ(points[0].step, 10);
  EXPECT_DOUBLE_EQ(ValueOf(points[0], "train/loss"), .6);
  EXPECT_DOUBLE_EQ(ValueOf(points[0], "train/examples_per_second"), 500);
  EXPECT_DOUBLE_EQ(ValueOf(points[0], "train/staleness_p99"), 0);
  // Nothing trained, no point.
  EXPECT_TRUE(curves.Update(status, kNow + absl::Seconds(3)).empty());
  Train(&status, 1, 500, 5, 200, .7);
  status.mutable_phases(1)->mutable_progress()->add_staleness_histogram(0);
  status.mutable_phases(1)->mutable_progress()->add_staleness_histogram(0);
  status.mutable_phases(1)->mutable_progress()->add_staleness_histogram(5);
  points = curves.Update(status, kNow + absl::Seconds(8));
  ASSERT_EQ(points.size(), 1u);
  EXPECT_EQ(points[0].step, 15);
  EXPECT_DOUBLE_EQ(ValueOf(points[0], "train/loss"), .4);
  // Of the newest phase.
  EXPECT_DOUBLE_EQ(ValueOf(points[0], "train/auc"), .7);
  EXPECT_DOUBLE_EQ(ValueOf(points[0], "train/examples_per_second"), 100);
  EXPECT_DOUBLE_EQ(ValueOf(points[0], "train/staleness_p50"), 3);
}

TEST(TrainingCurvesTest, AnEvaluationIsAPointOnce) {
  v1::JobStatusResponse status;
  status.add_evaluations()->set_work("test/0");
  TrainingCurves curves(status);
  EXPECT_TRUE(curves.Update(status, kNow).empty());
  for (const std::string kind : {"test", "evaluation", "predict"}) {
    v1::Evaluation& evaluation = *status.add_evaluations();
    evaluation.set_work(kind + "/1");
    evaluation.set_auc(.5);
    evaluation.set_logloss(.25);
    evaluation.set_trained_steps(40);
    evaluation.set_unix_seconds(1.5e9);
  }
  const auto points = curves.Update(status, kNow);
  ASSERT_EQ(points.size(), 3u);
  EXPECT_EQ(points[0].step, 40);
  EXPECT_EQ(points[0].time, absl::FromUnixSeconds(1'500'000'000));
  EXPECT_EQ(ValueOf(points[0], "test/auc"), .5);
  EXPECT_EQ(ValueOf(points[1], "test/logloss"), .25);
  EXPECT_EQ(ValueOf(points[2], "predict/auc"), .5);
  EXPECT_TRUE(curves.Update(status, kNow).empty());
}

}  // namespace
}  // namespace oarlock::worker
