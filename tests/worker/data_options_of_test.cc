#include "worker/data_options_of.h"

#include <gtest/gtest.h>

namespace oarlock {
namespace {

using Format = DataOptions::Format;

TEST(DataOptionsOfTest, DefaultsOfFlagsAreThoseOfTheOptions) {
  const DataOptions options = DataOptionsOf(v1::JobConfig());
  const DataOptions defaults;
  EXPECT_EQ(options.format, defaults.format);
  EXPECT_EQ(options.dense_transform, defaults.dense_transform);
  EXPECT_EQ(options.pipe_command, defaults.pipe_command);
  EXPECT_EQ(options.bad_lines_max, defaults.bad_lines_max);
}

TEST(DataOptionsOfTest, ACommandWritesWhatIsSaidAndElseMultiSlot) {
  v1::JobConfig config;
  EXPECT_EQ(DataFormatOf(config), "criteo");
  config.set_pipe_command("cat");
  EXPECT_EQ(DataFormatOf(config), "multi_slot");
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
      EXPECT_EQ(DataFormatOf(config), c.name);
      EXPECT_EQ(DataOptionsOf(config).format, c.format);
    }
  }
}

}  // namespace
}  // namespace oarlock
