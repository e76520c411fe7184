#include "base/auc.h"

#include <gtest/gtest.h>

#include <algorithm>
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

// By the sums of ranks of all scores.
double ExactAuc(std::vector<Example> examples) {
  std::sort(examples.begin(), examples.end(),
            [](const Example& a, const Example& b) {
              return a.probability < b.probability;
            });
  double in_order = 0, below = 0, positives = 0;
  for (size_t i = 0; i < examples.size();) {
    double tied[2] = {};
    const float score = examples[i].probability;
    for (; i < examples.size() && examples[i].probability == score; ++i) {
      ++tied[examples[i].positive];
    }
    in_order += tied[1] * (below + tied[0] / 2);
    below += tied[0];
    positives += tied[1];
  }
  return in_order / (positives * below);
}

TEST(AucHistogramTest, RareClicksHaveTheirExactAuc) {
  for (const double rate : {1e-5, 1e-4, 1e-3, 0.03, 0.5, 0.97, 1 - 1e-4}) {
    // Enough for a hundred of the rarer kind.
    const int scores = rate < 5e-5 ? 10'000'000 : 1'000'000;
    for (const double spread : {0.3, 1.0}) {
      RandomSequence random(17);
      AucHistogram histogram;
      std::vector<Example> examples;
      for (int i = 0; i < scores; ++i) {
        double z = -2;
        for (int k = 0; k < 4; ++k) z += random.Uniform();
        z *= std::sqrt(3.0);
        const double log_odds = std::log(rate / (1 - rate)) + spread * z;
        const double p = 1 / (1 + std::exp(-log_odds));
        examples.push_back({static_cast<float>(p), random.Uniform() < p});
        histogram.Add(examples.back().probability, examples.back().positive);
      }
      EXPECT_NEAR(histogram.Auc(), ExactAuc(examples), 1e-4)
          << "rate " << rate << " spread " << spread;
    }
  }
}

TEST(AucHistogramTest, BucketsAreInTheOrderOfProbabilities) {
  uint32_t last = 0;
  for (float p = 1e-12f; p < 1;) {
    const uint32_t bucket = AucHistogram::BucketOf(p);
    ASSERT_GE(bucket, last) << p;
    last = bucket;
    const float step = (p < 0.5f ? p : 1 - p) / 4000;
    p = std::max(p + step, std::nextafter(p, 1.0f));
  }
  EXPECT_EQ(last, AucHistogram::kNumBuckets - 2);
}

TEST(AucHistogramTest, AMissingAucIsExplained) {
  EXPECT_EQ(AucText(0.73125, 4, 0.5, 10), "0.7312");
  EXPECT_EQ(AucText(std::nan(""), 4, 1, 4000),
            "cannot be told: all 4000 labels are 1");
  EXPECT_EQ(AucText(std::nan(""), 4, 0, 7),
            "cannot be told: all 7 labels are 0");
  EXPECT_EQ(AucText(std::nan(""), 4, 0, 0), "-");
}

TEST(AucHistogramTest, OddPredictionsHaveABucket) {
  EXPECT_EQ(AucHistogram::BucketOf(-1.0f), 0u);
  EXPECT_EQ(AucHistogram::BucketOf(std::numeric_limits<float>::quiet_NaN()),
            0u);
  EXPECT_EQ(AucHistogram::BucketOf(1.0f), AucHistogram::kNumBuckets - 1);
  EXPECT_EQ(AucHistogram::BucketOf(std::nextafter(1.0f, 0.0f)),
            AucHistogram::kNumBuckets - 2);
  EXPECT_EQ(AucHistogram::BucketOf(std::numeric_limits<float>::denorm_min()),
            1u);
  EXPECT_EQ(AucHistogram::BucketOf(1e30f), AucHistogram::kNumBuckets - 1);
}

}  // namespace
}  // namespace oarlock
