"""The example's client, with faults as the key `faults` plans them: "KIND
CLIENT ROUND, ..."."""

import pathlib
import time

from fedmrn.flower import _records, identify
from flwr.app import ArrayRecord
from flwr.clientapp import ClientApp
from fmnist import client


def faults(message, context, call_next):
    plan = {tuple(map(int, where)): kind for kind, *where in
            map(str.split, context.run_config["faults"].split(","))}
    folder = pathlib.Path(context.run_config["out"])
    who = context.node_config["partition-id"]
    now = message.content["config"]["server-round"]
    kind = plan.get((who, now))
    if kind == "hang":
        (folder / "hanging").touch()
        while True:  # until it is killed
            time.sleep(60)
    reply = call_next(message, context)
    frame = reply.content["arrays"][_records.FRAME].data
    (folder / f"{who}-{now}.frame").write_bytes(frame)
    if kind == "damage":
        frame = frame[:100] + bytes([frame[100] ^ 1]) + frame[101:]
    elif kind == "replay":
        frame = (folder / f"{who}-{now - 1}.frame").read_bytes()
    reply.content["arrays"] = ArrayRecord(
        {_records.FRAME: _records.frame_array(frame)})
    return reply


app = ClientApp(mods=[identify, faults])
app.train()(client.train)
