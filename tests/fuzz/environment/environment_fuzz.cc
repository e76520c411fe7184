// Fuzz target of ResolveRole, for libFuzzer and for environment_replay_test.
//
// Input: lines NAME=value; a name that starts with "--" is an argument. Aborts
// when a result contradicts itself or an error is not one line.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "cluster/environment.h"

namespace {

// What is wrong with the result, or null.
const char* WhatIsWrong(const oarlock::cluster::RoleAssignment& role) {
  if (role.reason.empty()) return "no reason";
  if (role.num_workers < 1) return "no workers";
  switch (role.role) {
    case oarlock::cluster::Role::kLocal:
      if (!role.server_endpoints.empty()) return "local with servers";
      break;
    case oarlock::cluster::Role::kServer:
      if (role.server_index >= role.server_endpoints.size()) {
        return "server out of range";
      }
      break;
    case oarlock::cluster::Role::kWorker:
      if (role.server_endpoints.empty()) return "worker without servers";
      if (role.worker_index >= role.num_workers) return "worker out of range";
      break;
    case oarlock::cluster::Role::kCollective:
      if (!role.server_endpoints.empty()) return "collective with servers";
      if (role.worker_endpoints.size() != role.num_workers) {
        return "collective without all endpoints";
      }
      if (role.worker_index >= role.num_workers) return "rank out of range";
      break;
  }
  for (const auto& endpoint : role.server_endpoints) {
    if (endpoint.find(':') == std::string::npos) return "server without port";
  }
  return nullptr;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  oarlock::cluster::EnvironmentMap environment;
  oarlock::cluster::ExplicitRole arguments;
  for (absl::string_view line : absl::StrSplit(input, '\n')) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(line, absl::MaxSplits('=', 1));
    const auto& [name, value] = parts;
    int number = 0;
    const bool is_number = absl::SimpleAtoi(value, &number);
    if (name == "--role") {
      arguments.role = value;
    } else if (name == "--pserver_endpoints") {
      arguments.pserver_endpoints = value;
    } else if (name == "--current_endpoint") {
      arguments.current_endpoint = value;
    } else if (name == "--trainer_id" && is_number) {
      arguments.trainer_id = number;
    } else if (name == "--trainers" && is_number) {
      arguments.num_trainers = number;
    } else if (!name.empty()) {
      environment[name] = value;
    }
  }
  const auto role = oarlock::cluster::ResolveRole(environment, arguments);
  const char* wrong = nullptr;
  if (role.ok()) {
    wrong = WhatIsWrong(*role);
    oarlock::cluster::ExplainRole(*role);
  } else if (role.status().message().empty()) {
    wrong = "an error without a message";
  } else if (absl::StrContains(role.status().message(), '\n')) {
    wrong = "an error of several lines";
  }
  if (wrong != nullptr) {
    std::fprintf(stderr, "%s\n", wrong);
    std::abort();
  }
  return 0;
}
