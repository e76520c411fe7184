#include "launch/log_files.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace oarlock::launch {
namespace {

constexpr int64_t kLogTailBytes = 64 << 10;

}  // namespace

absl::Status KeepAsOld(const std::string& path) {
  const std::string old = path + ".old";
  if (std::rename(path.c_str(), old.c_str()) == 0 || errno == ENOENT) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(
      absl::StrCat("the log ", path, " cannot be renamed to ", old, ": ",
                   std::strerror(errno), "; give another --log_dir"));
}

std::vector<std::string> LastLines(const std::string& path, int max_lines) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(0, std::ios::end);
  const int64_t size = file.tellg();
  if (!file || size <= 0) return {};
  const int64_t begin = std::max<int64_t>(0, size - kLogTailBytes);
  file.seekg(begin);
  std::string text(size - begin, '\0');
  file.read(text.data(), text.size());
  text.resize(file.gcount());
  if (!text.empty() && text.back() == '\n') text.pop_back();
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  if (lines.size() > static_cast<size_t>(max_lines)) {
    lines.erase(lines.begin(), lines.end() - max_lines);
  }
  return lines;
}

}  // namespace oarlock::launch
