#include "cli/ctl_command.h"

#include <google/protobuf/util/json_util.h>
#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "cli/status_text.h"
#include "cluster/retry.h"
#include "cluster/security.h"
#include "cluster/wire_version.h"
#include "fleet/command_line/command_line.h"
#include "proto/admin.grpc.pb.h"
#include "proto/ctl_config.pb.h"
#include "proto/job_config.pb.h"

namespace oarlock {
namespace {

CommandSyntax Syntax() {
  return {
      .name = "oarlock ctl",
      .description = "Looks at a running job, evicts rows, or ends it.",
      .examples =
          "  # the job, its workers, how far it is (ask server 0)\n"
          "  oarlock ctl status --server 127.0.0.1:6170\n"
          "  # what one server holds\n"
          "  oarlock ctl tables --server 127.0.0.1:6171\n"
          "  # let go of the rows of one server that nobody pushed to for an "
          "hour\n"
          "  oarlock ctl evict --server 127.0.0.1:6171 --table embedding "
          "--idle_ticks 3600\n"
          "  # end the job\n"
          "  oarlock ctl drain --server 127.0.0.1:6170 --reason 'new data'\n",
      .positionals = Positionals::kAny,
      .positional_names = "status|tables|evict|drain",
  };
}

// A connection to one server.
class Control {
 public:
  static absl::StatusOr<std::unique_ptr<Control>> Open(
      const v1::CtlConfig& config, const v1::JobConfig& job) {
    SecurityOptions security;
    security.tls_cert_file = job.tls_cert_file();
    security.tls_key_file = job.tls_key_file();
    security.tls_ca_file = job.tls_ca_file();
    security.token_file = job.token_file();
    OARLOCK_ASSIGN_OR_RETURN(auto credentials,
                             MakeChannelCredentials(security));
    auto control = std::make_unique<Control>();
    OARLOCK_ASSIGN_OR_RETURN(control->token_, ReadToken(security));
    control->server_ = config.server();
    control->timeout_ = absl::Seconds(config.timeout_s());
    control->stub_ = v1::AdminService::NewStub(grpc::CreateCustomChannel(
        config.server(), credentials, MakeChannelArguments()));
    if (!job.job_id().empty()) {
      OARLOCK_RETURN_IF_ERROR(control->CheckJob(job.job_id()));
    }
    return control;
  }

  template <typename Method, typename Request, typename Response>
  absl::Status Call(Method method, const Request& request, Response* response) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(Clock::Real().Now() + timeout_));
    if (!token_.empty()) context.AddMetadata(kTokenMetadataKey, token_);
    return Annotate(FromGrpc(((*stub_).*method)(&context, request, response)),
                    absl::StrCat("server ", server_));
  }

 private:
  absl::Status CheckJob(const std::string& job_id) {
    v1::ConnectRequest request;
    request.set_protocol_version(kProtocolVersion);
    request.set_job_id(job_id);
    request.set_client("ctl");
    v1::ConnectResponse response;
    return Call(&v1::AdminService::Stub::Connect, request, &response);
  }

  std::string server_;
  std::string token_;
  absl::Duration timeout_;
  std::unique_ptr<v1::AdminService::Stub> stub_;
};

// Prints `message` as JSON, or as `text`.
absl::Status Print(const google::protobuf::Message& message, bool json,
                   std::string text) {
  if (json) {
    google::protobuf::util::JsonPrintOptions options;
    options.add_whitespace = true;
    options.always_print_primitive_fields = true;
    options.preserve_proto_field_names = true;
    text.clear();
    const auto status =
        google::protobuf::util::MessageToJsonString(message, &text, options);
    if (!status.ok()) return absl::InternalError(status.ToString());
  }
  std::fputs(text.c_str(), stdout);
  return absl::OkStatus();
}

