#!/usr/bin/env python3
"""Tests of the fedmrn program, as its users run it.

ctest sets the environment: FEDMRN_PROGRAM, FEDMRN_VERSION, FEDMRN_TESTDATA.
"""

import json
import os
import pathlib
import re
import ssl
import struct
import subprocess
import tempfile
import unittest
import zlib

from program_test import PROGRAM, ProgramTest

TESTDATA = pathlib.Path(os.environ["FEDMRN_TESTDATA"])
CODECS = ("float32 float16 mrn-binary mrn-signed signsgd topk terngrad drive "
          "eden mask").split()


class CliTest(ProgramTest):

    def test_help_of_every_verb(self):
        verbs = ("run", "compare", "report", "tune", "theory", "demo", "data",
                 "partition", "codecs", "inspect", "aggregate", "bench")
        for verb in ([], *([verb] for verb in verbs), ["data", "get"],
                     ["bench", "core"]):
            out = self.succeed(*verb, "--help")
            self.assertIn("Usage:", out)
            self.assertIn("--help", out)
        out = self.succeed("--help")
        listed = re.findall(r"(?m)^  (\w+) +\w", out.split("Subcommands:")[1])
        self.assertEqual(listed, list(verbs))
        self.assertLessEqual(max(map(len, out.splitlines())), 80)

    def test_version(self):
        self.assertEqual(self.succeed("--version"),
                         f"fedmrn {os.environ['FEDMRN_VERSION']}\n")

    def test_version_names_the_libraries(self):
        told = json.loads(self.succeed("--version", "--json"))
        self.environment = {**os.environ, "FEDMRN_SIMD": told["simd"]}
        self.assertEqual(json.loads(self.succeed("--json", "--version")), told)
        self.assertEqual(told["fedmrn"], os.environ["FEDMRN_VERSION"])
        self.assertRegex(told["compiler"], r"^(g\+\+|.*[Cc]lang) ?\d+\.\d+")
        libraries = told["libraries"]
        for name, version in libraries.items():
            if name != "mpi":
                self.assertRegex(version, r"^\d+\.\d+\.\d+", name)
        # What Python's own copies say, which are the system's.
        self.assertEqual(libraries["zlib"], zlib.ZLIB_RUNTIME_VERSION)
        self.assertEqual(libraries["openssl"], ssl.OPENSSL_VERSION.split()[1])
        # Real files, with those that are opened when they are first needed.
        objects = list(map(pathlib.Path, told["shared_objects"]))
        self.assertEqual([path for path in objects if not path.is_file()], [])
        names = [path.name for path in objects]
        for library in ("z", "archive", "png16", "turbojpeg", "matio", "curl",
                        "crypto", "fmt", "hwy", "dnnl", "torch_cpu",
                        "fedmrn_torch"):
            self.assertTrue(any(name.startswith(f"lib{library}.so")
                                for name in names), library)
        self.assertEqual(libraries["mpi"] is not None,
                         "libfedmrn_mpi.so" in names)
        self.fail_with("fedmrn: --json requires --version; fedmrn --help says "
                       "more", "--json")

    def test_wrong_arguments(self):
        for args in ([], ["conquer"], ["inspect"], ["inspect", "--loud", "x"],
                     ["bench"], ["bench", "core", "--repeats", "0"],
                     ["codecs", "--clients", "none"], ["demo", "--rounds", "0"],
                     ["demo", "--data", "imagenet"], ["data"],
                     ["run", "--rounds.count", "0"]):
            done = self.run_it(*args)
            self.assertEqual(done.returncode, 2, args)
            self.assertNotEqual(done.stderr, "", args)
            self.assertEqual(done.stdout, "", args)

    def test_unknown_words_get_one_line(self):
        for message, args in (
                ("fedmrn: unknown verb runn, did you mean run?", ["runn"]),
                ("fedmrn: unknown verb conquer; fedmrn --help lists what there "
                 "is", ["conquer"]),
                ("fedmrn run: unknown flag --train.lrr, did you mean "
                 "--train.lr?", ["run", "--train.lrr=3"]),
                ("fedmrn bench: unknown verb cores, did you mean core?",
                 ["bench", "cores"]),
                ("fedmrn run: unknown word more; fedmrn run --help lists what "
                 "there is", ["run", "a.toml", "more"]),
                ("fedmrn tune: config is required; fedmrn tune --help says "
                 "more", ["tune"]),
                ("fedmrn bench: say what to do: core train run cluster; fedmrn bench "
                 "--help says more", ["bench"]),
                ("fedmrn run: --train.lr needs a value; fedmrn run --help says "
                 "more", ["run", "--train.lr"]),
                ("fedmrn run: --workers: must be an integer of at least 0, not "
                 "x; fedmrn run --help says more", ["run", "--workers", "x"]),
                ("fedmrn data get: NAME: no data set is called fmnst, did you "
                 "mean fmnist?", ["data", "get", "fmnst"])):
            self.fail_with(message, *args)
        # What resembles nothing gets no guess, and errors cite what was typed.
        done = self.run_it("run", "--method.name", "fedprox")
        self.assertTrue(done.stderr.startswith(
            "--method.name fedprox: method.name: must be fedavg, "), done)
        self.assertTrue(done.stderr.endswith(', not "fedprox"\n'), done)

    def test_a_program_of_another_name_says_it(self):
        mine = self.folder / "mine"
        mine.symlink_to(PROGRAM)
        say = lambda *args: subprocess.run(
            [mine, *args], capture_output=True, text=True, cwd=self.folder)
        for verb in ([], ["run"], ["compare"], ["tune"], ["report"],
                     ["data", "get"]):
            out = say(*verb, "--help").stdout
            self.assertIn(" ".join(["Usage: mine", *verb, "[OPTIONS]"]), out)
            self.assertNotRegex(out, r"\bfedmrn (run|compare|report|tune|data)")
        self.assertEqual(say("rnu").stderr,
                         "mine: unknown verb rnu, did you mean run?\n")
        self.assertEqual(
            say("report", "runs").stderr,
            "mine report: runs: cannot read it: No such file or directory\n")
        self.assertEqual(say("--version").stdout,
                         f"mine (fedmrn {os.environ['FEDMRN_VERSION']})\n")

    def test_simd_target(self):
        self.environment = {**os.environ, "FEDMRN_SIMD": "ABACUS"}
        done = self.run_it("codecs")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        listed = re.fullmatch(r"fedmrn: FEDMRN_SIMD: this CPU has no SIMD "
                              r"target ABACUS, but ([\w, ]+)\n", done.stderr)
        self.assertTrue(listed, done.stderr)
        for target in listed[1].split(", "):
            self.environment["FEDMRN_SIMD"] = target
            self.succeed("run", "--data.name", "synthetic", "--out", target,
                         "--data.train_examples", 20, "--data.test_examples",
                         10, "--partition.clients", 1, "--rounds.count", 1,
                         "--rounds.clients_per_round", 1, "--train.epochs", 1)
            run = json.loads((self.folder / target / "run.json").read_text())
            self.assertEqual(run["machine"]["simd"], target)

    def test_help_tells_defaults_once(self):
        run = self.succeed("run", "--help")
        self.assertIn("--rounds.count integer=100", run)
        self.assertNotIn("--train.lr number=", run)  # the method's
        for verb in ("compare", "tune", "partition"):
            out = self.succeed(verb, "--help")
            self.assertNotIn("--rounds.count ", out)
            self.assertIn("docs/keys.md", out)
        explained = self.succeed("run", "--train.lr", "0.5", "--print-config")
        self.assertIn("\nlr = 0.5\n", explained)
        (self.folder / "my.toml").write_text(explained)
        self.assertEqual(self.succeed("run", self.folder / "my.toml",
                                      "--print-config"), explained)
        self.assertEqual(self.files(), ["my.toml"])


