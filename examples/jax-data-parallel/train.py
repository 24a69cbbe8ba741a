"""A small network learns two interleaved spirals, data-parallel over all processes.

Nothing here is Dromon's: `jax.distributed.initialize()` finds what it needs in the environment.
"""

import argparse
import json
import os
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

BATCH = 512  # over all processes together


def spirals(count: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    label = random.integers(0, 2, count)
    turn = random.uniform(0.5, 2.0, count) * np.pi
    points = np.stack([turn * np.cos(turn + np.pi * label), turn * np.sin(turn + np.pi * label)], 1)
    return (points / 6 + random.normal(0, 0.02, points.shape)).astype("f4"), label.astype("f4")


def network(sizes: list[int]) -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(1)
    return [
        {"w": random.normal(0, (2 / a) ** 0.5, (a, b)).astype("f4"), "b": np.zeros(b, "f4")}
        for a, b in pairwise(sizes)
    ]


def loss_of(layers, x, y):
    for layer in layers[:-1]:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    logit = (x @ layers[-1]["w"] + layers[-1]["b"])[:, 0]
    loss = jnp.mean(jnp.logaddexp(0, logit) - y * logit)
    return loss, jnp.mean((logit > 0) == (y > 0.5))


@jax.jit
def step(layers, speed, x, y):
    (loss, accuracy), slope = jax.value_and_grad(loss_of, has_aux=True)(layers, x, y)
    speed = jax.tree.map(lambda v, g: 0.9 * v + g, speed, slope)
    return jax.tree.map(lambda w, v: w - 0.1 * v, layers, speed), speed, loss, accuracy


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    epochs = parser.parse_args().epochs

    jax.distributed.initialize()
    rank, size = jax.process_index(), jax.process_count()
    print(f"rank {rank} of {size}, {jax.device_count()} devices in all", flush=True)

    mesh = Mesh(np.array(jax.devices()), ("data",))
    split, whole = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
    inputs, labels = spirals(8192)
    inputs, labels = inputs[rank::size], labels[rank::size]
    layers = jax.device_put(network([2, 64, 64, 1]), whole)
    speed = jax.tree.map(jnp.zeros_like, layers)
    share = BATCH // size
    for epoch in range(1, epochs + 1):
        for start in range(0, len(inputs) - share + 1, share):
            x, y = (
                jax.make_array_from_process_local_data(split, part[start : start + share])
                for part in (inputs, labels)
            )
            layers, speed, loss, accuracy = step(layers, speed, x, y)
        if rank == 0:
            line = {"epoch": epoch, "loss": round(float(loss), 4)}
            print(json.dumps({**line, "accuracy": round(float(accuracy), 4)}), flush=True)

    if rank == 0:
        os.makedirs("model", exist_ok=True)
        flat = {f"{n}.{k}": np.asarray(v) for n, at in enumerate(layers) for k, v in at.items()}
        np.savez("model/spirals.npz", **flat)
        print("saved model/spirals.npz", flush=True)
    jax.distributed.shutdown()


if __name__ == "__main__":
    main()
