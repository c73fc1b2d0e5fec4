"""fedmrn.flower against the real thing: a SuperLink with TLS and three
SuperNodes with registered keys, and Flower's simulation, started as
examples/flower/deploy does it. Each model is compared with the same rounds done
here, without Flower, to the bit.
"""

import importlib.machinery
import importlib.util
import json
import pathlib
import shutil
import signal
import sys
import tempfile
import threading
import time
import unittest

import fedmrn
import fedmrn.torch
import numpy as np
from fedmrn.flower import FedMRN, compress
from flwr.app import Array, ArrayRecord, ConfigRecord
from torch.nn.functional import cross_entropy

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLE = HERE.parents[1] / "examples" / "flower"
sys.path[:0] = [str(EXAMPLE), str(HERE)]

from apps import methods_client, methods_server  # noqa: E402
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
        while not file.exists():
            if self.deployment.processes["superlink"].poll() is not None:
                self.fail(self.deployment.log("superlink"))
            time.sleep(0.1)

    @classmethod
    def start(cls, simulation):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = scratch.name
        cls.deployment = deploy.Deployment(
            pathlib.Path(cls.folder) / "flower", simulation)
        cls.addClassCleanup(cls.deployment.__exit__)
        cls.deployment.__enter__()


class DeploymentTest(FlowerTest):
    """Its tests share a deployment and the model of the undisturbed run; so
    they run in the order of their names."""

    @classmethod
    def setUpClass(cls):
        cls.start(simulation=False)
        cls.deployment.start_nodes(CLIENTS, OF)

    def test_1_three_rounds(self):
        out = self.make_folder("whole")
        done = self.deployment.submit(
            stage(self.deployment, "example"), {**CONFIG, "out": str(out)},
            len(CLIENTS))
        self.check_completed(done)
        model = (out / "model.frame").read_bytes()
        here = Rounds()
        for _ in range(3):
            here.next()
        self.assertEqual(model, here.down())
        type(self).model = model

        rows = list(map(json.loads,
                        (out / "rounds.jsonl").read_text().splitlines()))
        self.assertEqual([row["round"] for row in rows], [0, 1, 2, 3])
        uploaded = sum(row.get("upload-bytes", 0) for row in rows)
        self.assertEqual(uploaded, sum(here.frame_lengths))
        # Flower's own count of what the SuperLink got: the frames, and about
        # 1.6 kB around each of nine answers and three introductions.
        counted = done["network-traffic"]["inbound-bytes"]
        print(f"\nFlower counted {counted} bytes of upload, frames are "
              f"{uploaded}", flush=True)
        self.assertGreater(counted, uploaded)
        self.assertLess(counted, uploaded + 12 * 3000)

    def test_2_an_unregistered_key(self):
        self.deployment.make_key("stranger")
        process = self.deployment.start_node("stranger", 0, OF)
        self.assertNotEqual(process.wait(timeout=120), 0)
        self.assertIn("Failed to activate SuperNode",
                      self.deployment.log("stranger"))
        self.deployment.end("stranger")

    def test_3_a_killed_server_resumes(self):
        out = self.make_folder("resumed")
        app = stage(self.deployment, "dying", "dying_server.py",
                    serverapp="fmnist.dying_server:app")
        self.deployment.begin(app, {**CONFIG, "out": str(out)}, len(CLIENTS))
        self.wait_for(out / "dying")
        self.deployment.end("run")
        self.assertEqual(
            fedmrn.parse((out / "model.frame").read_bytes()).round, 2)
        done = self.deployment.submit(
            app, {**CONFIG, "out": str(out), "resume": True}, len(CLIENTS))
        self.check_completed(done)
        self.assertIn("goes on after round 1", done["log"])
        self.assertNotIn("[ROUND 1/3]", done["log"])
        self.assertEqual((out / "model.frame").read_bytes(), self.model)

    def test_4_faults(self):
        out = self.make_folder("faults")
        app = stage(self.deployment, "faulty", "faulty_client.py",
                    clientapp="fmnist.faulty_client:app")
        with open(app / "pyproject.toml", "a") as project:
            project.write('faults = ""\n')
        plan = "damage 3 1, replay 11 2, hang 17 2"

        def kill():
            self.wait_for(out / "hanging")
            self.deployment.end("node17", signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        done = self.deployment.submit(
            app, {**CONFIG, "out": str(out), "faults": plan}, len(CLIENTS))
        killer.join()
        self.check_completed(done)
        for said in (r"client 3 \(node \d+\) refused: offset \d+: the checksum",
                     r"client 11 \(node \d+\) refused: the frame is of round 1",
                     r"client 17 \(node \d+\) has not answered",
                     r"client 17 \(node \d+\) is away"):
            self.assertRegex(done["log"], said)
        model = (out / "model.frame").read_bytes()
        here = Rounds()
        here.next([11, 17])
        here.next([3])
        here.next([3, 11])
        self.assertEqual(model, here.down())


class SimulationTest(FlowerTest):
    @classmethod
    def setUpClass(cls):
        cls.start(simulation=True)

    def test_twenty_clients_as_in_a_deployment(self):
        out = self.make_folder("simulated")
        done = self.deployment.submit(
            stage(self.deployment, "choosing", "choosing_server.py",
                  serverapp="fmnist.choosing_server:app"),
            {**CONFIG, "clients": OF, "out": str(out)}, OF)
        self.check_completed(done)
        model = (out / "model.frame").read_bytes()
        here = Rounds()
        for _ in range(3):
            here.next()
        self.assertEqual(model, here.down())  # as in the deployment's test 1

    def test_every_codec(self):
        out = self.make_folder("methods")
        done = self.deployment.submit(
            stage(self.deployment, "methods", "methods_server.py",
                  "methods_client.py", serverapp="fmnist.methods_server:app",
                  clientapp="fmnist.methods_client:app"),
            {"clients": 4, "out": str(out)}, 4)
        self.check_completed(done)
        for codec in fedmrn.codecs():
            with self.subTest(codec.name):
                self.check_method(codec, out)

    def check_method(self, codec, out):
        got = dict(np.load(out / f"{codec.name}.npz"))
        said = json.loads((out / f"{codec.name}.json").read_text())
        self.assertEqual(said["names"], ["b", "counter", "c", "a"])
        chosen, expected = rounds_of(codec, said["run"])
        for name, values in expected.items():
            np.testing.assert_array_equal(got[name], values, name)
        np.testing.assert_array_equal(got["counter"], np.arange(3))
        for number, clients in chosen.items():
            trained = said["trained"][str(number)]
            self.assertEqual(trained["clients"], 2)
            weights = [10 + client for client in clients]
            self.assertAlmostEqual(trained["client"],
                                   np.average(clients, weights=weights))
        total = sum(float(values.sum()) for values in got.values())
        self.assertAlmostEqual(said["evaluated"]["2"]["total"], total, 3)
        self.assertEqual(said["evaluated"]["2"]["names"], 4)


def rounds_of(codec, run):
    """Which clients, and the model, of what apps/methods_server.py does."""
    layout, seed = methods_server.LAYOUT, methods_server.SEED
    strategy = FedMRN(layout, codec.name, seed=seed)
    arrays = {name: array.numpy()
              for name, array in methods_server.initial_arrays().items()}
    chosen = {}
    noise = {}
    if codec.uses_noise:
        noise = {"noise": "uniform", "magnitude":
                 0.01 if codec.name == "mrn-binary" else 0.005}

    def flat(arrays, coded):
        return np.concatenate([arrays[name].reshape(-1) for name, _, is_coded
                               in layout.tensors if is_coded == coded])

    for number in 1, 2:
        coded, plain = flat(arrays, True), flat(arrays, False)
        total = fedmrn.Aggregator(layout, codec=codec.name, run=run,
                                  round=number, plain_reference=plain, **noise)
        chosen[number] = strategy.choose(number, list(range(4)), 0.5)
        for client in chosen[number]:
            learned = methods_client.learn(arrays, client)
            noise_seed, draw_seed = fedmrn.client_seeds(seed, number, client)
            update = flat(learned, True)
            if codec.encodes_probabilities:
                update = (1 / (1 + np.exp(-update.astype(float)))).astype(
                    np.float32)
            else:
                update = update - coded
            total.add(fedmrn.encode(
                update, flat(learned, False), codec=codec.name, layout=layout,
                examples=10 + client, run=run, round=number, client=client,
                seed=noise_seed if codec.uses_seed else 0, draw_seed=draw_seed,
                plain_as="delta", plain_reference=plain, **noise))
        if codec.encodes_probabilities:
            coded = np.zeros_like(coded)
        plain = plain.copy()
        total.finish(coded, plain)
        if codec.encodes_probabilities:
            p = np.clip(coded.astype(float), 0.01, 0.99)
            coded = np.log(p / (1 - p)).astype(np.float32)
        arrays = {"a": coded[:1200].reshape(30, 40), "b": plain,
                  "c": coded[1200:].reshape(12, 5, 5)}
    return chosen, arrays


class SettingsTest(unittest.TestCase):
    """What needs no SuperLink: bad settings, each a clear exception."""

    def setUp(self):
        self.layout = methods_server.LAYOUT

    def start(self, arrays=None, **settings):
        return FedMRN(self.layout, **settings).start(
            None, arrays or methods_server.initial_arrays(), num_rounds=0)

    def test_bad_settings(self):
        for wrong, error in ((dict(method="fedmrm"), "no method 'fedmrm'"),
                             (dict(noise="pink"), "noise must be"),
                             (dict(magnitude=0.0), "magnitude must be"),
                             (dict(seed=-1), "seed must be"),
                             (dict(fraction_train=1.5), "fraction_train must"),
                             (dict(resume="a", checkpoint="b"), "resume goes")):
            with self.assertRaisesRegex(ValueError, error):
                FedMRN(self.layout, **wrong)
        with self.assertRaisesRegex(ValueError, "no method 'jpeg'"):
            compress("jpeg")

    def test_arrays_of_another_model(self):
        good = methods_server.initial_arrays()
        with self.assertRaisesRegex(ValueError, "the arrays have no 'a'"):
            self.start(ArrayRecord({"b": good["b"]}))
        for wrong in np.zeros((30, 40)), np.zeros((40, 30), np.float32):
            with self.assertRaisesRegex(ValueError, "array 'a' is"):
                self.start(ArrayRecord({**good, "a": Array(wrong)}))

    def test_resuming(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(FileNotFoundError, "begin it with"):
                self.start(resume=folder)
            first = FedMRN(self.layout, checkpoint=folder, seed=4)
            first.start(None, methods_server.initial_arrays(), num_rounds=0)
            first._save(0)
            with self.assertRaisesRegex(FileExistsError, "resume= goes on"):
                self.start(checkpoint=folder, seed=4)
            arrays = self.start(resume=folder, seed=4).arrays
            self.assertEqual(list(arrays),
                             list(methods_server.initial_arrays()))
            for wrong in dict(seed=5), dict(method="eden", seed=4):
                with self.assertRaisesRegex(fedmrn.FrameError,
                                            "other settings"):
                    self.start(resume=folder, **wrong)
            with self.assertRaisesRegex(fedmrn.FrameError, "other settings"):
                FedMRN(self.layout, resume=folder, seed=4).start(
                    None, methods_server.initial_arrays(), num_rounds=0,
                    train_config=ConfigRecord({"lr": 0.5}))
            self.layout = fedmrn.Layout([("a", (30, 40), True)])
            with self.assertRaises(fedmrn.FrameError):
                self.start(resume=folder, seed=4)

    def test_who_is_chosen(self):
        strategy = FedMRN(self.layout, seed=3)
        asked = [strategy.choose(number, list(range(10)), 0.3)
                 for number in range(200)]
        self.assertEqual(asked[7], FedMRN(self.layout, seed=3).choose(
            7, list(range(9, -1, -1)), 0.3))
        counts = np.bincount(np.concatenate(asked), minlength=10)
        self.assertEqual(counts.sum(), 600)
        self.assertTrue((abs(counts - 60) < 30).all(), counts)
        self.assertEqual(strategy.choose(1, [4, 2], 1.0), [2, 4])
        self.assertEqual(strategy.choose(1, [4, 2], 0.01), strategy.choose(
            1, [2, 4], 0.5))


if __name__ == "__main__":
    unittest.main()
