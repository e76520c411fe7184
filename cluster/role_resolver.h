// How ResolveRole decides: one look at an environment and at arguments. Only
// environment.cc uses it.

#ifndef OARLOCK_CLUSTER_ROLE_RESOLVER_H_
#define OARLOCK_CLUSTER_ROLE_RESOLVER_H_

#include <initializer_list>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cluster/endpoint.h"
#include "cluster/environment.h"

namespace oarlock::cluster {

// To be used once. Refers to what it is made from.
class RoleResolver {
 public:
  RoleResolver(const EnvironmentMap& environment, const ExplicitRole& arguments)
      : environment_(environment), arguments_(arguments) {}

  absl::StatusOr<RoleAssignment> Resolve();

 private:
  enum class Kind { kServer, kWorker };

  // The variable when it is set and not empty.
  std::optional<Setting> Variable(const std::string& name) const;
  // The first of the variables that is set.
  std::optional<Setting> FirstOf(
      std::initializer_list<const char*> names) const;
  // The variable, or the default port under its name.
  Setting PortVariable(const std::string& name) const;
  bool HasArguments() const;
  void WarnIfDifferent(const Setting& winner, const Setting& loser,
                       bool different);

  // The job: role_resolver.cc.
  absl::Status ResolveJob();
  absl::StatusOr<std::optional<Kind>> ResolveKind();
  absl::Status ResolveServers();
  absl::Status CompareServers(const EndpointList& winner,
                              const EndpointList& loser);
  absl::Status ResolveWorkerCount(const std::string& role_text);
  absl::Status ResolveCollective();
  bool IsCollective() const;
  // The error for a job that is half described: no servers.
  absl::Status Incomplete() const;

  // Which of the job's processes this is: role_index.cc.
  absl::Status ResolveWorkerIndex();
  absl::Status ResolveServerIndex();
  // Sets the index of the server with this host and, if it is said, port.
  absl::Status FindServer(const Setting& self, const std::string& host,
                          std::optional<int> port);
  void WarnAboutOtherSelf(const Setting& winner);
  absl::Status ServerIndexFromPod(const Setting& pod_ip);
  absl::Status ResolveCollectiveRank(const Setting& list);

  const EnvironmentMap& environment_;
  const ExplicitRole& arguments_;
  RoleAssignment result_;
  // What named the role, the servers, the number of workers.
  Setting role_source_;
  Setting servers_source_;
  Setting workers_source_;
};

}  // namespace oarlock::cluster

#endif  // OARLOCK_CLUSTER_ROLE_RESOLVER_H_
