#include "fleet/serving/temporary_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "tests/base/test_folder.h"

namespace oarlock {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class TemporaryDirTest : public ::testing::Test {
 protected:
  static void SetTemporary(const std::string& path) {
    ASSERT_EQ(setenv("TMPDIR", path.c_str(), /*overwrite=*/1), 0);
  }
  void TearDown() override { unsetenv("TMPDIR"); }
};

TEST_F(TemporaryDirTest, IsOnesOwnAndEndsWithWhatIsInIt) {
  TestFolder temporary;
  SetTemporary(temporary.path());
  {
    auto one = TemporaryDir::Create("mine");
    auto other = TemporaryDir::Create("mine");
    ASSERT_TRUE(one.ok()) << one.status();
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_NE((*one)->path(), (*other)->path());
    EXPECT_THAT((*one)->path(), StartsWith(temporary.Path("mine-")));
    EXPECT_EQ(fs::status((*one)->path()).permissions(), fs::perms::owner_all);
    fs::create_directories((*one)->path() + "/server-0");
    std::ofstream((*one)->path() + "/server-0/rows") << "some";
  }
  EXPECT_TRUE(fs::is_empty(temporary.path()));
}

TEST_F(TemporaryDirTest, SaysWhereNoneCanBeMade) {
  TestFolder temporary;
  SetTemporary(temporary.Path("missing"));
  const auto folder = TemporaryDir::Create("mine");
  ASSERT_FALSE(folder.ok());
  EXPECT_THAT(folder.status().message(), HasSubstr("TMPDIR"));
  EXPECT_THAT(folder.status().message(), HasSubstr("No such file"));
}

}  // namespace
}  // namespace oarlock
