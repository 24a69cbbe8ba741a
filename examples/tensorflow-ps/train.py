"""Logistic regression; variables live on the parameter server, steps run on the workers."""

import json

import tensorflow as tf

cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
print(f"{cluster.task_type} {cluster.task_id}", flush=True)
if cluster.task_type in ("worker", "ps"):
    server = tf.distribute.Server(
        cluster.cluster_spec(), job_name=cluster.task_type, task_index=cluster.task_id
    )
    server.join()  # for ever

strategy = tf.distribute.ParameterServerStrategy(cluster)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    weights = tf.Variable(tf.zeros([16, 1]))


@tf.function
def step():
    inputs = tf.random.normal([256, 16])
    labels = tf.cast(tf.reduce_sum(inputs, 1) > 0, tf.float32)
    with tf.GradientTape() as tape:
        logit = tf.matmul(inputs, weights)[:, 0]
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logit))
    weights.assign_sub(0.5 * tape.gradient(loss, weights))
    return loss


for epoch in range(1, 6):
    results = [coordinator.schedule(step) for _ in range(20)]
    coordinator.join()
    loss = sum(float(r.fetch()) for r in results) / len(results)
    print(json.dumps({"epoch": epoch, "loss": round(loss, 4)}), flush=True)
