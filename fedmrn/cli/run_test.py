#!/usr/bin/env python3
"""Tests of fedmrn run and fedmrn demo, as people use them: what a terminal
and a pipe show, and Ctrl-C.

ctest sets the environment, as for cli_test.py.
"""

import csv
import fcntl
import json
import os
import pty
import re
import signal
import struct
import termios
import time
import unittest

from program_test import ProgramTest, SLOW

SMALL = ["--data.name", "synthetic", "--data.train_examples", "1000",
         "--data.test_examples", "200", "--partition.clients", "20",
         "--rounds.clients_per_round", "4", "--train.batch", "25"]
DEMO = ["demo", "--data", "synthetic", "--rounds", "1", "--epochs", "1"]


# Ended by Ctrl-C, or else by the test's time.
LONG = [*SMALL, "--rounds.count", 9, "--train.epochs", 60]


def drawn(out):
    """All live lines that a terminal was sent."""
    return re.findall(r"([^\r\n]*)\x1b\[K", out)


class RunVerbTest(ProgramTest):
    """What all tests here use."""

    def on_terminal(self, columns, *args, until=None):
        """What a terminal gets of a program that must succeed, or that is
        stopped once a live line matches: on any machine it works long enough
        for that, and hardly longer."""
        terminal, end = pty.openpty()
        fcntl.ioctl(end, termios.TIOCSWINSZ,
                    struct.pack("4H", 24, columns, 0, 0))
        with self.start(*args, stdin=end, stdout=end, stderr=end) as program:
            os.close(end)
            out, stopped = b"", False
            while True:
                try:
                    out += os.read(terminal, 65536)
                except OSError:  # EIO: the program has ended
                    break
                if until and not stopped and any(
                        re.fullmatch(until, line)
                        for line in drawn(out.decode("utf-8", "ignore"))):
                    program.send_signal(signal.SIGINT)
                    stopped = True
        os.close(terminal)
        self.assertEqual(program.returncode, 130 if until else 0, out)
        return out.decode()

    def interrupt(self, ready, *args, after=0.0):
        """Ctrl-C once the program has shown that it is ready."""
        with self.start(*args, text=True) as program:
            seen = ""
            while ready not in seen:
                line = program.stderr.readline()
                self.assertNotEqual(line, "", seen)
                seen += line
            time.sleep(after)
            program.send_signal(signal.SIGINT)
            out, err = program.communicate(timeout=60)
        self.assertEqual(program.returncode, 130, (out, seen + err))
        return out, seen + err


