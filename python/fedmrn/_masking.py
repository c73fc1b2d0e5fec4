"""One local step of Algorithm 1 in torch operations, for devices that the C++
kernels cannot reach: the same noise and masks to the bit as fedmrn/core/mask.cc,
whose ``ref::MaskedStep`` is the definition. Every operation rounds once, as
there; nothing here may be fused or reordered.
"""

from __future__ import annotations

import torch

import fedmrn
from fedmrn import _core

_WORD = 0xFFFFFFFF
_NOISE, _STEP = 0, 2  # Purpose of fedmrn/core/philox.h
# Parameters that are drawn at a time, so that words, which torch can only hold
# in int64, never take more than some megabytes. A multiple of 128, the most
# parameters that one block serves.
_CHUNK = 1 << 20


def philox_words(seed: int, purpose: int, sub: int, first_block: int,
                 blocks: int, rounds: int,
                 device: torch.device) -> torch.Tensor:
    """Words of a stream, 32 bits each in an int64. Products wrap around at 64
    bits, which leaves both of their halves as unsigned arithmetic has them."""
    block = torch.arange(first_block, first_block + blocks, dtype=torch.int64,
                         device=device)
    x0, x1 = block & _WORD, block >> 32
    x2 = torch.full_like(block, sub)
    x3 = torch.full_like(block, purpose)
    k0, k1 = seed & _WORD, seed >> 32
    for _ in range(rounds):
        p0, p1 = x0 * 0xD2511F53, x2 * 0xCD9E8D57
        x0, x1, x2, x3 = ((p1 >> 32) & _WORD ^ x1 ^ k0, p1 & _WORD,
                          (p0 >> 32) & _WORD ^ x3 ^ k1, p0 & _WORD)
        k0, k1 = (k0 + 0x9E3779B9) & _WORD, (k1 + 0xBB67AE85) & _WORD
    return torch.stack((x0, x1, x2, x3), 1).flatten()


def _fields(words: torch.Tensor, bits: int) -> torch.Tensor:
    """The words cut into fields of so many bits, the lowest first."""
    shifts = torch.arange(0, 32, bits, dtype=torch.int64, device=words.device)
    return (words[:, None] >> shifts & ((1 << bits) - 1)).flatten()


def noise(kind: str, magnitude: fedmrn.Magnitude, seed: int, count: int,
          device: torch.device) -> torch.Tensor:
    """G(seed), as ``fedmrn.noise`` gives it."""
    bits = {"uniform": 8, "gaussian": 16, "bernoulli": 1}[kind]
    one, of_tensors = fedmrn._magnitudes(magnitude)
    units = torch.tensor(
        [_core.noise_unit(kind, a) for _, a in of_tensors or [(count, one)]],
        dtype=torch.float32, device=device)
    lengths = torch.tensor([n for n, _ in of_tensors or [(count, one)]],
                           device=device)
    unit = units.repeat_interleave(lengths)
    table = torch.from_numpy(_core.gaussian_odds()).to(device)
    values = torch.empty(count, device=device)
    for first in range(0, count, _CHUNK):
        part = values[first:first + _CHUNK]
        per_block = 128 // bits
        blocks = -(-len(part) // per_block)
        words = philox_words(seed, _NOISE, 0, first // per_block, blocks, 10,
                             device)
        k = _fields(words, bits)[:len(part)]
        if kind == "uniform":
            odd = 2 * torch.where(k < 128, k, k - 256) + 1
        elif kind == "gaussian":
            odd = table[k]
        else:
            odd = 2 * k - 1
        part.copy_(odd.float() * unit[first:first + _CHUNK])
    return values


def masked_step(weights: torch.Tensor, update: torch.Tensor,
                effective: torch.Tensor, noise: torch.Tensor, *, mask: str,
                draw_seed: int, step: int, total_steps: int, stochastic: bool,
                progressive: bool) -> None:
    """effective = weights + u_hat, drawn for ``step``."""
    one = torch.ones((), dtype=torch.float32)
    share = (one * step / (one * total_steps) * 65536 if progressive
             else one * 65536).item()  # in float32, as the kernel has it
    for first in range(0, len(weights), _CHUNK):
        chunk = slice(first, first + _CHUNK)
        u, n = update[chunk], noise[chunk]
        words = philox_words(draw_seed, _STEP, step, first // 8,
                             -(-len(u) // 8), 7, u.device)
        uniform = _fields(words, 16)[:len(u)].float() + 0.5
        a = n.abs()
        along = torch.where(n < 0, -u, u)
        zero = torch.zeros((), device=u.device)
        if mask == "binary":
            clipped = torch.where(along > 0, torch.where(along < a, along, a),
                                  zero)
            keep = uniform * a < along * share if stochastic else along > 0
            hat = torch.where(uniform < share, torch.where(keep, a, zero),
                              clipped)
            hat = torch.where(n < 0, -hat, hat)
        else:
            clipped = torch.where(u < a, torch.where(u > -a, u, -a), a)
            if stochastic:
                positive = (uniform + uniform) * a < (u + a) * share
                drawn = torch.where(positive, a, -a)
            else:
                drawn = torch.where(along > 0, n, -n)
            hat = torch.where(uniform < share, drawn, clipped)
        torch.add(weights[chunk], hat, out=effective[chunk])
