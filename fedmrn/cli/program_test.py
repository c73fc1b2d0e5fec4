"""What the tests of the fedmrn program share. ctest sets FEDMRN_PROGRAM."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.environ["FEDMRN_PROGRAM"]
TORTURE = pathlib.Path(__file__).parents[2] / "scripts" / "torture"
# Answers that come late change nothing but the time: a run that a test
# interrupts is still at work then, however fast the machine.
SLOW = ["--faults.delay", 1, "--faults.delay_s", 0.5]


class ProgramTest(unittest.TestCase):
    """Runs the program in a folder of the test's own."""

    words = ()  # of every command, before those that a test gives
    environment = None  # of the program; None: this one's

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def start(self, *args, **kwargs):
        """The program at work, its stdout and stderr in pipes."""
        return subprocess.Popen(
            [PROGRAM, *self.words, *map(str, args)],
            **{"cwd": self.folder, "env": self.environment,
               "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **kwargs})

    def run_it(self, *args, stdin=b"", **kwargs):
        """The program when it has ended, with text in stdout and stderr."""
        with self.start(*args, stdin=subprocess.PIPE, **kwargs) as program:
            try:
                out, err = program.communicate(stdin, timeout=600)
            except subprocess.TimeoutExpired:
                program.kill()
                raise
        return subprocess.CompletedProcess(program.args, program.returncode,
                                           out.decode(), err.decode())

    def succeed(self, *args, **kwargs):
        """stdout of a program that must succeed."""
        done = self.run_it(*args, **kwargs)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def fail_with(self, message, *args, code=2, **kwargs):
        """This exit code and one line on stderr; returns stdout."""
        done = self.run_it(*args, **kwargs)
        self.assertEqual(done.returncode, code, done)
        self.assertEqual(done.stderr, message + "\n")
        return done.stdout

    def kill_and_compare(self, kills, *words):
        """Runs killed at random moments come to what others come to."""
        done = subprocess.run(
            [sys.executable, TORTURE, str(kills), "--program", PROGRAM, *words],
            capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done)
        self.assertTrue(done.stdout.endswith(
            f"\n{kills} kills, 0 differences\n"), done.stdout)

    def files(self):
        return sorted(path.name for path in self.folder.iterdir())
