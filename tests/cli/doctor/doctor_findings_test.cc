#include "cli/doctor/doctor_findings.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/civil_time.h"
#include "absl/time/time.h"
#include "cli/doctor/machine_facts.h"

namespace oarlock::cli {
namespace {

using Verdict = Finding::Verdict;

MachineFacts Healthy() {
  MachineFacts facts;
  facts.open_files = 1 << 20;
  facts.threads_max = 30000;
  facts.memory_bytes = uint64_t{16} << 30;
  facts.free_memory_bytes = uint64_t{12} << 30;
  facts.transparent_huge_pages = "madvise";
  facts.shared_memory_bytes = uint64_t{8} << 30;
  facts.now =
      absl::FromCivil(absl::CivilSecond(2026, 5, 1, 12), absl::UTCTimeZone());
  facts.clock_is_synchronised = true;
  facts.first_own_port = 32768;
  facts.last_own_port = 60999;
  facts.cpu_features = {"avx2"};
  facts.onednn = "2.7.3";
  facts.rocksdb = "7.8.3";
  facts.gpus = "no GPU: none found";
  facts.folder = "/home/me";
  facts.free_disk_bytes = uint64_t{100} << 30;
  return facts;
}

TEST(DoctorFindingsTest, NothingIsWrongWithAHealthyMachine) {
  const std::vector<Finding> findings = FindingsOf(Healthy());
  EXPECT_EQ(findings.size(), 11);
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.verdict, Verdict::kOk) << finding.subject;
    EXPECT_EQ(finding.advice, "") << finding.subject;
    EXPECT_NE(finding.found, "") << finding.subject;
  }
}

struct Broken {
  std::function<void(MachineFacts&)> breaks;
  std::string subject;
  Verdict verdict;
  // Of what was found, and of what to do.
  std::string found;
  std::string advice;
};

TEST(DoctorFindingsTest, OneBrokenThingIsNamedWithWhatToDoAndNothingElse) {
  const Broken all[] = {
      {[](MachineFacts& f) { f.open_files = 512; }, "open files",
       Verdict::kWarn, "512", "ulimit -n 4096"},
      {[](MachineFacts& f) { f.open_files = 64; }, "open files", Verdict::kBad,
       "64", "ulimit -n"},
      {[](MachineFacts& f) { f.threads_max = 1000; }, "threads", Verdict::kWarn,
       "1000", "ulimit -u"},
      {[](MachineFacts& f) { f.threads_max = 100; }, "threads", Verdict::kBad,
       "100", "ulimit -u"},
      {[](MachineFacts& f) { f.free_memory_bytes = 512 << 20; }, "memory",
       Verdict::kWarn, "512 MiB free of 16.0 GiB", "--memory_budget_mb"},
      {[](MachineFacts& f) { f.free_memory_bytes = 100 << 20; }, "memory",
       Verdict::kBad, "100 MiB", "--memory_budget_mb"},
      {[](MachineFacts& f) { f.memory_bytes = 0; }, "memory", Verdict::kWarn,
       "not known", "/proc"},
      {[](MachineFacts& f) { f.transparent_huge_pages = "never"; },
       "huge pages", Verdict::kWarn, "never", "echo madvise >"},
      {[](MachineFacts& f) { f.transparent_huge_pages = ""; }, "huge pages",
       Verdict::kWarn, "none", "echo madvise >"},
      {[](MachineFacts& f) { f.shared_memory_bytes = 1 << 20; }, "/dev/shm",
       Verdict::kWarn, "1 MiB", "--shm-size"},
      {[](MachineFacts& f) { f.now = absl::UnixEpoch(); }, "clock",
       Verdict::kBad, "1970-01-01", "chrony"},
      {[](MachineFacts& f) { f.clock_is_synchronised = false; }, "clock",
       Verdict::kWarn, "not synchronised", "chrony"},
      {[](MachineFacts& f) { f.listen_error = "cannot listen"; }, "ports",
       Verdict::kBad, "cannot listen", "ip link set lo up"},
      {[](MachineFacts& f) {
         f.busy_ports = {6170, 6174};
       },
       "ports", Verdict::kWarn, "busy: 6170, 6174", "--start_port"},
      {[](MachineFacts& f) { f.first_own_port = 1024; }, "ports",
       Verdict::kWarn, "1024 to 60999", "ip_local_port_range"},
      {[](MachineFacts& f) { f.cpu_features = {}; }, "processor",
       Verdict::kWarn, "none of AVX2", "another machine"},
      {[](MachineFacts& f) { f.free_disk_bytes = 1 << 30; }, "disk",
       Verdict::kWarn, "1.0 GiB free in /home/me", "remove files"},
      {[](MachineFacts& f) { f.free_disk_bytes = 0; }, "disk", Verdict::kBad,
       "0 MiB", "remove files"},
  };
  for (const Broken& broken : all) {
    MachineFacts facts = Healthy();
    broken.breaks(facts);
    int num_wrong = 0;
    for (const Finding& finding : FindingsOf(facts)) {
      if (finding.verdict == Verdict::kOk) continue;
      ++num_wrong;
      EXPECT_EQ(finding.subject, broken.subject);
      EXPECT_EQ(finding.verdict, broken.verdict) << finding.subject;
      EXPECT_TRUE(absl::StrContains(finding.found, broken.found))
          << finding.found;
      EXPECT_TRUE(absl::StrContains(finding.advice, broken.advice))
          << finding.advice;
    }
    EXPECT_EQ(num_wrong, 1) << broken.subject << ": " << broken.found;
  }
}

TEST(DoctorFindingsTest, EachIsOneLineWithItsVerdictFirst) {
  EXPECT_EQ(FindingsText({{Verdict::kOk, "memory", "8.0 GiB", ""},
                          {Verdict::kWarn, "clock", "slow", "set it"},
                          {Verdict::kBad, "disk", "full", "make room"}}),
            "ok    memory      8.0 GiB\n"
            "warn  clock       slow; set it\n"
            "bad   disk        full; make room\n");
}

}  // namespace
}  // namespace oarlock::cli
