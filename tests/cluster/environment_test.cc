#include "cluster/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/cluster/environment_testing.h"

namespace oarlock::cluster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Legal environments and what they mean.
struct GoodCase {
  std::string name;
  EnvironmentMap environment;
  std::string role;
  std::vector<std::string> servers;
  std::string because;
};

std::vector<GoodCase> GoodCases() {
  const std::vector<std::string> fluid = {"127.0.0.2:6174", "127.0.0.3:6174"};
  const std::vector<std::string> two = {"127.0.0.1:6170", "127.0.0.1:6171"};
  return {
      {"Nothing", {}, "local", {}, "no PADDLE_* variable is set: local run"},
      {"OnlyThePodsAddressAndTheJob",
       {{"POD_IP", "10.0.0.1"}, {"PADDLE_JOB_ID", "j"}},
       "local",
       {},
       "no PADDLE_* variable is set: local run"},
      {"EmptyVariables",
       {{"TRAINING_ROLE", ""}, {"PADDLE_PSERVERS_IP_PORT_LIST", " "}},
       "local",
       {},
       "no PADDLE_* variable is set: local run"},
      {"FluidServer",
       {{"PADDLE_TRAINING_ROLE", "PSERVER"},
        {"PADDLE_PSERVER_IPS", "127.0.0.2,127.0.0.3"},
        {"PADDLE_TRAINERS", "2"},
        {"PADDLE_CURRENT_IP", "127.0.0.3"}},
       "server 1 of 2",
       fluid,
       "server 1 of 2: PADDLE_TRAINING_ROLE=PSERVER, PADDLE_CURRENT_IP "
       "127.0.0.3 is number 1 of PADDLE_PSERVER_IPS"},
      {"FluidServerOfVersion014",
       {{"PADDLE_TRAINING_ROLE", "PSERVER"},
        {"PADDLE_PSERVER_IPS", "127.0.0.2,127.0.0.3"},
        {"PADDLE_TRAINERS", "2"},
        {"POD_IP", "127.0.0.2"}},
       "server 0 of 2",
       fluid,
       "server 0 of 2: PADDLE_TRAINING_ROLE=PSERVER, POD_IP 127.0.0.2 is "
       "number 0 of PADDLE_PSERVER_IPS"},
      {"FluidWorkerWithAPort",
       {{"PADDLE_TRAINING_ROLE", "TRAINER"},
        {"PADDLE_PSERVER_IPS", "127.0.0.2, 127.0.0.3"},
        {"PADDLE_PSERVER_PORT", "7000"},
        {"PADDLE_TRAINERS", "3"},
        {"PADDLE_TRAINER_ID", "2"}},
       "worker 2 of 3",
       {"127.0.0.2:7000", "127.0.0.3:7000"},
       "worker 2 of 3: PADDLE_TRAINING_ROLE=TRAINER, PADDLE_TRAINER_ID=2"},
      {"FluidWorkerAlone",
       {{"PADDLE_TRAINING_ROLE", "TRAINER"},
        {"PADDLE_PSERVER_IPS", "ps.example"},
        {"PADDLE_TRAINERS", "1"}},
       "worker 0 of 1",
       {"ps.example:6174"},
       "worker 0 of 1: PADDLE_TRAINING_ROLE=TRAINER"},
      {"Fleet15OnePort",
       {{"TRAINING_ROLE", "PSERVER"},
        {"PADDLE_PSERVERS", "127.0.0.2,127.0.0.3"},
        {"PADDLE_PORT", "6174"},
        {"PADDLE_TRAINERS_NUM", "2"},
        {"POD_IP", "127.0.0.3"}},
       "server 1 of 2",
       fluid,
       "server 1 of 2: TRAINING_ROLE=PSERVER, POD_IP:PADDLE_PORT "
       "127.0.0.3:6174 is number 1 of PADDLE_PSERVERS"},
      {"Fleet15DefaultPortAndLowerCase",
       {{"TRAINING_ROLE", "pserver"},
        {"PADDLE_PSERVERS", "127.0.0.2,127.0.0.3"},
        {"PADDLE_TRAINERS_NUM", "2"},
        {"POD_IP", "127.0.0.2"}},
       "server 0 of 2",
       fluid,
       "server 0 of 2: TRAINING_ROLE=PSERVER, POD_IP 127.0.0.2 is number 0 of "
       "PADDLE_PSERVERS"},
      {"Fleet16PortList",
       {{"TRAINING_ROLE", "TRAINER"},
        {"PADDLE_PSERVERS", "127.0.0.1,127.0.0.1"},
        {"PADDLE_PORT", "6170,6171"},
        {"PADDLE_TRAINERS_NUM", "2"},
        {"PADDLE_TRAINER_ID", "1"}},
       "worker 1 of 2",
       two,
       "worker 1 of 2: TRAINING_ROLE=TRAINER, PADDLE_TRAINER_ID=1"},
      {"Fleet17ServerByIndex",
       {{"TRAINING_ROLE", "PSERVER"},
        {"PADDLE_PSERVERS_IP_PORT_LIST", kTwo},
        {"PADDLE_TRAINERS_NUM", "2"},
        {"PADDLE_PSERVER_ID", "1"}},
       "server 1 of 2",
       two,
       "server 1 of 2: TRAINING_ROLE=PSERVER, PADDLE_PSERVER_ID=1"},
      {"Fleet2Server",
       {{"TRAINING_ROLE", "PSERVER"},
        {"PADDLE_PSERVERS_IP_PORT_LIST", kTwo},
        {"PADDLE_TRAINERS_NUM", "2"},
        {"PADDLE_TRAINER_ENDPOINTS", "127.0.0.1:1,127.0.0.1:2"},
        {"POD_IP", "127.0.0.1"},
        {"PADDLE_PORT", "6171"}},
       "server 1 of 2",
       two,
       "server 1 of 2: TRAINING_ROLE=PSERVER, POD_IP:PADDLE_PORT "
       "127.0.0.1:6171 is number 1 of PADDLE_PSERVERS_IP_PORT_LIST"},
      {"Fleet2WorkersCountedByTheirEndpoints",
       {{"TRAINING_ROLE", "TRAINER"},
        {"PADDLE_PSERVERS_IP_PORT_LIST", kTwo},
        {"PADDLE_TRAINER_ENDPOINTS", "127.0.0.1:1,127.0.0.1:2"},
        {"PADDLE_TRAINER_ID", "1"}},
       "worker 1 of 2",
       two,
       "worker 1 of 2: TRAINING_ROLE=TRAINER, PADDLE_TRAINER_ID=1"},
      {"OldRoleVariableInTheNewestGeneration",
       {{"PADDLE_TRAINING_ROLE", "TRAINER"},
        {"PADDLE_PSERVERS_IP_PORT_LIST", "[::1]:6170"},
        {"PADDLE_TRAINERS_NUM", "1"}},
       "worker 0 of 1",
       {"[::1]:6170"},
       "worker 0 of 1: PADDLE_TRAINING_ROLE=TRAINER"},
      {"CollectiveFluid",
       {{"PADDLE_TRAINER_IPS", "127.0.0.2,127.0.0.3"},
        {"PADDLE_TRAINER_ID", "1"},
        {"PADDLE_CURRENT_IP", "127.0.0.3"},
        {"PADDLE_PSERVER_PORT", "7164"}},
       "collective worker 1 of 2",
       {},
       "collective worker 1 of 2: no servers, "
       "PADDLE_TRAINER_IPS=127.0.0.2,127.0.0.3, PADDLE_TRAINER_ID=1"},
      {"CollectiveFleet",
       {{"PADDLE_TRAINER_ENDPOINTS", kTwo},
        {"PADDLE_CURRENT_ENDPOINT", "127.0.0.1:6171"},
        {"PADDLE_TRAINER_ID", "1"},
        {"PADDLE_TRAINERS_NUM", "2"},
        {"TRAINING_ROLE", "TRAINER"}},
       "collective worker 1 of 2",
       {},
       "collective worker 1 of 2: no servers, PADDLE_TRAINER_ENDPOINTS="
       "127.0.0.1:6170,127.0.0.1:6171, PADDLE_TRAINER_ID=1"},
      {"CollectiveFleetByEndpoint",
       {{"PADDLE_TRAINER_ENDPOINTS", kTwo},
        {"PADDLE_CURRENT_ENDPOINT", "127.0.0.1:6171"}},
       "collective worker 1 of 2",
       {},
       "collective worker 1 of 2: no servers, PADDLE_TRAINER_ENDPOINTS="
       "127.0.0.1:6170,127.0.0.1:6171, PADDLE_CURRENT_ENDPOINT is number 1 of "
       "PADDLE_TRAINER_ENDPOINTS"},
  };
}

