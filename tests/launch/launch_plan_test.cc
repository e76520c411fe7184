#include "launch/launch_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "flags/command_line.h"

namespace oarlock::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Ports 10000, 10001, ...
absl::StatusOr<std::vector<int>> CountingPorts(int count) {
  std::vector<int> ports;
  for (int i = 0; i < count; ++i) ports.push_back(10000 + i);
  return ports;
}

Machine TestMachine() {
  Machine machine;
  machine.free_ports = CountingPorts;
  machine.num_cores = [] { return 8; };
  machine.addresses = [] {
    return std::vector<std::string>{"127.0.0.1", "[::1]", "192.168.0.2"};
  };
  return machine;
}

absl::StatusOr<LaunchPlan> Plan(
    const std::vector<std::string>& args,
    const cluster::EnvironmentMap& environment = {}) {
  const flags::CommandSyntax syntax{.name = "oarlock launch",
                                    .description = ""};
  v1::LaunchConfig config;
  const auto parsed = flags::ParseCommandLine(syntax, args, {{&config}});
  if (!parsed.ok()) return parsed.status();
  return PlanLaunch(config, environment, TestMachine());
}

std::string ErrorOf(const std::vector<std::string>& args) {
  return std::string(Plan(args).status().message());
}

// What each process of the plan would resolve to.
std::vector<std::string> RolesOf(const LaunchPlan& plan) {
  std::vector<std::string> roles;
  for (const ProcessPlan& process : plan.processes) {
    cluster::EnvironmentMap environment = plan.base_environment;
    for (const auto& [name, value] : process.environment) {
      environment[name] = value;
    }
    const auto role = cluster::ResolveRole(environment, {});
    EXPECT_TRUE(role.ok()) << role.status();
    if (!role.ok()) continue;
    EXPECT_THAT(role->warnings, IsEmpty());
    EXPECT_EQ(role->server_endpoints, plan.server_endpoints);
    EXPECT_EQ(role->worker_endpoints, plan.worker_endpoints);
    EXPECT_EQ(role->num_workers, plan.worker_endpoints.size());
    EXPECT_EQ(role->job_id, plan.job_id);
    roles.push_back(cluster::RoleName(*role));
  }
  return roles;
}

// Keeps only the variables of one generation, and resolves.
std::string RoleByOnly(const LaunchPlan& plan, const ProcessPlan& process,
                       const std::set<std::string>& names) {
  cluster::EnvironmentMap environment;
  for (const auto& [name, value] : process.environment) {
    if (names.count(name) > 0) environment[name] = value;
  }
  const auto role = cluster::ResolveRole(environment, {});
  EXPECT_TRUE(role.ok()) << role.status();
  if (!role.ok()) return "";
  EXPECT_EQ(role->server_endpoints, plan.server_endpoints);
  return cluster::RoleName(*role);
}

TEST(LaunchPlanTest, OneNodeGetsFreePorts) {
  const auto plan = Plan({"--server_num", "2", "--worker_num", "2"});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->server_endpoints,
              ElementsAre("127.0.0.1:10000", "127.0.0.1:10001"));
  EXPECT_THAT(plan->worker_endpoints,
              ElementsAre("127.0.0.1:10002", "127.0.0.1:10003"));
  EXPECT_THAT(RolesOf(*plan), ElementsAre("server 0 of 2", "server 1 of 2",
                                          "worker 0 of 2", "worker 1 of 2"));
  EXPECT_EQ(plan->processes[1].log_file, "logs/serverlog.1");
  EXPECT_EQ(plan->processes[3].log_file, "logs/workerlog.1");
  EXPECT_EQ(plan->processes[3].Name(), "worker 1");
  EXPECT_EQ(plan->max_restart, 0);
}

