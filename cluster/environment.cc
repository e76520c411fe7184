#include "cluster/environment.h"

#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "cluster/endpoint.h"

extern char** environ;

namespace oarlock {
namespace {

// Newest first, as they win.
constexpr EnvironmentVariable kVariables[] = {
    {"TRAINING_ROLE", "Fleet", "PSERVER or TRAINER", true},
    {"PADDLE_TRAINING_ROLE", "Fluid, collective", "PSERVER or TRAINER", true},
    {"PADDLE_PSERVERS_IP_PORT_LIST", "Fleet",
     "endpoints of all servers, ip:port,ip:port", true},
    {"PADDLE_PSERVERS", "Fleet 1.x",
     "addresses of all servers; PADDLE_PORT has their port or ports", true},
    {"PADDLE_PSERVER_IPS", "Fluid", "addresses of all servers", true},
    {"PADDLE_PSERVER_PORT", "Fluid",
     "the port of all servers, 6174 by default; collective: of the workers",
     true},
    {"PADDLE_TRAINERS_NUM", "Fleet", "number of workers", true},
    {"PADDLE_TRAINERS", "Fluid", "number of workers", true},
    {"PADDLE_TRAINER_ENDPOINTS", "Fleet 2.x, collective",
     "endpoints of all workers, ip:port,ip:port", true},
    {"PADDLE_TRAINER_IPS", "Fluid collective", "addresses of all workers",
     true},
    {"PADDLE_TRAINER_ID", "all",
     "this worker's index, from 0; may be missing where there is one worker",
     true},
    {"POD_IP", "Fleet", "this process's address", false},
    {"PADDLE_PORT", "Fleet",
     "this server's port; beside PADDLE_PSERVERS the port of all servers, or a "
     "list with one for each; 6174 by default",
     true},
    {"PADDLE_PSERVER_ID", "Fleet 1.7",
     "this server's index, from 0, where no address says it", true},
    {"PADDLE_CURRENT_ENDPOINT", "collective", "this worker's endpoint", true},
    {"PADDLE_CURRENT_IP", "Fluid", "this process's address", true},
    {"PADDLE_JOB_ID", "Fleet 2.x", "name of the job", false},
    {"SYS_JOB_ID", "Fleet 1.x", "name of the job", false},
    {"OARLOCK_INSECURE", "Oarlock",
     "1: serve beyond loopback without TLS and token", false},
};

class Resolver {
 public:
  Resolver(const EnvironmentMap& environment, const ExplicitRole& arguments)
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

  absl::Status ResolveJob();
  absl::StatusOr<std::optional<Kind>> ResolveKind();
  absl::Status ResolveServers();
  absl::Status CompareServers(const EndpointList& winner,
                              const EndpointList& loser);
  absl::Status ResolveWorkerCount(const std::string& role_text);
  absl::Status ResolveWorkerIndex();
  absl::Status ResolveServerIndex();
  absl::Status FindServer(const Setting& self, const std::string& host,
                          std::optional<int> port);
  void WarnAboutOtherSelf(const Setting& winner);
  absl::Status ServerIndexFromPod(const Setting& pod_ip);
  absl::Status ResolveCollective();
  absl::Status ResolveCollectiveRank(const Setting& list);
  bool IsCollective() const;
  absl::Status Incomplete() const;