TEST(EnvironmentTest, EveryGenerationIsUnderstoodWithoutAWarning) {
  for (const GoodCase& c : GoodCases()) {
    SCOPED_TRACE(c.name);
    const auto role = ResolveRole(c.environment, {});
    ASSERT_TRUE(role.ok()) << role.status();
    EXPECT_EQ(RoleName(*role), c.role);
    EXPECT_EQ(role->server_endpoints, c.servers);
    EXPECT_EQ(role->reason, c.because);
    EXPECT_THAT(role->warnings, IsEmpty());
  }
}

TEST(EnvironmentTest, DisagreementsNameBothAndTheNewerWins) {
  const auto warnings_of = [](const EnvironmentMap& environment,
                              const ExplicitRole& arguments = {}) {
    const auto role = ResolveRole(environment, arguments);
    EXPECT_TRUE(role.ok()) << role.status();
    return role.ok() ? role->warnings : std::vector<std::string>();
  };
  EXPECT_THAT(warnings_of(Worker({{"PADDLE_TRAINERS", "3"}})),
              ElementsAre("PADDLE_TRAINERS_NUM=2 and PADDLE_TRAINERS=3 "
                          "disagree; PADDLE_TRAINERS_NUM counts, being the "
                          "newer; set one of them only, or both alike"));
  EXPECT_EQ(ResolveRole(Worker({{"PADDLE_TRAINERS", "3"}}), {})->num_workers,
            2u);
  EXPECT_THAT(warnings_of(Worker({{"PADDLE_TRAINING_ROLE", "PSERVER"}})),
              ElementsAre(HasSubstr("TRAINING_ROLE=TRAINER and "
                                    "PADDLE_TRAINING_ROLE=PSERVER disagree")));
  EXPECT_THAT(
      warnings_of(Worker({{"PADDLE_PSERVER_IPS", "127.0.0.2,127.0.0.3"}})),
      ElementsAre(HasSubstr("PADDLE_PSERVER_IPS=127.0.0.2:6174,127.0.0.3:6174 "
                            "disagree")));
  EXPECT_THAT(warnings_of(Worker({{"PADDLE_PSERVERS", "127.0.0.1,127.0.0.2"}})),
              ElementsAre(HasSubstr("PADDLE_PSERVERS=127.0.0.1,127.0.0.2 "
                                    "disagree")));
  EXPECT_THAT(warnings_of(Worker({{"PADDLE_PSERVERS", "127.0.0.1,127.0.0.1"}})),
              IsEmpty());
  EXPECT_THAT(warnings_of(Worker({{"PADDLE_TRAINER_ENDPOINTS", "h:1"}})),
              ElementsAre(HasSubstr("PADDLE_TRAINER_ENDPOINTS=h:1 disagree")));
  EXPECT_THAT(warnings_of(Server({{"PADDLE_CURRENT_IP", "127.0.0.9"}})),
              ElementsAre(HasSubstr("POD_IP:PADDLE_PORT=127.0.0.1:6170 and "
                                    "PADDLE_CURRENT_IP=127.0.0.9 disagree")));
  EXPECT_THAT(warnings_of(Server({{"PADDLE_PSERVER_ID", "1"}})),
              ElementsAre(HasSubstr("PADDLE_PSERVER_ID=1 disagree")));
  EXPECT_THAT(
      warnings_of(Worker({{"PADDLE_JOB_ID", "a"}, {"SYS_JOB_ID", "b"}})),
      ElementsAre(HasSubstr("PADDLE_JOB_ID=a and SYS_JOB_ID=b disagree")));
  EXPECT_THAT(warnings_of(Worker({{"PADDLE_TRAINER_IPS", "127.0.0.2"}})),
              ElementsAre(HasSubstr("the servers count")));
  ExplicitRole five_workers;
  five_workers.num_trainers = 5;
  EXPECT_THAT(warnings_of(Worker({}), five_workers),
              ElementsAre("--trainers=5 and PADDLE_TRAINERS_NUM=2 disagree; "
                          "--trainers counts, being an argument; set one of "
                          "them only, or both alike"));
}