TEST(LaunchPlanTest, AStartPortCountsServersThenWorkers) {
  for (const auto& [args, environment] : std::vector<
           std::pair<std::vector<std::string>, cluster::EnvironmentMap>>{
           {{"--start_port", "7000"}, {}},
           {{"--started_port=7000"}, {{"FLAGS_START_PORT", "8000"}}},
           {{}, {{"FLAGS_START_PORT", "7000"}}}}) {
    std::vector<std::string> all = {"--server_num=2", "--trainer_num=1"};
    all.insert(all.end(), args.begin(), args.end());
    const auto plan = Plan(all, environment);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_THAT(plan->server_endpoints,
                ElementsAre("127.0.0.1:7000", "127.0.0.1:7001"));
    EXPECT_THAT(plan->worker_endpoints, ElementsAre("127.0.0.1:7002"));
  }
}

TEST(LaunchPlanTest, EveryNodeComputesTheSameCluster) {
  const std::vector<std::string> nodes = {"127.0.0.2", "127.0.0.3"};
  std::vector<LaunchPlan> plans;
  for (size_t i = 0; i < nodes.size(); ++i) {
    // By address, by rank and by POD_IP.
    const std::vector<std::string> args = {
        "--cluster_node_ips", "127.0.0.2,127.0.0.3",
        "--server_num",       "1",
        "--worker_num",       "2"};
    std::vector<std::string> by_ip = args, by_rank = args;
    by_ip.insert(by_ip.end(), {"--node_ip", nodes[i]});
    by_rank.insert(by_rank.end(), {"--rank", std::to_string(i), "--nnodes=2"});
    for (const auto& plan :
         {Plan(by_ip), Plan(by_rank), Plan(args, {{"POD_IP", nodes[i]}})}) {
      ASSERT_TRUE(plan.ok()) << plan.status();
      const std::string s = std::to_string(i);
      EXPECT_THAT(RolesOf(*plan),
                  ElementsAre("server " + s + " of 2",
                              "worker " + std::to_string(2 * i) + " of 4",
                              "worker " + std::to_string(2 * i + 1) + " of 4"));
      EXPECT_EQ(plan->processes[0].log_file, "logs/serverlog." + s);
      plans.push_back(*plan);
    }
  }
  for (const LaunchPlan& plan : plans) {
    EXPECT_THAT(plan.server_endpoints,
                ElementsAre("127.0.0.2:6170", "127.0.0.3:6170"));
    EXPECT_THAT(plan.worker_endpoints,
                ElementsAre("127.0.0.2:6171", "127.0.0.2:6172",
                            "127.0.0.3:6171", "127.0.0.3:6172"));
  }
}

TEST(LaunchPlanTest, ListsSayWhereEachProcessRuns) {
  const std::vector<std::string> lists = {
      "--servers", "10.0.0.1:7000,10.0.0.2,10.0.0.2", "--trainers",
      "10.0.0.3,10.0.0.1:9000"};
  const auto plan_of = [&](const std::string& node) {
    std::vector<std::string> args = lists;
    args.insert(args.end(), {"--host", node});
    return Plan(args);
  };
  for (const auto& [node, roles] :
       std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"10.0.0.1", {"server 0 of 3", "worker 1 of 2"}},
           {"10.0.0.2", {"server 1 of 3", "server 2 of 3"}},
           {"10.0.0.3", {"worker 0 of 2"}}}) {
    const auto plan = plan_of(node);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(RolesOf(*plan), roles);
    EXPECT_THAT(plan->server_endpoints,
                ElementsAre("10.0.0.1:7000", "10.0.0.2:6170", "10.0.0.2:6171"));
    EXPECT_THAT(plan->worker_endpoints,
                ElementsAre("10.0.0.3:6170", "10.0.0.1:9000"));
  }
}

