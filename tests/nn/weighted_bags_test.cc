#include "nn/weighted_bags.h"

#include <iostream>
#include <memory>
#include <vector>

#include "base/random.h"
#include "gtest/gtest.h"
#include "nn/reference/reference_backend.h"

namespace oarlock::nn {
namespace {

constexpr uint64_t kSeed = 3;
constexpr size_t kExamples = 7;
constexpr size_t kSlots = 2;
constexpr size_t kRows = 9;
constexpr size_t kRowDim = 5;

// Keys with small whole weights, and the same with each key as often as its
// weight says.
struct Bags {
  std::vector<uint32_t> offsets = {0};
  std::vector<uint32_t> row_of_key;
  std::vector<float> weights;
  std::vector<uint32_t> repeated_offsets = {0};
  std::vector<uint32_t> repeated_row_of_key;
};

Bags RandomBags(RandomSequence& random) {
  Bags bags;
  for (size_t bag = 0; bag < kExamples * kSlots; ++bag) {
    for (uint64_t n = random.Below(4); n > 0; --n) {
      const auto row = static_cast<uint32_t>(random.Below(kRows));
      const uint64_t weight = 1 + random.Below(3);
      bags.row_of_key.push_back(row);
      bags.weights.push_back(static_cast<float>(weight));
      bags.repeated_row_of_key.insert(bags.repeated_row_of_key.end(), weight,
                                      row);
    }
    bags.offsets.push_back(static_cast<uint32_t>(bags.row_of_key.size()));
    bags.repeated_offsets.push_back(
        static_cast<uint32_t>(bags.repeated_row_of_key.size()));
  }
  return bags;
}

TEST(WeightedBagsTest, AWeightIsAsManyKeys) {
  std::cout << "seed " << kSeed << "\n";
  RandomSequence random(kSeed);
  const std::unique_ptr<MathBackend> math = NewReferenceBackend();
  for (int round = 0; round < 50; ++round) {
    const Bags bags = RandomBags(random);
    RowBags weighted;
    weighted.num_examples = kExamples;
    weighted.num_slots = kSlots;
    weighted.row_dim = kRowDim;
    weighted.column_begin = 1;
    weighted.width = 3;
    weighted.out_stride = kSlots * 3 + random.Below(3);
    RowBags repeated = weighted;
    weighted.offsets = bags.offsets.data();
    weighted.row_of_key = bags.row_of_key.data();
    repeated.offsets = bags.repeated_offsets.data();
    repeated.row_of_key = bags.repeated_row_of_key.data();
    std::vector<float> rows(kRows * kRowDim);
    for (float& x : rows) x = static_cast<float>(random.Below(100)) / 64;
    const size_t size = kExamples * weighted.out_stride;
    std::vector<float> out(size, -1), expected(size, -1);
    SumWeightedBags(weighted, bags.weights.data(), rows.data(), out.data());
    math->SumBags(repeated, rows.data(), expected.data());
    ASSERT_EQ(out, expected);
    std::vector<float> gradients(rows.size(), 1),
        expected_gradients = gradients;
    SumWeightedBagsBackward(weighted, bags.weights.data(), out.data(),
                            gradients.data());
    math->SumBagsBackward(repeated, out.data(), expected_gradients.data());
    ASSERT_EQ(gradients, expected_gradients);
  }
}

}  // namespace
}  // namespace oarlock::nn