TEST(EnvironmentTest, AnAddressIsOneInEverySpelling) {
  for (const char* pod_ip : {"fd00::1", "[fd00::1]", "FD00:0:0::1"}) {
    const auto role = ResolveRole(
        {{"TRAINING_ROLE", "PSERVER"},
         {"PADDLE_TRAINERS_NUM", "1"},
         {"PADDLE_PSERVERS_IP_PORT_LIST", "[fd00::2]:6170,[fd00:0000::1]:6170"},
         {"POD_IP", pod_ip},
         {"PADDLE_PORT", "6170"}},
        {});
    ASSERT_TRUE(role.ok()) << role.status();
    EXPECT_EQ(role->server_index, 1u);
    EXPECT_TRUE(role->warnings.empty());
  }
}

TEST(EnvironmentTest, TheEntryOfTheOwnHostCountsWhateverThePort) {
  EnvironmentMap environment = {
      {"TRAINING_ROLE", "PSERVER"},
      {"PADDLE_TRAINERS_NUM", "1"},
      {"PADDLE_PSERVERS_IP_PORT_LIST", "10.0.0.1:6170,10.0.0.2:6170"},
      {"POD_IP", "10.0.0.2"},
      {"PADDLE_PORT", "2379"}};
  const auto role = ResolveRole(environment, {});
  ASSERT_TRUE(role.ok()) << role.status();
  EXPECT_EQ(role->server_index, 1u);
  ASSERT_EQ(role->warnings.size(), 1u);
  EXPECT_EQ(role->warnings[0],
            "POD_IP:PADDLE_PORT is 10.0.0.2:2379, and "
            "PADDLE_PSERVERS_IP_PORT_LIST=10.0.0.1:6170,10.0.0.2:6170 has "
            "10.0.0.2:6170 of that host, which counts");
  // Two of one host, or one on loopback, may be others.
  environment["PADDLE_PSERVERS_IP_PORT_LIST"] = "10.0.0.2:6171,10.0.0.2:6170";
  EXPECT_FALSE(ResolveRole(environment, {}).ok());
  environment["PADDLE_PSERVERS_IP_PORT_LIST"] = "127.0.0.1:6170";
  environment["POD_IP"] = "127.0.0.1";
  EXPECT_FALSE(ResolveRole(environment, {}).ok());
}

