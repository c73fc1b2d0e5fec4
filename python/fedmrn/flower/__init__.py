"""FedMRN for Flower: clients' updates travel as frames.

The server's side is a strategy, which takes the place of ``FedAvg``::

    strategy = FedMRN(fedmrn.torch.layout(model), method="fedmrn", seed=1)
    strategy.start(grid, ArrayRecord(model.state_dict()), num_rounds=10)

A client either trains with Algorithm 1::

    app = ClientApp(mods=[identify])

    @app.train()
    def train(message, context):
        task = Task(message)
        task.load(model)
        opt = task.optimizer(model, lr=0.1, total_steps=len(batches))
        ...                                    # as with any optimizer
        return task.reply(opt, examples)

or stays as it is, and a mod compresses what it answers::

    app = ClientApp(mods=[compress("eden")])   # FedMRN(..., method="eden")

Built on Flower's public Python interface (1.41).
"""

from __future__ import annotations

from fedmrn.flower._client import Task, compress, identify
from fedmrn.flower._strategy import FedMRN

__all__ = ["FedMRN", "Task", "compress", "identify"]
