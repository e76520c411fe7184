#include "worker/config/data_options_of.h"

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"

namespace oarlock::worker {
namespace {

using Format = data::DataOptions::Format;

TEST(DataOptionsOfTest, DefaultsOfFlagsAreThoseOfTheOptions) {
  const data::DataOptions options = DataOptionsOf(v1::JobConfig());
  const data::DataOptions defaults;
  EXPECT_EQ(options.format, defaults.format);
  EXPECT_EQ(options.dense_transform, defaults.dense_transform);
  EXPECT_EQ(options.pipe_command, defaults.pipe_command);
  EXPECT_EQ(options.bad_lines_max, defaults.bad_lines_max);
  EXPECT_EQ(options.multi_slot_dense_dim, defaults.multi_slot_dense_dim);
  EXPECT_EQ(options.multi_slot_num_slots, defaults.multi_slot_num_slots);
}

TEST(DataOptionsOfTest, LimitsOfFlagsAreThoseOfTheOptions) {
  const auto max = [](const char* name) {
    return v1::JobConfig::descriptor()
        ->FindFieldByName(name)
        ->options()
        .GetExtension(v1::flag)
        .max();
  };
  EXPECT_EQ(max("dense_dim"), data::DataOptions::kMaxDense);
  EXPECT_EQ(max("num_slots"), data::DataOptions::kMaxSlots);
}

TEST(DataOptionsOfTest, EveryDenseTransformIsFoundByItsName) {
  for (const std::string& name : v1::JobConfig::descriptor()
                                     ->FindFieldByName("dense_transform")
                                     ->options()
                                     .GetExtension(v1::flag)
                                     .one_of()) {
    v1::JobConfig config;
    config.set_dense_transform(name);
    EXPECT_EQ(data::NameOf(DataOptionsOf(config).dense_transform), name);
  }
}

TEST(DataOptionsOfTest, ACommandWritesWhatIsSaidAndElseMultiSlot) {
  v1::JobConfig config;
  EXPECT_EQ(DataFormatOf(config), Format::kCriteo);
  config.set_pipe_command("cat");
  EXPECT_EQ(DataFormatOf(config), Format::kMultiSlot);
  EXPECT_EQ(DataOptionsOf(config).format, Format::kMultiSlot);
  EXPECT_EQ(DataOptionsOf(config).pipe_command, "cat");
  const struct {
    const char* name;
    Format format;
  } cases[] = {{"criteo", Format::kCriteo},
               {"multi_slot", Format::kMultiSlot},
               {"libsvm", Format::kLibsvm}};
  for (const auto& c : cases) {
    config.set_data_format(c.name);
    for (const char* command : {"cat", ""}) {
      config.set_pipe_command(command);
      EXPECT_EQ(data::NameOf(DataFormatOf(config)), c.name);
      EXPECT_EQ(DataOptionsOf(config).format, c.format);
    }
  }
}

TEST(DataOptionsOfTest, MultiSlotLinesHaveTheShapeThatTheFlagsSay) {
  v1::JobConfig config;
  config.set_data_format("multi_slot");
  config.set_dense_dim(0);
  config.set_num_slots(3);
  EXPECT_TRUE(CheckDataFlags(config).ok());
  const data::DataSchema schema = data::SchemaOf(DataOptionsOf(config));
  EXPECT_EQ(schema.num_dense, 0);
  EXPECT_EQ(schema.num_slots, 3);
  // So have those of a command that nothing is said of.
  config.clear_data_format();
  config.set_pipe_command("cat");
  EXPECT_TRUE(CheckDataFlags(config).ok());
  EXPECT_EQ(data::SchemaOf(DataOptionsOf(config)).num_slots, 3);
}

TEST(DataOptionsOfTest, AnotherShapeThanThatOfTheFormatIsRefusedInOneLine) {
  const auto message = [](const char* format, auto set) {
    v1::JobConfig config;
    config.set_data_format(format);
    set(config);
    const absl::Status status = CheckDataFlags(config);
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_EQ(message("criteo", [](auto& c) { c.set_dense_dim(0); }),
            "--dense_dim is 0, but a line of --data_format criteo always has "
            "13; leave --dense_dim out, or use --data_format multi_slot");
  EXPECT_EQ(message("criteo", [](auto& c) { c.set_num_slots(39); }),
            "--num_slots is 39, but a line of --data_format criteo always has "
            "26; leave --num_slots out, or use --data_format multi_slot");
  EXPECT_EQ(message("libsvm", [](auto& c) { c.set_dense_dim(13); }),
            "--dense_dim is 13, but a line of --data_format libsvm always has "
            "0; leave --dense_dim out, or use --data_format multi_slot");
  EXPECT_EQ(message("libsvm", [](auto& c) { c.set_num_slots(2); }),
            "--num_slots is 2, but a line of --data_format libsvm always has "
            "1; leave --num_slots out, or use --data_format multi_slot");
  // What they have may be said.
  EXPECT_EQ(message("criteo",
                    [](auto& c) {
                      c.set_dense_dim(13);
                      c.set_num_slots(26);
                      c.set_dense_transform("bucket");
                    }),
            "");
  EXPECT_EQ(message("libsvm",
                    [](auto& c) {
                      c.set_dense_dim(0);
                      c.set_num_slots(1);
                    }),
            "");
  EXPECT_EQ(message("libsvm", [](auto&) {}), "");
}

}  // namespace
}  // namespace oarlock::worker
