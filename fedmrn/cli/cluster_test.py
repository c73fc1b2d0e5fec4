#!/usr/bin/env python3
"""Tests of `mpirun fedmrn run`: the same model as with threads, whatever dies,
and a clear word for each mistake. Each command has a time limit: nothing may
hang.

ctest sets FEDMRN_PROGRAM.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
import unittest

from program_test import PROGRAM, ProgramTest

MPIRUN = shutil.which("mpirun")
BUILT = (pathlib.Path(PROGRAM).parent / "libfedmrn_mpi.so").exists()
LIMIT_S = 120
TINY = ["--data.name", "synthetic", "--data.train_examples", "120",
        "--data.test_examples", "32", "--partition.clients", "6",
        "--train.epochs", "1", "--train.batch", "20",
        "--rounds.clients_per_round", "4", "--rounds.count", "2"]
# Clients that keep what compression lost and batch norm of their own, and are
# asked again and again by whoever is free; some fail.
STATEFUL = ["--method.name", "topk", "--method.error_feedback", "true",
            "--method.local", "bn*",
            "--rounds.count", "6", "--faults.corrupt", "0.1",
            "--faults.drop", "0.1"]


def ranks_of(launcher):
    """The processes of fedmrn that a running mpirun has started."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1]
                         .split()[1])
            name = os.readlink(entry / "exe")
        except (OSError, ValueError, IndexError):
            continue
        if parent == launcher and name == os.path.realpath(PROGRAM):
            found.append(int(entry.name))
    return found


@unittest.skipUnless(MPIRUN and BUILT, "no MPI: apt install libopenmpi-dev "
                     "openmpi-bin, and build again")
class MpiTest(ProgramTest):
    """What all tests here use."""

    def setUp(self):
        super().setUp()
        self.environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                            # No room for more in some containers.
                            "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}

    def launch(self, *words):
        return subprocess.Popen(
            [MPIRUN, "--oversubscribe", "--bind-to", "none",
             *map(str, words)], cwd=self.folder, env=self.environment,
            text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)

    def end_of(self, process):
        try:
            out, err = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return subprocess.CompletedProcess(process.args, process.returncode,
                                           out, err)

    def mpirun(self, *words):
        with self.launch(*words) as process:
            return self.end_of(process)

    def rows(self, out):
        """rounds.csv without what a clock measured."""
        lines = (self.folder / out / "rounds.csv").read_text().splitlines()
        names = lines[0].split(",")
        return [[value for name, value in zip(names, line.split(","))
                 if not name.endswith("_s")] for line in lines[1:]]

    def result(self, out):
        run = json.loads((self.folder / out / "run.json").read_text())
        self.assertTrue(run["finished"])
        return run["model_sha256"], self.rows(out)

    def machine(self, out):
        return json.loads((self.folder / out / "run.json").read_text())[
            "machine"]

    def with_threads(self, out, *words):
        self.succeed("run", *TINY, "--executor", "threads", "--out", out,
                     *words)
        return self.result(out)

    def with_ranks(self, ranks, out, *words):
        done = self.mpirun("-n", ranks, PROGRAM, "run", *TINY, "--out", out,
                           *words)
        self.assertEqual(done.returncode, 0, done)
        return self.result(out)


class ClusterTest(MpiTest):

    def test_every_method(self):
        help_text = self.succeed("run", "--help")
        listed = re.search(r"Methods, --method.name:\n((?:  .*\n)+)",
                           help_text)[1]
        methods = re.findall(r"^ {2,4}([a-z][a-z0-9-]+) ", listed, re.M)
        self.assertGreaterEqual(len(methods), 14, listed)
        for method in methods:
            with self.subTest(method):
                words = ["--method.name", method, "--rounds.count", "1"]
                self.assertEqual(
                    self.with_ranks(3, method + "-ranks", *words),
                    self.with_threads(method, *words))

    def test_any_number_of_ranks_and_workers(self):
        expected = self.with_threads("threads", *STATEFUL)
        for ranks, workers in ((2, 1), (3, 2), (8, 1)):
            with self.subTest(ranks):
                self.assertEqual(expected, self.with_ranks(
                    ranks, f"ranks{ranks}", "--workers", workers, *STATEFUL))

    def test_kill_any_rank(self):
        self.kill_and_compare(3, "--ranks", "3")

    def stop(self, process, targets, out):
        """SIGTERM to these once the first round is there."""
        rounds = self.folder / out / "rounds.csv"
        while not rounds.exists() and process.poll() is None:
            time.sleep(0.01)
        for target in targets():
            os.kill(target, signal.SIGTERM)
        done = self.end_of(process)
        self.assertRegex(done.stderr, r"stopped in round \d+; the same command "
                         "with --resume goes on from the last checkpoint\n")
        self.assertEqual(done.stdout, "")
        return done.returncode

    def test_terminated(self):
        config = ["--rounds.count", "40"]
        expected = self.with_threads("whole", *config)
        words = ["run", *TINY, *config, "--out"]
        with self.start(*words, "threads", text=True) as process:
            self.assertEqual(self.stop(process, lambda: [process.pid],
                                       "threads"), 3)
        self.assertEqual(self.with_ranks(2, "threads", *config, "--resume"),
                         expected)
        # As srun does it, and as the end of one node does.
        for out, some in (("all", slice(None)), ("last", slice(-1, None))):
            with self.subTest(out):
                with self.launch("-n", 3, PROGRAM, *words, out) as process:
                    self.assertEqual(self.stop(
                        process,
                        lambda: sorted(ranks_of(process.pid))[some], out), 3)
                # Without ranks, and the other way round.
                self.assertEqual(
                    self.with_threads(out, *config, "--resume"), expected)
        # mpirun hands it on, but has an exit code of its own.
        with self.launch("-n", 2, PROGRAM, *words, "mpirun") as process:
            self.assertNotEqual(
                self.stop(process, lambda: [process.pid], "mpirun"), 0)

    def test_progress(self):
        config = ["--rounds.count", "1", "--faults.delay", "1",
                  "--faults.delay_s", "22", "--rounds.clients_per_round", "2"]
        done = self.mpirun("-n", 2, PROGRAM, "run", *TINY, "--workers", 1,
                           "--out", "out", *config)
        self.assertEqual(done.returncode, 0, done)
        self.assertRegex(done.stderr, r"\nround 1/1  2 ranks, 2 clients under "
                         r"way, step 2/2 .* samples/s")
        self.assertRegex(done.stderr, r"\nround 1/1 .* s  2 ranks  "
                         r"[\d,]+ samples/s\n")