TEST(EnvironmentTest, ArgumentsAloneMakeEitherRole) {
  ExplicitRole arguments;
  arguments.role = "PSERVER";
  arguments.pserver_endpoints = kTwo;
  arguments.current_endpoint = "127.0.0.1:6171";
  arguments.num_trainers = 4;
  auto role = ResolveRole({}, arguments);
  ASSERT_TRUE(role.ok()) << role.status();
  EXPECT_EQ(role->role, Role::kServer);
  EXPECT_EQ(role->server_index, 1u);
  EXPECT_EQ(role->num_workers, 4u);
  arguments.role = "TRAINER";
  arguments.trainer_id = 3;
  role = ResolveRole({}, arguments);
  ASSERT_TRUE(role.ok()) << role.status();
  EXPECT_EQ(role->role, Role::kWorker);
  EXPECT_EQ(role->worker_index, 3u);
  EXPECT_EQ(role->server_endpoints.size(), 2u);
}

TEST(EnvironmentTest, ArgumentsWinOverEveryVariable) {
  ExplicitRole arguments;
  arguments.role = "TRAINER";
  arguments.trainer_id = 0;
  arguments.pserver_endpoints = "127.0.0.9:1";
  arguments.num_trainers = 1;
  const auto role = ResolveRole(Server({}), arguments);
  ASSERT_TRUE(role.ok()) << role.status();
  EXPECT_EQ(RoleName(*role), "worker 0 of 1");
  EXPECT_THAT(role->server_endpoints, ElementsAre("127.0.0.9:1"));
  EXPECT_EQ(role->warnings.size(), 3u);
}

