#include "data/images/image_loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "data/images/synthetic_images.h"

namespace oarlock::data {
namespace {

constexpr uint64_t kSeed = 12;
constexpr uint64_t kExamples = 101;
const ImageShape kShape = {12, 10, 3};

std::unique_ptr<MemoryImages> Images() {
  auto images = NewSyntheticImages(
      {.shape = kShape, .num_examples = kExamples, .seed = kSeed});
  EXPECT_TRUE(images.ok()) << images.status();
  return *std::move(images);
}

ImageTransform Transform() {
  auto transform =
      ImageTransform::Create(kShape, {.padding = 3, .flip = true}, kSeed);
  EXPECT_TRUE(transform.ok()) << transform.status();
  return *transform;
}

EpochBatches Batches(uint32_t rank, uint32_t size, uint32_t batch_size,
                     uint64_t epoch = 0) {
  auto sampler = DistributedBatchSampler::Create({.num_examples = kExamples,
                                                  .batch_size = batch_size,
                                                  .rank = rank,
                                                  .size = size,
                                                  .shuffle = true,
                                                  .seed = kSeed});
  EXPECT_TRUE(sampler.ok()) << sampler.status();
  return sampler->Epoch(epoch);
}

// Images whose example `bad` cannot be read, and that count what is read.
class FailingImages : public ImageDataset {
 public:
  FailingImages(const ImageDataset* images, uint64_t bad)
      : images_(images), bad_(bad) {}
  uint64_t size() const override { return images_->size(); }
  ImageShape shape() const override { return images_->shape(); }
  uint32_t num_classes() const override { return images_->num_classes(); }
  uint32_t label(uint64_t example) const override {
    return images_->label(example);
  }
  absl::StatusOr<const uint8_t*> Pixels(uint64_t example,
                                        std::optional<uint64_t> area_seed,
                                        uint8_t* scratch) const override {
    ++num_read_;
    if (example == bad_) {
      return absl::DataLossError(absl::StrCat("example ", example, " is bad"));
    }
    return images_->Pixels(example, area_seed, scratch);
  }
  int num_read() const { return num_read_; }

