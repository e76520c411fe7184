// Properties of every way to divide training images among workers, over random
// numbers of images, files, workers and batches.

#include "examples/images/training_images.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"

namespace images {
namespace {

constexpr uint64_t kSeed = 20260;
constexpr int kTrials = 1500;

// The label of an image is its number among all.
class NumberedImages : public oarlock::data::ImageDataset {
 public:
  explicit NumberedImages(std::vector<uint32_t> numbers)
      : numbers_(std::move(numbers)) {}

  uint64_t size() const override { return numbers_.size(); }
  oarlock::data::ImageShape shape() const override { return {1, 1, 1}; }
  uint32_t num_classes() const override { return 1u << 20; }
  uint32_t label(uint64_t example) const override {
    OARLOCK_CHECK(example < numbers_.size());
    return numbers_[example];
  }
  absl::StatusOr<const uint8_t*> Pixels(uint64_t, std::optional<uint64_t>,
                                        uint8_t* scratch) const override {
    return scratch;
  }

 private:
  const std::vector<uint32_t> numbers_;
};

std::unique_ptr<NumberedImages> AllImages(uint64_t count) {
  std::vector<uint32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return std::make_unique<NumberedImages>(std::move(numbers));
}

// Data as files: `counts` images in each; of one each, a list of files.
ImageSource SourceOf(const std::vector<uint64_t>& counts, bool is_file_list) {
  const uint64_t total =
      std::accumulate(counts.begin(), counts.end(), uint64_t{0});
  ImageSource source;
  source.open = [=](const v1::ImageConfig&) -> absl::StatusOr<ImageData> {
    ImageData data;
    data.train = AllImages(total);
    data.test = AllImages(1);
    data.is_file_list = is_file_list;
    return data;
  };
  if (is_file_list) return source;
  source.open_share =
      [=](const v1::ImageConfig&,
          const TrainShare& share) -> absl::StatusOr<ImageData> {
    auto parts = oarlock::data::PartsOfRank(counts, share.rank, share.size,
                                            share.uneven);
    if (!parts.ok()) return parts.status();
    std::vector<uint32_t> numbers;
    for (const oarlock::data::FilePart& part : *parts) {
      const auto first = static_cast<uint32_t>(std::accumulate(
          counts.begin(), counts.begin() + part.file, uint64_t{0}));
      for (uint64_t i = part.begin; i < part.end; ++i) {
        numbers.push_back(first + static_cast<uint32_t>(i));
      }
    }
    ImageData data;
    data.train = std::make_unique<NumberedImages>(std::move(numbers));
    data.test = AllImages(1);
    return data;
  };
  return source;
}

// Numbers of images, batch by batch.
using Batches = std::vector<std::vector<uint32_t>>;

Batches EpochOf(const TrainingImages& training, uint64_t epoch) {
  const oarlock::data::EpochBatches sampled = training.sampler.Epoch(epoch);
  Batches batches;
  for (uint64_t b = 0; b < sampled.size(); ++b) {
    batches.emplace_back();
    for (const oarlock::data::Sample& sample : sampled.Batch(b).samples) {
      batches.back().push_back(training.images->label(sample.example));
    }
  }
  return batches;
}

std::map<uint32_t, uint64_t> CountsOf(const std::vector<Batches>& ranks) {
  std::map<uint32_t, uint64_t> counts;
  for (const Batches& batches : ranks) {
    for (const auto& batch : batches) {
      for (const uint32_t image : batch) ++counts[image];
    }
  }
  return counts;
}

struct Trial {
  uint64_t num_images = 0;
  uint32_t size = 1;
  uint32_t batch_size = 1;
  uint32_t repeats = 1;
  v1::ImageConfig config;
  ImageSource source;

