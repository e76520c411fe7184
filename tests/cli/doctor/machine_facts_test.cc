#include "cli/doctor/machine_facts.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/clock.h"
#include "tests/base/test_folder.h"

namespace oarlock::cli {
namespace {

// A folder in the place of /, whose files a test writes.
class MachineFactsTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& content) {
    std::filesystem::create_directories(
        std::filesystem::path(root_.Path(path)).parent_path());
    root_.Write(path, content);
  }
  MachineFacts Read() { return ReadMachineFacts(root_.path(), clock_); }

 private:
  TestFolder root_;
  const FakeClock clock_;
};

TEST_F(MachineFactsTest, ReadsMemoryInBytes) {
  Write("proc/meminfo",
        "MemTotal:        8000 kB\nMemFree:  1 kB\nMemAvailable:    5000 kB\n");
  EXPECT_EQ(Read().memory_bytes, 8000 << 10);
  EXPECT_EQ(Read().free_memory_bytes, 5000 << 10);
}

TEST_F(MachineFactsTest, AControlGroupWithLessMemoryCounts) {
  Write("proc/meminfo", "MemTotal: 8000 kB\nMemAvailable: 5000 kB\n");
  Write("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(Read().memory_bytes, 8000 << 10);
  Write("sys/fs/cgroup/memory.max", "1024000\n");
  Write("sys/fs/cgroup/memory.current", "24000\n");
  EXPECT_EQ(Read().memory_bytes, 1024000);
  EXPECT_EQ(Read().free_memory_bytes, 1000000);
}

TEST_F(MachineFactsTest, TheLeastLimitOfThreadsCounts) {
  Write("proc/sys/kernel/threads-max", "321\n");
  EXPECT_EQ(Read().threads_max, 321);
  Write("sys/fs/cgroup/pids.max", "123\n");
  EXPECT_EQ(Read().threads_max, 123);
}

TEST_F(MachineFactsTest, TheChoiceOfHugePagesIsTheOneInBrackets) {
  EXPECT_EQ(Read().transparent_huge_pages, "");
  Write("sys/kernel/mm/transparent_hugepage/enabled",
        "always madvise [never]\n");
  EXPECT_EQ(Read().transparent_huge_pages, "never");
}

TEST_F(MachineFactsTest, ReadsPortsAndFeaturesOfTheProcessor) {
  Write("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n");
  Write("proc/cpuinfo",
        "processor\t: 0\nflags\t\t: fpu avx2 avx512f avx512_bf16x amx_bf16\n"
        "processor\t: 1\nflags\t\t: avx512_bf16\n");
  const MachineFacts facts = Read();
  EXPECT_EQ(facts.first_own_port, 32768);
  EXPECT_EQ(facts.last_own_port, 60999);
  EXPECT_EQ(facts.cpu_features,
            (std::vector<std::string>{"avx2", "avx512f", "amx_bf16"}));
}

TEST_F(MachineFactsTest, ReadsTheLimitsOfThisProcess) {
  rlimit old = {};
  getrlimit(RLIMIT_NOFILE, &old);
  rlimit fewer = old;
  fewer.rlim_cur = 200;
  setrlimit(RLIMIT_NOFILE, &fewer);
  EXPECT_EQ(Read().open_files, 200);
  setrlimit(RLIMIT_NOFILE, &old);
}

TEST_F(MachineFactsTest, AsksTheLibrariesForTheirVersions) {
  const MachineFacts facts = Read();
  EXPECT_TRUE(facts.onednn.find('.') != std::string::npos) << facts.onednn;
  EXPECT_TRUE(facts.rocksdb.find('.') != std::string::npos) << facts.rocksdb;
}

}  // namespace
}  // namespace oarlock::cli
