"""A round of `fedmrn run`, done again in Python from the same model, data and
seeds: its clients' frames and its model must come out the same.

ctest sets FEDMRN_PROGRAM.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import fedmrn
import fedmrn.torch
import numpy as np
import torch
from fedmrn import _masking
from torch import nn

PROGRAM = os.environ.get("FEDMRN_PROGRAM", "")
SEED, CLIENTS, EPOCHS, BATCH = 0xFED, 3, 2, 16
_SHUFFLE = 8  # Purpose::kShuffle

torch.set_num_threads(1)  # as the program does


def make_model():
    return nn.Sequential(nn.Linear(4, 32), nn.BatchNorm1d(32), nn.ReLU(),
                         nn.Linear(32, 4))


class Draws:
    """fedmrn/core/random.h."""

    def __init__(self, seed, purpose, sub):
        self.words = iter(_masking.philox_words(
            seed, purpose, sub, 0, 1000, 10, torch.device("cpu")).tolist())

    def below(self, bound):
        while True:
            word = next(self.words) | next(self.words) << 32
            if word >= 2**64 % bound:
                return word % bound

    def shuffle(self, values):
        for left in range(len(values), 1, -1):
            other = self.below(left)
            values[left - 1], values[other] = values[other], values[left - 1]


@unittest.skipUnless(PROGRAM, "FEDMRN_PROGRAM is not set")
class ProgramTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        random = np.random.default_rng(1)
        self.y = np.arange(150) % 4
        self.x = (np.eye(4)[self.y] + random.normal(0, .3, (150, 4))).astype(
            np.float32)
        self.client = random.integers(0, CLIENTS, 150)
        np.savez(self.folder / "train.npz", x=self.x, y=self.y,
                 client=self.client)
        np.savez(self.folder / "test.npz", x=self.x[:20], y=self.y[:20],
                 client=self.client[:20])
        torch.manual_seed(1)
        self.model = make_model()
        torch.jit.script(self.model).save(str(self.folder / "model.pt"))

    def run_program(self, method, dense):
        """The round's folder of frames."""
        subprocess.run(
            [PROGRAM, "run", "--model.torchscript=model.pt", "--data.name=npz",
             "--data.path=train.npz", "--data.test_path=test.npz",
             "--partition.kind=natural", "--rounds.count=1",
             f"--rounds.clients_per_round={CLIENTS}", f"--seed={SEED}",
             f"--train.epochs={EPOCHS}", f"--train.batch={BATCH}",
             "--train.lr=0.1", "--train.momentum=0.9",
             "--train.weight_decay=0.01", "--method.magnitude=0.01",
             "--method.name", method, "--method.dense", dense,
             "--out", method + dense, "--save-frames", "frames"],
            cwd=self.folder, check=True, capture_output=True, timeout=120)
        round, = (self.folder / "frames").iterdir()
        return {file.name: file.read_bytes() for file in round.iterdir()}

    def answer(self, down, client, mask, dense, kernel):
        model = make_model()
        header = fedmrn.torch.load_broadcast(model, down)
        seed, draw_seed = fedmrn.client_seeds(SEED, header.round, client)
        order = np.flatnonzero(self.client == client).tolist()
        examples = len(order)
        opt = fedmrn.torch.MaskedSGD(
            model, 0.1, EPOCHS * -(-examples // BATCH), seed, mask,
            magnitude=0.01, momentum=0.9, weight_decay=0.01,
            draw_seed=draw_seed, kernel=kernel)
        for epoch in range(EPOCHS):
            Draws(draw_seed, _SHUFFLE, epoch).shuffle(order)
            for first in range(0, examples, BATCH):
                batch = order[first:first + BATCH]
                opt.zero_grad()
                loss = nn.functional.cross_entropy(
                    model(torch.from_numpy(self.x[batch])),
                    torch.from_numpy(self.y[batch]), reduction="sum")
                (loss / len(batch)).backward()
                opt.step()
        return opt.frame(examples, run=header.run, round=header.round,
                         client=client, plain_as=dense)

    def test_the_same_round(self):
        for method, mask, dense in (("fedmrn", "binary", "float32"),
                                    ("fedmrns", "signed", "delta")):
            frames = self.run_program(method, dense)
            self.assertEqual(len(frames), CLIENTS + 2)
            header = fedmrn.parse(frames["before.frame"])
            for kernel in "auto", "torch":
                model = make_model()
                model.load_state_dict(self.model.state_dict())
                down = fedmrn.torch.broadcast(model, run=header.run,
                                              round=header.round)
                self.assertEqual(down, frames["before.frame"])
                server = fedmrn.torch.aggregator(
                    model, down, codec="mrn-" + mask, noise="uniform",
                    magnitude=0.01, run_seed=SEED)
                for client in range(CLIENTS):
                    up = self.answer(down, client, mask, dense, kernel)
                    self.assertEqual(up, frames[f"client-{client}.frame"])
                    server.add(up)
                fedmrn.torch.finish(server, model)
                self.assertEqual(
                    fedmrn.torch.broadcast(model, run=header.run,
                                           round=header.round + 1),
                    frames["after.frame"])
            shutil.rmtree(self.folder / "frames")


if __name__ == "__main__":
    unittest.main()
