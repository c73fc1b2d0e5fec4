"""FedMRN for PyTorch: any module becomes a client.

A client trains with ``MaskedSGD`` instead of ``torch.optim.SGD`` and sends
``opt.frame(examples)``:

>>> import torch
>>> from fedmrn.torch import MaskedSGD, broadcast, finish, load_broadcast
>>> model = torch.nn.Linear(20, 10)
>>> down = broadcast(model, round=1)          # the server's model, in bytes
>>> header = load_broadcast(model, down)      # at the client
>>> opt = MaskedSGD(model, lr=0.1, total_steps=3, seed=7)
>>> for _ in range(3):
...     opt.zero_grad()
...     loss = model(torch.ones(4, 20)).square().mean()
...     loss.backward()
...     opt.step()
>>> up = opt.frame(examples=4, round=header.round)
>>> len(up), len(down)
(157, 932)

Parameters of two or more dimensions are compressed, or those that ``coded``
names, in the syntax of the program's ``model.masked`` (``"conv*,!head*"``); all
else that is float32, batch norm and its statistics among it, travels as plain
values. The layout is that of ``torch.jit.script(model)`` in ``fedmrn run``.
"""

from __future__ import annotations

import fnmatch
from typing import (Any, Callable, Dict, Iterable, List, NamedTuple, Optional,
                    Sequence, Tuple)

import torch
from torch import nn

import fedmrn
from fedmrn import Aggregator, Frame, FrameError, Layout, _core, _masking

__all__ = ["MaskedSGD", "Update", "aggregator", "broadcast", "finish",
           "layout", "load_broadcast"]


class _Slot(NamedTuple):
    name: str
    tensor: torch.Tensor
    coded: bool


class _Model:
    """The tensors of a module that travel, in the order of the wire."""

    def __init__(self, module: nn.Module, coded: str = ""):
        if not isinstance(module, nn.Module):
            raise TypeError("the model must be a torch.nn.Module, whose "
                            "tensors have names, not "
                            + type(module).__name__)
        patterns = _Patterns(coded)
        self.slots: List[_Slot] = []
        for name, tensor in module.named_parameters():
            if tensor.requires_grad and _travels(name, tensor):
                self.slots.append(
                    _Slot(name, tensor, patterns.match(name, tensor)))
        if not self.slots:
            raise ValueError("the model has no parameter that is trained")
        patterns.check_all_used()
        if not any(slot.coded for slot in self.slots):
            raise ValueError(
                "no parameter of the model would be compressed: none has two "
                "or more dimensions; name some with coded=")
        for name, buffer in module.named_buffers():
            if _travels(name, buffer):
                self.slots.append(_Slot(name, buffer, False))
        self.coded = [slot.tensor for slot in self.slots if slot.coded]
        self.plain = [slot.tensor for slot in self.slots if not slot.coded]
        self.layout = Layout((slot.name, tuple(slot.tensor.shape), slot.coded)
                             for slot in self.slots)

    def coded_values(self) -> torch.Tensor:
        """A copy on the device of the first tensor."""
        return _flat(self.coded)

    def plain_values(self) -> torch.Tensor:
        """A copy in the CPU's memory."""
        if not self.plain:
            return torch.empty(0)
        return torch.cat([t.detach().reshape(-1).cpu() for t in self.plain])

    @torch.no_grad()
    def set_coded(self, values: torch.Tensor) -> None:
        _scatter(values, self.coded)

    @torch.no_grad()
    def set_plain(self, values: torch.Tensor) -> None:
        _scatter(values, self.plain)


def _travels(name: str, tensor: torch.Tensor) -> bool:
    if not tensor.is_floating_point() or tensor.numel() == 0:
        return False
    if tensor.dtype != torch.float32:
        raise TypeError(f"{name} has dtype {tensor.dtype}, must have "
                        "torch.float32; convert the model with .float()")
    return True


class _Patterns:
    """Which parameters are coded."""

    def __init__(self, text: str):
        items = [item.strip() for item in text.split(",") if item.strip()]
        self.include = [item for item in items if not item.startswith("!")]
        self.exclude = [item[1:] for item in items if item.startswith("!")]
        self.unused = set(self.include + self.exclude)

    def match(self, name: str, tensor: torch.Tensor) -> bool:
        def any_of(patterns: List[str]) -> bool:
            matching = [p for p in patterns if fnmatch.fnmatchcase(name, p)]
            self.unused.difference_update(matching)
            return bool(matching)

        included = any_of(self.include) if self.include else tensor.dim() > 1
        return not any_of(self.exclude) and included

    def check_all_used(self) -> None:
        for pattern in sorted(self.unused):
            raise ValueError(
                f"no trained parameter has a name like '{pattern}' of coded=")


