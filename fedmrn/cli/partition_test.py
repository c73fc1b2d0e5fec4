#!/usr/bin/env python3
"""Tests of fedmrn partition, as its users run it.

ctest sets the environment: FEDMRN_PROGRAM.
"""

import json
import os
import re
import shutil
import unittest
import xml.etree.ElementTree

from program_test import ProgramTest

CONFIG = """[data]
name = "synthetic"
train_examples = 3000
[partition]
seed = 3
kind = "labels"
clients = 100
labels_per_client = 3
"""


class PartitionVerbTest(ProgramTest):
    """What all tests here use."""

    words = ["partition"]

    def setUp(self):
        super().setUp()
        self.config = self.folder / "config.toml"
        self.config.write_text(CONFIG)

    def succeed(self, *args):
        done = self.run_it(*args)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        return done.stdout

    def view(self, *settings):
        args = [word for setting in settings for word in ("--set", setting)]
        return json.loads(self.succeed(self.config, "--json", *args))


class PartitionTest(PartitionVerbTest):

    def test_table(self):
        out = self.succeed(self.config, "--no-picture")
        self.assertTrue(out.startswith(
            "synthetic: 3,000 examples of 10 labels, 100 clients (labels, 3 "
            "per client, random)\n"), out)
        rows = re.findall(r"(?m)^ +(\d+) +30 +3  \d:10 \d:10 \d:10$", out)
        self.assertEqual(rows, list(map(str, range(20))))
        self.assertIn("   ... 80 more, --all shows them\n", out)
        self.assertTrue(out.endswith(
            "examples per client min 30, median 30, max 30\n"
            "labels per client   min 3, median 3, max 3\n"), out)
        out = self.succeed(self.config, "--no-picture", "--all")
        self.assertEqual(len(re.findall(r"(?m)^ +\d+ +30 +3  ", out)), 100)
        self.assertNotIn("more", out)
        self.assertEqual(self.files(), ["config.toml"])

    def test_json_agrees_with_the_settings(self):
        view = self.view()
        self.assertEqual([view[key] for key in
                          ("data", "kind", "seed", "examples", "labels")],
                         ["synthetic", "labels", 3, 3000, 10])
        clients = view["clients"]
        self.assertEqual([c["client"] for c in clients], list(range(100)))
        for client in clients:
            self.assertEqual(sum(client["label_counts"]), client["examples"])
            self.assertEqual(sum(map(bool, client["label_counts"])), 3)
        sums = [sum(column) for column in
                zip(*(c["label_counts"] for c in clients))]
        self.assertEqual(sums, [300] * 10)
        self.assertEqual(view, self.view())
        self.assertNotEqual(clients, self.view("partition.seed=4")["clients"])
        # Error bars over seeds are of one and the same division.
        self.assertEqual(clients, self.view("seed=4")["clients"])
        cyclic = self.view("partition.labels_assignment=cyclic")["clients"]
        self.assertEqual(cyclic[3]["label_counts"], [10, 10] + [0] * 7 + [10])
        uneven = self.view("partition.kind=dirichlet")
        self.assertGreaterEqual(uneven["examples_per_client"]["min"], 10)
        self.assertGreater(uneven["examples_per_client"]["max"], 40)
        self.assertEqual(self.files(), ["config.toml"])

    def test_data_with_clients(self):
        folder = self.folder / "plays"
        folder.mkdir()
        (folder / "leaf_roles.tsv").write_text("".join(
            f"PLAY_{i}\t{'To be, or not. ' * (70 + i)}\n" for i in range(120)))
        self.config.write_text(f"""[data]
name = "shakespeare"
dir = "{folder}"
fraction = 1
""")
        view = self.view()
        self.assertEqual([view["kind"], view["labels"]], ["natural", 80])
        windows = [15 * (70 + i) - 80 for i in range(120)]
        self.assertEqual(sorted(c["examples"] for c in view["clients"]),
                         [count * 9 // 10 for count in windows])
        for client in view["clients"]:
            self.assertEqual(sum(client["label_counts"]), client["examples"])
        out = self.succeed(self.config, "--no-picture")
        self.assertIn(" labels, 120 clients (natural)\n", out)
        for kind in ("iid", "dirichlet", "labels"):
            divided = self.view(f"partition.kind={kind}",
                                "partition.labels_per_client=4")
            self.assertEqual(len(divided["clients"]), 100)
            self.assertEqual(sum(c["examples"] for c in divided["clients"]),
                             view["examples"])
        if shutil.which("gnuplot"):
            self.succeed(self.config)
            self.assertIn("shakespeare: natural, the first 100 of 120 clients",
                          (self.folder / "partition.svg").read_text())

    def test_mistakes(self):
        self.config.write_text(CONFIG + "lables = 1\n[train]\nbatch = 0\n")
        self.fail_with(
            f"{self.config}:9: partition.lables: unknown key; [partition] has "
            "kind, clients, labels_per_client, labels_assignment, alpha, "
            "min_examples and seed\n"
            f"{self.config}:11: train.batch: must be an integer of at least 1, "
            "not 0", self.config)
        self.config.write_text(CONFIG)
        self.fail_with(
            "fedmrn partition: partition.labels_per_client: 11 labels for each client, "
            "but the examples have 10: set it from 1 to 10", self.config, "--set",
            "partition.labels_per_client=11")
        self.fail_with("nothing.toml: cannot read it: No such file or "
                       "directory", "nothing.toml")
        self.fail_with("fedmrn partition: --out a.gif: must end in .svg or .png",
                       self.config, "--out", "a.gif")
        self.assertEqual(self.files(), ["config.toml"])

    def test_without_gnuplot(self):
        path = {**os.environ, "PATH": str(self.folder)}
        for args, code in (([], 0), (["--out", "a.png"], 1)):
            done = self.run_it(self.config, *args, env=path)
            self.assertEqual(done.returncode, code, done)
            self.assertIn("apt install gnuplot-nox", done.stderr)
            self.assertIn("labels per client", done.stdout)
        self.assertEqual(self.files(), ["config.toml"])


@unittest.skipUnless(shutil.which("gnuplot"), "no gnuplot")
class PictureTest(PartitionVerbTest):

    def test_svg_is_the_default(self):
        out = self.succeed(self.config)
        self.assertTrue(out.endswith("\npicture             partition.svg\n"))
        self.assertEqual(self.files(), ["config.toml", "partition.svg"])
        root = xml.etree.ElementTree.parse(self.folder /
                                           "partition.svg").getroot()
        self.assertTrue(root.tag.endswith("svg"))
        text = "".join(root.itertext())
        self.assertIn("synthetic: labels, 3 per client, random, 100 clients",
                      text)
        self.assertIn("Largest bubble: 10 examples", text)

    def test_png(self):
        name = "it's a picture.png"
        self.succeed(self.config, "--json", "--out", name)
        data = (self.folder / name).read_bytes()
        self.assertEqual(data[:8], b"\x89PNG\r\n\x1a\n")

    def test_many_clients(self):
        self.succeed(self.config, "--partition.kind", "iid", "--set",
                     "partition.clients=3000")
        self.assertIn("the first 100 of 3,000 clients",
                      (self.folder / "partition.svg").read_text())

    def test_file_that_cannot_be(self):
        self.fail_with("fedmrn partition: no/a.svg: cannot write it: No such file "
                       "or directory", self.config, "--out", "no/a.svg")


if __name__ == "__main__":
    unittest.main()