TEST(LaunchPlanTest, EveryGenerationAloneGivesTheSameRole) {
  const auto plan =
      Plan({"--cluster_node_ips=127.0.0.2,127.0.0.3", "--server_num=1",
            "--worker_num=1", "--node_ip=127.0.0.3"});
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->processes.size(), 2u);
  const std::vector<std::set<std::string>> generations = {
      {"PADDLE_TRAINING_ROLE", "PADDLE_PSERVER_IPS", "PADDLE_PSERVER_PORT",
       "PADDLE_TRAINERS", "PADDLE_CURRENT_IP", "PADDLE_TRAINER_ID"},
      {"TRAINING_ROLE", "PADDLE_PSERVERS_IP_PORT_LIST", "PADDLE_TRAINERS_NUM",
       "POD_IP", "PADDLE_PORT", "PADDLE_TRAINER_ID"},
      {"TRAINING_ROLE", "PADDLE_PSERVERS_IP_PORT_LIST",
       "PADDLE_TRAINER_ENDPOINTS", "POD_IP", "PADDLE_PORT",
       "PADDLE_TRAINER_ID"}};
  for (const auto& names : generations) {
    EXPECT_EQ(RoleByOnly(*plan, plan->processes[0], names), "server 1 of 2");
    EXPECT_EQ(RoleByOnly(*plan, plan->processes[1], names), "worker 1 of 2");
  }
}

TEST(LaunchPlanTest, FluidsSinglePortIsLeftOutWhereItWouldLie) {
  const auto plan = Plan({"--server_num=2", "--worker_num=1"});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->processes[0].environment.count("PADDLE_PSERVER_IPS"), 0u);
  EXPECT_EQ(plan->processes[0].environment.count("PADDLE_PSERVER_PORT"), 0u);
}

TEST(LaunchPlanTest, DevicesWithoutServersMakeACollectiveJob) {
  // The MNIST document's command.
  auto plan =
      Plan({"--selected_gpus=0,1", "--cluster_node_ips", "127.0.0.2,127.0.0.3",
            "--node_ip", "127.0.0.3", "--log_dir", "mylog"});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(RolesOf(*plan), ElementsAre("collective worker 2 of 4",
                                          "collective worker 3 of 4"));
  EXPECT_EQ(plan->processes[1].environment.at("FLAGS_selected_gpus"), "1");
  EXPECT_EQ(plan->processes[1].log_file, "mylog/workerlog.3");
  plan = Plan({"--nproc_per_node", "3"});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(RolesOf(*plan).size(), 3u);
  EXPECT_EQ(plan->processes[0].environment.count("FLAGS_selected_gpus"), 0u);
}

