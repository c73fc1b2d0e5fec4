"""The network and the data."""

import functools
import gzip

import numpy as np
import torch
from torch import nn

FOLDER = "/usr/share/datasets/fashion-mnist"  # Debian's dataset-fashion-mnist

torch.set_num_threads(1)  # the same sums, whatever the machine is doing


def make_model(seed=1):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 16, 5), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 5), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(512, 128), nn.ReLU(), nn.Linear(128, 10))


@functools.lru_cache()
def load(split):
    """Images and labels of "train" or "t10k", in bytes."""
    def read(what, skip):
        with gzip.open(f"{FOLDER}/{split}-{what}-ubyte.gz") as file:
            values = np.frombuffer(file.read(), np.uint8, offset=skip)
        return torch.from_numpy(values.copy())

    return (read("images-idx3", 16).view(-1, 1, 28, 28),
            read("labels-idx1", 8).long())


def normalise(x):
    return (x.float() / 255 - 0.286) / 0.353


def batches_of(client, clients, config, seed):
    """The client's local training, its share of the examples in an order that
    the seed gives; and how many they are."""
    x, y = load("train")
    own = torch.arange(client, len(x), clients)[:config["examples"]]
    order = torch.Generator().manual_seed(seed % 2**63)
    batches = [batch for _ in range(config["epochs"]) for batch in
               own[torch.randperm(len(own), generator=order)].split(50)]
    return [(normalise(x[b]), y[b]) for b in batches], len(own)


def accuracy(model, count):
    x, y = (values[:count] for values in load("t10k"))
    model.eval()
    with torch.no_grad():
        right = sum(int((model(normalise(a)).argmax(1) == b).sum())
                    for a, b in zip(x.split(500), y.split(500)))
    return right / len(x)
