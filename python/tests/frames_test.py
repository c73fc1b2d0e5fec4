"""The package's frames against testdata, whose bytes the C++ tests write."""

import functools
import os
import pathlib
import pickle
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import fedmrn
import numpy as np
from fedmrn import FrameError

TESTDATA = pathlib.Path(os.environ.get(
    "FEDMRN_TESTDATA", pathlib.Path(__file__).parents[2] / "testdata"))

PLAIN = np.float32([1, -0.5, 0, 3.140625])


def golden_update(count):
    """As golden_test.cc has it."""
    i = np.arange(count)
    return ((i * 37 % 101 - 50) * 2.0**-13).astype(np.float32)


class GoldenFrames(unittest.TestCase):
    def test_decode(self):
        files = [file for folder in ("frames", "frames-1")
                 for file in sorted((TESTDATA / folder).glob("*.frame"))]
        self.assertGreater(len(files), 40)
        for file in files:
            with self.subTest(file.name):
                frame = file.read_bytes()
                values = np.fromfile(file.with_suffix(".values"), "<f4")
                decoded = fedmrn.decode(frame)
                self.assertEqual(decoded.dtype, np.float32)
                self.assertEqual(decoded.tobytes(), values.tobytes())
                parsed = fedmrn.parse(frame)
                self.assertEqual(parsed.params, len(values))
                self.assertEqual(len(parsed), len(frame))
                self.assertEqual(bytes(parsed), frame)
                if parsed.plain_as == "delta":
                    np.testing.assert_array_equal(
                        parsed.plain(np.full(4, 0.5, np.float32)),
                        np.fromfile(file.with_suffix(".plain"), "<f4"))
                else:
                    np.testing.assert_array_equal(
                        parsed.plain(), PLAIN[:parsed.plain_count])

    def test_encode(self):
        common = dict(run=0x1817161514131211, round=3, client=41, examples=600,
                      fingerprint=0x0807060504030201, draw_seed=5,
                      segments=[72, 20, 7])
        mrn = dict(noise="uniform", magnitude=0.01, seed=0x123456789)
        cases = {
            "float32": dict(codec="float32"),
            "float16": dict(codec="float16", plain_as="float16"),
            "mrn-binary-uniform": dict(codec="mrn-binary", **mrn),
            "mrn-signed-bernoulli": dict(
                codec="mrn-signed", **{**mrn, "noise": "bernoulli"}),
            "mrn-signed-gaussian-f16": dict(
                codec="mrn-signed", plain_as="float16",
                **{**mrn, "noise": "gaussian"}),
            "plain-differences": dict(
                codec="mrn-binary", plain_as="delta",
                plain_reference=np.full(4, 0.5, np.float32),
                plain_segments=[1, 3], **mrn),
            "signsgd": dict(codec="signsgd", seed=0x123456789),
            "topk": dict(codec="topk", keep=0.2),
            "terngrad": dict(codec="terngrad"),
            "drive": dict(codec="drive", seed=0x123456789, unbiased=False),
            "drive-unbiased": dict(codec="drive", seed=0x123456789),
            "eden-4": dict(codec="eden", seed=0x123456789, bits=4),
        }
        for name, settings in cases.items():
            with self.subTest(name):
                frame = fedmrn.encode(golden_update(99), PLAIN,
                                      **{**common, **settings})
                self.assertEqual(
                    frame, (TESTDATA / "frames" / f"{name}.frame").read_bytes())

    def test_entropy_coded(self):
        for mask in "binary", "signed":
            for noise in "uniform", "gaussian", "bernoulli":
                frame = fedmrn.encode(
                    golden_update(4099) / 2, PLAIN, codec="mrn-" + mask,
                    run=0x1817161514131211, round=3, client=41, examples=600,
                    fingerprint=0x0807060504030201, noise=noise,
                    magnitude=0.01, seed=0x123456789,
                    segments=[2000, 2, 2097])
                name = f"mrn-{mask}-coded-{noise}.frame"
                self.assertEqual(
                    frame, (TESTDATA / "frames" / name).read_bytes(), name)

    def test_fields(self):
        parsed = fedmrn.parse(
            (TESTDATA / "frames" / "mrn-binary-uniform.frame").read_bytes())
        self.assertEqual(
            (parsed.version, parsed.codec, parsed.noise, parsed.round,
             parsed.examples, parsed.client, parsed.fingerprint, parsed.seed,
             parsed.params, parsed.payload_bytes, parsed.plain_count,
             parsed.run, parsed.codec_param, parsed.broadcast,
             parsed.plain_as),
            (2, "mrn-binary", "uniform", 3, 600, 41, 0x0807060504030201,
             0x123456789, 99, 13, 4, 0x1817161514131211, 0, False, "float32"))
        self.assertEqual(np.float32(parsed.magnitude), np.float32(0.01))

    def test_refused(self):
        files = [file for folder in ("refused", "refused-1")
                 for file in sorted((TESTDATA / folder).iterdir())]
        self.assertGreaterEqual(len(files), 80)
        for file in files:
            with self.subTest(file.name):
                with self.assertRaises(FrameError) as caught:
                    fedmrn.parse(file.read_bytes())
                self.assertIsInstance(caught.exception.offset, int)
                self.assertIn(f"offset {caught.exception.offset}: ",
                              str(caught.exception))


