"""A SuperLink as examples/flower/deploy starts it, and the same rounds without
Flower, to compare with to the bit."""

import importlib.machinery
import importlib.util
import pathlib
import shutil
import sys
import tempfile
import time
import unittest

import fedmrn
import fedmrn.torch
from fedmrn.flower import FedMRN
from flwr.app import ConfigRecord
from torch.nn.functional import cross_entropy

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLE = HERE.parents[1] / "examples" / "flower"
sys.path[:0] = [str(EXAMPLE), str(HERE)]

from fmnist.task import batches_of, make_model  # noqa: E402

_loader = importlib.machinery.SourceFileLoader("deploy",
                                               str(EXAMPLE / "deploy"))
deploy = importlib.util.module_from_spec(
    importlib.util.spec_from_loader("deploy", _loader))
_loader.exec_module(deploy)

CLIENTS, OF, SEED = [3, 11, 17], 20, 77
CONFIG = {"method": "fedmrn", "rounds": 3, "clients": len(CLIENTS), "lr": 0.1,
          "epochs": 1, "examples": 100, "tested": 100, "seed": SEED}


class Rounds:
    """What the example does, without Flower."""

    def __init__(self):
        self.model, self.round = make_model(SEED), 1
        self.run = FedMRN(fedmrn.torch.layout(self.model),
                          seed=SEED)._identity(ConfigRecord())
        self.frame_lengths = []

    def down(self):
        return fedmrn.torch.broadcast(self.model, run=self.run,
                                      round=self.round)

    def next(self, clients=CLIENTS):
        down = self.down()
        server = fedmrn.torch.aggregator(
            self.model, down, codec="mrn-binary", noise="uniform",
            magnitude=0.01, run_seed=SEED)
        for client in clients:
            frame = self.answer(down, client)
            self.frame_lengths.append(len(frame))
            server.add(frame)
        fedmrn.torch.finish(server, self.model)
        self.round += 1

    def answer(self, down, client):
        model = make_model()
        fedmrn.torch.load_broadcast(model, down)
        seed, draw_seed = fedmrn.client_seeds(SEED, self.round, client)
        batches, examples = batches_of(client, OF, CONFIG, draw_seed)
        opt = fedmrn.torch.MaskedSGD(model, CONFIG["lr"], len(batches), seed,
                                     draw_seed=draw_seed)
        for x, y in batches:
            opt.zero_grad()
            cross_entropy(model(x), y).backward()
            opt.step()
        return opt.frame(examples, run=self.run, round=self.round,
                         client=client)


def stage(deployment, name, *files, **components):
    app = deployment.stage(name, **components)
    for file in files:
        shutil.copy(HERE / "apps" / file, app / "fmnist")
    return app


class FlowerTest(unittest.TestCase):
    def make_folder(self, name):
        folder = pathlib.Path(self.folder) / name
        folder.mkdir()
        return folder

    def check_completed(self, done):
        self.assertEqual(done["status"], "finished:completed", done["log"])

    def wait_for(self, file):
        for _ in range(9000):  # 15 minutes; it takes seconds
            if file.exists():
                return
            time.sleep(0.1)
        self.fail(f"there is no {file}; the SuperLink says:\n"
                  + self.deployment.log("superlink"))

    @classmethod
    def start(cls, simulation):
        """A SuperLink, and nodes of the CLIENTS unless it simulates them."""
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = scratch.name
        cls.deployment = deploy.Deployment(
            pathlib.Path(cls.folder) / "flower", simulation)
        cls.addClassCleanup(cls.deployment.__exit__)
        cls.deployment.__enter__()
        if not simulation:
            cls.deployment.start_nodes(CLIENTS, OF)
