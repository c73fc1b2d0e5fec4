#!/usr/bin/env python3
"""A second decoder for FedMRN frames, written from docs/wire-format.md alone.

    decode_frames.py FOLDER...    check every NAME.frame in a FOLDER against NAME.values
    decode_frames.py --show FILE  print a frame's header and its first values

Needs only numpy and xxhash. "Page" below means docs/wire-format.md; each function
names the section of the page that it follows.
"""
import functools
import math
import os
import re
import struct
import sys
from collections import namedtuple
from pathlib import Path
from statistics import NormalDist

import numpy as np
import xxhash

PAGE = Path(__file__).resolve().parent.parent / "docs" / "wire-format.md"
GOLDEN = Path(__file__).resolve().parent / "frames"
ROUNDS = Path(__file__).resolve().parent / "rounds"
REFUSED = Path(__file__).resolve().parent / "refused"

CODECS = {1: "float32", 2: "float16", 3: "mrn-binary", 4: "mrn-signed", 5: "signsgd",
          6: "topk", 7: "terngrad", 8: "drive", 9: "eden", 10: "mask"}
UNIFORM, GAUSSIAN, BERNOULLI = 1, 2, 3
MAGNITUDES = 0x8001  # an extension
NOISE, ROTATION, CLIENT_SEED, DITHER, PLAIN_DITHER = 0, 1, 7, 14, 15  # purposes of a random stream

HEADER = struct.Struct("<4sBBBBIIQQQQQIfIIQI")  # 84 bytes
HEADER_1 = struct.Struct("<4sBBBBIIQQQQQIfII")  # 72 bytes
Header = namedtuple("Header", "magic version codec flags noise_kind round examples client "
                    "fingerprint seed params payload_bytes plain_count magnitude "
                    "codec_param plain_bytes run extension_bytes "
                    "magnitudes")  # of tensors: (lengths, magnitudes), or None
# parts: what split_payload() found in the payload
Frame = namedtuple("Frame", "header payload plain parts")

POSITIVE_CENTROIDS = {
    1: [0.7978845608028654],
    2: [0.4527800398860679, 1.5104176087114887],
    3: [0.24509416307340598, 0.7560052489539643, 1.3439092613750225, 2.151945669890335],
    4: [0.12839501671105813, 0.38804823445328507, 0.6567589957631145, 0.9423402689122875,
        1.2562309480263467, 1.6180460517130526, 2.069016730231837, 2.732588804065177]}


def check(condition, complaint):
    if not condition:
        raise ValueError(complaint)


# ---- Frame ----

def parse_frame(data):
    """Page, "Frame": all checks, in the order that the page asks for."""
    check(len(data) >= 80, "shorter than 80 bytes")
    check(data[:4] == b"FMRN", "wrong magic")
    version = data[4]
    check(version in (1, 2), f"unknown version {version}")
    plain_width = 2 if data[6] & 1 else 4
    if version == 1:  # page, "Version 1"
        *fields, reserved = HEADER_1.unpack_from(data)
        h = Header(*fields, 0, 0, 0, None)
        h = h._replace(plain_bytes=h.plain_count * plain_width)
        payload_at = 72
    else:
        check(len(data) >= 92, "shorter than 92 bytes")
        h, reserved = Header(*HEADER.unpack_from(data), None), 0
        payload_at = 84 + h.extension_bytes
    check(len(data) == payload_at + h.payload_bytes + h.plain_bytes + 8,
          "lengths do not add up")
    check(xxhash.xxh64_intdigest(data[:-8]) == int.from_bytes(data[-8:], "little"),
          "wrong checksum")

    check(h.codec in CODECS, f"unknown codec {h.codec}")
    check(h.flags in ((0, 1, 2, 3) if version == 1 else (0, 1, 2, 3, 4)), "reserved flags set")
    check(reserved == 0, "reserved field set")
    broadcast = h.flags & 2
    check(bool(broadcast) == (h.examples == 0), "wrong number of examples")
    check(not broadcast or h.codec in (1, 2), "broadcast that is not float")
    check(1 <= h.params <= 2**32, "params out of range")
    check(h.plain_count <= 2**28, "plain_count out of range")
    check(h.flags & 4 or h.plain_bytes == h.plain_count * plain_width, "wrong plain_bytes")
    h = h._replace(magnitudes=read_extensions(h, data[payload_at - h.extension_bytes:payload_at]))
    check(h.magnitudes is None or broadcast or h.codec in (3, 4), "magnitudes without noise")
    if h.codec in (3, 4):
        check(h.noise_kind in (UNIFORM, GAUSSIAN, BERNOULLI), "unknown noise_kind")
        check(2.0**-64 <= h.magnitude <= 2.0**10 if h.magnitudes is None
              else data[60:64] == bytes(4), "magnitude out of range")
    else:
        check(h.noise_kind == 0, "noise_kind in a codec without noise")
        check(data[60:64] == bytes(4), "magnitude in a codec without noise")
    check(h.seed == 0 or h.codec in (3, 4, 5, 8, 9), "seed in a codec without randomness")
    coding = (0,) if version == 1 else (0, 1)
    allowed = {1: (0,), 2: (0,), 8: (0, 1), 9: (1, 2, 3, 4)}.get(h.codec, coding)
    check(h.codec_param in allowed, "codec_param out of range")

    payload = data[payload_at:payload_at + h.payload_bytes]
    section = data[payload_at + h.payload_bytes:-8]
    plain = read_differences(h, section) if h.flags & 4 else read_floats(section, plain_width)
    return Frame(h, payload, plain, split_payload(h, payload))