class GoldenRounds(unittest.TestCase):
    def test_the_model_to_the_bit(self):
        for name in "float32", "mrn-binary", "mrn-signed", "magnitudes":
            folder = TESTDATA / "rounds" / name
            codec = "mrn-binary" if name == "magnitudes" else name
            masked = codec != "float32"
            frames = [(folder / f"client-{i}.frame").read_bytes()
                      for i in range(3)]
            before = fedmrn.parse((folder / "before.frame").read_bytes())
            after = (folder / "after.frame").read_bytes()
            for threads, one_by_one in (1, True), (2, True), (2, False):
                server = fedmrn.Aggregator(
                    params=before.params, plain_count=2, codec=codec,
                    noise="uniform" if masked else "none",
                    magnitude=before.magnitudes or (0.01 if masked else 0),
                    run=77, round=5,
                    run_seed=1 if masked else None)
                if one_by_one:
                    for frame in reversed(frames):
                        server.add(frame, threads=threads)
                else:
                    self.assertEqual(server.add_all(frames, threads=threads),
                                     [None] * 3)
                weights, plain = before.decode(), before.plain()
                server.finish(weights, plain, threads=threads)
                self.assertEqual(
                    fedmrn.encode(weights, plain, codec="float32", run=77,
                                  round=6, broadcast=True,
                                  magnitude=server.next_magnitudes(0.1) or 0),
                    after)
                self.assertEqual(server.clients, 3)
                self.assertEqual(server.total_weight, 100 + 301 + 502)


