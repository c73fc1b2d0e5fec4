"""An ordinary client without PyTorch; what it learns is a known pattern."""

import numpy as np
from fedmrn.flower import compress
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp


def compress_as_told(message, context, call_next):
    config = message.content.config_records.get("config", {})
    return compress(config.get("codec", "float32"), plain_as="delta")(
        message, context, call_next)


app = ClientApp(mods=[compress_as_told])


def learn(arrays, client):
    return {name: values + np.float32(0.004) * np.sin(np.arange(
        values.size, dtype=np.float32) + client).reshape(values.shape)
        if values.dtype == np.float32 else values + 1
        for name, values in arrays.items()}


@app.train()
def train(message, context):
    client = context.node_config["partition-id"]
    arrays = {name: array.numpy()
              for name, array in message.content["arrays"].items()}
    learned = learn(arrays, client)
    return Message(RecordDict({
        "arrays": ArrayRecord({name: Array(values) for name, values in
                               learned.items()}),
        "metrics": MetricRecord({"num-examples": 10 + client,
                                 "client": client})}), reply_to=message)


@app.evaluate()
def evaluate(message, context):
    arrays = message.content["arrays"]
    total = sum(float(array.numpy().sum()) for array in arrays.values())
    return Message(RecordDict({"metrics": MetricRecord(
        {"num-examples": 1, "total": total,
         "names": len(arrays)})}), reply_to=message)
