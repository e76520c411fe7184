#include "cli/generate_command.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "data/synthetic/criteo_generator.h"
#include "flags/command_line.h"
#include "proto/config/generate_config.pb.h"

namespace oarlock::cli {
namespace {

flags::CommandSyntax Syntax() {
  return {
      .name = "oarlock generate",
      .description =
          "Writes click logs in Criteo's format from a planted model with "
          "interactions.",
      .examples =
          "  # a million rows in 8 files, for training and testing\n"
          "  oarlock generate criteo --rows 1000000 --files 8 --seed 1 --out "
          "data\n",
      .positionals = flags::Positionals::kAny,
      .positional_names = "criteo",
      .first_words = {"criteo"},
  };
}

}  // namespace

flags::CommandText DescribeGenerate() {
  v1::GenerateConfig config;
  return flags::DescribeCommand(Syntax(), {{{&config}}});
}

int RunGenerate(int argc, char** argv, const Clocks& clocks) {
  const flags::CommandSyntax syntax = Syntax();
  v1::GenerateConfig config;
  const absl::StatusOr<flags::ParsedCommandLine> parsed =
      flags::ParseCommandLine(syntax, flags::Words(argc, argv, 2),
                              {{{&config}}});
  if (std::optional<int> exit_code = flags::FinishEarly(syntax, parsed)) {
    return *exit_code;
  }
  if (parsed->positionals != std::vector<std::string>{"criteo"}) {
    return flags::ReportUsageError(
        syntax, absl::InvalidArgumentError(
                    "say what to generate; the only format is criteo: oarlock "
                    "generate criteo --rows 1000000 --out data"));
  }
  data::GeneratorOptions options;
  options.rows = config.rows();
  options.files = config.files();
  options.seed = config.seed();
  options.out_dir = config.out();
  options.threads = config.threads() > 0
                        ? config.threads()
                        : std::max(1u, std::thread::hardware_concurrency());
  const absl::Time start = clocks.monotonic->Now();
  const absl::StatusOr<data::GeneratorReport> report =
      data::GenerateCriteo(options);
  if (!report.ok()) {
    if (absl::IsInvalidArgument(report.status())) {
      return flags::ReportUsageError(syntax, report.status());
    }
    std::fprintf(stderr, "oarlock generate: %s\n",
                 std::string(report.status().message()).c_str());
    return 1;
  }
  const double seconds = absl::ToDoubleSeconds(clocks.monotonic->Now() - start);
  std::printf(
      "wrote     %llu rows, %.0f MB in %d files under %s in %.1f s (%.0f "
      "rows/s), CTR %.4f\n"
      "best      AUC %.4f  logloss %.4f   what the planted model itself "
      "reaches\n"
      "linear    AUC %.4f  logloss %.4f   its main effects alone\n",
      static_cast<unsigned long long>(report->rows), report->bytes / 1e6,
      options.files, options.out_dir.c_str(), seconds, report->rows / seconds,
      report->ctr, report->best_auc, report->best_logloss, report->linear_auc,
      report->linear_logloss);
  return 0;
}

}  // namespace oarlock::cli