class CodecsTest(ProgramTest):

    def test_table_tells_the_lengths_of_frames(self):
        frames = self.folder / "new" / "frames"
        out = self.succeed("codecs", "--clients", 2, "--out", frames)
        rows = {fields[0]: fields for fields in map(str.split,
                                                    out.splitlines())
                if len(fields) == 7 and fields[0] in CODECS}
        self.assertEqual(list(rows), CODECS)
        for codec, (_, size, bits, _, error, _, _) in rows.items():
            written = (frames / f"{codec}.frame").stat().st_size
            size = int(size.replace(",", ""))
            # What is entropy-coded differs a little between clients.
            coded = codec in ("topk", "terngrad", "mrn-binary", "mrn-signed",
                              "signsgd", "mask")
            self.assertAlmostEqual(size, written,
                                   delta=0.05 * size if coded else 0)
            self.assertAlmostEqual(float(bits), 8 * size / 389920, delta=0.001)
            if codec == "mask":  # of probabilities
                self.assertEqual(error, "-")
            else:
                self.assertLess(float(error), 10)
        self.assertEqual(float(rows["float32"][4]), 0)
        self.assertTrue(out.endswith(
            f"Next: fedmrn inspect {frames}/mrn-binary.frame\n"), out)
        self.assertLessEqual(max(map(len, out.splitlines()[:-1])), 80)

    def test_is_deterministic(self):
        for name in ("a", "b"):
            self.succeed("codecs", "--clients", 1, "--out", self.folder / name)
        for codec in CODECS:
            a, b = ((self.folder / name / f"{codec}.frame").read_bytes()
                    for name in ("a", "b"))
            self.assertEqual(a, b, codec)

    def test_folder_that_cannot_be(self):
        blocker = self.folder / "file"
        blocker.write_bytes(b"")
        done = self.run_it("codecs", "--clients", 1, "--out", blocker / "frames")
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"{blocker}/frames: cannot create it: Not a directory",
                      done.stderr)