class AggregatorTest(unittest.TestCase):
    def setUp(self):
        self.layout = fedmrn.Layout([("w", (4, 5), True), ("b", (3,), False)])

    def server(self, **settings):
        return fedmrn.Aggregator(self.layout, codec="float32", run=1, round=2,
                                 **settings)

    def frame(self, value=1.0, layout=None, **settings):
        layout = layout or self.layout
        return fedmrn.encode(
            np.full(layout.params, value, np.float32),
            np.zeros(layout.plain_count, np.float32), layout=layout,
            **{**dict(codec="float32", run=1, round=2, client=3, examples=10),
               **settings})

    def test_what_is_refused_and_why(self):
        server = self.server()
        server.add(self.frame())
        other = fedmrn.Layout([("v", (4, 5), True), ("b", (3,), False)])
        cases = {
            "foreign": [self.frame(client=4, run=9),
                        self.frame(client=4, layout=other),
                        self.frame(client=4, codec="float16")],
            "stale": [self.frame(client=4, round=1)],
            "duplicate": [self.frame()],
            "bad-checksum": [self.frame(client=4)[:-1] + b"\0"],
            "truncated": [b"", self.frame(client=4)[:-1]],
            "bad-value": [self.frame(client=4, value=17.0)],
        }
        for code, frames in cases.items():
            for frame in frames:
                with self.assertRaises(FrameError) as caught:
                    server.add(frame)
                self.assertEqual(caught.exception.code, code)
                verdict, = server.add_all([frame])
                self.assertEqual(verdict.code, code)
        self.assertEqual(server.clients, 1)

    def test_differences(self):
        """Frames that carry them need a server that knows to what."""
        reference = np.float32([1, 2, 3])
        frame = fedmrn.encode(
            np.ones(20, np.float32), np.float32([1.5, 2, 2.5]),
            plain_as="delta", plain_reference=reference, layout=self.layout,
            codec="float32", run=1, round=2, client=3, examples=10)
        with self.assertRaises(FrameError) as caught:
            self.server().add(frame)
        self.assertEqual(caught.exception.code, "foreign")
        server = self.server(plain_reference=reference)
        server.add(frame)
        weights, plain = np.zeros(20, np.float32), np.zeros(3, np.float32)
        server.finish(weights, plain)
        np.testing.assert_array_equal(plain,
                                      fedmrn.parse(frame).plain(reference))
        np.testing.assert_allclose(plain, [1.5, 2, 2.5], atol=0.05)
        with self.assertRaisesRegex(TypeError, "plain_reference: has 2 values"):
            self.server(plain_reference=reference[:2])

    def test_variances_are_not_negative(self):
        layout = fedmrn.Layout([("w", (2, 2), True),
                                ("bn.running_mean", (2,), False),
                                ("bn.running_var", (2,), False)])
        server = fedmrn.Aggregator(layout, codec="float32")
        for plain, code in ([-1, -1, 1, -1], "bad-value"), ([-1, -1, 1, 1], None):
            verdict, = server.add_all([fedmrn.encode(
                np.zeros(4, np.float32), np.float32(plain), layout=layout,
                codec="float32", examples=1)])
            self.assertEqual(getattr(verdict, "code", None), code)

    def test_nothing_added(self):
        weights, plain = np.ones(20, np.float32), np.ones(3, np.float32)
        with self.assertRaises(FrameError):
            self.server().finish(weights, plain)
        self.assertTrue((weights == 1).all())

    def test_bad_arguments(self):
        server = self.server()
        server.add(self.frame())
        good = np.zeros(20, np.float32), np.zeros(3, np.float32)
        read_only = np.zeros(20, np.float32)
        read_only.setflags(write=False)
        for weights, message in [
                (np.zeros(20), "weights: has dtype float64, must have float32"),
                (np.zeros(19, np.float32),
                 "weights: has 19 values, must have 20"),
                (np.zeros((4, 5), np.float32),
                 "weights: has 2 dimensions, must have 1"),
                (np.zeros(40, np.float32)[::2],
                 "weights: is not contiguous: it has a stride of 2 values"),
                (read_only, "weights: is read-only memory"),
                ([0.0] * 20, "weights: must be a NumPy array or a tensor, not "
                             "list")]:
            with self.assertRaisesRegex(TypeError, message):
                server.finish(weights, good[1])
        with self.assertRaisesRegex(TypeError, "plain: has 2 values"):
            server.finish(good[0], np.zeros(2, np.float32))
        with self.assertRaisesRegex(TypeError, "a frame is bytes, not str"):
            server.add("frame")
        with self.assertRaisesRegex(ValueError, "threads must be 0 to"):
            server.add(self.frame(), threads=-1)
        with self.assertRaisesRegex(ValueError, "run must be 0 to 2\\^64 - 1"):
            fedmrn.Aggregator(self.layout, codec="float32", run=-1)
        with self.assertRaisesRegex(TypeError, "round must be an integer"):
            fedmrn.Aggregator(self.layout, codec="float32", round=1.5)
        with self.assertRaisesRegex(ValueError, "no codec 'nope'"):
            fedmrn.Aggregator(self.layout, codec="nope")

    def test_threads_of_python(self):
        layout = fedmrn.Layout([("w", (1000, 100), True)])
        update = golden_update(layout.params)
        frames = [fedmrn.encode(update, codec="mrn-signed", noise="uniform",
                                magnitude=0.01, seed=i, client=i, examples=1,
                                layout=layout) for i in range(16)]

        def server():
            return fedmrn.Aggregator(layout, codec="mrn-signed",
                                     noise="uniform", magnitude=0.01)

        together, alone = server(), server()
        threads = [threading.Thread(target=together.add, args=(frame,))
                   for frame in frames]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        alone.add_all(frames)
        sums = np.zeros((2, layout.params), np.float32)
        together.finish(sums[0])
        alone.finish(sums[1])
        self.assertEqual(together.clients, 16)
        np.testing.assert_array_equal(sums[0], sums[1])


