#!/usr/bin/env python3
"""A second decoder for FedMRN frames, written from docs/wire-format.md alone.

    decode_frames.py FOLDER       check every NAME.frame in FOLDER against NAME.values
    decode_frames.py --show FILE  print a frame's header and its first values

Needs only numpy and xxhash. "Page" below means docs/wire-format.md; each function
names the section of the page that it follows.
"""
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
REFUSED = Path(__file__).resolve().parent / "refused"

CODECS = {1: "float32", 2: "float16", 3: "mrn-binary", 4: "mrn-signed", 5: "signsgd",
          6: "topk", 7: "terngrad", 8: "drive", 9: "eden", 10: "mask"}
UNIFORM, GAUSSIAN, BERNOULLI = 1, 2, 3
NOISE, ROTATION = 0, 1  # purposes of a random stream

HEADER = struct.Struct("<4sBBBBIIQQQQQIfII")  # 72 bytes
Header = namedtuple("Header", "magic version codec flags noise_kind round examples client "
                    "fingerprint seed params payload_bytes plain_count magnitude "
                    "codec_param reserved")
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
    h = Header(*HEADER.unpack_from(data))
    check(h.magic == b"FMRN", "wrong magic")
    check(h.version == 1, f"unknown version {h.version}")
    plain_width = 2 if h.flags & 1 else 4
    check(len(data) == 72 + h.payload_bytes + h.plain_count * plain_width + 8,
          "lengths do not add up")
    check(xxhash.xxh64_intdigest(data[:-8]) == int.from_bytes(data[-8:], "little"),
          "wrong checksum")

    check(h.codec in CODECS, f"unknown codec {h.codec}")
    check(h.flags <= 3, "reserved flags set")
    check(h.reserved == 0, "reserved field set")
    broadcast = h.flags & 2
    check(bool(broadcast) == (h.examples == 0), "wrong number of examples")
    check(not broadcast or h.codec in (1, 2), "broadcast that is not float")
    check(1 <= h.params <= 2**32, "params out of range")
    check(h.plain_count <= 2**28, "plain_count out of range")
    if h.codec in (3, 4):
        check(h.noise_kind in (UNIFORM, GAUSSIAN, BERNOULLI), "unknown noise_kind")
        check(2.0**-64 <= h.magnitude <= 2.0**10, "magnitude out of range")
    else:
        check(h.noise_kind == 0, "noise_kind in a codec without noise")
        check(data[60:64] == bytes(4), "magnitude in a codec without noise")
    check(h.seed == 0 or h.codec in (3, 4, 8, 9), "seed in a codec without randomness")
    allowed = {8: (0, 1), 9: (1, 2, 3, 4)}.get(h.codec, (0,))
    check(h.codec_param in allowed, "codec_param out of range")

    payload = data[72:72 + h.payload_bytes]
    plain = read_floats(data[72 + h.payload_bytes:-8], plain_width)
    return Frame(h, payload, plain, split_payload(h, payload))


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
    if h.codec in (3, 4, 10):
        return read_bits(payload, h.params)
    if h.codec == 6:
        return split_topk(h, payload)
    return split_segments(h, payload)


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
    if h.codec == 7:
        return runs, scales, read_trits(payload[packed_at:], h.params)
    bits = h.codec_param if h.codec == 9 else 1
    return runs, scales, read_bits(payload[packed_at:], h.params * bits)


def read_trits(data, count):
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


