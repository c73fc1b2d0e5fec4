#!/usr/bin/env python3
"""Users' own models and data, made by Python's torch and NumPy.

ctest sets FEDMRN_PROGRAM and FEDMRN_README.
"""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import numpy
import torch

from program_test import ProgramTest

README = pathlib.Path(os.environ["FEDMRN_README"])


class OwnTest(ProgramTest):
    words = ["run", "--partition.clients=4", "--rounds.clients_per_round=2",
             "--rounds.count=2", "--train.epochs=1", "--train.batch=16"]

    def refused(self, *arguments):
        done = self.run_it(*arguments)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertNotIn("Exception raised", done.stderr)
        return done.stderr.splitlines()[-1]

    def summary(self, out):
        return json.loads((self.folder / out / "run.json").read_text())

    def save(self, model, name):
        torch.jit.script(model).save(str(self.folder / name))

    def clouds(self, name, **arrays):
        """Points around four centres, each with its class."""
        random = numpy.random.default_rng(1)
        y = numpy.arange(200) % 4
        x = numpy.eye(4)[y] + random.normal(0, .3, (200, 4))
        numpy.savez(self.folder / name,
                    **{"x": x.astype("f4"), "y": y, **arrays})

    def test_the_readme_example(self):
        code = re.search(r"```python\n(import torch\n.*?)```",
                         README.read_text(), re.S).group(1)
        self.assertLessEqual(len(code.splitlines()), 5)
        subprocess.run([sys.executable, "-c", code], cwd=self.folder,
                       check=True, timeout=120)
        for method in ("fedavg", "fedmrn"):
            self.succeed("--set", "model.torchscript=my_model.pt",
                         "--data.name=synthetic", "--data.train_examples=200",
                         "--data.test_examples=100", "--method.name", method,
                         "--out", method)
        uploads = [self.summary(method)["totals"]["payload_bytes"]
                   for method in ("fedavg", "fedmrn")]
        self.assertGreater(uploads[0], 30 * uploads[1])
        before = torch.jit.load(str(self.folder / "my_model.pt")).state_dict()
        model = torch.jit.load(str(self.folder / "fedmrn/model.pt"))
        self.assertFalse(model.training)
        self.assertEqual(list(model.state_dict()), list(before))
        moved = model.state_dict()["0.weight"] - before["0.weight"]
        self.assertGreater(moved.abs().max().item(), 0)
        # Two rounds move a weight by two noises at most.
        self.assertLessEqual(moved.abs().max().item(), .02001)
        self.assertEqual(model(torch.zeros(2, 1, 28, 28)).shape, (2, 10))

    def test_learns_from_npz_and_repeats_itself(self):
        self.clouds("clouds.npz", client=numpy.arange(200) // 4 % 5 * 7)
        self.save(torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.ReLU(),
                                      torch.nn.Dropout(.1),
                                      torch.nn.Linear(32, 4)), "mlp.pt")
        common = ["--model.torchscript=mlp.pt", "--data.name=npz",
                  "--data.path=clouds.npz", "--partition.kind=natural",
                  "--rounds.count=12", "--train.epochs=5",
                  "--method.magnitude=0.05", "--train.lr=0.3"]
        self.succeed(*common, "--out", "one", "--workers", "1")
        self.succeed(*common, "--out", "two", "--workers", "2")
        one, two = self.summary("one"), self.summary("two")
        self.assertEqual(one["model_sha256"], two["model_sha256"])
        self.assertGreater(one["last"]["accuracy"], .8)

    def test_other_content_is_another_run(self):
        """What was read belongs to a run, where it lay does not."""
        self.clouds("a.npz")
        self.clouds("b.npz", y=(numpy.arange(200) + 1) % 4)
        shutil.copy(self.folder / "a.npz", self.folder / "moved.npz")
        for name in ("one.pt", "other.pt"):
            self.save(torch.nn.Sequential(torch.nn.Linear(4, 4)), name)
        shutil.copy(self.folder / "one.pt", self.folder / "moved.pt")

        def words(data, model):
            return ["--data.name=npz", "--data.path", data,
                    "--model.torchscript", model, "--out", "out"]

        self.succeed(*words("a.npz", "one.pt"))
        whole = self.summary("out")
        for what, data, model in (("data set", "b.npz", "one.pt"),
                                  ("model file", "a.npz", "other.pt")):
            done = self.run_it(*words(data, model), "--resume")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertRegex(done.stderr,
                             f"out holds a run on another {what}: its SHA-256 "
                             "was [0-9a-f]{12}, now [0-9a-f]{12}\n")
        self.succeed(*words("moved.npz", "moved.pt"), "--resume")
        self.assertEqual(self.summary("out")["model_sha256"],
                         whole["model_sha256"])
        file = (self.folder / "one.pt").read_bytes()
        self.assertEqual(whole["model_file_sha256"],
                         hashlib.sha256(file).hexdigest())

    def test_a_finished_grid_of_other_content(self):
        self.clouds("a.npz")
        self.clouds("b.npz", y=(numpy.arange(200) + 1) % 4)
        shutil.copy(self.folder / "a.npz", self.folder / "moved.npz")
        self.save(torch.nn.Sequential(torch.nn.Linear(4, 4)), "one.pt")
        (self.folder / "grid.toml").write_text(
            '[data]\nname = "npz"\n[model]\ntorchscript = "one.pt"\n'
            '[method]\nname = ["fedavg", "fedmrn"]\n')
        self.words = ["compare", "grid.toml", "--out", "out",
                      *OwnTest.words[1:]]
        self.succeed("--data.path=a.npz")
        self.succeed("--data.path=moved.npz")
        done = self.run_it("--data.path=b.npz")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(" holds a run on another data set: ", done.stderr)

        # Nor is a mean taken over seeds of two contents of one file.
        shutil.copy(self.folder / "b.npz", self.folder / "a.npz")
        for seeds in ("", "seed = [1, 2]\n"):
            grid = self.folder / "grid.toml"
            grid.write_text(seeds + grid.read_text())
            done = self.run_it("--data.path=a.npz")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(" holds a run on another data set: ", done.stderr)

        # Nor are finished results lost where the file is not.
        (self.folder / "grid.toml").write_text(
            (self.folder / "grid.toml").read_text()
            .removeprefix("seed = [1, 2]\n"))
        for name in "a.npz", "b.npz", "moved.npz":
            (self.folder / name).unlink()
        done = self.run_it("--data.path=moved.npz")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("moved.npz: cannot be read", done.stderr)
        table = self.succeed("--data.path=a.npz")
        for method in "fedavg", "fedmrn":
            self.assertRegex(table, rf"\n{method} +\d")

    def test_tune_does_not_choose_what_diverges(self):
        # A network that knows no answer, in tests, once it has learned: an
        # infinite loss would not come back, and no score is no number.
        class Narrow(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.line = torch.nn.Linear(4, 1)
                torch.nn.init.zeros_(self.line.weight)

            def forward(self, x):
                y = self.line(x)
                if not self.training:
                    y = y + 0 * torch.sqrt(1 - self.line.weight.max())
                return y

        self.save(Narrow(), "narrow.pt")
        x = numpy.random.default_rng(1).normal(0, 1, (300, 4)).astype("f4")
        numpy.savez(self.folder / "two.npz", x=x,
                    y=2 * x.sum(1, keepdims=True))
        (self.folder / "my.toml").write_text(
            '[data]\nname = "npz"\npath = "two.npz"\n'
            '[model]\ntorchscript = "narrow.pt"\n'
            '[partition]\nclients = 5\n[train]\nepochs = 1\n'
            '[rounds]\nclients_per_round = 5\ncount = 3\n'
            '[method]\nname = "fedavg"\n')
        self.words = []
        for rates in "0.2,0.001,0.003", "0.001,0.2,0.003":
            out = self.succeed("tune", "my.toml", "--grid", f"lr={rates}",
                               "--out", rates)
            rows = [line.split() for line in out.splitlines()[1:4]]
            self.assertEqual([row[0] for row in rows],
                             ["0.003", "0.001", "0.2"])
            self.assertEqual(rows[2][-1], "diverged")
            self.assertIn("best: lr 0.003: ", out)

    def test_regression(self):
        random = numpy.random.default_rng(1)
        x = random.normal(0, 1, (300, 6)).astype("f4")
        numpy.savez(self.folder / "line.npz", x=x,
                    y=(x @ numpy.arange(6) / 6).astype("f4")[:, None])
        self.save(torch.nn.Linear(6, 1), "linear.pt")
        done = self.run_it("--model.torchscript=linear.pt",
                           "--data.name=npz", "--data.path=line.npz",
                           "--method.name=fedavg", "--rounds.count=8",
                           "--train.epochs=5", "--train.lr=0.1",
                           "--out", "line")
        self.assertEqual(done.returncode, 0, done.stderr)
        # No share of 100 %.
        score = r"-?\d+\.\d{4}"
        self.assertRegex(done.stdout, rf"^R2 +{score} after round \d+, best "
                                      rf"{score} after round \d+\n")
        self.assertRegex(done.stderr, rf"  R2 {score}  loss ")
        run = self.summary("line")
        self.assertEqual(run["metric"], "R2")
        self.assertGreater(run["last"]["accuracy"], .95)

    def test_starts_from_tensors_of_a_file(self):
        data = ["--data.name=synthetic", "--data.train_examples=200",
                "--data.test_examples=100", "--method.name=fedavg"]
        self.succeed(*data, "--out=donor")
        donor = torch.jit.load(str(self.folder / "donor/model.pt"))
        # Nothing is learned at such a rate: the file's tensors are the model.
        still = [*data, "--rounds.count=1", "--train.lr=1e-30"]
        said = self.run_it(*still, "--model.init=donor/model.pt",
                           "--out=same").stderr
        self.assertIn("took conv1.weight, conv2.weight", said)
        self.assertNotIn("lacks", said)
        same = torch.jit.load(str(self.folder / "same/model.pt")).state_dict()
        for name, tensor in donor.state_dict().items():
            if "running" not in name:
                self.assertTrue(torch.equal(tensor, same[name]), name)
        digest = hashlib.sha256(
            (self.folder / "donor/model.pt").read_bytes()).hexdigest()
        self.assertEqual(self.summary("same")["model_file_sha256"], digest)

        # A state_dict with one tensor too few, and one too many.
        state = {name: tensor for name, tensor in donor.state_dict().items()
                 if name != "fc.weight"}
        state["head.weight"] = torch.zeros(3, 3)
        torch.save(state, self.folder / "state.pt")
        said = self.run_it(*still, "--model.init=state.pt",
                           "--out=most").stderr
        self.assertIn("state.pt lacks, and so drawn anew: fc.weight", said)
        self.assertIn("state.pt has, and nobody needs: head.weight", said)
        most = torch.jit.load(str(self.folder / "most/model.pt")).state_dict()
        self.assertTrue(torch.equal(state["conv4.weight"],
                                    most["conv4.weight"]))
        self.assertFalse(torch.equal(donor.state_dict()["fc.weight"],
                                     most["fc.weight"]))

        torch.save({"fc.weight": torch.zeros(10, 9)}, self.folder / "nine.pt")
        torch.save({"a": torch.zeros(2)}, self.folder / "other.pt")
        torch.save({"fc.weight": torch.full((10, 256), float("nan"))},
                   self.folder / "nan.pt")
        for name, said in (
                ("nine.pt", "tensor fc.weight has the shape [10, 9]; the "
                            "network needs [10, 256]"),
                ("other.pt", "has no tensor of the network"),
                ("nan.pt", "not finite"), ("none.pt", "No such file")):
            line = self.refused(*still, f"--model.init={name}", "--out=bad")
            self.assertIn(name, line)
            self.assertIn(said, line)
        line = self.refused(*still, "--model.init=donor/model.pt",
                            "--method.name=fedpm", "--out=bad")
        self.assertIn("model.init: is for methods whose model", line)

    def test_norms(self):
        for norm, tensors in (("group", 4 * 3 + 1), ("none", 4 + 1)):
            self.succeed("--data.name=synthetic", "--data.train_examples=200",
                         "--data.test_examples=100", f"--model.norm={norm}",
                         "--out", norm)
            model = torch.jit.load(str(self.folder / norm / "model.pt"))
            state = model.state_dict()
            self.assertEqual(len(state), tensors)
            images = torch.rand(3, 1, 28, 28)
            x = images
            for i in "1234":
                x = torch.conv2d(x, state[f"conv{i}.weight"], padding=1)
                if norm == "group":
                    x = torch.nn.functional.group_norm(
                        x, 8, state[f"gn{i}.weight"], state[f"gn{i}.bias"])
                x = torch.max_pool2d(torch.relu(x), 2)
            scores = x.flatten(1) @ state["fc.weight"].t()
            self.assertTrue(torch.allclose(model(images), scores, atol=1e-5))

    def test_bad_models(self):
        self.clouds("clouds.npz")
        data = ["--data.name=npz", "--data.path=clouds.npz"]
        torch.save({"weight": torch.zeros(3)}, self.folder / "state.pt")
        (self.folder / "text.pt").write_text("no model")
        self.save(torch.nn.ReLU(), "relu.pt")
        self.save(torch.nn.Linear(5, 4), "five.pt")
        self.save(torch.nn.Linear(4, 3), "three.pt")
        for name, said in (("state.pt", "torch.jit.script"),
                           ("text.pt", "text.pt"),
                           ("relu.pt", "trainable"),
                           ("five.pt", "five.pt"),
                           ("three.pt", "4"),
                           ("none.pt", "No such file")):
            line = self.refused(f"--model.torchscript={name}", *data)
            self.assertIn(name, line)
            self.assertIn(said, line)

    def test_bad_data(self):
        self.save(torch.nn.Linear(4, 4), "linear.pt")
        model = ["--model.torchscript=linear.pt", "--data.name=npz"]
        self.clouds("long.npz", y=numpy.arange(201) % 4)
        self.clouds("clients.npz", client=numpy.arange(3))
        (self.folder / "text.npz").write_text("no data")
        for name, said in (("long.npz", "201"), ("clients.npz", "client"),
                           ("text.npz", "text.npz"), ("none.npz", "none.npz")):
            line = self.refused(*model, f"--data.path={name}")
            self.assertIn(name, line)
            self.assertIn(said, line)


if __name__ == "__main__":
    unittest.main()
