"""A custom training loop: Keras 3's `fit` does not work under this strategy."""

import json
import os

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
cluster = strategy.cluster_resolver
rank, size = cluster.task_id, strategy.extended._num_workers
print(f"rank {rank} of {size}", flush=True)

tf.random.set_seed(0)
inputs = tf.random.normal([1024, 16], seed=1)
labels = tf.cast(tf.reduce_sum(inputs, 1) > 0, tf.float32)
inputs, labels = inputs[rank::size], labels[rank::size]

with strategy.scope():
    weights = tf.Variable(tf.zeros([16, 1]))


def loss_and_slope():
    with tf.GradientTape() as tape:
        logit = tf.matmul(inputs, weights)[:, 0]
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logit))
    return loss, tape.gradient(loss, weights)


@tf.function
def step():
    loss, slope = strategy.run(loss_and_slope)
    mean = tf.distribute.ReduceOp.MEAN
    weights.assign_sub(2.0 * strategy.reduce(mean, slope, axis=None))
    return strategy.reduce(mean, loss, axis=None)


for epoch in range(1, 6):
    for _ in range(10):
        loss = step()
    if rank == 0:
        print(json.dumps({"epoch": epoch, "loss": round(float(loss), 4)}), flush=True)

if rank == 0:
    os.makedirs("model", exist_ok=True)
    tf.io.write_file("model/weights", tf.io.serialize_tensor(weights.read_value()))
