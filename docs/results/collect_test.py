"""Rows of finished runs come to this folder as they are, each once."""

import csv
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

COLLECT = pathlib.Path(__file__).with_name("collect.py")
SUMMARY = "lr,method,seeds,best_accuracy,last_accuracy,last_ten_tests\n"


class CollectTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.results = pathlib.Path(folder.name) / "runs"
        self.here = pathlib.Path(folder.name) / "here"
        self.results.mkdir()

    def run_folder(self, name, seed, model, finished=True):
        folder = self.results / name
        folder.mkdir()
        (folder / "run.json").write_text(json.dumps(
            {"finished": finished, "model_sha256": model,
             "config": {"seed": seed}}))
        (folder / "rounds.csv").write_text(f"round,accuracy\n1,{seed}\n")

    def collect(self, here, commit="abc", code=0):
        done = subprocess.run(
            [sys.executable, COLLECT, self.results, here, "--commit", commit,
             "--cpu", "a CPU"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, code, done)
        return done

    def rows(self, file):
        with open(file, newline="", encoding="utf-8") as rows:
            return list(csv.DictReader(rows))

    def test_finished_runs(self):
        self.run_folder("noniid2-fedavg-seed1", 1, "m1")
        self.run_folder("noniid2-fedmrn-no-pm-seed2", 2, "m2")
        self.run_folder("noniid2-eden-seed1", 1, "m3", finished=False)
        self.collect(self.here)
        self.assertEqual(
            sorted(file.name for file in self.here.iterdir()),
            ["fedavg-seed1.csv", "fedmrn-no-pm-seed2.csv", "models.csv"])
        self.assertEqual(self.rows(self.here / "fedmrn-no-pm-seed2.csv"),
                         [{"round": "1", "accuracy": "2"}])
        # The same model again is still of the program that made it first.
        self.collect(self.here, commit="later")
        self.assertEqual(
            [(row["run"], row["commit"], row["model_sha256"])
             for row in self.rows(self.here / "models.csv")],
            [("fedavg-seed1", "abc", "m1"),
             ("fedmrn-no-pm-seed2", "abc", "m2")])

    def test_two_runs_of_one_name(self):
        self.run_folder("iid-fedavg-seed1", 1, "m1")
        self.run_folder("noniid2-fedavg-seed1", 1, "m2")
        self.assertIn("would both be fedavg-seed1",
                      self.collect(self.here, code=1).stderr)

    def test_summaries_are_added(self):
        table = self.here.with_suffix(".csv")
        summary = self.results / "summary.csv"
        summary.write_text(SUMMARY + "0.1,fedavg,1,0.8,0.7,10\n"
                                     "0.1,eden,0,,,\n")
        self.collect(table, commit="first")
        summary.write_text(SUMMARY + "0.3,fedavg,1,0.6,0.5,10\n"
                                     "0.1,fedavg,1,0.8,0.7,10\n")
        self.collect(table, commit="second")
        self.assertEqual(
            [(row["lr"], row["method"], row["best_accuracy"], row["commit"])
             for row in self.rows(table)],
            [("0.1", "fedavg", "0.8", "first"),
             ("0.3", "fedavg", "0.6", "second")])


if __name__ == "__main__":
    unittest.main()
