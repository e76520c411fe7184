#include "cluster/log_dir_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace oarlock::cluster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr LogWriter kServer0{Role::kServer, 0};
constexpr LogWriter kServer1{Role::kServer, 1};
constexpr LogWriter kWorker0{Role::kWorker, 0};
constexpr LogWriter kWorker1{Role::kWorker, 1};

class LogDirLockTest : public testing::Test {
 protected:
  LogDirLockTest()
      : folder_(absl::StrCat(
            testing::TempDir(), "/log_dir_lock_",
            testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(folder_);
  }

  std::unique_ptr<LogDirLock> Take(const std::vector<LogWriter>& writers) {
    auto lock = LogDirLock::Take(logs(), writers);
    EXPECT_TRUE(lock.ok()) << lock.status();
    return lock.ok() ? *std::move(lock) : nullptr;
  }

  absl::Status ErrorOf(const std::vector<LogWriter>& writers) {
    return LogDirLock::Take(logs(), writers).status();
  }

  std::string logs() const { return folder_ + "/a/logs"; }

  const std::string folder_;
};

TEST_F(LogDirLockTest, TheFilesOfARoleAreOneJobsAtATime) {
  auto first = Take({kServer0, kServer1, kWorker0, kWorker1});
  const absl::Status second = ErrorOf({kServer0, kWorker0});
  EXPECT_TRUE(absl::IsUnavailable(second)) << second;
  EXPECT_EQ(std::string(second.message()),
            "another job writes to the log folder " + logs() +
                " as server 0, too; give this one a folder of its own by "
                "--log_dir");
  EXPECT_THAT(std::string(ErrorOf({kWorker1}).message()),
              HasSubstr("as worker 1"));
  first.reset();
  EXPECT_NE(Take({kServer0, kWorker0}), nullptr);
}

TEST_F(LogDirLockTest, ACollectiveWorkerWritesTheLogOfAWorker) {
  const auto first = Take({kWorker0});
  EXPECT_FALSE(ErrorOf({{Role::kCollective, 0}}).ok());
}

TEST_F(LogDirLockTest, NodesOfOneJobShareAFolder) {
  const auto node0 = Take({kServer0, kWorker0});
  const auto node1 = Take({kServer1, kWorker1});
  EXPECT_FALSE(ErrorOf({kWorker1}).ok());
}

TEST_F(LogDirLockTest, WhoWasRefusedHoldsNothing) {
  const auto first = Take({kWorker1});
  EXPECT_FALSE(ErrorOf({kWorker0, kWorker1}).ok());
  EXPECT_NE(Take({kWorker0}), nullptr);
}

TEST_F(LogDirLockTest, ADeadProcessLeavesTheFolderToOthers) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    const auto lock = LogDirLock::Take(logs(), {kWorker0});
    const char taken = lock.ok() ? 'y' : 'n';
    if (write(ends[1], &taken, 1) != 1) _exit(1);
    while (true) pause();
  }
  char taken = '?';
  ASSERT_EQ(read(ends[0], &taken, 1), 1);
  EXPECT_EQ(taken, 'y');
  EXPECT_FALSE(ErrorOf({kWorker0}).ok());
  kill(pid, SIGKILL);
  ASSERT_EQ(waitpid(pid, nullptr, 0), pid);
  EXPECT_NE(Take({kWorker0}), nullptr);
  close(ends[0]);
  close(ends[1]);
}

TEST_F(LogDirLockTest, AProgramThatWasStartedDoesNotKeepIt) {
  auto first = Take({kWorker0});
  const pid_t pid = fork();
  if (pid == 0) {
    execl("/bin/sleep", "sleep", "600", nullptr);
    _exit(127);
  }
  // Until the program is another one, it is this one's copy.
  const std::string name = absl::StrCat("/proc/", pid, "/comm");
  std::string comm;
  while (comm != "sleep") {
    std::ifstream file(name);
    ASSERT_TRUE(std::getline(file, comm));
  }
  first.reset();
  EXPECT_NE(Take({kWorker0}), nullptr);
  kill(pid, SIGKILL);
  ASSERT_EQ(waitpid(pid, nullptr, 0), pid);
}

TEST_F(LogDirLockTest, AFolderThatCannotBeMadeOrWrittenIsNamed) {
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ + "/a") << "a file";
  EXPECT_THAT(std::string(ErrorOf({kWorker0}).message()),
              AllOf(HasSubstr("the log folder " + logs() + " cannot be made: "),
                    HasSubstr("by --log_dir")));
  std::filesystem::remove(folder_ + "/a");
  // Nobody can write to that, root neither.
  std::filesystem::create_directories(logs() + "/LOCK");
  const absl::Status error = ErrorOf({});
  EXPECT_TRUE(absl::IsUnavailable(error)) << error;
  EXPECT_THAT(std::string(error.message()),
              HasSubstr("the log folder " + logs() +
                        " cannot be written: Is a directory; "));
}

}  // namespace
}  // namespace oarlock::cluster
