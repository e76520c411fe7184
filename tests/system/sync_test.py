"""Sync jobs repeat: the same job ends with the same bits."""

import unittest

import harness

# What a job's parameters decide, and its clock does not.
RESULTS = ("examples", "train_auc", "train_logloss", "test_auc",
           "test_logloss")


class SyncTest(harness.SystemTest):

    def results(self, name, *flags, servers=2):
        """Of a job with two workers; floats as written, all digits."""
        job = self.start_train(
            "--mode", "sync", "--server_num", str(servers), "--worker_num",
            "2", "--batch_size", "128", "--model", "deepfm", "--log_dir",
            name, *harness.data_flags(), *flags, name=name)
        self.await_success(job)
        self.assert_nothing_runs()
        summary = self.summary(name)
        return {field: summary[field] for field in RESULTS}

    def test_two_identical_jobs_end_with_the_same_bits(self):
        first = self.results("first")
        self.assertEqual(self.results("second"), first)
        self.assertNotEqual(self.results("other_seed", "--seed", "2"), first)

    def test_the_number_of_servers_changes_no_bit(self):
        one = self.results("one", servers=1)
        self.assertEqual(self.results("three", servers=3), one)

    def test_threads_repeat_as_well(self):
        first = self.results("first", "--thread_num", "2")
        self.assertEqual(self.results("second", "--thread_num", "2"), first)


if __name__ == "__main__":
    unittest.main()
