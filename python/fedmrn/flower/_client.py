"""The client's side: tasks, and mods for a ClientApp."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

from flwr.app import (Array, ArrayRecord, ConfigRecord, Context, Message,
                      MessageType, MetricRecord, RecordDict)

import fedmrn
from fedmrn import FrameError, Layout
from fedmrn.flower import _records
from fedmrn.flower._records import Values

if TYPE_CHECKING:
    from torch import nn

    from fedmrn.torch import MaskedSGD


class Task:
    """What the server asks of a client in a round.

    frame: the broadcast, the model in bytes.
    run, round, client: which the answer's frame must have.
    codec, noise, magnitude, seed: likewise.
    draw_seed: for draws that never leave the client. It comes from the server,
        so that a run repeats; a client that does not want the server to know
        its draws takes a number of its own.
    layout: the model's.
    """

    def __init__(self, message: Message):
        self._message = message
        if _records.TASK not in message.content.config_records:
            raise ValueError("the message is not of the strategy "
                             "fedmrn.flower.FedMRN")
        record = message.content.config_records[_records.TASK]
        task = json.loads(str(record["task"]))
        self.frame = _records.frame_of(message.content)
        self.client: int = task["client"]
        self.seed: int = task["seed"]
        self.draw_seed: int = task["draw_seed"]
        self.codec: str = task["codec"]
        self.noise: str = task["noise"]
        self.layout = Layout(task["tensors"])
        self._names: List[str] = task["names"]
        broadcast = fedmrn.parse(self.frame, max_params=self.layout.params)
        if (not broadcast.broadcast
                or broadcast.fingerprint != self.layout.fingerprint):
            raise FrameError("the frame is not the model of its layout",
                             "foreign")
        # Those of each tensor come with the model.
        self.magnitude: fedmrn.Magnitude = (broadcast.magnitudes
                                            or task["magnitude"])
        self.run: int = broadcast.run
        self.round: int = broadcast.round
        self._values = Values(broadcast.decode(), broadcast.plain())

    def arrays(self) -> ArrayRecord:
        """The model as the server's ``initial_arrays`` were."""
        others: Dict[str, Optional[Array]] = {}
        for name in self._names:
            others[name] = None
        for record in self._message.content.array_records.values():
            others.update({name: array for name, array in record.items()
                           if name in others})
        return _records.unpack(self.layout, self._values, others)

    def load(self, model: nn.Module, *, coded: str = "") -> None:
        """Puts the broadcast into a PyTorch model."""
        from fedmrn.torch import load_broadcast
        load_broadcast(model, self.frame, coded=coded)

    def optimizer(self, model: nn.Module, lr: float, total_steps: int,
                  **settings: Any) -> MaskedSGD:
        """Algorithm 1 with the round's seed, mask and noise; ``settings`` are
        others of ``fedmrn.torch.MaskedSGD``."""
        from fedmrn.torch import MaskedSGD
        kind, _, mask = self.codec.partition("-")
        if kind != "mrn":
            raise ValueError(
                f"the server adds up {self.codec} frames, MaskedSGD makes "
                "masks: let FedMRN have method=\"fedmrn\", or this client "
                f"mods=[compress(\"{self.codec}\")]")
        return MaskedSGD(model, lr, total_steps, self.seed, mask,
                         **{"noise": self.noise, "magnitude": self.magnitude,
                            "draw_seed": self.draw_seed, **settings})

    def reply(self, opt: MaskedSGD, examples: int,
              metrics: Optional[Dict[str, Any]] = None,
              **settings: Any) -> Message:
        """The answer; ``settings`` are those of ``MaskedSGD.frame``."""
        frame = opt.frame(examples, run=self.run, round=self.round,
                          client=self.client, **settings)
        return self._answer(frame, {"metrics": MetricRecord(metrics or {})})

    def _answer(self, frame: bytes, records: Dict[str, Any]) -> Message:
        arrays = ArrayRecord({_records.FRAME: _records.frame_array(frame)})
        return Message(RecordDict({**records, "arrays": arrays}),
                       reply_to=self._message)

    def _compress(self, reply: Message, weighted_by_key: str,
                  settings: Dict[str, Any]) -> Message:
        """An ordinary answer, the whole model, becomes a frame."""
        arrays = list(reply.content.array_records.values())
        if len(arrays) != 1:
            raise ValueError(f"an answer must have one ArrayRecord, not "
                             f"{len(arrays)}")
        now = _records.pack(self.layout, arrays[0])
        examples = [record[weighted_by_key]
                    for record in reply.content.metric_records.values()
                    if weighted_by_key in record]
        if len(examples) != 1 or not isinstance(examples[0], int):
            raise ValueError(f"an answer's metrics must have "
                             f"'{weighted_by_key}', its number of examples")
        codec = _records.codec_of(self.codec)
        if codec.encodes_probabilities:
            update = _records.probabilities(now.coded)
        else:
            update = now.coded - self._values.coded
        if codec.uses_noise:
            settings = {**settings, "noise": self.noise,
                        "magnitude": self.magnitude}
        if codec.uses_seed:
            settings = {**settings, "seed": self.seed}
        frame = fedmrn.encode(
            update, now.plain, codec=self.codec, layout=self.layout,
            run=self.run, round=self.round, client=self.client,
            examples=examples[0], plain_reference=self._values.plain,
            **{"draw_seed": self.draw_seed, **settings})
        return self._answer(frame, {
            name: record for name, record in reply.content.items()
            if not isinstance(record, ArrayRecord)})


_Call = Callable[[Message, Context], Message]


def identify(message: Message, context: Context, call_next: _Call) -> Message:
    """A client mod that tells the strategy which client this node is: its
    ``partition-id``, or the node's own number. A ClientApp needs it, or
    ``compress``, which does the same."""
    record = message.content.config_records.get(_records.TASK)
    if record is None or record.get("task") != _records.WHO:
        return call_next(message, context)
    client = int(context.node_config.get("partition-id", context.node_id))
    who = ConfigRecord({"client": str(client)})
    return Message(RecordDict({_records.TASK: who}), reply_to=message)


def compress(codec: str, *, weighted_by_key: str = "num-examples",
             **settings: Any) -> Callable[[Message, Context, _Call], Message]:
    """A client mod for an app that stays as it is: the model comes to it as an
    ArrayRecord, and what it answers goes to the server as a frame of its
    update. ``settings`` are those of ``fedmrn.encode``, such as ``bits=2`` of
    eden or ``plain_as="delta"``."""
    name = _records.codec_of(codec).name

    def mod(message: Message, context: Context, call_next: _Call) -> Message:
        def answer(message: Message, context: Context) -> Message:
            task = Task(message)
            if task.codec != name:
                raise ValueError(f"the server adds up {task.codec} frames, "
                                 f"this client's compress() makes {name}")
            content = {**message.content}
            content.update({key: task.arrays()
                            for key in message.content.array_records})
            message.content = RecordDict(content)
            reply = call_next(message, context)
            if (reply.has_error()
                    or message.metadata.message_type != MessageType.TRAIN):
                return reply
            return task._compress(reply, weighted_by_key, settings)

        return identify(message, context, answer)

    return mod
