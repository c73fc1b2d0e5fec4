"""What the package costs, as ratios within one run.

    python -m fedmrn.bench [--json] [--repeat N]

masked_sgd_overhead       a whole training step of CNN4 (batch 64) with
                          MaskedSGD, over one with torch.optim.SGD, less 1
aggregate_vs_numpy_ratio  Aggregator.add of one frame of plain mask bits, over
                          NumPy's acc += w * x of float32, 2^22 parameters;
                          eight additions of one, then eight of the other: in
                          turns one by one, which pushes both sums out of the
                          cache, the ratio is higher
aggregate_coded_vs_numpy_ratio  the same of an entropy-coded frame
wheel_kb                  the wheel's files, compressed, in kB

Times are the CPU's, medians of pairs; a busy machine still shows in them.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import statistics
import sys
import time
import zlib
from typing import Callable, Dict, List

import numpy as np

import fedmrn


def _seconds(work: Callable[[], object]) -> float:
    """Of the CPU: all of this is one thread's work, and others may be busy."""
    start = time.process_time()
    work()
    return time.process_time() - start


def _median_ratio(one: Callable[[], object], other: Callable[[], object],
                  repeat: int) -> float:
    """Of times taken in turns, so that whatever else the machine does meets
    both alike."""
    one(), other()
    ratios: List[float] = []
    for i in range(repeat):
        if i % 2 == 0:
            a = _seconds(one)
            b = _seconds(other)
        else:
            b = _seconds(other)
            a = _seconds(one)
        ratios.append(a / b)
    return statistics.median(ratios)


def masked_sgd_overhead(repeat: int) -> float:
    import torch
    from torch import nn

    from fedmrn.torch import MaskedSGD

    torch.set_num_threads(1)

    def cnn4() -> nn.Module:
        layers: List[nn.Module] = []
        channels = 1
        for width in 32, 64, 128, 256:
            layers += [nn.Conv2d(channels, width, 3, padding=1, bias=False),
                       nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2)]
            channels = width
        return nn.Sequential(*layers, nn.Flatten(),
                             nn.Linear(256, 10, bias=False))

    x, y = torch.randn(64, 1, 28, 28), torch.randint(10, (64,))
    steps = 5

    def trainer(masked: bool) -> Callable[[], None]:
        model = cnn4()
        if masked:
            opt: torch.optim.Optimizer = MaskedSGD(
                model, 0.1, (repeat + 1) * steps, 1)
        else:
            opt = torch.optim.SGD(model.parameters(), 0.1)

        def work() -> None:
            for _ in range(steps):
                opt.zero_grad(set_to_none=True)
                nn.functional.cross_entropy(model(x), y).backward()
                opt.step()

        return work

    return _median_ratio(trainer(True), trainer(False), repeat) - 1


def aggregate_vs_numpy_ratio(repeat: int, entropy: bool = False) -> float:
    # Several at a time, as a server does: the sum stays where it is.
    size, together, client = 1 << 22, 8, 0
    update = np.linspace(-0.01, 0.01, size, dtype=np.float32)
    # As many as are added, since nobody is counted twice.
    frame_of = [fedmrn.encode(update, codec="mrn-binary", noise="uniform",
                              magnitude=0.01, seed=1, client=i, examples=3,
                              entropy=entropy)
                for i in range((repeat + 1) * together)]
    server = fedmrn.Aggregator(codec="mrn-binary", noise="uniform",
                               magnitude=0.01, params=size)
    accumulator = np.zeros(size, np.float32)
    weight = np.float32(3)

    def add() -> None:
        nonlocal client
        for _ in range(together):
            server.add(frame_of[client])
            client += 1

    def numpy_add() -> None:
        nonlocal accumulator
        for _ in range(together):
            accumulator += weight * update

    return _median_ratio(add, numpy_add, repeat)


def wheel_kb() -> float:
    """Of the installed files, each deflated as in a wheel."""
    files = importlib.metadata.files("fedmrn") or []
    paths = [file for file in files if "__pycache__" not in str(file)]
    return sum(len(zlib.compress(file.read_binary())) for file in paths) / 1000


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m fedmrn.bench",
                                     description=__doc__,
                                     formatter_class=argparse.
                                     RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true",
                        help="one JSON object")
    parser.add_argument("--repeat", type=int, default=21,
                        help="measurements, of which the median is taken")
    arguments = parser.parse_args()
    if arguments.repeat < 1:
        parser.error("--repeat must be at least 1")
    figures: Dict[str, float] = {}
    try:
        figures["masked_sgd_overhead"] = masked_sgd_overhead(arguments.repeat)
    except ModuleNotFoundError as error:
        print(f"no masked_sgd_overhead: {error}", file=sys.stderr)
    figures.update({
        "aggregate_vs_numpy_ratio": aggregate_vs_numpy_ratio(arguments.repeat),
        "aggregate_coded_vs_numpy_ratio": aggregate_vs_numpy_ratio(
            arguments.repeat, entropy=True),
        "wheel_kb": wheel_kb(),
    })
    if arguments.json:
        print(json.dumps({key: round(value, 4)
                          for key, value in figures.items()}))
    else:
        for key, value in figures.items():
            print(f"{key:32}{value:10.4f}")


if __name__ == "__main__":
    main()