class InspectTest(ProgramTest):

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.frames = pathlib.Path(folder.name)
        subprocess.run([PROGRAM, "codecs", "--clients", "1", "--out", folder.name],
                       check=True, stdout=subprocess.DEVNULL)

    def frame(self, codec="mrn-binary"):
        return self.frames / f"{codec}.frame"

    def write(self, data):
        path = self.folder / "x.frame"
        path.write_bytes(data)
        return path

    def test_human_view(self):
        lines = self.succeed("inspect", self.frame()).splitlines()
        self.assertEqual(
            lines[0], f"{self.frame()}: FedMRN frame, version 2, valid")
        self.assertLessEqual(max(map(len, lines[1:])), 80)
        view = {line[2:15].rstrip(): line[16:].lstrip() for line in lines[1:]
                if line}
        self.assertTrue(view["codec"].startswith("mrn-binary: "))
        self.assertEqual(view["parameters"], "389,920")
        self.assertEqual(view["noise"], "uniform, magnitude 0.003")
        self.assertRegex(view["share of ones"], r"^\d\d\.\d\d % \(.* of 389,920")
        self.assertEqual(view["coding"], "entropy-coded")
        self.assertEqual(view["segments"], "5")
        self.assertEqual(view["header"], "84 B")
        payload = int(view["payload"].removesuffix(" B").replace(",", ""))
        self.assertLess(payload, 48740)
        self.assertEqual(view["plain"], "7,680 B  1,920 float32 values")
        self.assertEqual(view["checksum"], "8 B  ok")
        total = payload + 84 + 7680 + 8
        self.assertEqual(view["total"], f"{total:,} B  "
                         f"{8 * total / 389920:.4f} bits a parameter")

    def test_json_agrees_with_the_bytes(self):
        keys = None
        for codec in CODECS:
            with self.subTest(codec):
                path = self.frame(codec)
                data = path.read_bytes()
                view = json.loads(self.succeed("inspect", "--json", path))
                keys = keys or list(view)
                self.assertEqual(list(view), keys)
                self.check_against_bytes(view, data, codec)

    def check_against_bytes(self, view, data, codec):
        (magic, version, codec_id, flags, _, round_, examples, client,
         fingerprint, seed, params, payload, plain, magnitude, param,
         plain_bytes, run, extensions) = struct.unpack_from(
             "<4s4BIIQQQQQIfIIQI", data)
        self.assertEqual(magic, b"FMRN")
        self.assertIs(view["valid"], True)
        self.assertNotIn("error", view)
        self.assertEqual(view["version"], version)
        self.assertEqual(view["codec"], codec)
        self.assertEqual(view["codec_id"], codec_id)
        self.assertEqual(view["codec_param"], param)
        self.assertEqual(view["broadcast"], bool(flags & 2))
        self.assertEqual(int(view["run"], 16), run)
        self.assertEqual(view["round"], round_)
        self.assertEqual(view["client"], client)
        self.assertEqual(view["examples"], examples)
        self.assertEqual(int(view["fingerprint"], 16), fingerprint)
        self.assertEqual(view["params"], params)
        if codec.startswith("mrn-"):
            self.assertEqual(view["noise"]["kind"], "uniform")
            self.assertAlmostEqual(view["noise"]["magnitude"], magnitude)
        else:
            self.assertIsNone(view["noise"])
        if codec.startswith("mrn-") or codec in ("signsgd", "drive", "eden"):
            self.assertEqual(int(view["seed"], 16), seed)
        else:
            self.assertIsNone(view["seed"])
        self.assertEqual(view["bytes"], {
            "header": 84, "extensions": 0, "payload": payload,
            "plain": 4 * plain, "checksum": 8, "total": len(data)})
        self.assertEqual(extensions, 0)
        self.assertEqual(plain_bytes, 4 * plain)
        self.assertEqual(84 + payload + plain_bytes + 8, len(data))
        self.assertAlmostEqual(view["bits_per_param"], 8 * len(data) / params)

        packed = data[84 + payload - (params + 7) // 8:84 + payload]
        # Coded ones are decoded by other tests.
        if codec.startswith("mrn-") or codec in ("signsgd", "mask"):
            self.assertEqual(param, 1)
            self.assertTrue(0 < view["ones"] < params)
        elif codec == "drive":
            ones = sum(bin(byte).count("1") for byte in packed)
            self.assertEqual(view["ones"], ones)
            self.assertAlmostEqual(view["share_of_ones"], ones / params)
        else:
            self.assertIsNone(view["ones"])
        if codec == "topk":
            self.assertEqual(view["kept"], struct.unpack_from("<I", data, 84)[0])
        elif codec == "terngrad":  # coded: other tests decode it
            self.assertEqual(param, 1)
            self.assertTrue(0 < view["kept"] < params)
        else:
            self.assertIsNone(view["kept"])

        if codec in ("mrn-binary", "mrn-signed", "topk", "mask"):
            self.assertEqual(view["segments"], 5)
            self.assertIsNone(view["largest_scale"])
        elif codec in ("signsgd", "terngrad", "drive", "eden"):
            segments, = struct.unpack_from("<I", data, 84)
            self.assertEqual(view["segments"], segments)
            lengths = struct.unpack_from(f"<{segments}I", data, 88)
            scales = (sum(bin(n).count("1") for n in lengths)
                      if codec in ("drive", "eden") else segments)
            self.assertEqual(view["largest_scale"], max(struct.unpack_from(
                f"<{scales}f", data, 88 + 4 * segments)))
        else:
            self.assertIsNone(view["segments"])
            self.assertIsNone(view["largest_scale"])

        stored = struct.unpack("<Q", data[-8:])[0]
        self.assertIs(view["checksum"]["ok"], True)
        self.assertEqual(int(view["checksum"]["stored"], 16), stored)
        self.assertEqual(int(view["checksum"]["computed"], 16), stored)
        values = struct.unpack_from(f"<{plain}f", data, 84 + payload)
        self.assertEqual(view["plain"]["count"], plain)
        self.assertEqual(view["plain"]["type"], "float32")
        self.assertAlmostEqual(view["plain"]["min"], min(values))
        self.assertAlmostEqual(view["plain"]["max"], max(values))
        self.assertAlmostEqual(view["plain"]["mean"], sum(values) / plain)

    def test_stdin(self):
        data = self.frame().read_bytes()
        out = self.succeed("inspect", "-", stdin=data)
        self.assertTrue(out.startswith("stdin: FedMRN frame"))
        self.fail_with("fedmrn inspect: stdin: is empty", "inspect", "-")

    def test_half_floats_and_broadcast(self):
        seeds = TESTDATA / "fuzz" / "frame"
        view = json.loads(self.succeed("inspect", "--json",
                                       seeds / "good-plain-half"))
        self.assertEqual(view["plain"]["type"], "float16")
        self.assertEqual(view["bytes"]["plain"], 18)
        self.assertIn("a model broadcast",
                      self.succeed("inspect", seeds / "good-broadcast"))

    def test_truncated(self):
        data = self.frame().read_bytes()
        path = self.write(data[:1000])
        out = self.fail_with(
            f"fedmrn inspect: {path}: offset 48: header, 0 extension bytes, "
            f"{len(data) - 84 - 7680 - 8} payload bytes, 7680 plain bytes and "
            "checksum do not make a frame of 1000 bytes",
            "inspect", path)
        self.assertIn("NOT VALID", out)
        self.assertIn("header not verified", out)
        self.assertRegex(out, r"parameters +389,920")
        self.assertRegex(out, r"checksum +8 B  not checked")
        # A header without even a checksum can be shown; less cannot.
        for size, shown in ((75, True), (71, False), (3, False)):
            path = self.write(data[:size])
            out = self.fail_with(
                f"fedmrn inspect: {path}: offset {size}: a frame has at least "
                f"80 bytes, this has {size}", "inspect", path)
            self.assertEqual("389,920" in out, shown, size)

    def test_flipped_bit(self):
        data = bytearray(self.frame().read_bytes())
        data[100] ^= 1
        path = self.write(data)
        message = "the checksum does not match: damaged on the way"
        out = self.fail_with(
            f"fedmrn inspect: {path}: offset {len(data) - 8}: {message}",
            "inspect", path)
        self.assertRegex(out, r"checksum +8 B  BAD: should be 0x[0-9a-f]{16}\n")
        self.assertLessEqual(max(map(len, out.splitlines()[1:])), 80)
        view = json.loads(self.run_it("inspect", "--json", path).stdout)
        self.assertIs(view["valid"], False)
        self.assertEqual(view["error"],
                         {"offset": len(data) - 8, "message": message})
        self.assertIs(view["checksum"]["ok"], False)
        self.assertEqual(view["params"], 389920)
        self.assertIsNone(view["ones"])

    def test_sound_checksum_over_bad_values(self):
        path = TESTDATA / "fuzz" / "frame" / "changed-plain-nan"
        out = self.fail_with(
            f"fedmrn inspect: {path}: offset 93: plain value 1 is not finite",
            "inspect", path)
        self.assertIn("NOT VALID", out)
        self.assertRegex(out, r"checksum +8 B  ok")

    def test_another_version(self):
        path = TESTDATA / "fuzz" / "frame" / "changed-version"
        out = self.fail_with(
            f"fedmrn inspect: {path}: offset 4: frame version 9; this program "
            "reads versions 1 and 2", "inspect", path)
        self.assertEqual(out, f"{path}: FedMRN frame, version 9, NOT VALID\n")

    def test_every_named_frame(self):
        """Those that a fuzzer named are the replay's, in one process."""
        for path in sorted((TESTDATA / "fuzz" / "frame").glob("*-*")):
            with self.subTest(path.name):
                done = self.run_it("inspect", path)
                parsed = self.run_it("inspect", "--json", path)
                self.assertIn(done.returncode, (0, 2), done)
                self.assertEqual(parsed.returncode, done.returncode)
                view = json.loads(parsed.stdout)
                self.assertEqual(view["valid"], done.returncode == 0)
                self.assertEqual("error" in view, done.returncode == 2)
                if path.name.startswith("good-"):
                    self.assertTrue(view["valid"])
                elif path.name.startswith("bad-"):
                    self.assertFalse(view["valid"])

    def test_not_a_frame(self):
        path = self.write(b"PK" + bytes(1000))
        out = self.fail_with(
            f"fedmrn inspect: {path}: offset 0: not a FedMRN frame (no FMRN)",
            "inspect", path)
        self.assertEqual(out, "")
        # Endless, so it must not be read to its end.
        done = self.run_it("inspect", "/dev/zero")
        self.assertEqual(done.returncode, 2)

    def test_unreadable(self):
        empty = self.write(b"")
        missing = self.folder / "nothing"
        for path, message in (
                (empty, "is empty"),
                (missing, "cannot open it: No such file or directory"),
                (self.folder, "is a directory, not a frame")):
            line = f"fedmrn inspect: {path}: {message}"
            self.assertEqual(self.fail_with(line, "inspect", path), "")
            view = json.loads(self.fail_with(line, "inspect", "--json", path))
            self.assertEqual(view, {
                "valid": False, "file": str(path),
                "error": {"offset": None, "message": message}})


class BenchTest(ProgramTest):

    def test_core_json_has_every_figure(self):
        figures = json.loads(self.succeed("bench", "core", "--json",
                                          "--repeats", 3))
        for key in ("aggregate_vs_dense_ratio", "aggregate_10_vs_dense_ratio",
                    "philox_gwords_per_s", "philox_vs_random123_ratio",
                    "fwht_gfloats_per_s", "mask_step_vs_sgd_ratio",
                    "drive_encode_vs_mrn_ratio", "coded_encode_gparams_per_s",
                    "coded_decode_gparams_per_s",
                    "aggregate_coded_vs_dense_ratio"):
            self.assertGreater(figures[key], 0, key)

    def test_train_refuses_what_it_cannot_measure(self):
        for model in "cnn5", "torchscript", "cnn4:model.pt":
            refused = self.run_it("bench", "train", "--model", model)
            self.assertEqual(refused.returncode, 2)
            self.assertIn("--model is one of cnn4, cnn8, charlstm, bisenetv2, "
                          f"torchscript:FILE, not {model}", refused.stderr)
        for image in "28x28", "28x28x0", "28x28x1x", "-1x2x3":
            refused = self.run_it("bench", "train", "--image", image)
            self.assertEqual(refused.returncode, 2)
            self.assertIn(f"such as 32x32x3, not {image}", refused.stderr)
        refused = self.run_it("bench", "train", "--model",
                              "torchscript:nowhere.pt")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("nowhere.pt: No such file", refused.stderr)

    def test_run_json_adds_up(self):
        figures = json.loads(self.succeed("bench", "run", "--json", "--repeats",
                                          1, "--method", "eden"))
        self.assertEqual(figures["method"], "eden")
        self.assertGreater(figures["round_s"], 0)
        for part in "train", "evaluate", "encode", "aggregate", "other":
            self.assertGreater(figures[part + "_share"], 0, part)
        self.assertAlmostEqual(
            sum(figures[part + "_share"]
                for part in ("train", "evaluate", "other")), 1)
        refused = self.run_it("bench", "run", "--method", "edem")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--method: edem not in {fedavg,", refused.stderr)


if __name__ == "__main__":
    unittest.main()
