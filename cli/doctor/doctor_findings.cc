#include "cli/doctor/doctor_findings.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/civil_time.h"
#include "absl/time/time.h"

namespace oarlock::cli {
namespace {

using Verdict = Finding::Verdict;

// A server has a connection for each worker and server, and up to 768 files of
// two databases.
constexpr uint64_t kOpenFilesForAJob = 1024;
constexpr uint64_t kOpenFilesForAProgram = 256;
// The processes of a small job have about 40 threads each.
constexpr uint64_t kThreadsForAJob = 1024;
constexpr uint64_t kThreadsForAProgram = 256;
constexpr uint64_t kMemoryForAJob = uint64_t{2} << 30;
constexpr uint64_t kMemoryForAProgram = uint64_t{256} << 20;
constexpr uint64_t kSharedMemoryOfNccl = uint64_t{64} << 20;
constexpr uint64_t kDiskForAJob = uint64_t{2} << 30;
constexpr uint64_t kDiskForAProgram = uint64_t{64} << 20;
// Certificates are refused on a clock that is before this.
constexpr int kFirstSaneYear = 2023;

std::string Count(uint64_t value) {
  return value == kUnlimited ? "unlimited" : absl::StrCat(value);
}

std::string Size(uint64_t bytes) {
  if (bytes == kUnlimited) return "unlimited";
  return bytes < uint64_t{1} << 30
             ? absl::StrFormat("%.0f MiB", bytes / 1048576.0)
             : absl::StrFormat("%.1f GiB", bytes / 1073741824.0);
}

// By two bounds, with one advice.
Finding Judged(std::string subject, std::string found, uint64_t value,
               uint64_t enough, uint64_t least, std::string advice) {
  Finding finding{Verdict::kOk, std::move(subject), std::move(found), ""};
  if (value < enough) {
    finding.verdict = value < least ? Verdict::kBad : Verdict::kWarn;
    finding.advice = std::move(advice);
  }
  return finding;
}

Finding OpenFiles(const MachineFacts& facts) {
  return Judged("open files",
                absl::StrCat(Count(facts.open_files), " of at most ",
                             Count(facts.open_files_max)),
                facts.open_files, kOpenFilesForAJob, kOpenFilesForAProgram,
                absl::StrCat("a server takes one for each worker and up to 768 "
                             "for files; ulimit -n ",
                             kOpenFilesForAJob * 4,
                             ", or nofile in /etc/security/limits.conf"));
}

Finding Threads(const MachineFacts& facts) {
  return Judged(
      "threads", Count(facts.threads_max), facts.threads_max, kThreadsForAJob,
      kThreadsForAProgram,
      absl::StrCat("a process takes about 40; ulimit -u ", kThreadsForAJob * 4,
                   ", or a larger pids limit of the container"));
}

Finding CoreFiles(const MachineFacts& facts) {
  return {Verdict::kOk, "core files",
          facts.core_bytes == 0
              ? "none; a crash leaves its stack in the log"
              : absl::StrCat("up to ", Size(facts.core_bytes)),
          ""};
}

Finding Memory(const MachineFacts& facts) {
  if (facts.memory_bytes == 0) {
    return {Verdict::kWarn, "memory", "not known",
            "/proc/meminfo tells nothing; mount /proc"};
  }
  return Judged("memory",
                absl::StrCat(Size(facts.free_memory_bytes), " free of ",
                             Size(facts.memory_bytes)),
                facts.free_memory_bytes, kMemoryForAJob, kMemoryForAProgram,
                "end what takes it, or keep rows on disk with "
                "--memory_budget_mb and --tier_dir");
}

Finding HugePages(const MachineFacts& facts) {
  const std::string& choice = facts.transparent_huge_pages;
  if (choice == "always" || choice == "madvise") {
    return {Verdict::kOk, "huge pages", "transparent: " + choice, ""};
  }
  return {Verdict::kWarn, "huge pages",
          "transparent: " + (choice.empty() ? "none" : choice),
          "tables are 10 to 20 % slower; echo madvise > "
          "/sys/kernel/mm/transparent_hugepage/enabled"};
}

Finding SharedMemory(const MachineFacts& facts) {
  return Judged("/dev/shm", Size(facts.shared_memory_bytes),
                facts.shared_memory_bytes, kSharedMemoryOfNccl, 0,
                "GPUs of one machine sum through it (NCCL), nothing else does; "
                "mount a larger one, docker run --shm-size 1g");
}

Finding TheClock(const MachineFacts& facts) {
  const std::string text =
      absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", facts.now, absl::UTCTimeZone());
  if (absl::ToCivilYear(facts.now, absl::UTCTimeZone()) <
      absl::CivilYear(kFirstSaneYear)) {
    return {Verdict::kBad, "clock", text,
            "it is wrong: certificates of TLS are refused; set it, and run "
            "chrony or systemd-timesyncd"};
  }
  if (!facts.clock_is_synchronised) {
    return {Verdict::kWarn, "clock", text + ", not synchronised",
            "times in logs of several machines do not compare; run chrony or "
            "systemd-timesyncd"};
  }
  return {Verdict::kOk, "clock", text + ", synchronised", ""};
}

Finding Ports(const MachineFacts& facts) {
  if (!facts.listen_error.empty()) {
    return {Verdict::kBad, "ports", facts.listen_error,
            "servers cannot be reached; ip link set lo up"};
  }
  const std::string range = absl::StrCat("kernel's own ", facts.first_own_port,
                                         " to ", facts.last_own_port);
  if (!facts.busy_ports.empty()) {
    return {Verdict::kWarn, "ports",
            absl::StrCat("busy: ", absl::StrJoin(facts.busy_ports, ", "), "; ",
                         range),
            "another program listens there; end it, or give --start_port"};
  }
  if (facts.first_own_port > 0 &&
      facts.first_own_port <= std::end(kUsualPorts)[-1] &&
      facts.last_own_port >= kUsualPorts[0]) {
    return {
        Verdict::kWarn, "ports", range,
        absl::StrCat("a connection may take a server's usual port (",
                     kUsualPorts[0], " to ", std::end(kUsualPorts)[-1],
                     "); sysctl net.ipv4.ip_local_port_range='32768 60999', "
                     "or give --start_port")};
  }
  return {Verdict::kOk, "ports", "loopback listens; " + range, ""};
}

Finding Cpu(const MachineFacts& facts) {
  const std::vector<std::string>& features = facts.cpu_features;
  const std::string found = features.empty()
                                ? "none of AVX2, AVX-512, bfloat16, AMX"
                                : absl::StrJoin(features, " ");
  if (std::find(features.begin(), features.end(), "avx2") == features.end()) {
    return {Verdict::kWarn, "processor", found,
            "workers compute several times slower; another machine, or a "
            "virtual machine that shows the host's processor as it is"};
  }
  return {Verdict::kOk, "processor", found, ""};
}

Finding Libraries(const MachineFacts& facts) {
  return {Verdict::kOk, "libraries",
          absl::StrCat("oneDNN ", facts.onednn, ", RocksDB ", facts.rocksdb,
                       "; ", facts.gpus),
          ""};
}

Finding Disk(const MachineFacts& facts) {
  return Judged(
      "disk",
      absl::StrCat(Size(facts.free_disk_bytes), " free in ", facts.folder),
      facts.free_disk_bytes, kDiskForAJob, kDiskForAProgram,
      "logs, data and checkpoints need room; remove files, or run in "
      "another folder");
}

const char* Name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kWarn:
      return "warn";
    case Verdict::kBad:
      return "bad";
  }
  return "";
}

}  // namespace

std::vector<Finding> FindingsOf(const MachineFacts& facts) {
  return {OpenFiles(facts), Threads(facts),   CoreFiles(facts),
          Memory(facts),    HugePages(facts), SharedMemory(facts),
          TheClock(facts),  Ports(facts),     Cpu(facts),
          Libraries(facts), Disk(facts)};
}

std::string FindingsText(absl::Span<const Finding> findings) {
  std::string text;
  for (const Finding& finding : findings) {
    absl::StrAppendFormat(&text, "%-5s %-11s %s", Name(finding.verdict),
                          finding.subject, finding.found);
    if (!finding.advice.empty()) absl::StrAppend(&text, "; ", finding.advice);
    absl::StrAppend(&text, "\n");
  }
  return text;
}

}  // namespace oarlock::cli
