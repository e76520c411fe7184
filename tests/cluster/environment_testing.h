// Environments of roles that lack nothing.

#ifndef OARLOCK_TESTS_CLUSTER_ENVIRONMENT_TESTING_H_
#define OARLOCK_TESTS_CLUSTER_ENVIRONMENT_TESTING_H_

#include "cluster/environment.h"

namespace oarlock::cluster {

// Two servers.
inline constexpr char kTwo[] = "127.0.0.1:6170,127.0.0.1:6171";

// The environment of a worker that lacks nothing, with changes: an empty value
// removes a variable.
inline EnvironmentMap Worker(const EnvironmentMap& changes) {
  EnvironmentMap environment = {
      {"TRAINING_ROLE", "TRAINER"},
      {"PADDLE_PSERVERS_IP_PORT_LIST", kTwo},
      {"PADDLE_TRAINERS_NUM", "2"},
      {"PADDLE_TRAINER_ID", "1"},
  };
  for (const auto& [name, value] : changes) environment[name] = value;
  return environment;
}

// The same of a server.
inline EnvironmentMap Server(const EnvironmentMap& changes) {
  EnvironmentMap environment = {
      {"TRAINING_ROLE", "PSERVER"}, {"PADDLE_PSERVERS_IP_PORT_LIST", kTwo},
      {"PADDLE_TRAINERS_NUM", "2"}, {"POD_IP", "127.0.0.1"},
      {"PADDLE_PORT", "6170"},
  };
  for (const auto& [name, value] : changes) environment[name] = value;
  return environment;
}

}  // namespace oarlock::cluster

#endif  // OARLOCK_TESTS_CLUSTER_ENVIRONMENT_TESTING_H_