  const EnvironmentMap& environment_;
  const ExplicitRole& arguments_;
  RoleAssignment result_;
  // What named the role, the servers, the number of workers.
  Setting role_source_;
  Setting servers_source_;
  Setting workers_source_;
};

std::optional<Setting> Resolver::Variable(const std::string& name) const {
  auto found = environment_.find(name);
  if (found == environment_.end()) return std::nullopt;
  const std::string text(absl::StripAsciiWhitespace(found->second));
  if (text.empty()) return std::nullopt;
  return Setting{name, text};
}

std::optional<Setting> Resolver::FirstOf(
    std::initializer_list<const char*> names) const {
  for (const char* name : names) {
    if (auto setting = Variable(name)) return setting;
  }
  return std::nullopt;
}

Setting Resolver::PortVariable(const std::string& name) const {
  return Variable(name).value_or(
      Setting{name, absl::StrCat(kDefaultServerPort)});
}

bool Resolver::HasArguments() const {
  return arguments_.role || arguments_.trainer_id ||
         arguments_.pserver_endpoints || arguments_.current_endpoint ||
         arguments_.num_trainers;
}

void Resolver::WarnIfDifferent(const Setting& winner, const Setting& loser,
                               bool different) {
  if (!different) return;
  result_.warnings.push_back(
      absl::StrCat(winner.name, "=", winner.text, " and ", loser.name, "=",
                   loser.text, " disagree; ", winner.name, " counts, being ",
                   winner.is_argument ? "an argument" : "the newer",
                   "; set one of them only, or both alike"));
}

absl::Status Resolver::ResolveJob() {
  const auto job = Variable("PADDLE_JOB_ID");
  const auto old_job = Variable("SYS_JOB_ID");
  if (job && old_job)
    WarnIfDifferent(*job, *old_job, job->text != old_job->text);
  if (job) {
    result_.job_id = job->text;
  } else if (old_job) {
    result_.job_id = old_job->text;
  }
  if (const auto insecure = Variable("OARLOCK_INSECURE")) {
    if (!absl::SimpleAtob(insecure->text, &result_.insecure)) {
      return WrongSetting(*insecure, "1 or 0", "1");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Resolver::Kind>> Resolver::ResolveKind() {
  std::vector<Setting> said;
  if (arguments_.role) said.push_back({"--role", *arguments_.role, true});
  for (const char* name : {"TRAINING_ROLE", "PADDLE_TRAINING_ROLE"}) {
    if (auto setting = Variable(name)) said.push_back(*setting);
  }
  if (said.empty()) return std::optional<Kind>();
  // Fleet 1.5 compared in upper case, and its documents write it both ways.
  for (Setting& setting : said) {
    absl::AsciiStrToUpper(&setting.text);
    if (setting.text != "PSERVER" && setting.text != "TRAINER") {
      return WrongSetting(setting, "PSERVER or TRAINER", "TRAINER");
    }
  }
  for (size_t i = 1; i < said.size(); ++i) {
    WarnIfDifferent(said[0], said[i], said[0].text != said[i].text);
  }
  role_source_ = said[0];
  return std::optional<Kind>(said[0].text == "PSERVER" ? Kind::kServer
                                                       : Kind::kWorker);
}

absl::Status Resolver::ResolveServers() {
  std::vector<EndpointList> lists;
  if (arguments_.pserver_endpoints) {
    OARLOCK_ASSIGN_OR_RETURN(
        EndpointList list,
        ParseEndpointList(
            {"--pserver_endpoints", *arguments_.pserver_endpoints, true},
            kMaxServers));
    lists.push_back(std::move(list));
  }
  if (auto setting = Variable("PADDLE_PSERVERS_IP_PORT_LIST")) {
    OARLOCK_ASSIGN_OR_RETURN(EndpointList list,
                             ParseEndpointList(*setting, kMaxServers));
    lists.push_back(std::move(list));
  }
  if (auto setting = Variable("PADDLE_PSERVERS"); setting && !lists.empty()) {
    // Beside a newer list PADDLE_PORT is the process's own port.
    lists.push_back({*setting, SplitList(setting->text), true});
  } else if (setting) {
    OARLOCK_ASSIGN_OR_RETURN(
        EndpointList list,
        JoinHostsAndPorts(*setting, PortVariable("PADDLE_PORT"), kMaxServers));
    lists.push_back(std::move(list));
  }
  if (auto setting = Variable("PADDLE_PSERVER_IPS")) {
    OARLOCK_ASSIGN_OR_RETURN(
        EndpointList list,
        JoinHostsAndPorts(*setting, PortVariable("PADDLE_PSERVER_PORT"),
                          kMaxServers));
    lists.push_back(std::move(list));
  }
  if (lists.empty()) return absl::OkStatus();
  for (size_t i = 1; i < lists.size(); ++i) {
    OARLOCK_RETURN_IF_ERROR(CompareServers(lists[0], lists[i]));
  }
  servers_source_ = lists[0].source;
  result_.server_endpoints = std::move(lists[0].endpoints);
  return absl::OkStatus();
}

absl::Status Resolver::CompareServers(const EndpointList& winner,
                                      const EndpointList& loser) {
  bool different = winner.endpoints.size() != loser.endpoints.size();
  for (size_t i = 0; !different && i < winner.endpoints.size(); ++i) {
    different = loser.compare_hosts_only
                    ? HostOf(winner.endpoints[i]) != HostOf(loser.endpoints[i])
                    : winner.endpoints[i] != loser.endpoints[i];
  }
  Setting shown = loser.source;
  if (!loser.compare_hosts_only) {
    shown.text = absl::StrJoin(loser.endpoints, ",");
  }
  WarnIfDifferent(winner.source, shown, different);
  return absl::OkStatus();
}

absl::Status Resolver::ResolveWorkerCount(const std::string& role_text) {
  std::vector<std::pair<Setting, int>> counts;
  const auto add = [&](const Setting& setting) -> absl::Status {
    OARLOCK_ASSIGN_OR_RETURN(const int count,
                             ParseCount(setting, 1, kMaxWorkers));
    counts.emplace_back(setting, count);
    return absl::OkStatus();
  };
  if (arguments_.num_trainers) {
    OARLOCK_RETURN_IF_ERROR(
        add({"--trainers", absl::StrCat(*arguments_.num_trainers), true}));
  }
  for (const char* name : {"PADDLE_TRAINERS_NUM", "PADDLE_TRAINERS"}) {
    if (auto setting = Variable(name)) OARLOCK_RETURN_IF_ERROR(add(*setting));
  }
  if (auto setting = Variable("PADDLE_TRAINER_ENDPOINTS")) {
    OARLOCK_ASSIGN_OR_RETURN(EndpointList list,
                             ParseEndpointList(*setting, kMaxWorkers));
    counts.emplace_back(*setting, static_cast<int>(list.endpoints.size()));
    result_.worker_endpoints = std::move(list.endpoints);
  }
  if (counts.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the number of workers is not set, but ", role_text,
                     "; set PADDLE_TRAINERS_NUM or --trainers, for example "
                     "PADDLE_TRAINERS_NUM=2"));
  }
  for (size_t i = 1; i < counts.size(); ++i) {
    WarnIfDifferent(counts[0].first, counts[i].first,
                    counts[0].second != counts[i].second);
  }
  workers_source_ = counts[0].first;
  result_.num_workers = counts[0].second;
  return absl::OkStatus();
}

absl::Status Resolver::ResolveWorkerIndex() {
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

// Sets the index of the server with this host and, if it is said, port.
absl::Status Resolver::FindServer(const Setting& self, const std::string& host,
                                  std::optional<int> port) {
  std::vector<size_t> found;
  for (size_t i = 0; i < result_.server_endpoints.size(); ++i) {
    const std::string& endpoint = result_.server_endpoints[i];
    if (port ? endpoint == absl::StrCat(host, ":", *port)
             : HostOf(endpoint) == host) {
      found.push_back(i);
    }
  }
  const std::string list =
      absl::StrCat(servers_source_.name, "=", servers_source_.text);
  const std::string shown = port ? absl::StrCat(host, ":", *port) : host;
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

void Resolver::WarnAboutOtherSelf(const Setting& winner) {
  const std::string own = result_.server_endpoints[result_.server_index];
  const Setting shown{winner.name, own, winner.is_argument};
  for (const char* name : {"POD_IP", "PADDLE_CURRENT_IP"}) {
    if (auto setting = Variable(name)) {
      WarnIfDifferent(shown, *setting, HostOf(own) != setting->text);
    }
  }
  const auto index = Variable("PADDLE_PSERVER_ID");
  if (index && winner.name != index->name) {
    WarnIfDifferent(shown, *index,
                    index->text != absl::StrCat(result_.server_index));
  }
}

absl::Status Resolver::ServerIndexFromPod(const Setting& pod_ip) {
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

absl::Status Resolver::ResolveServerIndex() {
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

bool Resolver::IsCollective() const {
  if (HasArguments() || FirstOf({"PADDLE_PSERVERS_IP_PORT_LIST",
                                 "PADDLE_PSERVERS", "PADDLE_PSERVER_IPS"})) {
    return false;
  }
  if (Variable("PADDLE_TRAINER_IPS")) return true;
  return Variable("PADDLE_TRAINER_ENDPOINTS") &&
         (Variable("PADDLE_CURRENT_ENDPOINT") || !Variable("TRAINING_ROLE"));
}

absl::Status Resolver::ResolveCollective() {
  result_.role = Role::kCollective;
  const auto endpoints = Variable("PADDLE_TRAINER_ENDPOINTS");
  const auto ips = Variable("PADDLE_TRAINER_IPS");
  EndpointList list;
  if (endpoints) {
    OARLOCK_ASSIGN_OR_RETURN(list, ParseEndpointList(*endpoints, kMaxWorkers));
  }
  if (ips) {
    OARLOCK_ASSIGN_OR_RETURN(
        EndpointList fluid,
        JoinHostsAndPorts(*ips, PortVariable("PADDLE_PSERVER_PORT"),
                          kMaxWorkers));
    if (endpoints) {
      fluid.compare_hosts_only = true;
      OARLOCK_RETURN_IF_ERROR(CompareServers(list, fluid));
    } else {
      list = std::move(fluid);
    }
  }
  result_.worker_endpoints = std::move(list.endpoints);
  result_.num_workers = result_.worker_endpoints.size();
  workers_source_ = list.source;
  for (const char* name : {"PADDLE_TRAINERS_NUM", "PADDLE_TRAINERS"}) {
    if (auto setting = Variable(name)) {
      OARLOCK_ASSIGN_OR_RETURN(const int count,
                               ParseCount(*setting, 1, kMaxWorkers));
      WarnIfDifferent(workers_source_, *setting,
                      static_cast<uint32_t>(count) != result_.num_workers);
    }
  }
  return ResolveCollectiveRank(list.source);
}

absl::Status Resolver::ResolveCollectiveRank(const Setting& list) {
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
    return (by_host ? HostOf(e) : e) == self->text;
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

// The error for a job that is half described: no servers.
absl::Status Resolver::Incomplete() const {
  std::string found = absl::StrCat(role_source_.name, "=", role_source_.text);
  if (role_source_.name.empty()) {
    for (const EnvironmentVariable& variable : kVariables) {
      if (!variable.names_a_job) continue;
      if (auto setting = Variable(variable.name)) {
        found = absl::StrCat(setting->name, "=", setting->text);
        break;
      }
    }
  }
  if (role_source_.name.empty() && HasArguments()) {
    found = "arguments of a role are given";
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "no servers are named, but ", found,
      "; set PADDLE_PSERVERS_IP_PORT_LIST (or --pserver_endpoints), for "
      "example PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:6170,127.0.0.1:6171, or "
      "unset every PADDLE_* variable and TRAINING_ROLE for a local run"));
}

absl::StatusOr<RoleAssignment> Resolver::Resolve() {
  OARLOCK_RETURN_IF_ERROR(ResolveJob());
  const bool any_variable = std::any_of(
      std::begin(kVariables), std::end(kVariables), [&](const auto& variable) {
        return variable.names_a_job && Variable(variable.name);
      });
  if (!any_variable && !HasArguments()) {
    result_.reason = "no PADDLE_* variable is set: local run";
    return result_;
  }
  OARLOCK_ASSIGN_OR_RETURN(const std::optional<Kind> kind, ResolveKind());
  if (IsCollective() && kind != Kind::kServer) {
    OARLOCK_RETURN_IF_ERROR(ResolveCollective());
    result_.reason =
        absl::StrCat(RoleName(result_), ": no servers, ", workers_source_.name,
                     "=", workers_source_.text,
                     result_.reason.empty() ? "" : ", ", result_.reason);
    return result_;
  }
  OARLOCK_RETURN_IF_ERROR(ResolveServers());
  if (auto ips = Variable("PADDLE_TRAINER_IPS");
      ips && !result_.server_endpoints.empty()) {
    result_.warnings.push_back(absl::StrCat(
        servers_source_.name, "=", servers_source_.text,
        " asks for servers and PADDLE_TRAINER_IPS=", ips->text,
        " for a collective job; the servers count, set one of them only"));
  }
  if (result_.server_endpoints.empty()) return Incomplete();
  if (!kind) {
    return absl::InvalidArgumentError(absl::StrCat(
        "no role is set, but ", servers_source_.name, "=", servers_source_.text,
        "; set TRAINING_ROLE (Fluid: PADDLE_TRAINING_ROLE, or --role) to "
        "PSERVER or TRAINER, for example TRAINING_ROLE=TRAINER"));
  }
  const std::string role_text =
      absl::StrCat(role_source_.name, "=", role_source_.text);
  OARLOCK_RETURN_IF_ERROR(ResolveWorkerCount(role_text));
  if (*kind == Kind::kServer) {
    result_.role = Role::kServer;
    OARLOCK_RETURN_IF_ERROR(ResolveServerIndex());
  } else {
    result_.role = Role::kWorker;
    OARLOCK_RETURN_IF_ERROR(ResolveWorkerIndex());
  }
  result_.reason =
      absl::StrCat(RoleName(result_), ": ", role_text,
                   result_.reason.empty() ? "" : ", ", result_.reason);
  return result_;
}

}  // namespace

absl::Span<const EnvironmentVariable> EnvironmentVariables() {
  return kVariables;
}

EnvironmentMap ReadEnvironment() {
  EnvironmentMap environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(*entry, absl::MaxSplits('=', 1));
    environment.insert(parts);
  }
  return environment;
}

ExplicitRole ToExplicitRole(const v1::RoleConfig& config) {
  ExplicitRole role;
  if (config.has_role()) role.role = config.role();
  if (config.has_trainer_id()) role.trainer_id = config.trainer_id();
  if (config.has_pserver_endpoints()) {
    role.pserver_endpoints = config.pserver_endpoints();
  }
  if (config.has_current_endpoint()) {
    role.current_endpoint = config.current_endpoint();
  }
  if (config.has_trainers()) role.num_trainers = config.trainers();
  return role;
}

absl::StatusOr<RoleAssignment> ResolveRole(const EnvironmentMap& environment,
                                           const ExplicitRole& arguments) {
  return Resolver(environment, arguments).Resolve();
}

std::string RoleName(const RoleAssignment& role) {
  switch (role.role) {
    case Role::kLocal:
      return "local";
    case Role::kServer:
      return absl::StrCat("server ", role.server_index, " of ",
                          role.server_endpoints.size());
    case Role::kWorker:
      return absl::StrCat("worker ", role.worker_index, " of ",
                          role.num_workers);
    case Role::kCollective:
      return absl::StrCat("collective worker ", role.worker_index, " of ",
                          role.num_workers);
  }
  return "";
}

std::string ExplainRole(const RoleAssignment& role) {
  std::string text = absl::StrCat("role      ", RoleName(role), "\n",
                                  "because   ", role.reason, "\n");
  if (role.role == Role::kServer) {
    absl::StrAppend(&text, "listens   ",
                    role.server_endpoints[role.server_index], "\n");
  }
  if (!role.server_endpoints.empty()) {
    absl::StrAppend(&text, "servers   ", role.server_endpoints.size(), ": ",
                    absl::StrJoin(role.server_endpoints, ", "), "\n");
  }
  absl::StrAppend(&text, "workers   ", role.num_workers,
                  role.worker_endpoints.empty() ? "" : ": ",
                  absl::StrJoin(role.worker_endpoints, ", "), "\n");
  absl::StrAppend(&text, "job       ", role.job_id, "\n");
  if (role.insecure) {
    absl::StrAppend(&text,
                    "security  none beyond loopback either "
                    "(OARLOCK_INSECURE=1)\n");
  }
  for (const std::string& warning : role.warnings) {
    absl::StrAppend(&text, "warning   ", warning, "\n");
  }
  return text;
}

}  // namespace oarlock
