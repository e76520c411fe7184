// What norms become in an exported model, and what has no place there.

#include "fleet/serving/exported_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/types.h"
#include "fleet/serving/model_json.h"
#include "nn/backends/backends.h"
#include "nn/layer.h"
#include "nn/layers.h"
#include "nn/network.h"
#include "nn/norm_layers.h"
#include "nn/workspace.h"

namespace oarlock {
namespace {

using ::testing::HasSubstr;

constexpr size_t kDense = 3;
constexpr size_t kHidden = 4;

std::unique_ptr<nn::Network> NormedNetwork() {
  nn::NetworkBuilder builder;
  nn::NodeId x = builder.Add("dense", nn::NewDenseInput({kDense}), {});
  x = builder.Add("dense_norm", nn::NewDataNorm(), {x});
  x = builder.Add("fc", nn::NewLinear({.num_outputs = kHidden}), {x});
  nn::BatchNormOptions norm;
  norm.activation = nn::Activation::kRelu;
  x = builder.Add("fc_norm", nn::NewBatchNorm(norm), {x});
  x = builder.Add("out", nn::NewLinear({.num_outputs = 1}), {x});
  auto network =
      builder.Build(builder.Add("loss", nn::NewSigmoidCrossEntropy(), {x}));
  EXPECT_TRUE(network.ok()) << network.status();
  return *std::move(network);
}

// dense.bin, by the names of model.json.
class DenseBin {
 public:
  DenseBin(const ExportedParameters& exported, std::vector<float> values)
      : values_(std::move(values)) {
    values_.insert(values_.end(), exported.moments.begin(),
                   exported.moments.end());
    for (const nn::ParameterSpec& spec : exported.specs) {
      offsets_[spec.name] = spec.offset;
    }
  }
  float At(const std::string& name, size_t i) const {
    return values_.at(offsets_.at(name) + i);
  }

