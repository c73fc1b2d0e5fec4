#!/usr/bin/env python3
"""Tests of `fedmrn run` as a whole: killed at any moment, on any number of
workers, and what it leaves behind.

ctest sets FEDMRN_PROGRAM.
"""

import csv
import gzip
import json
import os
import pathlib
import unittest

from program_test import ProgramTest

FMNIST = pathlib.Path("/usr/share/datasets/fashion-mnist")
HEADER = ("round,accuracy,loss,uplink_bytes,payload_bytes,dense_bytes,"
          "downlink_bytes,"
          "uplink_bits_per_param,clients,dropped,train_s,encode_s,"
          "aggregate_s,eval_s,wall_s,train_loss,train_accuracy")
TINY = {"data.name": "synthetic", "data.train_examples": 320,
        "data.test_examples": 64, "partition.clients": 8, "train.epochs": 1,
        "train.batch": 16, "rounds.clients_per_round": 3, "rounds.count": 3}


def settings(**changed):
    """TINY with changes (__ for the dot), half as --set, half as flags."""
    values = {**TINY, **{key.replace("__", "."): value
                         for key, value in changed.items()}}
    words = []
    for i, (key, value) in enumerate(values.items()):
        words += (["--set", f"{key}={value}"] if i % 2 else
                  [f"--{key}", str(value)])
    return words


class RunFolderTest(ProgramTest):
    """What all tests here use."""

    words = ["run"]

    def succeed(self, out, *args):
        super().succeed("--out", out, *args)
        return self.result(out)

    def refuse(self, *args):
        done = self.run_it(*args)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done)
        return done.stderr

    def rows(self, out):
        """rounds.csv without what a clock measured."""
        text = (self.folder / out / "rounds.csv").read_text()
        self.assertTrue(text.startswith(HEADER + "\n"), text)
        self.assertTrue(text.endswith("\n"), text)
        return [{key: value for key, value in row.items()
                 if not key.endswith("_s")}
                for row in csv.DictReader(text.splitlines())]

    def result(self, out):
        """What must not depend on interruptions and workers."""
        run = json.loads((self.folder / out / "run.json").read_text())
        self.assertTrue(run["finished"])
        self.assertEqual(len(run["model_sha256"]), 64)
        rows = self.rows(out)
        self.assertEqual([row["round"] for row in rows], [
            str(n + 1) for n in range(run["config"]["rounds"]["count"])])
        return run["model_sha256"], rows, run["best"], run["last"]


class RecoveryTest(RunFolderTest):

    def test_kill_at_any_moment(self):
        self.kill_and_compare(4)

    def test_damaged_checkpoint(self):
        config = settings()
        expected = self.succeed("out", *config)
        newest = max((self.folder / "out" / "checkpoints").iterdir())
        data = bytearray(newest.read_bytes())
        data[len(data) // 2] ^= 1
        newest.write_bytes(data)
        done = self.run_it("--out", "out", "--resume", *config)
        self.assertEqual(done.returncode, 0, done)
        self.assertIn(f"{newest.name} is damaged", done.stderr)
        self.assertIn("goes on after round 2\n", done.stderr)
        self.assertEqual(self.result("out"), expected)

    def test_changed_config(self):
        self.succeed("out", *settings(rounds__count=1))
        files = sorted(self.folder.rglob("*"))
        err = self.refuse("--out", "out", "--resume",
                          *settings(rounds__count=1, train__lr=0.3))
        self.assertIn("train.lr: was 0.1, now 0.3\n", err)
        err = self.refuse("--out", "out", *settings(rounds__count=1))
        self.assertIn("already holds a run", err)
        self.assertEqual(sorted(self.folder.rglob("*")), files)


class WorkersTest(RunFolderTest):

    def test_same_model(self):
        for method in ("fedavg", "fedmrn", "fedmrns"):
            with self.subTest(method):
                config = settings(method__name=method, rounds__count=2)
                self.assertEqual(
                    self.succeed(method + "1", "--workers", 1, *config),
                    self.succeed(method + "2", "--workers", 2, *config))

    def peak_memory(self, clients):
        """Of a run, in kB."""
        with self.start("--out", f"out{clients}", *settings(
                data__train_examples=10000, partition__clients=clients,
                rounds__count=2)) as process:
            err = process.stderr.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0, err)
        return usage.ru_maxrss

    def test_memory_does_not_grow_with_clients(self):
        self.assertLess(self.peak_memory(10000),
                        1.05 * self.peak_memory(100) + 2000)


class ModelTest(RunFolderTest):

    @unittest.skipUnless(FMNIST.exists(),
                         "no Fashion-MNIST: apt install dataset-fashion-mnist")
    def test_python_has_the_same_accuracy(self):
        try:
            import torch  # pylint: disable=import-outside-toplevel
        except ImportError:
            self.skipTest("no PyTorch: apt install python3-torch")
        torch.set_num_threads(1)
        self.succeed("out", *settings(
            data__name="fmnist", data__dir=FMNIST, data__train_examples=2000,
            data__test_examples=1000, partition__clients=10,
            method__name="fedavg", train__epochs=4, rounds__count=2))
        run = json.loads((self.folder / "out" / "run.json").read_text())
        with gzip.open(FMNIST / "t10k-images-idx3-ubyte.gz") as file:
            pixels = bytearray(file.read()[16:16 + 784 * 1000])
        with gzip.open(FMNIST / "t10k-labels-idx1-ubyte.gz") as file:
            labels = bytearray(file.read()[8:1008])
        images = torch.frombuffer(pixels, dtype=torch.uint8)
        model = torch.jit.load(str(self.folder / "out" / "model.pt"))
        with torch.no_grad():
            scores = model(model.normalise(images.reshape(1000, 1, 28, 28)))
        correct = (scores.argmax(1) == torch.frombuffer(
            labels, dtype=torch.uint8)).sum().item()
        self.assertAlmostEqual(correct, 1000 * run["last"]["accuracy"],
                               delta=1.001)
        self.assertGreater(correct, 300)  # it has learnt something


class MistakesTest(RunFolderTest):

    def test_nothing_is_written(self):
        for message, words in (
                ("train.lrr: unknown key, did you mean train.lr?",
                 ["--set", "train.lrr=1"]),
                ("11 of 10 clients in a round",
                 settings(partition__clients=10,
                          rounds__clients_per_round=11)),
                ("train.batch: must be an integer of at least 1, not 0",
                 settings(train__batch=0)),
                ("method.magnitude: must be a number above 0",
                 settings(method__magnitude=0)),
                ("nothing.toml: cannot read it: No such file or directory",
                 ["nothing.toml"]),
                ("elsewhere", settings(data__name="svhn",
                                       data__dir="elsewhere")),
                ("partition.labels_per_client: 11 labels",
                 settings(partition__kind="labels",
                          partition__labels_per_client=11)),
                ("partition", settings(partition__kind="natural"))):
            with self.subTest(message):
                err = self.refuse(*words)
                self.assertIn(message, err)
                self.assertEqual(list(self.folder.iterdir()), [])

    def test_config_errors_name_the_line(self):
        config = self.folder / "a.toml"
        config.write_text("seed = 1\n[train]\nbatch = 0\nepohcs = 1\n")
        self.assertEqual(
            self.refuse(config),
            f"{config}:3: train.batch: must be an integer of at least 1, not "
            f"0\n{config}:4: train.epohcs: unknown key, did you mean "
            "train.epochs?\n")
        self.assertEqual(list(self.folder.iterdir()), [config])


if __name__ == "__main__":
    unittest.main()