  std::string Describe() const {
    return absl::StrCat("seed ", config.seed(), ": ", num_images, " images on ",
                        size, ", ", config.ShortDebugString());
  }
};

Trial RandomTrial(oarlock::RandomSequence* random) {
  const auto pick = [random](std::vector<std::string> values) {
    return values[random->Below(values.size())];
  };
  Trial trial;
  trial.size = 1 + static_cast<uint32_t>(random->Below(7));
  trial.batch_size = 1 + static_cast<uint32_t>(random->Below(9));
  trial.repeats = 1 + static_cast<uint32_t>(random->Below(3));
  v1::ImageConfig& config = trial.config;
  config.set_seed(static_cast<int64_t>(random->Below(1 << 30)));
  config.set_batch_size(trial.batch_size);
  config.set_partition(pick({"images", "image_files", "data_files"}));
  config.set_tail(pick({"drop_last", "drop_uneven", "pad"}));
  if (config.partition() == "images") {
    config.set_sampling(pick({"without_replacement", "with_replacement"}));
  }
  config.set_concatenate_epochs(trial.repeats);
  config.set_epochs(2 * trial.repeats);
  std::vector<uint64_t> counts(1 + random->Below(6));
  for (uint64_t& count : counts) {
    count = random->Below(40);
    trial.num_images += count;
  }
  trial.source = SourceOf(counts, config.partition() == "image_files");
  return trial;
}

// What all workers take together in an epoch is what the flags say.
void CheckUnion(const Trial& trial, const std::vector<Batches>& ranks) {
  const auto counts = CountsOf(ranks);
  uint64_t taken = 0, most = 0;
  for (const auto& [image, count] : counts) {
    ASSERT_LT(image, trial.num_images);
    taken += count;
    most = std::max(most, count);
  }
  const v1::ImageConfig& config = trial.config;
  const bool own = config.sampling() == "with_replacement";
  const bool by_share = config.partition() != "images";
  // Of each repeat and its copies.
  const uint64_t times = trial.repeats * (own ? trial.size : 1);
  const uint64_t all = trial.num_images * times;
  if (config.tail() == "pad") {
    // Each image at least as often as it should, and few more often.
    ASSERT_EQ(counts.size(), trial.num_images);
    for (const auto& [image, count] : counts) ASSERT_GE(count, times);
    ASSERT_LT(taken - all, trial.size * (by_share ? trial.repeats : 1));
    return;
  }
  ASSERT_LE(most, times);
  const uint64_t uneven =
      own ? 0 : (trial.size - 1) * (by_share ? trial.repeats : 1);
  const uint64_t shorts =
      config.tail() == "drop_last" ? trial.size * (trial.batch_size - 1) : 0;
  ASSERT_LE(all - taken, uneven + shorts);
}

TEST(TrainingImagesTest, AllWorkersMakeEquallyManyStepsOnWhatTheFlagsSay) {
  oarlock::RandomSequence random(kSeed);
  std::map<std::string, int> seen;
  for (int i = 0; i < kTrials; ++i) {
    const Trial trial = RandomTrial(&random);
    SCOPED_TRACE(testing::Message() << "trial " << i << " of " << kSeed << ", "
                                    << trial.Describe());
    ASSERT_TRUE(CheckDivision(trial.config).ok());
    std::vector<Batches> ranks, later;
    int refused = 0;
    for (uint32_t rank = 0; rank < trial.size; ++rank) {
      const auto training =
          OpenTrainingImages(trial.config, trial.source, rank, trial.size);
      if (!training.ok()) {
        ASSERT_EQ(training.status().code(), absl::StatusCode::kInvalidArgument);
        ++refused;
        continue;
      }
      ranks.push_back(EpochOf(*training, 0));
      later.push_back(EpochOf(*training, 1));
      ASSERT_EQ(EpochOf(*training, 0), ranks.back());
      ASSERT_EQ(ranks.back().size(), training->sampler.num_batches());
    }
    // All or none.
    ASSERT_TRUE(refused == 0 || refused == static_cast<int>(trial.size));
    if (refused > 0) {
      const uint64_t needed = trial.config.tail() == "drop_last"
                                  ? trial.size * trial.batch_size
                              : trial.config.tail() == "pad" ? 1
                                                             : trial.size;
      ASSERT_LT(trial.num_images, needed);
      continue;
    }
    for (const Batches& batches : ranks) {
      ASSERT_GE(batches.size(), 1u);
      ASSERT_EQ(batches.size(), ranks[0].size());
      for (size_t b = 0; b < batches.size(); ++b) {
        ASSERT_EQ(batches[b].size(), ranks[0][b].size());
        ASSERT_LE(batches[b].size(), trial.batch_size);
        if (trial.config.tail() == "drop_last") {
          ASSERT_EQ(batches[b].size(), trial.batch_size);
        }
      }
    }
    CheckUnion(trial, ranks);
    if (testing::Test::HasFatalFailure()) return;
    CheckUnion(trial, later);
    if (testing::Test::HasFatalFailure()) return;
    // That two shuffles agree by chance is out of the question from here on.
    if (ranks[0].size() * trial.batch_size > 40) {
      ASSERT_NE(ranks, later);
    }
    ++seen[absl::StrCat(trial.config.partition(), " ", trial.config.sampling(),
                        " ", trial.config.tail())];
  }
  // Every combination that there is, often enough to mean something.
  EXPECT_EQ(seen.size(), 12u);
  for (const auto& [choice, times] : seen) EXPECT_GE(times, 20) << choice;
}

// For good: what a worker has in one epoch it has in all.
TEST(TrainingImagesTest, SharesOfFilesStayTheWorkersOwn) {
  for (const std::string partition : {"image_files", "data_files"}) {
    v1::ImageConfig config;
    config.set_partition(partition);
    config.set_batch_size(5);
    config.set_tail("drop_uneven");
    const ImageSource source =
        SourceOf({7, 30, 23}, partition == "image_files");
    std::set<uint32_t> all;
    for (uint32_t rank = 0; rank < 3; ++rank) {
      const auto training = OpenTrainingImages(config, source, rank, 3);
      ASSERT_TRUE(training.ok()) << training.status();
      const auto first = CountsOf({EpochOf(*training, 0)});
      EXPECT_EQ(first, CountsOf({EpochOf(*training, 1)}));
      EXPECT_EQ(first.size(), 20u);
      for (const auto& [image, count] : first) all.insert(image);
    }
    EXPECT_EQ(all.size(), 60u);
  }
}

TEST(TrainingImagesTest, OneWorkerTakesTheSameOrderWhateverIsDealtOut) {
  v1::ImageConfig config;
  config.set_batch_size(8);
  std::vector<Batches> orders;
  for (const std::string partition : {"images", "image_files", "data_files"}) {
    config.set_partition(partition);
    const auto training = OpenTrainingImages(
        config, SourceOf({50, 50}, partition == "image_files"), 0, 1);
    ASSERT_TRUE(training.ok()) << training.status();
    orders.push_back(EpochOf(*training, 3));
  }
  EXPECT_EQ(orders[0], orders[1]);
  EXPECT_EQ(orders[0], orders[2]);
}

TEST(TrainingImagesTest, WhatCannotWorkIsRefusedInOneLine) {
  const auto expect = [](const absl::Status& status, const std::string& part) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_NE(status.message().find(part), std::string::npos) << status;
    EXPECT_NE(status.message().find("legal"), std::string::npos) << status;
    EXPECT_EQ(status.message().find('\n'), std::string::npos) << status;
  };
  v1::ImageConfig config;
  EXPECT_TRUE(CheckDivision(config).ok());
  config.set_sampling("with_replacement");
  EXPECT_TRUE(CheckDivision(config).ok());
  config.set_partition("data_files");
  expect(CheckDivision(config), "--sampling is with_replacement");
  config.set_sampling("without_replacement");
  EXPECT_TRUE(CheckDivision(config).ok());
  config.set_synthetic(true);
  expect(CheckDivision(config), "--synthetic");
  config.clear_synthetic();
  config.set_epochs(5);
  config.set_concatenate_epochs(2);
  expect(CheckDivision(config), "--concatenate_epochs is 2 and --epochs 5");
  config.clear_concatenate_epochs();
  const ImageSource list = SourceOf({64}, /*is_file_list=*/true);
  const ImageSource files = SourceOf({64}, /*is_file_list=*/false);
  EXPECT_TRUE(OpenTrainingImages(config, files, 0, 2).ok());
  expect(OpenTrainingImages(config, list, 0, 2).status(), "data_files");
  config.set_partition("image_files");
  EXPECT_TRUE(OpenTrainingImages(config, list, 0, 2).ok());
  expect(OpenTrainingImages(config, files, 0, 2).status(), "image_files");
}

}  // namespace
}  // namespace images
