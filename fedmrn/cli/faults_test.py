#!/usr/bin/env python3
"""Tests of `fedmrn run` on a machine that fails: each fault ends in a sentence
and the right exit code, and the run goes on to the same model.

ctest sets FEDMRN_PROGRAM.
"""

import json
import os
import pathlib
import re
import resource
import shlex
import signal
import subprocess
import time
import unittest

from program_test import PROGRAM, ProgramTest, SLOW

TINY = ["run", "--data.name", "synthetic", "--data.train_examples", "48",
        "--data.test_examples", "8", "--partition.clients", "6",
        "--train.epochs", "1", "--train.batch", "8", "--workers", "2",
        "--rounds.clients_per_round", "2", "--rounds.count", "3",
        "--run.eval_every", "3", "--method.name", "topk",
        "--method.error_feedback", "true", "--out"]


def with_limit(kind, limit):
    return lambda: resource.setrlimit(kind, (limit, limit))


class FaultsTest(ProgramTest):

    expected = None  # the model of a run that nothing happened to

    def setUp(self):
        super().setUp()
        if FaultsTest.expected is None:
            self.succeed(*TINY, "whole")
            FaultsTest.expected = self.model("whole")

    def model(self, out):
        run = json.loads((self.folder / out / "run.json").read_text())
        self.assertTrue(run["finished"])
        return run["model_sha256"]

    def goes_on(self, out, *words):
        self.succeed(*TINY, out, "--resume", *words)
        self.assertEqual(self.model(out), self.expected)
        self.assertEqual([path for path in (self.folder / out).rglob("*.tmp")],
                         [])

    def last_line(self, done):
        return done.stderr.splitlines()[-1]

    def test_full_and_read_only_disk(self):
        words = shlex.join([PROGRAM, *TINY])
        probe = subprocess.run(
            ["unshare", "-rm", "mount", "-t", "tmpfs", "none", self.folder],
            capture_output=True, check=False)
        if probe.returncode != 0:
            self.skipTest(f"no mounts here: {probe.stderr.decode()}")
        # A namespace of its own, so all has to happen in one script. Each time
        # a little more fits; in the end the disk cannot be written at all.
        (self.folder / "disk").mkdir()
        script = f"""
            mount -t tmpfs -o size=1m none disk || exit
            for megabytes in 1 4 6 8; do
              mount -o remount,size=${{megabytes}}m disk
              {words} disk/out --resume || echo "code $?" >&2
            done
            mount -o remount,size=100m disk
            mount -o remount,ro disk
            {words} disk/out --resume || echo "code $?" >&2
            {words} disk/new || echo "code $?" >&2
            mount -o remount,rw disk
            {words} disk/out --resume && cp -r disk/out out
            """
        done = subprocess.run(["unshare", "-rm", "sh", "-c", script],
                              cwd=self.folder, capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        ends = re.findall(r"^fedmrn run: (.*)\ncode (\d+)$", done.stderr, re.M)
        for sentence, code in ends[:-2]:
            self.assertRegex(sentence,
                             "disk/out.*: cannot (write|create) it: No space "
                             "left on device")
            self.assertEqual(code, "1")
        self.assertGreaterEqual(len(ends), 4)
        self.assertEqual(ends[-2:], [
            ("disk/out/lock: cannot open it: Read-only file system", "2"),
            ("disk/new: cannot create it: Read-only file system", "2")])
        self.assertEqual(self.model("out"), self.expected)

    def test_files_that_may_not_grow(self):
        # A checkpoint has 1.6 MB.
        done = self.run_it(*TINY, "out", preexec_fn=with_limit(
            resource.RLIMIT_FSIZE, 1_000_000))
        self.assertEqual(done.returncode, 1, done)
        self.assertRegex(self.last_line(done), "fedmrn run: out/checkpoints/"
                         "round-000000.checkpoint: cannot write it: File too "
                         "large")
        self.goes_on("out")

    def test_output_that_cannot_be_written(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        with open("/dev/full", "wb") as full:
            done = self.start("codecs", stdout=full)
            err = done.communicate(timeout=60)[1].decode()
        self.assertEqual(done.returncode, 1)
        self.assertIn("No space left on device", err)

    def test_out_of_memory(self):
        def within(megabytes, *words):
            return self.run_it(*words, preexec_fn=with_limit(
                resource.RLIMIT_AS, megabytes << 20))
        least = 64
        while within(least, "--version").returncode != 0:
            least += 8
        sentences = set()
        for more in (2, 8, 20, 40, 60):
            done = within(least + more, *TINY, "out", "--resume")
            self.assertNotEqual(done.returncode, 2, done)
            if done.returncode == 1:  # less than 0: oneDNN's or LibTorch's end
                sentences.add(self.last_line(done))
        self.assertTrue(any(sentence.endswith("out of memory")
                            for sentence in sentences), sentences)
        self.goes_on("out")

    def held(self, out):
        """A run that waits for ever where it would report its first round."""
        folder = self.folder / out
        folder.mkdir()
        os.mkfifo(folder / "rounds.csv.tmp")
        process = self.start(*TINY, out)
        self.addCleanup(process.kill)  # whatever the test says of it
        self.wait_for(folder / "checkpoints" / "round-000001.checkpoint",
                      process)
        return process

    def wait_for(self, path, process):
        while not path.exists():
            self.assertIsNone(process.poll())
            time.sleep(0.01)

    def test_interrupted_twice_and_two_runs_in_a_folder(self):
        process = self.held("out")
        done = self.run_it(*TINY, "out", "--resume")
        self.assertEqual(done.returncode, 1, done)
        self.assertEqual(self.last_line(done), "fedmrn run: out: another "
                         "fedmrn is at work there")
        process.send_signal(signal.SIGINT)
        status = pathlib.Path(f"/proc/{process.pid}/status")
        while re.search(r"ShdPnd:\s*0*[1-9a-f]", status.read_text()):
            time.sleep(0.001)  # until it has heard of the first
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGINT)
        self.assertTrue(err.endswith(
            b"\nended at once; what was saved before is whole\n"), err)
        (self.folder / "out" / "rounds.csv.tmp").unlink()
        self.goes_on("out")

    def test_terminated(self):
        with self.start(*TINY, "out", *SLOW) as process:
            self.wait_for(self.folder / "out" / "checkpoints" /
                          "round-000000.checkpoint", process)
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 3, err)
        self.assertRegex(err.decode(), r"\nstopped in round [123]; the same "
                         "command with --resume goes on from the last "
                         r"checkpoint\n$")
        self.goes_on("out", *SLOW)


if __name__ == "__main__":
    unittest.main()