class ClusterMistakesTest(MpiTest):

    def refused(self, *words, code=2):
        """The sentence of a command that must be refused, and nothing more."""
        before = self.files()
        done = self.mpirun(*words)
        self.assertEqual((done.returncode, done.stdout), (code, ""), done)
        self.assertEqual(self.files(), before)
        lines = [line for line in done.stderr.splitlines()
                 if "fedmrn run: " in line]
        self.assertEqual(len(lines), 1, done.stderr)
        return done.stderr

    def test_one_rank(self):
        words = [PROGRAM, "run", *TINY, "--out", "out", "--executor", "mpi"]
        self.assertIn("needs two ranks or more: mpirun -n 2 fedmrn",
                      self.refused("-n", 1, *words))
        # Without mpirun as well; and unasked it is a run like any other.
        done = self.run_it(*words[1:])
        self.assertEqual(done.returncode, 2)
        self.assertIn("needs two ranks or more", done.stderr)
        self.assertEqual(self.with_ranks(1, "one"), self.with_threads("out"))

    def test_more_ranks_than_clients(self):
        done = self.mpirun("-n", 4, PROGRAM, "run", *TINY, "--out", "out",
                           "--rounds.clients_per_round", 2)
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("4 ranks for 2 clients a round: the others have nothing "
                      "to do\n", done.stderr)

    def test_other_config(self):
        words = [PROGRAM, "run", *TINY, "--out", "out"]
        err = self.refused("-n", 1, *words, ":", "-n", 1, *words,
                           "--train.lr", "0.3")
        self.assertRegex(err, r"rank 1 \(.+\) has another config:\n"
                         r"  train.lr: 0.3 there, 0.1 at rank 0\n"
                         "start all ranks with the same command\n")
        err = self.refused("-n", 1, *words, ":", "-n", 1, *words,
                           "--train.lr", "-1")
        self.assertRegex(err, r"rank 1 \(.+\): --train.lr -1: train.lr: must")
        # What may differ.
        done = self.mpirun("-n", 1, *words, ":", "-n", 1, *words,
                           "--workers", 1)
        self.assertEqual(done.returncode, 0, done)

    def test_other_data(self):
        import numpy  # pylint: disable=import-outside-toplevel
        for name in ("a", "b"):
            x = numpy.full((400, 28, 28), ord(name), numpy.uint8)
            numpy.savez(self.folder / f"{name}.npz", x=x,
                        y=numpy.arange(400) % 3)
        words = [PROGRAM, "run", *TINY, "--data.name", "npz", "--out", "out",
                 "--data.path"]
        err = self.refused("-n", 1, *words, "a.npz", ":", "-n", 1, *words,
                           "b.npz")
        self.assertRegex(err, r"rank 1 \(.+\) has another data set: its "
                         r"SHA-256 is [0-9a-f]{12}, that of rank 0 \(.+\) "
                         "[0-9a-f]{12}; give all ranks the same files\n")
        err = self.refused("-n", 1, *words, "a.npz", ":", "-n", 1, *words,
                           "none.npz")
        self.assertRegex(err, r"rank 1 \(.+\): .*none.npz")

    def test_other_vector_units(self):
        words = [PROGRAM, "run", *TINY, "--out", "out"]
        mixture = ["-n", 1, *words, ":", "-n", 1, "env", "FEDMRN_SIMD=SSE4",
                   *words]
        err = self.refused(*mixture)
        self.assertRegex(err, r"rank 1 \(.+\) computes with SSE4 \(oneDNN 0x1\)"
                         r", rank 0 \(.+\) with .*--mixed")
        done = self.mpirun(*mixture[:len(words) + 2], "--mixed",
                           *mixture[len(words) + 2:], "--mixed")
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("the model is not the same to the bit", done.stderr)
        self.assertTrue(self.machine("out")["mixed"])
        # It stays so, whoever goes on with it.
        self.with_threads("out", "--resume", "--rounds.count", "3")
        self.assertTrue(self.machine("out")["mixed"])
        # One for all is a run like any other, to its end.
        expected = self.with_threads("best")
        self.environment["FEDMRN_SIMD"] = "SSE4"
        forced = self.with_threads("threads")
        self.assertNotEqual(forced, expected)
        self.assertEqual(self.with_ranks(2, "forced"), forced)
        self.assertFalse(self.machine("forced")["mixed"])

    def test_folder_that_another_run_holds(self):
        words = ["run", *TINY, "--out", "out"]
        with self.start(*words, "--rounds.count", 1000) as other:
            while not (self.folder / "out" / "rounds.csv").exists():
                time.sleep(0.01)
            err = self.refused("-n", 2, PROGRAM, *words, code=1)
            self.assertIn("out: another fedmrn is at work there", err)
            other.kill()
        err = self.refused("-n", 2, PROGRAM, *words)
        self.assertIn("already holds a run; --resume goes on", err)

    def test_missing_module(self):
        program = self.folder / "bin" / "fedmrn"
        program.parent.mkdir()
        shutil.copy(PROGRAM, program)
        for name, sentence in (
                (None, "built without MPI, which the executor mpi needs; "
                 "install libopenmpi-dev and openmpi-bin and build it again"),
                ("libfedmrn_mpi.so", "cannot open MPI, which the executor mpi "
                 "needs: ")):
            if name:
                (program.parent / name).write_text("no module")
            done = subprocess.run(
                [program, "run", *TINY, "--executor", "mpi"],
                cwd=self.folder, capture_output=True, text=True, check=False,
                timeout=LIMIT_S)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(sentence, done.stderr)
            self.assertEqual(self.files(), ["bin"])