TEST(LaunchPlanTest, TrainerZeroIsTheFirstDeviceOfTheFirstNode) {
  // PaddleClas's command: no node is told which it is. This machine is .2.
  const auto plan = Plan(
      {"--log_dir=./log/", "--ips=192.168.0.1,192.168.0.2", "--gpus=0,1,2,3"},
      {{"FLAGS_START_PORT", "17000"}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->worker_endpoints[0], "192.168.0.1:17000");
  EXPECT_EQ(plan->worker_endpoints[7], "192.168.0.2:17003");
  ASSERT_EQ(plan->processes.size(), 4u);
  EXPECT_EQ(RolesOf(*plan).front(), "collective worker 4 of 8");
  const cluster::EnvironmentMap& last = plan->processes[3].environment;
  EXPECT_EQ(last.at("FLAGS_selected_gpus"), "3");
  for (const auto& [name, value] : cluster::EnvironmentMap{
           {"PADDLE_MASTER", "192.168.0.1:17000"},
           {"PADDLE_NNODES", "2"},
           {"PADDLE_GLOBAL_SIZE", "8"},
           {"PADDLE_LOCAL_SIZE", "4"},
           {"PADDLE_GLOBAL_RANK", "7"},
           {"PADDLE_LOCAL_RANK", "3"},
           {"PADDLE_RANK_IN_NODE", "3"},
           {"PADDLE_TRAINER_ID", "7"},
           {"PADDLE_TRAINERS_NUM", "8"},
           {"PADDLE_CURRENT_ENDPOINT", "192.168.0.2:17003"}}) {
    EXPECT_EQ(last.at(name), value) << name;
  }
}

TEST(LaunchPlanTest, FluidsCollectiveVariablesAreSetWhereAllRanksHaveOnePort) {
  const auto plan = Plan({"--ips=192.168.0.1,192.168.0.2", "--gpus=0"});
  ASSERT_TRUE(plan.ok()) << plan.status();
  cluster::EnvironmentMap fluid;
  for (const char* name : {"PADDLE_TRAINER_IPS", "PADDLE_TRAINER_ID",
                           "PADDLE_PSERVER_PORT", "PADDLE_CURRENT_IP"}) {
    fluid[name] = plan->processes[0].environment.at(name);
  }
  const auto role = cluster::ResolveRole(fluid, {});
  ASSERT_TRUE(role.ok()) << role.status();
  EXPECT_EQ(cluster::RoleName(*role), "collective worker 1 of 2");
  EXPECT_EQ(role->worker_endpoints, plan->worker_endpoints);
  const auto several = Plan({"--ips=192.168.0.1,192.168.0.2", "--gpus=0,1"});
  ASSERT_TRUE(several.ok()) << several.status();
  EXPECT_EQ(several->processes[0].environment.count("PADDLE_TRAINER_IPS"), 0u);
}

// What this node brings to --master, and the plan once it has met another one.
TEST(LaunchPlanTest, NodesThatMetGetRanksInOrderOfTheirNodes) {
  v1::LaunchConfig config;
  config.set_master("192.168.0.1:38714");
  config.set_nnodes(2);
  config.set_gpus("4,5");
  EXPECT_TRUE(UsesRendezvous(config));
  Machine machine = TestMachine();
  machine.source_address_to = [](const std::string& endpoint) {
    EXPECT_EQ(endpoint, "192.168.0.1:38714");
    return "192.168.0.2";
  };
  const auto share = ShareOfNode(config, {}, machine);
  ASSERT_TRUE(share.ok()) << share.status();
  EXPECT_EQ(share->host(), "192.168.0.2");
  EXPECT_THAT(share->worker_ports(), ElementsAre(10000, 10001));
  v1::NodesReady attempt;
  attempt.set_node(1);
  v1::NodeShare* first = attempt.add_nodes();
  first->set_host("192.168.0.1");
  // Nodes may have different numbers of devices.
  for (int port : {7000, 7001, 7002}) first->add_worker_ports(port);
  *attempt.add_nodes() = *share;
  const auto layout = LayOutNodes(config, attempt);
  ASSERT_TRUE(layout.ok()) << layout.status();
  const LaunchPlan plan = PlanProcesses(*layout, config, {}, 4);
  EXPECT_THAT(RolesOf(plan), ElementsAre("collective worker 3 of 5",
                                         "collective worker 4 of 5"));
  EXPECT_EQ(plan.processes[1].environment.at("PADDLE_LOCAL_RANK"), "1");
  EXPECT_EQ(plan.processes[1].environment.at("PADDLE_LOCAL_SIZE"), "2");
  EXPECT_EQ(plan.processes[1].environment.at("FLAGS_selected_gpus"), "5");
  EXPECT_EQ(plan.processes[1].environment.at("OMP_NUM_THREADS"), "2");
}

TEST(LaunchPlanTest, APortOrAnAddressThatIsGivenIsBroughtToTheRendezvous) {
  v1::LaunchConfig config;
  config.set_master("192.168.0.1:38714");
  config.set_nnodes(2);
  config.set_server_num(1);
  config.set_worker_num(2);
  config.set_node_ip("10.0.0.7");
  const auto share =
      ShareOfNode(config, {{"FLAGS_START_PORT", "7000"}}, TestMachine());
  ASSERT_TRUE(share.ok()) << share.status();
  EXPECT_EQ(share->host(), "10.0.0.7");
  EXPECT_FALSE(share->collective());
  EXPECT_THAT(share->server_ports(), ElementsAre(7000));
  EXPECT_THAT(share->worker_ports(), ElementsAre(7001, 7002));
}

TEST(LaunchPlanTest, EveryMistakeAboutTheMasterIsOneSentence) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--master=h:1"}, "--master is \"h:1\", but --nnodes is not given"},
      {{"--master=h", "--nnodes=2"}, "--master is \"h\"; it must be where"},
      {{"--master=0.0.0.0:1", "--nnodes=2"}, "it must be where node 0's"},
      {{"--master=etcd://h:1", "--nnodes=2"}, "stores such as etcd"},
      {{"--master=h:1", "--nnodes=2", "--ips=a,b"},
       "--cluster_node_ips says where processes are, too; give one of them"},
      {{"--master=h:1", "--nnodes=2", "--workers=a:1"}, "and --workers says"},
      {{"--master=h:1", "--nnodes=2", "--rank=2"},
       "--rank is 2, but --nnodes is 2; it must be 0 to 1"},
      {{"--master=h:1", "--nnodes=2", "--node_ip=a:1"},
       "--node_ip is \"a:1\"; it must be an address without a port"},
      {{"--master=h:1", "--nnodes=2"}, "nothing says how many processes"},
  };
  for (const auto& [args, message] : cases) {
    v1::LaunchConfig config;
    ASSERT_TRUE(
        flags::ParseCommandLine({.name = "oarlock launch", .description = ""},
                                args, {{&config}})
            .ok());
    ASSERT_TRUE(UsesRendezvous(config));
    const std::string error(
        ShareOfNode(config, {}, TestMachine()).status().message());
    EXPECT_THAT(error, HasSubstr(message));
    EXPECT_EQ(error.find('\n'), std::string::npos);
  }
  // One node meets nobody.
  v1::LaunchConfig alone;
  alone.set_master("h:1");
  alone.set_nnodes(1);
  EXPECT_FALSE(UsesRendezvous(alone));
}

