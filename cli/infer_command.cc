#include "cli/infer_command.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/auc.h"
#include "base/log.h"
#include "base/output/output_file.h"
#include "base/process/malloc.h"
#include "base/status_macros.h"
#include "cli/ctl/admin_client.h"
#include "cli/score_file.h"
#include "cluster/environment.h"
#include "data/reader/file_list.h"
#include "flags/command_line.h"
#include "flags/message_flags.h"
#include "fleet/role/job_description.h"
#include "fleet/serving/inference.h"
#include "fleet/serving/trained_model.h"
#include "nn/backends/device_choice.h"
#include "proto/config/infer_config.pb.h"
#include "proto/config/job_config.pb.h"
#include "worker/config/data_options_of.h"
#include "worker/trainer.h"

namespace oarlock::cli {
namespace {

flags::CommandSyntax Syntax() {
  return {
      .name = "oarlock infer",
      .description =
          "Scores lines with a trained model, one score a line in the order of "
          "the input, and tells AUC and logloss where lines have labels.",
      .examples =
          "  # with a checkpoint; no servers are needed\n"
          "  oarlock infer --checkpoint checkpoints --files 'data/test*' --out "
          "scores.txt\n"
          "  # with the parameters that a running job has now\n"
          "  oarlock infer --servers 127.0.0.1:6170 --files data/test --out "
          "scores.txt\n"
          "  # lines without labels, from a checkpoint larger than memory\n"
          "  oarlock infer --checkpoint checkpoints/ckpt-00000042 --labels "
          "false --memory_budget_mb 4096 --files data/new --out -\n",
  };
}

// What the job's flags have to do with inference.
flags::FlagSource JobFlags(v1::JobConfig* job) {
  flags::FlagSource source{job, DescribingFlags()};
  for (const char* name :
       {"pipe_command", "bad_lines_max", "batch_size", "thread_num", "device",
        "memory_budget_mb", "tier_dir", "job_id", "connect_timeout_s",
        "rpc_timeout_s", "pull_format", "tls_cert_file", "tls_key_file",
        "tls_ca_file", "token_file"}) {
    source.only.push_back(name);
  }
  return source;
}

absl::StatusOr<nn::DeviceChoice> ChooseDeviceFor(const v1::JobConfig& job) {
  return nn::ChooseDevice(job.device(), job.dense_math(), /*worker=*/0,
                          cluster::SelectedGpus(cluster::ReadEnvironment()));
}

absl::Status CheckFlags(const v1::InferConfig& infer,
                        const v1::JobConfig& job) {
  if (infer.checkpoint().empty() == (infer.servers_size() == 0)) {
    return absl::InvalidArgumentError(
        "say where the trained model is: --checkpoint DIR, or --servers "
        "HOST:PORT,... of a running job; one of them");
  }
  if (infer.files_size() == 0) {
    return absl::InvalidArgumentError(
        "there is nothing to score; name the lines with --files, for example "
        "--files 'data/test*'");
  }
  // The checkpoint may name other numbers, but no device: a GPU that is not
  // there is told before anything is loaded.
  return ChooseDeviceFor(job).status();
}

absl::StatusOr<TrainedModel> LoadModel(const std::string& checkpoint,
                                       const v1::JobConfig& job,
                                       const Clocks& clocks) {
  LoadOptions options;
  options.clocks = clocks;
  options.memory_budget_bytes = static_cast<uint64_t>(job.memory_budget_mb())
                                << 20;
  options.tier_dir = job.tier_dir();
  return LoadTrainedModel(checkpoint, options);
}

absl::StatusOr<TrainedModel> ReachModel(std::vector<std::string> endpoints,
                                        const v1::JobConfig& job,
                                        const Clocks& clocks) {
  cluster::SecurityOptions security;
  security.tls_cert_file = job.tls_cert_file();
  security.tls_key_file = job.tls_key_file();
  security.tls_ca_file = job.tls_ca_file();
  security.token_file = job.token_file();
  AdminClientOptions options;
  OARLOCK_ASSIGN_OR_RETURN(
      options.security,
      cluster::SecurityFrom(cluster::ReadEnvironment(), std::move(security)));
  options.job_id = job.job_id();
  options.timeout = absl::Seconds(job.rpc_timeout_s());
  // One names the others and the job.
  OARLOCK_ASSIGN_OR_RETURN(const std::unique_ptr<JobServers> servers,
                           JobServers::Open(endpoints[0], options));
  OARLOCK_ASSIGN_OR_RETURN(
      const v1::JobStatusResponse status,
      servers->Ask(0, &v1::CoordinatorService::Stub::GetJobStatus,
                   v1::JobStatusRequest()));
  if (endpoints.size() == 1) {
    endpoints.clear();
    for (size_t i = 0; i < servers->size(); ++i) {
      endpoints.push_back(servers->endpoint(i));
    }
  }
  return ReachTrainedModel(endpoints, status.job_id(), options.security, job,
                           clocks);
}

absl::StatusOr<TrainedModel> OpenModel(const v1::InferConfig& infer,
                                       const v1::JobConfig& job,
                                       const Clocks& clocks) {
  if (!infer.checkpoint().empty()) {
    return LoadModel(infer.checkpoint(), job, clocks);
  }
  return ReachModel({infer.servers().begin(), infer.servers().end()}, job,
                    clocks);
}

// InvalidArgument is for the command line.
absl::Status OfData(const absl::Status& status) {
  return absl::IsInvalidArgument(status) ? absl::DataLossError(status.message())
                                         : status;
}

// "scored    6000 lines ...".
std::string ReportText(const InferenceReport& report,
                       const TrainedModel& trained, const v1::JobConfig& job) {
  std::string text = absl::StrFormat(
      "scored    %d lines with %s of %s in %.2f s (%.0f lines/s)\n",
      report.num_lines, job.model(), trained.origin, report.seconds,
      report.num_lines / std::max(report.seconds, 1e-9));
  if (report.num_bad_lines > 0) {
    absl::StrAppendFormat(&text, "malformed %d lines, whose score is nan\n",
                          report.num_bad_lines);
  }
  if (report.num_comments > 0) {
    absl::StrAppendFormat(&text, "comments  %d lines, whose score is nan\n",
                          report.num_comments);
  }
  if (!std::isnan(report.logloss)) {
    const uint64_t num_examples =
        report.num_lines - report.num_bad_lines - report.num_comments;
    absl::StrAppendFormat(
        &text, "AUC       %s  logloss %.6f\n",
        AucText(report.auc, 6, report.label_mean, num_examples),
        report.logloss);
  }
  return text;
}

absl::Status Run(const v1::InferConfig& infer, v1::JobConfig job,
                 const Clocks& clocks) {
  OARLOCK_RETURN_IF_ERROR(CheckFlags(infer, job));
  InferenceOptions options;
  // First: the files are the fastest to look at.
  OARLOCK_ASSIGN_OR_RETURN(options.files,
                           data::ExpandFileList(std::vector<std::string>(
                               infer.files().begin(), infer.files().end())));
  OARLOCK_RETURN_IF_ERROR(CheckNotAnInput(infer.out(), options.files));
  OARLOCK_ASSIGN_OR_RETURN(const std::unique_ptr<ScoreFile> scores,
                           ScoreFile::Create(infer.out()));
  OARLOCK_ASSIGN_OR_RETURN(const TrainedModel trained,
                           OpenModel(infer, job, clocks));
  OARLOCK_RETURN_IF_ERROR(TakeDescription(trained.description, &job));
  OARLOCK_RETURN_IF_ERROR(
      CheckIsDescribed(trained.description, job, trained.origin));
  for (const std::string& warning :
       Contradictions(trained.description, trained.origin, job)) {
    std::fprintf(stderr, "oarlock infer: warning: %s\n", warning.c_str());
  }
  OARLOCK_ASSIGN_OR_RETURN(const nn::DeviceChoice choice, ChooseDeviceFor(job));
  // The log tells warnings only.
  if (!choice.log_line.empty()) {
    std::fprintf(stderr, "oarlock infer: %s\n", choice.log_line.c_str());
  }
  OARLOCK_ASSIGN_OR_RETURN(const std::unique_ptr<models::Model> model,
                           worker::ModelOf(job, choice.math_backend));
  OARLOCK_ASSIGN_OR_RETURN(
      const ModelTables found,
      FindModelTables(model->spec(), trained.tables, trained.origin));
  InferenceTables tables;
  tables.parameters = trained.parameters.get();
  tables.sparse = found.sparse;
  tables.dense = found.dense;
  options.data = worker::DataOptionsOf(job);
  if (options.data.format == data::DataOptions::Format::kColumns) {
    return absl::InvalidArgumentError(
        "oarlock infer reads text; the model was trained on columns "
        "(--features)");
  }
  options.data.clocks = clocks;
  options.has_labels = infer.labels();
  options.batch_size = job.batch_size();
  options.num_threads = job.thread_num();
  const absl::StatusOr<InferenceReport> report =
      Infer(*model, tables, options,
            [&](absl::Span<const float> next) { return scores->Write(next); });
  OARLOCK_RETURN_IF_ERROR(OfData(report.status()));
  OARLOCK_RETURN_IF_ERROR(scores->Finish());
  std::fputs(ReportText(*report, trained, job).c_str(),
             infer.out() == "-" ? stderr : stdout);
  return absl::OkStatus();
}

}  // namespace

flags::CommandText DescribeInfer() {
  v1::InferConfig infer;
  v1::JobConfig job;
  return flags::DescribeCommand(Syntax(), {{{&infer}, JobFlags(&job)}});
}

int RunInfer(int argc, char** argv, const Clocks& clocks) {
  const flags::CommandSyntax syntax = Syntax();
  v1::InferConfig infer;
  v1::JobConfig job;
  const absl::StatusOr<flags::ParsedCommandLine> parsed =
      flags::ParseCommandLine(syntax, flags::Words(argc, argv, 2),
                              {{{&infer}, JobFlags(&job)}});
  if (std::optional<int> exit_code = flags::FinishEarly(syntax, parsed)) {
    return *exit_code;
  }
  KeepFreedMemory();
  InitLogging("infer");
  Log().set_level(spdlog::level::warn);
  const absl::Status status = Run(infer, job, clocks);
  if (status.ok()) return 0;
  if (absl::IsInvalidArgument(status))
    return flags::ReportUsageError(syntax, status);
  std::fprintf(stderr, "oarlock infer: %s\n",
               std::string(flags::InOneLine(status).message()).c_str());
  return 1;
}

}  // namespace oarlock::cli