class RunTest(RunVerbTest):

    def result(self, name):
        return json.loads((self.folder / name / "run.json").read_text())

    def test_ends_early_and_says_so(self):
        out = self.folder / "early"
        said = self.succeed("run", *SMALL, "--rounds.count", 2,
                            "--train.epochs", 1, "--rounds.target_accuracy",
                            0.01, "--data.validation", 0.2,
                            "--run.eval_clients", 3, "--out", out)
        self.assertRegex(said, "ended      early: round 1 reached 0.[0-9]+, "
                               "rounds.target_accuracy is 0.01\n")
        self.assertRegex(said, r"clients    [\d.]+ % on their own examples "
                         r"\(worst [\d.]+ %\), [\d.]+ % after a local round "
                         r"\(worst [\d.]+ %\)\n")
        result = self.result("early")
        self.assertEqual(result["ended_by"], "rounds.target_accuracy")
        self.assertTrue(result["finished"])
        self.assertEqual((out / "model.pt").read_bytes(),
                         (out / "model-best.pt").read_bytes())
        last = result["last"]
        self.assertEqual(sum(map(sum, last["confusion"])), 200)
        self.assertEqual(len(last["class_accuracy"]), 10)
        self.assertEqual(last, {**result["best"], "loss": last["loss"]})
        with open(out / "rounds.csv", encoding="utf-8") as file:
            row = list(csv.DictReader(file))[0]
        for name in ("train_loss", "train_accuracy", "client_accuracy",
                     "client_accuracy_p10", "client_accuracy_worst",
                     "personal_accuracy", "personal_accuracy_p10",
                     "personal_accuracy_worst"):
            self.assertGreaterEqual(float(row[name]), 0)
        again = self.run_it("run", "--resume", "--out", out)
        self.assertEqual(again.returncode, 0, again)
        self.assertIn("has ended already: round 1 reached 0.", again.stderr)
        self.assertIn("ended      early", again.stdout)
        # Without the target it goes on.
        self.succeed("run", "--resume", "--out", out,
                     "--rounds.target_accuracy", 0)
        self.assertEqual(self.result("early")["ended_by"], "rounds.count")

    def test_saved_frames_give_the_round_s_model(self):
        frames = self.folder / "frames"
        for weight, dense, more in (
                ("examples", "float32", ()),
                ("equal", "float32", ("--method.magnitude", "auto",
                                      "--method.noise", "bernoulli")),
                ("batches", "delta", ())):
            out = self.folder / weight
            self.succeed("run", *SMALL, "--rounds.count", 2, "--train.epochs", 1,
                         "--rounds.weight", weight, "--method.dense", dense,
                         *more, "--out", out, "--save-frames", frames)
            for number in (1, 2):
                saved = frames / f"round-{number:06}"
                clients = sorted(saved.glob("client-*.frame"))
                self.assertEqual(len(clients), 4)
                mine = self.folder / "mine.frame"
                said = self.succeed(
                    "aggregate", *clients, "--model", saved / "before.frame",
                    "--out", mine, "--weight", weight, "--batch", 25,
                    "--run-seed", 1)
                self.assertEqual(mine.read_bytes(),
                                 (saved / "after.frame").read_bytes())
            self.assertIn(self.result(weight)["model_sha256"], said)
            self.assertEqual(
                (frames / "round-000001" / "after.frame").read_bytes(),
                (frames / "round-000002" / "before.frame").read_bytes())
        # What does not belong to the round is refused, by its name.
        before = frames / "round-000001" / "before.frame"
        self.fail_with(f"fedmrn aggregate: {clients[0]}: the frame is of round 2, "
                       "this is round 1",
                       "aggregate", clients[0], "--model", before)
        self.fail_with(f"fedmrn aggregate: {clients[0]}: an update, not a model "
                       "broadcast",
                       "aggregate", before, "--model", clients[0])
        self.fail_with(f"fedmrn aggregate: {clients[0]}: the frame's seed is not "
                       "its client's in this round", "aggregate", clients[0],
                       "--model", frames / "round-000002" / "before.frame",
                       "--run-seed", 2)
        self.fail_with(f"fedmrn aggregate: {clients[0]}: 50 examples exceed "
                       "this round's limit of 49", "aggregate", clients[0],
                       "--model", frames / "round-000002" / "before.frame",
                       "--max-examples", 49)

    def test_resume_of_nothing(self):
        self.fail_with("fedmrn run: nowhere holds no run to go on with", "run",
                       "--resume", "--out", "nowhere")
        self.assertEqual(self.files(), [])

    def test_plain_lines_in_a_pipe(self):
        out = self.folder / "new" / "run"
        done = self.run_it("run", *SMALL, "--rounds.count", 3,
                           "--train.epochs", 1, "--out", out)
        self.assertEqual(done.returncode, 0, done)
        lines = done.stderr.splitlines()
        self.assertEqual(
            lines[0], "fedmrn on synthetic, cnn4: 4 of 20 clients a round (iid), "
            f"3 rounds; results in {out}")
        self.assertEqual(len(lines), 4)
        for n, line in enumerate(lines[1:], 1):
            self.assertRegex(
                line, rf"^round {n}/3  accuracy +[\d.]+ %  loss [\d.]+  "
                r"up [\d.]+ MB \([01]\.\d{3} bits/param\)  [\d.]+ s"
                r"(  left [\d a-z]+)?$")
        with open(out / "rounds.csv", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        view = dict(line.split(None, 1)
                    for line in done.stdout.splitlines())
        self.assertEqual(list(view), ["accuracy", "upload", "download", "time",
                                      "model", "results"])
        self.assertTrue(view["accuracy"].startswith(
            f"{100 * float(rows[-1]['accuracy']):.2f} % after round 3, best "))
        uploaded = sum(int(row["uplink_bytes"]) for row in rows)
        self.assertTrue(view["upload"].startswith(f"{uploaded / 1e6:.2f} MB"))
        self.assertEqual(view["model"],
                         "sha256 " + self.result(out)["model_sha256"])
        self.assertEqual(view["results"], str(out))

    def test_interrupted_and_resumed(self):
        settings = ["run", *SMALL, "--rounds.count", 3, "--train.epochs", 1]
        self.succeed(*settings, "--out", self.folder / "whole")
        # In the second round, or in the third if this test was held up.
        out, err = self.interrupt("round 1/3", *settings, *SLOW,
                                  "--out", self.folder / "cut")
        self.assertEqual(out, "")
        stop = re.search(r"\nstopped in round ([23]); the same command with "
                         r"--resume goes on from the last checkpoint\n$", err)
        self.assertTrue(stop, err)
        at = int(stop[1])
        settings += [*SLOW, "--out", self.folder / "cut"]
        self.assertIn("--resume goes on with it",
                      self.run_it(*settings).stderr)
        done = self.run_it(*settings, "--resume")
        self.assertEqual(done.returncode, 0, done)
        self.assertIn(f"goes on after round {at - 1}\nround {at}/3",
                      done.stderr)
        self.assertEqual(self.result("cut")["model_sha256"],
                         self.result("whole")["model_sha256"])

    def test_stops_within_a_step(self):
        # A round of 25,600 steps; how fast it stops is for people to judge,
        # but it must not finish the round or the client.
        out, err = self.interrupt("results in", "run", *SMALL,
                                  "--train.epochs", 3200, "--out",
                                  self.folder / "cut", after=1)
        self.assertEqual(out, "")
        self.assertIn("stopped in round 1;", err)

    def test_mistakes(self):
        for message, args in (
                ("--set train.lrr=1: train.lrr: unknown key, did you mean "
                 "train.lr?", ["--set", "train.lrr=1"]),
                ("nothing.toml: cannot read it: No such file or directory",
                 ["nothing.toml"])):
            self.assertEqual(self.fail_with(message, "run", *args), "")


class ScreenTest(RunVerbTest):
    """The live line of a terminal."""

    def test_live_line_fits(self):
        # From the second round on, when all is known.
        forms = {
            140: r"round [2-9]/9  step +\d+/480 \[[#.]{12}\]  accuracy "
                 r"[\d.]+ %  loss [\d.]+  up [\d.]+ MB  [\d,]+ samples/s  left "
                 r"[^?]+",
            104: r"round [2-9]/9  step +\d+/480  accuracy [\d.]+ %  loss "
                 r"[\d.]+  up [\d.]+ MB  [\d,]+ samples/s  left [^?]+",
            72: r"round [2-9]/9 +\d+/480  [\d.]+ %  loss [\d.]+  up "
                r"[\d.]+ MB  [\d,]+/s  left [^?]+"}
        for columns, form in forms.items():
            with self.subTest(columns=columns):
                out = self.on_terminal(
                    columns, "run", *LONG, "--out", self.folder / str(columns),
                    until=form)
                self.assertLess(max(map(len, drawn(out))), columns)
                # What stays on the screen: no trace of the live line.
                stays = [re.split(r"\x1b\[[JK]", line)[-1].strip("\r")
                         for line in out.split("\n")]
                rounds = [line for line in stays
                          if line.startswith("round ")]
                self.assertIn("round 1/9 ", rounds[0])
                self.assertLess(max(map(len, rounds)), columns)
                # No rate while nothing was trained yet.
                self.assertFalse(re.search(r"\b0 samples/s| 0/s", out), out)

    def test_nothing_is_lost_on_a_narrow_terminal(self):
        out = self.on_terminal(
            44, "run", *LONG, "--out", self.folder / "narrow",
            until=r"  up .*left \d[\d:]+")
        self.assertLess(max(map(len, drawn(out))), 44)
        self.assertTrue(any(re.fullmatch(
            r"round \d/9 +\d+/480.*  loss ([\d.]+|-)", line)
            for line in drawn(out)), out)
        stays = "\n".join(re.split(r"\x1b\[[JK]", line)[-1].strip("\r")
                          for line in out.split("\n"))
        self.assertRegex(
            stays, r"(?m)^round 1/9  +[\d.]+ %  loss [\d.]+\s+up "
            r"[\d.]+ MB\s+[\d.]+ s")

    def test_help_fits(self):
        for verb in ("run", "compare", "tune"):
            lines = self.on_terminal(60, verb, "--help").splitlines()
            # Lists of choices are words that nothing breaks.
            options = [line for line in lines
                       if line.startswith(" " * 30) and " " in line.strip()]
            self.assertGreater(len(options), 3)
            self.assertLess(max(map(len, options)), 60, options)

    def test_tables_fit(self):
        for columns, parts in ((60, 2), (140, 1)):
            lines = self.on_terminal(columns, "data", "list").splitlines()
            # Paths are not broken.
            self.assertLessEqual(
                max(len(line) for line in lines if "/" not in line), columns)
            for start in ("name ", "synthetic ", "npz "):
                rows = [line for line in lines if line.startswith(start)]
                self.assertEqual(len(rows), parts, lines)
            self.assertIn("generated, in any number", "\n".join(lines))


class DemoTest(RunVerbTest):

    def test_table(self):
        kept = self.folder / "kept"
        out = self.succeed(*DEMO, "--out", kept)
        rows = {fields[0]: fields for fields in map(str.split,
                                                    out.splitlines())
                if len(fields) == 7 and fields[0] in ("fedavg", "fedmrn")}
        self.assertEqual(list(rows), ["fedavg", "fedmrn"])
        for method, (_, accuracy, _, megabytes, bits, _, _) in rows.items():
            with open(kept / method / "rounds.csv", encoding="utf-8") as file:
                row, = csv.DictReader(file)
            self.assertEqual(accuracy, f"{100 * float(row['accuracy']):.2f}")
            self.assertEqual(megabytes,
                             f"{int(row['uplink_bytes']) / 1e6:.2f}")
            self.assertEqual(bits, f"{float(row['uplink_bits_per_param']):.3f}")
        self.assertEqual(rows["fedavg"][5], "1.0x")
        # Coded masks; plain ones give 27.7.
        self.assertGreater(float(rows["fedmrn"][5].rstrip("x")), 27.8)
        self.assertTrue(out.endswith(
            "fedmrn run configs/fmnist-noniid2-fedmrn.toml\n"), out)
        self.assertLessEqual(max(map(len, out.splitlines())), 80)
        self.fail_with(f"fedmrn demo: {kept}/fedavg is there already; --out "
                       "another folder", *DEMO, "--out", kept)

    def test_interrupted(self):
        # Training of the second method has begun, or is about to.
        out, err = self.interrupt("fedavg  round 1/1", *DEMO[:-1], "30",
                                  after=0.2)
        self.assertNotIn("compression", out)
        self.assertTrue(err.endswith("\nstopped\n"), err)

    def test_missing_data(self):
        if os.path.exists("/usr/share/datasets/fashion-mnist"):
            name = "cifar100"  # no Debian package has it
        else:
            name = "fmnist"
        environment = {**os.environ, "FEDMRN_DATA": str(self.folder),
                       "XDG_DATA_HOME": str(self.folder)}
        done = self.run_it("demo", "--data", name, env=environment)
        self.assertEqual(done.returncode, 2, done)
        self.assertIn(f"To get it: fedmrn data get {name}\n", done.stderr)
        self.assertTrue(done.stderr.endswith(
            "Without any data: fedmrn demo --data synthetic\n"), done.stderr)


if __name__ == "__main__":
    unittest.main()
