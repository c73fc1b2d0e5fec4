"""The same client for Flower's own FedAvg: its answer is the whole model. With
mods=[fedmrn.flower.compress("eden")] the answer is a frame, and the rest stays
as it is."""

import torch
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch.nn.functional import cross_entropy

from fmnist.task import batches_of, make_model

app = ClientApp()


@app.train()
def train(message, context):
    config, node = context.run_config, context.node_config
    batches, examples = batches_of(
        node["partition-id"], node["num-partitions"], config,
        message.content["config"]["server-round"])
    model = make_model()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    opt = torch.optim.SGD(model.parameters(), config["lr"])
    for x, y in batches:
        opt.zero_grad()
        loss = cross_entropy(model(x), y)
        loss.backward()
        opt.step()
    metrics = {"loss": loss.item(), "num-examples": examples}
    return Message(RecordDict({"arrays": ArrayRecord(model.state_dict()),
                               "metrics": MetricRecord(metrics)}),
                   reply_to=message)
