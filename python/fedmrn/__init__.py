"""FedMRN's core in Python: noise, frames and their aggregation, to the bit as
the C++ program has them. ``fedmrn.torch`` trains with it.

A client's update becomes a frame, which is ``bytes``; a server adds frames up:

>>> import numpy as np
>>> import fedmrn
>>> layout = fedmrn.Layout([("weight", (10, 20), True), ("bias", (10,), False)])
>>> update = np.linspace(-0.01, 0.01, layout.params, dtype=np.float32)
>>> frame = fedmrn.encode(update, np.zeros(10, np.float32), layout=layout,
...                       codec="mrn-binary", noise="uniform", magnitude=0.01,
...                       seed=7, examples=600)
>>> len(frame)  # 200 parameters in 25 bytes, ten floats, header and checksum
157
>>> server = fedmrn.Aggregator(layout, codec="mrn-binary", noise="uniform",
...                            magnitude=0.01)
>>> server.add(frame)
>>> weights, plain = np.zeros(200, np.float32), np.empty(10, np.float32)
>>> server.finish(weights, plain)
>>> bool((weights == fedmrn.decode(frame)).all())
True

Arrays are NumPy's or torch tensors in the CPU's memory, float32, of one
dimension and contiguous; they are used in place, never copied, and anything
else is a TypeError that says what is wrong.
"""

from __future__ import annotations

from typing import (TYPE_CHECKING, Any, Iterable, List, NamedTuple, Optional,
                    Sequence, Tuple, Union)

import numpy as np

from fedmrn._error import FrameError

try:
    from fedmrn import _core
    from fedmrn._core import Frame
except ImportError as error:
    import sys
    raise ImportError(
        "fedmrn's compiled part cannot be loaded by Python "
        f"{sys.version_info.major}.{sys.version_info.minor} ({error}). Its "
        "wheel is for another Python or another machine: build it here with "
        "`pip install --force-reinstall --no-cache-dir .` in its source folder."
    ) from error

if TYPE_CHECKING:
    import torch
    FloatVector = Union[np.ndarray, torch.Tensor]
# One for all parameters, or each coded tensor's length and magnitude.
Magnitude = Union[float, Sequence[Tuple[int, float]]]

__all__ = ["Aggregator", "Codec", "Frame", "FrameError", "Layout",
           "client_seeds", "codecs", "decode", "encode", "noise", "parse"]

_MAX_PARAMS = 1 << 32
_MAGNITUDES = {"mrn-binary": 0.01, "mrn-signed": 0.005}  # by default


def _integer(name: str, value: Any, bits: int) -> int:
    try:
        number = value.__index__()
    except AttributeError:
        raise TypeError(f"{name} must be an integer, not "
                        f"{type(value).__name__}") from None
    if not 0 <= number < 1 << bits:
        raise ValueError(f"{name} must be 0 to 2^{bits} - 1, not {number}")
    return number


def _magnitudes(value: Any) -> Tuple[float, List[Tuple[int, float]]]:
    """The magnitude of all parameters, or 0 and those of the tensors."""
    if hasattr(value, "__float__"):
        return float(value), []
    try:
        return 0.0, [(_integer("a tensor's length", length, 32),
                      float(magnitude)) for length, magnitude in value]
    except (TypeError, ValueError) as error:
        raise TypeError(
            "magnitude must be a number, or pairs of a tensor's length and its "
            f"magnitude, not {value!r}") from error


def _threads(value: Any) -> int:
    return max(1, _integer("threads", value, 15))


def _frame(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"a frame is bytes, not {type(value).__name__}")
    return value


class Layout:
    """Which tensors a model has, in which order, and which of them are
    compressed ("coded"); the others travel as plain values.

    >>> layout = Layout([("conv.weight", (32, 1, 3, 3), True),
    ...                  ("bn.weight", (32,), False),
    ...                  ("out.weight", (10, 256), True)])
    >>> layout.params, layout.plain_count, layout.segments
    (2848, 32, [288, 2560])
    >>> hex(layout.fingerprint)
    '0xcf49829377cade6a'
    """

    def __init__(self, tensors: Iterable[Tuple[str, Sequence[int], bool]]):
        self._core = _core.Layout([
            (str(name), [_integer(f"an extent of {name}", n, 32) for n in shape],
             bool(coded))
            for name, shape, coded in tensors])
        self.fingerprint: int = self._core.fingerprint
        self.params: int = self._core.params
        self.plain_count: int = self._core.plain_count
        self.segments: List[int] = self._core.segments
        self.plain_segments: List[int] = self._core.plain_segments

    @property
    def tensors(self) -> List[Tuple[str, Tuple[int, ...], bool]]:
        return self._core.tensors

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self.tensors == other.tensors

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return (f"<fedmrn.Layout of {len(self.tensors)} tensors, "
                f"{self.params} coded and {self.plain_count} plain values, "
                f"{self.fingerprint:#018x}>")


class Codec(NamedTuple):
    """A row of the table of codecs (docs/wire-format.md)."""
    id: int
    name: str
    summary: str
    uses_noise: bool
    uses_seed: bool
    carries_models: bool
    encodes_probabilities: bool


