#include "data/reader/input_file.h"

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/status_macros.h"
#include "data/reader/compressed_source.h"
#include "data/reader/pipe_source.h"

namespace oarlock::data {
namespace {

constexpr absl::Duration kFolderTimeout = absl::Minutes(1);
constexpr absl::Duration kFolderPoll = absl::Milliseconds(100);

}  // namespace

bool CanSeek(const DataOptions& options, const std::string& path) {
  return options.pipe_command.empty() &&
         CompressionOf(path) == Compression::kNone;
}

absl::StatusOr<std::unique_ptr<ByteSource>> OpenInputBytes(
    const DataOptions& options, const std::string& path) {
  // The command reads the file itself, without decompression.
  return options.pipe_command.empty()
             ? OpenDecompressed(path)
             : OpenPipe(options.pipe_command, path, *options.clocks.monotonic,
                        options.while_silent);
}

absl::StatusOr<std::unique_ptr<LineReader>> OpenInput(
    const DataOptions& options, const std::string& path) {
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> bytes,
                           OpenInputBytes(options, path));
  return std::make_unique<LineReader>(path, std::move(bytes));
}

absl::Status CheckInput(const DataOptions& options, const std::string& path) {
  if (!options.pipe_command.empty()) return absl::OkStatus();
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> bytes,
                           OpenDecompressed(path));
  std::vector<char> head(kBinaryProbeBytes);
  OARLOCK_ASSIGN_OR_RETURN(const size_t n,
                           bytes->Read(head.data(), head.size()));
  return CheckText({head.data(), n}, path);
}

void AwaitFolderOf(const std::string& path, const Clock& clock) {
  const std::filesystem::path folder =
      std::filesystem::path(path).parent_path();
  if (folder.empty()) return;
  std::error_code error;
  for (absl::Duration waited;
       waited < kFolderTimeout && !std::filesystem::exists(folder, error);
       waited += kFolderPoll) {
    clock.Sleep(kFolderPoll);
  }
}

}  // namespace oarlock::data
