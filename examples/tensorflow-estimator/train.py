"""`train_and_evaluate`: every role runs this same script and finds its part in TF_CONFIG."""

import json
import os

import numpy as np
import tensorflow as tf

task = json.loads(os.environ["TF_CONFIG"])["task"]
print(f"{task['type']} {task['index']}", flush=True)


def data(repeat):
    random = np.random.default_rng(0)
    inputs = random.normal(size=(1024, 8)).astype("f4")
    labels = (inputs.sum(1) > 0).astype("i4")
    rows = tf.data.Dataset.from_tensor_slices(({"x": inputs}, labels))
    return rows.repeat(repeat).batch(64)


estimator = tf.estimator.LinearClassifier(
    feature_columns=[tf.feature_column.numeric_column("x", shape=[8])],
    model_dir="model",
    config=tf.estimator.RunConfig(save_checkpoints_steps=100, tf_random_seed=0),
)
tf.estimator.train_and_evaluate(
    estimator,
    tf.estimator.TrainSpec(lambda: data(None), max_steps=200),
    tf.estimator.EvalSpec(lambda: data(1), steps=None, start_delay_secs=1, throttle_secs=1),
)
if task["type"] == "evaluator":
    result = estimator.evaluate(lambda: data(1))
    print(json.dumps({"step": int(result["global_step"]), "loss": round(float(result["loss"]), 4)}))
print(f"{task['type']} {task['index']} is done", flush=True)
