"""oarlock.train: data, results, evaluations, errors, and what it leaves."""

import gc
import math
import pathlib
import tempfile
import threading
import unittest

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from train_testing import (FEATURES, FLAGS, Temporary, columns, generate, oarlock, run,
                           table)

ROWS = 3000


class Stream:
    """What knows Arrow's stream and nothing else, as a frame of polars."""

    def __init__(self, whole):
        self._whole = whole

    def __arrow_c_stream__(self, requested_schema=None):
        return self._whole.__arrow_c_stream__(requested_schema)


class TrainTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.table = table(ROWS, 1)
        (cls.folder / "parts").mkdir()
        for part in range(3):
            pq.write_table(cls.table.slice(part * ROWS // 3, ROWS // 3),
                           cls.folder / f"parts/{part}.parquet")
        cls.test = cls.folder / "test.parquet"
        pq.write_table(table(1000, 2), cls.test)
        generate(cls.folder / "text")

    def setUp(self):
        self.temporary = Temporary()
        self.temporary.__enter__()
        self.addCleanup(self.temporary.__exit__)

    def train(self, *args, **flags):
        return oarlock.train("deepfm", *args, **{**FLAGS, **flags})

    def test_data_in_memory_and_in_files_of_any_kind(self):
        batches = self.table.to_batches(max_chunksize=700)
        kinds = {
            "table": self.table,
            "stream": Stream(self.table),
            "dict of arrays": columns(ROWS, 1),
            "generator of batches": (batch for batch in batches),
            "list of dicts": [columns(ROWS // 2, 1), columns(ROWS // 2, 2)],
            "folder": self.folder / "parts",
            "pattern": str(self.folder / "parts/*.parquet"),
            "list of paths": [self.folder / "parts/0.parquet",
                              self.folder / "parts/1.parquet",
                              str(self.folder / "parts/2.parquet")],
        }
        for kind, data in kinds.items():
            with self.subTest(kind):
                result = self.train(FEATURES, data=data, test=self.test, servers=0,
                                    epochs=2)
                self.assertEqual(result.summary["examples"], 2 * ROWS)
                self.assertEqual([e.name for e in result.evaluations],
                                 ["test/0", "test/1"])
                self.assertGreater(result.evaluations[-1].auc, 0.75)
                self.assertIsNone(result.checkpoint)
        self.temporary.expect_nothing_left(self)

    def test_a_list_of_features_and_a_test_in_memory(self):
        listed = [oarlock.Label("click"), oarlock.SparseFeature("user", dim=4),
                  oarlock.SparseFeature("item", dim=4)]
        result = self.train(listed, data=self.table, test=columns(1000, 2), servers=0)
        self.assertEqual(result.evaluations[0].examples, 1000)

    def test_documents_need_no_features(self):
        result = self.train(data=self.folder / "text", test=[self.folder / "text"],
                            servers=0, embedding_size=np.int64(4), hidden_sizes=(8, 4),
                            shuffle="local")
        self.assertEqual(result.summary["examples"], 4000)
        self.assertEqual(result.summary["flags"]["hidden_sizes"], "8,4")
        self.assertEqual(result.evaluations[0].examples, 4000)

    def test_evaluations_come_in_order_in_this_thread_and_none_is_lost(self):
        for servers, workers in ((0, 1), (2, 2)):
            with self.subTest(servers):
                seen = []

                def note(evaluation):
                    seen.append((evaluation, threading.get_ident()))

                result = self.train(FEATURES, data=self.table, test=self.test,
                                    servers=servers, workers=workers, epochs=6,
                                    evaluate_period=2000, on_evaluation=note)
                self.assertEqual([e for e, _ in seen], result.evaluations)
                self.assertEqual({ident for _, ident in seen},
                                 {threading.get_ident()})
                self.assertEqual([e.name for e in result.evaluations],
                                 [e["phase_name"] for e in result.summary["evaluations"]])
                after = [e for e in result.evaluations if e.name.startswith("test/")]
                self.assertEqual([e.epoch for e in after], list(range(6)))
                for each in after:
                    self.assertEqual(each.examples, 1000)
                    self.assertEqual(each.metrics["auc"], each.auc)
                    self.assertFalse(math.isnan(each.logloss))
                self.assertEqual(after[-1].trained_examples, 6 * ROWS)
                self.assertFalse(result.stopped)

    def test_a_slow_callback_gets_all_of_them(self):
        told = threading.Event()
        names = []

        def wait(evaluation):
            # As long as the job takes: the rest of it is behind the pipe then.
            names.append(evaluation.name)
            if len(names) == 1:
                told.wait(3)

        self.train(FEATURES, data=self.table, test=self.test, servers=0, epochs=5,
                   on_evaluation=wait)
        self.assertEqual(names, [f"test/{epoch}" for epoch in range(5)])

    def test_the_checkpoint_lives_as_long_as_the_result(self):
        result = self.train(FEATURES, data=self.table, servers=1, workers=1)
        folder = pathlib.Path(result.checkpoint)
        self.assertTrue((folder / "MANIFEST").exists())
        code, text = run("checkpoint", "verify", str(folder))
        self.assertEqual(code, 0, text)
        # Neither the data nor the logs.
        self.assertEqual([p.name for p in folder.parent.parent.iterdir()],
                         ["checkpoints"])
        self.assertIsNone(result.log_dir)
        del result
        gc.collect()
        self.temporary.expect_nothing_left(self)

    def test_it_goes_on_with_the_rows_of_a_checkpoint(self):
        first = self.train(FEATURES, data=self.table, checkpoint_dir=self.folder / "one",
                           log_dir=self.folder / "logs", epochs=4, test=self.test)
        self.assertEqual(pathlib.Path(first.checkpoint).parent, self.folder / "one")
        self.assertTrue((self.folder / "logs/workerlog.0").exists())
        self.assertEqual(first.log_dir, str(self.folder / "logs"))
        second = self.train(FEATURES, data=self.table.slice(0, 100), test=self.test,
                            load=first.checkpoint)
        self.assertGreater(second.evaluations[0].auc, first.evaluations[0].auc)

    def test_stop_ends_training_well(self):
        for servers in (0, 1):
            with self.subTest(servers):
                names = []

                def stop(evaluation):
                    names.append(evaluation.name)
                    raise oarlock.Stop("two lines\nare one")

                result = self.train(FEATURES, data=self.table, test=self.test,
                                    servers=servers, epochs=1000, on_evaluation=stop)
                self.assertTrue(result.stopped)
                self.assertEqual(result.summary["stop_reason"], "two lines are one")
                self.assertLess(result.summary["examples"], 1000 * ROWS)
                self.assertEqual(names, [e.name for e in result.evaluations])
                self.assertEqual(result.checkpoint is not None, servers == 1)

    def test_another_exception_ends_it_with_a_checkpoint(self):
        checkpoints = self.folder / "of an exception"

        def fail(evaluation):
            raise KeyError(evaluation.name)

        with self.assertRaisesRegex(KeyError, "test/0"):
            self.train(FEATURES, data=self.folder / "parts", test=self.test, epochs=1000,
                       checkpoint_dir=checkpoints, on_evaluation=fail)
        self.temporary.expect_nothing_left(self)
        code, text = run("checkpoint", "verify", str(checkpoints))
        self.assertEqual(code, 0, text)
        trained = []

        def stop(evaluation):
            trained.append(evaluation.name)
            raise oarlock.Stop()

        result = self.train(
            FEATURES, data=self.folder / "parts", test=self.test, epochs=1000,
            checkpoint_dir=checkpoints, resume=True, on_evaluation=stop)
        # Those of before are in the summary alone.
        self.assertTrue(result.stopped)
        self.assertEqual(trained, [e.name for e in result.evaluations])
        self.assertEqual(result.summary["evaluations"][0]["phase_name"], "test/0")
        self.assertGreater(len(result.summary["evaluations"]), len(trained))

    def test_runs_on_servers_that_stay(self):
        with oarlock.LocalCluster(servers=2, lease_s=2) as cluster:
            for number, servers in enumerate((cluster, cluster.address), 1):
                flags = {} if servers is cluster else {
                    "token_file": cluster.token_file, "job_id": cluster.job_id}
                seen = []
                result = self.train(FEATURES, data=self.table, test=self.test,
                                    servers=servers, workers=2, epochs=2,
                                    on_evaluation=seen.append, **flags)
                self.assertEqual(result.summary["examples"], 2 * ROWS)
                self.assertEqual([e.name for e in seen], ["test/0", "test/1"])
                self.assertEqual(seen, result.evaluations)
                self.assertEqual(pathlib.Path(result.checkpoint).parent,
                                 pathlib.Path(cluster.checkpoint_dir))
                with cluster.connect() as reader:
                    status = reader.status()
                    self.assertTrue(status["run_is_over"])
                    self.assertEqual(int(status["run"]), number)

            def stop(_):
                raise oarlock.Stop("enough")

            def fail(_):
                raise OSError("a disk")

            result = self.train(FEATURES, data=self.table, test=self.test,
                                servers=cluster, epochs=1000, on_evaluation=stop)
            self.assertEqual(result.summary["stop_reason"], "enough")
            with self.assertRaisesRegex(OSError, "a disk"):
                self.train(FEATURES, data=self.table, test=self.test, servers=cluster,
                           epochs=1000, on_evaluation=fail)
            # They serve on.
            with cluster.join() as job:
                job.create_table("t", 1, oarlock.Sgd(1.0))
        del result, reader
        gc.collect()
        self.temporary.expect_nothing_left(self)

    def test_a_job_that_fails_keeps_its_logs_and_says_why_in_one_line(self):
        bad = self.table.set_column(0, "click", pa.array([7] * ROWS))
        for servers in (0, 1):
            with self.subTest(servers):
                with self.assertRaises(oarlock.TrainingError) as caught:
                    self.train(FEATURES, data=bad.drop_columns(["user"]),
                               servers=servers)
                text = str(caught.exception)
                self.assertIn("column 'user' is missing", text)
                self.assertNotIn("\n", text)
                logs = pathlib.Path(caught.exception.log_dir)
                self.assertIn(f"its logs are in {logs}", text)
                self.assertTrue(logs.is_dir())
                self.assertEqual([p.name for p in logs.parent.iterdir()], ["logs"])
                self.assertIsInstance(caught.exception, RuntimeError)
                for path in logs.iterdir():
                    path.unlink()
                logs.rmdir()
                logs.parent.rmdir()
        self.temporary.expect_nothing_left(self)

    def test_what_is_not_legal_is_one_line_and_leaves_nothing(self):
        illegal = oarlock.InvalidArgumentError
        good = {"features": FEATURES, "data": self.table}
        for changed, kind, line in (
                ({"bach_size": 3}, illegal, "unknown flag --bach_size (did you mean "
                 "--batch_size?)"),
                ({"epochs": -1}, illegal, "--epochs"),
                ({"model": "deepfn"}, illegal, "deepfn"),
                ({"server_num": 2}, illegal, "give servers="),
                ({"train_files": "x"}, illegal, "give data="),
                ({"role": "TRAINER"}, illegal, "which runs a whole job"),
                ({"data": None}, illegal, "data is missing"),
                ({"data": []}, illegal, "data is an empty list"),
                ({"data": 3}, illegal, "data is of type int"),
                ({"data": iter([])}, illegal, "an iterable without an element"),
                ({"data": [self.table, {"a": [1]}]}, illegal, "element 1 of data"),
                ({"data": {"a": [1], "b": [1, 2]}}, illegal, "cannot be written"),
                ({"features": None}, illegal, "give features"),
                ({"data": "/nowhere"}, oarlock.TrainingError, "matches no file"),
                ({"workers": 0}, illegal, "workers is 0"),
                ({"servers": -1}, illegal, "--server_num"),
                ({"servers": True}, illegal, "servers is True"),
                ({"servers": 0, "workers": 2}, illegal, "give thread_num="),
                ({"servers": 0, "checkpoint_dir": "x"}, illegal, "give servers=1"),
                ({"servers": "127.0.0.1:1", "load": "x"}, illegal, "have their own"),
                ({"servers": "nowhere"}, illegal, "nowhere"),
                ({"load": "/nowhere"}, oarlock.Error, "/nowhere"),
                ({"scratch_mb": 0}, oarlock.ResourceExhaustedError, "scratch_mb=0"),
                ({"scratch_mb": 0, "data": iter([self.table])},
                 oarlock.ResourceExhaustedError, "scratch_mb=0"),
        ):
            with self.subTest(changed):
                arguments = {"model": "deepfm", **FLAGS, **good, **changed}
                with self.assertRaises(kind) as caught:
                    oarlock.train(**arguments)
                self.assertIn(line, str(caught.exception))
                self.assertNotIn("\n", str(caught.exception))
                if getattr(caught.exception, "log_dir", None) is None:
                    self.temporary.expect_nothing_left(self)
                else:
                    import shutil
                    shutil.rmtree(pathlib.Path(caught.exception.log_dir).parent)

    def test_an_error_of_the_data_itself_is_the_callers(self):
        def broken():
            yield self.table
            raise FileNotFoundError("yesterday")

        with self.assertRaisesRegex(FileNotFoundError, "yesterday"):
            self.train(FEATURES, data=broken())
        self.temporary.expect_nothing_left(self)

    def test_a_role_in_the_environment_is_not_taken(self):
        import os
        import unittest.mock

        others = {"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": "3",
                  "PADDLE_PSERVERS_IP_PORT_LIST": "10.0.0.1:1", "SLURM_NTASKS": "2"}
        with unittest.mock.patch.dict(os.environ, others):
            for servers in (0, 1):
                result = self.train(FEATURES, data=self.table, servers=servers)
                self.assertEqual(result.summary["examples"], ROWS)



if __name__ == "__main__":
    unittest.main()