class Functions(unittest.TestCase):
    def test_kernels_run_without_the_gil(self):
        """Another thread is seen to work between a call's begin and end."""
        update = np.zeros(1 << 21, np.float32)
        encode = functools.partial(fedmrn.encode, update, codec="eden", bits=4,
                                   examples=1)
        stop, ticks = threading.Event(), [0]

        def count():
            while not stop.is_set():
                ticks[0] += 1
                time.sleep(0.0001)

        def seen_in_a_call():
            before = ticks[0]
            encode()
            return ticks[0] > before

        thread = threading.Thread(target=count)
        thread.start()
        # Nobody gives the GIL away but of his own accord.
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1000)
        time.sleep(0.05)  # what was asked for before has been given
        try:
            # A busy machine may not run the thread in every call.
            self.assertTrue(any(seen_in_a_call() for _ in range(50)))
        finally:
            sys.setswitchinterval(interval)
            stop.set()
            thread.join()

    def test_noise(self):
        # The stream of docs/wire-format.md's example.
        values = fedmrn.noise("uniform", 0.01, 0x123456789, 8)
        k = np.frombuffer(bytes.fromhex("32daa15a2a0111b6"), np.int8)
        unit = np.float32(0.01) / np.float32(256)
        np.testing.assert_array_equal(
            values, (2 * k.astype(np.float32) + 1) * unit)
        for kind in "uniform", "gaussian", "bernoulli":
            whole = fedmrn.noise(kind, 0.25, 3, 5000)
            part = np.empty(1001, np.float32)
            self.assertIs(fedmrn.noise(kind, 0.25, 3, first=777, out=part),
                          part)
            np.testing.assert_array_equal(part, whole[777:1778])

    def test_bad_noise(self):
        for arguments in (("pink", 0.01, 1, 3), ("none", 0.01, 1, 3),
                          ("uniform", 0, 1, 3), ("uniform", float("nan"), 1, 3),
                          ("uniform", 0.01, -1, 3), ("uniform", 0.01, 1, -1)):
            with self.assertRaises(ValueError):
                fedmrn.noise(*arguments)

    def test_in_place(self):
        """Neither a way in nor a way out copies."""
        frame = fedmrn.encode(golden_update(99), codec="float32", examples=1)
        out = np.empty(99, np.float32)
        self.assertIs(fedmrn.decode(frame, out=out), out)
        np.testing.assert_array_equal(out, golden_update(99))
        with self.assertRaisesRegex(TypeError, "out: has 98 values"):
            fedmrn.decode(frame, out=out[1:])

    def test_a_read_only_update_is_fine(self):
        update = golden_update(99)
        update.setflags(write=False)
        self.assertEqual(
            fedmrn.encode(update, codec="float32", examples=1),
            fedmrn.encode(golden_update(99), codec="float32", examples=1))

    def test_what_no_frame_carries(self):
        update = golden_update(10)
        for settings in (dict(codec="float32"),  # no example
                         dict(codec="mrn-binary", examples=1),  # no noise
                         dict(codec="float32", examples=1, seed=1),
                         dict(codec="eden", examples=1, bits=5),
                         dict(codec="topk", examples=1, broadcast=True),
                         dict(codec="signsgd", examples=1, segments=[3])):
            with self.assertRaises(FrameError):
                fedmrn.encode(update, **settings)
        layout = fedmrn.Layout([("w", (3, 4), True)])
        with self.assertRaisesRegex(TypeError, "has 10 values, the layout 12"):
            fedmrn.encode(update, codec="float32", examples=1, layout=layout)

    def test_a_claim_of_too_many_parameters(self):
        frame = fedmrn.encode(golden_update(99), codec="topk", examples=1)
        with self.assertRaises(FrameError) as caught:
            fedmrn.decode(frame, max_params=98)
        self.assertEqual(caught.exception.code, "foreign")

    def test_errors_can_be_sent(self):
        error = pickle.loads(pickle.dumps(FrameError("why", "stale", 8)))
        self.assertEqual((error.code, error.offset, str(error)),
                         ("stale", 8, "offset 8: why"))
        self.assertIsInstance(error, ValueError)

    def test_layout(self):
        tensors = [("a", (2, 3), True), ("b", (), False)]
        layout = fedmrn.Layout(tensors)
        self.assertEqual(layout.tensors, tensors)
        self.assertEqual((layout.params, layout.plain_count), (6, 1))
        self.assertEqual(layout, fedmrn.Layout(tensors))
        self.assertNotEqual(layout, fedmrn.Layout(tensors[:1]))
        for bad in ([("a", (0, 3), True)], [("a", (2**31, 2**31), True)]):
            with self.assertRaises(ValueError):
                fedmrn.Layout(bad)

    def test_codecs(self):
        names = [codec.name for codec in fedmrn.codecs()]
        self.assertEqual(len(names), len(set(names)))
        for name in "float32", "mrn-binary", "eden":
            self.assertIn(name, names)

    def test_a_wheel_for_another_python(self):
        """That has no extension which this one can load."""
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(
                pathlib.Path(fedmrn.__file__).parent, f"{folder}/fedmrn",
                ignore=shutil.ignore_patterns("_core*.so", "__pycache__"))
            done = subprocess.run([sys.executable, "-c", "import fedmrn"],
                                  cwd=folder, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr.splitlines()[-1],
                         r"ImportError: .* cannot be loaded by Python 3\.\d+ .*"
                         "wheel is for another Python or another machine")

    def test_a_float32_payload_is_what_it_says(self):
        frame = fedmrn.encode(golden_update(99), codec="float32", examples=1)
        self.assertEqual(struct.unpack("<99f", frame[84:84 + 4 * 99]),
                         tuple(golden_update(99)))


if __name__ == "__main__":
    unittest.main()
