#include "cluster/job_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace oarlock::cluster {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kTokenBytes = 32;
constexpr mode_t kOwnersAlone = 0600;
constexpr mode_t kReadable = 0644;

std::string Absolute(const std::string& log_dir, const char* name) {
  std::error_code error;
  const std::filesystem::path folder =
      std::filesystem::absolute(log_dir.empty() ? "." : log_dir, error);
  return (folder / name).lexically_normal().string();
}

// Never with wider rights than `mode`, and never by halves: what is there
// already is replaced.
absl::Status WriteWhole(const std::string& path, const std::string& text,
                        mode_t mode) {
  const std::string made = absl::StrCat(path, ".new");
  const auto failed = [&](const char* what) {
    const absl::Status status = absl::UnavailableError(
        absl::StrCat(what, " ", made, ": ", std::strerror(errno)));
    unlink(made.c_str());
    return status;
  };
  unlink(made.c_str());
  const int file =
      open(made.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (file < 0) return failed("cannot make");
  const ssize_t written = write(file, text.data(), text.size());
  const bool whole = written == static_cast<ssize_t>(text.size());
  if (close(file) != 0 || !whole) return failed("cannot write");
  if (std::rename(made.c_str(), path.c_str()) != 0) {
    return failed("cannot rename");
  }
  return absl::OkStatus();
}

}  // namespace

std::string JobFilePath(const std::string& log_dir) {
  return Absolute(log_dir, "job.json");
}

std::string JobTokenPath(const std::string& log_dir) {
  return Absolute(log_dir, "token");
}

absl::Status WriteJobFile(const std::string& log_dir, const JobFile& job) {
  const Json json = {{"job_id", job.job_id},
                     {"servers", job.server_endpoints},
                     {"token_file", job.token_file}};
  const std::string text =
      json.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
  return WriteWhole(JobFilePath(log_dir), text + "\n", kReadable);
}

absl::Status WriteRandomToken(const std::string& log_dir) {
  std::string bits(kTokenBytes, '\0');
  if (getrandom(bits.data(), bits.size(), 0) !=
      static_cast<ssize_t>(bits.size())) {
    return absl::UnavailableError(absl::StrCat(
        "this machine gives no random numbers: ", std::strerror(errno)));
  }
  return WriteWhole(JobTokenPath(log_dir),
                    absl::StrCat(absl::BytesToHexString(bits), "\n"),
                    kOwnersAlone);
}

absl::StatusOr<JobFile> ReadJobFile(const std::string& log_dir) {
  const std::string path = JobFilePath(log_dir);
  const std::ifstream file(path);
  if (!file.is_open()) {
    return absl::NotFoundError(
        absl::StrCat(path, " cannot be read: ", std::strerror(errno)));
  }
  std::ostringstream text;
  text << file.rdbuf();
  const Json json =
      Json::parse(text.str(), /*cb=*/nullptr, /*allow_exceptions=*/false);
  const auto is_text = [&](const char* name) {
    return json.contains(name) && json[name].is_string();
  };
  if (!json.is_object() || !is_text("job_id") || !is_text("token_file") ||
      !json.contains("servers") || !json["servers"].is_array()) {
    return absl::DataLossError(
        absl::StrCat(path, " is not the file of a job; remove it"));
  }
  JobFile job;
  job.job_id = json["job_id"].get<std::string>();
  job.token_file = json["token_file"].get<std::string>();
  for (const Json& server : json["servers"]) {
    if (server.is_string()) {
      job.server_endpoints.push_back(server.get<std::string>());
    }
  }
  if (job.server_endpoints.empty()) {
    return absl::DataLossError(
        absl::StrCat(path, " names no server of a job; remove it"));
  }
  return job;
}

void RemoveJobFiles(const std::string& log_dir) {
  unlink(JobFilePath(log_dir).c_str());
  unlink(JobTokenPath(log_dir).c_str());
}

}  // namespace oarlock::cluster