 private:
  std::vector<float> values_;
  std::map<std::string, size_t> offsets_;
};

TEST(ExportedParametersTest, NormsAreWhatTheyAreAtPrediction) {
  const std::unique_ptr<nn::Network> network = NormedNetwork();
  std::vector<float> parameters(network->num_parameters());
  for (size_t i = 0; i < parameters.size(); ++i) {
    parameters[i] = 0.9f - 0.13f * static_cast<float>(i % 11);
  }
  // Counts of norms, and sums of any columns.
  std::vector<float> statistics(network->num_statistics());
  for (size_t i = 0; i < statistics.size(); ++i) {
    statistics[i] = 0.5f + 0.07f * static_cast<float>(i);
  }
  const std::vector<float> x = {1, -2, 0.5f, 0, 3, -1};
  const std::vector<float> labels = {0, 1};
  nn::StepInput input;
  input.num_examples = 2;
  input.labels = labels.data();
  input.dense = x.data();
  input.parameters = parameters.data();
  input.statistics = statistics.data();
  auto math = nn::NewMathBackend("reference");
  ASSERT_TRUE(math.ok()) << math.status();
  nn::Workspace workspace(*network, *std::move(math), 2);
  nn::StepOutput output;
  workspace.Forward(input, &output);

  const ExportedParameters exported =
      ExportedParametersOf(*network, statistics);
  const DenseBin bin(exported, parameters);
  for (size_t e = 0; e < 2; ++e) {
    double logit = bin.At("out/bias", 0);
    for (size_t h = 0; h < kHidden; ++h) {
      double y = bin.At("fc/bias", h);
      for (size_t d = 0; d < kDense; ++d) {
        y += (x[e * kDense + d] - bin.At("dense_norm/mean", d)) /
             bin.At("dense_norm/deviation", d) *
             bin.At("fc/weight", d * kHidden + h);
      }
      y = (y - bin.At("fc_norm/mean", h)) / bin.At("fc_norm/deviation", h) *
              bin.At("fc_norm/scale", h) +
          bin.At("fc_norm/shift", h);
      logit += std::max(y, 0.0) * bin.At("out/weight", h);
    }
    EXPECT_NEAR(output.predictions[e], 1 / (1 + std::exp(-logit)), 1e-6);
  }
  // A node reads its own parameters, then what has become of its statistics.
  const std::vector<size_t>& norm = exported.of_node[3];
  ASSERT_EQ(norm.size(), 4u);
  EXPECT_EQ(exported.specs[norm[0]].name, "fc_norm/scale");
  EXPECT_EQ(exported.specs[norm[1]].name, "fc_norm/shift");
  EXPECT_EQ(exported.specs[norm[2]].name, "fc_norm/mean");
  EXPECT_EQ(exported.specs[norm[3]].name, "fc_norm/deviation");
  EXPECT_EQ(exported.of_node[1].size(), 2u);
}

TEST(ExportedParametersTest, ANormThatHasSeenNothingHasMean0AndVariance1) {
  const std::unique_ptr<nn::Network> network = NormedNetwork();
  const ExportedParameters exported = ExportedParametersOf(
      *network, std::vector<float>(network->num_statistics()));
  const DenseBin bin(exported, std::vector<float>(network->num_parameters()));
  for (size_t h = 0; h < kHidden; ++h) {
    EXPECT_EQ(bin.At("fc_norm/mean", h), 0);
    EXPECT_NEAR(bin.At("fc_norm/deviation", h), 1, 1e-5);
  }
}

TEST(ExportedParametersTest, RowsHoldStatisticsOneAfterAnother) {
  const std::vector<float> row = {1, 2, 3, 4};
  std::vector<float> statistics = {10, 20, 30, 40, 50, 60};
  // 20 is of another table.
  const models::StatisticsTable table = {"statistics", .99f, {0, 2, 3, 4, 5}};
  ASSERT_TRUE(
      AddStatisticsRow(Key(0), row, table, absl::MakeSpan(statistics)).ok());
  // The last row is longer than what is left.
  ASSERT_TRUE(
      AddStatisticsRow(Key(1), row, table, absl::MakeSpan(statistics)).ok());
  EXPECT_EQ(statistics, (std::vector<float>{11, 20, 32, 43, 54, 61}));
}

TEST(ExportedParametersTest, ARowWithoutStatisticsIsDataLoss) {
  const std::vector<float> row(4, 5.0f);
  // Rows that are full, and a last one that is not.
  for (const size_t num_statistics : {8, 6}) {
    std::vector<float> statistics(num_statistics, 1.0f);
    models::StatisticsTable table;
    for (size_t i = 0; i < num_statistics; ++i) table.statistics.push_back(i);
    for (const uint64_t key : {uint64_t{2}, ~uint64_t{0}}) {
      const absl::Status status =
          AddStatisticsRow(Key(key), row, table, absl::MakeSpan(statistics));
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
      EXPECT_EQ(
          status.message(),
          absl::StrCat("the table of what norms learn has a row of key ", key,
                       "; legal for this model are keys below 2; "
                       "use another checkpoint"));
    }
    EXPECT_EQ(statistics, std::vector<float>(num_statistics, 1.0f));
  }
}

// A layer of which no reader has heard.
class Unheard final : public nn::Layer {
 public:
  const char* kind() const override { return "unheard"; }
  absl::StatusOr<nn::Shape> OutputShape(
      absl::Span<const nn::Shape> inputs) const override {
    return inputs[0];
  }
  void Forward(const nn::ForwardArgs& args) const override {}
  void Backward(const nn::BackwardArgs& args) const override {}
};

class OneNetwork final : public models::Model {
 public:
  explicit OneNetwork(std::unique_ptr<nn::Network> network)
      : network_(std::move(network)) {}
  const models::ModelSpec& spec() const override { return spec_; }
  const nn::Network* network() const override { return network_.get(); }
  std::unique_ptr<models::ModelExecutor> NewExecutor(size_t) const override {
    return nullptr;
  }

 private:
  const models::ModelSpec spec_;
  const std::unique_ptr<nn::Network> network_;
};

TEST(ModelJsonTest, ALayerWithoutAPlaceInTheFormatIsNamed) {
  nn::NetworkBuilder builder;
  const nn::NodeId dense = builder.Add("dense", nn::NewDenseInput({1}), {});
  const nn::NodeId odd =
      builder.Add("odd", std::make_unique<Unheard>(), {dense});
  auto network =
      builder.Build(builder.Add("loss", nn::NewSigmoidCrossEntropy(), {odd}));
  ASSERT_TRUE(network.ok()) << network.status();
  const OneNetwork model(*std::move(network));
  ExportedModel exported;
  exported.model = &model;
  exported.parameters = ExportedParametersOf(*model.network(), {});
  const auto json = ModelJson(exported);
  EXPECT_EQ(json.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(json.status().message()),
              HasSubstr("'odd' is a unheard, a layer that"));
}

}  // namespace
}  // namespace oarlock
