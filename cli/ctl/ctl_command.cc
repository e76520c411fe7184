#include "cli/ctl/ctl_command.h"

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "cli/ctl/admin_client.h"
#include "cli/ctl/job_view.h"
#include "cli/ctl/status_json.h"
#include "cli/ctl/status_text.h"
#include "cluster/endpoint.h"
#include "cluster/environment.h"
#include "cluster/job_file.h"
#include "flags/command_line.h"
#include "proto/config/ctl_config.pb.h"
#include "proto/config/job_config.pb.h"
#include "proto/v1/coordinator_service.grpc.pb.h"
#include "proto/v1/server_admin_service.grpc.pb.h"

namespace oarlock::cli {
namespace {

using ServerAdmin = v1::ServerAdminService::Stub;
using CoordinatorStub = v1::CoordinatorService::Stub;

flags::CommandSyntax Syntax() {
  return {
      .name = "oarlock ctl",
      .description =
          "Looks at a running job, evicts rows, makes a checkpoint, "
          "or ends it. Any server tells of all of them.",
      .examples =
          "  # the job that runs here with --log_dir logs: its workers, how "
          "far "
          "it is, its servers\n"
          "  oarlock ctl status\n"
          "  # that of another machine\n"
          "  oarlock ctl status --server 10.0.0.1:6170 --token_file token\n"
          "  # what the servers hold, by table, and how evenly\n"
          "  oarlock ctl tables --server 127.0.0.1:6170\n"
          "  # the ten keys that are pulled and pushed most, for a program\n"
          "  oarlock ctl hot-keys --server 127.0.0.1:6170 --top 10 --json\n"
          "  # let go of rows that nobody pushed to for 3,600 ticks\n"
          "  oarlock ctl evict --server 127.0.0.1:6170 --table embedding "
          "--idle_ticks 3600\n"
          "  # make a checkpoint now (ask server 0)\n"
          "  oarlock ctl checkpoint --server 127.0.0.1:6170\n"
          "  # train nothing more: the job ends as at the end of its data (ask "
          "server 0)\n"
          "  oarlock ctl stop --server 127.0.0.1:6170 --reason 'good enough'\n"
          "  # end the job (ask server 0)\n"
          "  oarlock ctl drain --server 127.0.0.1:6170 --reason 'new data'\n",
      .positionals = flags::Positionals::kAny,
      .positional_names = "status|tables|hot-keys|evict|checkpoint|stop|drain",
      .first_words = {"status", "tables", "hot-keys", "evict", "checkpoint",
                      "stop", "drain"},
  };
}

// What the job's flags have to do with a look at it.
flags::FlagSource JobFlags(v1::JobConfig* job) {
  return {job,
          {"job_id", "log_dir", "tls_cert_file", "tls_key_file", "tls_ca_file",
           "token_file"}};
}

absl::StatusOr<AdminClientOptions> ClientOptions(const v1::CtlConfig& config,
                                                 const v1::JobConfig& job) {
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
  options.timeout = absl::Seconds(config.timeout_s());
  return options;
}

// What was not given, as the job in --log_dir says it: a server, its name, its
// token. A server of another job needs none of it.
absl::Status FillFromJobFile(v1::CtlConfig* config, v1::JobConfig* job) {
  const absl::StatusOr<cluster::JobFile> found =
      cluster::ReadJobFile(job->log_dir());
  if (config->server().empty()) {
    if (!found.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--server is missing, and --log_dir '", job->log_dir(),
          "' is not that of a running job: ", found.status().message(),
          "; give one of the two, for example --server 127.0.0.1:6170"));
    }
    config->set_server(found->server_endpoints[0]);
  } else if (!found.ok() || !absl::c_linear_search(found->server_endpoints,
                                                   config->server())) {
    return absl::OkStatus();
  }
  if (!job->has_job_id()) job->set_job_id(found->job_id);
  if (!job->has_token_file()) job->set_token_file(found->token_file);
  return absl::OkStatus();
}

void PrintText(const std::string& text) { std::fputs(text.c_str(), stdout); }

void PrintJson(const nlohmann::ordered_json& json) {
  using Handler = nlohmann::ordered_json::error_handler_t;
  PrintText(json.dump(2, ' ', /*ensure_ascii=*/false, Handler::replace) + "\n");
}

// One line of trouble that does not keep the rest from being shown.
void Warn(const absl::Status& status) {
  std::fprintf(stderr, "oarlock ctl: %s\n",
               std::string(status.message()).c_str());
}

// The responses of all servers that answered, and the others.
template <typename Response>
struct Responses {
  std::vector<Response> responses;
  std::vector<SilentServer> silent;
};