TEST(LaunchPlanTest, DevicesBesideServersCountWorkers) {
  const auto plan = Plan({"--server_num=1", "--gpus", "2,3,5"});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(RolesOf(*plan), ElementsAre("server 0 of 1", "worker 0 of 3",
                                          "worker 1 of 3", "worker 2 of 3"));
  EXPECT_EQ(plan->processes[3].environment.at("FLAGS_selected_gpus"), "5");
  EXPECT_EQ(plan->processes[0].environment.count("FLAGS_selected_gpus"), 0u);
}

TEST(LaunchPlanTest, ChildrenInheritAllButRolesAndProxies) {
  const auto plan = Plan({"--server_num=1", "--worker_num=1"},
                         {{"PATH", "/bin"},
                          {"http_proxy", "http://proxy:1"},
                          {"HTTPS_PROXY", "http://proxy:1"},
                          {"no_proxy", "x"},
                          {"PADDLE_TRAINER_ID", "7"},
                          {"PADDLE_PSERVERS", "elsewhere"},
                          {"OARLOCK_INSECURE", "1"},
                          {"PADDLE_JOB_ID", "mine"}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(
      plan->base_environment,
      (cluster::EnvironmentMap{
          {"PATH", "/bin"}, {"no_proxy", "x"}, {"OARLOCK_INSECURE", "1"}}));
  EXPECT_EQ(plan->job_id, "mine");
  EXPECT_EQ(RolesOf(*plan).size(), 2u);
}

TEST(LaunchPlanTest, EveryMistakeIsOneSentence) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "nothing says how many processes to start; give --server_num"},
      {{"--worker_num", "-1"},
       "--worker_num is \"-1\"; it must be a whole number, 0 to 65536"},
      {{"--worker_num=2"}, "workers are asked for, but no servers"},
      {{"--server_num=2"}, "servers are asked for, but no workers"},
      {{"--server_num=2", "--worker_num=0"},
       "servers are asked for, but no workers"},
      {{"--server_num=1", "--worker_num=1", "--node_ip=a",
        "--cluster_node_ips=b,c"},
       "--node_ip is \"a\", but the nodes are b,c; it must be one of them"},
      {{"--server_num=1", "--worker_num=1", "--cluster_node_ips=b,c"},
       "--node_ip is not given, and the nodes are b,c; say which"},
      {{"--gpus=0", "--ips=127.0.0.1,192.168.0.2"},
       "(127.0.0.1,192.168.0.2 all are this machine's)"},
      {{"--server_num=1", "--worker_num=1", "--cluster_node_ips=b,b"},
       "names b twice"},
      {{"--server_num=1", "--worker_num=1", "--cluster_node_ips=b:1,c"},
       "\"b:1\" is no address"},
      {{"--server_num=1", "--worker_num=1", "--nnodes=2"},
       "--nnodes is 2, but the nodes are 127.0.0.1; name all of them"},
      {{"--server_num=1", "--worker_num=1", "--rank=1"},
       "--rank is 1, but the nodes are 127.0.0.1; it must be 0 to 0"},
      {{"--server_num=1", "--worker_num=1", "--cluster_node_ips=b,c",
        "--rank=1", "--node_ip=b"},
       "--node_ip is b, but --rank 1 is c"},
      {{"--server_num=3", "--worker_num=1", "--servers=a:1,a:2"},
       "--server_num is 3, but --servers names 2"},
      {{"--servers=a:1,a:1", "--worker_num=1"},
       "the endpoint a:1 would belong to two processes"},
      {{"--servers=a:1", "--workers=a:1"},
       "the endpoint a:1 would belong to two processes"},
      {{"--servers=a:x", "--worker_num=1"},
       "--servers is \"a:x\": the port of \"a:x\" must be a number"},
      {{"--servers=a:1", "--workers=a", "--cluster_node_ips=b"},
       "the node b has neither a server nor a worker"},
      {{"--server_num=2", "--worker_num=1", "--start_port=65535"},
       "need ports past 65535"},
      {{"--server_num=1", "--worker_num=2", "--nproc_per_node=3"},
       "--worker_num is 2, but --nproc_per_node is 3"},
  };
  for (const auto& [args, message] : cases) {
    EXPECT_THAT(ErrorOf(args), HasSubstr(message));
    EXPECT_EQ(ErrorOf(args).find('\n'), std::string::npos);
  }
  EXPECT_THAT(std::string(Plan({"--server_num=1", "--worker_num=1"},
                               {{"FLAGS_START_PORT", "x"}})
                              .status()
                              .message()),
              HasSubstr("FLAGS_START_PORT is \"x\"; it must be a port"));
}

