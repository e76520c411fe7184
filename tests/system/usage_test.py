"""A wrong command line or environment ends with one line on stderr and exit code
2, before anything is started."""

import os
import subprocess
import unittest

import harness

USAGE = 2


class UsageTest(harness.SystemTest):

    def assert_usage_error(self, process, pattern):
        self.assert_fails(process, pattern, code=USAGE)
        self.assertEqual(process.stdout, "")
        self.assertEqual(len(process.stderr.splitlines()), 1,
                         process.describe())

    def test_what_does_not_arrive_is_no_success(self):
        for words in (["version"], ["--help"], ["train", "--help"],
                      ["completion", "bash"], ["man"]):
            with open("/dev/full", "w", encoding="utf-8") as full:
                result = subprocess.run(
                    [harness.oarlock(), *words], stdout=full,
                    stderr=subprocess.PIPE, text=True, check=False)
            self.assertEqual(result.returncode, 1, words)
            # Which error it was is known of the last write alone.
            self.assertRegex(
                result.stderr, r"^oarlock: cannot write to standard output"
                r"(: No space left on device)?\n$")

    def test_an_unknown_role_is_refused(self):
        self.assert_usage_error(
            self.start_train(
                PADDLE_TRAINING_ROLE="FOO",
                PADDLE_PSERVERS_IP_PORT_LIST="127.0.0.1:6170"),
            r'PADDLE_TRAINING_ROLE is "FOO"; it must be PSERVER or TRAINER')

    def test_an_unknown_role_is_refused_without_servers_too(self):
        self.assert_usage_error(
            self.start_train(TRAINING_ROLE="FOO"),
            r'TRAINING_ROLE is "FOO"; it must be PSERVER or TRAINER')

    def test_an_unknown_role_argument_is_refused(self):
        self.assert_usage_error(
            self.start_train("--role", "FOO"),
            r'--role is "FOO"; it must be PSERVER or TRAINER')

    def test_the_example_reads_the_environment_alike(self):
        self.assert_usage_error(
            self.start(harness.ctr_train(), TRAINING_ROLE="FOO"),
            r'TRAINING_ROLE is "FOO"; it must be PSERVER or TRAINER')

    def test_a_server_list_without_a_role_is_refused(self):
        self.assert_usage_error(
            self.start_train(PADDLE_PSERVERS_IP_PORT_LIST="127.0.0.1:6170"),
            r"no role is set, but PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:6170")

    def test_a_role_without_servers_is_refused(self):
        self.assert_usage_error(
            self.start_train(TRAINING_ROLE="TRAINER"),
            r"no servers are named, but TRAINING_ROLE=TRAINER")

    def test_a_server_that_its_list_lacks_is_refused(self):
        self.assert_usage_error(
            self.start_train(
                TRAINING_ROLE="PSERVER", POD_IP="127.0.0.1",
                PADDLE_PORT="6179", PADDLE_TRAINERS_NUM="1",
                PADDLE_PSERVERS_IP_PORT_LIST="127.0.0.1:6170"),
            r'"127.0.0.1:6179", which is not in PADDLE_PSERVERS_IP_PORT_LIST')

    def test_a_server_argument_that_its_list_lacks_is_refused(self):
        self.assert_usage_error(
            self.start_train(
                "--role", "PSERVER", "--trainers", "1", "--pserver_endpoints",
                "127.0.0.1:6170", "--current_endpoint", "127.0.0.1:6179"),
            r'--current_endpoint is "127.0.0.1:6179", which is not in')

    def test_a_negative_number_of_workers_is_refused(self):
        for command in (["train"], ["launch"]):
            self.assert_usage_error(
                self.start(harness.oarlock(), *command, "--server_num", "2",
                           "--worker_num", "-1"),
                r'--worker_num is "-1"; it must be a whole number')

    def test_workers_without_servers_are_refused(self):
        self.assert_usage_error(
            self.start_train("--worker_num", "2"), r"--server_num")

    def test_a_run_that_keeps_its_model_has_a_server(self):
        flags = ["--model", "lr", "--train_files", harness.train_files(),
                 "--checkpoint_dir", "ckpt"]
        self.await_success(self.start_train(*flags, name="first"))
        self.assertEqual(self.summary()["servers"], 1)
        self.assertTrue(os.path.exists(self.path("ckpt", "CURRENT")))
        self.await_success(self.start_train(*flags, "--resume", "--epochs",
                                            "2", name="second"))
        self.await_success(self.start_train(
            "--load", "ckpt", "--train_files", harness.train_files(),
            name="third"))
        self.assertEqual(self.summary()["model"], "lr")

    def test_a_run_is_repeated_from_its_folder(self):
        flags = ["--model", "lr", "--mode", "sync", "--train_files",
                 harness.train_files(), "--test_files", harness.test_files(),
                 "--seed", "77", "--log_dir", "first"]
        self.await_success(self.start_train(*flags))
        self.await_success(self.start_train(
            "-c", "first/config.textproto", "--log_dir", "second"))
        first, second = self.summary("first"), self.summary("second")
        for field in ("test_auc", "test_logloss", "train_files_digest",
                      "test_files_digest", "version"):
            self.assertEqual(first[field], second[field], field)
        self.assertEqual(first["flags"]["seed"], "77")
        self.assertEqual(first["flags"]["batch_size"], "512")
        self.assertRegex(first["version"], r"^\d+\.\d+\.\d+ \(")
        # Other data have another digest.
        self.await_success(self.start_train(
            "-c", "first/config.textproto", "--log_dir", "third",
            "--train_files", harness.test_files()))
        third = self.summary("third")
        self.assertNotEqual(first["train_files_digest"],
                            third["train_files_digest"])
        self.assertEqual(first["test_files_digest"],
                         third["test_files_digest"])

    def test_the_example_refuses_what_it_cannot_keep_alike(self):
        self.assert_usage_error(
            self.start(harness.ctr_train(), "--is_local", "1", "--train_files",
                       harness.train_files(), "--checkpoint_dir", "ckpt"),
            "--checkpoint_dir .* a local run has neither")

    def test_partitions_that_are_no_power_of_two_are_refused(self):
        for cluster in ([], ["--server_num", "1", "--worker_num", "1"]):
            process = self.start_train("--num_partitions", "1000", *cluster)
            self.assertEqual(self.await_end(process), 2, self.report())
            self.assertRegex(process.stderr, "legal is a power of two, for "
                             "example 512")

    def test_fewer_partitions_than_servers_are_refused(self):
        pattern = ("oarlock train: --num_partitions is 2 with 3 servers, and "
                   "each needs one; legal is 4 or more")
        self.assert_usage_error(
            self.start_train("--num_partitions", "2", "--server_num", "3",
                             "--worker_num", "1"), pattern)
        # One that was started by hand says who it is first.
        self.assert_fails(
            self.start_train(
                "--num_partitions", "2", "--role", "TRAINER", "--trainer_id",
                "0", "--trainers", "1", "--pserver_endpoints",
                "127.0.0.1:6170,127.0.0.1:6171,127.0.0.1:6172"),
            pattern, code=USAGE)

    def test_a_server_that_is_no_endpoint_is_refused(self):
        for server in ("nonsense", "127.0.0.1:x", "127.0.0.1:70000"):
            self.assert_usage_error(
                self.start(harness.oarlock(), "ctl", "status", "--server",
                           server),
                f'--server is "{server}"; it must be host:port of a server')

    def test_a_flag_without_effect_is_refused(self):
        for flags, why in (
                (["--staleness_bound", "2"], "is 2, but --mode is async"),
                (["--hidden_sizes", "8", "--model", "lr"],
                 "is 8, but --model is lr"),
                (["--dropout", "0.2", "--model", "lr"],
                 "is 0.2, but --model is lr"),
                (["--dense_norm", "data", "--dense_transform", "bucket"],
                 "is data, but --dense_transform is bucket"),
                (["--shuffle_window_examples", "64"],
                 "is 64, but --shuffle is none"),
                (["--dataset_memory_mb", "64"],
                 "is 64, but --dataset is queue"),
                (["--max_unacknowledged_pushes", "2", "--mode", "sync"],
                 "is 2, but --mode is sync"),
                (["--ftrl_beta", "2"], "is 2, but --optimizer is adagrad"),
                (["--lars_coefficient", "0.01"],
                 "is 0.01, but --optimizer is adagrad"),
                (["--watch_marker", ".done"],
                 "is .done, but --watch_dir is empty"),
                (["--dense_transform", "bucket", "--data_format", "libsvm"],
                 "is bucket, but --data_format is libsvm"),
                (["--checkpoint_keep", "3"],
                 "is 3, but --checkpoint_dir is empty"),
                (["--row_cache_steps", "4"],
                 "is 4, but --row_cache_rows is 0"),
                (["--dense_quorum", "-0.5"], "is -0.5; legal is 0 to 1"),
                (["--epochs", "2", "--watch_dir", "in"],
                 "is set, but --watch_dir in trains each file once")):
            for cluster in ([], ["--server_num", "1", "--worker_num", "1"]):
                self.assert_usage_error(self.start_train(*flags, *cluster),
                                        f"oarlock train: {flags[0]} {why}")

    def test_advice_about_a_flag_of_the_file_can_be_followed(self):
        with open(self.path("job.textproto"), "w") as file:
            file.write('mode: "ssp" staleness_bound: 8')
        job = ["--config", "job.textproto", "--mode", "async"]
        self.assert_usage_error(
            self.start_train(*job),
            "--staleness_bound is 8, but --mode is async; legal is with --mode "
            "ssp; leave it at 4, or change --mode")
        # What is missing then are the files.
        self.assert_fails(self.start_train(*job, "--staleness_bound", "4"),
                          "there is nothing to train on", code=1)

    def test_the_example_refuses_contradicting_flags_alike(self):
        self.assert_usage_error(
            self.start(harness.ctr_train(), "--is_local", "1",
                       "--staleness_bound", "2"),
            "^train: --staleness_bound is 2, but --mode is async")

    def test_a_folder_is_no_configuration(self):
        self.assert_usage_error(self.start_train("--config", self.path()),
                                "cannot be read")

    def test_an_unknown_flag_is_refused(self):
        for argv in ([harness.oarlock(), "train"],
                     [harness.oarlock(), "launch"],
                     [harness.oarlock(), "generate", "criteo"],
                     [harness.oarlock(), "ctl", "status"],
                     [harness.oarlock(), "explain-env"],
                     [harness.ctr_train()]):
            self.assert_usage_error(
                self.start(*argv, "--no_such_flag", "3"),
                r"unknown flag --no_such_flag")

    def test_a_misspelt_flag_is_named_with_its_neighbour(self):
        self.assert_usage_error(
            self.start_train("--batchsize", "3"),
            r"unknown flag --batchsize \(did you mean --batch_size\?\)")

    def test_an_unknown_command_is_refused(self):
        self.assert_usage_error(
            self.start(harness.oarlock(), "trian"),
            r"there is no command 'trian'")

    def test_a_program_that_does_not_exist_is_refused(self):
        self.assert_usage_error(
            self.start(harness.oarlock(), "launch", "--server_num", "1",
                       "--worker_num", "1", "./no_such_program"),
            r"\./no_such_program is not a file")


if __name__ == "__main__":
    unittest.main()
