#include "nn/network.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "nn/layers.h"

namespace oarlock::nn {
namespace {

NodeId Dense(NetworkBuilder& b, const std::string& name, size_t size) {
  return b.Add(name, NewDenseInput({size}), {});
}

NodeId Fc(NetworkBuilder& b, const std::string& name, NodeId x, size_t out) {
  LinearOptions options;
  options.num_outputs = out;
  return b.Add(name, NewLinear(options), {x});
}

NodeId Softmax(NetworkBuilder& b, const std::string& name, NodeId x) {
  return b.Add(name, NewSoftmaxCrossEntropy(), {x});
}

std::string Refusal(NetworkBuilder& b, NodeId prediction) {
  const auto network = b.Build(prediction);
  EXPECT_EQ(network.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(network.status().message());
}

TEST(NetworkTest, ParametersLieOneAfterTheOtherInTheOrderOfTheNodes) {
  NetworkBuilder b;
  const NodeId fc1 = Fc(b, "fc1", Dense(b, "x", 3), 4);
  const NodeId loss = Softmax(b, "loss", Fc(b, "fc2", fc1, 2));
  const auto network = b.Build(loss);
  ASSERT_TRUE(network.ok()) << network.status();
  const auto& parameters = (*network)->parameters();
  ASSERT_EQ(parameters.size(), 4u);
  const char* names[] = {"fc1/weight", "fc1/bias", "fc2/weight", "fc2/bias"};
  const size_t offsets[] = {0, 12, 16, 24};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(parameters[i].name, names[i]);
    EXPECT_EQ(parameters[i].offset, offsets[i]);
  }
  EXPECT_EQ(parameters[0].shape, (std::vector<size_t>{3, 4}));
  EXPECT_EQ((*network)->num_parameters(), 26u);
  EXPECT_EQ(parameters[0].init.kind, ParameterInit::Kind::kNormal);
  EXPECT_FLOAT_EQ(parameters[0].init.value, 1 / std::sqrt(3.0f));
  EXPECT_EQ(parameters[1].init.kind, ParameterInit::Kind::kConstant);
  EXPECT_EQ(parameters[1].init.value, 0);
}

TEST(NetworkTest, EmbeddingReadByAConcatenationAloneLiesInIt) {
  NetworkBuilder b;
  const EmbeddingOptions options = {.num_slots = 2, .row_dim = 3, .width = 3};
  const NodeId first = b.Add("first", NewEmbedding(options), {});
  const NodeId shared = b.Add("shared", NewEmbedding(options), {});
  const NodeId second = b.Add("second", NewEmbedding(options), {});
  const NodeId fm = b.Add("fm", NewFmSecondOrder(), {shared});
  const NodeId all = b.Add("all", NewConcat(), {first, fm, shared, second});
  const auto network = b.Build(Softmax(b, "loss", Fc(b, "fc", all, 2)));
  ASSERT_TRUE(network.ok()) << network.status();
  const auto node = [&](NodeId id) -> const Network::Node& {
    return (*network)->nodes()[static_cast<size_t>(id)];
  };
  EXPECT_EQ(node(first).place, static_cast<size_t>(all));
  EXPECT_EQ(node(first).place_begin, 0u);
  EXPECT_EQ(node(second).place, static_cast<size_t>(all));
  EXPECT_EQ(node(second).place_begin, 6u + 1 + 6);
  // Its gradient has two parts, and its value a reader of another stride.
  EXPECT_EQ(node(shared).place, static_cast<size_t>(shared));
  EXPECT_EQ(node(fm).place, static_cast<size_t>(fm));
}

TEST(NetworkTest, GradientsThatNobodyNeedsAreNotComputed) {
  NetworkBuilder b;
  const NodeId rows = b.Add(
      "rows", NewEmbedding({.num_slots = 26, .row_dim = 10, .width = 10}), {});
  const NodeId dense = Dense(b, "dense", 13);
  const NodeId all = b.Add("all", NewConcat(), {rows, dense});
  const NodeId loss = Softmax(b, "loss", Fc(b, "fc", all, 2));
  const auto network = b.Build(loss);
  ASSERT_TRUE(network.ok()) << network.status();
  const auto width = [&](NodeId id) {
    return (*network)->nodes()[static_cast<size_t>(id)].gradient_width;
  };
  EXPECT_EQ(width(rows), 260u);
  EXPECT_EQ(width(dense), 0u);
  EXPECT_EQ(width(all), 260u);
}

TEST(NetworkTest, NameThatIsTakenIsRefused) {
  NetworkBuilder b;
  Dense(b, "x", 3);
  const NodeId loss = Softmax(b, "loss", Dense(b, "x", 3));
  EXPECT_EQ(Refusal(b, loss),
            "node \"x\": a node of this name exists; names are unique: choose "
            "another");
}

TEST(NetworkTest, InputThatDoesNotExistIsRefused) {
  NetworkBuilder b;
  const NodeId x = Dense(b, "x", 3);
  b.Add("sum", NewAdd(), {x, NodeId{5}});
  EXPECT_NE(Refusal(b, x).find("input is node 5, legal are nodes below 1"),
            std::string::npos);
}

TEST(NetworkTest, FirstMistakeIsTheOneReported) {
  NetworkBuilder b;
  const NodeId fm = b.Add("fm", NewFmSecondOrder(), {Dense(b, "x", 3)});
  b.Add("sum", NewAdd(), {fm, NodeId{77}});
  EXPECT_EQ(Refusal(b, Softmax(b, "loss", fm)).find("node \"fm\""), 0u);
}

TEST(NetworkTest, NodeThatLeadsToNoLossIsRefused) {
  NetworkBuilder b;
  const NodeId x = Dense(b, "x", 3);
  Fc(b, "idle", x, 2);
  const NodeId loss = Softmax(b, "loss", x);
  EXPECT_EQ(Refusal(b, loss).find("node \"idle\" feeds no other"), 0u);
}

TEST(NetworkTest, LossThatFeedsAnotherNodeIsRefused) {
  NetworkBuilder b;
  const NodeId loss = Softmax(b, "loss", Dense(b, "x", 3));
  Softmax(b, "again", loss);
  EXPECT_NE(Refusal(b, loss).find("\"loss\" is a loss; a loss feeds nothing"),
            std::string::npos);
}

TEST(NetworkTest, PredictionThatIsNoLossIsRefused) {
  NetworkBuilder b;
  const NodeId x = Dense(b, "x", 3);
  Softmax(b, "loss", x);
  EXPECT_NE(Refusal(b, x).find("is no loss"), std::string::npos);
  NetworkBuilder empty;
  EXPECT_NE(Refusal(empty, NodeId{0}).find("is no loss"), std::string::npos);
}

TEST(NetworkTest, NodesThatReadInputsOfDifferentSizesAreRefused) {
  NetworkBuilder b;
  Dense(b, "x", 3);
  const NodeId y = Dense(b, "y", 4);
  EXPECT_NE(Refusal(b, y).find("reads 4 dense features, another node reads 3"),
            std::string::npos);
  NetworkBuilder c;
  const auto rows = [&](const char* name, size_t dim) {
    return c.Add(
        name, NewEmbedding({.num_slots = 2, .row_dim = dim, .width = 2}), {});
  };
  rows("x", 2);
  EXPECT_NE(Refusal(c, rows("y", 3)).find("another node rows of 2"),
            std::string::npos);
}

}  // namespace
}  // namespace oarlock::nn
