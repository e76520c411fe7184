"""One job of two servers and two workers, started by hand role by role.

Once for every way in which PaddlePaddle's programs have been told their role.
"""

import re
import unittest

import harness

NUM_SERVERS = 2
NUM_WORKERS = 2
TRAIN_ROWS = harness.GENERATED_ROWS * 3 // 4
FLAGS = ["--model", "lr", "--batch_size", "256", "--connect_timeout_s", "20"]


class RolesTest(harness.SystemTest):

    def run_by_hand(self, servers, workers):
        """Trains to the end; the four processes.

        Each role is (flags, variables of the environment).
        """
        processes = []
        for role, members in (("server", servers), ("worker", workers)):
            for index, (flags, variables) in enumerate(members):
                data = harness.data_flags() if role == "worker" else []
                processes.append(self.start_train(
                    *FLAGS, *data, *flags, name=f"{role}{index}",
                    **variables))
        for process in processes:
            self.await_success(process)
        self.assert_nothing_runs()
        summary = self.summary()
        self.assertEqual(
            (summary["servers"], summary["workers"], summary["examples"]),
            (NUM_SERVERS, NUM_WORKERS, TRAIN_ROWS), summary)
        for process, role in zip(processes,
                                 ["server 0 of 2", "server 1 of 2",
                                  "worker 0 of 2", "worker 1 of 2"]):
            self.assertIn(f"{role}: ", process.stderr.splitlines()[0])
        # One summary, the first worker's.
        self.assertEqual([bool(p.stdout) for p in processes],
                         [False, False, True, False], self.report())
        return processes

    def run_by_environment(self, common, servers, workers):
        return self.run_by_hand([([], common | each) for each in servers],
                                [([], common | each) for each in workers])

    def assert_warnings(self, processes, count):
        for process in processes:
            warnings = re.findall(r"(?m)^\S+ \S+ W .*$", process.stderr)
            self.assertEqual(len(warnings), count, process.describe())

    def test_fluid_environment_has_one_port_for_all_servers(self):
        hosts = ["127.0.0.2", "127.0.0.3"]
        [port] = harness.free_ports(1, hosts)
        processes = self.run_by_environment(
            {"PADDLE_PSERVER_IPS": ",".join(hosts),
             "PADDLE_PSERVER_PORT": str(port),
             "PADDLE_TRAINERS": str(NUM_WORKERS)},
            [{"PADDLE_TRAINING_ROLE": "PSERVER", "PADDLE_CURRENT_IP": host}
             for host in hosts],
            [{"PADDLE_TRAINING_ROLE": "TRAINER",
              "PADDLE_CURRENT_IP": "127.0.0.1", "PADDLE_TRAINER_ID": str(i)}
             for i in range(NUM_WORKERS)])
        self.assert_warnings(processes, 0)

    def test_fleet_1_environment_lists_servers_and_their_port(self):
        hosts = ["127.0.0.2", "127.0.0.3"]
        [port] = harness.free_ports(1, hosts)
        processes = self.run_by_environment(
            {"PADDLE_PSERVERS": ",".join(hosts), "PADDLE_PORT": str(port),
             "PADDLE_TRAINERS_NUM": str(NUM_WORKERS)},
            [{"TRAINING_ROLE": "PSERVER", "POD_IP": host} for host in hosts],
            [{"TRAINING_ROLE": "TRAINER", "POD_IP": "127.0.0.1",
              "PADDLE_TRAINER_ID": str(i)} for i in range(NUM_WORKERS)])
        self.assert_warnings(processes, 0)

    def test_fleet_1_environment_may_list_a_port_for_each_server(self):
        hosts = ["127.0.0.2", "127.0.0.3"]
        ports = harness.free_ports(2, hosts)
        processes = self.run_by_environment(
            {"PADDLE_PSERVERS": ",".join(hosts),
             "PADDLE_PORT": ",".join(map(str, ports)),
             "PADDLE_TRAINERS_NUM": str(NUM_WORKERS)},
            [{"TRAINING_ROLE": "PSERVER", "POD_IP": host} for host in hosts],
            [{"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(i)}
             for i in range(NUM_WORKERS)])
        self.assert_warnings(processes, 0)

    def fleet_2_environment(self, **more):
        ports = harness.free_ports(NUM_SERVERS)
        common = {
            "PADDLE_PSERVERS_IP_PORT_LIST":
                ",".join(f"127.0.0.1:{port}" for port in ports),
            "PADDLE_TRAINERS_NUM": str(NUM_WORKERS),
        } | more
        return (common,
                [{"TRAINING_ROLE": "PSERVER", "POD_IP": "127.0.0.1",
                  "PADDLE_PORT": str(port)} for port in ports],
                [{"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(i)}
                 for i in range(NUM_WORKERS)])

    def test_fleet_2_environment_lists_endpoints(self):
        processes = self.run_by_environment(*self.fleet_2_environment())
        self.assert_warnings(processes, 0)

    def test_a_disagreement_warns_and_the_newest_variable_wins(self):
        # Fluid's count of workers says 3, and its list of servers other ones.
        processes = self.run_by_environment(*self.fleet_2_environment(
            PADDLE_TRAINERS="3", PADDLE_PSERVER_IPS="127.0.0.2,127.0.0.3"))
        for process in processes:
            self.assertRegex(
                process.stderr,
                r"(?m) W .*PADDLE_TRAINERS_NUM=2.*PADDLE_TRAINERS=3"
                r"| W .*PADDLE_TRAINERS=3.*PADDLE_TRAINERS_NUM=2")
            self.assertRegex(
                process.stderr,
                r"(?m) W .*PADDLE_PSERVERS_IP_PORT_LIST=.*PADDLE_PSERVER_IPS="
                r"| W .*PADDLE_PSERVER_IPS=.*PADDLE_PSERVERS_IP_PORT_LIST=")
        self.assert_warnings(processes, 2)

    def explicit_flags(self):
        endpoints = [f"127.0.0.1:{port}"
                     for port in harness.free_ports(NUM_SERVERS)]
        common = ["--pserver_endpoints", ",".join(endpoints), "--trainers",
                  str(NUM_WORKERS)]
        return ([common + ["--role", "PSERVER", "--current_endpoint", each]
                 for each in endpoints],
                [common + ["--role", "TRAINER", "--trainer_id", str(i)]
                 for i in range(NUM_WORKERS)])

    def test_explicit_arguments_need_no_environment(self):
        servers, workers = self.explicit_flags()
        processes = self.run_by_hand([(flags, {}) for flags in servers],
                                     [(flags, {}) for flags in workers])
        self.assert_warnings(processes, 0)

    def test_workers_may_start_before_servers(self):
        servers, workers = self.explicit_flags()
        early = [self.start_train(*FLAGS, *harness.data_flags(), *flags,
                                  name=f"worker{i}")
                 for i, flags in enumerate(workers)]
        # The first line is written before a worker looks for its servers.
        for worker in early:
            self.await_text(worker.stderr_path, "TRAINER")
        late = [self.start_train(*FLAGS, *flags, name=f"server{i}")
                for i, flags in enumerate(servers)]
        self.await_text(late[0].stderr_path, "listening on")
        for i in range(NUM_WORKERS):
            self.await_text(late[0].stderr_path, f"worker {i} of 2 connected",
                            harness.CONNECT_DEADLINE_S)
        for process in early + late:
            self.await_success(process)
        self.assert_nothing_runs()
        self.assertEqual(self.summary()["examples"], TRAIN_ROWS)


if __name__ == "__main__":
    unittest.main()
