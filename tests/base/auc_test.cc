#include "base/auc.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "base/random.h"

namespace oarlock {
namespace {

struct Example {
  float probability;
  bool positive;
};

// Counts pairs, with ties in the histogram's resolution.
double PairwiseAuc(const std::vector<Example>& examples) {
  double in_order = 0, pairs = 0;
  for (const Example& p : examples) {
    if (!p.positive) continue;
    for (const Example& n : examples) {
      if (n.positive) continue;
      const uint32_t bucket_p = AucHistogram::BucketOf(p.probability);
      const uint32_t bucket_n = AucHistogram::BucketOf(n.probability);
      pairs += 1;
      in_order += bucket_p > bucket_n ? 1 : bucket_p == bucket_n ? 0.5 : 0;
    }
  }
  return in_order / pairs;
}

std::vector<Example> RandomExamples(uint64_t seed, int count) {
  RandomSequence random(seed);
  std::vector<Example> examples;
  for (int i = 0; i < count; ++i) {
    const double p = random.Uniform() * random.Uniform();
    examples.push_back({static_cast<float>(p), random.Uniform() < p});
  }
  return examples;
}

TEST(AucHistogramTest, AgreesWithCountingAllPairs) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<Example> examples = RandomExamples(seed, 2000);
    AucHistogram histogram;
    for (const Example& e : examples) histogram.Add(e.probability, e.positive);
    EXPECT_NEAR(histogram.Auc(), PairwiseAuc(examples), 1e-12);
    EXPECT_EQ(histogram.num_positives() + histogram.num_negatives(), 2000u);
  }
}

TEST(AucHistogramTest, PartsAddUpToTheWhole) {
  const std::vector<Example> examples = RandomExamples(7, 3000);
  AucHistogram whole, first, second;
  for (size_t i = 0; i < examples.size(); ++i) {
    whole.Add(examples[i].probability, examples[i].positive);
    (i % 3 == 0 ? first : second)
        .Add(examples[i].probability, examples[i].positive);
  }
  first.Merge(second);
  EXPECT_EQ(first.Auc(), whole.Auc());
}

TEST(AucHistogramTest, NonEmptyBucketsCarryEverything) {
  AucHistogram original;
  for (const Example& e : RandomExamples(8, 500)) {
    original.Add(e.probability, e.positive);
  }
  AucHistogram copy;
  int64_t last = -1;
  original.VisitNonEmpty([&](uint32_t bucket, uint64_t pos, uint64_t neg) {
    EXPECT_GT(int64_t{bucket}, last);
    last = bucket;
    EXPECT_TRUE(copy.AddBucket(bucket, pos, neg));
  });
  EXPECT_EQ(copy.Auc(), original.Auc());
  EXPECT_EQ(copy.num_positives(), original.num_positives());
  EXPECT_FALSE(copy.AddBucket(AucHistogram::kNumBuckets, 1, 0));
  EXPECT_EQ(copy.num_positives(), original.num_positives());
  copy.Clear();
  EXPECT_EQ(copy.num_positives() + copy.num_negatives(), 0u);
}

TEST(AucHistogramTest, OneClassAloneHasNoAuc) {
  AucHistogram histogram;
  EXPECT_TRUE(std::isnan(histogram.Auc()));
  histogram.Add(0.5f, true);
  EXPECT_TRUE(std::isnan(histogram.Auc()));
  histogram.Add(0.2f, false);
  EXPECT_EQ(histogram.Auc(), 1.0);
}

TEST(AucHistogramTest, OddPredictionsHaveABucket) {
  EXPECT_EQ(AucHistogram::BucketOf(-1.0f), 0u);
  EXPECT_EQ(AucHistogram::BucketOf(std::numeric_limits<float>::quiet_NaN()),
            0u);
  EXPECT_EQ(AucHistogram::BucketOf(1.0f), AucHistogram::kNumBuckets - 1);
  EXPECT_EQ(AucHistogram::BucketOf(std::nextafter(1.0f, 0.0f)),
            AucHistogram::kNumBuckets - 1);
  EXPECT_EQ(AucHistogram::BucketOf(1e30f), AucHistogram::kNumBuckets - 1);
}

}  // namespace
}  // namespace oarlock
