"""The server's side."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import pathlib
import time
from typing import (Any, Callable, Dict, Iterable, List, Optional, Set, Tuple,
                    Union)

import numpy as np
from flwr.app import (Array, ArrayRecord, ConfigRecord, Message, MessageType,
                      MetricRecord, RecordDict)
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

import fedmrn
from fedmrn import Aggregator, FrameError, Layout
from fedmrn.flower import _records
from fedmrn.flower._records import Values

_log = logging.getLogger("flwr")  # what `flwr run --stream` shows


class FedMRN(Strategy):
    """Federated learning with frames (Algorithm 1 of the FedMRN paper, or any
    codec of ``fedmrn.codecs()``).

    layout: which arrays travel, and which of them are compressed:
        ``fedmrn.torch.layout(model)``. Arrays that it does not name go to the
        clients as they are and never change.
    method: "fedmrn", "fedmrns", "fedavg", "fedpm" or the name of a codec.
    noise, magnitude: of fedmrn and fedmrns, as in ``MaskedSGD``. With "auto"
        each tensor has a magnitude of its own, which the server steers after
        each round so that the share of ones in masks comes to ``target_ones``:
        fewer bytes.
    seed: of everything that is drawn. The same seed gives the same model to
        the bit, whatever the nodes' numbers and the order of their answers, if
        clients train alike.
    fraction_train, fraction_evaluate: the share of clients that a round asks.
    min_available_nodes: how many clients the first round waits for. A run
        repeats if all are there from the first round on.
    weighted_by_key: the number of examples among a client's metrics.
    checkpoint: a folder to which the model goes after each round; it must not
        have one yet.
    resume: such a folder, from which this run goes on, as if it had never
        ended.
    max_examples, max_abs_value: what the server allows a client
        (``fedmrn.Aggregator``).

    A frame that is damaged, of another round, run or model, of a client that
    was not asked or chose its own noise, or the client's second is refused and
    named in the log; the round goes on with the rest.
    """

    def __init__(self, layout: Layout, method: str = "fedmrn", *,
                 noise: str = "uniform",
                 magnitude: Union[float, str, None] = None,
                 target_ones: float = 0.1, seed: int = 1,
                 fraction_train: float = 1.0,
                 fraction_evaluate: float = 1.0, min_available_nodes: int = 2,
                 weighted_by_key: str = "num-examples",
                 checkpoint: Union[str, os.PathLike[str], None] = None,
                 resume: Union[str, os.PathLike[str], None] = None,
                 max_examples: int = 1 << 20, max_abs_value: float = 16.0):
        self.layout = layout
        self.method = method
        self.codec = _records.codec_of(method)
        self.noise = "none"
        self.magnitude: fedmrn.Magnitude = 0.0  # of the first round
        self.steered = self.codec.uses_noise and magnitude == "auto"
        self.target_ones = target_ones
        if not 0 < target_ones < 1:
            raise ValueError(f"target_ones must be between 0 and 1, not "
                             f"{target_ones}")
        if self.codec.uses_noise:
            self.noise = noise
            one = (fedmrn._MAGNITUDES[self.codec.name]
                   if magnitude is None or self.steered else magnitude)
            one, _ = fedmrn._magnitudes(one)
            fedmrn.noise(self.noise, one, 0, 1)  # refuses nonsense
            self.magnitude = ([(length, one) for length in layout.segments]
                              if self.steered else one)
        self.seed = fedmrn._integer("seed", seed, 64)
        for name, fraction in (("fraction_train", fraction_train),
                               ("fraction_evaluate", fraction_evaluate)):
            if not 0 <= fraction <= 1:
                raise ValueError(f"{name} must be 0 to 1, not {fraction}")
        self.fraction_train = fraction_train
        self.fraction_evaluate = fraction_evaluate
        self.min_available_nodes = min_available_nodes
        self.weighted_by_key = weighted_by_key
        if resume is not None and checkpoint is not None:
            raise ValueError("resume goes on writing to its folder: it takes "
                             "the place of checkpoint")
        self._resume = resume is not None
        folder = checkpoint if resume is None else resume
        self._file = None if folder is None else (
            pathlib.Path(folder) / "model.frame")
        self._limits: Dict[str, Any] = {"max_examples": max_examples,
                                        "max_abs_value": max_abs_value}
        self._run = 0
        self._magnitude: fedmrn.Magnitude = self.magnitude  # this round's
        self._client_of: Dict[int, int] = {}  # by node, the first comer first
        self._strangers: Set[int] = set()     # nodes that are no clients
        self._asked: Dict[int, int] = {}      # this round's, by node
        self._others: Dict[str, Optional[Array]] = {}
        self._values = Values(np.empty(0), np.empty(0))
        self._plain_reference = np.empty(0, np.float32)

    def start(self, grid: Grid, initial_arrays: ArrayRecord,
              num_rounds: int = 3, timeout: float = 3600,
              train_config: Optional[ConfigRecord] = None,
              evaluate_config: Optional[ConfigRecord] = None,
              evaluate_fn: Optional[Callable[
                  [int, ArrayRecord], Optional[MetricRecord]]] = None
              ) -> Result:
        """All rounds. ``timeout`` is how many seconds a round waits for its
        clients."""
        train_config = train_config or ConfigRecord()
        evaluate_config = evaluate_config or ConfigRecord()
        self._others = {
            name: None if name in {t[0] for t in self.layout.tensors} else array
            for name, array in initial_arrays.items()}
        self._run = self._identity(train_config)
        self._values = _records.pack(self.layout, initial_arrays)
        self._magnitude = self.magnitude
        done = self._begin()
        result = Result(arrays=self._arrays())
        self.summary()
        self._evaluate(result, done, evaluate_fn)
        for current in range(done + 1, num_rounds + 1):
            _log.info("[ROUND %d/%d]", current, num_rounds)
            replies = grid.send_and_receive(
                self.configure_train(current, result.arrays, train_config,
                                     grid), timeout=timeout)
            arrays, metrics = self.aggregate_train(current, replies)
            if arrays is not None:
                result.arrays = arrays
            if metrics is not None:
                result.train_metrics_clientapp[current] = metrics
            self._save(current)
            replies = grid.send_and_receive(
                self.configure_evaluate(current, result.arrays,
                                        evaluate_config, grid),
                timeout=timeout)
            metrics = self.aggregate_evaluate(current, replies)
            if metrics is not None:
                _log.info("\tclients' evaluation: %s", dict(metrics))
                result.evaluate_metrics_clientapp[current] = metrics
            self._evaluate(result, current, evaluate_fn)
        return result

    def summary(self) -> None:
        _log.info("FedMRN: method %s, codec %s, %s, seed %d", self.method,
                  self.codec.name, self.layout, self.seed)

    def choose(self, server_round: int, clients: List[int],
               fraction: float) -> List[int]:
        """Which of the clients a round asks: a pure function of seed, round
        and clients. May be overridden."""
        key, _ = fedmrn.client_seeds(self.seed, 0, 0)
        drawn = sorted(clients, key=lambda client: fedmrn.client_seeds(
            key, server_round, client)[0])
        # Products such as 0.07 * 100 lie just above their integer. Some of the
        # clients are one at least.
        count = max(math.ceil(fraction * len(clients) - 1e-9), fraction > 0)
        return sorted(drawn[:count])

    def configure_train(self, server_round: int, arrays: ArrayRecord,
                        config: ConfigRecord, grid: Grid) -> List[Message]:
        """The broadcast, and for each client that the round asks its seeds."""
        return self._messages(MessageType.TRAIN, server_round, arrays, config,
                              grid, self.fraction_train)

    def aggregate_train(
            self, server_round: int, replies: Iterable[Message]
    ) -> Tuple[Optional[ArrayRecord], Optional[MetricRecord]]:
        """The next model: w + the mean of the clients' updates."""
        total = Aggregator(
            self.layout, codec=self.codec.name, noise=self.noise,
            magnitude=self._magnitude, run=self._run, round=server_round,
            run_seed=self.seed if self.codec.uses_seed else None,
            plain_reference=self._plain_reference, **self._limits)
        metrics: List[Tuple[int, int, MetricRecord]] = []
        refused = upload_bytes = 0
        silent = dict(self._asked)
        for reply in replies:
            node = reply.metadata.src_node_id
            client = silent.pop(node, None)
            if reply.has_error() and client is None:
                # The SuperLink's own, about a node that it misses.
                _log.warning("\t%s", reply.error.reason)
                continue
            try:
                if reply.has_error():
                    raise FrameError(f"error: {reply.error.reason}")
                frame = _records.frame_of(reply.content)
                upload_bytes += len(frame)
                header = fedmrn.parse(frame, max_params=self.layout.params)
                if header.client != client:
                    raise FrameError(
                        f"the frame is of client {header.client}", "foreign")
                total.add(frame)
            except FrameError as error:
                refused += 1
                _log.warning("\tclient %s (node %d) refused: %s", client, node,
                             error)
                continue
            metrics += [(header.client, header.examples, record)
                        for record in reply.content.metric_records.values()]
        for node, client in silent.items():
            _log.warning("\tclient %d (node %d) has not answered", client, node)
        _log.info("\t%d clients counted, %d refused, %d bytes of frames",
                  total.clients, refused, upload_bytes)
        summary = MetricRecord({"clients": total.clients, "refused": refused,
                                "upload-bytes": upload_bytes})
        if total.clients == 0:
            _log.warning("\tthe model stays as it is")
            return None, summary
        coded, plain = self._values
        if self.codec.encodes_probabilities:
            coded = np.zeros_like(coded)
        total.finish(coded, plain)
        if self.codec.encodes_probabilities:
            coded = _records.scores(coded)
        self._values = Values(coded, plain)
        if self.steered:
            self._magnitude = total.next_magnitudes(self.target_ones)
        for key, value in _mean_metrics(metrics, self.weighted_by_key).items():
            summary.setdefault(key, value)
        return self._arrays(), summary

    def configure_evaluate(self, server_round: int, arrays: ArrayRecord,
                           config: ConfigRecord, grid: Grid) -> List[Message]:
        """The same for clients that only test the model."""
        if self.fraction_evaluate == 0:
            return []
        return self._messages(MessageType.EVALUATE, server_round, arrays,
                              config, grid, self.fraction_evaluate)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]
                           ) -> Optional[MetricRecord]:
        """The mean of the clients' metrics, by their numbers of examples."""
        metrics: List[Tuple[int, int, MetricRecord]] = []
        for reply in replies:
            node = reply.metadata.src_node_id
            client = self._asked.get(node)
            if reply.has_error() or client is None:
                _log.warning("\tclient %s (node %d) has no evaluation: %s",
                             client, node, reply.error.reason
                             if reply.has_error() else "was not asked")
                continue
            for record in reply.content.metric_records.values():
                examples = record.get(self.weighted_by_key)
                if isinstance(examples, int) and examples > 0:
                    metrics.append((client, examples, record))
        return _mean_metrics(metrics, self.weighted_by_key) or None

    def _messages(self, kind: str, server_round: int, arrays: ArrayRecord,
                  config: ConfigRecord, grid: Grid,
                  fraction: float) -> List[Message]:
        self._meet_clients(grid)
        self._values = _records.pack(self.layout, arrays)
        self._plain_reference = self._values.plain.copy()
        record = ArrayRecord({
            _records.FRAME: _records.frame_array(self._broadcast(server_round)),
            **{name: array for name, array in self._others.items()
               if array is not None}})
        config = ConfigRecord({**config, "server-round": server_round})
        present = set(grid.get_node_ids())
        node_of = self._node_of(present)
        messages = []
        self._asked = {}
        for client in self.choose(server_round, sorted(node_of), fraction):
            node = node_of[client]
            if node not in present:
                _log.warning("\tclient %d (node %d) is away", client, node)
                continue
            self._asked[node] = client
            seed, draw_seed = fedmrn.client_seeds(self.seed, server_round,
                                                  client)
            task = json.dumps({
                "client": client, "seed": seed, "draw_seed": draw_seed,
                "codec": self.codec.name, "noise": self.noise,
                "magnitude": 0.0 if self.steered else self._magnitude,
                "tensors": self.layout.tensors,
                "names": list(self._others)})
            messages.append(Message(
                RecordDict({"arrays": record, "config": config,
                            _records.TASK: ConfigRecord({"task": task})}),
                dst_node_id=node, message_type=kind,
                group_id=str(server_round)))
        return messages

    def _meet_clients(self, grid: Grid) -> None:
        """Asks nodes that are new which client they are, and in the first
        round waits for enough of them."""
        needed = 0 if self._client_of else max(1, self.min_available_nodes)
        waiting = -1
        while True:
            known = self._strangers | set(self._client_of)
            new = sorted(set(grid.get_node_ids()) - known)
            there = len(set(self._client_of.values())) + len(new)
            if new and there >= needed:
                self._ask_who(grid, new)
            if len(set(self._client_of.values())) >= needed:
                return
            if there != waiting:
                _log.info("Waiting for clients: %d of %d are there", there,
                          needed)
                waiting = there
            time.sleep(1)

    def _ask_who(self, grid: Grid, nodes: List[int]) -> None:
        question = RecordDict({
            _records.TASK: ConfigRecord({"task": _records.WHO})})
        replies = grid.send_and_receive(
            [Message(question, dst_node_id=node,
                     message_type=MessageType.TRAIN) for node in nodes],
            timeout=60)
        present = set(grid.get_node_ids())
        for reply in sorted(replies, key=lambda r: r.metadata.src_node_id):
            node = reply.metadata.src_node_id
            if node not in nodes:  # the SuperLink's own, about one it misses
                continue
            try:
                if reply.has_error():
                    raise ValueError(reply.error.reason)
                record = reply.content.config_records[_records.TASK]
                client = fedmrn._integer("a client's number",
                                         int(str(record["client"])), 64)
            except (KeyError, ValueError) as error:
                self._strangers.add(node)
                _log.warning(
                    "node %d does not say which client it is (its ClientApp "
                    "needs mods=[fedmrn.flower.identify] or compress): %s",
                    node, error)
                continue
            other = self._node_of(present).get(client)
            if other in present:
                _log.warning(
                    "node %d refused: client %d is node %d, as long as that "
                    "one is there (is a partition-id given twice?)", node,
                    client, other)
            self._client_of[node] = client

    def _node_of(self, present: Set[int]) -> Dict[int, int]:
        """Each client's node: the first that said so, or while that one is
        away the next."""
        nodes: Dict[int, int] = {}
        for node, client in self._client_of.items():
            if nodes.get(client) not in present:
                nodes[client] = node
        return nodes

    def _broadcast(self, server_round: int) -> bytes:
        return fedmrn.encode(
            self._values.coded, self._values.plain, codec="float32",
            layout=self.layout, run=self._run, round=server_round,
            magnitude=self._magnitude if self.steered else 0.0,
            broadcast=True)

    def _arrays(self) -> ArrayRecord:
        return _records.unpack(self.layout, self._values, self._others)

    def _identity(self, config: ConfigRecord) -> int:
        """The run's number: all that its model depends on, but for data."""
        settings = [self.seed, self.codec.name, self.noise,
                    f"auto {self.target_ones}" if self.steered
                    else self.magnitude,
                    self.fraction_train, self.layout.fingerprint,
                    sorted((key, repr(value)) for key, value in config.items()
                           if key != "server-round")]
        digest = hashlib.sha256(json.dumps(settings).encode()).digest()
        return int.from_bytes(digest[:8], "little")

    # A checkpoint is the broadcast that the next round begins with.

    def _save(self, done: int) -> None:
        if self._file is None:
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        scratch = self._file.with_suffix(".new")
        with open(scratch, "wb") as file:
            file.write(self._broadcast(done + 1))
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, self._file)

    def _begin(self) -> int:
        """How many rounds are done."""
        if self._file is None:
            return 0
        if not self._resume:
            if self._file.exists():
                raise FileExistsError(
                    f"{self._file} is there: resume= goes on from it; remove "
                    "it to begin anew")
            return 0
        try:
            frame = self._file.read_bytes()
        except FileNotFoundError:
            raise FileNotFoundError(
                f"{self._file} is not there: no round of such a run has ended "
                "yet; begin it with checkpoint= instead of resume=") from None
        header = fedmrn.parse(frame, max_params=self.layout.params)
        if header.fingerprint != self.layout.fingerprint:
            raise FrameError(f"{self._file} is of another model", "foreign")
        if header.run != self._run:
            raise FrameError(
                f"{self._file} is of a run with other settings (seed, method, "
                "noise, fraction_train or train_config)", "foreign")
        self._values = Values(header.decode(), header.plain())
        self._magnitude = header.magnitudes or self.magnitude
        _log.info("goes on after round %d (%s)", header.round - 1, self._file)
        return header.round - 1

    @staticmethod
    def _evaluate(result: Result, server_round: int,
                  evaluate_fn: Optional[Callable[
                      [int, ArrayRecord], Optional[MetricRecord]]]) -> None:
        if evaluate_fn is None:
            return
        metrics = evaluate_fn(server_round, result.arrays)
        if metrics is not None:
            _log.info("\tserver's evaluation: %s", dict(metrics))
            result.evaluate_metrics_serverapp[server_round] = metrics


def _mean_metrics(metrics: List[Tuple[int, int, MetricRecord]],
                  weighted_by_key: str) -> MetricRecord:
    """Of (client, examples, metrics), in the clients' order, so that sums are
    rounded alike; only what all of them have."""
    mean = MetricRecord()
    if not metrics:
        return mean
    metrics = sorted(metrics, key=lambda one: one[0])
    weights = [examples for _, examples, _ in metrics]
    for key in metrics[0][2]:
        if key == weighted_by_key or not all(key in m for _, _, m in metrics):
            continue
        try:
            values = np.array([m[key] for _, _, m in metrics], np.float64)
        except ValueError:  # lists of several lengths
            continue
        mean[key] = np.average(values, axis=0, weights=weights).tolist()
    return mean
