#!/usr/bin/env python3
"""docs/extending.md: its program, built against an installed fedmrn, at work.

ctest names the build to install (BUILD_DIR, CONFIG), the compiler (CXX), a
folder to build in (SCRATCH_DIR) and the program that is built there.
"""

import json
import math
import os
import pathlib
import random
import re
import shutil
import subprocess
import unittest

from program_test import PROGRAM, ProgramTest

HERE = pathlib.Path(__file__).resolve().parent
DOCUMENT = HERE.parent / "docs" / "extending.md"
SCRATCH = pathlib.Path(os.environ["SCRATCH_DIR"])
PREFIX = SCRATCH / "prefix"
LANGUAGES = {".cc": "cpp", ".h": "cpp", ".txt": "cmake"}


def setUpModule():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    config = os.environ["CONFIG"]
    build = pathlib.Path(PROGRAM).parent
    for command in (
            ["--install", os.environ["BUILD_DIR"], "--config", config,
             "--prefix", PREFIX],
            ["-S", HERE / "extending", "-B", build, "-G", "Ninja",
             f"-DCMAKE_PREFIX_PATH={PREFIX}", f"-DCMAKE_BUILD_TYPE={config}",
             f"-DCMAKE_CXX_COMPILER={os.environ['CXX']}",
             "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Wpedantic -Wshadow -Werror"],
            ["--build", build]):
        subprocess.run(["cmake", *command], check=True)


class ExtendingTest(ProgramTest):
    def setUp(self):
        super().setUp()
        draws = random.Random(1)
        with open(self.folder / "clouds.csv", "w", encoding="utf-8") as file:
            for i in range(600):  # three clouds of points
                angle = i % 3 * math.tau / 3
                file.write(f"{math.cos(angle) + draws.gauss(0, .3):.4f},"
                           f"{math.sin(angle) + draws.gauss(0, .3):.4f},"
                           f"{i % 3}\n")

    def run_clouds(self, *args):
        return self.run_it(
            "run", "--data.name=csv", "--data.path=clouds.csv",
            "--partition.clients=10", "--rounds.clients_per_round=5",
            "--rounds.count=20", "--train.epochs=2", "--train.batch=10",
            *args)

    def test_document_shows_the_files(self):
        text = DOCUMENT.read_text(encoding="utf-8")
        for path in (HERE / "extending").iterdir():
            code = path.read_text(encoding="utf-8")
            self.assertIn(f"```{LANGUAGES[path.suffix]}\n{code}```\n", text,
                          f"{path} as it stands")

    def test_learns_by_methods_of_both(self):
        for method in ("fedavg", "eden", "fedmrn", "fedprox"):
            done = self.run_clouds(f"--method.name={method}",
                                   "--method.magnitude=0.3", "--train.lr=0.3",
                                   "--out", method)
            self.assertEqual(done.returncode, 0, done.stderr)
            run = json.loads((self.folder / method / "run.json").read_text())
            self.assertGreater(run["last"]["accuracy"], .9, method)
            # Through the module with LibTorch, which was installed beside.
            self.assertTrue((self.folder / method / "model.pt").exists())
        self.assertEqual(run["config"]["method"]["mu"], .01)

    def test_the_methods_own_setting_counts(self):
        ends = []
        for mu in (0, 1):
            done = self.run_clouds("--method.name=fedprox", "--train.lr=0.3",
                                   f"--method.mu={mu}", "--out", mu)
            self.assertEqual(done.returncode, 0, done.stderr)
            ends.append(done.stdout.split("sha256")[1])
        self.assertNotEqual(*ends)
        self.assertIn("method.mu: must be", self.run_clouds(
            "--method.mu=-1", "--out", "none").stderr)

    def test_help_and_lists_show_the_rows(self):
        shown = self.succeed("run", "--help")
        for row in (r"csv +numbers from a CSV file, class last",
                    r"softmax +one linear layer",
                    r"fedprox +FedProx, ", r"--method.mu "):
            self.assertRegex(shown, rf"(?m)^ +{row}")
        self.assertRegex(self.succeed("data", "list"),
                         r"(?m)^csv .* your own: --data.path FILE.csv")
        self.assertRegex(self.succeed("data", "check", "csv", "--dir",
                                      "clouds.csv"), "540")

    def test_refuses_what_it_cannot_read(self):
        with open(self.folder / "clouds.csv", "a", encoding="utf-8") as file:
            file.write("1,2\n")
        done = self.run_clouds()
        self.assertEqual(done.returncode, 2)
        self.assertIn("clouds.csv: line 601 differs in length", done.stderr)

    def test_commands_of_the_document(self):
        text = DOCUMENT.read_text(encoding="utf-8")
        commands = re.findall(r"^    build/my_fedmrn (run --data.*)$", text, re.M)
        self.assertEqual(len(commands), 2)
        for command in commands:
            self.succeed(*command.split())

    def test_the_installed_program_itself(self):
        subprocess.run(
            [PREFIX / "bin" / "fedmrn", "run", "--data.name=synthetic",
             "--data.train_examples=40", "--data.test_examples=20",
             "--partition.clients=2", "--rounds.clients_per_round=2",
             "--rounds.count=1", "--train.epochs=1", "--out", "out"],
            cwd=self.folder, check=True)
        self.assertTrue((self.folder / "out" / "model.pt").exists())


if __name__ == "__main__":
    unittest.main()
