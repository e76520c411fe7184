"""`oarlock infer`: the scores of a checkpoint and of a running job; and those
of an exported model, which both readers in examples/score give.
"""

import glob
import gzip
import lzma
import math
import os
import re
import struct
import unittest

import harness
import scoring

TRAIN = ["--batch_size", "128", "--learning_rate", "0.005"]
AUC_STEP_BITS = 14  # of a float's mantissa lie below a bucket of AucHistogram
# Two programs that sum a batch otherwise give scores that differ by this much.
ROUNDING = 1e-6


def auc_of(scores, labels):
    """By ranks, ties counted half."""
    order = sorted(zip(scores, labels))
    positives = sum(labels)
    negatives = len(labels) - positives
    rank_sum = 0.0
    i = 0
    while i < len(order):
        end = i
        while end < len(order) and order[end][0] == order[i][0]:
            end += 1
        rank_sum += (i + 1 + end) / 2 * sum(label for _, label in order[i:end])
        i = end
    return (rank_sum - positives * (positives + 1) / 2) / positives / negatives


def bits_of(value):
    return struct.unpack("<I", struct.pack("<f", value))[0] >> AUC_STEP_BITS


def bucket_of(score):
    """A number in the order of the buckets of AucHistogram."""
    if score < .5:
        return bits_of(max(score, 0.))
    return 2 * bits_of(.5) + 1 - bits_of(max(1 - score, 0.))


def auc_of_buckets(scores, labels, lift=0.0):
    """As a run takes it, with scores of 1 lifted and those of 0 lowered."""
    return auc_of([
        bucket_of(s + (lift if label else -lift))
        for s, label in zip(scores, labels)], labels)


def labels_of(path):
    with open(path, encoding="utf-8") as lines:
        return [int(line[0]) for line in lines]


def criteo_rows():
    with open(harness.test_files(), encoding="utf-8") as lines:
        return lines.read().splitlines()


def bag_row(source):
    """Multi-slot text of none to three keys in a slot."""
    slots = []
    for slot in range(26):
        keys = [source.randrange(40) + 100 * slot
                for _ in range(source.randrange(4))]
        slots.append(" ".join(map(str, [len(keys), *keys])))
    dense = " ".join(f"{source.gauss(2, 1):.3f}" for _ in range(13))
    return f"13 {dense} {' '.join(slots)} 1 {source.randrange(2)}"


def libsvm_row(source):
    features = " ".join(f"{source.randrange(300)}:{source.gauss(0, 1):.4f}"
                        for _ in range(source.randrange(1, 9)))
    return f"{source.choice(['0', '1', '-1', '+1'])} {features}"