// NotFound when that is what every server says that answers.
template <typename Request, typename Response>
absl::StatusOr<Responses<Response>> AskAll(
    JobServers* servers,
    grpc::Status (ServerAdmin::*method)(grpc::ClientContext*, const Request&,
                                        Response*),
    const Request& request) {
  Responses<Response> all;
  absl::Status not_found;
  for (size_t i = 0; i < servers->size(); ++i) {
    absl::StatusOr<Response> response = servers->Ask(i, method, request);
    if (response.ok()) {
      all.responses.push_back(*std::move(response));
    } else if (absl::IsNotFound(response.status())) {
      not_found.Update(response.status());
    } else {
      all.silent.push_back({static_cast<uint32_t>(i), servers->endpoint(i),
                            std::string(response.status().message())});
    }
  }
  if (all.responses.empty() && !not_found.ok()) return not_found;
  return all;
}

absl::StatusOr<Responses<v1::ServerStatusResponse>> AskForServers(
    JobServers* servers) {
  v1::ServerStatusRequest request;
  request.set_with_partitions(true);
  return AskAll(servers, &ServerAdmin::GetServerStatus, request);
}

absl::Status ShowStatus(JobServers* servers, const v1::CtlConfig& config) {
  const absl::StatusOr<v1::JobStatusResponse> job =
      servers->Ask(0, &CoordinatorStub::GetJobStatus, v1::JobStatusRequest());
  OARLOCK_ASSIGN_OR_RETURN(const auto all, AskForServers(servers));
  const std::vector<TableView> tables = ViewTables(all.responses);
  if (!job.ok()) Warn(job.status());
  if (config.json()) {
    nlohmann::ordered_json json;
    json["job"] = job.ok() ? JobStatusJson(*job) : nullptr;
    json["servers"] = ServersJson(all.responses);
    json["silent_servers"] = SilentJson(all.silent);
    json["tables"] = TablesJson(tables);
    PrintJson(json);
    return absl::OkStatus();
  }
  if (job.ok()) PrintText(FormatJobStatus(*job) + "\n");
  PrintText(FormatServers(all.responses) + FormatSilent(all.silent));
  if (const std::string skew = FormatSkew(tables); !skew.empty()) {
    PrintText("\n" + skew);
  }
  return absl::OkStatus();
}

absl::Status ShowTables(JobServers* servers, const v1::CtlConfig& config) {
  OARLOCK_ASSIGN_OR_RETURN(const auto all, AskForServers(servers));
  const std::vector<TableView> tables = ViewTables(all.responses);
  if (config.json()) {
    nlohmann::ordered_json json;
    json["tables"] = TablesJson(tables);
    json["silent_servers"] = SilentJson(all.silent);
    PrintJson(json);
    return absl::OkStatus();
  }
  PrintText(FormatTables(tables) + FormatSilent(all.silent));
  if (const std::string skew = FormatSkew(tables); !skew.empty()) {
    PrintText("\n" + skew);
  }
  return absl::OkStatus();
}

absl::Status ShowHotKeys(JobServers* servers, const v1::CtlConfig& config) {
  v1::HotKeysRequest request;
  request.set_table(config.table());
  request.set_max_keys(static_cast<uint32_t>(config.top()));
  OARLOCK_ASSIGN_OR_RETURN(const auto all,
                           AskAll(servers, &ServerAdmin::GetHotKeys, request));
  const std::vector<HotKeysView> tables =
      ViewHotKeys(all.responses, request.max_keys());
  if (config.json()) {
    nlohmann::ordered_json json;
    json["tables"] = HotKeysJson(tables);
    json["silent_servers"] = SilentJson(all.silent);
    PrintJson(json);
    return absl::OkStatus();
  }
  PrintText(FormatHotKeys(tables) + FormatSilent(all.silent));
  return absl::OkStatus();
}

// Every server, one after the other; the first that cannot ends it.
absl::Status Evict(JobServers* servers, const v1::CtlConfig& config) {
  v1::EvictRequest request;
  request.set_table(config.table());
  if (config.idle_ticks() != 0) {
    request.mutable_limits()->set_idle_ticks(
        static_cast<uint32_t>(config.idle_ticks()));
  }
  if (config.score_min() != 0) {
    request.mutable_limits()->set_score_min(
        static_cast<float>(config.score_min()));
  }
  if (config.rows_max() != 0) {
    request.mutable_limits()->set_rows_max(config.rows_max());
  }
  std::vector<v1::EvictResponse> responses;
  for (size_t i = 0; i < servers->size(); ++i) {
    OARLOCK_ASSIGN_OR_RETURN(v1::EvictResponse response,
                             servers->Ask(i, &ServerAdmin::Evict, request));
    responses.push_back(std::move(response));
  }
  if (config.json()) {
    PrintJson(EvictionJson(responses));
  } else {
    PrintText(FormatEviction(responses));
  }
  return absl::OkStatus();
}

