#include "cli/quickstart_command.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/auc_curve.h"
#include "cli/train/train_command.h"
#include "data/synthetic/criteo_generator.h"
#include "flags/command_line.h"
#include "flags/message_flags.h"
#include "fleet/serving/temporary_dir.h"
#include "proto/config/quickstart_config.pb.h"
#include "worker/report/summary.h"

namespace oarlock::cli {
namespace {

// The last one is held out to test.
constexpr int kNumFiles = 8;
// Periodic evaluations.
constexpr int kNumPoints = 8;

flags::CommandSyntax Syntax() {
  return {
      .name = "oarlock quickstart",
      .description =
          "Generates clicks, trains CTR-DNN on them with 2 servers and 2 "
          "workers on this machine, and shows how it learned.",
      .examples =
          "  oarlock quickstart\n"
          "  # data and logs stay\n"
          "  oarlock quickstart --dir demo\n",
  };
}

absl::StatusOr<data::GeneratorReport> Generate(int64_t rows,
                                               const std::string& folder) {
  data::GeneratorOptions options;
  options.rows = rows;
  options.files = kNumFiles;
  options.out_dir = folder;
  options.threads = std::max(1u, std::thread::hardware_concurrency());
  return data::GenerateCriteo(options);
}

// What a user would type.
std::vector<std::string> TrainWords(const std::string& folder, int64_t rows) {
  return {"oarlock",
          "train",
          "--server_num",
          "2",
          "--worker_num",
          "2",
          "--model",
          "ctr_dnn",
          "--train_files",
          absl::StrCat(folder, "/data/part-[0-6]"),
          "--test_files",
          absl::StrCat(folder, "/data/part-7"),
          "--evaluate_period",
          absl::StrCat(std::max<int64_t>(rows / kNumPoints, 1)),
          "--log_dir",
          absl::StrCat(folder, "/logs")};
}

absl::Status Train(std::vector<std::string> words, const Clocks& clocks) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const int exit_code =
      RunTrain(static_cast<int>(words.size()), argv.data(), clocks);
  if (exit_code == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(
      "training ended with exit code ", exit_code,
      ", for the reason above; `oarlock doctor` looks at this machine, and "
      "`oarlock quickstart --dir DIR` keeps the logs"));
}

void PrintNext(const std::string& dir) {
  if (!dir.empty()) {
    std::printf("\nData are in %s/data, logs and summary.json in %s/logs.\n",
                dir.c_str(), dir.c_str());
  }
  std::fputs(
      "\nnext\n"
      "  more data to try things on, and the same job by hand:\n"
      "    oarlock generate criteo --rows 1000000 --files 8 --out data\n"
      "    oarlock train --server_num 2 --worker_num 2 \\\n"
      "      --train_files 'data/part-[0-6]' --test_files data/part-7\n"
      "  your own data: label, 13 integers, 26 categories a line, tabs between "
      "them\n"
      "  is this machine fit for more:  oarlock doctor\n"
      "  every flag:                    oarlock train --help\n",
      stdout);
}

absl::Status Run(const v1::QuickstartConfig& config, const Clocks& clocks) {
  std::string folder = config.dir();
  std::unique_ptr<TemporaryDir> temporary_dir;
  if (folder.empty()) {
    OARLOCK_ASSIGN_OR_RETURN(temporary_dir,
                             TemporaryDir::Create("oarlock-quickstart-"));
    folder = temporary_dir->path();
  }
  std::printf("generates %lld rows\n", static_cast<long long>(config.rows()));
  std::fflush(stdout);
  OARLOCK_ASSIGN_OR_RETURN(
      const data::GeneratorReport report,
      Generate(config.rows(), absl::StrCat(folder, "/data")));
  std::vector<std::string> words = TrainWords(folder, config.rows());
  OARLOCK_RETURN_IF_ERROR(Train(std::move(words), clocks));
  OARLOCK_ASSIGN_OR_RETURN(
      const worker::TrainingSummary summary,
      worker::ReadSummary(absl::StrCat(folder, "/logs/summary.json")));
  std::printf(
      "\ntest AUC after so many examples; an empty bar is guessing, a full one "
      "%.4f,\nwhat the model that made the clicks reaches itself\n%s",
      report.best_auc, AucCurve(summary, report.best_auc).c_str());
  PrintNext(config.dir());
  return absl::OkStatus();
}

}  // namespace

flags::CommandText DescribeQuickstart() {
  v1::QuickstartConfig config;
  return flags::DescribeCommand(Syntax(), {{{&config}}});
}

int RunQuickstart(int argc, char** argv, const Clocks& clocks) {
  const flags::CommandSyntax syntax = Syntax();
  v1::QuickstartConfig config;
  const absl::StatusOr<flags::ParsedCommandLine> parsed =
      flags::ParseCommandLine(syntax, flags::Words(argc, argv, 2),
                              {{{&config}}});
  if (const std::optional<int> exit_code = flags::FinishEarly(syntax, parsed)) {
    return *exit_code;
  }
  const absl::Status status = Run(config, clocks);
  if (status.ok()) return 0;
  std::fprintf(stderr, "oarlock quickstart: %s\n",
               std::string(flags::InOneLine(status).message()).c_str());
  return 1;
}

}  // namespace oarlock::cli
