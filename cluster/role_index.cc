// Which of a job's processes this is.

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "cluster/loopback.h"
#include "cluster/role_resolver.h"

namespace oarlock::cluster {

absl::Status RoleResolver::ResolveWorkerIndex() {
  std::optional<Setting> id = Variable("PADDLE_TRAINER_ID");
  if (arguments_.trainer_id) {
    const Setting argument{"--trainer_id", absl::StrCat(*arguments_.trainer_id),
                           true};
    if (id) WarnIfDifferent(argument, *id, id->text != argument.text);
    id = argument;
  }
  if (!id) {
    if (result_.num_workers == 1) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "PADDLE_TRAINER_ID is not set, but ", workers_source_.name, "=",
        workers_source_.text, "; set it to this worker's index, 0 to ",
        result_.num_workers - 1, ", for example PADDLE_TRAINER_ID=0"));
  }
  int64_t index;
  if (!absl::SimpleAtoi(id->text, &index) || index < 0 ||
      index >= result_.num_workers) {
    return WrongSetting(
        *id,
        absl::StrCat("this worker's index, 0 to ", result_.num_workers - 1,
                     ", since ", workers_source_.name, "=",
                     workers_source_.text),
        "0");
  }
  result_.worker_index = index;
  result_.reason = absl::StrCat(id->name, "=", id->text);
  return absl::OkStatus();
}

absl::Status RoleResolver::FindServer(const Setting& self,
                                      const std::string& given_host,
                                      std::optional<int> port) {
  const std::string host = NormalHost(given_host);
  std::vector<size_t> found, same_host;
  for (size_t i = 0; i < result_.server_endpoints.size(); ++i) {
    const std::string& endpoint = result_.server_endpoints[i];
    if (HostOf(endpoint) == host) same_host.push_back(i);
    if (port ? endpoint == absl::StrCat(host, ":", *port)
             : HostOf(endpoint) == host) {
      found.push_back(i);
    }
  }
  const std::string list =
      absl::StrCat(servers_source_.name, "=", servers_source_.text);
  const std::string shown = port ? absl::StrCat(host, ":", *port) : host;
  if (found.empty() && same_host.size() == 1 && !self.is_argument &&
      !IsLoopback(shown)) {
    // Kubernetes' operator for Paddle gives all pods one port, whatever the
    // list says. On loopback another port is another server.
    found = same_host;
    result_.warnings.push_back(absl::StrCat(
        self.name, " is ", shown, ", and ", list, " has ",
        result_.server_endpoints[found[0]], " of that host, which counts"));
  }
  if (found.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        self.name, " is \"", shown, "\", which is not in ", list,
        "; it must be one of ", absl::StrJoin(result_.server_endpoints, ", ")));
  }
  if (found.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        self.name, " is \"", shown, "\", which is ", found.size(), " times in ",
        list, "; say which by POD_IP and PADDLE_PORT, for example POD_IP=",
        host, " PADDLE_PORT=",
        result_.server_endpoints[found[0]].substr(host.size() + 1)));
  }
  result_.server_index = found[0];
  result_.reason = absl::StrCat(self.name, " ", shown, " is number ", found[0],
                                " of ", servers_source_.name);
  return absl::OkStatus();
}

void RoleResolver::WarnAboutOtherSelf(const Setting& winner) {
  const std::string own = result_.server_endpoints[result_.server_index];
  const Setting shown{winner.name, own, winner.is_argument};
  for (const char* name : {"POD_IP", "PADDLE_CURRENT_IP"}) {
    if (auto setting = Variable(name)) {
      WarnIfDifferent(shown, *setting,
                      HostOf(own) != NormalHost(setting->text));
    }
  }
  const auto index = Variable("PADDLE_PSERVER_ID");
  if (index && winner.name != index->name) {
    WarnIfDifferent(shown, *index,
                    index->text != absl::StrCat(result_.server_index));
  }
}