TEST(EnvironmentTest, FlagsGiveTheSameArguments) {
  v1::RoleConfig config;
  EXPECT_FALSE(ToExplicitRole(config).role.has_value());
  config.set_role("TRAINER");
  config.set_trainer_id(1);
  config.set_pserver_endpoints(kTwo);
  config.set_trainers(2);
  const ExplicitRole arguments = ToExplicitRole(config);
  EXPECT_FALSE(arguments.current_endpoint.has_value());
  const auto role = ResolveRole({}, arguments);
  ASSERT_TRUE(role.ok()) << role.status();
  EXPECT_EQ(RoleName(*role), "worker 1 of 2");
}

TEST(EnvironmentTest, JobAndSecurityAreReadInEveryRole) {
  for (EnvironmentMap environment :
       {EnvironmentMap(), Worker({}), Server({})}) {
    EXPECT_EQ(ResolveRole(environment, {})->job_id, "default");
    EXPECT_FALSE(ResolveRole(environment, {})->security.insecure);
    environment["SYS_JOB_ID"] = "old";
    environment["OARLOCK_INSECURE"] = "1";
    EXPECT_EQ(ResolveRole(environment, {})->job_id, "old");
    EXPECT_TRUE(ResolveRole(environment, {})->security.insecure);
  }
}

TEST(EnvironmentTest, FlagsOfSecurityCountBeforeTheEnvironment) {
  const EnvironmentMap environment = {{"OARLOCK_TOKEN_FILE", "token"},
                                      {"OARLOCK_TLS_CERT_FILE", "cert"},
                                      {"OARLOCK_TLS_KEY_FILE", "key"},
                                      {"OARLOCK_TLS_CA_FILE", ""}};
  SecurityOptions flags;
  flags.tls_key_file = "own";
  flags.tls_ca_file = "ca";
  const auto security = SecurityFrom(environment, flags);
  ASSERT_TRUE(security.ok()) << security.status();
  EXPECT_EQ(security->token_file, "token");
  EXPECT_EQ(security->tls_cert_file, "cert");
  EXPECT_EQ(security->tls_key_file, "own");
  EXPECT_EQ(security->tls_ca_file, "ca");
  EXPECT_FALSE(security->insecure);
  EXPECT_EQ(ResolveRole(environment, {})->security.token_file, "token");
}

TEST(EnvironmentTest, TheExplanationShowsWhatCounts) {
  const auto role = ResolveRole(Server({{"PADDLE_TRAINERS", "3"}}), {});
  ASSERT_TRUE(role.ok());
  EXPECT_EQ(
      ExplainRole(*role),
      "role      server 0 of 2\n"
      "because   server 0 of 2: TRAINING_ROLE=PSERVER, POD_IP:PADDLE_PORT "
      "127.0.0.1:6170 is number 0 of PADDLE_PSERVERS_IP_PORT_LIST\n"
      "listens   127.0.0.1:6170\n"
      "servers   2: 127.0.0.1:6170, 127.0.0.1:6171\n"
      "workers   2\n"
      "job       default\n"
      "warning   PADDLE_TRAINERS_NUM=2 and PADDLE_TRAINERS=3 disagree; "
      "PADDLE_TRAINERS_NUM counts, being the newer; set one of them only, or "
      "both alike\n");
}

TEST(EnvironmentTest, TheProcessesOwnEnvironmentIsRead) {
  ASSERT_EQ(setenv("OARLOCK_TEST_VARIABLE", "a=b", 1), 0);
  EXPECT_EQ(ReadEnvironment()["OARLOCK_TEST_VARIABLE"], "a=b");
  ASSERT_EQ(unsetenv("OARLOCK_TEST_VARIABLE"), 0);
  EXPECT_EQ(ReadEnvironment().count("OARLOCK_TEST_VARIABLE"), 0u);
}

TEST(EnvironmentTest, SelectedGpusAreWhatTheVariableSays) {
  EXPECT_EQ(SelectedGpus({{"FLAGS_selected_gpus", "1,3"}}), "1,3");
  EXPECT_EQ(SelectedGpus({{"FLAGS_gpus", "1,3"}}), "");
}

}  // namespace
}  // namespace oarlock::cluster