def _flat(tensors: Iterable[torch.Tensor]) -> torch.Tensor:
    return torch.cat([t.detach().reshape(-1) for t in tensors])


def _scatter(values: torch.Tensor, tensors: Iterable[torch.Tensor]) -> None:
    first = 0
    for tensor in tensors:
        last = first + tensor.numel()
        tensor.copy_(values[first:last].view(tensor.shape))
        first = last


def layout(model: nn.Module, *, coded: str = "") -> Layout:
    """What a server needs to know of the model to add its frames up.

    >>> layout(nn.Linear(20, 10)).tensors
    [('weight', (10, 20), True), ('bias', (10,), False)]
    """
    return _Model(model, coded).layout


def broadcast(model: nn.Module, *, coded: str = "", run: int = 0,
              round: int = 0, client: int = 0, half: bool = False,
              magnitudes: Sequence[Tuple[int, float]] = ()) -> bytes:
    """The model as a frame, in float32 or, ``half``, float16; with the
    magnitudes of this round's noise, if the server steers them
    (``Aggregator.next_magnitudes``)."""
    parts = _Model(model, coded)
    return fedmrn.encode(
        parts.coded_values().cpu(), parts.plain_values(),
        codec="float16" if half else "float32", layout=parts.layout, run=run,
        round=round, client=client, broadcast=True,
        magnitude=magnitudes or 0.0,
        plain_as="float16" if half else "float32")


def load_broadcast(model: nn.Module, frame: bytes, *,
                   coded: str = "") -> Frame:
    """Puts a broadcast's values into the model; gives the parsed frame, whose
    ``run`` and ``round`` the client's answer must have. A frame of another
    model is a FrameError, and the model stays as it is."""
    parts = _Model(model, coded)
    parsed = _parse_broadcast(parts, frame)
    parts.set_coded(torch.from_numpy(parsed.decode()))
    parts.set_plain(torch.from_numpy(parsed.plain()))
    return parsed


def _parse_broadcast(parts: _Model, frame: bytes) -> Frame:
    parsed = fedmrn.parse(frame, max_params=parts.layout.params)
    if not parsed.broadcast:
        raise FrameError("the frame is an update, not a broadcast", "foreign")
    if (parsed.fingerprint != parts.layout.fingerprint
            or parsed.params != parts.layout.params
            or parsed.plain_count != parts.layout.plain_count):
        raise FrameError("the broadcast is of another model", "foreign")
    return parsed


def aggregator(model: nn.Module, down: bytes, *, coded: str = "",
               **settings: Any) -> Aggregator:
    """The server's side of the round that the broadcast ``down`` of the model
    began; ``settings`` are those of ``fedmrn.Aggregator``, and the broadcast's
    magnitudes are the clients'."""
    parts = _Model(model, coded)
    parsed = _parse_broadcast(parts, down)
    if parsed.magnitudes:
        settings.setdefault("magnitude", parsed.magnitudes)
    return Aggregator(parts.layout, run=parsed.run, round=parsed.round,
                      plain_reference=parsed.plain(), **settings)


def finish(aggregator: Aggregator, model: nn.Module, *, coded: str = "",
           threads: int = 1) -> None:
    """Ends a server's round: the mean update is added to the model, and its
    plain values become their mean."""
    parts = _Model(model, coded)
    if aggregator.fingerprint != parts.layout.fingerprint:
        raise FrameError("the aggregator is of another model", "foreign")
    weights, plain = parts.coded_values().cpu(), parts.plain_values()
    aggregator.finish(weights, plain, threads=threads)
    parts.set_coded(weights)
    parts.set_plain(plain)


