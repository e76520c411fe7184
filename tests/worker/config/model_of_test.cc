#include "worker/config/model_of.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace oarlock::worker {
namespace {

constexpr data::DataSchema kCriteo = {.num_dense = 13, .num_slots = 26};

TEST(ModelOfTest, FlagsBecomeOptions) {
  v1::JobConfig config;
  config.set_hidden_sizes("32,8");
  config.set_slot_sizes("0:4,7:16");
  config.set_pooling("mean");
  config.set_cin_sizes("5");
  config.set_cross_layers(2);
  config.set_attention_layers(1);
  config.set_attention_heads(4);
  config.set_attention_size(6);
  config.set_dropout(.25);
  config.set_dense_norm("data");
  config.set_hidden_norm("batch");
  const auto options = ModelOptionsOf(config, kCriteo);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->num_dense, 13u);
  EXPECT_EQ(options->num_slots, 26u);
  EXPECT_EQ(options->hidden_sizes, (std::vector<size_t>{32, 8}));
  EXPECT_EQ(options->slot_sizes, (std::map<int, size_t>{{0, 4}, {7, 16}}));
  EXPECT_TRUE(options->mean_pooling);
  EXPECT_EQ(options->cin_sizes, std::vector<size_t>{5});
  EXPECT_EQ(options->cross_layers, 2u);
  EXPECT_EQ(options->attention_layers, 1u);
  EXPECT_EQ(options->attention_heads, 4u);
  EXPECT_EQ(options->attention_size, 6u);
  EXPECT_EQ(options->dropout, .25f);
  EXPECT_EQ(options->dense_norm, models::DenseNorm::kData);
  EXPECT_TRUE(options->hidden_batch_norm);
}

TEST(ModelOfTest, WhoComputesIsTheCallersToSay) {
  v1::JobConfig config;
  config.set_dense_math("tf32");
  EXPECT_TRUE(ModelOf(config, kCriteo).ok());
  EXPECT_TRUE(ModelOf(config, kCriteo, "reference").ok());
  EXPECT_EQ(ModelOf(config, kCriteo, "abacus").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ModelOfTest, NoModelNeedsDenseFeatures) {
  v1::JobConfig config;
  config.set_embedding_size(4);
  for (const char* name : {"lr", "fm", "ffm", "wide_deep", "deepfm", "dcn",
                           "dcn_v2", "xdeepfm", "dlrm", "ctr_dnn", "autoint"}) {
    config.set_model(name);
    const auto model = ModelOf(config, {.num_dense = 0, .num_slots = 3});
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ((*model)->spec().num_dense, 0u);
    EXPECT_EQ((*model)->spec().num_slots, 3u);
    // Of one slot there are no pairs.
    const bool is_ffm = std::string(name) == "ffm";
    EXPECT_EQ(ModelOf(config, {.num_dense = 2, .num_slots = 1}).ok(), !is_ffm)
        << name;
    EXPECT_EQ(ModelOf(config, {.num_dense = 0, .num_slots = 1}).ok(),
              !is_ffm && std::string(name) != "dlrm")
        << name;
  }
  config.set_model("ffm");
  EXPECT_EQ(ModelOf(config, {.num_dense = 2, .num_slots = 1}).status(),
            absl::InvalidArgumentError(
                "model \"ffm\" multiplies vectors of pairs of slots and got 1 "
                "slot; legal are 2 or more: give it data with several (libsvm "
                "has one), or choose another model"));
  config.set_model("dlrm");
  EXPECT_EQ(ModelOf(config, {.num_dense = 0, .num_slots = 1}).status(),
            absl::InvalidArgumentError(
                "model \"dlrm\" multiplies vectors in pairs and got 1 slot "
                "without dense features; legal are 2 slots or more, or dense "
                "features: give it data that has them, or choose another "
                "model"));
}

TEST(ModelOfTest, DefaultsOfFlagsAreThoseOfTheOptions) {
  const auto options = ModelOptionsOf(v1::JobConfig(), kCriteo);
  ASSERT_TRUE(options.ok()) << options.status();
  const models::ModelOptions defaults;
  EXPECT_EQ(options->embedding_size, defaults.embedding_size);
  EXPECT_EQ(options->hidden_sizes, defaults.hidden_sizes);
  EXPECT_EQ(options->slot_sizes, defaults.slot_sizes);
  EXPECT_EQ(options->mean_pooling, defaults.mean_pooling);
  EXPECT_EQ(options->cross_layers, defaults.cross_layers);
  EXPECT_EQ(options->cin_sizes, defaults.cin_sizes);
  EXPECT_EQ(options->attention_layers, defaults.attention_layers);
  EXPECT_EQ(options->attention_heads, defaults.attention_heads);
  EXPECT_EQ(options->attention_size, defaults.attention_size);
  EXPECT_EQ(options->dropout, defaults.dropout);
  EXPECT_EQ(options->dense_norm, defaults.dense_norm);
  EXPECT_EQ(options->hidden_batch_norm, defaults.hidden_batch_norm);
}

TEST(ModelOfTest, MalformedListsAreRefusedByFlagAndPart) {
  const auto message = [](auto set) {
    v1::JobConfig config;
    set(config);
    const absl::Status status = ModelOf(config, kCriteo).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_EQ(message([](auto& c) { c.set_hidden_sizes("128,x"); }),
            "--hidden_sizes has 'x'; legal are sizes of 1 to 65536; write for "
            "example 128,64");
  EXPECT_EQ(message([](auto& c) { c.set_cin_sizes(""); }),
            "--cin_sizes has ''; legal are sizes of 1 to 65536; write for "
            "example 128,64");
  for (const std::string bad : {"3", "-1:4", "1:0", "1:4x"}) {
    EXPECT_EQ(message([&](auto& c) { c.set_slot_sizes("0:4," + bad); }),
              "--slot_sizes has '" + bad +
                  "'; legal is SLOT:SIZE, each slot once, a size of 1 to "
                  "65536; write for example 0:4,7:16");
  }
  EXPECT_NE(message([](auto& c) {
              c.set_slot_sizes("1:4,1:5");
            }).find("each slot once"),
            std::string::npos);
  EXPECT_NE(message([](auto& c) {
              c.set_slot_sizes("26:4");
            }).find("slot_sizes has slot 26; legal is 0 to 25"),
            std::string::npos);
}

}  // namespace
}  // namespace oarlock::worker
