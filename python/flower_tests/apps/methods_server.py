"""Two rounds of every codec, and of masks whose magnitudes are steered, one after
the other."""

import json
import pathlib

import fedmrn
import numpy as np
from fedmrn.flower import FedMRN
from flwr.app import Array, ArrayRecord, ConfigRecord
from flwr.serverapp import ServerApp

app = ServerApp()
SEED = 5
LAYOUT = fedmrn.Layout([("a", (30, 40), True), ("b", (7,), False),
                        ("c", (12, 5, 5), True)])
SETTINGS = {codec.name: {"method": codec.name} for codec in fedmrn.codecs()}
SETTINGS["steered"] = {"method": "mrn-binary", "noise": "bernoulli",
                       "magnitude": "auto", "target_ones": 0.2}


def initial_arrays():
    arrays = {"b": np.linspace(-1, 1, 7, dtype=np.float32),
              "counter": np.arange(3),
              "c": np.zeros((12, 5, 5), np.float32),
              "a": np.full((30, 40), 0.25, np.float32)}
    return ArrayRecord({name: Array(values) for name, values in arrays.items()})


@app.main()
def main(grid, context):
    folder = pathlib.Path(context.run_config["out"])
    for name, settings in SETTINGS.items():
        strategy = FedMRN(LAYOUT, **settings, seed=SEED, fraction_train=0.5,
                          min_available_nodes=context.run_config["clients"])
        config = ConfigRecord({"codec": settings["method"]})
        result = strategy.start(grid, initial_arrays(), num_rounds=2,
                                train_config=config, evaluate_config=config)
        np.savez(folder / f"{name}.npz",
                 **{key: array.numpy()
                    for key, array in result.arrays.items()})
        (folder / f"{name}.json").write_text(json.dumps({
            "names": list(result.arrays), "run": strategy._run,
            "trained": {number: dict(metrics) for number, metrics in
                        result.train_metrics_clientapp.items()},
            "evaluated": {number: dict(metrics) for number, metrics in
                          result.evaluate_metrics_clientapp.items()}}))
