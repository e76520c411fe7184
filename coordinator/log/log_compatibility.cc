#include "coordinator/log/log_compatibility.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "coordinator/ranges/train_phase.h"

namespace oarlock::coordinator {
namespace {

constexpr char kName[] = "/RUN";
constexpr size_t kMaxBytes = 1024;
constexpr absl::string_view kVersion = "1";
constexpr char kCoordinatorLog[] = "/coordinator";

std::string ServerLogDir(uint32_t server) {
  return absl::StrFormat("/server-%03d", server);
}

// The first log that is missing, because it was removed; empty: none.
absl::StatusOr<std::string> FirstMissing(storage::FileSystem* files,
                                         const std::string& log_dir,
                                         uint32_t num_servers) {
  std::vector<std::string> logs = {kCoordinatorLog};
  for (uint32_t i = 0; i < num_servers; ++i) logs.push_back(ServerLogDir(i));
  for (const std::string& log : logs) {
    OARLOCK_ASSIGN_OR_RETURN(const bool exists, files->Exists(log_dir + log));
    if (!exists) return log_dir + log;
  }
  return std::string();
}

// A clause that names a difference; empty: there is none.
std::string Difference(const LogCompatibility& before,
                       const LogCompatibility& now) {
  if (before.boot_id.empty() || before.boot_id != now.boot_id) {
    return "they are of another boot of the system, or of several hosts";
  }
  const auto differ = [](absl::string_view what, auto from, auto to) {
    return absl::StrCat("they are of ", from, " ", what, ", the job has ", to,
                        " now");
  };
  if (before.num_servers != now.num_servers) {
    return differ("servers", before.num_servers, now.num_servers);
  }
  if (before.num_partitions != now.num_partitions) {
    return differ("partitions", before.num_partitions, now.num_partitions);
  }
  if (before.lease_ms != now.lease_ms) {
    return differ("ms as --lease_s", before.lease_ms, now.lease_ms);
  }
  if (before.tick_ms != now.tick_ms) {
    return differ("ms as --tick_s", before.tick_ms, now.tick_ms);
  }
  return "";
}

// NotFound: there is no file.
absl::StatusOr<LogCompatibility> Read(storage::FileSystem* files,
                                      const std::string& log_dir) {
  // This reads one file, even if server 0 replaces it meanwhile.
  OARLOCK_ASSIGN_OR_RETURN(const std::unique_ptr<storage::SequentialFile> file,
                           files->OpenToRead(log_dir + kName));
  std::string line(kMaxBytes, '\0');
  OARLOCK_ASSIGN_OR_RETURN(const size_t bytes,
                           file->Read(absl::MakeSpan(line)));
  line.resize(bytes);
  return ParseLogCompatibility(line);
}

}  // namespace

std::string FormatLogCompatibility(const LogCompatibility& logs) {
  return absl::StrCat(kVersion, " ", logs.boot_id, " ", logs.num_servers, " ",
                      logs.num_partitions, " ", logs.lease_ms, " ",
                      logs.tick_ms, " ", logs.num_workers, " ",
                      logs.continued ? 1 : 0, "\n");
}

absl::StatusOr<LogCompatibility> ParseLogCompatibility(absl::string_view line) {
  LogCompatibility logs;
  const std::string text(line);
  const std::vector<std::string> words =
      absl::StrSplit(text.substr(0, text.empty() ? 0 : text.size() - 1), ' ');
  int continued = 0;
  if (words.size() != 8 || text.back() != '\n' || words[0] != kVersion ||
      !absl::SimpleAtoi(words[2], &logs.num_servers) ||
      !absl::SimpleAtoi(words[3], &logs.num_partitions) ||
      !absl::SimpleAtoi(words[4], &logs.lease_ms) ||
      !absl::SimpleAtoi(words[5], &logs.tick_ms) ||
      !absl::SimpleAtoi(words[6], &logs.num_workers) ||
      !absl::SimpleAtoi(words[7], &continued)) {
    return absl::DataLossError("it is not what this release writes");
  }
  logs.boot_id = words[1];
  logs.continued = continued != 0;
  return logs;
}

absl::StatusOr<ReplayDecision> DecideReplay(storage::FileSystem* files,
                                            const std::string& log_dir,
                                            const LogCompatibility& now) {
  ReplayDecision decision;
  const absl::StatusOr<LogCompatibility> before = Read(files, log_dir);
  if (absl::IsNotFound(before.status())) {
    decision.why =
        "no job with logs that suffice (async, leased data, on one host) has "
        "died there";
    return decision;
  }
  if (absl::IsDataLoss(before.status())) {
    decision.why = absl::StrCat(log_dir, kName,
                                " cannot be read: ", before.status().message());
    return decision;
  }
  OARLOCK_RETURN_IF_ERROR(before.status());
  decision.num_workers = before->num_workers;
  decision.why = Difference(*before, now);
  if (!decision.why.empty()) return decision;
  OARLOCK_ASSIGN_OR_RETURN(const std::string missing,
                           FirstMissing(files, log_dir, now.num_servers));
  if (!missing.empty()) {
    decision.why = absl::StrCat(missing, " is missing");
    return decision;
  }
  decision.go_on = true;
  return decision;
}

absl::Status ForgetLogs(storage::FileSystem* files,
                        const std::string& log_dir) {
  OARLOCK_ASSIGN_OR_RETURN(const bool exists, files->Exists(log_dir + kName));
  if (!exists) return absl::OkStatus();
  const absl::Status removed = files->RemoveFile(log_dir + kName);
  // Another server of the job may have removed it.
  return absl::IsNotFound(removed) ? absl::OkStatus() : removed;
}

absl::StatusOr<std::unique_ptr<RunFile>> RunFile::Create(
    storage::FileSystem* files, const std::string& log_dir,
    const LogCompatibility& now, Begin begin) {
  LogCompatibility logs = now;
  if (begin != Begin::kWithoutLogs) {
    const absl::StatusOr<LogCompatibility> before = Read(files, log_dir);
    if (before.ok()) {
      logs.num_workers = std::max(logs.num_workers, before->num_workers);
      logs.continued = before->continued || begin == Begin::kFromLogs;
    } else if (!absl::IsNotFound(before.status())) {
      return before.status();
    }
  } else {
    OARLOCK_RETURN_IF_ERROR(ForgetLogs(files, log_dir));
  }
  // A successor has no record of what was forbidden before, so it may not
  // write.
  auto run_file = absl::WrapUnique(new RunFile(
      files, log_dir, logs,
      /*may_write=*/begin == Begin::kWithoutLogs && !logs.boot_id.empty()));
  if (begin == Begin::kFromLogs) OARLOCK_RETURN_IF_ERROR(run_file->Write());
  return run_file;
}

absl::Status RunFile::RecordCall(const v1::CoordinatorCall& call) {
  if (call.has_define_phase() && call.define_phase().ranges().empty() &&
      EpochOfPhaseName(call.define_phase().phase_name()).has_value()) {
    return Forbid("data that is not leased");
  }
  if (!call.has_server_heartbeat() ||
      call.server_heartbeat().server_index() >= now_.num_servers) {
    return absl::OkStatus();
  }
  absl::MutexLock lock(&mutex_);
  if (!may_write_) return absl::OkStatus();
  heard_of_.insert(call.server_heartbeat().server_index());
  if (heard_of_.size() < now_.num_servers) return absl::OkStatus();
  may_write_ = false;
  // Without the file a resume continues from the checkpoint.
  const absl::Status written = Write();
  if (!written.ok()) {
    Log().warn("no later run can go on from the logs: {}",
               std::string(written.message()));
  }
  return absl::OkStatus();
}

absl::Status RunFile::Forbid(absl::string_view what) {
  if (now_.continued) {
    return absl::FailedPreconditionError(
        absl::StrCat("the job goes on from logs, which does not go with ", what,
                     "; resume it with the flags that it had, or remove ",
                     log_dir_, " and resume it from its checkpoint"));
  }
  absl::MutexLock lock(&mutex_);
  may_write_ = false;
  return ForgetLogs(files_, log_dir_);
}

absl::Status RunFile::Write() const {
  const std::string path = log_dir_ + kName;
  const std::string next = path + ".tmp";
  OARLOCK_ASSIGN_OR_RETURN(const std::unique_ptr<storage::AppendedFile> file,
                           files_->CreateFile(next));
  OARLOCK_RETURN_IF_ERROR(file->Append(FormatLogCompatibility(now_)));
  OARLOCK_RETURN_IF_ERROR(file->Close());
  return files_->Rename(next, path);
}

}  // namespace oarlock::coordinator
