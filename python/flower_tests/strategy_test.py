"""What needs no SuperLink: settings, checkpoints, who is chosen."""

import tempfile
import unittest

import fedmrn
import numpy as np
from apps import methods_server
from fedmrn.flower import FedMRN, compress
from flwr.app import Array, ArrayRecord, ConfigRecord


class StrategyTest(unittest.TestCase):
    def setUp(self):
        self.layout = methods_server.LAYOUT

    def start(self, arrays=None, **settings):
        return FedMRN(self.layout, **settings).start(
            None, arrays or methods_server.initial_arrays(), num_rounds=0)

    def test_bad_settings(self):
        for wrong, error in ((dict(method="fedmrm"), "no method 'fedmrm'"),
                             (dict(noise="pink"), "noise must be"),
                             (dict(magnitude=0.0), "magnitude must be"),
                             (dict(magnitude="auto", target_ones=0.0),
                              "target_ones must be"),
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
        # Rounded up, but not for what binary fractions add.
        for fraction, count in ((0.07, 7), (0.28, 28), (0.55, 55), (0.071, 8),
                                (1e-12, 1), (0, 0)):
            self.assertEqual(
                len(strategy.choose(1, list(range(100)), fraction)), count)
        self.assertEqual(strategy.choose(1, [4, 2], 0.01), strategy.choose(
            1, [2, 4], 0.5))


if __name__ == "__main__":
    unittest.main()