def read_differences(h, data):
    """Page, "Plain differences": (q - d) * step of every plain value, in f64."""
    check(len(data) >= 4, "plain section too short")
    tensors, = struct.unpack_from("<I", data)
    check(len(data) >= 4 + 9 * tensors, "plain section too short")
    lengths = struct.unpack_from(f"<{tensors}I", data, 4)
    check(sum(lengths) == h.plain_count, "tensors do not sum to plain_count")
    steps = read_floats(data[4 + 4 * tensors:4 + 8 * tensors], 4)
    check(not np.signbit(steps).any() and (steps <= 2.0**40).all(), "step out of range")
    rice, code = data[4 + 8 * tensors:4 + 9 * tensors], data[4 + 9 * tensors:]
    check(all(p <= 24 for p in rice), "Rice parameter out of range")
    bits, at, integers = read_bits(code, 8 * len(code)).tolist(), 0, []
    for length, p in zip(lengths, rice):
        for _ in range(length):
            ones = 0
            while at < len(bits) and bits[at]:
                ones, at = ones + 1, at + 1
            z = (ones << p) + sum(bit << i for i, bit in enumerate(bits[at + 1:at + 1 + p]))
            at += 1 + p
            check(at <= len(bits), "plain integers cut short")
            integers.append(z // 2 if z % 2 == 0 else -(z + 1) // 2)
    check(len(code) == (at + 7) // 8, "bytes after the plain integers")
    check(not any(bits[at:]), "padding bits set")
    seed = client_seed((h.fingerprint + h.seed) % 2**64, h.round, h.client)
    stream = random_bytes(seed, PLAIN_DITHER, 2 * h.plain_count)
    dither = (2.0 * np.frombuffer(stream, "<u2") + 1) / 2**17 - 0.5
    return (np.array(integers, np.float64) - dither) * np.repeat(steps, lengths).astype(np.float64)


def read_extensions(h, data):
    """Page, "Extensions": the magnitudes, if they are there; none other must be understood."""
    check(len(data) <= 2**20, "too many extension bytes")
    magnitudes = None
    while data:
        check(len(data) >= 4, "extension cut short")
        kind, length = struct.unpack_from("<HH", data)
        check(len(data) >= 4 + length, "extension cut short")
        if kind == MAGNITUDES:
            check(length > 0 and length % 8 == 0, "magnitudes cut short")
            check(magnitudes is None, "magnitudes twice")
            pairs = np.frombuffer(data[4:4 + length], "<u4,<f4")
            magnitudes = pairs["f0"].astype(np.int64), pairs["f1"]
            check(magnitudes[0].all() and magnitudes[0].sum() == h.params, "sum to params")
            check(((2.0**-64 <= magnitudes[1]) & (magnitudes[1] <= 2.0**10)).all(),
                  "magnitude out of range")
        else:
            check(kind < 0x8000, f"extension {kind} must be understood")
        data = data[4 + length:]
    return magnitudes


def read_floats(data, width):
    """Page, "Frame": all values are finite. Returns f32, which holds every f16 exactly."""
    values = np.frombuffer(data, f"<f{width}").astype(np.float32)
    check(np.isfinite(values).all(), "value is not finite")
    return values


def read_bits(data, count):
    """Page, top and "Codecs": `count` bits, lowest first, zero bits to the byte's end."""
    check(len(data) == (count + 7) // 8, "wrong payload length")
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    check(not bits[count:].any(), "padding bits set")
    return bits[:count]


# ---- Codecs: payload to parts ----

def split_payload(h, payload):
    """Page, "Codecs": take the payload apart and check it, without decoding it."""
    if h.codec in (1, 2):
        width = 4 if h.codec == 1 else 2
        check(len(payload) == h.params * width, "wrong payload length")
        return read_floats(payload, width)
    if h.codec in (3, 4, 10) and h.codec_param == 1:
        return read_coded_mask(h, payload)
    if h.codec in (3, 4, 10):
        return read_bits(payload, h.params)
    if h.codec == 6:
        return split_topk(h, payload)
    return split_segments(h, payload)


def bit_contexts(h):
    """Page, "Coded masks": (context, flip) of every parameter."""
    if h.codec in (6, 10):
        return [0] * h.params, np.zeros(h.params, bool)
    dither = np.frombuffer(random_bytes(h.seed, DITHER, 2 * h.params), "<u2").astype(np.int64)
    w = 2 * dither + 1
    odd = np.ones(h.params, np.int64) if h.codec == 5 else noise_odds(h).astype(np.int64)
    height = w if h.codec == 3 else abs(2 * w - 2**17)
    shift = {UNIFORM: 8, GAUSSIAN: 15}.get(h.noise_kind, 0)
    contexts = []
    for r in (height * abs(odd) >> shift).tolist():
        e = r.bit_length() - 1
        contexts.append(0 if r < 2 else 4 * (e - 1) + ((r << 2 >> e) & 3))
    flips = (w < 2**16) != (odd < 0) if h.codec in (4, 5) else np.zeros(h.params, bool)
    return contexts, flips


def ones_of_byte(byte):
    """Page, "Coded masks": the probability of a table's byte, in 1/4096."""
    n = byte + 1 if byte < 128 else 256 - byte
    below_half = n + n * n // 8 - n * n // 128
    return below_half if byte < 128 else 4096 - below_half


def read_coded_mask(h, payload):
    """Page, "Coded masks": the mask's bits."""
    check(len(payload) >= 4, "payload too short")
    count, = struct.unpack_from("<I", payload)
    at = 4 + 4 * count
    check(count > 0 and len(payload) >= at + count, "tensors do not fit")
    lengths = struct.unpack_from(f"<{count}I", payload, 4)
    check(all(lengths), "empty tensor")
    check(sum(lengths) == h.params, "tensors do not sum to params")
    tables = []
    for _ in range(count):
        check(at < len(payload), "payload too short")
        n = payload[at]
        check(n <= 64 and at + 1 + n <= len(payload), "table too long")
        table = list(payload[at + 1:at + 1 + n])
        tables.append([ones_of_byte(table[max(0, c - (64 - n))]) if n else 2048
                       for c in range(64)])
        at += 1 + n
    contexts, flips = bit_contexts(h)
    table_of = [table for length, table in zip(lengths, tables) for _ in range(length)]
    return decode_rans(payload[at:], [table[c] for table, c in zip(table_of, contexts)]) ^ flips


def decode_rans(coded, probabilities):
    """Page, "Coded masks": bits of these probabilities, in 1/4096."""
    check(len(coded) >= 128 and len(coded) % 2 == 0, "states or words cut short")
    states = list(struct.unpack_from("<32I", coded))
    check(all(2**15 <= x < 2**31 for x in states), "state out of range")
    words = iter(struct.unpack_from(f"<{len(coded) // 2 - 64}H", coded, 128))
    bits = np.zeros(len(probabilities), np.uint8)
    for i, ones in enumerate(probabilities):
        x = states[i % 32]
        slot = x % 4096
        if slot < ones:
            bits[i] = 1
            x = ones * (x // 4096) + slot
        else:
            x = (4096 - ones) * (x // 4096) + slot - ones
        if x < 2**15:
            word = next(words, None)
            check(word is not None, "words end early")
            x = 2**16 * x + word
        states[i % 32] = x
    check(next(words, None) is None, "words are left")
    check(all(x == 2**15 for x in states), "states do not end where they should")
    return bits


def split_segments(h, payload):
    """Page, "Segments": (the run length of each scale, scales, bits or trits)."""
    check(len(payload) >= 4, "payload too short")
    count, = struct.unpack_from("<I", payload)
    scales_at = 4 + 4 * count
    check(len(payload) >= scales_at, "payload too short")
    lengths = struct.unpack_from(f"<{count}I", payload, 4)
    check(all(lengths), "empty segment")
    check(sum(lengths) == h.params, "segments do not sum to params")
    runs = lengths
    if h.codec in (8, 9):  # a run is a block: one binary digit of a segment's length
        runs = [1 << digit for n in lengths for digit in range(31, -1, -1) if n >> digit & 1]
    packed_at = scales_at + 4 * len(runs)
    check(len(payload) >= packed_at, "payload too short")
    scales = read_floats(payload[scales_at:packed_at], 4)
    check(not np.signbit(scales).any(), "negative scale")
    check((scales <= 2.0**64).all(), "scale beyond 2^64")
    if h.codec == 5 and h.codec_param == 1:
        return runs, scales, read_coded_mask(h, payload[packed_at:])
    if h.codec == 7:
        read = read_coded_trits if h.codec_param == 1 else read_trits
        return runs, scales, read(payload[packed_at:], h.params, runs)
    bits = h.codec_param if h.codec == 9 else 1
    return runs, scales, read_bits(payload[packed_at:], h.params * bits)


def read_coded_trits(data, _count, runs):
    """Page, "Coded trits"."""
    check(len(data) >= len(runs) + 4, "payload too short")
    length, = struct.unpack_from("<I", data, len(runs))
    coded, signs = data[len(runs) + 4:][:length], data[len(runs) + 4 + length:]
    check(len(coded) == length, "coded trits too short")
    nonzero = decode_rans(coded, [ones_of_byte(byte) for byte, run in zip(data, runs)
                                  for _ in range(run)])
    trits = nonzero.astype(np.int64)
    trits[nonzero == 1] = 2 * read_bits(signs, int(nonzero.sum())).astype(np.int64) - 1
    return trits


def read_trits(data, count, _runs):
    """Page, "Trits": five a byte, lowest power of 3 first; padding is digit 1."""
    check(len(data) == (count + 4) // 5, "wrong payload length")
    packed = np.frombuffer(data, np.uint8)
    check((packed <= 242).all(), "byte is not five trits")
    trits = (packed[:, None] // 3**np.arange(5) % 3 - 1).ravel()
    check(not trits[count:].any(), "padding trits set")
    return trits[:count]


def split_topk(h, payload):
    """Page, "Top-k": (kept positions, their values)."""
    check(len(payload) >= 8, "payload too short")
    if h.codec_param == 1:
        k, = struct.unpack_from("<I", payload)
        check(1 <= k <= h.params, "k out of range")
        check(len(payload) >= 4 + 4 * k, "payload too short")
        values = read_floats(payload[4:4 + 4 * k], 4)
        positions = np.flatnonzero(read_coded_mask(h, payload[4 + 4 * k:]))
        check(len(positions) == k, "not as many positions as values")
        return positions, values
    k, p = struct.unpack_from("<II", payload)
    check(1 <= k <= h.params, "k out of range")
    check(p <= 31, "Rice parameter out of range")
    code_at = 8 + 4 * k
    check(len(payload) >= code_at, "payload too short")
    values = read_floats(payload[8:code_at], 4)
    code = payload[code_at:]
    bits = read_bits(code, 8 * len(code)).tolist()
    positions, position, at = [], -1, 0
    for _ in range(k):
        ones = 0
        while at < len(bits) and bits[at]:
            ones, at = ones + 1, at + 1
        low = bits[at + 1:at + 1 + p]
        at += 1 + p
        check(at <= len(bits), "Rice code cut short")
        position += 1 + (ones << p) + sum(bit << i for i, bit in enumerate(low))
        check(position < h.params, "kept position beyond the vector")
        positions.append(position)
    check(len(code) == (at + 7) // 8, "bytes after the Rice code")
    check(not any(bits[at:]), "padding bits set")
    return positions, values


# ---- Codecs: parts to values ----

def decode_update(frame):
    """Page, "Codecs", last column: the f32 value of every parameter."""
    h, parts = frame.header, frame.parts
    if h.codec in (1, 2):
        return parts
    if h.codec == 10:
        return parts.astype(np.float32)
    if h.codec in (3, 4):
        values = noise(h)
        return np.where(parts == 1, values, np.float32(0) if h.codec == 3 else -values)
    if h.codec == 6:
        positions, kept = parts
        values = np.zeros(h.params, np.float32)
        values[positions] = kept
        return values
    runs, scales, symbols = parts
    if h.codec in (8, 9):
        return rotate_back(h, runs, scales, symbols)
    scale = np.repeat(scales, runs)
    if h.codec == 5:
        return np.where(symbols == 1, scale, -scale)
    return scale * symbols.astype(np.float32)


def client_seed(run_seed, round_, client):
    """Page, "Seeds": of a client's frame in a round."""
    block = philox(np.array([client], np.uint64), run_seed, round_, CLIENT_SEED)
    return int.from_bytes(block[:8], "little")


def random_bytes(seed, purpose, count):
    """Page, "Random numbers": the first bytes of a Philox4x32-10 stream."""
    return philox(np.arange((count + 15) // 16, dtype=np.uint64), seed, 0, purpose)[:count]


def philox(block, seed, sub, purpose):
    """Page, "Random numbers": these blocks of a stream, as bytes."""
    low = np.uint64(0xFFFFFFFF)
    high = np.uint64(32)
    zeros = 0 * block
    x0, x1, x2, x3 = block & low, block >> high, zeros + np.uint64(sub), zeros + np.uint64(purpose)
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * x0, np.uint64(0xCD9E8D57) * x2
        x0, x1, x2, x3 = ((p1 >> high) ^ x1 ^ np.uint64(k0), p1 & low,
                          (p0 >> high) ^ x3 ^ np.uint64(k1), p0 & low)
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([x0, x1, x2, x3], axis=1).astype("<u4").tobytes()


def random_bits(seed, purpose, count):
    stream = np.frombuffer(random_bytes(seed, purpose, (count + 7) // 8), np.uint8)
    return np.unpackbits(stream, bitorder="little")[:count]


@functools.cache
def gaussian_table():
    """Page, "Noise": the odd integers 2j + 1 for all 65536 values of k."""
    quantile = NormalDist().inv_cdf
    return np.array([2 * math.floor(2048 * quantile((k + 0.5) / 65536)) + 1
                     for k in range(65536)], "<i2")


def noise_odds(h):
    """Page, "Noise": the odd integers."""
    if h.noise_kind == UNIFORM:
        stream = np.frombuffer(random_bytes(h.seed, NOISE, h.params), np.int8)
        return 2 * stream.astype(np.int32) + 1
    if h.noise_kind == GAUSSIAN:
        stream = np.frombuffer(random_bytes(h.seed, NOISE, 2 * h.params), "<u2")
        return gaussian_table()[stream]
    return 2 * random_bits(h.seed, NOISE, h.params).astype(np.int32) - 1


def noise_unit(h):
    divisor = {UNIFORM: 256, GAUSSIAN: 4096, BERNOULLI: 1}[h.noise_kind]
    if h.magnitudes is None:
        return np.float32(h.magnitude) / np.float32(divisor)
    lengths, magnitudes = h.magnitudes
    return np.repeat(magnitudes / np.float32(divisor), lengths)


def noise(h):
    """Page, "Noise": an odd integer times a unit, in f32."""
    return noise_odds(h).astype(np.float32) * noise_unit(h)


def rotate_back(h, blocks, scales, bits):
    """Page, "Rotation": symbols to centroids, Walsh-Hadamard transform, signs and scale."""
    if h.codec == 8:
        values = 2 * bits.astype(np.float32) - 1
    else:
        positive = POSITIVE_CENTROIDS[h.codec_param]
        centroids = np.array([-c for c in reversed(positive)] + positive, np.float32)
        values = centroids[bits.reshape(-1, h.codec_param) @ (1 << np.arange(h.codec_param))]
    positive_sign = random_bits(h.seed, ROTATION, h.params) == 1
    first = 0
    for n, scale in zip(blocks, scales):
        block = values[first:first + n]  # a view: changes go to `values`
        half = 1
        while half < n:
            pairs = block.reshape(-1, 2, half)
            a, b = pairs[:, 0].copy(), pairs[:, 1].copy()
            pairs[:, 0], pairs[:, 1] = a + b, a - b
            half *= 2
        factor = scale * np.float32(1 / math.sqrt(n))
        block *= np.where(positive_sign[first:first + n], factor, -factor)
        first += n
    return values


# ---- Fingerprint ----

def fingerprint(tensors):
    """Page, "Fingerprint": tensors are (name, masked, extents), in the model's order."""
    digest = xxhash.xxh64()
    for name, masked, extents in tensors:
        utf8 = name.encode()
        digest.update(struct.pack("<I", len(utf8)) + utf8)
        digest.update(struct.pack(f"<BI{len(extents)}I", masked, len(extents), *extents))
    return digest.intdigest()


# ---- The checks of the command line ----

def refused(data):
    try:
        parse_frame(data)
    except ValueError:
        return True
    return False


def check_frame(path):
    """One golden frame: its values, its plain section, and that damage is noticed."""
    data = path.read_bytes()
    frame = parse_frame(data)
    expected = path.with_suffix(".values").read_bytes()
    check(decode_update(frame).astype("<f4").tobytes() == expected, "values differ")
    if frame.header.flags & 4:
        plain = (0.5 + frame.plain).astype("<f4").tobytes()
        check(plain == path.with_suffix(".plain").read_bytes(), "plain section differs")
    else:
        plain = np.array([1, -0.5, 0, 3.140625], np.float32)[:frame.header.plain_count]
        check(frame.plain.tobytes() == plain.tobytes(), "plain section differs")
    check(refused(data + b"\0"), "accepted a byte too many")
    for at in range(len(data)):
        check(refused(data[:at]), f"accepted when cut to {at} bytes")
        damaged = bytearray(data)
        for flip in range(1, 256) if len(data) < 300 else (1, 16, 128, 255):
            damaged[at] = data[at] ^ flip
            check(refused(bytes(damaged)), f"accepted with byte {at} ^ {flip:#04x}")
    h = frame.header
    return f"{CODECS[h.codec]:10} {len(data):5} bytes {h.params:5} params"


CODED = "mrn-binary-coded-uniform"
CLIENT_SEED_EXAMPLE = 0x5257bce47d64b66d
FORGERIES = [  # frame, offset, bytes to put there, what parse_frame() must say
    ("mrn-binary-uniform", 5, "0b", "unknown codec"),
    ("mrn-binary-uniform", 6, "08", "reserved flags"),
    ("mrn-binary-uniform", 7, "00", "unknown noise_kind"),
    ("mrn-binary-uniform", 7, "04", "unknown noise_kind"),
    ("mrn-binary-uniform", 12, "00000000", "wrong number of examples"),
    ("mrn-binary-uniform", 40, "00", "params out of range"),
    ("mrn-binary-uniform", 40, "69", "wrong payload length"),
    ("mrn-binary-uniform", 60, "00000000", "magnitude out of range"),
    ("mrn-binary-uniform", 60, "0000c07f", "magnitude out of range"),
    ("mrn-binary-uniform", 56, "03", "wrong plain_bytes"),
    ("mrn-binary-uniform", 64, "01", "tensors do not fit"),
    ("mrn-binary-uniform", 64, "02", "codec_param"),
    ("mrn-binary-uniform", 96, "0f", "padding bits"),
    ("mrn-binary-uniform", 97, "0000807f", "not finite"),
    ("float32", 7, "01", "noise_kind in a codec"),
    ("float32", 32, "01", "seed in a codec"),
    ("float32", 60, "0000803f", "magnitude in a codec"),
    ("float32", 84, "0000c07f", "not finite"),
    ("float16", 84, "007c", "not finite"),
    ("signsgd", 84, "ffffffff", "payload too short"),
    ("signsgd", 88, "00", "empty segment"),
    ("signsgd", 88, "49", "sum to params"),
    ("signsgd", 103, "bb", "negative scale"),
    ("signsgd", 100, "00000080", "negative scale"),
    ("drive", 100, "00008860", "scale beyond 2^64"),
    ("broadcast", 12, "01", "wrong number of examples"),
    ("terngrad", 112, "f3", "not five trits"),
    ("terngrad", 131, "00", "padding trits"),
    ("drive", 64, "02", "codec_param"),
    ("eden-4", 64, "05", "codec_param"),
    ("eden-4", 64, "03", "wrong payload length"),
    ("topk", 84, "00", "k out of range"),
    ("topk", 88, "20", "Rice parameter"),
    ("topk", 172, "ff" * 9, "Rice code cut short"),
    ("topk", 172, "ff" * 8 + "00", "beyond the vector"),
    ("topk", 172, "00" * 9, "bytes after the Rice code"),
    ("topk", 180, "86", "padding bits"),
    ("mask", 96, "ff", "padding bits"),
    (CODED, 4, "01", "lengths do not add up"),
    (CODED, 64, "00", "wrong payload length"),
    (CODED, 84, "00", "tensors do not fit"),
    (CODED, 84, "ffffffff", "tensors do not fit"),
    (CODED, 92, "00", "empty tensor"),
    (CODED, 92, "03", "sum to params"),
    (CODED, 100, "41", "table too long"),
    (CODED, 126, "ff7f0000", "state out of range"),
    (CODED, 126, "00000080", "state out of range"),
    (CODED, 498, "0000", "states do not end"),
    (CODED, 101, "ff", "words are left"),
    (CODED, 101, "7f", "words end early"),
    ("signsgd-coded", 4, "01", "lengths do not add up"),
    ("signsgd-coded", 64, "00", "wrong payload length"),
    ("signsgd-coded", 64, "02", "codec_param"),
    ("signsgd-coded", 32, "8a", "words"),
    ("signsgd-coded", 112, "ffffffff", "tensors do not fit"),
    ("signsgd-coded", 116, "d1", "sum to params"),
    ("signsgd-coded", 128, "41", "table too long"),
    ("topk-coded", 64, "00", "Rice parameter"),
    ("topk-coded", 64, "02", "codec_param"),
    ("topk-coded", 84, "00000000", "k out of range"),
    ("topk-coded", 84, "ffffffff", "k out of range"),
    ("topk-coded", 84, "29230000", "too short"),
    ("topk-coded", 88, "0000c07f", "not finite"),
    ("topk-coded", 3688, "00", "tensors do not fit"),
    ("topk-coded", 3692, "00000000", "empty tensor"),
    ("mask-coded", 64, "00", "wrong payload length"),
    ("mask-coded", 64, "02", "codec_param"),
    ("mask-coded", 84, "ffffffff", "tensors do not fit"),
    ("mask-coded", 100, "41", "table too long"),
    ("plain-differences", 6, "05", "reserved flags"),
    ("plain-differences", 97, "ffffffff", "plain section too short"),
    ("plain-differences", 101, "02", "sum to plain_count"),
    ("plain-differences", 109, "0000c07f", "not finite"),
    ("plain-differences", 109, "00000080", "step out of range"),
    ("plain-differences", 117, "19", "Rice parameter"),
    ("plain-differences", 117, "18", "cut short"),
    ("plain-differences", 117, "00", "bytes after the plain"),
    ("mrn-binary-magnitudes", 60, "0ad7233c", "magnitude out of range"),
    ("mrn-binary-magnitudes", 84, "02", "must be understood"),
    ("mrn-binary-magnitudes", 84, "0100", "magnitude out of range"),
    ("mrn-binary-magnitudes", 86, "17", "magnitudes cut short"),
    ("mrn-binary-magnitudes", 86, "20", "extension cut short"),
    ("mrn-binary-magnitudes", 86, "00", "magnitudes cut short"),
    ("mrn-binary-magnitudes", 88, "00", "sum to params"),
    ("mrn-binary-magnitudes", 88, "49", "sum to params"),
    ("mrn-binary-magnitudes", 92, "0000c07f", "magnitude out of range"),
    ("mrn-binary-magnitudes", 92, "00000000", "magnitude out of range"),
    ("broadcast-magnitudes", 6, "00000003000000580200", "magnitudes without noise")]


def check_forgeries():
    """Damage under a correct checksum, which only the other checks can notice. The same
    frames stand in REFUSED, for other implementations to refuse."""
    for number, (name, at, new, complaint) in enumerate(FORGERIES):
        data, new = (GOLDEN / f"{name}.frame").read_bytes(), bytes.fromhex(new)
        body = data[:at] + new + data[at + len(new):-8]
        forged = body + xxhash.xxh64_intdigest(body).to_bytes(8, "little")
        said = "nothing"
        try:
            parse_frame(forged)
        except ValueError as error:
            said = str(error)
        check(complaint in said, f"{name}, {new.hex()} at {at}: '{said}', not '{complaint}'")
        path = REFUSED / f"{number:02}-{name}-at-{at}.frame"
        if os.environ.get("FEDMRN_WRITE_GOLDEN"):
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(forged)
        check(path.read_bytes() == forged, f"{path.name} differs")


def check_philox():
    check(random_bytes(0, NOISE, 16).hex(" ") ==
          "d5 e8 27 66 8d c5 69 e1 4c ac 57 bc d8 db 00 9b", "seed 0 differs")
    check(client_seed(0x123456789ABCDEF, 3, 5) == CLIENT_SEED_EXAMPLE, "client seed differs")
    check(random_bytes(0x123456789, NOISE, 8).hex(" ") == "32 da a1 5a 2a 01 11 b6",
          "the example's seed differs")


def check_gaussian_table():
    table = gaussian_table()
    check((table == -table[::-1]).all(), "not symmetric")
    check((table[32768], table[65535]) == (1, 17715), "entries differ")
    check(xxhash.xxh64_intdigest(table.tobytes()) == 0xdbc0c33884cf3493, "XXH64 differs")


def check_fingerprint():
    check(fingerprint([("conv.weight", True, [32, 1, 3, 3]), ("bn.weight", False, [32]),
                       ("out.weight", True, [10, 256])]) == 0xcf49829377cade6a, "differs")


def aggregate(model, updates):
    """Page, "Aggregation": the new (weights, plain) from a broadcast and a round's updates."""
    weights, plain = decode_update(model).astype(np.float64), np.zeros(len(model.plain), object)
    total = sum(frame.header.examples for frame in updates)
    sums = np.zeros(len(weights), np.int64)
    for frame in updates:
        h = frame.header
        if h.codec in (3, 4):
            mask = frame.parts.astype(np.int64) if h.codec == 3 else 2 * frame.parts.astype(np.int64) - 1
            sums += h.examples * noise_odds(h).astype(np.int64) * mask
            unit = noise_unit(h).astype(np.float64)
        else:
            scaled = decode_update(frame).astype(np.float64) * float(h.examples * 2**26)
            sums += np.rint(scaled).astype(np.int64)
            unit = 2.0**-26
        plain += h.examples * np.array([round(float(v) * 2**40) for v in frame.plain], object)
    new = weights + sums.astype(np.float64) * (unit / total)
    new_plain = plain.astype(np.float64) * (1 / total * 2.0**-40)
    return new.astype(np.float32), new_plain.astype(np.float32)


def steer(model, updates):
    """Page, "Magnitudes": those of the next round, for a share of ones of 0.1."""
    lengths, magnitudes = model.header.magnitudes
    ends = np.cumsum(lengths)
    steered = []
    for end, length, magnitude in zip(ends, lengths, magnitudes):
        ones = sum(int(frame.parts[end - length:end].sum()) for frame in updates)
        factor = math.sqrt(ones / (len(updates) * int(length)) / 0.1)
        factor = min(max(factor, 0.5), 2.0)
        steered.append(min(max(np.float32(float(magnitude) * factor), 2.0**-20), 2.0))
    return lengths, steered


def check_rounds():
    """Golden rounds: before.frame and client-*.frame give after.frame."""
    folders = sorted(ROUNDS.iterdir())
    check(folders, "no rounds")
    exact = lambda magnitudes: [(int(n), float(a)) for n, a in zip(*magnitudes)]
    for folder in folders:
        read = lambda path: parse_frame(path.read_bytes())
        updates = [read(path) for path in sorted(folder.glob("client-*.frame"))]
        for frame in updates:
            h = frame.header
            check(h.seed in (0, client_seed(1, h.round, h.client)), f"{folder.name}: seed")
        after = read(folder / "after.frame")
        before = read(folder / "before.frame")
        weights, plain = aggregate(before, updates)
        if before.header.magnitudes is not None:
            check(all(exact(frame.header.magnitudes) == exact(before.header.magnitudes)
                      for frame in updates), f"{folder.name}: magnitudes")
            check(exact(steer(before, updates)) == exact(after.header.magnitudes),
                  f"{folder.name}: magnitudes differ")
        check(weights.tobytes() == decode_update(after).tobytes(), f"{folder.name}: weights differ")
        check(plain.tobytes() == after.plain.tobytes(), f"{folder.name}: plain values differ")


def check_page_example():
    """The hex dump in the page is the golden frame, and parameter 5 is what it says."""
    dump = b""
    line = re.compile(r"^ {4}([0-9a-f]{2}): ([0-9a-f]{2}(?: [0-9a-f]{2})*) {2,}", re.M)
    for offset, hexes in line.findall(PAGE.read_text(encoding="utf-8")):
        check(int(offset, 16) == len(dump), f"offset {offset} is wrong")
        dump += bytes.fromhex(hexes)
    check(dump == (GOLDEN / "mrn-binary-uniform.frame").read_bytes(),
          "the page's bytes differ from the file's")
    value = decode_update(parse_frame(dump))[5]
    check(math.isclose(value, 0.000117187, rel_tol=1e-5), f"parameter 5 is {value}")


def check_folders(folders):
    checks = [("Philox", check_philox), ("gaussian table", check_gaussian_table),
              ("fingerprint", check_fingerprint), ("page's example", check_page_example),
              ("forgeries", check_forgeries), ("rounds", check_rounds)]
    for folder in folders:
        paths = sorted(Path(folder).glob("*.frame"))
        checks += [("frames found", lambda paths=paths: check(paths, "no *.frame in it"))]
        checks += [(path.stem, lambda path=path: check_frame(path)) for path in paths]
    failed = 0
    for name, run in checks:
        try:
            print(f"{name:22} {run() or 'ok'}")
        except (ValueError, OSError) as error:
            failed += 1
            print(f"{name:22} FAILED: {error}")
    print(f"{len(checks) - failed} passed, {failed} failed")
    return 1 if failed else 0


def show(path):
    frame = parse_frame(Path(path).read_bytes())
    for field, value in frame.header._asdict().items():
        print(f"{field:14} {value:#x}" if field in ("fingerprint", "seed")
              else f"{field:14} {value}")
    print("codec name    ", CODECS[frame.header.codec])
    print("first values  ", *decode_update(frame)[:8])
    print("first plain   ", *frame.plain[:8])
    return 0


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "--show":
        return show(arguments[1])
    if arguments and not any(argument.startswith("-") for argument in arguments):
        return check_folders(arguments)
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
