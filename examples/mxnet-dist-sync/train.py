"""Logistic regression with Gluon; gradients are summed by the `dist_sync` key-value store."""

import json

import mxnet as mx
from mxnet import autograd, gluon

store = mx.kv.create("dist_sync")
print(f"rank {store.rank} of {store.num_workers}", flush=True)

mx.random.seed(0)
inputs = mx.nd.random.normal(shape=(1024, 8))
labels = mx.nd.sum(inputs, axis=1) > 0
inputs, labels = inputs[store.rank :: store.num_workers], labels[store.rank :: store.num_workers]

model = gluon.nn.Dense(1)
model.initialize(mx.init.Zero())
trainer = gluon.Trainer(model.collect_params(), "sgd", {"learning_rate": 0.5}, kvstore=store)
loss_of = gluon.loss.SigmoidBinaryCrossEntropyLoss()
for epoch in range(1, 6):
    for _ in range(10):
        with autograd.record():
            loss = loss_of(model(inputs)[:, 0], labels)
        loss.backward()
        trainer.step(len(inputs) * store.num_workers)
    if store.rank == 0:
        mean = round(float(loss.mean().asscalar()), 4)
        print(json.dumps({"epoch": epoch, "loss": mean}), flush=True)

# Every worker must end with the same weights: that is what dist_sync promises.
total = float(model.weight.data().sum().asscalar())
print(f"rank {store.rank} weights {total:.4f}", flush=True)
