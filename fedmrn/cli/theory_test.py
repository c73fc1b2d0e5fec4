#!/usr/bin/env python3
"""Tests of fedmrn theory, as its users run it.

ctest sets the environment: FEDMRN_PROGRAM.
"""

import csv
import json
import os
import shutil
import unittest
import xml.etree.ElementTree

from program_test import ProgramTest

SMALL = ("--rounds", "512", "--seeds", "2")


class TheoryTest(ProgramTest):
    words = ["theory"]

    def succeed(self, *args):
        done = self.run_it(*args)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        return done.stdout

    def fail_with(self, message, *args):
        out = super().fail_with(f"fedmrn theory: {message}", *args)
        self.assertEqual(out, "")

    def test_report(self):
        out = self.succeed(*SMALL)
        for line in ("Theorem 1  logistic regression, 8 parameters; N = 20 "
                     "clients, K = 10 a round,\n", "\nProp. 1    q = sqrt(",
                     "\nTheorem 2  network of 12 parameters,"):
            self.assertIn(line, out)
        self.assertEqual(out.count("at 32 T: holds,\n"), 1, out)
        self.assertEqual(out.count("at 4 T: holds, at the last\n"), 1, out)
        self.assertEqual(out.count("DOES NOT HOLD"), 1, out)
        self.assertIn("Proposition 1: DOES NOT HOLD\n", out)
        self.assertLessEqual(max(map(len, out.splitlines())), 79)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_json(self):
        text = self.succeed(*SMALL, "--json", "--steps", "3", "--no-pm")
        self.assertEqual(text, self.succeed(*SMALL, "--json", "--steps", "3",
                                            "--no-pm"))
        report = json.loads(text)
        self.assertEqual(list(report), ["settings", "theorem1", "proposition1",
                                        "theorem2"])
        settings = report["settings"]
        self.assertEqual((settings["steps"], settings["pm"],
                          settings["noise"]), (3, False, "round"))
        one = report["theorem1"]
        self.assertTrue(one["bound_holds"] and one["assumptions_hold"])
        self.assertEqual(one["rows"][-1]["T"], 3 * 512)
        for row in one["rows"]:
            self.assertLess(row["fedmrn_gap"]["mean"], row["fedmrn_bound"])
            self.assertLess(row["fedavg_gap"]["mean"], row["fedavg_bound"])
        constants = one["constants"]
        self.assertAlmostEqual(constants["L"] / constants["mu"], 24)
        self.assertLess(one["gradient_norm_at_w_star"], 1e-12)
        proposition = report["proposition1"]
        self.assertAlmostEqual(proposition["elementwise_factor"],
                               (2 / 3)**0.5)
        self.assertAlmostEqual(proposition["proposition_factor"],
                               (14 / 27)**0.5)
        for x in ("updates", "fixed_vector"):
            self.assertAlmostEqual(proposition[x]["ratio"],
                                   proposition["elementwise_factor"], 2)
        self.assertEqual(len(report["theorem2"]["rows"]), 4)

    def test_fixed_noise(self):
        out = self.succeed(*SMALL, "--noise", "fixed")
        self.assertIn("but no constant q will do", out)
        self.assertIn("of the noise: DOES NOT HOLD\n", out)

    @unittest.skipUnless(shutil.which("gnuplot"), "no gnuplot")
    def test_files(self):
        out = self.succeed(*SMALL, "--out", "a/b", "--plot", "c.png")
        self.assertTrue(out.endswith(
            "\nrows       a/b/theory.csv\npicture    c.png\n"
            "picture    a/b/theory.svg\n"), out)
        self.assertEqual((self.folder / "c.png").read_bytes()[:8],
                         b"\x89PNG\r\n\x1a\n")
        root = xml.etree.ElementTree.parse(self.folder /
                                           "a/b/theory.svg").getroot()
        self.assertTrue(root.tag.endswith("svg"))
        # Powers of ten are set as such.
        self.assertNotIn("^", "".join(root.itertext()).replace("|^2", ""))
        self.assertIn("FedMRN, measured", "".join(root.itertext()))
        with open(self.folder / "a/b/theory.csv", encoding="ascii") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual({row["theorem"] for row in rows}, {"1", "2"})
        report = json.loads(self.succeed(*SMALL, "--json"))
        for theorem in ("1", "2"):
            self.assertEqual(
                [(int(row["T"]), float(row["fedmrn_bound"]))
                 for row in rows if row["theorem"] == theorem],
                [(row["T"], row["fedmrn_bound"])
                 for row in report["theorem" + theorem]["rows"]])

    def test_mistakes(self):
        self.fail_with("--sampled: must be from 1 to the number of clients, 20, "
                       "not 30", "--sampled", "30")
        self.fail_with("--steps: must be from 2 to 1000, not 0", "--steps", "0")
        self.fail_with("--plot a.gif: must end in .svg or .png", "--plot",
                       "a.gif")
        for args in (("--noise", "loud"), ("--clients", "-3"),
                     ("--rounds", "many"), ("--nothing",)):
            done = self.run_it(*args)
            self.assertEqual(done.returncode, 2, done)
            self.assertNotEqual(done.stderr, "")
        (self.folder / "file").write_text("")
        self.fail_with("file/a: cannot create it: Not a directory", "--out",
                       "file/a")
        self.assertEqual([p.name for p in self.folder.iterdir()], ["file"])

    @unittest.skipUnless(shutil.which("gnuplot"), "no gnuplot")
    def test_picture_that_cannot_be(self):
        self.fail_with("no/a.svg: cannot write it: No such file or directory",
                       *SMALL, "--plot", "no/a.svg")

    def test_without_gnuplot(self):
        done = self.run_it(*SMALL, "--plot", "a.svg",
                           env={**os.environ, "PATH": str(self.folder)})
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("apt install gnuplot-nox", done.stderr)


if __name__ == "__main__":
    unittest.main()