TEST(LaunchPlanTest, FreePortsAreDistinct) {
  const auto ports = FreePorts(100);
  ASSERT_TRUE(ports.ok()) << ports.status();
  EXPECT_EQ(std::set<int>(ports->begin(), ports->end()).size(), 100u);
}

TEST(LaunchPlanTest, WorkersShareTheCoresOfTheNode) {
  const auto threads = [](const std::vector<std::string>& args,
                          const cluster::EnvironmentMap& environment = {}) {
    const auto plan = Plan(args, environment);
    EXPECT_TRUE(plan.ok()) << plan.status();
    const cluster::EnvironmentMap& last = plan->processes.back().environment;
    return last.contains("OMP_NUM_THREADS") ? last.at("OMP_NUM_THREADS") : "";
  };
  EXPECT_EQ(threads({"--nproc_per_node=2"}), "4");
  EXPECT_EQ(threads({"--nproc_per_node=3"}), "2");
  EXPECT_EQ(threads({"--nproc_per_node=9"}), "1");
  EXPECT_EQ(threads({"--server_num=2", "--worker_num=4"}), "2");
  // What the user says stays.
  EXPECT_EQ(threads({"--nproc_per_node=2"}, {{"OMP_NUM_THREADS", "3"}}), "");
}

TEST(LaunchPlanTest, TheDescriptionShowsEveryVariable) {
  const auto plan = Plan({"--server_num=1", "--worker_num=1"});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const std::string text = DescribePlan(*plan);
  EXPECT_THAT(text, HasSubstr("job default: 1 servers, 1 workers, 2 processes "
                              "on this node\n"));
  EXPECT_THAT(text, HasSubstr("server 0  log logs/serverlog.0\n"));
  EXPECT_THAT(text,
              HasSubstr("  PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:10000\n"));
  EXPECT_THAT(text, HasSubstr("  TRAINING_ROLE=TRAINER\n"));
}

}  // namespace
}  // namespace oarlock::launch