 private:
  const ImageDataset* const images_;
  const uint64_t bad_;
  mutable std::atomic<int> num_read_ = 0;
};

TEST(ImageLoaderTest, OrderAndContentAreThoseOfReadingOneByOne) {
  const auto images = Images();
  const ImageTransform transform = Transform();
  for (const int num_workers : {0, 1, 2, 3, 7}) {
    for (const uint32_t batch_size : {1u, 8u, 200u}) {
      for (const size_t prefetch : {1, 3}) {
        SCOPED_TRACE(testing::Message() << num_workers << " workers, batch "
                                        << batch_size << ", " << prefetch);
        const EpochBatches batches = Batches(1, 2, batch_size);
        ImageLoader loader(
            images.get(), &transform, batches,
            {.num_workers = num_workers, .prefetch_batches = prefetch});
        for (uint64_t b = 0; b < batches.size(); ++b) {
          ImageBatch expected;
          ASSERT_TRUE(
              ReadBatch(*images, transform, batches.Batch(b), &expected).ok());
          const auto batch = loader.Next();
          ASSERT_TRUE(batch.ok()) << batch.status();
          ASSERT_NE(*batch, nullptr);
          EXPECT_EQ((*batch)->num_examples, expected.num_examples);
          EXPECT_EQ((*batch)->num_counted, expected.num_counted);
          EXPECT_EQ((*batch)->labels, expected.labels);
          EXPECT_EQ((*batch)->images, expected.images);
        }
        for (int again = 0; again < 2; ++again) {
          const auto end = loader.Next();
          ASSERT_TRUE(end.ok()) << end.status();
          EXPECT_EQ(*end, nullptr);
        }
      }
    }
  }
}

TEST(ImageLoaderTest, AnEpochMayBeginWithALaterBatch) {
  const auto images = Images();
  const ImageTransform transform = Transform();
  const EpochBatches batches = Batches(0, 1, 8);
  for (const int num_workers : {0, 1, 2, 3, 7}) {
    for (uint64_t first = 0; first <= batches.size(); ++first) {
      SCOPED_TRACE(testing::Message()
                   << num_workers << " workers from batch " << first);
      ImageLoader loader(images.get(), &transform, batches,
                         {.num_workers = num_workers, .first_batch = first});
      for (uint64_t b = first; b < batches.size(); ++b) {
        ImageBatch expected;
        ASSERT_TRUE(
            ReadBatch(*images, transform, batches.Batch(b), &expected).ok());
        const auto batch = loader.Next();
        ASSERT_TRUE(batch.ok()) << batch.status();
        ASSERT_NE(*batch, nullptr);
        EXPECT_EQ((*batch)->images, expected.images);
        EXPECT_EQ((*batch)->labels, expected.labels);
      }
      const auto end = loader.Next();
      ASSERT_TRUE(end.ok()) << end.status();
      EXPECT_EQ(*end, nullptr);
    }
  }
}

TEST(ImageLoaderTest, WithoutAugmentationBytesAreThoseOfTheDataset) {
  const auto images = Images();
  const ImageTransform transform = *ImageTransform::Create(kShape, {}, kSeed);
  const EpochBatches batches = Batches(0, 1, 8);
  ImageLoader loader(images.get(), &transform, batches, {});
  for (uint64_t b = 0; b < batches.size(); ++b) {
    const ImageBatch* const batch = *loader.Next();
    const SampledBatch sampled = batches.Batch(b);
    ASSERT_EQ(batch->images.size(), sampled.samples.size() * kShape.size());
    for (size_t i = 0; i < sampled.samples.size(); ++i) {
      const uint64_t example = sampled.samples[i].example;
      const uint8_t* const pixels =
          *images->Pixels(example, std::nullopt, nullptr);
      EXPECT_TRUE(std::equal(pixels, pixels + kShape.size(),
                             batch->images.begin() + i * kShape.size()))
          << "seed " << kSeed << " example " << example;
      EXPECT_EQ(batch->labels[i], static_cast<float>(images->label(example)));
    }
  }
}

// So a job repeats itself on any number of ranks.
TEST(ImageLoaderTest, AnExampleLooksTheSameOnAnyNumberOfRanks) {
  const auto images = Images();
  const ImageTransform transform = Transform();
  // By example.
  const auto read = [&](uint32_t size) {
    std::vector<std::vector<uint8_t>> seen(kExamples);
    for (uint32_t rank = 0; rank < size; ++rank) {
      const EpochBatches batches = Batches(rank, size, 5, /*epoch=*/2);
      ImageLoader loader(images.get(), &transform, batches, {});
      for (uint64_t b = 0; b < batches.size(); ++b) {
        const ImageBatch* const batch = *loader.Next();
        const SampledBatch sampled = batches.Batch(b);
        for (size_t i = 0; i < batch->num_counted; ++i) {
          const auto begin = batch->images.begin() + i * kShape.size();
          seen[sampled.samples[i].example].assign(begin, begin + kShape.size());
        }
      }
    }
    return seen;
  };
  const auto alone = read(1);
  for (const auto& image : alone) EXPECT_EQ(image.size(), kShape.size());
  EXPECT_EQ(read(3), alone);
  EXPECT_EQ(read(4), alone);
}

TEST(ImageLoaderTest, AnErrorComesInItsPlaceAndStays) {
  const auto good = Images();
  const ImageTransform transform = Transform();
  const EpochBatches batches = Batches(0, 1, 4);
  const uint64_t bad_batch = 9;
  const FailingImages images(good.get(),
                             batches.Batch(bad_batch).samples[2].example);
  for (const int num_workers : {0, 1, 2, 4}) {
    ImageLoader loader(&images, &transform, batches,
                       {.num_workers = num_workers});
    for (uint64_t b = 0; b < bad_batch; ++b) {
      const auto batch = loader.Next();
      ASSERT_TRUE(batch.ok()) << batch.status();
      ASSERT_NE(*batch, nullptr);
    }
    for (int again = 0; again < 3; ++again) {
      EXPECT_EQ(loader.Next().status().code(), absl::StatusCode::kDataLoss);
    }
  }
}

TEST(ImageLoaderTest, ALoaderThatIsLeftEarlyEndsItsThreads) {
  const auto images = Images();
  const ImageTransform transform = Transform();
  for (int taken = 0; taken < 4; ++taken) {
    ImageLoader loader(images.get(), &transform, Batches(0, 1, 1),
                       {.num_workers = 3, .prefetch_batches = 2});
    for (int i = 0; i < taken; ++i) ASSERT_TRUE(loader.Next().ok());
  }
}

TEST(ImageLoaderTest, NobodyReadsFurtherAheadThanAgreed) {
  const auto good = Images();
  const FailingImages images(good.get(), kExamples);
  const ImageTransform transform = Transform();
  {
    ImageLoader loader(&images, &transform, Batches(0, 1, 1),
                       {.num_workers = 2, .prefetch_batches = 3});
    ASSERT_TRUE(loader.Next().ok());
  }
  // 2 workers x (3 ahead + 1), and what they were about to read when the
  // loader was left.
  EXPECT_LE(images.num_read(), 2 * 4 + 2);
}

}  // namespace
}  // namespace oarlock::data
