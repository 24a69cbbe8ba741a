"""A Keras model trained by a chief and a worker together, as written for tf-yarn:

DROMON_ON=local python keras_model.py /shared/directory/for/the/model
"""

import logging
import os
import sys

import points

from dromon.compat.tf_yarn import KerasExperiment, TaskSpec, run_on_yarn


def experiment_fn():
    import tensorflow as tf

    model_dir = os.environ["MODEL_DIR"]
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, activation="sigmoid", input_shape=(8,))])
    model.compile(loss="binary_crossentropy", optimizer="sgd", metrics=["accuracy"])
    saving = tf.keras.callbacks.ModelCheckpoint(model_dir + "/epoch-{epoch}")
    return KerasExperiment(
        model=model,
        model_dir=model_dir,
        train_params={"steps_per_epoch": 50, "epochs": 3, "callbacks": [saving], "verbose": 2},
        input_data_fn=points.dataset,
        target_data_fn=None,
        validation_data_fn=lambda: points.dataset(1),
    )


if __name__ == "__main__":
    logging.basicConfig(level="INFO")
    run_on_yarn(
        experiment_fn,
        task_specs={
            "chief": TaskSpec(memory="2 GiB", vcores=1),
            "worker": TaskSpec(memory="2 GiB", vcores=1),
            "evaluator": TaskSpec(memory="2 GiB", vcores=1),
        },
        pip_packages=["tensorflow-cpu==2.15.1"],
        files={os.path.basename(points.__file__): points.__file__},
        env={"MODEL_DIR": sys.argv[1], "TF_CPP_MIN_LOG_LEVEL": "2"},
    )