class Update:
    """For methods that compress after training: what a model learned since
    this was made, whatever the optimizer.

    >>> model = nn.Linear(20, 10)
    >>> before = Update(model)
    >>> with torch.no_grad():
    ...     _ = model.weight.add_(0.01)
    >>> frame = before.frame(examples=600, codec="eden", seed=7, bits=2)
    >>> fedmrn.parse(frame).codec
    'eden'
    """

    def __init__(self, model: nn.Module, *, coded: str = ""):
        self._model = _Model(model, coded)
        self._before = self._model.coded_values().cpu()
        self._plain_before = self._model.plain_values()

    @property
    def layout(self) -> Layout:
        return self._model.layout

    def frame(self, examples: int, *, codec: str, **settings: Any) -> bytes:
        """``settings`` are those of ``fedmrn.encode``."""
        now = self._model.coded_values().cpu()
        return fedmrn.encode(now.sub_(self._before),
                             self._model.plain_values(), codec=codec,
                             layout=self.layout, examples=examples,
                             plain_reference=self._plain_before, **settings)


class MaskedSGD(torch.optim.Optimizer):
    """A client's local training in FedMRN (the paper's Algorithm 1) as an
    optimizer: ``loss.backward(); opt.step()``, ``total_steps`` times, then
    ``opt.frame(examples)``.

    The weights w that the model has now stay frozen; an update u, from zero,
    learns beside them. In each step the model has w + u_hat, where u_hat is u
    in part replaced by masked noise, more and more so (progressive stochastic
    masking), and the gradient goes straight through to u. Parameters that are
    not coded learn as with torch.optim.SGD.

    seed: of the noise; the server's to give (``fedmrn.client_seeds``).
    draw_seed: of the draws of local steps, which never leave the client;
        default: as ``seed``.
    mask: "binary" keeps or drops noise, "signed" keeps or flips it.
    noise, magnitude: "uniform", "gaussian" or "bernoulli"; 0.01 for binary,
        0.005 for signed masks by default. Where a server steers it, those of
        its broadcast, ``fedmrn.parse(broadcast).magnitudes``.
    momentum, weight_decay: as in torch.optim.SGD; of coded parameters it is u
        that decays.
    groups: parameter groups as other optimizers take them, with their own
        ``lr``, ``momentum`` and ``weight_decay``; they must hold every trained
        parameter of the model.
    kernel: "auto" takes the C++ kernels in the CPU's memory and torch
        operations elsewhere, "torch" these everywhere. Noise and masks are the
        same to the bit.

    An interrupted client goes on from ``state_dict()`` of both model and
    optimizer. A gradient that is not finite is an exception that leaves
    everything as it was: leave the batch out, or end the round.
    """

    def __init__(self, model: nn.Module, lr: float, total_steps: int, seed: int,
                 mask: str = "binary", noise: str = "uniform",
                 magnitude: Optional[fedmrn.Magnitude] = None,
                 momentum: float = 0.0,
                 weight_decay: float = 0.0, *, draw_seed: Optional[int] = None,
                 coded: str = "", groups: Optional[List[Dict[str, Any]]] = None,
                 stochastic: bool = True, progressive: bool = True,
                 kernel: str = "auto"):
        if mask not in ("binary", "signed"):
            raise ValueError(
                f"mask must be 'binary' or 'signed', not '{mask}'")
        if kernel not in ("auto", "torch"):
            raise ValueError(f"kernel must be 'auto' or 'torch', not '{kernel}'")
        if magnitude is None:
            magnitude = fedmrn._MAGNITUDES["mrn-" + mask]
        one, of_tensors = fedmrn._magnitudes(magnitude)
        for _, value in of_tensors or [(0, one)]:
            _core.noise_unit(noise, value)  # refuses what is not sound
        self._total_steps = fedmrn._integer("total_steps", total_steps, 32)
        if self._total_steps == 0:
            raise ValueError("total_steps must be at least 1")
        seed = fedmrn._integer("seed", seed, 64)
        self._settings: Dict[str, Any] = {
            "mask": mask, "noise": noise, "magnitude": one,
            "magnitudes": of_tensors, "seed": seed,
            "draw_seed": seed if draw_seed is None else fedmrn._integer(
                "draw_seed", draw_seed, 64),
            "total_steps": self._total_steps, "stochastic": bool(stochastic),
            "progressive": bool(progressive)}

        self._model = _Model(model, coded)
        lengths = [length for length, _ in of_tensors]
        if lengths and lengths != self.layout.segments:
            raise ValueError(f"magnitudes are of tensors of {lengths} values, "
                             f"the model's have {self.layout.segments}")
        trained = [slot.tensor for slot in self._model.slots
                   if slot.tensor.requires_grad]
        super().__init__(
            trained if groups is None else groups,
            {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        for group in self.param_groups:
            _check_group(group)
        grouped = {id(p) for group in self.param_groups
                   for p in group["params"]}
        if grouped != {id(p) for p in trained}:
            raise ValueError("groups must hold every trained parameter of the "
                             "model, and no other")

        devices = {tensor.device for tensor in self._model.coded}
        if len(devices) > 1:
            raise ValueError("the coded parameters are on several devices: "
                             + ", ".join(sorted(map(str, devices))))
        self._device = devices.pop()
        self._kernel = (kernel if self._device.type == "cpu" else "torch")
        self._done = 0
        self._sent = False
        self._weights = self._model.coded_values()
        self._plain_before = self._model.plain_values()
        self._update = torch.zeros_like(self._weights)
        self._effective = torch.empty_like(self._weights)
        self._noise = torch.empty(0)  # the kernels draw it as they go
        if self._kernel == "torch":
            self._noise = _masking.noise(noise, magnitude, seed,
                                         len(self._weights), self._device)
        self._mask(None, 0.0)

    @property
    def steps_done(self) -> int:
        return self._done

    @property
    def total_steps(self) -> int:
        return self._total_steps

    @property
    def layout(self) -> Layout:
        return self._model.layout

    @property
    def update(self) -> torch.Tensor:
        """A copy of u, flat, in the order of the coded parameters."""
        return self._update.clone()

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        if hasattr(self, "_done"):
            raise RuntimeError("groups are given when the optimizer is made")
        super().add_param_group(param_group)

    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """One local step; ``closure`` as other optimizers have it."""
        if self._sent:
            raise RuntimeError("the frame has been made: a new round needs a "
                               "new MaskedSGD")
        if self._done == self._total_steps:
            raise RuntimeError(
                f"all {self._total_steps} steps are done (total_steps); the "
                "share of masked parameters depends on their number")
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        gradient = self._gradient()
        settings = {id(p): group for group in self.param_groups
                    for p in group["params"]}
        self._step_coded(gradient, settings)
        for slot in self._model.slots:
            if not slot.coded and slot.tensor.requires_grad:
                self._step_plain(slot.tensor, settings[id(slot.tensor)])
        return loss

    def frame(self, examples: int, *, run: int = 0, round: int = 0,
              client: int = 0, entropy: bool = True,
              plain_as: str = "float32", early: bool = False) -> bytes:
        """What the client sends. Ends the training: the model then has the
        weights as the server sees them, w + the masked noise of the frame.

        ``examples`` is how many the client trained on. ``plain_as`` is how the
        values travel that are not coded: "float32", "float16" or "delta",
        quantised differences to what they were at first. ``early`` must be set
        to send before ``total_steps`` steps are done.
        """
        if self._sent:
            raise RuntimeError("frame() has been called: a client answers a "
                               "round once")
        if self._done < self._total_steps and not early:
            raise RuntimeError(
                f"{self._done} of {self._total_steps} steps are done; "
                "frame(early=True) sends what there is")
        s = self._settings
        frame = fedmrn.encode(
            self._update.cpu(), self._model.plain_values(),
            codec="mrn-" + s["mask"], layout=self.layout, examples=examples,
            run=run, round=round, client=client, noise=s["noise"],
            magnitude=s["magnitudes"] or s["magnitude"], seed=s["seed"],
            entropy=entropy,
            stochastic=s["stochastic"], plain_as=plain_as,
            plain_reference=self._plain_before)
        self._sent = True
        masked = torch.from_numpy(fedmrn.decode(frame)).to(self._device)
        self._model.set_coded(self._weights + masked)
        return frame

    def state_dict(self) -> Dict[str, Any]:
        """For ``torch.save``, beside the model's own."""
        state = super().state_dict()
        state["fedmrn"] = {
            **self._settings, "fingerprint": self.layout.fingerprint,
            "done": self._done, "sent": self._sent,
            "weights": self._weights.clone(), "update": self._update.clone(),
            "plain_before": self._plain_before.clone()}
        return state

    @torch.no_grad()
    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Goes on where another MaskedSGD with the same settings was. The
        model's state is to be loaded before."""
        own = state_dict.get("fedmrn")
        if own is None:
            raise ValueError("the state is of another kind of optimizer")
        wanted = {**self._settings, "fingerprint": self.layout.fingerprint}
        for key, value in wanted.items():
            if own[key] != value:
                raise ValueError(f"the state has another {key}: {own[key]}, "
                                 f"not {value}")
        super().load_state_dict(state_dict)
        self._done, self._sent = own["done"], own["sent"]
        self._weights.copy_(own["weights"])
        self._update.copy_(own["update"])
        self._plain_before.copy_(own["plain_before"])
        # What the model has in a step follows from u; after the last one it is
        # the model's own.
        if self._done < self._total_steps and not self._sent:
            self._mask(None, 0.0)

    def _gradient(self) -> torch.Tensor:
        """Of the coded parameters, flat; all of them are finite."""
        parts = []
        for slot in self._model.slots:
            p, g = slot.tensor, slot.tensor.grad
            if slot.coded and p.device != self._device:
                raise RuntimeError(f"{slot.name} has moved to {p.device}: move "
                                   "the model before MaskedSGD is made")
            if g is not None and g.is_sparse:
                raise RuntimeError(f"{slot.name} has a sparse gradient")
            if slot.coded:
                parts.append(torch.zeros_like(p) if g is None else g)
        gradient = _flat(parts)
        sums = [gradient.sum()] + [
            slot.tensor.grad.sum() for slot in self._model.slots
            if not slot.coded and slot.tensor.grad is not None]
        # A sum is finite only if all its terms are.
        together = torch.stack([total.to(self._device) for total in sums])
        if not torch.isfinite(together).all():
            for slot in self._model.slots:
                g = slot.tensor.grad
                if g is not None and not torch.isfinite(g).all():
                    raise FloatingPointError(
                        f"the gradient of {slot.name} is not finite in step "
                        f"{self._done + 1}; nothing was changed")
        return gradient

    def _step_coded(self, gradient: torch.Tensor,
                    settings: Dict[int, Dict[str, Any]]) -> None:
        first, rates = 0, set()
        views: List[Tuple[torch.Tensor, torch.Tensor, float]] = []
        for p in self._model.coded:
            group = settings[id(p)]
            last = first + p.numel()
            u, g = self._update[first:last], gradient[first:last]
            first = last
            self._direct(p, u, g, group)
            views.append((u, g, float(group["lr"])))
            rates.add(float(group["lr"]))
        self._done += 1
        if len(rates) == 1 and self._done < self._total_steps:
            self._mask(gradient, rates.pop())
            return
        for u, g, lr in views:
            u.sub_(g.mul_(lr))
        if self._done < self._total_steps:
            self._mask(None, 0.0)

    def _step_plain(self, p: torch.Tensor, group: Dict[str, Any]) -> None:
        if p.grad is None:
            return
        g = p.grad.clone()
        self._direct(p, p, g, group)
        p.sub_(g.mul_(group["lr"]))

    def _direct(self, p: torch.Tensor, values: torch.Tensor, g: torch.Tensor,
                group: Dict[str, Any]) -> None:
        """The gradient becomes SGD's direction, in place."""
        if group["weight_decay"] != 0:
            g.add_(values * group["weight_decay"])
        if group["momentum"] == 0:
            return
        state = self.state[p]
        velocity = state.get("momentum_buffer")
        if velocity is None:  # PyTorch's first step: the gradient itself
            state["momentum_buffer"] = g.clone()
            return
        g.copy_(velocity.mul_(group["momentum"]).add_(g))

    def _mask(self, gradient: Optional[torch.Tensor], lr: float) -> None:
        """u -= lr * gradient; the model gets w + u_hat of the next step."""
        s = self._settings
        step = self._done + 1
        if self._kernel == "torch":
            if gradient is not None:
                self._update.sub_(gradient.mul_(lr))
            _masking.masked_step(
                self._weights, self._update, self._effective, self._noise,
                mask=s["mask"], draw_seed=s["draw_seed"], step=step,
                total_steps=self._total_steps, stochastic=s["stochastic"],
                progressive=s["progressive"])
        else:
            _core.masked_step(self._weights, gradient, self._update,
                              self._effective, step=step, learning_rate=lr, **s)
        self._model.set_coded(self._effective)


def _check_group(group: Dict[str, Any]) -> None:
    for key in "lr", "momentum", "weight_decay":
        if not group[key] >= 0:
            raise ValueError(f"{key} must not be negative, and is {group[key]}")