# A shell script that stands in for ssh: its first word is a host, which is a
# network namespace of that name.
AGENT = """#!/bin/sh
host=$1
shift
exec ip netns exec "$host" unshare --uts sh -c "hostname $host; $*"
"""


class TwoHostsTest(MpiTest):
    """Two network namespaces, joined by a cable, as two hosts."""

    def ip(self, *words):
        subprocess.run(["ip", *words], check=True, capture_output=True)

    def setUp(self):
        super().setUp()
        self.hosts = [f"fedmrn{os.getpid()}{name}" for name in "ab"]
        self.environment = {**self.environment,
                            "OMPI_MCA_plm_rsh_agent": "./agent.sh"}
        try:
            for host in self.hosts:
                self.ip("netns", "add", host)
                self.addCleanup(self.ip, "netns", "del", host)
            self.ip("link", "add", "cable", "netns", self.hosts[0], "type",
                    "veth", "peer", "name", "cable", "netns", self.hosts[1])
            for number, host in enumerate(self.hosts, 1):
                inside = ["-n", host]
                self.ip(*inside, "addr", "add", f"10.77.0.{number}/24", "dev",
                        "cable")
                self.ip(*inside, "link", "set", "cable", "up")
                self.ip(*inside, "link", "set", "lo", "up")
            subprocess.run(["unshare", "--uts", "true"], check=True,
                           capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            self.skipTest(f"no network namespaces here: {error}")

    def test_same_model(self):
        expected = self.with_threads("threads", *STATEFUL)
        agent = self.folder / "agent.sh"
        agent.write_text(AGENT)
        agent.chmod(0o755)
        network = "10.77.0.0/24"
        launcher = [
            "ip", "netns", "exec", self.hosts[0], "unshare", "--uts", "sh",
            "-c", f'hostname {self.hosts[0]}; exec "$@"', "sh", MPIRUN,
            "--oversubscribe", "--bind-to", "none", "--host",
            ",".join(f"{host}:2" for host in self.hosts),
            "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", network,
            "--mca", "oob_tcp_if_include", network, "-n", "4",
            PROGRAM, "run", *TINY, *STATEFUL, "--out", "ranks"]
        with subprocess.Popen(launcher, cwd=self.folder, env=self.environment,
                              text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as process:
            done = self.end_of(process)
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual(self.result("ranks"), expected)


class ClusterBenchTest(MpiTest):

    def test_figures(self):
        out = json.loads(self.succeed("bench", "cluster", "--json", "--ranks",
                                      2, "--repeats", 3))
        self.assertEqual(out["ranks"], 2)
        for name in ("round_overhead_ms", "server_frames_per_s",
                     "server_frames_per_s_1e7", "server_memory_mb_10"):
            self.assertGreater(out[name], 0)
        # A round's frames, if they were kept, would double it.
        self.assertLess(out["server_memory_growth"], 1.4)


if __name__ == "__main__":
    unittest.main()
