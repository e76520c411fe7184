#include "data/parse/line_parser.h"

#include <cmath>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/mix.h"
#include "base/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"

namespace oarlock::data {
namespace {

using Transform = DataOptions::DenseTransform;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kSeed = 20240611;

DataOptions Criteo(Transform transform, uint64_t feature_dim) {
  DataOptions options;
  options.dense_transform = transform;
  options.sparse_feature_dim = feature_dim;
  return options;
}

DataOptions MultiSlot(int dense_dim, int num_slots, uint64_t feature_dim = 0) {
  DataOptions options;
  options.format = DataOptions::Format::kMultiSlot;
  options.multi_slot_dense_dim = dense_dim;
  options.multi_slot_num_slots = num_slots;
  options.sparse_feature_dim = feature_dim;
  return options;
}

// A slow second opinion on well-formed Criteo lines.
void NaiveAppend(const DataOptions& options, const std::string& line,
                 Batch* batch) {
  const std::vector<std::string> fields = absl::StrSplit(line, '\t');
  ASSERT_EQ(fields.size(), 40u);
  ++batch->num_examples;
  batch->labels.push_back(fields[0] == "1" ? 1 : 0);
  for (int slot = 0; slot < 26; ++slot) {
    batch->keys.push_back(
        FeatureHash(fields[14 + slot], slot, options.sparse_feature_dim));
  }
  const double min[] = {0, -3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  const double max[] = {20, 600, 100, 50, 64000, 500, 100,
                        50, 500, 10,  10, 10,    50};
  for (int i = 0; i < 13; ++i) {
    const std::string& field = fields[1 + i];
    int64_t x = 0;
    const bool present = absl::SimpleAtoi(field, &x);
    switch (options.dense_transform) {
      case Transform::kQuickStart:
        batch->dense.push_back(
            present ? static_cast<float>((x - min[i]) / (max[i] - min[i])) : 0);
        break;
      case Transform::kLog1p:
        batch->dense.push_back(static_cast<float>(
            present && x > 0 ? std::log1p(static_cast<double>(x)) : 0.0));
        break;
      case Transform::kBucket: {
        std::string text = field;
        if (present && x <= 2) text = absl::StrCat("SP", x);
        if (present && x > 2) {
          text = absl::StrCat(static_cast<int64_t>(
              std::pow(std::log(static_cast<double>(x)), 2)));
        }
        batch->keys.push_back(
            FeatureHash(text, 26 + i, options.sparse_feature_dim));
      }
    }
  }
}

std::string Reject(const DataOptions& options, const std::string& line) {
  Batch batch;
  batch.labels = {1};
  std::string reason;
  EXPECT_FALSE(NewLineParser(options)->Append(line, &batch, &reason)) << line;
  EXPECT_EQ(batch.num_examples, 0u);
  EXPECT_THAT(batch.labels, ElementsAre(1));
  EXPECT_THAT(batch.dense, IsEmpty());
  EXPECT_THAT(batch.keys, IsEmpty());
  EXPECT_THAT(batch.offsets, IsEmpty());
  EXPECT_EQ(reason.find('\n'), std::string::npos);
  return reason;
}

std::string LineWith(size_t field, const std::string& value) {
  std::vector<std::string> fields = absl::StrSplit(NumberedLine(7), '\t');
  fields[field] = value;
  return absl::StrJoin(fields, "\t");
}

TEST(CriteoParserTest, AgreesWithANaiveParserOnRandomLines) {
  std::cout << "seed " << kSeed << "\n";
  for (const Transform transform :
       {Transform::kQuickStart, Transform::kLog1p, Transform::kBucket}) {
    for (const uint64_t dim : {uint64_t{0}, uint64_t{10'000'001}}) {
      const DataOptions options = Criteo(transform, dim);
      RandomSequence random(kSeed);
      const auto parser = NewLineParser(options);
      Batch batch;
      Batch expected;
      std::string reason;
      for (int i = 0; i < 3000; ++i) {
        const std::string line = RandomCriteoLine(random);
        ASSERT_TRUE(parser->Append(line, &batch, &reason))
            << line << " " << reason;
        NaiveAppend(options, line, &expected);
      }
      EXPECT_EQ(batch.num_examples, expected.num_examples);
      EXPECT_EQ(batch.labels, expected.labels);
      EXPECT_EQ(batch.dense, expected.dense);
      EXPECT_EQ(batch.keys, expected.keys);
      EXPECT_THAT(batch.offsets, IsEmpty());
      const DataSchema schema = SchemaOf(options);
      EXPECT_EQ(batch.dense.size(), batch.num_examples * schema.num_dense);
      EXPECT_EQ(batch.keys.size(), batch.num_examples * schema.num_slots);
    }
  }
}

TEST(CriteoParserTest, QuickStartConstantsAreThoseOfTheQuickStart) {
  Batch batch;
  std::string reason;
  // The last value of each column's range becomes 1, a missing one 0.
  std::string line =
      "1\t20\t600\t100\t50\t64000\t500\t100\t50\t500\t10\t10\t\t100";
  for (int i = 0; i < 26; ++i) line += "\t";
  ASSERT_TRUE(NewLineParser(Criteo(Transform::kQuickStart, 0))
                  ->Append(line, &batch, &reason))
      << reason;
  EXPECT_THAT(batch.dense, ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 2));
}

TEST(CriteoParserTest, BucketTextKeepsSmallMissingAndLoggedValuesApart) {
  EXPECT_EQ(BucketText(std::nullopt), "");
  EXPECT_EQ(BucketText(-3), "SP-3");
  EXPECT_EQ(BucketText(2), "SP2");
  EXPECT_EQ(BucketText(3), "1");        // log(3)^2 = 1.2
  EXPECT_EQ(BucketText(8), "4");        // 4.3
  EXPECT_EQ(BucketText(64000), "122");  // 122.5
}

TEST(CriteoParserTest, MissingCategoryIsHashedWithItsSlot) {
  Batch batch;
  std::string reason;
  ASSERT_TRUE(NewLineParser(Criteo(Transform::kLog1p, 0))
                  ->Append("0" + std::string(39, '\t'), &batch, &reason));
  EXPECT_EQ(batch.keys[0], FeatureHash("", 0, 0));
  EXPECT_EQ(batch.keys[25], FeatureHash("", 25, 0));
  EXPECT_NE(batch.keys[0], batch.keys[25]);
}

TEST(CriteoParserTest, MalformedLinesAreRejectedWithTheReason) {
  const DataOptions options = Criteo(Transform::kLog1p, 0);
  EXPECT_THAT(Reject(options, ""), HasSubstr("empty"));
  EXPECT_THAT(Reject(options, "1"), HasSubstr("1 fields"));
  EXPECT_THAT(Reject(options, "hello world"), HasSubstr("1 fields"));
  EXPECT_THAT(Reject(options, "0" + std::string(38, '\t')),
              HasSubstr("39 fields"));
  EXPECT_THAT(Reject(options, "0" + std::string(40, '\t')),
              HasSubstr("41 fields"));
  EXPECT_THAT(Reject(options, LineWith(0, "2")), HasSubstr("label is '2'"));
  EXPECT_THAT(Reject(options, LineWith(0, "")), HasSubstr("label is ''"));
  EXPECT_THAT(Reject(options, LineWith(0, "01")), HasSubstr("label is '01'"));
  EXPECT_THAT(Reject(options, LineWith(1, "abc")), HasSubstr("I1 is 'abc'"));
  EXPECT_THAT(Reject(options, LineWith(13, "-")), HasSubstr("I13 is '-'"));
  EXPECT_THAT(Reject(options, LineWith(3, "1.5")), HasSubstr("I3 is '1.5'"));
  EXPECT_THAT(Reject(options, LineWith(4, "1 ")), HasSubstr("I4 is '1 '"));
  EXPECT_THAT(Reject(options, LineWith(5, "1234567890123456789")),
              HasSubstr("at most 18 digits"));
  EXPECT_THAT(Reject(options, LineWith(20, std::string("a\0b", 3))),
              HasSubstr("NUL"));
  EXPECT_THAT(Reject(options, LineWith(0, std::string(1000, '\x01'))),
              HasSubstr("..."));
}

TEST(CriteoParserTest, EveryTruncationOfALineIsRejected) {
  const std::string line = NumberedLine(12);
  const auto parser = NewLineParser(Criteo(Transform::kBucket, 0));
  Batch batch;
  std::string reason;
  const size_t last_field = line.rfind('\t') + 1;
  for (size_t length = 0; length < line.size(); ++length) {
    // Copied, so that reading past the end is seen by a sanitizer.
    const std::vector<char> bytes(line.begin(), line.begin() + length);
    EXPECT_EQ(parser->Append({bytes.data(), length}, &batch, &reason),
              length >= last_field)
        << length;
  }
}

TEST(MultiSlotParserTest, ReadsWhatTheQuickStartsReaderWrites) {
  Batch batch;
  std::string reason;
  const auto parser = NewLineParser(MultiSlot(3, 2));
  ASSERT_TRUE(
      parser->Append("3 0.05 -1e-3 2 1 737395 1 210498 1 0", &batch, &reason))
      << reason;
  ASSERT_TRUE(parser->Append(" 3 1 0 0  1 18446744073709551615\t1 0 1 1 ",
                             &batch, &reason))
      << reason;
  EXPECT_EQ(batch.num_examples, 2u);
  EXPECT_THAT(batch.labels, ElementsAre(0, 1));
  EXPECT_THAT(batch.dense, ElementsAre(0.05f, -1e-3f, 2, 1, 0, 0));
  EXPECT_THAT(batch.keys, ElementsAre(Key{737395}, Key{210498},
                                      Key{18446744073709551615u}, Key{0}));
  EXPECT_THAT(batch.offsets, IsEmpty());
}

TEST(MultiSlotParserTest, OffsetsAppearWithTheFirstSlotThatHasNotOneKey) {
  Batch batch;
  std::string reason;
  const auto parser = NewLineParser(MultiSlot(0, 2, 100));
  ASSERT_TRUE(parser->Append("1 1 1 2 1 0", &batch, &reason)) << reason;
  ASSERT_TRUE(parser->Append("3 103 4 5 0 1 1", &batch, &reason)) << reason;
  ASSERT_TRUE(parser->Append("1 6 1 7 1 1", &batch, &reason)) << reason;
  EXPECT_THAT(batch.keys, ElementsAre(Key{1}, Key{2}, Key{3}, Key{4}, Key{5},
                                      Key{6}, Key{7}));
  EXPECT_THAT(batch.offsets, ElementsAre(0, 1, 2, 5, 5, 6, 7));
}

TEST(MultiSlotParserTest, AnExampleOfAsManyKeysAsSlotsStillNeedsOffsets) {
  Batch batch;
  std::string reason;
  ASSERT_TRUE(
      NewLineParser(MultiSlot(0, 2))->Append("2 8 9 0 1 1", &batch, &reason));
  EXPECT_THAT(batch.offsets, ElementsAre(0, 2, 2));
}

TEST(MultiSlotParserTest, AgreesWithANaiveCountOnRandomLines) {
  std::cout << "seed " << kSeed << "\n";
  RandomSequence random(kSeed);
  const auto parser = NewLineParser(MultiSlot(2, 3));
  Batch batch;
  std::vector<float> dense;
  std::vector<Key> keys;
  std::vector<uint32_t> offsets = {0};
  std::string reason;
  for (int i = 0; i < 2000; ++i) {
    std::string line = "2";
    for (int d = 0; d < 2; ++d) {
      const int quarters = static_cast<int>(random.Below(4000)) - 2000;
      dense.push_back(static_cast<float>(quarters) / 4);
      absl::StrAppend(&line, " ", quarters / 4.0);
    }
    for (int slot = 0; slot < 3; ++slot) {
      const uint64_t count = random.Below(4);
      absl::StrAppend(&line, " ", count);
      for (uint64_t k = 0; k < count; ++k) {
        keys.push_back(Key{random()});
        absl::StrAppend(&line, " ", static_cast<uint64_t>(keys.back()));
      }
      offsets.push_back(static_cast<uint32_t>(keys.size()));
    }
    absl::StrAppend(&line, " 1 ", random.Below(2));
    ASSERT_TRUE(parser->Append(line, &batch, &reason)) << line << reason;
  }
  EXPECT_EQ(batch.dense, dense);
  EXPECT_EQ(batch.keys, keys);
  EXPECT_EQ(batch.offsets, offsets);
}

TEST(MultiSlotParserTest, MalformedLinesAreRejectedWithTheReason) {
  const DataOptions options = MultiSlot(2, 2);
  EXPECT_THAT(Reject(options, "  "), HasSubstr("empty"));
  EXPECT_THAT(Reject(options, "3 1 2 3 1 5 1 6 1 0"),
              HasSubstr("count 2 but '3 1 2 3"));
  EXPECT_THAT(Reject(options, "2 1 x 1 5 1 6 1 0"),
              HasSubstr("dense feature 1 is not a finite number but 'x"));
  EXPECT_THAT(Reject(options, "2 1 nan 1 5 1 6 1 0"),
              HasSubstr("finite number but 'nan 1 5"));
  EXPECT_THAT(Reject(options, "2 1 2 1 -5 1 6 1 0"), HasSubstr("slot 0"));
  EXPECT_THAT(Reject(options, "2 1 2 1 5 1 6.5 1 0"), HasSubstr("slot 1"));
  EXPECT_THAT(Reject(options, "2 1 2 1 5 4000000000 6"), HasSubstr("slot 1"));
  EXPECT_THAT(Reject(options, "2 1 2 1 5"), HasSubstr("slot 1"));
  EXPECT_THAT(Reject(options, "2 1 2 1 5 1 18446744073709551616 1 0"),
              HasSubstr("64-bit"));
  EXPECT_THAT(Reject(options, "2 1 2 1 5 1 6 1 3"),
              HasSubstr("the label is not '1 0' or '1 1' but '1 3'"));
  EXPECT_THAT(Reject(options, "2 1 2 1 5 1 6 2 0 1"), HasSubstr("label"));
  EXPECT_THAT(Reject(options, "2 1 2 1 5 1 6 1 0 1 0"),
              HasSubstr("'1 0' follows the label; the line should have 2 "
                        "dense features (--dense_dim) and 2 slots "
                        "(--num_slots)"));
  // Whatever is wrong: the shape may be.
  EXPECT_THAT(Reject(MultiSlot(0, 3), "2 0.5 1"),
              AllOf(HasSubstr("value 0 of slot 0 is not an unsigned"),
                    HasSubstr("0 dense features (--dense_dim) and 3 slots")));
}

TEST(DataOptionsTest, ValidateNamesTheFieldThatIsOutOfRange) {
  DataOptions options;
  EXPECT_TRUE(options.Validate().ok());
  options.bad_lines_max = -1;
  EXPECT_THAT(options.Validate().message(), HasSubstr("bad_lines_max is -1"));
  options = MultiSlot(-1, 2);
  EXPECT_THAT(options.Validate().message(), HasSubstr("multi_slot_dense_dim"));
  EXPECT_TRUE(MultiSlot(0, 4096).Validate().ok());
  options = MultiSlot(0, 4097);
  EXPECT_EQ(options.Validate().message(),
            "multi_slot_num_slots is 4097; legal is 0 to 4096");
  EXPECT_FALSE(MultiSlot(0, 0).Validate().ok());
}

TEST(DataOptionsTest, BucketsMakeSlotsOfTheIntegers) {
  EXPECT_EQ(SchemaOf(Criteo(Transform::kBucket, 0)).num_dense, 0);
  EXPECT_EQ(SchemaOf(Criteo(Transform::kBucket, 0)).num_slots, 39);
  EXPECT_EQ(SchemaOf(Criteo(Transform::kLog1p, 0)).num_dense, 13);
  EXPECT_EQ(SchemaOf(Criteo(Transform::kLog1p, 0)).num_slots, 26);
}

DataOptions Libsvm(uint64_t feature_dim = 0) {
  DataOptions options;
  options.format = DataOptions::Format::kLibsvm;
  options.sparse_feature_dim = feature_dim;
  return options;
}

TEST(MultiSlotParserTest, WhatIsNearerTo0ThanFloatsAreIsTheNearestOne) {
  Batch batch;
  std::string reason;
  const auto parser = NewLineParser(MultiSlot(4, 1));
  ASSERT_TRUE(
      parser->Append("4 1e-40 -1e-45 1e-50 -1e-400 1 7 1 0", &batch, &reason))
      << reason;
  EXPECT_THAT(batch.dense, ElementsAre(1e-40f, -1e-45f, 0, 0));
  for (const std::string huge : {"1e39", "-1e400"}) {
    EXPECT_THAT(Reject(MultiSlot(1, 1), "1 " + huge + " 1 7 1 0"),
                HasSubstr("not a finite number"));
  }
}

TEST(LibsvmParserTest, WhatIsNearerTo0ThanFloatsAreIsTheNearestOne) {
  const auto parser = NewLineParser(Libsvm());
  Batch batch;
  std::string reason;
  ASSERT_TRUE(parser->Append("1 3:1e-40 4:1e-50 5:2", &batch, &reason))
      << reason;
  // What is 0 is not there.
  EXPECT_THAT(batch.keys, ElementsAre(Key{3}, Key{5}));
  EXPECT_THAT(batch.weights, ElementsAre(1e-40f, 2));
}

TEST(LibsvmParserTest, FeaturesAreWeighedKeysOfOneSlot) {
  const auto parser = NewLineParser(Libsvm());
  Batch batch;
  std::string reason;
  for (const std::string line :
       {"1 3:1 7:1", "-1", "0 qid:4 5:2.5 1:-1e-1 # a comment: 9:9",
        "+1 18446744073709551615:+0.5 8:0 \t", "1 #"}) {
    ASSERT_TRUE(parser->Append(line, &batch, &reason)) << line << reason;
  }
  EXPECT_THAT(batch.labels, ElementsAre(1, 0, 0, 1, 1));
  EXPECT_THAT(batch.keys,
              ElementsAre(Key{3}, Key{7}, Key{5}, Key{1}, Key{~uint64_t{0}}));
  EXPECT_THAT(batch.weights, ElementsAre(1, 1, 2.5f, -.1f, .5f));
  EXPECT_THAT(batch.offsets, ElementsAre(0, 2, 2, 4, 5, 5));
  EXPECT_THAT(batch.dense, IsEmpty());
  EXPECT_EQ(SchemaOf(Libsvm()).num_slots, 1);
}

TEST(LibsvmParserTest, ValuesThatAreAllOneTakeNoWeights) {
  const auto parser = NewLineParser(Libsvm(10));
  Batch batch;
  std::string reason;
  ASSERT_TRUE(parser->Append("1 13:1 4:1.0", &batch, &reason)) << reason;
  EXPECT_THAT(batch.keys, ElementsAre(Key{3}, Key{4}));
  EXPECT_THAT(batch.weights, IsEmpty());
}

TEST(LibsvmParserTest, ALineThatIsOnlyACommentIsNoExampleAndNotMalformed) {
  const auto parser = NewLineParser(Libsvm());
  Batch batch;
  std::string reason;
  for (const char* line : {"#", "# 1 2:3", " \t # Generated by a tool"}) {
    EXPECT_TRUE(parser->IsComment(line)) << line;
    EXPECT_FALSE(parser->Append(line, &batch, &reason)) << line;
  }
  for (const char* line : {"", " \t", "1 # a comment", "x # no example"}) {
    EXPECT_FALSE(parser->IsComment(line)) << line;
  }
  EXPECT_EQ(batch.num_examples, 0u);
  // Other formats have no comments.
  for (const DataOptions& options :
       {Criteo(Transform::kLog1p, 0), MultiSlot(1, 1)}) {
    EXPECT_FALSE(NewLineParser(options)->IsComment("# a comment"));
  }
}

TEST(LibsvmParserTest, MalformedLinesAreRefusedWithAReason) {
  const DataOptions options = Libsvm();
  EXPECT_THAT(Reject(options, ""), HasSubstr("empty"));
  EXPECT_THAT(Reject(options, "  # only a comment"), HasSubstr("empty"));
  EXPECT_THAT(Reject(options, "2 1:1"), HasSubstr("the label is '2'"));
  EXPECT_THAT(Reject(options, "1 1"), HasSubstr("'1', not INDEX:VALUE"));
  for (const char* feature :
       {"1:", ":1", "-1:1", "1:x", "1:nan", "1:inf", "1:1:1",
        "18446744073709551616:1", "1:1e99", "qid", "1:+-1"}) {
    EXPECT_THAT(Reject(options, absl::StrCat("1 2:2 ", feature)),
                HasSubstr(feature));
  }
}

TEST(CriteoParserTest, IntegersOfAllLengthsAreReadWhereverTheyStand) {
  DataOptions options = Criteo(Transform::kQuickStart, 0);
  const auto parser = NewLineParser(options);
  // The eight bytes that are read at a time end before, in and behind a field.
  for (int digits = 0; digits <= 19; ++digits) {
    for (const std::string sign : {"", "-"}) {
      for (size_t column = 1; column <= 13; ++column) {
        const std::string field =
            sign + std::string("9876543210123456789", digits);
        const std::string line = LineWith(column, field);
        Batch batch;
        std::string reason;
        const bool legal = digits == 0 ? sign.empty() : digits <= 18;
        ASSERT_EQ(parser->Append(line, &batch, &reason), legal) << line;
        if (!legal) continue;
        Batch expected;
        NaiveAppend(options, line, &expected);
        ASSERT_EQ(batch.dense, expected.dense) << line;
      }
    }
  }
  for (const char* field : {"1x", "x", "1 2", "+1", "--1", "1-", "12345678x",
                            "/", ":", "\x80", "1234567:", "0x1"}) {
    for (const size_t column : {1, 7, 13}) {
      Batch batch;
      std::string reason;
      EXPECT_FALSE(parser->Append(LineWith(column, field), &batch, &reason))
          << field;
    }
  }
}

}  // namespace
}  // namespace oarlock::data
