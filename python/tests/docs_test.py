"""What the documentation shows and says is measured: it runs."""

import doctest
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import fedmrn
import fedmrn.torch


class BenchTest(unittest.TestCase):
    def test_figures(self):
        done = subprocess.run(
            [sys.executable, "-m", "fedmrn.bench", "--json", "--repeat", "1"],
            cwd=tempfile.gettempdir(), stdout=subprocess.PIPE, check=True)
        figures = json.loads(done.stdout)
        self.assertEqual(set(figures), {
            "masked_sgd_overhead", "aggregate_vs_numpy_ratio",
            "aggregate_coded_vs_numpy_ratio", "wheel_kb"})
        self.assertGreater(figures["aggregate_vs_numpy_ratio"], 0)
        self.assertTrue(50 < figures["wheel_kb"] < 1000, figures)


class DocsTest(unittest.TestCase):
    def test_the_examples_run(self):
        page = pathlib.Path(__file__).parents[2] / "docs" / "python.md"
        blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.S)
        self.assertGreaterEqual(len(blocks), 3)
        names = {}
        for block in blocks:
            exec(block, names)
        self.assertEqual(fedmrn.parse(names["frame"]).codec, "eden")
        self.assertEqual(names["server"].clients, 1)


def load_tests(loader, tests, pattern):
    for module in fedmrn, fedmrn.torch:
        tests.addTests(doctest.DocTestSuite(module))
    return tests


if __name__ == "__main__":
    unittest.main()
