#include "collective/group.h"

#include <grpcpp/create_channel.h>

#include <algorithm>
#include <random>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/mix.h"
#include "base/status_macros.h"
#include "cluster/endpoint.h"
#include "cluster/retry.h"
#include "collective/group_membership.h"
#include "collective/group_state.h"
#include "collective/rendezvous_server.h"
#include "collective/single_rank.h"
#include "collective/sockets.h"
#include "collective/tcp_communicator.h"

namespace oarlock::collective {
namespace {

constexpr absl::Duration kMinTimeout = absl::Milliseconds(100);
constexpr absl::Duration kMinHeartbeatTimeout = absl::Milliseconds(500);
// All ranks are there when they connect to one another.
constexpr absl::Duration kConnectTimeout = absl::Seconds(20);

absl::Status CheckAtLeast(absl::string_view name, absl::Duration value,
                          absl::Duration min) {
  if (value >= min) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", absl::FormatDuration(value),
                   "; it must be at least ", absl::FormatDuration(min)));
}

std::string NewSecret() {
  std::random_device random;
  std::string secret(kSecretBytes, '\0');
  for (char& c : secret) c = static_cast<char>(random());
  return secret;
}

v1::JoinHello HelloOf(const GroupOptions& options,
                      const RingAcceptor& acceptor) {
  v1::JoinHello hello;
  hello.set_protocol_version(kRendezvousVersion);
  hello.set_job_id(options.job_id);
  hello.set_generation(options.generation);
  hello.set_rank(options.rank);
  hello.set_size(options.endpoints.size());
  hello.set_digest(options.digest);
  hello.set_backend("tcp");
  hello.set_address(acceptor.address());
  return hello;
}

// On the host of this rank's endpoint, and not on a port that the environment
// gives to somebody: rank 0 of this host may still have to come.
absl::StatusOr<std::unique_ptr<RingAcceptor>> OpenAcceptor(
    const GroupOptions& options) {
  const Clock& clock = *options.clocks.monotonic;
  std::set<int> taken;
  for (const std::string& text : options.endpoints) {
    OARLOCK_ASSIGN_OR_RETURN(const cluster::Endpoint endpoint,
                             cluster::ParseEndpoint(text));
    taken.insert(endpoint.port);
  }
  OARLOCK_ASSIGN_OR_RETURN(
      const cluster::Endpoint own,
      cluster::ParseEndpoint(options.endpoints[options.rank]));
  // Kept open, so that the next one gets another port.
  std::vector<std::unique_ptr<RingAcceptor>> unfit;
  while (true) {
    OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<RingAcceptor> acceptor,
                             RingAcceptor::Open(own.host, clock));
    OARLOCK_ASSIGN_OR_RETURN(const cluster::Endpoint bound,
                             cluster::ParseEndpoint(acceptor->address()));
    if (taken.count(bound.port) == 0) return acceptor;
    unfit.push_back(std::move(acceptor));
  }
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> ChannelTo(
    const std::string& endpoint, const cluster::SecurityOptions& security) {
  OARLOCK_ASSIGN_OR_RETURN(auto credentials,
                           cluster::MakeChannelCredentials(
                               security, absl::MakeConstSpan(&endpoint, 1)));
  return grpc::CreateCustomChannel(endpoint, std::move(credentials),
                                   cluster::MakeChannelArguments());
}

}  // namespace

absl::Status GroupOptions::Validate() const {
  const int size = std::max<int>(1, static_cast<int>(endpoints.size()));
  if (rank < 0 || rank >= size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", rank, " of a group of ", size, "; ranks are 0 to ", size - 1));
  }
  for (const std::string& endpoint : endpoints) {
    OARLOCK_RETURN_IF_ERROR(cluster::ParseEndpoint(endpoint).status());
  }
  OARLOCK_RETURN_IF_ERROR(
      CheckAtLeast("join_timeout", join_timeout, kMinTimeout));
  OARLOCK_RETURN_IF_ERROR(
      CheckAtLeast("operation_timeout", operation_timeout, kMinTimeout));
  return CheckAtLeast("heartbeat_timeout", heartbeat_timeout,
                      kMinHeartbeatTimeout);
}

GroupOptions GroupOptionsOf(const cluster::RoleAssignment& role) {
  GroupOptions options;
  options.job_id = role.job_id;
  options.security = role.security;
  if (role.role != cluster::Role::kCollective) return options;
  options.rank = static_cast<int>(role.worker_index);
  options.endpoints = role.worker_endpoints;
  if (role.restarted_together) options.generation = role.restarts;
  return options;
}

absl::StatusOr<std::unique_ptr<Communicator>> JoinGroup(
    const GroupOptions& options) {
  OARLOCK_RETURN_IF_ERROR(options.Validate());
  if (options.endpoints.size() <= 1) return std::make_unique<SingleRank>();
  const Clock& clock = *options.clocks.monotonic;
  auto group = std::make_shared<TcpGroup>();
  group->clock = &clock;
  group->rank = options.rank;
  group->size = static_cast<int>(options.endpoints.size());
  group->operation_timeout = options.operation_timeout;
  group->connect_timeout = kConnectTimeout;
  OARLOCK_ASSIGN_OR_RETURN(group->acceptor, OpenAcceptor(options));
  const v1::JoinHello hello = HelloOf(options, *group->acceptor);
  if (options.rank == 0) {
    OARLOCK_ASSIGN_OR_RETURN(
        group->rendezvous, RendezvousServer::Start(
                               {.expected = hello,
                                .endpoints = options.endpoints,
                                .secret = NewSecret(),
                                .join_timeout = options.join_timeout,
                                .heartbeat_timeout = options.heartbeat_timeout},
                               options.security, clock));
  }
  // Rank 0 is one among the others to its own server.
  OARLOCK_ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel,
                           ChannelTo(options.endpoints[0], options.security));
  OARLOCK_ASSIGN_OR_RETURN(std::string token,
                           cluster::ReadToken(options.security));
  OARLOCK_ASSIGN_OR_RETURN(
      group->membership,
      GroupMembership::Join({.hello = hello,
                             .endpoints = options.endpoints,
                             .join_timeout = options.join_timeout,
                             .heartbeat_timeout = options.heartbeat_timeout,
                             .token = std::move(token)},
                            std::move(channel), clock));
  group->acceptor->Start(group->membership->secret());
  return TcpCommunicator::Connect(std::move(group), 0);
}

absl::Status CheckAllAgree(Communicator& communicator, absl::string_view what,
                           absl::string_view value) {
  const uint64_t mine =
      static_cast<uint64_t>(FeatureHash(std::string(value), 0, 0));
  std::vector<uint64_t> all(communicator.size());
  OARLOCK_RETURN_IF_ERROR(communicator.AllGather(absl::MakeConstSpan(&mine, 1),
                                                 absl::MakeSpan(all)));
  std::vector<int> differ;
  for (int rank = 0; rank < communicator.size(); ++rank) {
    if (all[rank] != all[0]) differ.push_back(rank);
  }
  if (differ.empty()) return absl::OkStatus();
  // Who gets the error may end at once; the others shall have heard by then.
  communicator.Barrier().IgnoreError();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " must be the same on all ranks; those of rank ",
                   absl::StrJoin(differ, ", "), " differ from rank 0's"));
}

}  // namespace oarlock::collective
