"""An Estimator with chief, worker, parameter server and evaluator, as written for tf-yarn:

    DROMON_ON=local python linear_classifier.py /shared/directory/for/the/model

Only the import differs. TensorFlow need not be installed where this runs.
"""

import logging
import os
import sys

import points

from dromon.compat.tf_yarn import Experiment, TaskSpec, run_on_yarn


def experiment_fn():
    import tensorflow as tf

    estimator = tf.estimator.LinearClassifier(
        feature_columns=[tf.feature_column.numeric_column("x", shape=[8])],
        model_dir=os.environ["MODEL_DIR"],
        config=tf.estimator.RunConfig(save_checkpoints_steps=100, tf_random_seed=0),
    )
    return Experiment(
        estimator,
        tf.estimator.TrainSpec(lambda: points.dataset(None, "x"), max_steps=200),
        tf.estimator.EvalSpec(lambda: points.dataset(1, "x"), steps=None, start_delay_secs=0),
    )


if __name__ == "__main__":
    logging.basicConfig(level="INFO")
    metrics = run_on_yarn(
        experiment_fn,
        task_specs={
            "chief": TaskSpec(memory=2**10, vcores=1),
            "worker": TaskSpec(memory=2**10, vcores=1),
            "ps": TaskSpec(memory=2**10, vcores=1),
            "evaluator": TaskSpec(memory=2**10, vcores=1),
        },
        pip_packages=["tensorflow-cpu==2.15.1"],  # the last TensorFlow with Estimator
        files={os.path.basename(points.__file__): points.__file__},
        env={"MODEL_DIR": sys.argv[1], "TF_CPP_MIN_LOG_LEVEL": "2"},
        name="LinearClassifier",
    )
    print("trained on", sorted(metrics.container_duration))
