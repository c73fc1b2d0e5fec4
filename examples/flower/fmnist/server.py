"""The server: FedMRN, or Flower's own FedAvg to compare it with."""

import json
import pathlib

from flwr.app import ArrayRecord, MetricRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

from fedmrn.flower import FedMRN
from fedmrn.torch import layout
from fmnist.task import accuracy, make_model

app = ServerApp()


def fedmrn(model, config):
    folder = {"resume" if config["resume"] else "checkpoint": config["out"]}
    return FedMRN(layout(model), method=config["method"], seed=config["seed"],
                  min_available_nodes=config["clients"], fraction_evaluate=0.0,
                  **folder)


def fedavg(config):
    def uploaded(replies, weighted_by_key):
        return MetricRecord({"upload-bytes": sum(
            len(array.data) for reply in replies
            for record in reply.array_records.values()
            for array in record.values())})

    return FedAvg(fraction_evaluate=0.0, min_train_nodes=config["clients"],
                  min_available_nodes=config["clients"],
                  train_metrics_aggr_fn=uploaded)


@app.main()
def main(grid, context):
    config = context.run_config
    model = make_model(config["seed"])

    def evaluate(server_round, arrays):
        model.load_state_dict(arrays.to_torch_state_dict())
        return MetricRecord({"accuracy": accuracy(model, config["tested"])})

    strategy = (fedavg(config) if config["method"] == "fedavg" else
                fedmrn(model, config))
    result = strategy.start(grid, ArrayRecord(model.state_dict()),
                            num_rounds=config["rounds"], evaluate_fn=evaluate)

    with open(pathlib.Path(config["out"]) / "rounds.jsonl", "w") as file:
        for number, metrics in result.evaluate_metrics_serverapp.items():
            trained = result.train_metrics_clientapp.get(number, {})
            print(json.dumps({"round": number, **metrics, **trained}),
                  file=file)