absl::Status ShowStatus(Control* control, bool json) {
  v1::JobStatusResponse job;
  const absl::Status status = control->Call(
      &v1::AdminService::Stub::GetJobStatus, v1::JobStatusRequest(), &job);
  if (status.ok())
    OARLOCK_RETURN_IF_ERROR(Print(job, json, FormatJobStatus(job)));
  // Another server than the coordinator tells of itself alone.
  if (!status.ok() && !absl::IsFailedPrecondition(status)) return status;
  if (json && status.ok()) return absl::OkStatus();
  v1::ServerStatusResponse server;
  OARLOCK_RETURN_IF_ERROR(
      control->Call(&v1::AdminService::Stub::GetServerStatus,
                    v1::ServerStatusRequest(), &server));
  OARLOCK_RETURN_IF_ERROR(
      Print(server, json,
            absl::StrCat(status.ok() ? "\n" : "", FormatServerStatus(server))));
  if (!status.ok()) {
    std::fprintf(stderr, "oarlock ctl: %s\n",
                 std::string(status.message()).c_str());
  }
  return absl::OkStatus();
}

absl::Status ShowTables(Control* control, bool json) {
  v1::ServerStatusResponse server;
  OARLOCK_RETURN_IF_ERROR(
      control->Call(&v1::AdminService::Stub::GetServerStatus,
                    v1::ServerStatusRequest(), &server));
  return Print(
      server, json,
      absl::StrCat(FormatServerStatus(server), "\n", FormatTables(server)));
}

absl::Status Evict(Control* control, const v1::CtlConfig& config) {
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
  v1::EvictResponse response;
  OARLOCK_RETURN_IF_ERROR(
      control->Call(&v1::AdminService::Stub::Evict, request, &response));
  return Print(response, config.json(), FormatEviction(response));
}

absl::Status Drain(Control* control, const v1::CtlConfig& config) {
  v1::DrainRequest request;
  request.set_reason(config.reason());
  v1::DrainResponse response;
  OARLOCK_RETURN_IF_ERROR(
      control->Call(&v1::AdminService::Stub::Drain, request, &response));
  return Print(response, config.json(), "the job is being ended\n");
}

}  // namespace

int RunCtl(int argc, char** argv) {
  const CommandSyntax syntax = Syntax();
  v1::CtlConfig config;
  v1::JobConfig job;
  const auto parsed =
      ParseCommandLine(syntax, Words(argc, argv, 2),
                       {{&config},
                        {&job,
                         {"job_id", "tls_cert_file", "tls_key_file",
                          "tls_ca_file", "token_file"}}});
  if (const std::optional<int> code = FinishEarly(syntax, parsed)) {
    return *code;
  }
  const std::string verb =
      parsed->positionals.size() == 1 ? parsed->positionals[0] : "";
  if (verb != "status" && verb != "tables" && verb != "evict" &&
      verb != "drain") {
    return ReportUsageError(
        syntax, absl::InvalidArgumentError(absl::StrCat(
                    "needs one word, status, tables, evict or drain, and got ",
                    parsed->positionals.empty()
                        ? "none"
                        : absl::StrCat("'", parsed->positionals[0], "'"),
                    "; see `oarlock ctl --help`")));
  }
  if (config.server().empty()) {
    return ReportUsageError(
        syntax, absl::InvalidArgumentError(
                    "--server is missing; give a server of the job, for "
                    "example --server 127.0.0.1:6170"));
  }
  if (verb == "evict" && config.table().empty()) {
    return ReportUsageError(
        syntax, absl::InvalidArgumentError(
                    "--table is missing; name the table whose rows go, for "
                    "example --table embedding"));
  }
  absl::StatusOr<std::unique_ptr<Control>> control = Control::Open(config, job);
  absl::Status status = control.status();
  if (status.ok()) {
    status = verb == "status"   ? ShowStatus(control->get(), config.json())
             : verb == "tables" ? ShowTables(control->get(), config.json())
             : verb == "evict"  ? Evict(control->get(), config)
                                : Drain(control->get(), config);
  }
  if (status.ok()) return 0;
  std::fprintf(stderr, "oarlock ctl: %s\n",
               std::string(status.message()).c_str());
  return 1;
}

}  // namespace oarlock
