#include "cluster/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "cluster/endpoint.h"

namespace oarlock {
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

const char kTwo[] = "127.0.0.1:6170,127.0.0.1:6171";

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

// The environment of a worker that lacks nothing, with changes: an empty value
// removes a variable.
EnvironmentMap Worker(const EnvironmentMap& changes) {
  EnvironmentMap environment = {
      {"TRAINING_ROLE", "TRAINER"},
      {"PADDLE_PSERVERS_IP_PORT_LIST", kTwo},
      {"PADDLE_TRAINERS_NUM", "2"},
      {"PADDLE_TRAINER_ID", "1"},
  };
  for (const auto& [name, value] : changes) environment[name] = value;
  return environment;
}

EnvironmentMap Server(const EnvironmentMap& changes) {
  EnvironmentMap environment = {
      {"TRAINING_ROLE", "PSERVER"}, {"PADDLE_PSERVERS_IP_PORT_LIST", kTwo},
      {"PADDLE_TRAINERS_NUM", "2"}, {"POD_IP", "127.0.0.1"},
      {"PADDLE_PORT", "6170"},
  };
  for (const auto& [name, value] : changes) environment[name] = value;
  return environment;
}

TEST(EnvironmentTest, TheBasesOfTheErrorCasesAreLegal) {
  EXPECT_TRUE(ResolveRole(Worker({}), {}).ok());
  EXPECT_TRUE(ResolveRole(Server({}), {}).ok());
}

struct BadCase {
  EnvironmentMap environment;
  std::string message;
};

TEST(EnvironmentTest, EveryMistakeIsOneSentence) {
  const std::vector<BadCase> cases = {
      {Worker({{"TRAINING_ROLE", "WORKER"}}),
       "TRAINING_ROLE is \"WORKER\"; it must be PSERVER or TRAINER, for "
       "example TRAINING_ROLE=TRAINER"},
      {Worker({{"TRAINING_ROLE", "HETER_TRAINER"}}),
       "TRAINING_ROLE is \"HETER_TRAINER\"; it must be PSERVER or TRAINER, "
       "for example TRAINING_ROLE=TRAINER"},
      {Worker({{"TRAINING_ROLE", ""}}),
       "no role is set, but PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:6170,"
       "127.0.0.1:6171; set TRAINING_ROLE (Fluid: PADDLE_TRAINING_ROLE, or "
       "--role) to PSERVER or TRAINER, for example TRAINING_ROLE=TRAINER"},
      {Worker({{"PADDLE_PSERVERS_IP_PORT_LIST", ""}}),
       "no servers are named, but TRAINING_ROLE=TRAINER; set "
       "PADDLE_PSERVERS_IP_PORT_LIST (or --pserver_endpoints), for example "
       "PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:6170,127.0.0.1:6171, or unset "
       "every PADDLE_* variable and TRAINING_ROLE for a local run"},
      {{{"PADDLE_TRAINER_ID", "0"}},
       "no servers are named, but PADDLE_TRAINER_ID=0; set "
       "PADDLE_PSERVERS_IP_PORT_LIST (or --pserver_endpoints), for example "
       "PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:6170,127.0.0.1:6171, or unset "
       "every PADDLE_* variable and TRAINING_ROLE for a local run"},
      {Server({{"PADDLE_PORT", "6172"}}),
       "POD_IP:PADDLE_PORT is \"127.0.0.1:6172\", which is not in "
       "PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:6170,127.0.0.1:6171; it must "
       "be one of 127.0.0.1:6170, 127.0.0.1:6171"},
      {Server({{"POD_IP", ""}, {"PADDLE_PORT", ""}}),
       "this is a server (TRAINING_ROLE=PSERVER), but nothing says which of "
       "PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:6170,127.0.0.1:6171; set POD_IP "
       "and PADDLE_PORT (Fluid: PADDLE_CURRENT_IP), or --current_endpoint, for "
       "example POD_IP=127.0.0.1 PADDLE_PORT=6170"},
      {Server({{"PADDLE_PORT", ""}}),
       "PADDLE_PORT is not set, but POD_IP=127.0.0.1 and this is a server; "
       "set it to this server's port in PADDLE_PSERVERS_IP_PORT_LIST="
       "127.0.0.1:6170,127.0.0.1:6171, for example PADDLE_PORT=6170"},
      {Server({{"PADDLE_PORT", "6170,6171"}}),
       "POD_IP is \"127.0.0.1\", which is 2 times in "
       "PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:6170,127.0.0.1:6171; say which "
       "by POD_IP and PADDLE_PORT, for example POD_IP=127.0.0.1 "
       "PADDLE_PORT=6170"},
      {Server({{"PADDLE_PORT", "http"}}),
       "PADDLE_PORT is \"http\"; it must be a port from 1 to 65535, for "
       "example PADDLE_PORT=6170"},
      {{{"PADDLE_TRAINING_ROLE", "PSERVER"},
        {"PADDLE_PSERVER_IPS", "127.0.0.2,127.0.0.3"},
        {"PADDLE_TRAINERS", "2"},
        {"PADDLE_CURRENT_IP", "127.0.0.4"}},
       "PADDLE_CURRENT_IP is \"127.0.0.4\", which is not in "
       "PADDLE_PSERVER_IPS=127.0.0.2,127.0.0.3; it must be one of "
       "127.0.0.2:6174, 127.0.0.3:6174"},
      {{{"PADDLE_TRAINING_ROLE", "PSERVER"},
        {"PADDLE_PSERVER_IPS", "127.0.0.2,127.0.0.2"},
        {"PADDLE_TRAINERS", "2"},
        {"PADDLE_CURRENT_IP", "127.0.0.2"}},
       "PADDLE_PSERVER_IPS is \"127.0.0.2,127.0.0.2\", which names "
       "127.0.0.2:6174 twice; with one port for all, each process needs an "
       "address of its own; servers on one address need "
       "PADDLE_PSERVERS_IP_PORT_LIST"},
      {{{"TRAINING_ROLE", "TRAINER"},
        {"PADDLE_PSERVERS", "127.0.0.2,127.0.0.3"},
        {"PADDLE_PORT", "1,2,3"},
        {"PADDLE_TRAINERS_NUM", "1"}},
       "PADDLE_PORT is \"1,2,3\", 3 ports, but PADDLE_PSERVERS is "
       "\"127.0.0.2,127.0.0.3\", 2 addresses; give one port for all, or one "
       "each"},
      {{{"TRAINING_ROLE", "TRAINER"},
        {"PADDLE_PSERVERS", "127.0.0.2:1"},
        {"PADDLE_TRAINERS_NUM", "1"}},
       "PADDLE_PSERVERS is \"127.0.0.2:1\"; it must be addresses without "
       "ports, comma-separated, for example "
       "PADDLE_PSERVERS=127.0.0.2,127.0.0.3"},
      {Worker({{"PADDLE_TRAINER_ID", "2"}}),
       "PADDLE_TRAINER_ID is \"2\"; it must be this worker's index, 0 to 1, "
       "since PADDLE_TRAINERS_NUM=2, for example PADDLE_TRAINER_ID=0"},
      {Worker({{"PADDLE_TRAINER_ID", "-1"}}),
       "PADDLE_TRAINER_ID is \"-1\"; it must be this worker's index, 0 to 1, "
       "since PADDLE_TRAINERS_NUM=2, for example PADDLE_TRAINER_ID=0"},
      {Worker({{"PADDLE_TRAINER_ID", "one"}}),
       "PADDLE_TRAINER_ID is \"one\"; it must be this worker's index, 0 to 1, "
       "since PADDLE_TRAINERS_NUM=2, for example PADDLE_TRAINER_ID=0"},
      {Worker({{"PADDLE_TRAINER_ID", ""}}),
       "PADDLE_TRAINER_ID is not set, but PADDLE_TRAINERS_NUM=2; set it to "
       "this worker's index, 0 to 1, for example PADDLE_TRAINER_ID=0"},
      {Worker({{"PADDLE_TRAINERS_NUM", "0"}}),
       "PADDLE_TRAINERS_NUM is \"0\"; it must be a whole number from 1 to "
       "65536, for example PADDLE_TRAINERS_NUM=2"},
      {Worker({{"PADDLE_TRAINERS_NUM", "-3"}}),
       "PADDLE_TRAINERS_NUM is \"-3\"; it must be a whole number from 1 to "
       "65536, for example PADDLE_TRAINERS_NUM=2"},
      {Server({{"PADDLE_TRAINERS_NUM", "two"}}),
       "PADDLE_TRAINERS_NUM is \"two\"; it must be a whole number from 1 to "
       "65536, for example PADDLE_TRAINERS_NUM=2"},
      {Worker({{"PADDLE_TRAINERS_NUM", ""}}),
       "the number of workers is not set, but TRAINING_ROLE=TRAINER; set "
       "PADDLE_TRAINERS_NUM or --trainers, for example PADDLE_TRAINERS_NUM=2"},
      {Worker({{"PADDLE_PSERVERS_IP_PORT_LIST", "127.0.0.1:1,127.0.0.1:1"}}),
       "PADDLE_PSERVERS_IP_PORT_LIST is \"127.0.0.1:1,127.0.0.1:1\", which "
       "names 127.0.0.1:1 twice; each process needs an endpoint of its own"},
      {Worker({{"PADDLE_PSERVERS_IP_PORT_LIST", "127.0.0.1"}}),
       "PADDLE_PSERVERS_IP_PORT_LIST is \"127.0.0.1\": \"127.0.0.1\" is no "
       "endpoint; it must be host:port, for example "
       "PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:6170,127.0.0.1:6171"},
      {Worker({{"PADDLE_PSERVERS_IP_PORT_LIST", "127.0.0.1:70000"}}),
       "PADDLE_PSERVERS_IP_PORT_LIST is \"127.0.0.1:70000\": the port of "
       "\"127.0.0.1:70000\" must be a number from 1 to 65535, for example "
       "PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:6170,127.0.0.1:6171"},
      {Worker({{"PADDLE_PSERVERS_IP_PORT_LIST", "127.0.0.1:1,"}}),
       "PADDLE_PSERVERS_IP_PORT_LIST is \"127.0.0.1:1,\": \"\" is no "
       "endpoint; it must be host:port, for example "
       "PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:6170,127.0.0.1:6171"},
      {{{"PADDLE_TRAINER_ENDPOINTS", kTwo},
        {"PADDLE_CURRENT_ENDPOINT", "127.0.0.1:6179"}},
       "PADDLE_CURRENT_ENDPOINT is \"127.0.0.1:6179\", which is not in "
       "PADDLE_TRAINER_ENDPOINTS=127.0.0.1:6170,127.0.0.1:6171; it must be "
       "one of 127.0.0.1:6170, 127.0.0.1:6171"},
      {{{"PADDLE_TRAINER_ENDPOINTS", kTwo},
        {"PADDLE_TRAINER_ID", "0"},
        {"PADDLE_CURRENT_ENDPOINT", "127.0.0.1:6171"}},
       "PADDLE_TRAINER_ID is \"0\", but PADDLE_CURRENT_ENDPOINT="
       "127.0.0.1:6171 is number 1 of PADDLE_TRAINER_ENDPOINTS=127.0.0.1:6170,"
       "127.0.0.1:6171; set PADDLE_TRAINER_ID=1 or the other endpoint"},
      {{{"PADDLE_TRAINER_IPS", "127.0.0.2,127.0.0.3"}},
       "PADDLE_TRAINER_ID is not set, but PADDLE_TRAINER_IPS=127.0.0.2,"
       "127.0.0.3; set it to this worker's index, 0 to 1, for example "
       "PADDLE_TRAINER_ID=0"},
      {{{"OARLOCK_INSECURE", "maybe"}},
       "OARLOCK_INSECURE is \"maybe\"; it must be 1 or 0, for example "
       "OARLOCK_INSECURE=1"},
  };
  for (const BadCase& c : cases) {
    const auto role = ResolveRole(c.environment, {});
    ASSERT_FALSE(role.ok()) << c.message;
    EXPECT_EQ(role.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(std::string(role.status().message()), c.message);
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

TEST(EnvironmentTest, WrongArgumentsAreNamedAsFlags) {
  ExplicitRole arguments;
  arguments.role = "PSERVER";
  arguments.pserver_endpoints = kTwo;
  arguments.num_trainers = 1;
  arguments.current_endpoint = "127.0.0.1:1";
  EXPECT_THAT(std::string(ResolveRole({}, arguments).status().message()),
              HasSubstr("--current_endpoint is \"127.0.0.1:1\", which is not "
                        "in --pserver_endpoints="));
  arguments.num_trainers = -1;
  EXPECT_THAT(std::string(ResolveRole({}, arguments).status().message()),
              HasSubstr("--trainers is \"-1\"; it must be a whole number"));
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
    EXPECT_FALSE(ResolveRole(environment, {})->insecure);
    environment["SYS_JOB_ID"] = "old";
    environment["OARLOCK_INSECURE"] = "1";
    EXPECT_EQ(ResolveRole(environment, {})->job_id, "old");
    EXPECT_TRUE(ResolveRole(environment, {})->insecure);
  }
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

TEST(EndpointTest, HostsAndPortsAreChecked) {
  for (const char* good : {"127.0.0.1:1", "host-1.example_x:65535", "[::1]:80",
                           "[fe80::1%25]:80"}) {
    EXPECT_TRUE(ParseEndpoint(good).ok()) << good;
  }
  for (const char* bad :
       {"", ":", ":1", "a", "a:", "a:0", "a:65536", "a:-1", "a:x", "::1:80",
        "[]:1", "[::1:80", "a b:1", "http://a:1", "[::1]"}) {
    EXPECT_FALSE(ParseEndpoint(bad).ok()) << bad;
  }
  EXPECT_EQ(ParseEndpoint("[::1]:80")->host, "[::1]");
  EXPECT_EQ(ParseEndpoint("[::1]:80")->port, 80);
  EXPECT_THAT(std::string(ParseEndpoint("::1:80").status().message()),
              HasSubstr("IPv6 as [address]:port"));
}

}  // namespace
}  // namespace oarlock