def codecs() -> List[Codec]:
    """All codecs.

    >>> [codec.name for codec in codecs() if codec.uses_noise]
    ['mrn-binary', 'mrn-signed']
    """
    return [Codec(*row) for row in _core.codecs()]


def noise(kind: str, magnitude: float, seed: int, count: Optional[int] = None,
          *, first: int = 0, out: Optional[FloatVector] = None) -> FloatVector:
    """The noise G(seed) of ``count`` parameters from number ``first`` on, in a
    new array or in ``out``.

    >>> [float(n) for n in noise("bernoulli", 0.5, seed=0, count=4)]
    [0.5, -0.5, 0.5, -0.5]
    """
    if (count is None) == (out is None):
        raise TypeError("noise takes either count or out")
    if out is None:
        out = np.empty(_integer("count", count, 33), np.float32)
    _core.noise(kind, magnitude, _integer("seed", seed, 64),
                _integer("first", first, 33), out)
    return out


def client_seeds(run_seed: int, round: int, client: int) -> Tuple[int, int]:
    """The seeds of a client in a round, as the C++ program has them: that of
    its frame (noise, dither, rotation), which a server can check, and that of
    its own draws.

    >>> hex(client_seeds(0x0123456789abcdef, round=3, client=5)[0])
    '0x5257bce47d64b66d'
    """
    return _core.client_seeds(_integer("run_seed", run_seed, 64),
                              _integer("round", round, 32),
                              _integer("client", client, 64))


def encode(update: FloatVector, plain: Optional[FloatVector] = None, *,
           codec: str, layout: Optional[Layout] = None, examples: int = 0,
           run: int = 0, round: int = 0, client: int = 0, fingerprint: int = 0,
           noise: str = "none", magnitude: Magnitude = 0.0, seed: int = 0,
           draw_seed: int = 0, segments: Sequence[int] = (),
           broadcast: bool = False, plain_as: str = "float32",
           plain_reference: Optional[FloatVector] = None,
           plain_segments: Sequence[int] = (),
           entropy: bool = True, stochastic: bool = True, scale: float = 0.0,
           keep: float = 0.03, clip: float = 2.5, unbiased: bool = True,
           bits: int = 1) -> bytes:
    """Compresses an update and wraps it up as a frame.

    ``plain`` is what is not compressed; it travels as float32, float16 or
    "delta", quantised differences to ``plain_reference``, the values that the
    broadcast had. A ``layout`` gives fingerprint and segments, and both vectors
    must have its sizes. ``examples`` is the
    client's, at least 1 but in a ``broadcast``. ``noise`` and ``magnitude``
    are for the mrn codecs; instead of one magnitude there may be pairs of a
    tensor's length and its magnitude, as ``Frame.magnitudes`` has them, which a
    broadcast may carry as well. ``seed`` is for those that say ``uses_seed``, and
    ``draw_seed`` for the private draws of other stochastic codecs. The rest are
    the codecs' own settings: ``entropy`` and ``stochastic`` (mrn), ``scale``
    (signsgd), ``keep`` (topk), ``clip`` (terngrad), ``unbiased`` (drive; if
    not, the scale of least error) and ``bits`` (eden).

    >>> frame = encode(np.float32([1, 0, -2]), codec="float32", examples=1)
    >>> decode(frame).tolist()
    [1.0, 0.0, -2.0]
    >>> encode(np.float32([1, float("nan")]), codec="float32", examples=1)
    Traceback (most recent call last):
    ...
    fedmrn.FrameError: update value 1 is not finite
    >>> encode(np.zeros(3), codec="float32", examples=1)
    Traceback (most recent call last):
    ...
    TypeError: update: has dtype float64, must have float32
    """
    if layout is not None:
        fingerprint, segments = layout.fingerprint, layout.segments
        plain_segments = layout.plain_segments
        _check_size("update", update, layout.params)
        _check_size("plain", () if plain is None else plain,
                    layout.plain_count)
    one, of_tensors = _magnitudes(magnitude)
    return _core.encode(
        update, plain, codec=codec, broadcast=broadcast, plain_as=plain_as,
        plain_reference=plain_reference,
        plain_segments=[_integer("a plain segment", n, 32)
                        for n in plain_segments],
        run=_integer("run", run, 64), round=_integer("round", round, 32),
        client=_integer("client", client, 64),
        examples=_integer("examples", examples, 32),
        fingerprint=_integer("fingerprint", fingerprint, 64), noise=noise,
        magnitude=one, magnitudes=of_tensors,
        seed=_integer("seed", seed, 64),
        draw_seed=_integer("draw_seed", draw_seed, 64),
        segments=[_integer("a segment", n, 32) for n in segments],
        entropy=entropy, stochastic=stochastic, scale=scale, keep=keep,
        clip=clip, unbiased=unbiased, bits=_integer("bits", bits, 8))


def _check_size(name: str, values: Any, size: int) -> None:
    if len(values) != size:
        raise TypeError(
            f"{name}: has {len(values)} values, the layout {size}")