absl::Status RoleResolver::ServerIndexFromPod(const Setting& pod_ip) {
  const auto port = Variable("PADDLE_PORT");
  const bool fleet_1 = servers_source_.name == "PADDLE_PSERVERS";
  if (port && !absl::StrContains(port->text, ',')) {
    OARLOCK_ASSIGN_OR_RETURN(const int number, ParsePort(*port));
    return FindServer({"POD_IP:PADDLE_PORT", ""}, pod_ip.text, number);
  }
  if (port || fleet_1 || servers_source_.name == "PADDLE_PSERVER_IPS") {
    return FindServer(pod_ip, pod_ip.text, std::nullopt);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("PADDLE_PORT is not set, but POD_IP=", pod_ip.text,
                   " and this is a server; set it to this server's port in ",
                   servers_source_.name, "=", servers_source_.text,
                   ", for example PADDLE_PORT=6170"));
}

absl::Status RoleResolver::ResolveServerIndex() {
  Setting winner;
  if (arguments_.current_endpoint) {
    winner = {"--current_endpoint", *arguments_.current_endpoint, true};
    absl::StatusOr<Endpoint> own = ParseEndpoint(winner.text);
    if (!own.ok()) return WrongSetting(winner, "host:port", "127.0.0.1:6170");
    OARLOCK_RETURN_IF_ERROR(FindServer(winner, own->host, own->port));
  } else if (const auto current_ip = Variable("PADDLE_CURRENT_IP"),
             pod_ip = Variable("POD_IP");
             // Beside Fluid's list only Fluid's own name is sure to be meant:
             // containers set POD_IP for reasons of their own.
             current_ip &&
             (!pod_ip || servers_source_.name == "PADDLE_PSERVER_IPS")) {
    winner = *current_ip;
    OARLOCK_RETURN_IF_ERROR(FindServer(winner, current_ip->text, std::nullopt));
  } else if (pod_ip) {
    winner = {"POD_IP:PADDLE_PORT", ""};
    OARLOCK_RETURN_IF_ERROR(ServerIndexFromPod(*pod_ip));
  } else if (const auto index = Variable("PADDLE_PSERVER_ID")) {
    winner = *index;
    OARLOCK_ASSIGN_OR_RETURN(
        const int number,
        ParseCount(*index, 0,
                   static_cast<int>(result_.server_endpoints.size()) - 1));
    result_.server_index = number;
    result_.reason = absl::StrCat("PADDLE_PSERVER_ID=", number);
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        "this is a server (", role_source_.name, "=", role_source_.text,
        "), but nothing says which of ", servers_source_.name, "=",
        servers_source_.text,
        "; set POD_IP and PADDLE_PORT (Fluid: PADDLE_CURRENT_IP), or "
        "--current_endpoint, for example POD_IP=",
        HostOf(result_.server_endpoints[0]), " PADDLE_PORT=",
        result_.server_endpoints[0].substr(
            HostOf(result_.server_endpoints[0]).size() + 1)));
  }
  WarnAboutOtherSelf(winner);
  return absl::OkStatus();
}

absl::Status RoleResolver::ResolveCollectiveRank(const Setting& list) {
  const auto id = Variable("PADDLE_TRAINER_ID");
  auto self = Variable("PADDLE_CURRENT_ENDPOINT");
  const bool by_host = !self;
  if (by_host && list.name == "PADDLE_TRAINER_IPS") {
    self = Variable("PADDLE_CURRENT_IP");
  }
  if (id || !self) OARLOCK_RETURN_IF_ERROR(ResolveWorkerIndex());
  if (!self) return absl::OkStatus();
  const auto& all = result_.worker_endpoints;
  const auto own = std::find_if(all.begin(), all.end(), [&](const auto& e) {
    return by_host ? HostOf(e) == NormalHost(self->text)
                   : e == NormalEndpoint(self->text);
  });
  if (own == all.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        self->name, " is \"", self->text, "\", which is not in ", list.name,
        "=", list.text, "; it must be one of ", absl::StrJoin(all, ", ")));
  }
  const uint32_t position = own - all.begin();
  if (id && position != result_.worker_index) {
    return absl::InvalidArgumentError(absl::StrCat(
        "PADDLE_TRAINER_ID is \"", id->text, "\", but ", self->name, "=",
        self->text, " is number ", position, " of ", list.name, "=", list.text,
        "; set PADDLE_TRAINER_ID=", position, " or the other endpoint"));
  }
  result_.worker_index = position;
  if (!id) {
    result_.reason =
        absl::StrCat(self->name, " is number ", position, " of ", list.name);
  }
  return absl::OkStatus();
}

}  // namespace oarlock::cluster
