#!/usr/bin/env python3
"""Tests of fedmrn compare and fedmrn tune, as people use them.

ctest sets the environment, as for cli_test.py.
"""

import csv
import json
import re
import shutil
import statistics
import subprocess
import time
import tomllib
import unittest

from program_test import SLOW
from run_test import RunVerbTest

CONFIG = """[data]
name = "synthetic"
train_examples = 200
test_examples = 100
[partition]
clients = 5
[rounds]
count = 2
clients_per_round = 2
[train]
epochs = 1
batch = 20
"""
GRID = """summary = "Two methods"
""" + CONFIG + """
[variants.method.fedavg]
method.name = "fedavg"
[variants.method.fedmrn]
method.name = "fedmrn"
[profiles.quick]
seed = [1, 2]
[profiles.long]
rounds.count = 3
"""
RUNS = ["fedavg-seed1", "fedavg-seed2", "fedmrn-seed1", "fedmrn-seed2"]
TABLE = re.compile(r"(\S+) +([\d.]+) ± ([\d.]+) +([\d.]+) ± ([\d.]+) +"
                   r"([\d.]+) +([\d.]+) +([\d.]+) +(\d+)")


class GridTest(RunVerbTest):
    """What all tests here use."""

    def setUp(self):
        super().setUp()
        self.grid = self.write("grid.toml", GRID)
        self.out = self.folder / "out"

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def done(self, *args, code=0):
        """stdout and stderr of a program that must end in this way."""
        done = self.run_it(*args)
        self.assertEqual(done.returncode, code, done)
        return done.stdout, done.stderr

    def result(self, name):
        return json.loads((self.out / name / "run.json").read_text())

    def rows(self, name):
        with open(self.out / name / "rounds.csv", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def files(self):
        return {path: path.read_bytes() for path in self.folder.rglob("*")
                if path.is_file()}


class CompareTest(GridTest):

    def test_rounds_and_upload_to_a_target(self):
        out, _ = self.done("compare", self.grid, "--out", self.out, "--target",
                           0.01)
        self.assertIn("rounds to 0.01  MB to 0.01", out)
        with open(self.out / "summary.csv", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                rounds = [self.rows(f"{row['method']}-seed{seed}")
                          for seed in (1, 2)]
                self.assertEqual(float(row["target_accuracy"]), 0.01)
                self.assertEqual(row["reached_seeds"], "2")
                self.assertEqual(float(row["rounds_to_target"]), 1)
                self.assertEqual(
                    float(row["uplink_bytes_to_target"]),
                    statistics.mean(int(r[0]["uplink_bytes"]) for r in rounds))
        # None reaches more than everything.
        out, _ = self.done("compare", self.grid, "--out", self.out, "--target",
                           1.5)
        self.assertRegex(out, r"fedavg .* 2 +- +-\n")

    def test_says_what_was_tested_how_often_and_on_what(self):
        # Of the longer run two of the last ten rounds are tested, of the other
        # both that there are.
        grid = self.write("mixed.toml", CONFIG + """
[variants.length.long]
rounds.count = 12
run.eval_every = 6
[variants.length.short]
data.validation = 0.2
""")
        words = ["compare", grid, "--out", self.out]
        out, _ = self.done(*words)
        self.assertIn("\nof the last 10 rounds 2 were tested\n"
                      "on held-out training examples where data.validation is "
                      "above 0, else on the test set\n", out)
        out, _ = self.done(*words, "--only", "length=short")
        self.assertNotIn("tested", out)
        self.assertIn("\non held-out training examples, not on the test set\n",
                      out)

    def test_parts_have_all_runs_between_them(self):
        words = ["compare", self.grid, "--out", self.out]
        for part, expected in (("1/3", RUNS[::3]), ("3/3", RUNS[2:3]),
                               ("2/3", RUNS[1:2])):
            out, _ = self.done(*words, "--part", part)
            self.assertIn("without --part: the table of all", out)
            self.assertFalse((self.out / "summary.csv").exists())
            for name in expected:
                self.assertTrue(self.result(name)["finished"])
        _, err = self.done(*words)
        self.assertIn("runs: 4 finished, 0 interrupted, 0 new", err)
        self.assertTrue((self.out / "summary.csv").exists())
        _, err = self.done(*words, "--part", "5/5")
        self.assertEqual(err, "no run is left for part 5/5\n")
        for part in ("0/3", "4/3", "1", "1/3x"):
            self.fail_with("fedmrn compare: --part must be I/N with I from 1 "
                           f"to N, not {part}", *words, "--part", part)

    def test_table_and_summary(self):
        out, err = self.done("compare", self.grid, "--out", self.out,
                             "--jobs", 2)
        lines = err.splitlines()
        self.assertEqual(lines[:2], [
            "Two methods", "runs: 0 finished, 0 interrupted, 4 new; 2 at a "
            f"time; results in {self.out}"])
        self.assertEqual({line for line in lines if "started" in line},
                         {f"{name}: started" for name in RUNS})
        ends = [line for line in lines if "accuracy" in line]
        self.assertEqual({line.split(":")[0] for line in ends}, set(RUNS))
        self.assertTrue(ends[-1].endswith(" (4 of 4 done)"), ends)
        self.assertEqual(len(lines), 2 + 2 * 4)

        with open(self.out / "summary.csv", encoding="utf-8") as file:
            summary = list(csv.DictReader(file))
        table = {cells[1]: cells for cells in TABLE.finditer(out)}
        self.assertEqual(list(table), ["fedavg", "fedmrn"])
        self.assertEqual([row["method"] for row in summary],
                         ["fedavg", "fedmrn"])
        for row in summary:
            rounds = [self.rows(f"{row['method']}-seed{seed}")
                      for seed in (1, 2)]
            best = [max(float(r["accuracy"]) for r in rows)
                    for rows in rounds]
            last = [float(rows[-1]["accuracy"]) for rows in rounds]
            scores = [[float(r["accuracy"]) for r in rows] for rows in rounds]
            last_ten = [statistics.mean(values) for values in scores]
            swing = statistics.mean(statistics.variance(values)
                                    for values in scores) ** .5
            uplink = statistics.mean(sum(int(r["uplink_bytes"]) for r in rows)
                                     for rows in rounds)
            bits = statistics.mean(float(r["uplink_bits_per_param"])
                                   for rows in rounds for r in rows)
            for name, values in (("best", best), ("last", last),
                                 ("last_ten", last_ten)):
                self.assertAlmostEqual(float(row[f"{name}_accuracy"]),
                                       statistics.mean(values))
                self.assertAlmostEqual(float(row[f"{name}_accuracy_std"]),
                                       statistics.stdev(values))
            self.assertAlmostEqual(float(row["last_ten_swing"]), swing)
            # All that there are of the ten.
            self.assertEqual(int(row["last_ten_tests"]), len(scores[0]))
            self.assertIn(f"last {len(scores[0])} %", out.splitlines()[0])
            self.assertAlmostEqual(float(row["uplink_bytes"]), uplink)
            self.assertAlmostEqual(float(row["uplink_bits_per_param"]), bits)
            cells = table[row["method"]]
            self.assertEqual(cells.groups()[1:], (
                f"{100 * statistics.mean(best):.2f}",
                f"{100 * statistics.stdev(best):.2f}",
                f"{100 * statistics.mean(last_ten):.2f}",
                f"{100 * statistics.stdev(last_ten):.2f}",
                f"{100 * swing:.2f}",
                f"{uplink / 1e6:.2f}", f"{bits:.3f}", "2"))
        self.assertLessEqual(max(map(len, out.splitlines()[:-1])), 80)

        # Again: the same table, and no run is touched.
        before = self.files()
        again, err = self.done("compare", self.grid, "--out", self.out)
        self.assertEqual(again, out)
        self.assertIn("runs: 4 finished, 0 interrupted, 0 new", err)
        self.assertNotIn("started", err)
        self.assertEqual(self.files(), before)

        # A run that is new beside those that are there.
        shutil.rmtree(self.out / RUNS[1])
        _, err = self.done("compare", self.grid, "--out", self.out)
        self.assertEqual([line for line in err.splitlines()
                          if "started" in line], [f"{RUNS[1]}: started"])
        changed = {path.relative_to(self.out).parts[0]
                   for path, text in self.files().items()
                   if before.get(path) != text}
        self.assertEqual(changed, {RUNS[1]})

    def test_jobs_do_not_matter(self):
        hashes = []
        for jobs in (1, 3):
            self.out = self.folder / str(jobs)
            self.done("compare", self.grid, "--out", self.out, "--jobs", jobs)
            hashes.append([self.result(name)["model_sha256"]
                           for name in RUNS])
        self.assertEqual(len(set(hashes[0])), 4)
        self.assertEqual(hashes[0], hashes[1])
        # Nor does it matter that there are others beside it.
        self.done("run", self.out / RUNS[3] / "config.toml", "--out",
                  self.folder / "alone")
        alone = json.loads((self.folder / "alone/run.json").read_text())
        self.assertEqual(alone["model_sha256"], hashes[0][3])

    def test_killed_and_interrupted(self):
        command = ["compare", self.grid, "--profile", "long", "--jobs", 2]
        self.done(*command, "--out", self.folder / "whole")
        command += [*SLOW, "--out", self.out]
        with self.start(*command, stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL) as program:
            first = self.out / "fedavg-seed1" / "rounds.csv"
            while not first.exists():
                self.assertIsNone(program.poll())
                time.sleep(0.01)
            program.kill()
        out, _ = self.done(*command, "--dry-run")
        self.assertRegex(out, r"\nfedavg-seed1 +interrupted +[12]/3\n")
        out, err = self.interrupt("fedmrn-seed1: ", *command)
        self.assertEqual(out, "")
        self.assertTrue(err.endswith("\nstopped; the same command goes on\n"),
                        err)
        self.assertFalse((self.out / "summary.csv").exists())
        _, err = self.done(*command)
        self.assertRegex(err, r"fedavg-seed1: goes on after round [12]\n")
        for name in ("fedavg-seed1", "fedmrn-seed1"):
            whole = json.loads((self.folder / "whole" / name / "run.json"
                                ).read_text())
            self.assertEqual(self.result(name)["model_sha256"],
                             whole["model_sha256"])

    def test_dry_run(self):
        out, _ = self.done("compare", self.grid, "--out", self.out,
                           "--dry-run", "--only", "method=fedmrn")
        self.assertEqual(out, "run           state  rounds\n"
                              "fedmrn-seed1  new       0/2\n"
                              "fedmrn-seed2  new       0/2\n")
        self.assertFalse(self.out.exists())

    def test_mistakes_before_any_run(self):
        before = self.files()
        out = ["--out", self.out]
        bad = self.write("bad.toml", GRID.replace("batch", "bach"))
        self.fail_with(f"{bad}:13: train.bach: unknown key, did you mean "
                       "train.batch?", "compare", bad, *out)
        bad.unlink()
        for message, args in (
                (f"--profile slow: {self.grid} has the profiles quick, long",
                 ["--profile", "slow"]),
                (f"--profile quik: {self.grid} has the profiles quick, long, "
                 "did you mean quick?", ["--profile", "quik"]),
                ("--only method=x: method has no x; it has fedavg, fedmrn",
                 ["--only", "method=x"]),
                ("--only method=fedagv: method has no fedagv; it has fedavg, "
                 "fedmrn, did you mean fedavg?", ["--only", "method=fedagv"]),
                ("--only methd=x: there is no axis methd; there are method, "
                 "seed, did you mean method?", ["--only", "methd=x"]),
                ("--set train.lr=0: train.lr: must be a number above 0, not 0",
                 ["--set", "train.lr=0"])):
            self.fail_with(message, "compare", self.grid, *out, *args)
        self.fail_with("nothing.toml: cannot read it: No such file or "
                       "directory", "compare", "nothing.toml")
        for args in (["compare"], ["compare", self.grid, "--jobs", "0"],
                     ["tune", self.grid], ["compare", self.grid, "--jobs",
                                           "many"]):
            self.done(*args, code=2)
        self.assertEqual(self.files(), before)

    def test_damaged_or_foreign_folders(self):
        one = ["compare", self.grid, "--out", self.out, "--only",
               "method=fedmrn", "--only", "seed=1"]
        folder = self.out / "fedmrn-seed1"
        anew = f"; to run it anew, remove {folder}"
        self.done(*one)
        # All runs are looked at first: even those before it do not start.
        both = one[:4]
        self.fail_with(
            f"{folder} holds a run with another config:\n"
            "  train.epochs: was 1, now 2\n"
            "resume with the same config, or start anew with another --out",
            *both, "--set", "train.epochs=2")
        sound = self.files()
        for name, text, message in (
                ("rounds.csv", lambda t: t[:-1],
                 f"{folder}/rounds.csv: line 3: is cut off: the file ends in "
                 "it"),
                ("rounds.csv", lambda t: t[:t.rindex(b"\n2,") + 1],
                 f"{folder}/rounds.csv has 1 of 2 rounds"),
                ("run.json", lambda t: t[:100],
                 f"{folder}/run.json is damaged, or no run's"),
                ("run.json", lambda t: b"[]",
                 f"{folder}/run.json is damaged, or no run's")):
            (folder / name).write_bytes(text(sound[folder / name]))
            damaged = self.files()
            self.fail_with(message + anew, *both)
            self.assertEqual(self.files(), damaged)
            (folder / name).write_bytes(sound[folder / name])
        for name in ("rounds.csv", "config.toml"):
            (folder / name).unlink()
            self.fail_with(f"{folder}/{name}: cannot read it: No such file or "
                           "directory" + anew, *both)
            (folder / name).write_bytes(sound[folder / name])
        self.assertEqual(self.files(), sound)
        # What settles nothing may differ.
        self.done(*one, "--set", "run.tensorboard=false", "--set",
                  "run.workers=2")

    def test_one_fails_and_the_others_run(self):
        # No client can have as few examples as there are to share.
        grid = self.write("grid2.toml", GRID + """
[variants.partition.iid]
[variants.partition.uneven]
partition.kind = "dirichlet"
partition.min_examples = 100
""")
        out, err = self.done("compare", grid, "--out", self.out, "--only",
                             "method=fedmrn", "--only", "seed=1", code=1)
        self.assertRegex(out, r"\nfedmrn  iid +[\d.]+ +[\d.]+ .* 1\n"
                              r"fedmrn  uneven( +-){5} +0\n")
        self.assertIn("\nfedmrn-uneven-seed1 failed: ", err)
        self.assertTrue(self.result("fedmrn-iid-seed1")["finished"])

    def test_live_table(self):
        forms = {
            80: r"fedmrn-seed[12]  round [12]/2 \[[#.]{12}\]  +(-|[\d.]+) %"
                r"  +[\d.]+ MB",
            50: r"fedmrn-seed[12]  round [12]/2  +(-|[\d.]+) %  +[\d.]+ MB"}
        last = r"[012] of 2 done, [12] running, [01] waiting(, about .*)?"
        for columns, form in forms.items():
            with self.subTest(columns=columns):
                out = self.on_terminal(
                    columns, "compare", self.grid, "--only", "method=fedmrn",
                    "--jobs", 2, *SLOW, "--out",
                    self.folder / str(columns))
                drawn = re.findall(r"([^\r\n]*)\x1b\[K", out)
                for expected in (form, last):
                    self.assertTrue(any(re.fullmatch(expected, line)
                                        for line in drawn), drawn)
                self.assertLess(max(map(len, drawn)), columns)
                # What stays on the screen: one line for each run.
                stays = [line.rsplit("\x1b[J", 1)[-1] for line in
                         out.replace("\r", "").split("\n")]
                for name in RUNS[2:]:
                    self.assertEqual(
                        len([line for line in stays
                             if line.startswith(f"{name}: accuracy ")]), 1,
                        stays)


class TuneTest(GridTest):

    def setUp(self):
        super().setUp()
        self.config = self.write("my.toml", CONFIG)

    def test_lower_loss_decides_between_equals(self):
        # With few validation examples many accuracies are equal.
        out, _ = self.done("tune", self.config, "--grid",
                           "lr=0.3,0.03,0.1,0.01", "--rounds", 1, "--out",
                           self.out, "--set", "data.test_examples=1")
        cells = [line.split() for line in out.splitlines()[1:5]]
        self.assertLess(len({row[1] for row in cells}), len(cells))
        self.assertEqual(cells, sorted(
            cells, key=lambda row: (-float(row[1]), float(row[-1]))))

    def test_chooses_the_best(self):
        command = ["tune", self.config, "--grid", "lr=0.3,1e30", "--grid",
                   "method.noise=uniform,gaussian", "--rounds", 1, "--out",
                   self.out, "--set", "data.test_examples=50"]
        out, _ = self.done(*command)
        lines = out.splitlines()
        self.assertEqual(lines[0].split(),
                         ["lr", "noise", "mean", "%", "+-", "best", "%", "loss"])
        cells = [line.split() for line in lines[1:5]]
        self.assertEqual({row[0] for row in cells[:2]}, {"0.3"})
        accuracy = {noise: self.rows(f"lr0.3-{noise}-seed1")[0]["accuracy"]
                    for noise in ("uniform", "gaussian")}
        self.assertEqual([row[1:3] for row in cells[:2]], [
            [noise, f"{100 * float(accuracy[noise]):.2f}"] for noise in
            sorted(accuracy, key=lambda n: -float(accuracy[n]))])
        # Those that diverge lose.
        for row in cells[2:]:
            self.assertEqual(row[0], "1e30")
            self.assertIn(row[-1], ("failed", "diverged"))
        noise = cells[0][1]
        self.assertEqual(lines[5:], [
            "", f"best: lr 0.3, noise {noise}: {cells[0][2]} % on validation "
            "examples, mean of the last 1 of 1 round",
            "lr 0.3 is the smallest that was tried: try smaller ones",
            f"fedmrn run {self.out}/tuned.toml"])
        with open(self.out / "tuned.toml", "rb") as file:
            tuned = tomllib.load(file)
        self.assertEqual(tuned["train"]["lr"], 0.3)
        self.assertEqual(tuned["method"]["noise"], noise)
        self.assertEqual(tuned["rounds"]["count"], 2)
        self.assertEqual(tuned["data"]["test_examples"], 50)
        self.assertEqual(tuned["data"]["validation"], 0)
        self.assertEqual(tuned["run"]["workers"], 0)
        self.done("run", self.out / "tuned.toml", "--out",
                  self.folder / "tuned")

    def test_short_runs_are_the_first_rounds_of_long_ones(self):
        # A rate that falls does so as in the long run, and none ends early.
        settings = [arg for value in (
            "rounds.count=8", "train.lr_schedule=cosine",
            "rounds.target_accuracy=0.01", "rounds.patience=1",
            "run.eval_every=2")
            for arg in ("--set", value)]
        self.done("tune", self.config, "--grid", "lr=0.3,0.1", "--rounds", 3,
                  "--out", self.out, *settings)
        for name in ("lr0.3-seed1", "lr0.1-seed1"):
            rows = self.rows(name)
            self.assertEqual(len(rows), 3)
            self.assertTrue(all(row["accuracy"] for row in rows), rows)
            with open(self.out / name / "config.toml", "rb") as file:
                self.assertEqual(tomllib.load(file)["train"]["lr_rounds"], 8)
        with open(self.out / "tuned.toml", "rb") as file:
            tuned = tomllib.load(file)
        self.assertEqual(tuned["train"]["lr_rounds"], 8)
        self.assertEqual(tuned["rounds"]["count"], 8)
        self.assertEqual(tuned["rounds"]["target_accuracy"], 0.01)
        self.assertEqual(tuned["rounds"]["patience"], 1)
        self.assertEqual(tuned["run"]["eval_every"], 2)

    def test_never_looks_at_the_test_set(self):
        # Whatever the test set is, the runs are the same to the digit.
        tables = []
        for examples in (50, 7):
            out, _ = self.done("tune", self.config, "--grid", "lr=0.3,0.1",
                               "--rounds", 2, "--out",
                               self.folder / str(examples), "--set",
                               f"data.test_examples={examples}")
            tables.append(out.splitlines()[:3])
        self.assertEqual(tables[0], tables[1])

    def test_nothing_comes_through(self):
        out, err = self.done("tune", self.config, "--grid", "lr=1e30",
                             "--rounds", 1, "--out", self.out, code=1)
        self.assertNotIn("best:", out)
        self.assertTrue(err.endswith(
            "\nno run has come through: try other values\n"), err)
        self.assertFalse((self.out / "tuned.toml").exists())

    def test_mistakes(self):
        before = self.files()
        for message, args in (
                ("--grid lrr=1: lrr: unknown key, did you mean train.lr?",
                 ["--grid", "lrr=1"]),
                ("--grid lr: must be KEY=VALUE,..., such as lr=1,0.3,0.1",
                 ["--grid", "lr"]),
                ("--set train.lr=1: train.lr: --grid gives it as well",
                 ["--grid", "lr=1,2", "--set", "train.lr=1"]),
                ("--grid patience: fedmrn tune sets this itself, to one value "
                 "for all runs", ["--grid", "rounds.patience=1,2", "--set",
                                  "rounds.patience=4"]),
                ("--grid seed: fedmrn tune chooses by one seed; fedmrn compare "
                 "takes several, with --set data.validation=0.1",
                 ["--grid", "lr=1", "--grid", "seed=1,2"]),
                ("--rounds 3: these are the first rounds of a run that has 2: "
                 "try --set rounds.count=3",
                 ["--grid", "lr=1", "--rounds", "3"])):
            self.fail_with(message, "tune", self.config, *args, "--out",
                           self.out)
        self.done("tune", self.grid, "--grid", "lr=1", "--out", self.out,
                  code=2)
        self.assertEqual(self.files(), before)


if __name__ == "__main__":
    unittest.main()
