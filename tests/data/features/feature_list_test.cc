#include "data/features/feature_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace oarlock::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A list with a label, a sparse feature "a" and these entries.
absl::StatusOr<FeatureList> ListOf(const std::string& entries) {
  return FeatureList::Parse(absl::StrCat(
      R"({"features": [{"name": "y", "label": {}}, {"name": "a", "sparse": {}})",
      entries.empty() ? "" : ", ", entries, "]}"));
}

std::string ErrorOf(const std::string& entries) {
  const absl::Status status = ListOf(entries).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(FeatureListTest, FeaturesStandInTheOrderOfTheirNames) {
  const auto list = ListOf(R"(
    {"name": "z", "sparse": {"type": "INTEGER", "dim": 16}},
    {"name": "B", "sequence": {"shares": "z", "pooling": "MEAN",
                               "max_length": 50}, "missing_is_null": true},
    {"name": "price", "dense": {"transform": "LOG1P", "null": -1}},
    {"name": "age", "dense": {}},
    {"name": "w", "weight": {}}, {"name": "u", "group": {"type": "TEXT"}})");
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->label(), "y");
  EXPECT_EQ(list->weight(), "w");
  EXPECT_EQ(list->group(), "u");
  EXPECT_EQ(list->group_type(), v1::TEXT);
  ASSERT_EQ(list->dense().size(), 2u);
  EXPECT_EQ(list->dense()[0].name, "age");
  EXPECT_EQ(list->dense()[1].transform, v1::DenseFeature::LOG1P);
  EXPECT_EQ(list->dense()[1].null, -1);
  ASSERT_EQ(list->slots().size(), 3u);
  const FeatureList::Slot& b = list->slots()[0];
  EXPECT_EQ(b.name, "B");
  EXPECT_TRUE(b.is_sequence);
  EXPECT_TRUE(b.missing_is_null);
  EXPECT_EQ(b.pooling, v1::SequenceFeature::MEAN);
  EXPECT_EQ(b.max_length, 50u);
  // What it shares.
  EXPECT_EQ(b.rows_of, "z");
  EXPECT_EQ(b.dim, 16u);
  EXPECT_EQ(b.type, v1::INTEGER);
  EXPECT_EQ(list->slots()[1].name, "a");
  EXPECT_EQ(list->slots()[1].rows_of, "a");
  EXPECT_EQ(list->schema().num_dense, 2);
  EXPECT_EQ(list->schema().num_slots, 3);
  EXPECT_FALSE(list->is_numbered());
}

TEST(FeatureListTest, TheOrderOfTheListMeansNothing) {
  const auto list = ListOf(
      R"({"name": "c", "dense": {}}, {"name": "b", "sparse": {"number": 7}})");
  ASSERT_TRUE(list.ok()) << list.status();
  std::mt19937 random(1);
  for (int i = 0; i < 10; ++i) {
    v1::FeatureList shuffled = list->message();
    std::shuffle(shuffled.mutable_features()->begin(),
                 shuffled.mutable_features()->end(), random);
    const auto again = FeatureList::Create(shuffled);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->message().SerializeAsString(),
              list->message().SerializeAsString());
  }
}

TEST(FeatureListTest, SharedFeaturesHaveOneNumberAndSeed) {
  const auto list = ListOf(R"(
      {"name": "item", "sparse": {"number": 5}},
      {"name": "clicked", "sequence": {"shares": "item"}})");
  ASSERT_TRUE(list.ok()) << list.status();
  const FeatureList::Slot& clicked = list->slots()[1];
  const FeatureList::Slot& item = list->slots()[2];
  EXPECT_EQ(clicked.name, "clicked");
  EXPECT_EQ(clicked.keys().OfText("x"), item.keys().OfText("x"));
  EXPECT_EQ(clicked.keys().OfNull(), item.keys().OfNull());
}

TEST(FeatureListTest, WhatIsWrongIsSaid) {
  EXPECT_THAT(ErrorOf(R"({"name": "a", "dense": {}})"),
              HasSubstr("feature 'a' is there twice"));
  EXPECT_THAT(ErrorOf(R"({"name": "y2", "label": {}})"),
              HasSubstr("feature 'y2' is a label, and so is 'y'"));
  EXPECT_THAT(ErrorOf(R"({"name": "b"})"), HasSubstr("says not what it is"));
  EXPECT_THAT(ErrorOf(R"({"name": "", "dense": {}})"),
              HasSubstr("a name of 0 bytes"));
  EXPECT_THAT(ErrorOf(absl::StrCat(R"({"name": ")", std::string(257, 'x'),
                                   R"(", "dense": {}})")),
              HasSubstr("a name of 257 bytes"));
  EXPECT_THAT(ErrorOf(R"({"name": "b", "sparse": {"dim": 4097}})"),
              HasSubstr("has dim 4097; legal are 1 to 4096"));
  EXPECT_THAT(ErrorOf(R"({"name": "b", "sparse": {"number": 65535}})"),
              HasSubstr("has number 65535"));
  EXPECT_THAT(ErrorOf(R"({"name": "b", "sequence": {"max_length": 70000}})"),
              HasSubstr("has max_length 70000"));
  EXPECT_THAT(ErrorOf(R"({"name": "b", "dense": {"null": "NaN"}})"),
              HasSubstr("counts null as nan"));
  EXPECT_THAT(ErrorOf(R"({"name": "b", "sparse": {"shares": "c"}})"),
              HasSubstr("shares 'c', which is no sparse feature"));
  EXPECT_THAT(ErrorOf(R"({"name": "b", "sparse": {"shares": "a"}},
                         {"name": "c", "sparse": {"shares": "b"}})"),
              HasSubstr("'c' shares 'b', which shares another one's rows"));
  EXPECT_THAT(ErrorOf(R"({"name": "b", "sparse": {"shares": "a", "dim": 3}})"),
              HasSubstr("has another dim or type"));
  EXPECT_THAT(ErrorOf(R"({"name": "b", "sparse": {"kind": "x"}})"),
              HasSubstr("cannot be read"));
  const auto no_label =
      FeatureList::Parse(R"({"features": [{"name": "a", "sparse": {}}]})");
  EXPECT_THAT(std::string(no_label.status().message()),
              HasSubstr("has no label"));
  const auto no_slot =
      FeatureList::Parse(R"({"features": [{"name": "y", "label": {}}]})");
  EXPECT_THAT(std::string(no_slot.status().message()),
              HasSubstr("legal are 1 to 4096 and 0 to 65536"));
}

}  // namespace
}  // namespace oarlock::data