def random_bytes(seed, purpose, count):
    """Page, "Random numbers": the first bytes of a Philox4x32-10 stream."""
    low = np.uint64(0xFFFFFFFF)
    high = np.uint64(32)
    block = np.arange((count + 15) // 16, dtype=np.uint64)
    x0, x1, x2, x3 = block & low, block >> high, 0 * block, 0 * block + np.uint64(purpose)
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * x0, np.uint64(0xCD9E8D57) * x2
        x0, x1, x2, x3 = ((p1 >> high) ^ x1 ^ np.uint64(k0), p1 & low,
                          (p0 >> high) ^ x3 ^ np.uint64(k1), p0 & low)
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([x0, x1, x2, x3], axis=1).astype("<u4").tobytes()[:count]


def random_bits(seed, purpose, count):
    stream = np.frombuffer(random_bytes(seed, purpose, (count + 7) // 8), np.uint8)
    return np.unpackbits(stream, bitorder="little")[:count]


def gaussian_table():
    """Page, "Noise": the odd integers 2j + 1 for all 65536 values of k."""
    quantile = NormalDist().inv_cdf
    return np.array([2 * math.floor(2048 * quantile((k + 0.5) / 65536)) + 1
                     for k in range(65536)], "<i2")


def noise(h):
    """Page, "Noise": an odd integer times a unit, in f32."""
    if h.noise_kind == UNIFORM:
        stream = np.frombuffer(random_bytes(h.seed, NOISE, h.params), np.int8)
        odd, divisor = 2 * stream.astype(np.int32) + 1, 256
    elif h.noise_kind == GAUSSIAN:
        stream = np.frombuffer(random_bytes(h.seed, NOISE, 2 * h.params), "<u2")
        odd, divisor = gaussian_table()[stream], 4096
    else:
        odd, divisor = 2 * random_bits(h.seed, NOISE, h.params).astype(np.int32) - 1, 1
    return odd.astype(np.float32) * (np.float32(h.magnitude) / np.float32(divisor))


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
    plain = np.array([1, -0.5, 0, 3.140625], np.float32)[:frame.header.plain_count]
    check(frame.plain.tobytes() == plain.tobytes(), "plain section differs")
    check(refused(data + b"\0"), "accepted a byte too many")
    for at in range(len(data)):
        check(refused(data[:at]), f"accepted when cut to {at} bytes")
        damaged = bytearray(data)
        for flip in range(1, 256):
            damaged[at] = data[at] ^ flip
            check(refused(bytes(damaged)), f"accepted with byte {at} ^ {flip:#04x}")
    h = frame.header
    return f"{CODECS[h.codec]:10} {len(data):5} bytes {h.params:5} params"


FORGERIES = [  # frame, offset, bytes to put there, what parse_frame() must say
    ("mrn-binary-uniform", 5, "0b", "unknown codec"),
    ("mrn-binary-uniform", 6, "04", "reserved flags"),
    ("mrn-binary-uniform", 7, "00", "unknown noise_kind"),
    ("mrn-binary-uniform", 7, "04", "unknown noise_kind"),
    ("mrn-binary-uniform", 12, "00000000", "wrong number of examples"),
    ("mrn-binary-uniform", 40, "00", "params out of range"),
    ("mrn-binary-uniform", 40, "69", "wrong payload length"),
    ("mrn-binary-uniform", 60, "00000000", "magnitude out of range"),
    ("mrn-binary-uniform", 60, "0000c07f", "magnitude out of range"),
    ("mrn-binary-uniform", 64, "01", "codec_param"),
    ("mrn-binary-uniform", 68, "01", "reserved field"),
    ("mrn-binary-uniform", 84, "0f", "padding bits"),
    ("mrn-binary-uniform", 85, "0000807f", "not finite"),
    ("float32", 7, "01", "noise_kind in a codec"),
    ("float32", 32, "01", "seed in a codec"),
    ("float32", 60, "0000803f", "magnitude in a codec"),
    ("float32", 72, "0000c07f", "not finite"),
    ("float16", 72, "007c", "not finite"),
    ("signsgd", 72, "ffffffff", "payload too short"),
    ("signsgd", 76, "00", "empty segment"),
    ("signsgd", 76, "49", "sum to params"),
    ("signsgd", 91, "bb", "negative scale"),
    ("signsgd", 88, "00000080", "negative scale"),
    ("drive", 88, "00008860", "scale beyond 2^64"),
    ("broadcast", 12, "01", "wrong number of examples"),
    ("terngrad", 100, "f3", "not five trits"),
    ("terngrad", 119, "00", "padding trits"),
    ("drive", 64, "02", "codec_param"),
    ("eden-4", 64, "05", "codec_param"),
    ("eden-4", 64, "03", "wrong payload length"),
    ("topk", 72, "00", "k out of range"),
    ("topk", 76, "20", "Rice parameter"),
    ("topk", 160, "ff" * 9, "Rice code cut short"),
    ("topk", 160, "ff" * 8 + "00", "beyond the vector"),
    ("topk", 160, "00" * 9, "bytes after the Rice code"),
    ("topk", 168, "86", "padding bits"),
    ("mask", 84, "ff", "padding bits")]


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


def check_folder(folder):
    checks = [("Philox", check_philox), ("gaussian table", check_gaussian_table),
              ("fingerprint", check_fingerprint), ("page's example", check_page_example),
              ("forgeries", check_forgeries)]
    paths = sorted(Path(folder).glob("*.frame"))
    checks += [("frames found", lambda: check(paths, "no *.frame in the folder"))]
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
    if len(arguments) == 1 and not arguments[0].startswith("-"):
        return check_folder(arguments[0])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
