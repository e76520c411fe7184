#include "optim/staleness_rate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace oarlock::optim {
namespace {

using testing::HasSubstr;

v1::TableConfig AsyncTable(float power) {
  v1::TableConfig config;
  config.set_mode(v1::ASYNC);
  config.mutable_optimizer()->mutable_adagrad();
  config.mutable_dense()->set_staleness_power(power);
  return config;
}

TEST(StalenessRateTest, FallsWithAPowerOfTheUpdatesMissed) {
  const StalenessRate inverse = *StalenessRate::Create(AsyncTable(1));
  EXPECT_EQ(inverse.Factor(0), 1);
  EXPECT_FLOAT_EQ(inverse.Factor(1), 0.5f);
  EXPECT_FLOAT_EQ(inverse.Factor(19), 0.05f);
  const StalenessRate root = *StalenessRate::Create(AsyncTable(0.5f));
  EXPECT_FLOAT_EQ(root.Factor(3), 0.5f);
  EXPECT_GT(root.Factor(~uint64_t{0}), 0);
}

TEST(StalenessRateTest, IsTheWholeRateWithoutAPower) {
  v1::TableConfig without = AsyncTable(0);
  without.set_mode(v1::SYNC);
  EXPECT_EQ(StalenessRate::Create(without)->Factor(1000), 1);
  without.mutable_dense()->set_quorum(0.75f);
  EXPECT_TRUE(StalenessRate::Create(without).ok());
}

TEST(StalenessRateTest, SaysWhatIsLegal) {
  for (const float power :
       {-0.1f, 1.1f, std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_THAT(StalenessRate::Create(AsyncTable(power)).status().message(),
                HasSubstr("legal is 0 to 1"));
  }
  v1::TableConfig config = AsyncTable(0.5f);
  config.set_mode(v1::SYNC);
  EXPECT_THAT(StalenessRate::Create(config).status().message(),
              HasSubstr("mode SYNC"));
  config = AsyncTable(0.5f);
  config.mutable_dense()->set_quorum(0.75f);
  EXPECT_THAT(StalenessRate::Create(config).status().message(),
              HasSubstr("with a quorum of 0.75"));
  config = AsyncTable(0.5f);
  config.mutable_optimizer()->mutable_ftrl();
  EXPECT_THAT(StalenessRate::Create(config).status().message(),
              HasSubstr("with ftrl"));
}

}  // namespace
}  // namespace oarlock::optim
