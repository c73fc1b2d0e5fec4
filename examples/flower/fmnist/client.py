"""A FedMRN client: its answer is a seed and about one bit a parameter."""

from flwr.clientapp import ClientApp
from torch.nn.functional import cross_entropy

from fedmrn.flower import Task, identify
from fmnist.task import batches_of, make_model

app = ClientApp(mods=[identify])


@app.train()
def train(message, context):
    task = Task(message)
    config, node = context.run_config, context.node_config
    batches, examples = batches_of(
        node["partition-id"], node["num-partitions"], config, task.draw_seed)
    model = make_model()
    task.load(model)
    opt = task.optimizer(model, config["lr"], total_steps=len(batches))
    for x, y in batches:
        opt.zero_grad()
        loss = cross_entropy(model(x), y)
        loss.backward()
        opt.step()
    return task.reply(opt, examples, {"loss": loss.item()})
