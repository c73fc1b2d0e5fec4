"""fedmrn.flower in Flower's simulation, and examples/flower/deploy as a user
runs it.
"""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import fedmrn
import numpy as np
from apps import methods_client, methods_server
from fedmrn.flower import FedMRN
from flower_util import CONFIG, EXAMPLE, OF, FlowerTest, Rounds, stage


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
        for name, settings in methods_server.SETTINGS.items():
            with self.subTest(name):
                self.check_method(settings, out / name)

    def check_method(self, settings, results):
        got = dict(np.load(results.with_suffix(".npz")))
        said = json.loads(results.with_suffix(".json").read_text())
        self.assertEqual(said["names"], ["b", "counter", "c", "a"])
        chosen, expected = rounds_of(settings, said["run"])
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


def rounds_of(settings, run):
    """Which clients, and the model, of what apps/methods_server.py does."""
    layout, seed = methods_server.LAYOUT, methods_server.SEED
    strategy = FedMRN(layout, **settings, seed=seed)
    codec, = (row for row in fedmrn.codecs() if row.name == settings["method"])
    arrays = {name: array.numpy()
              for name, array in methods_server.initial_arrays().items()}
    chosen = {}
    noise = {}
    if codec.uses_noise:
        magnitude = 0.01 if codec.name == "mrn-binary" else 0.005
        noise = {"noise": settings.get("noise", "uniform"),
                 "magnitude": [(1200, magnitude), (300, magnitude)]
                 if "magnitude" in settings else magnitude}

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
        if "magnitude" in settings:
            noise["magnitude"] = total.next_magnitudes(settings["target_ones"])
        if codec.encodes_probabilities:
            p = np.clip(coded.astype(float), 0.01, 0.99)
            coded = np.log(p / (1 - p)).astype(np.float32)
        arrays = {"a": coded[:1200].reshape(30, 40), "b": plain,
                  "c": coded[1200:].reshape(12, 5, 5)}
    return chosen, arrays


class DeployTest(unittest.TestCase):
    """The script, as a new user runs it."""

    def test_both_methods(self):
        for options in ["--simulation", "--clients", "4"], ["--clients", "2"]:
            with self.subTest(options), \
                    tempfile.TemporaryDirectory() as folder:
                self.check(folder, *options, "--rounds", "1", "--examples",
                           "100")

    def check(self, folder, *options):
        done = subprocess.run(
            [EXAMPLE / "deploy", *options], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "TMPDIR": folder})
        self.assertEqual(done.returncode, 0, done.stdout)
        rows = re.findall(r"^ +(\d+) +[\d.]+ % +([\d,]+) +[\d.]+ % +([\d,]+)$",
                          done.stdout, re.M)
        self.assertEqual([row[0] for row in rows], ["0", "1"], done.stdout)
        fedavg, masks = (int(bytes.replace(",", "")) for bytes in rows[1][1:])
        self.assertGreater(fedavg, 20 * masks)
        if "--simulation" not in options:
            counted = re.search(r"counted.*fedavg ([\d,]+), fedmrn ([\d,]+)",
                                done.stdout)
            for ours, flowers in zip((fedavg, masks), counted.groups()):
                self.assertGreater(int(flowers.replace(",", "")), ours)
        # Nothing is left behind, neither files nor processes.
        self.assertEqual(os.listdir(folder), [])
        self.assertEqual(processes_with(f"TMPDIR={folder}"), [])


def processes_with(setting):
    """Whose environment has it."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if setting.encode() in (process / "environ").read_bytes().split(
                    b"\0"):
                found.append((process / "cmdline").read_text())
        except OSError:  # it has ended, or is somebody else's
            continue
    return found


if __name__ == "__main__":
    unittest.main()
