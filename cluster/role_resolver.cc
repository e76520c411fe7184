#include "cluster/role_resolver.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "cluster/alone_check.h"

namespace oarlock::cluster {

std::optional<Setting> RoleResolver::Variable(const std::string& name) const {
  auto found = environment_.find(name);
  if (found == environment_.end()) return std::nullopt;
  const std::string text(absl::StripAsciiWhitespace(found->second));
  if (text.empty()) return std::nullopt;
  return Setting{name, text};
}

std::optional<Setting> RoleResolver::FirstOf(
    std::initializer_list<const char*> names) const {
  for (const char* name : names) {
    if (auto setting = Variable(name)) return setting;
  }
  return std::nullopt;
}

Setting RoleResolver::PortVariable(const std::string& name) const {
  return Variable(name).value_or(
      Setting{name, absl::StrCat(kDefaultServerPort)});
}

bool RoleResolver::HasArguments() const {
  return arguments_.role || arguments_.trainer_id ||
         arguments_.pserver_endpoints || arguments_.current_endpoint ||
         arguments_.num_trainers;
}

void RoleResolver::WarnIfDifferent(const Setting& winner, const Setting& loser,
                                   bool different) {
  if (!different) return;
  result_.warnings.push_back(
      absl::StrCat(winner.name, "=", winner.text, " and ", loser.name, "=",
                   loser.text, " disagree; ", winner.name, " counts, being ",
                   winner.is_argument ? "an argument" : "the newer",
                   "; set one of them only, or both alike"));
}

absl::Status RoleResolver::ResolveJob() {
  const auto job = Variable("PADDLE_JOB_ID");
  const auto old_job = Variable("SYS_JOB_ID");
  if (job && old_job)
    WarnIfDifferent(*job, *old_job, job->text != old_job->text);
  if (job) {
    result_.job_id = job->text;
  } else if (old_job) {
    result_.job_id = old_job->text;
  }
  OARLOCK_ASSIGN_OR_RETURN(result_.security, SecurityFrom(environment_));
  if (const auto restarts = Variable("OARLOCK_RESTART")) {
    if (!absl::SimpleAtoi(restarts->text, &result_.restarts)) {
      return WrongSetting(*restarts, "a number from 0 on", "1");
    }
  }
  if (const auto listen = Variable("OARLOCK_LISTEN_FD")) {
    if (!absl::SimpleAtoi(listen->text, &result_.listen_descriptor) ||
        result_.listen_descriptor < 0) {
      return WrongSetting(*listen, "the number of a descriptor", "3");
    }
  }
  if (const auto together = Variable("OARLOCK_RESTART_TOGETHER")) {
    if (!absl::SimpleAtob(together->text, &result_.restarted_together)) {
      return WrongSetting(*together, "1 or 0", "1");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<RoleResolver::Kind>> RoleResolver::ResolveKind() {
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

absl::Status RoleResolver::ResolveServers() {
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

absl::Status RoleResolver::CompareServers(const EndpointList& winner,
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

absl::Status RoleResolver::ResolveWorkerCount(const std::string& role_text) {
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

bool RoleResolver::IsCollective() const {
  if (HasArguments() || FirstOf({"PADDLE_PSERVERS_IP_PORT_LIST",
                                 "PADDLE_PSERVERS", "PADDLE_PSERVER_IPS"})) {
    return false;
  }
  if (Variable("PADDLE_TRAINER_IPS")) return true;
  return Variable("PADDLE_TRAINER_ENDPOINTS") &&
         (Variable("PADDLE_CURRENT_ENDPOINT") || !Variable("TRAINING_ROLE"));
}

absl::Status RoleResolver::ResolveCollective() {
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

absl::Status RoleResolver::Incomplete() const {
  std::string found = absl::StrCat(role_source_.name, "=", role_source_.text);
  if (role_source_.name.empty()) {
    for (const EnvironmentVariable& variable : EnvironmentVariables()) {
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

absl::StatusOr<RoleAssignment> RoleResolver::Resolve() {
  OARLOCK_RETURN_IF_ERROR(ResolveJob());
  const absl::Span<const EnvironmentVariable> variables =
      EnvironmentVariables();
  const bool any_variable = std::any_of(
      variables.begin(), variables.end(), [&](const auto& variable) {
        return variable.names_a_job && Variable(variable.name);
      });
  if (!any_variable && !HasArguments()) {
    if (!arguments_.alone) OARLOCK_RETURN_IF_ERROR(CheckAlone(environment_));
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

}  // namespace oarlock::cluster
