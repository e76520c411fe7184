// Properties of the sampler, and a model of it that writes every order down.

#include "data/order/distributed_batch_sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"

namespace oarlock::data {
namespace {

constexpr uint64_t kSeed = 4711;

DistributedBatchSampler Make(const SamplerOptions& options) {
  auto sampler = DistributedBatchSampler::Create(options);
  EXPECT_TRUE(sampler.ok()) << sampler.status();
  return *sampler;
}

std::vector<SampledBatch> BatchesOf(const SamplerOptions& options,
                                    uint64_t epoch) {
  const DistributedBatchSampler sampler = Make(options);
  const EpochBatches batches = sampler.Epoch(epoch);
  EXPECT_EQ(batches.size(), sampler.num_batches());
  std::vector<SampledBatch> all;
  for (uint64_t b = 0; b < batches.size(); ++b) all.push_back(batches.Batch(b));
  return all;
}

// The batches of all ranks.
std::vector<std::vector<SampledBatch>> OfAllRanks(SamplerOptions options,
                                                  uint64_t epoch) {
  std::vector<std::vector<SampledBatch>> ranks;
  for (options.rank = 0; options.rank < options.size; ++options.rank) {
    ranks.push_back(BatchesOf(options, epoch));
  }
  return ranks;
}

struct Shape {
  uint64_t num_examples;
  uint32_t size;
  uint32_t batch_size;
};

std::vector<Shape> Shapes() {
  std::vector<Shape> shapes;
  for (const uint64_t n : {1, 2, 5, 12, 13, 64, 97}) {
    for (const uint32_t size : {1, 2, 3, 4, 7}) {
      for (const uint32_t batch_size : {1, 2, 5, 16, 100}) {
        shapes.push_back({n, size, batch_size});
      }
    }
  }
  return shapes;
}

// Calls visit(options, epoch) for all shapes, rules, seeds.
template <typename Visit>
void ForAll(Visit visit) {
  RandomSequence random(kSeed);
  for (const Shape& shape : Shapes()) {
    for (const TailRule tail :
         {TailRule::kPad, TailRule::kDropUneven, TailRule::kDropShort}) {
      for (const SampleRule rule : {SampleRule::kShared, SampleRule::kOwn}) {
        for (const uint32_t num_repeats : {1, 3}) {
          for (const bool shuffle : {false, true}) {
            const SamplerOptions options = {.num_examples = shape.num_examples,
                                            .batch_size = shape.batch_size,
                                            .rank = 0,
                                            .size = shape.size,
                                            .shuffle = shuffle,
                                            .seed = random(),
                                            .tail = tail,
                                            .rule = rule,
                                            .num_repeats = num_repeats};
            const uint64_t epoch = random.Below(5);
            SCOPED_TRACE(testing::Message()
                         << "seed " << options.seed << ", epoch " << epoch
                         << ": " << options.num_examples << " x " << num_repeats
                         << " on " << options.size << " in "
                         << options.batch_size << ", tail "
                         << static_cast<int>(tail) << ", rule "
                         << static_cast<int>(rule) << ", shuffle " << shuffle);
            visit(options, epoch);
            if (testing::Test::HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

// Without shuffling: what the header says, written down.
std::vector<Sample> ModelOfRank(const SamplerOptions& options, uint64_t epoch,
                                std::vector<bool>* counted) {
  std::vector<Sample> order;
  const bool shared = options.rule == SampleRule::kShared;
  for (uint64_t repeat = 0; repeat < options.num_repeats; ++repeat) {
    for (uint64_t i = 0; i < options.num_examples; ++i) {
      const uint64_t repeats = options.num_repeats;
      order.push_back(
          {.example = i,
           .repeat = shared ? epoch * repeats + repeat
                            : (epoch * options.size + options.rank) * repeats +
                                  repeat});
    }
  }
  const uint64_t sharers = shared ? options.size : 1;
  const uint64_t num_places = order.size();
  std::vector<bool> real(num_places, true);
  if (options.tail == TailRule::kPad) {
    while (order.size() % sharers != 0) {
      order.push_back(order[order.size() - num_places]);
      real.push_back(false);
    }
  } else {
    const uint64_t unit = options.tail == TailRule::kDropUneven
                              ? sharers
                              : sharers * options.batch_size;
    while (order.size() % unit != 0) order.pop_back();
  }
  std::vector<Sample> own;
  counted->clear();
  const uint64_t turn = shared ? options.rank : 0;
  // Step by step, in which each sharer takes a batch; the last may be short.
  for (uint64_t begin = 0; begin < order.size();) {
    const uint64_t batch = std::min<uint64_t>(options.batch_size,
                                              (order.size() - begin) / sharers);
    for (uint64_t i = 0; i < batch; ++i) {
      own.push_back(order[begin + turn * batch + i]);
      counted->push_back(real[begin + turn * batch + i]);
    }
    begin += batch * sharers;
  }
  return own;
}

TEST(DistributedBatchSamplerTest, WithoutShufflingItIsTheModel) {
  ForAll([](SamplerOptions options, uint64_t epoch) {
    options.shuffle = false;
    for (options.rank = 0; options.rank < options.size; ++options.rank) {
      std::vector<bool> counted;
      const std::vector<Sample> model = ModelOfRank(options, epoch, &counted);
      std::vector<Sample> samples;
      std::vector<bool> seen_counted;
      for (const SampledBatch& batch : BatchesOf(options, epoch)) {
        for (size_t i = 0; i < batch.samples.size(); ++i) {
          samples.push_back(batch.samples[i]);
          seen_counted.push_back(i < batch.num_counted);
        }
      }
      ASSERT_EQ(samples, model) << "rank " << options.rank;
      ASSERT_EQ(seen_counted, counted) << "rank " << options.rank;
    }
  });
}

TEST(DistributedBatchSamplerTest, AllRanksHaveBatchesOfTheSameSizes) {
  ForAll([](const SamplerOptions& options, uint64_t epoch) {
    const auto ranks = OfAllRanks(options, epoch);
    for (const auto& batches : ranks) {
      ASSERT_EQ(batches.size(), ranks[0].size());
      for (size_t b = 0; b < batches.size(); ++b) {
        ASSERT_EQ(batches[b].samples.size(), ranks[0][b].samples.size());
        ASSERT_GE(batches[b].samples.size(), 1u);
        const bool is_last = b + 1 == batches.size();
        if (!is_last || options.tail == TailRule::kDropShort) {
          ASSERT_EQ(batches[b].samples.size(), options.batch_size);
        }
      }
    }
  });
}

// One rank that accumulates takes what more ranks take, tail included.
TEST(DistributedBatchSamplerTest, AccumulatedBatchesAreThoseOfMoreRanks) {
  ForAll([](SamplerOptions options, uint64_t epoch) {
    if (options.rule != SampleRule::kShared ||
        options.tail != TailRule::kDropShort) {
      return;
    }
    const auto ranks = OfAllRanks(options, epoch);
    SamplerOptions alone = options;
    alone.size = 1;
    alone.batches_per_update = options.size;
    const std::vector<SampledBatch> accumulated = BatchesOf(alone, epoch);
    ASSERT_EQ(accumulated.size(), ranks[0].size() * options.size);
    for (size_t i = 0; i < accumulated.size(); ++i) {
      ASSERT_EQ(accumulated[i].samples,
                ranks[i % options.size][i / options.size].samples);
    }
  });
}

TEST(DistributedBatchSamplerTest, EachExampleCountsOnceInEachRepeat) {
  ForAll([](const SamplerOptions& options, uint64_t epoch) {
    std::map<std::pair<uint64_t, uint64_t>, int> times;
    uint64_t num_padding = 0, num_counted = 0;
    for (const auto& batches : OfAllRanks(options, epoch)) {
      for (const SampledBatch& batch : batches) {
        for (size_t i = 0; i < batch.samples.size(); ++i) {
          const Sample& sample = batch.samples[i];
          ASSERT_LT(sample.example, options.num_examples);
          if (i < batch.num_counted) {
            ++times[{sample.repeat, sample.example}];
            ++num_counted;
          } else {
            ++num_padding;
          }
        }
      }
    }
    for (const auto& [sample, count] : times) ASSERT_EQ(count, 1);
    const uint64_t places = options.num_examples * options.num_repeats;
    const bool shared = options.rule == SampleRule::kShared;
    const uint64_t all = shared ? places : places * options.size;
    switch (options.tail) {
      case TailRule::kPad:
        ASSERT_EQ(num_counted, all);
        ASSERT_LT(num_padding, options.size);
        break;
      case TailRule::kDropUneven:
        ASSERT_EQ(num_padding, 0u);
        ASSERT_LE(num_counted, all);
        ASSERT_LT(all - num_counted, shared ? options.size : 1);
        break;
      case TailRule::kDropShort:
        ASSERT_EQ(num_padding, 0u);
        ASSERT_LE(num_counted, all);
        ASSERT_LT(all - num_counted,
                  uint64_t{options.batch_size} * options.size);
        break;
    }
  });
}

// What makes k ranks with batch n train as one rank with batch k * n.
TEST(DistributedBatchSamplerTest, RanksTogetherTakeTheBatchOfOneLargeRank) {
  ForAll([](const SamplerOptions& options, uint64_t epoch) {
    if (options.rule == SampleRule::kOwn) return;
    SamplerOptions one = options;
    one.size = 1;
    one.batch_size = options.size * options.batch_size;
    const auto ranks = OfAllRanks(options, epoch);
    const std::vector<SampledBatch> large = BatchesOf(one, epoch);
    // With kDropUneven one large rank drops nothing, so its last batch may be
    // larger, or there may be one more.
    ASSERT_LE(ranks[0].size(), large.size());
    const auto key = [](const Sample& s) {
      return std::pair(s.repeat, s.example);
    };
    const auto sorted = [&](std::vector<Sample> samples) {
      std::sort(
          samples.begin(), samples.end(),
          [&](const Sample& a, const Sample& b) { return key(a) < key(b); });
      return samples;
    };
    for (size_t b = 0; b < ranks[0].size(); ++b) {
      std::vector<Sample> together;
      for (const auto& batches : ranks) {
        const SampledBatch& batch = batches[b];
        together.insert(together.end(), batch.samples.begin(),
                        batch.samples.begin() + batch.num_counted);
      }
      const bool is_last = b + 1 == ranks[0].size();
      if (options.tail == TailRule::kDropUneven && is_last) {
        ASSERT_LT(large[b].samples.size() - together.size(), options.size);
      } else {
        ASSERT_EQ(sorted(together), sorted(large[b].samples)) << "batch " << b;
      }
    }
    if (options.tail != TailRule::kDropUneven) {
      ASSERT_EQ(ranks[0].size(), large.size());
    }
  });
}

TEST(DistributedBatchSamplerTest, SeedAndEpochDecideTheOrderAlone) {
  SamplerOptions options = {
      .num_examples = 1000, .batch_size = 1000, .shuffle = true, .seed = kSeed};
  const auto examples = [&](uint64_t epoch) {
    std::vector<uint64_t> list;
    const std::vector<SampledBatch> batches = BatchesOf(options, epoch);
    for (const Sample& sample : batches.at(0).samples) {
      list.push_back(sample.example);
    }
    return list;
  };
  const std::vector<uint64_t> first = examples(0);
  EXPECT_EQ(first, examples(0));
  EXPECT_FALSE(std::is_sorted(first.begin(), first.end()));
  EXPECT_NE(first, examples(1));
  options.seed = kSeed + 1;
  EXPECT_NE(first, examples(0));
}

TEST(DistributedBatchSamplerTest, EveryPlaceIsEquallyLikelyForEveryExample) {
  constexpr uint64_t kExamples = 5;
  constexpr int kEpochs = 20000;
  const DistributedBatchSampler sampler = Make({.num_examples = kExamples,
                                                .batch_size = kExamples,
                                                .shuffle = true,
                                                .seed = kSeed});
  std::vector<int> counts(kExamples * kExamples);
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const SampledBatch batch = sampler.Epoch(epoch).Batch(0);
    for (uint64_t i = 0; i < kExamples; ++i) {
      ++counts[i * kExamples + batch.samples[i].example];
    }
  }
  // Standard deviation 57.
  for (const int count : counts) {
    EXPECT_NEAR(count, kEpochs / kExamples, 300) << "seed " << kSeed;
  }
}

TEST(DistributedBatchSamplerTest, RanksWithOrdersOfTheirOwnHaveOtherOrders) {
  SamplerOptions options = {.num_examples = 100,
                            .batch_size = 100,
                            .size = 2,
                            .shuffle = true,
                            .seed = kSeed,
                            .rule = SampleRule::kOwn};
  const auto ranks = OfAllRanks(options, 0);
  ASSERT_EQ(ranks[0].size(), 1u);
  std::vector<uint64_t> orders[2];
  for (int r = 0; r < 2; ++r) {
    for (const Sample& sample : ranks[r][0].samples) {
      orders[r].push_back(sample.example);
    }
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_TRUE(std::is_permutation(orders[0].begin(), orders[0].end(),
                                  orders[1].begin()));
}

TEST(DistributedBatchSamplerTest, WhatIsOutOfRangeIsRefusedByName) {
  const SamplerOptions good = {.num_examples = 10, .batch_size = 2, .size = 2};
  const auto refused = [&](auto change, const std::string& name) {
    SamplerOptions options = good;
    change(&options);
    const absl::Status status =
        DistributedBatchSampler::Create(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_NE(status.message().find(name), std::string::npos) << status;
    EXPECT_EQ(status.message().find('\n'), std::string::npos) << status;
  };
  refused([](SamplerOptions* o) { o->num_examples = 0; }, "num_examples is 0");
  refused([](SamplerOptions* o) { o->num_examples = uint64_t{1} << 50; },
          "num_examples");
  refused([](SamplerOptions* o) { o->batch_size = 0; }, "batch_size is 0");
  refused([](SamplerOptions* o) { o->size = 0; }, "size is 0");
  refused([](SamplerOptions* o) { o->rank = 2; }, "rank is 2");
  refused([](SamplerOptions* o) { o->num_repeats = 0; }, "num_repeats is 0");
  EXPECT_TRUE(DistributedBatchSampler::Create(good).ok());
}

}  // namespace
}  // namespace oarlock::data