absl::Status Checkpoint(JobServers* servers, const v1::CtlConfig& config) {
  v1::CheckpointResponse response;
  OARLOCK_RETURN_IF_ERROR(servers->asked().Call(
      &CoordinatorStub::Checkpoint, v1::CheckpointRequest(), &response));
  if (config.json()) {
    PrintJson({{"cut", response.cut()},
               {"directory", response.directory()},
               {"written_bytes", response.written_bytes()},
               {"seconds", response.seconds()},
               {"held_seconds", response.held_seconds()}});
  } else {
    PrintText(absl::StrFormat(
        "%s is current: %.1f MB written in %.2f s, pushes held for %.1f ms\n",
        response.directory(), response.written_bytes() / 1e6,
        response.seconds(), response.held_seconds() * 1e3));
  }
  return absl::OkStatus();
}

absl::Status Stop(JobServers* servers, const v1::CtlConfig& config) {
  v1::StopTrainingRequest request;
  request.set_reason(config.has_reason() ? config.reason()
                                         : "oarlock ctl stop");
  v1::StopTrainingResponse response;
  OARLOCK_RETURN_IF_ERROR(servers->asked().Call(&CoordinatorStub::StopTraining,
                                                request, &response));
  if (config.json()) {
    PrintJson(nlohmann::ordered_json::object());
  } else {
    PrintText("training is stopped; the job ends by itself\n");
  }
  return absl::OkStatus();
}

absl::Status Drain(JobServers* servers, const v1::CtlConfig& config) {
  v1::DrainRequest request;
  request.set_reason(config.reason());
  v1::DrainResponse response;
  OARLOCK_RETURN_IF_ERROR(
      servers->asked().Call(&CoordinatorStub::Drain, request, &response));
  if (config.json()) {
    PrintJson(nlohmann::ordered_json::object());
  } else {
    PrintText("the job is being ended\n");
  }
  return absl::OkStatus();
}

struct Verb {
  const char* name;
  absl::Status (*run)(JobServers*, const v1::CtlConfig&);
};
constexpr Verb kVerbs[] = {{"status", ShowStatus},
                           {"tables", ShowTables},
                           {"hot-keys", ShowHotKeys},
                           {"evict", Evict},
                           {"checkpoint", Checkpoint},
                           {"stop", Stop},
                           {"drain", Drain}};

const Verb* FindVerb(const std::vector<std::string>& words) {
  if (words.size() != 1) return nullptr;
  for (const Verb& verb : kVerbs) {
    if (words[0] == verb.name) return &verb;
  }
  return nullptr;
}

// How long a response may take where the flag does not say: a checkpoint is
// answered when it is made.
constexpr double kCheckpointTimeoutSeconds = 3600;

absl::Status Run(const Verb& verb, v1::CtlConfig config,
                 const v1::JobConfig& job) {
  if (!config.has_timeout_s() &&
      (verb.run == Checkpoint || verb.run == Drain)) {
    config.set_timeout_s(kCheckpointTimeoutSeconds);
  }
  OARLOCK_ASSIGN_OR_RETURN(const AdminClientOptions options,
                           ClientOptions(config, job));
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<JobServers> servers,
                           JobServers::Open(config.server(), options));
  return verb.run(servers.get(), config);
}

}  // namespace

flags::CommandText DescribeCtl() {
  v1::CtlConfig config;
  v1::JobConfig job;
  return flags::DescribeCommand(Syntax(), {{&config}, JobFlags(&job)});
}

int RunCtl(int argc, char** argv) {
  const flags::CommandSyntax syntax = Syntax();
  v1::CtlConfig config;
  v1::JobConfig job;
  const auto parsed = flags::ParseCommandLine(
      syntax, flags::Words(argc, argv, 2), {{&config}, JobFlags(&job)});
  if (const std::optional<int> code = flags::FinishEarly(syntax, parsed)) {
    return *code;
  }
  const Verb* const verb = FindVerb(parsed->positionals);
  if (verb == nullptr) {
    return flags::ReportUsageError(
        syntax,
        absl::InvalidArgumentError(absl::StrCat(
            "needs one word, status, tables, hot-keys, evict, checkpoint, stop "
            "or drain, and got ",
            parsed->positionals.empty()
                ? "none"
                : absl::StrCat("'", absl::StrJoin(parsed->positionals, " "),
                               "'"),
            "; see `oarlock ctl --help`")));
  }
  const absl::Status filled = FillFromJobFile(&config, &job);
  if (!filled.ok()) return flags::ReportUsageError(syntax, filled);
  if (!cluster::ParseEndpoint(config.server()).ok()) {
    return flags::ReportUsageError(
        syntax,
        cluster::WrongSetting(
            {.name = "--server", .text = config.server(), .is_argument = true},
            "host:port of a server", "127.0.0.1:6170"));
  }
  if (verb->run == Evict && config.table().empty()) {
    return flags::ReportUsageError(
        syntax, absl::InvalidArgumentError(
                    "--table is missing; name the table whose rows go, for "
                    "example --table embedding"));
  }
  const absl::Status status = Run(*verb, config, job);
  if (status.ok()) return 0;
  Warn(status);
  return 1;
}

}  // namespace oarlock::cli
