#include "fleet/role/job_description.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "data/data_options.h"
#include "flags/message_flags.h"
#include "worker/config/data_options_of.h"

namespace oarlock {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string ValueOf(const v1::JobDescription& description,
                    const std::string& name) {
  for (const v1::JobDescription::Flag& flag : description.flags()) {
    if (flag.name() == name) return flag.value();
  }
  return "none";
}

TEST(JobDescriptionTest, GivesBackModelAndFormatDefaultsIncluded) {
  v1::JobConfig job;
  job.set_model("deepfm");
  job.set_embedding_size(7);
  job.set_init_range(0.1234567890123);
  job.set_dense_transform("bucket");
  const v1::JobDescription description = DescribeJob(job);
  EXPECT_EQ(ValueOf(description, "model"), "deepfm");
  // Another release may have another default.
  EXPECT_EQ(ValueOf(description, "sparse_feature_dim"), "10000001");
  v1::JobConfig back;
  ASSERT_TRUE(TakeDescription(description, &back).ok());
  EXPECT_EQ(back.model(), "deepfm");
  EXPECT_EQ(back.embedding_size(), 7);
  EXPECT_EQ(back.init_range(), 0.1234567890123);
  EXPECT_EQ(back.dense_transform(), "bucket");
  EXPECT_TRUE(back.has_sparse_feature_dim());
  // What was a default is given now.
  v1::JobDescription again = DescribeJob(back);
  ASSERT_EQ(again.flags_size(), description.flags_size());
  for (int i = 0; i < again.flags_size(); ++i) {
    again.mutable_flags(i)->set_given(description.flags(i).given());
  }
  EXPECT_EQ(again.SerializeAsString(), description.SerializeAsString());
}

TEST(JobDescriptionTest, AModelIsGoneOnWithAsItIs) {
  v1::JobConfig trained;
  trained.set_model("deepfm");
  trained.set_sparse_feature_dim(1000);
  trained.set_dropout(0.5);
  const v1::JobDescription description = DescribeJob(trained);
  v1::JobConfig job;
  EXPECT_EQ(
      CheckSameModel(description, "c/ckpt-1", job).message(),
      "c/ckpt-1 was trained with --model deepfm, and this job has --model "
      "ctr_dnn, the default: its parameters would mean something else; give "
      "--model deepfm, or begin another job, in another --checkpoint_dir");
  job.set_model("deepfm");
  job.set_sparse_feature_dim(2000);
  EXPECT_EQ(CheckSameModel(description, "c", job).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(CheckSameModel(description, "c", job).message()),
              HasSubstr("--sparse_feature_dim 1000, and this job has "
                        "--sparse_feature_dim 2000: "));
  job.set_sparse_feature_dim(1000);
  EXPECT_TRUE(CheckSameModel(description, "c", job).ok())
      << "how it is trained may change";
  EXPECT_TRUE(CheckSameModel(v1::JobDescription(), "c", job).ok());
}

TEST(JobDescriptionTest, EveryFlagOfTheModelIsCompared) {
  const v1::JobConfig trained;
  const v1::JobDescription description = DescribeJob(trained);
  for (const auto& [flag, value] :
       {std::pair{"embedding_size", "11"}, std::pair{"hidden_sizes", "3,3"},
        std::pair{"slot_sizes", "4"}, std::pair{"pooling", "mean"},
        std::pair{"dense_norm", "data"}, std::pair{"hidden_norm", "batch"},
        std::pair{"data_format", "libsvm"},
        std::pair{"dense_transform", "quick_start"}}) {
    v1::JobConfig job;
    const google::protobuf::FieldDescriptor* field =
        v1::JobConfig::descriptor()->FindFieldByName(flag);
    ASSERT_TRUE(flags::SetFlag(field, {value}, &job).ok()) << flag;
    EXPECT_THAT(
        std::string(CheckSameModel(description, "c", job).message()),
        HasSubstr(absl::StrCat("and this job has --", flag, " ", value)));
    EXPECT_EQ(Contradictions(description, "c", job).size(), 1u) << flag;
  }
  EXPECT_TRUE(Contradictions(description, "c", trained).empty());
}

TEST(JobDescriptionTest, HasNoFilesAndNoCommands) {
  v1::JobConfig job;
  job.add_train_files("secret/train");
  job.add_test_files("secret/test");
  job.set_pipe_command("rm -rf secret");
  const v1::JobDescription description = DescribeJob(job);
  EXPECT_THAT(description.DebugString(), Not(HasSubstr("secret")));
  // What the command writes is known all the same.
  EXPECT_EQ(ValueOf(description, "data_format"), "multi_slot");
}

TEST(JobDescriptionTest, HasTheFormatThatLinesAreIn) {
  for (const char* command : {"", "cat"}) {
    for (const char* format : {"criteo", "multi_slot", "libsvm"}) {
      v1::JobConfig trained;
      trained.set_pipe_command(command);
      trained.set_data_format(format);
      v1::JobConfig job;
      ASSERT_TRUE(TakeDescription(DescribeJob(trained), &job).ok());
      EXPECT_EQ(job.data_format(), format) << command;
      // Who reads the same lines through a command reads the same format.
      job.set_pipe_command("cat");
      EXPECT_EQ(data::NameOf(worker::DataFormatOf(job)), format) << command;
    }
  }
}

TEST(JobDescriptionTest, HasTheShapeOfMultiSlotLinesAndOfNoOthers) {
  v1::JobConfig trained;
  trained.set_data_format("multi_slot");
  trained.set_dense_dim(0);
  trained.set_num_slots(3);
  v1::JobConfig job;
  ASSERT_TRUE(TakeDescription(DescribeJob(trained), &job).ok());
  EXPECT_EQ(job.dense_dim(), 0);
  EXPECT_EQ(job.num_slots(), 3);
  EXPECT_EQ(ValueOf(DescribeJob(trained), "dense_dim"), "0");
  // A release without these flags reads what it could always read, and the
  // defaults are not taken for what somebody has said.
  for (const char* format : {"criteo", "libsvm"}) {
    trained.set_data_format(format);
    EXPECT_EQ(ValueOf(DescribeJob(trained), "dense_dim"), "none");
    EXPECT_EQ(ValueOf(DescribeJob(trained), "num_slots"), "none");
  }
}

TEST(JobDescriptionTest, MultiSlotLinesOfEarlierReleasesAreLikeCriteos) {
  v1::JobDescription description;
  v1::JobDescription::Flag* const flag = description.add_flags();
  flag->set_name("data_format");
  flag->set_value("multi_slot");
  v1::JobConfig job;
  ASSERT_TRUE(TakeDescription(description, &job).ok());
  const data::DataSchema schema = data::SchemaOf(worker::DataOptionsOf(job));
  EXPECT_EQ(schema.num_dense, 13);
  EXPECT_EQ(schema.num_slots, 26);
}

TEST(JobDescriptionTest, ARenamedFlagIsKnownByItsOldName) {
  v1::JobDescription description;
  v1::JobDescription::Flag* const flag = description.add_flags();
  flag->set_name("concatenated_passes");
  flag->set_value("3");
  v1::JobConfig job;
  ASSERT_TRUE(TakeDescription(description, &job).ok());
  EXPECT_EQ(job.repeats_per_epoch(), 3);
  EXPECT_EQ(ValueOf(DescribeJob(job), "repeats_per_epoch"), "3");
}

TEST(JobDescriptionTest, WhatIsGivenCounts) {
  v1::JobConfig trained;
  trained.set_model("lr");
  trained.set_dense_transform("bucket");
  v1::JobConfig job;
  job.set_model("ctr_dnn");
  ASSERT_TRUE(TakeDescription(DescribeJob(trained), &job).ok());
  EXPECT_EQ(job.model(), "ctr_dnn");
  EXPECT_EQ(job.dense_transform(), "bucket");
}

TEST(JobDescriptionTest, AnotherReleasesFlagIsNamed) {
  v1::JobDescription description;
  v1::JobDescription::Flag* const flag = description.add_flags();
  flag->set_name("warp_drive");
  flag->set_value("on");
  v1::JobConfig job;
  const absl::Status unknown = TakeDescription(description, &job);
  EXPECT_TRUE(absl::IsFailedPrecondition(unknown));
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("--warp_drive on"));
  flag->set_name("model");
  const absl::Status illegal = TakeDescription(description, &job);
  EXPECT_TRUE(absl::IsFailedPrecondition(illegal));
  EXPECT_THAT(std::string(illegal.message()), HasSubstr("--model"));
  // A flag that is no description's is none here either.
  flag->set_name("pipe_command");
  EXPECT_TRUE(absl::IsFailedPrecondition(TakeDescription(description, &job)));
  EXPECT_FALSE(job.has_pipe_command());
}

}  // namespace
}  // namespace oarlock
