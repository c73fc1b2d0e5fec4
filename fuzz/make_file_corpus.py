#!/usr/bin/env python3
"""Writes the seed inputs of the fuzzers of files: make_file_corpus.py
testdata/fuzz. What fuzzing found stays beside them. The first byte of most
inputs says how the rest is used (fuzz/input.h)."""

import ctypes
import gzip
import io
import pathlib
import struct
import sys
import tarfile
import zlib

import numpy
import torch

OUT = pathlib.Path(sys.argv[1])
ROOT = pathlib.Path(__file__).resolve().parent.parent


def save(folder, name, contents):
    (OUT / folder).mkdir(exist_ok=True)
    (OUT / folder / name).write_bytes(contents)


def piece(contents):
    return struct.pack("<H", len(contents)) + contents


def npy(array):
    file = io.BytesIO()
    numpy.save(file, array)
    return file.getvalue()


def npz(**arrays):
    file = io.BytesIO()
    numpy.savez(file, **arrays)
    packed = io.BytesIO()
    numpy.savez_compressed(packed, **arrays)
    return file.getvalue(), packed.getvalue()


def write_npz():
    images = numpy.arange(2 * 3 * 2 * 3, dtype=numpy.uint8).reshape(2, 3, 2, 3)
    sets = {
        "images": dict(x=images, y=numpy.array([0, 1])),
        "grey": dict(x=images[..., 0], y=numpy.array([[1], [0]])),
        "pixels": dict(x=images, y=images[..., 0]),
        "tokens": dict(x=numpy.array([[1, 2], [3, 4]]),
                       y=numpy.array([3, 0], "<i2")),
        "numbers": dict(x=numpy.ones((11, 2), "<f2"),
                        y=numpy.arange(11.0)),
        "clients": dict(x=numpy.ones((2, 1), "<f4"), y=numpy.array([0, 1]),
                        client=numpy.array([7, 9], "<u4")),
        "names": dict(x=numpy.ones((2, 1)), y=numpy.array([True, False]),
                      client=numpy.array(["ann", "bo"])),
    }
    for name, arrays in sets.items():
        plain, packed = npz(**arrays)
        save("npz", f"file-{name}", b"\0" + plain)
        save("npz", f"packed-{name}", b"\0" + packed)
        save("npz", f"arrays-{name}", b"\1" + piece(npy(arrays["x"])) +
             piece(npy(arrays["y"])) +
             (npy(arrays["client"]) if "client" in arrays else b""))


def write_idx():
    images = struct.pack(">IIII", 0x803, 2, 2, 3) + bytes(range(12))
    labels = struct.pack(">II", 0x801, 2) + bytes([3, 9])
    save("idx", "plain", b"\0" + piece(images) + labels)
    save("idx", "packed", b"\0" + piece(gzip.compress(images, mtime=0)) +
         gzip.compress(labels, mtime=0))
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for part in ("train", "t10k"):
            for kind, contents in (("images-idx3", images),
                                   ("labels-idx1", labels)):
                info = tarfile.TarInfo(f"{part}-{kind}-ubyte")
                info.size = len(contents)
                tar.addfile(info, io.BytesIO(contents))
    save("idx", "archive-unpacked", b"\1" + file.getvalue())
    save("idx", "archive", b"\1" + gzip.compress(file.getvalue(), mtime=0))


