// How a test's worker joins a job whose servers are killed and come back.

#ifndef OARLOCK_TESTS_STRESS_JOB_MEMBER_H_
#define OARLOCK_TESTS_STRESS_JOB_MEMBER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "base/types.h"
#include "client/grpc_job_client.h"
#include "client/grpc_parameter_client.h"
#include "client/server_connections.h"

namespace oarlock {

// Each refers to those before it.
struct JobMember {
  std::unique_ptr<client::ServerConnections> connections;
  std::unique_ptr<client::GrpcJobClient> job;
  std::unique_ptr<client::GrpcParameterClient> client;
};

// Connects to the servers and registers the worker. Servers may be away for a
// minute, then and later. `kind` is what logs call it, before its index. Fails
// as ServerConnections::Connect and GrpcJobClient::Register do.
inline absl::StatusOr<JobMember> JoinJob(
    const std::vector<std::string>& endpoints, const std::string& kind,
    WorkerIndex index) {
  client::ConnectionOptions options;
  options.endpoints = endpoints;
  options.client_name = absl::StrCat(kind, " ", index.value());
  options.server_restart_timeout = absl::Minutes(1);
  JobMember member;
  OARLOCK_ASSIGN_OR_RETURN(member.connections,
                           client::ServerConnections::Connect(options));
  OARLOCK_ASSIGN_OR_RETURN(member.job, client::GrpcJobClient::Register(
                                           member.connections.get(), index));
  member.client = std::make_unique<client::GrpcParameterClient>(
      member.connections.get(), index, member.job->generation());
  return member;
}

}  // namespace oarlock

#endif  // OARLOCK_TESTS_STRESS_JOB_MEMBER_H_
