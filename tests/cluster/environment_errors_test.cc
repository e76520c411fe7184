// What half a configuration, or a wrong one, is told.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cluster/environment.h"
#include "tests/cluster/environment_testing.h"

namespace oarlock::cluster {
namespace {

using ::testing::HasSubstr;

TEST(EnvironmentErrorsTest, TheBasesOfTheErrorCasesAreLegal) {
  EXPECT_TRUE(ResolveRole(Worker({}), {}).ok());
  EXPECT_TRUE(ResolveRole(Server({}), {}).ok());
}

struct BadCase {
  EnvironmentMap environment;
  std::string message;
};

TEST(EnvironmentErrorsTest, EveryMistakeIsOneSentence) {
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

TEST(EnvironmentErrorsTest, WrongArgumentsAreNamedAsFlags) {
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

// What other launchers start without a role would train alone, each process the
// same model.
TEST(EnvironmentErrorsTest, OneOfSeveralProcessesDoesNotTrainAlone) {
  const std::vector<EnvironmentMap> several = {
      {{"PADDLE_MASTER", "10.0.0.1:6170"}, {"PADDLE_NNODES", "4"}},
      {{"SLURM_NTASKS", "4"}},
      {{"SLURM_NPROCS", "2"}},
      {{"WORLD_SIZE", "4"}},
      {{"OMPI_COMM_WORLD_SIZE", "4"}},
      {{"PMI_SIZE", "4"}},
      {{"DMLC_ROLE", "worker"}, {"DMLC_NUM_WORKER", "4"}},
      {{"DMLC_ROLE", "server"}, {"DMLC_NUM_WORKER", "1"}},
      {{"TF_CONFIG", R"({"cluster": {"ps": ["a:1"], "worker": ["b:1", "c:1"]},)"
                     R"( "task": {"type": "worker", "index": 1}})"}}};
  for (const EnvironmentMap& environment : several) {
    const auto role = ResolveRole(environment, {});
    EXPECT_EQ(role.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(role.status().message()), HasSubstr("--alone"));
    EXPECT_THAT(std::string(role.status().message()),
                HasSubstr("each would train alone"));
  }
}

TEST(EnvironmentErrorsTest, OneProcessTrainsAlone) {
  const std::vector<EnvironmentMap> alone = {
      {},
      {{"PADDLE_NNODES", "1"}},
      {{"SLURM_NTASKS", "1"}},
      {{"WORLD_SIZE", "1"}},
      {{"WORLD_SIZE", "many"}},
      {{"DMLC_ROLE", "worker"}, {"DMLC_NUM_WORKER", "1"}},
      {{"TF_CONFIG", R"({"cluster": {"worker": ["a:1"]}})"}},
      {{"TF_CONFIG", "no json"}},
      {{"WORLD_SIZE", "4"}, {"OARLOCK_ALONE", "1"}}};
  for (const EnvironmentMap& environment : alone) {
    const auto role = ResolveRole(environment, {});
    ASSERT_TRUE(role.ok()) << role.status();
    EXPECT_EQ(role->role, Role::kLocal);
  }
  ExplicitRole arguments;
  arguments.alone = true;
  EXPECT_TRUE(ResolveRole({{"WORLD_SIZE", "4"}}, arguments).ok());
  // What has a role does not look.
  EXPECT_TRUE(ResolveRole(Worker({{"WORLD_SIZE", "4"}}), {}).ok());
}

}  // namespace
}  // namespace oarlock::cluster
