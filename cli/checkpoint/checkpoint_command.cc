#include "cli/checkpoint/checkpoint_command.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/output/output_file.h"
#include "base/status_macros.h"
#include "checkpoint/checkpoint_diff.h"
#include "checkpoint/checkpoint_export.h"
#include "checkpoint/checkpoint_import.h"
#include "checkpoint/checkpoint_rows.h"
#include "checkpoint/manifest.h"
#include "cli/checkpoint/checkpoint_copy.h"
#include "cli/checkpoint/checkpoint_view.h"
#include "data/reader/byte_source.h"
#include "data/reader/line_reader.h"
#include "data/reader/pipe_source.h"
#include "flags/command_line.h"
#include "flags/message_flags.h"
#include "fleet/role/job_description.h"
#include "fleet/serving/model_export.h"
#include "proto/config/checkpoint_config.pb.h"
#include "proto/config/job_config.pb.h"
#include "storage/file_system.h"

namespace oarlock::cli {
namespace {

constexpr int kMaxThreads = 64;

flags::CommandSyntax Syntax() {
  return {
      .name = "oarlock checkpoint",
      .description =
          "Looks at checkpoints on disk, and copies them. A DIR is a folder of "
          "checkpoints, of which the current one is taken, or one of its "
          "ckpt-N.",
      .examples =
          "  # what is in it\n"
          "  oarlock checkpoint inspect checkpoints\n"
          "  # exit code 0: sound; 1: the damaged file is named\n"
          "  oarlock checkpoint verify checkpoints/ckpt-00000042\n"
          "  # exit code 0: training would go on the same from both\n"
          "  oarlock checkpoint diff checkpoints/ckpt-00000041 "
          "checkpoints/ckpt-00000042\n"
          "  # to a store, or to another folder; later back\n"
          "  oarlock checkpoint copy checkpoints s3://bucket/ctr\n"
          "  # PaddlePaddle's text rows\n"
          "  oarlock checkpoint export checkpoints --table embedding --output "
          "rows.txt\n"
          "  # a folder that programs without Oarlock score with\n"
          "  oarlock checkpoint export-model checkpoints --output model\n"
          "  # and a checkpoint for 4 servers that has them\n"
          "  oarlock checkpoint import rows.txt --like checkpoints --table "
          "embedding --server_num 4 --output imported\n",
      .positionals = flags::Positionals::kAny,
      .positional_names =
          "inspect|verify|diff|export|export-model DIR [DIR], copy FROM TO, "
          "import FILE...",
      .first_words = {"inspect", "verify", "diff", "copy", "export",
                      "export-model", "import"},
  };
}

int NumThreads(const v1::CheckpointConfig& config) {
  if (config.threads() > 0) return config.threads();
  return std::clamp<int>(std::thread::hardware_concurrency(), 1, kMaxThreads);
}

absl::StatusOr<checkpoint::OpenCheckpoint> Open(
    const std::string& path, const v1::CheckpointConfig& config) {
  OARLOCK_ASSIGN_OR_RETURN(
      checkpoint::LoadedCheckpoint loaded,
      checkpoint::LoadCheckpoint(storage::FileSystem::Real(), path));
  return checkpoint::VerifyAndOpen(storage::FileSystem::Real(),
                                   std::move(loaded), NumThreads(config));
}

// Each command: the exit code, or why there is none.

absl::StatusOr<int> Inspect(const std::string& path,
                            const v1::CheckpointConfig& config) {
  OARLOCK_ASSIGN_OR_RETURN(
      const checkpoint::LoadedCheckpoint loaded,
      checkpoint::LoadCheckpoint(storage::FileSystem::Real(), path));
  using Handler = nlohmann::ordered_json::error_handler_t;
  const std::string text =
      config.json() ? CheckpointJson(loaded).dump(
                          2, ' ', /*ensure_ascii=*/false, Handler::replace) +
                          "\n"
                    : FormatCheckpoint(loaded);
  std::fputs(text.c_str(), stdout);
  return 0;
}

absl::StatusOr<int> Verify(const std::string& path,
                           const v1::CheckpointConfig& config) {
  OARLOCK_ASSIGN_OR_RETURN(const checkpoint::OpenCheckpoint open,
                           Open(path, config));
  OARLOCK_RETURN_IF_ERROR(checkpoint::VerifyTables(open));
  const v1::CheckpointManifest& manifest = open.loaded.manifest;
  size_t num_files = 0;
  uint64_t bytes = 0;
  for (const v1::ServerPart& server : manifest.servers()) {
    num_files += server.files_size();
    for (const v1::FileSum& file : server.files()) bytes += file.bytes();
  }
  std::printf("%s is sound: %d servers, %d tables, %zu files, %llu bytes\n",
              open.loaded.folder.c_str(), manifest.servers_size(),
              manifest.tables_size(), num_files,
              static_cast<unsigned long long>(bytes));
  return 0;
}

absl::StatusOr<int> Diff(const std::string& a_path, const std::string& b_path,
                         const v1::CheckpointConfig& config) {
  OARLOCK_ASSIGN_OR_RETURN(const checkpoint::OpenCheckpoint a,
                           Open(a_path, config));
  OARLOCK_ASSIGN_OR_RETURN(const checkpoint::OpenCheckpoint b,
                           Open(b_path, config));
  OARLOCK_ASSIGN_OR_RETURN(
      const std::vector<std::string> differences,
      checkpoint::DiffCheckpoints(a, b, config.differences()));
  for (const std::string& difference : differences) {
    std::printf("%s\n", difference.c_str());
  }
  if (differences.empty()) {
    std::printf("equal: training would go on the same from %s and %s\n",
                a.loaded.folder.c_str(), b.loaded.folder.c_str());
  }
  return differences.empty() ? 0 : 1;
}

std::vector<std::string> FilesOf(const checkpoint::LoadedCheckpoint& loaded) {
  std::vector<std::string> files = {absl::StrCat(loaded.folder, "/MANIFEST")};
  for (const v1::ServerPart& part : loaded.manifest.servers()) {
    for (const v1::FileSum& file : part.files()) {
      files.push_back(
          absl::StrCat(loaded.folder, "/", part.directory(), "/", file.name()));
    }
  }
  return files;
}

absl::StatusOr<int> Export(const std::string& path,
                           const v1::CheckpointConfig& config) {
  OARLOCK_ASSIGN_OR_RETURN(const checkpoint::OpenCheckpoint open,
                           Open(path, config));
  OARLOCK_RETURN_IF_ERROR(
      CheckNotAnInput(config.output(), FilesOf(open.loaded)));
  OARLOCK_ASSIGN_OR_RETURN(
      const uint64_t num_rows,
      checkpoint::ExportRows(open, config.table(), config.output()));
  std::fprintf(
      config.output() == "-" ? stderr : stdout, "wrote %llu rows to %s\n",
      static_cast<unsigned long long>(num_rows), config.output().c_str());
  return 0;
}

// InvalidArgument is for the command line.
absl::Status OfFile(const absl::Status& status) {
  return absl::IsInvalidArgument(status) ? absl::DataLossError(status.message())
                                         : status;
}

absl::Status ImportFile(const std::string& path, const std::string& command,
                        const Clock& clock,
                        checkpoint::CheckpointImport& import) {
  absl::StatusOr<std::unique_ptr<data::ByteSource>> source =
      command.empty() ? data::OpenFile(path)
                      : data::OpenPipe(command, path, clock);
  OARLOCK_RETURN_IF_ERROR(OfFile(source.status()));
  data::LineReader lines(path, *std::move(source));
  import.BeginFile(path);
  for (std::string_view line; lines.Next(&line);) {
    OARLOCK_RETURN_IF_ERROR(import.AddLine({line.data(), line.size()}));
  }
  return OfFile(lines.status());
}

absl::StatusOr<int> Import(const std::vector<std::string>& paths,
                           const v1::CheckpointConfig& config,
                           const Clocks& clocks) {
  OARLOCK_ASSIGN_OR_RETURN(const checkpoint::OpenCheckpoint like,
                           Open(config.like(), config));
  checkpoint::CheckpointImportOptions options;
  options.directory = config.output();
  options.table = config.table();
  options.num_servers = config.server_num();
  options.memory_bytes = uint64_t{1} << 20;
  options.memory_bytes *= config.memory_mb();
  options.clocks = clocks;
  OARLOCK_ASSIGN_OR_RETURN(
      const std::unique_ptr<checkpoint::CheckpointImport> import,
      checkpoint::CheckpointImport::Begin(&like, options,
                                          storage::FileSystem::Real()));
  for (const std::string& path : paths) {
    OARLOCK_RETURN_IF_ERROR(
        ImportFile(path, config.pipe_command(), *clocks.monotonic, *import));
  }
  OARLOCK_ASSIGN_OR_RETURN(const uint64_t num_rows, import->Finish());
  std::printf("made %s of %llu rows\n", import->folder().c_str(),
              static_cast<unsigned long long>(num_rows));
  return 0;
}

absl::StatusOr<int> ExportModelTo(const std::string& path,
                                  const v1::CheckpointConfig& config,
                                  const v1::JobConfig& job) {
  OARLOCK_ASSIGN_OR_RETURN(const checkpoint::OpenCheckpoint open,
                           Open(path, config));
  for (const std::string& warning : Contradictions(
           open.loaded.manifest.description(), open.loaded.folder, job)) {
    std::fprintf(stderr, "oarlock checkpoint: warning: %s\n", warning.c_str());
  }
  ModelExportOptions options;
  options.folder = config.output();
  options.job = job;
  options.memory_bytes = static_cast<uint64_t>(config.memory_mb()) << 20;
  OARLOCK_ASSIGN_OR_RETURN(const ModelExportReport report,
                           ExportModel(open, options));
  std::printf(
      "wrote %s with %llu rows and %llu dense parameters to %s, %llu "
      "bytes\n",
      report.model.c_str(), static_cast<unsigned long long>(report.num_rows),
      static_cast<unsigned long long>(report.num_parameters),
      config.output().c_str(), static_cast<unsigned long long>(report.bytes));
  return 0;
}

absl::StatusOr<int> Run(const std::vector<std::string>& words,
                        const v1::CheckpointConfig& config,
                        const v1::JobConfig& job, const Clocks& clocks) {
  const std::string what = words.empty() ? "" : words[0];
  if (words.size() == 2 && what == "inspect") return Inspect(words[1], config);
  if (words.size() == 2 && what == "verify") return Verify(words[1], config);
  if (words.size() == 3 && what == "diff") {
    return Diff(words[1], words[2], config);
  }
  if (words.size() == 3 && what == "copy") {
    return BecomeCopy(words[1], words[2], config.python());
  }
  if (words.size() == 2 && what == "export") {
    if (!config.output().empty()) return Export(words[1], config);
    return absl::InvalidArgumentError(
        "export needs --output, the file that it writes");
  }
  if (words.size() == 2 && what == "export-model") {
    if (!config.output().empty()) return ExportModelTo(words[1], config, job);
    return absl::InvalidArgumentError(
        "export-model needs --output, the folder that it makes");
  }
  if (words.size() >= 2 && what == "import") {
    if (!config.output().empty() && !config.like().empty()) {
      return Import({words.begin() + 1, words.end()}, config, clocks);
    }
    return absl::InvalidArgumentError(
        "import needs --like, the checkpoint that gives the tables, and "
        "--output, the folder in which it makes one");
  }
  return absl::InvalidArgumentError(
      "say what to do with which checkpoint: inspect DIR, verify DIR, diff DIR "
      "DIR, copy FROM TO, export DIR --output FILE, export-model DIR --output "
      "DIR, or import "
      "FILE... --like DIR --output "
      "DIR");
}

}  // namespace

flags::CommandText DescribeCheckpoint() {
  v1::CheckpointConfig config;
  v1::JobConfig job;
  return flags::DescribeCommand(Syntax(),
                                {{{&config}, {&job, DescribingFlags()}}});
}

int RunCheckpoint(int argc, char** argv, const Clocks& clocks) {
  const flags::CommandSyntax syntax = Syntax();
  v1::CheckpointConfig config;
  // What export-model takes instead of what the checkpoint says.
  v1::JobConfig job;
  const absl::StatusOr<flags::ParsedCommandLine> parsed =
      flags::ParseCommandLine(syntax, flags::Words(argc, argv, 2),
                              {{{&config}, {&job, DescribingFlags()}}});
  if (std::optional<int> exit_code = flags::FinishEarly(syntax, parsed)) {
    return *exit_code;
  }
  const absl::StatusOr<int> exit_code =
      Run(parsed->positionals, config, job, clocks);
  if (exit_code.ok()) return *exit_code;
  if (absl::IsInvalidArgument(exit_code.status())) {
    return flags::ReportUsageError(syntax, exit_code.status());
  }
  std::fprintf(
      stderr, "oarlock checkpoint: %s\n",
      std::string(flags::InOneLine(exit_code.status()).message()).c_str());
  return 1;
}

}  // namespace oarlock::cli