class InferTest(scoring.ScoringTest):

    def train(self, model, *flags, checkpoints="checkpoints"):
        """A job of two servers that leaves a checkpoint."""
        job = self.start_train(
            "--server_num", "2", "--worker_num", "1", "--model", model, *TRAIN,
            *harness.data_flags(), "--checkpoint_dir", checkpoints, *flags)
        self.await_success(job)
        return self.summary()

    def test_scores_of_a_checkpoint_have_the_auc_of_the_training_run(self):
        for model in ("lr", "ctr_dnn", "deepfm"):
            with self.subTest(model):
                folder = "ckpt_" + model
                summary = self.train(model, checkpoints=folder)
                scores, process = self.scores("--checkpoint", folder)
                labels = labels_of(harness.test_files())
                self.assertEqual(len(scores), len(labels))
                self.assertRegex(process.stdout,
                                 rf"with {model} of {folder}/ckpt-0000000\d")
                # A score beside the edge of a bucket may be in either.
                self.assertGreaterEqual(
                    summary["test_auc"],
                    auc_of_buckets(scores, labels, -ROUNDING) - 1e-9)
                self.assertLessEqual(
                    summary["test_auc"],
                    auc_of_buckets(scores, labels, ROUNDING) + 1e-9)
                self.assertIn(f"AUC       {summary['test_auc']:.6f}",
                              process.stdout)
                logloss = -sum(
                    math.log(s if label else 1 - s)
                    for s, label in zip(scores, labels)) / len(labels)
                self.assertAlmostEqual(logloss, summary["test_logloss"],
                                       delta=1e-5)

    def test_readers_of_an_exported_model_give_the_same_scores(self):
        # Few ids, many ids; all ways to read the integers.
        for model, *flags in (
                ("lr", "--sparse_feature_dim", "0"),
                ("ctr_dnn", "--dense_transform", "quick_start", "--accessor",
                 "ctr"),
                ("deepfm", "--dense_transform", "bucket", "--init_range",
                 "0.1")):
            with self.subTest(model):
                checkpoints, folder = "ckpt_" + model, "export_" + model
                self.train(model, *flags, checkpoints=checkpoints)
                scores, _ = self.scores("--checkpoint", checkpoints)
                process = self.await_success(self.export(folder, checkpoints))
                self.assertRegex(process.stdout, rf"wrote {model} with \d+ ro")
                self.assert_readers_agree(scores, folder)

    def write_few_and_some(self, few, some):
        """What check_readers trains and scores."""
        self.write_lines("few", few)
        self.write_lines("some", some)

    def check_readers(self, name, *flags, least_distinct=.5):
        """Trains, exports, and compares both readers with the checkpoint,
        where at least so large a share of the scores is distinct."""
        checkpoints, folder = "ckpt_" + name, "export_" + name
        self.await_success(self.start_train(
            "--server_num", "1", "--worker_num", "1", *TRAIN, *flags,
            "--init_range", "0.1", "--train_files", "few",
            "--checkpoint_dir", checkpoints))
        scores, _ = self.scores("--checkpoint", checkpoints, files="some")
        self.assertGreater(len(set(scores)), least_distinct * len(scores))
        self.await_success(self.export(folder, checkpoints))
        self.assert_readers_agree(scores, folder, files="some")
        return checkpoints, folder

    def test_readers_know_the_layers_of_every_model(self):
        rows = criteo_rows()
        self.write_few_and_some(rows[:1500], rows[1500:1700])
        for model in ("fm", "ffm", "wide_deep", "dcn", "dcn_v2", "xdeepfm",
                      "dlrm", "autoint"):
            with self.subTest(model):
                self.check_readers(model, "--model", model, least_distinct=.75)

    def test_readers_norm_as_a_prediction_does(self):
        rows = criteo_rows()
        self.write_few_and_some(rows[:1500], rows[1500:1700])
        for name, *flags in (
                ("hidden", "--model", "deepfm", "--hidden_norm", "batch"),
                ("dense", "--model", "lr", "--dense_norm", "data"),
                # More statistics than one row of their table holds.
                ("all", "--model", "wide_deep", "--hidden_norm", "batch",
                 "--dense_norm", "batch", "--dropout", "0.2"),
                ("last", "--model", "ctr_dnn", "--hidden_sizes", "16",
                 "--hidden_norm", "batch", "--dense_norm", "data")):
            with self.subTest(name):
                _, folder = self.check_readers(name, *flags)
                # What norms learn is no table of rows to look up.
                self.assertEqual(self.key_files(folder),
                                 ["embedding.keys.bin"])

    def test_readers_pool_several_keys_of_several_tables(self):
        self.write_few_and_some(scoring.rows_of(bag_row, seed=1, count=1500),
                                scoring.rows_of(bag_row, seed=2, count=200))
        for pooling in ("sum", "mean"):
            for model in ("wide_deep", "dcn_v2"):
                with self.subTest(f"{model} {pooling}"):
                    _, folder = self.check_readers(
                        f"{model}_{pooling}", "--model", model,
                        "--data_format", "multi_slot", "--sparse_feature_dim",
                        "0", "--pooling", pooling, "--slot_sizes",
                        "0:4,7:16,9:4", "--hidden_norm", "batch",
                        "--dense_norm", "data")
                    self.assertEqual(
                        self.key_files(folder),
                        ["embedding.keys.bin", "embedding_16.keys.bin",
                         "embedding_4.keys.bin"])

    def test_readers_weigh_the_features_of_libsvm_text(self):
        self.write_few_and_some(
            scoring.rows_of(libsvm_row, seed=1, count=1500),
            scoring.rows_of(libsvm_row, seed=2, count=200))
        for model in ("lr", "deepfm"):
            with self.subTest(model):
                checkpoints, folder = self.check_readers(
                    model, "--model", model, "--data_format", "libsvm",
                    "--sparse_feature_dim", "0")
        good = ["1 qid:7 3:0.5 +4:+2\t5:-1e-3 # 6:1", "-1", "0 3:0 4:1e-400",
                f"+1 {2**64 - 1}:1", "0 3:1 3:1\r"]
        bad = ["", "2 3:1", "1 3", "1 3:x", "1 3:nan", "1 3:1e39", "1 -3:1",
               f"1 {2**64}:1", "1 3:1 qid:7", "# 1 3:1"]
        self.write_lines("odd", good + bad)
        scores, _ = self.scores("--checkpoint", checkpoints, files="odd")
        self.assertEqual([math.isnan(s) for s in scores],
                         [False] * len(good) + [True] * len(bad))
        self.assert_readers_agree(scores, folder, files="odd")
        with open(self.path("unlabelled"), "w", encoding="utf-8") as file:
            file.write("qid:7 3:0.5 4:2\n\n# nothing\n3:0.25\n")
        scores, _ = self.scores("--checkpoint", checkpoints, "--labels",
                                "false", files="unlabelled")
        self.assert_readers_agree(scores, folder, "--no-labels",
                                  files="unlabelled")

    def test_readers_read_what_is_not_as_usual(self):
        self.train("deepfm")
        self.await_success(self.export("model"))
        rows = criteo_rows()[:20]
        # A text that nobody has seen, a long one, none, CRLF, no line.
        fields = [row.split("\t") for row in rows]
        fields[1][20] = "never seen"
        fields[2][21] = "x" * 100
        fields[3][14:] = [""] * 26
        fields[4][1:14] = [""] * 13
        fields[5][1:14] = ["-3"] * 13
        rows = ["\t".join(row) for row in fields]
        rows[6] += "\r"
        with open(self.path("odd"), "w", encoding="utf-8",
                  newline="") as file:
            file.write("\n".join(rows))
        scores, _ = self.scores("--checkpoint", "checkpoints", files="odd")
        self.assert_readers_agree(scores, "model", files="odd")
        self.write_lines("unlabelled",
                         (row.split("\t", 1)[1] for row in rows))
        self.assert_readers_agree(scores, "model", "--no-labels",
                                  files="unlabelled")
        self.write_lines("bad", ["no line", rows[0]])
        for reader in self.readers("model", files="bad"):
            self.await_success(reader)
            self.assertRegex(reader.stdout, r"^nan\n0\.\d+\n$")
            self.assertRegex(reader.stderr, r"bad:1: 1 fields")

    def test_readers_read_numbers_as_training_does(self):
        dense = "13 " + " ".join(["0.5"] * 13)
        slots = " ".join(["1 7"] * 26)
        largest = 2**64 - 1
        rows = [f"{dense} {slots} 1 1", f"{dense} {slots} 1 0"] * 100
        self.write_lines("train", rows)
        data_format = ["--data_format", "multi_slot"]
        self.await_success(self.start_train(
            "--server_num", "1", "--worker_num", "1", "--model", "deepfm",
            *TRAIN, *data_format, "--sparse_feature_dim", "0",
            "--train_files", "train", "--checkpoint_dir", "checkpoints"))
        self.await_success(self.export("model"))
        good = [rows[0],
                rows[0].replace("0.5 0.5", "1e-40 -1e-400", 1),
                rows[0].replace("1 7", f"1 {largest}", 1),
                rows[0].replace(" ", "\t") + "\r"]
        bad = [rows[0].replace("1 7", f"1 {largest + 1}", 1),
               rows[0].replace("1 7", "1 -7", 1),
               rows[0].replace("1 7", "1 +7", 1),
               rows[0].replace("0.5", "1e39", 1),
               rows[0].replace("0.5", "nan", 1),
               rows[0].replace("0.5", "1_0", 1),
               rows[0][:-1] + "2",
               "\ufeff" + rows[0]]
        # A byte order mark is skipped in front of the first line only.
        self.write_lines("odd", ["\ufeff" + good[0], *good[1:], *bad])
        scores, _ = self.scores("--checkpoint", "checkpoints", files="odd")
        self.assertEqual([math.isnan(s) for s in scores],
                         [False] * len(good) + [True] * len(bad))
        self.assert_readers_agree(scores, "model", files="odd")

    def test_readers_do_not_take_a_failure_for_the_end_of_a_file(self):
        self.train("lr")
        self.await_success(self.export("model"))
        os.mkdir(self.path("folder"))
        for reader in self.readers("model", files="folder"):
            self.assert_fails(reader, r"folder", code=1)
            self.assertEqual(reader.stdout, "")

    def test_readers_do_not_take_a_compressed_file_for_text(self):
        self.train("lr")
        self.await_success(self.export("model"))
        with open(harness.test_files(), "rb") as file:
            text = file.read()
        for name, packed, unpacker in (
                ("a.gz", gzip.compress(text), "zcat"),
                ("a.xz", lzma.compress(text), "xzcat"),
                # Debian's Python has no zstd; this begins like it.
                ("a.zst", b"\x28\xb5\x2f\xfd" + text, "zstdcat"),
                # A file is what it begins with, not its name.
                ("a.txt", gzip.compress(text), "zcat")):
            with open(self.path(name), "wb") as file:
                file.write(packed)
            for reader in self.readers("model", files=name):
                self.assert_fails(
                    reader, rf"^score(\.py)?: {name} is compressed; unpack "
                    rf"it, for example: {unpacker} {name} \| "
                    r"score(\.py)? MODEL_DIR /dev/stdin$", code=1)
                self.assertEqual(reader.stdout, "")
                self.assertEqual(len(reader.stderr.splitlines()), 1)
        # What they advise.
        scores, _ = self.scores("--checkpoint", "checkpoints")
        for reader in (harness.program("OARLOCK_SCORE"),
                       f"/usr/bin/python3 {scoring.SCORE_PY}"):
            process = self.await_success(self.start(
                "sh", "-c", f"zcat a.gz | {reader} model /dev/stdin"))
            self.assert_close(
                scores, [float(s) for s in process.stdout.splitlines()])

    def test_a_damaged_export_is_refused_by_the_name_of_its_file(self):
        self.train("lr")
        self.await_success(self.export("model"))
        names = sorted(os.listdir(self.path("model")))
        self.assertEqual(names, ["SUMS", "dense.bin", "embedding.keys.bin",
                                 "embedding.values.bin", "model.json"])
        self.assert_fails(self.export("model"), r"'model' is there already",
                          code=1)
        for name in names:
            path = self.path("model", name)
            with open(path, "rb") as file:
                sound = file.read()
            damaged = [sound[:-1], sound + b"\n"]
            for at in (0, len(sound) // 2, len(sound) - 1):
                damaged.append(sound[:at] + bytes([sound[at] ^ 4]) +
                               sound[at + 1:])
            for content in damaged:
                with open(path, "wb") as file:
                    file.write(content)
                for reader in self.readers("model"):
                    self.assert_fails(reader, rf"model/{name}.* is damaged",
                                      code=1)
                    self.assertEqual(reader.stdout, "")
            os.remove(path)
            for reader in self.readers("model"):
                self.assert_fails(reader, rf"model/{name}", code=1)
            with open(path, "wb") as file:
                file.write(sound)

    def test_a_damaged_checkpoint_is_refused_by_the_name_of_its_file(self):
        self.train("lr")
        found = glob.glob(self.path("checkpoints", "ckpt-*", "server-000",
                                    "*.sst"))
        path = max(found, key=os.path.getsize)
        with open(path, "r+b") as file:
            file.seek(os.path.getsize(path) // 2)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 1]))
        name = re.escape(os.path.basename(path))
        self.assert_fails(
            self.infer("--checkpoint", "checkpoints", "--files",
                       harness.test_files()), name, code=1)
        self.assert_fails(self.export("model"), name, code=1)
        self.assertFalse(os.path.exists(self.path("model")))
        self.assertFalse(os.path.exists(self.path("model.tmp")))

    def test_any_number_of_threads_and_files_give_the_same_scores(self):
        self.train("deepfm")
        scores, _ = self.scores("--checkpoint", "checkpoints")
        rows = criteo_rows()
        os.mkdir(self.path("parts"))
        for number, begin in enumerate(range(0, len(rows), 2500)):
            self.write_lines(f"parts/part-{number}", rows[begin:begin + 2500])
        parted, _ = self.scores(
            "--checkpoint", "checkpoints", "--thread_num", "3", "--batch_size",
            "100", files="parts/part-*")
        self.assert_close(scores, parted)
        # Rows beyond a budget lie on disk while there is an inference.
        os.mkdir(self.path("temporary"))
        budget, _ = self.scores("--checkpoint", "checkpoints",
                                "--memory_budget_mb", "32",
                                TMPDIR=self.path("temporary"))
        self.assert_close(scores, budget, relative=0)
        self.assertEqual(os.listdir(self.path("temporary")), [])
        # Lines without labels, and standard output.
        self.write_lines("unlabelled",
                         (row.split("\t", 1)[1] for row in rows))
        process = self.await_success(self.infer(
            "--checkpoint", "checkpoints", "--labels", "false", "--files",
            "unlabelled", out="-"))
        self.assert_close(
            scores, [float(line) for line in process.stdout.splitlines()],
            relative=0)
        self.assertNotIn("AUC", process.stderr)
        self.assertRegex(process.stderr, r"scored +6000 lines")

    def test_a_malformed_line_has_no_score_but_a_place(self):
        self.train("lr")
        rows = criteo_rows()[:5]
        self.write_lines("bad", [*rows[:2], "not a line", *rows[2:]])
        scores, process = self.scores("--checkpoint", "checkpoints",
                                      files="bad")
        self.assertEqual([i for i, s in enumerate(scores) if math.isnan(s)],
                         [2])
        self.assertEqual(len(scores), 6)
        self.assertRegex(process.stdout, r"malformed +1 line")
        self.assert_fails(
            self.infer("--checkpoint", "checkpoints", "--files", "bad",
                       "--bad_lines_max", "0", out="none"),
            r"malformed line.*--bad_lines_max", code=1)
        self.write_lines("worse", ["not a line"])
        self.assert_fails(
            self.infer("--checkpoint", "checkpoints", "--files", "worse",
                       out="none"),
            r"no line of --files was scored: .* 1 malformed", code=1)
        self.assertFalse(os.path.exists(self.path("none")))
        self.assertFalse(os.path.exists(self.path("none.tmp")))

    def test_a_running_job_gives_the_scores_of_its_parameters(self):
        servers = [f"127.0.0.1:{port}" for port in harness.free_ports(2)]
        common = ["--pserver_endpoints", ",".join(servers), "--trainers", "1",
                  "--model", "deepfm", *TRAIN, *harness.data_flags(),
                  "--print_period", "10"]
        for server in servers:
            self.start_train("--role", "PSERVER", "--current_endpoint", server,
                             *common, name=f"server_{server[-5:]}")
        # After its epochs it would take its servers with it: it has many.
        worker = self.start_train("--role", "TRAINER", "--trainer_id", "0",
                                  *common, "--epochs", "1000")
        self.await_text(worker.stderr_path, r"test epoch 1 ")
        for asked in (servers[1], ",".join(servers)):
            scores, process = self.scores("--servers", asked)
            self.assertRegex(process.stdout, r"with deepfm of the job at ")
            labels = labels_of(harness.test_files())
            self.assertGreater(auc_of(scores, labels), .6)
        refused = self.infer("--servers", servers[0], "--job_id", "another",
                             "--files", harness.test_files())
        self.assertEqual(self.await_end(refused), 1)
        self.assertRegex(refused.stderr, r"^oarlock infer: .*another.*\n$")

    def test_what_is_wrong_is_one_line(self):
        self.train("lr")
        os.mkfifo(self.path("pipe"))
        test = ["--files", harness.test_files()]
        checkpoint = ["--checkpoint", "checkpoints"]
        for flags, pattern, code in (
                ([*test], r"--checkpoint DIR, or --servers", 2),
                ([*checkpoint, "--servers", "127.0.0.1:1", *test],
                 r"one of them", 2),
                ([*checkpoint], r"nothing to score", 2),
                ([*checkpoint, "--files", "missing*"], r"missing", 1),
                ([*checkpoint, "--files", "pipe"], r"'pipe' is a pipe", 1),
                (["--checkpoint", "missing", *test], r"missing", 1),
                ([*checkpoint, *test, "--model", "deepfm"],
                 r"deepfm needs a table 'embedding' of rows of 11 floats, "
                 r"checkpoints/ckpt-0000000\d has rows of 1 floats", 2),
                ([*checkpoint, *test, "--model", "none"], r"--model", 2),
                (["--servers", "127.0.0.1:1", "--rpc_timeout_s", "1", *test],
                 r"127.0.0.1:1", 1)):
            with self.subTest(" ".join(flags)):
                self.assert_fails(self.infer(*flags), pattern, code=code)
        self.assert_fails(
            self.infer(*checkpoint, *test, out="no/such/folder/scores"),
            r"cannot write 'no/such/folder/scores'", code=1)


if __name__ == "__main__":
    unittest.main()
