"""Models and frames as Flower's records."""

from __future__ import annotations

import json
from typing import Dict, List, NamedTuple, Optional

import numpy as np
from flwr.app import Array, ArrayRecord, RecordDict

import fedmrn
from fedmrn import FrameError, Layout

STYPE = "fedmrn.frame"
FRAME = "fedmrn.frame"  # the name of the array that is one
TASK = "fedmrn"         # the name of the record that says what to do
WHO = json.dumps("who")  # the task of saying which client a node is

# Names of methods, beside those of the codecs themselves.
CODEC_OF_METHOD = {"fedavg": "float32", "fedmrn": "mrn-binary",
                   "fedmrns": "mrn-signed", "fedpm": "mask"}


def codec_of(method: str) -> fedmrn.Codec:
    name = CODEC_OF_METHOD.get(method, method)
    rows = {codec.name: codec for codec in fedmrn.codecs()}
    if name not in rows:
        known = ", ".join([*CODEC_OF_METHOD, *rows])
        raise ValueError(f"there is no method '{method}'; there are {known}")
    return rows[name]


def frame_array(frame: bytes) -> Array:
    return Array(dtype="uint8", shape=(len(frame),), stype=STYPE, data=frame)


def frame_of(content: RecordDict) -> bytes:
    for record in content.array_records.values():
        if FRAME in record and record[FRAME].stype == STYPE:
            return bytes(record[FRAME].data)
    raise FrameError("the message has no frame", "foreign")


class Values(NamedTuple):
    """The values of a model that travel, as frames have them."""
    coded: np.ndarray
    plain: np.ndarray


def pack(layout: Layout, arrays: ArrayRecord) -> Values:
    flat: Dict[bool, List[np.ndarray]] = {True: [], False: []}
    for name, shape, coded in layout.tensors:
        if name not in arrays:
            raise ValueError(f"the arrays have no '{name}', the layout has")
        values = arrays[name].numpy()
        if values.dtype != np.float32 or values.shape != shape:
            raise ValueError(
                f"array '{name}' is {values.dtype} of shape {values.shape}, "
                f"must be float32 of shape {shape}")
        flat[coded].append(values.reshape(-1))
    empty = np.empty(0, np.float32)
    return Values(np.concatenate([empty, *flat[True]]),
                  np.concatenate([empty, *flat[False]]))


def unpack(layout: Layout, values: Values,
           others: Dict[str, Optional[Array]]) -> ArrayRecord:
    """``others`` has the names of all arrays in their order, and those arrays
    that do not travel in frames."""
    named: Dict[str, Array] = {}
    first = {True: 0, False: 0}
    for name, shape, coded in layout.tensors:
        last = first[coded] + int(np.prod(shape))
        part = (values.coded if coded else values.plain)[first[coded]:last]
        named[name] = Array(part.reshape(shape))
        first[coded] = last
    return ArrayRecord({name: named[name] if array is None else array
                        for name, array in others.items()})


# FedPM's model is scores; what travels are the probabilities behind them.


def probabilities(scores: np.ndarray) -> np.ndarray:
    return (1 / (1 + np.exp(-scores.astype(np.float64)))).astype(np.float32)


def scores(probabilities: np.ndarray) -> np.ndarray:
    p = np.clip(probabilities.astype(np.float64), 0.01, 0.99)
    return np.log(p / (1 - p)).astype(np.float32)