def parse(frame: bytes, *, max_params: int = _MAX_PARAMS) -> Frame:
    """Checks everything about a frame and gives its fields.

    A short frame may claim many parameters: a receiver that knows its model
    says how many it can have.

    >>> frame = encode(np.zeros(5, np.float32), codec="topk", examples=3)
    >>> parsed = parse(frame)
    >>> parsed.codec, parsed.params, parsed.examples
    ('topk', 5, 3)
    >>> parse(frame[:-1] + b"!")
    Traceback (most recent call last):
    ...
    fedmrn.FrameError: offset 97: the checksum does not match: damaged on the way
    """
    return _core.parse(_frame(frame), _integer("max_params", max_params, 33))


def decode(frame: Union[bytes, Frame], *, out: Optional[FloatVector] = None,
           max_params: int = _MAX_PARAMS) -> FloatVector:
    """The update that a frame stands for (the model, if it is a broadcast), in
    a new array or in ``out``. A frame's other values: ``parse(frame).plain()``.

    >>> frame = encode(np.float32([3, 4]), codec="float16", examples=1)
    >>> decode(frame).tolist()
    [3.0, 4.0]
    """
    if not isinstance(frame, Frame):
        frame = parse(frame, max_params=max_params)
    return frame.decode(out)


class Aggregator:
    """The server's side of a round: frames in, a model out.

    The sum is kept in integers, so the result is the same to the bit whatever
    the order of arrival and the number of threads. A frame that is not of this
    round, model, codec and noise is refused with a FrameError, and the sum is
    untouched. With ``run_seed`` a client's seed must be that of
    ``client_seeds``. Its weight is ``examples / examples_per_weight``, rounded
    up. ``plain_reference``, the plain values of the broadcast, is for frames
    that carry differences to them. May be used by several threads.

    >>> layout = Layout([("w", (2, 2), True)])
    >>> server = Aggregator(layout, codec="float32", round=1)
    >>> for client in 0, 1:
    ...     server.add(encode(np.float32([client] * 4), codec="float32",
    ...                       layout=layout, round=1, client=client, examples=10))
    >>> weights = np.float32([1, 2, 3, 4])
    >>> server.finish(weights)
    >>> server.clients, weights.tolist()
    (2, [1.5, 2.5, 3.5, 4.5])
    """

    def __init__(self, layout: Optional[Layout] = None, *, codec: str,
                 noise: str = "none", magnitude: Magnitude = 0.0, run: int = 0,
                 round: int = 0, run_seed: Optional[int] = None,
                 params: int = 0, plain_count: int = 0, fingerprint: int = 0,
                 examples_per_weight: int = 1, max_examples: int = 1 << 20,
                 max_abs_value: float = 16.0,
                 plain_reference: Optional[FloatVector] = None):
        variances: List[Tuple[int, int]] = []
        if layout is not None:
            variances = layout._core.variances
            params, plain_count = layout.params, layout.plain_count
            fingerprint = layout.fingerprint
        one, of_tensors = _magnitudes(magnitude)
        self._core = _core.Aggregator(
            params=_integer("params", params, 64),
            plain_count=_integer("plain_count", plain_count, 32),
            fingerprint=_integer("fingerprint", fingerprint, 64), codec=codec,
            noise=noise, magnitude=one, magnitudes=of_tensors,
            run=_integer("run", run, 64),
            round=_integer("round", round, 32),
            run_seed=None if run_seed is None else _integer(
                "run_seed", run_seed, 64),
            examples_per_weight=_integer("examples_per_weight",
                                         examples_per_weight, 32),
            max_examples=_integer("max_examples", max_examples, 32),
            max_abs_value=max_abs_value, plain_reference=plain_reference,
            variances=variances)

    def add(self, frame: bytes, *, threads: int = 1) -> None:
        """Adds one client's frame, or raises FrameError. A mask is checked and
        counted at once and summed with the next one, or in ``finish``."""
        self._core.add(_frame(frame), _threads(threads))

    def add_all(self, frames: Sequence[bytes], *,
                threads: int = 1) -> List[Optional[FrameError]]:
        """Adds several, which is faster than one by one. A verdict each, in
        their order: None, or why the frame was refused."""
        return self._core.add_all([_frame(frame) for frame in frames],
                                  _threads(threads))

    def finish(self, weights: FloatVector,
               plain: Optional[FloatVector] = None, *,
               threads: int = 1) -> None:
        """weights += mean update; plain = mean plain section; both in place.
        The sum stays as it is."""
        self._core.finish(weights, plain, _threads(threads))

    def next_magnitudes(self, target: float = 0.1) -> List[Tuple[int, float]]:
        """What the magnitudes of tensors become for the next round, so that the
        share of ones in masks comes to ``target``: the program's
        ``method.magnitude = "auto"``. Pairs as in ``Frame.magnitudes``."""
        return self._core.next_magnitudes(target)

    @property
    def clients(self) -> int:
        """How many have been added."""
        return self._core.clients

    @property
    def total_weight(self) -> int:
        return self._core.total_weight

    @property
    def params(self) -> int:
        return self._core.params

    @property
    def plain_count(self) -> int:
        return self._core.plain_count

    @property
    def fingerprint(self) -> int:
        return self._core.fingerprint