def png(depth, kind, channels, interlaced=0, extra=()):
    def chunk(name, contents):
        return (struct.pack(">I", len(contents)) + name + contents +
                struct.pack(">I", zlib.crc32(name + contents)))
    row = bytes([0]) + bytes(range((3 * channels * depth + 7) // 8))
    pixels = row * (8 if interlaced else 2)
    chunks = [chunk(b"IHDR", struct.pack(">IIBBBBB", 3, 2, depth, kind, 0, 0,
                                         interlaced))]
    chunks += [chunk(*pair) for pair in extra]
    chunks += [chunk(b"IDAT", zlib.compress(pixels)), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def jpeg(width, height, channels, subsampling, flags=0):
    library = ctypes.CDLL("libturbojpeg.so.0")
    library.tjInitCompress.restype = ctypes.c_void_p
    handle = ctypes.c_void_p(library.tjInitCompress())
    pixels = bytes(i * 7 % 251 for i in range(width * height * channels))
    out, size = ctypes.POINTER(ctypes.c_ubyte)(), ctypes.c_ulong()
    formats = {1: 6, 3: 0, 4: 11}
    assert library.tjCompress2(
        handle, pixels, width, 0, height, formats[channels],
        ctypes.byref(out), ctypes.byref(size), subsampling, 40, flags) == 0
    return bytes(out[:size.value])


def write_pictures():
    palette = (b"PLTE", bytes(range(12)))
    for name, contents in {
            "rgb": png(8, 2, 3), "rgb16": png(16, 2, 3),
            "alpha": png(8, 6, 4), "grey-alpha": png(8, 4, 2),
            "palette2": png(2, 3, 1, extra=[palette]),
            "palette8": png(8, 3, 1, extra=[palette, (b"tRNS", b"\0\x80")]),
            "bits": png(1, 0, 1), "bits4": png(4, 0, 1),
            "interlaced": png(8, 2, 3, 1),
            "chunks": png(8, 0, 1, extra=[
                (b"gAMA", struct.pack(">I", 45455)), (b"tEXt", b"a\0b"),
                (b"pHYs", struct.pack(">IIB", 1, 1, 1)),
                (b"tRNS", b"\0\1")])}.items():
        save("picture", f"png-{name}", contents)
    for name, contents in {
            "444": jpeg(5, 4, 3, 0), "420": jpeg(17, 9, 3, 2),
            "grey": jpeg(8, 8, 1, 3), "cmyk": jpeg(4, 4, 4, 0),
            "progressive": jpeg(9, 9, 3, 1, 16384)}.items():
        save("picture", f"jpeg-{name}", contents)


def write_checkpoints():
    columns = ("round,accuracy,loss,uplink_bytes,payload_bytes,dense_bytes,"
               "downlink_bytes,uplink_bits_per_param,clients,dropped,train_s,"
               "encode_s,aggregate_s,eval_s,wall_s,train_loss,train_accuracy\n")
    rows = columns + ("1,0.1,2.30,56191,40647,15360,3134904,0.57,2,0,0.3,0.03,"
                      "0.003,0.018,0.243,2.3,0\n"
                      "2,0.1,2.3,53920,38376,15360,3134904,0.55,2,1,0.08,0.01,"
                      "0.003,0.021,0.092,2,0.45\n")
    model = (ROOT / "testdata/fuzz/frame/good-broadcast").read_bytes()
    for name, states, moments, confusions in (
            ("plain", b"", b"", b"0 0\n0 0\n"),
            ("states", b"1-2\n3-1\n", b"", b"1 4 1 2 3 4\n2 4 4 3 2 1\n"),
            ("moments", b"", bytes(264), b"0 0\n0 0\n")):
        sections = [b"seed = 1\n", rows.encode(), model, moments, states,
                    b"a" * 64, b"", confusions]
        save("checkpoint", name, b"\1" + b"".join(map(piece, sections)))


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(2, 1)

    def forward(self, x):
        return self.fc(x)


def write_torch():
    torch.manual_seed(1)
    network = Network()
    file = io.BytesIO()
    torch.save(network.state_dict(), file)
    save("torch", "state-dict", b"\0" + file.getvalue())
    file = io.BytesIO()
    torch.save({"a": {"b": torch.ones(2, 3).t(), "n": 3}, "c": None,
                "d": [1.5, True, -70000, 2 ** 40]}, file)
    save("torch", "nested", b"\0" + file.getvalue())
    reader = torch._C.PyTorchFileReader(io.BytesIO(file.getvalue()))
    pickled = (piece(reader.get_record("data.pkl")) +
               reader.get_record("data/0"))
    save("torch", "pickle", b"\1" + pickled)
    save("pickle", "nested", pickled)
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(network), file)
    save("torch", "script", b"\0" + file.getvalue())


def write_configs():
    for name in ("fmnist-noniid2-fedmrn.toml",):
        save("config", "file-" + name, (ROOT / "configs" / name).read_bytes())
    for name, text in {
            "setting": "train.lr=0.1",
            "values": 'seed = 3\n[method]\nname = "fedmrns"\nmagnitude = '
                      '"auto"\n[rounds]\ncount = 5\nclients_per_round = 3\n',
            "dotted": 'data.name = "synthetic"\ntrain.lr = 1e-3\n'
                      'faults.drop = 0.5\nrun.tensorboard = false\n',
            "grid": 'summary = "s"\ntrain.lr = [0.1, 0.3]\nseed = [1, 2]\n'
                    '[variants.method.a]\nmethod.name = "fedavg"\n'
                    '[variants.method.b]\nmethod.name = "eden"\n'
                    '[profiles.quick]\nrounds.count = 5\n'
                    'only.method = ["a"]\n',
            "odd": "seed = 0x_1\n[[data]]\nx = 1979-05-27T07:32:00Z\n"
                   "y = {a = [[1], ['''b''']]}\nz = \"\\u00e9\"\n",
    }.items():
        save("config", name, text.encode())


write_npz()
write_idx()
write_pictures()
write_checkpoints()
write_torch()
write_configs()
