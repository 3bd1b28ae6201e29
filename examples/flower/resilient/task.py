"""What the nodes learn: softmax regression of digits, in numpy alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Model = dict[str, np.ndarray]


def first() -> Model:
    """The model before the first round."""
    return {"weight": np.zeros((64, 10), np.float32), "bias": np.zeros(10, np.float32)}


def shares(nodes: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Images in rows and their labels, dealt to this number of nodes, and a last share for the server's test."""
    from holdfast.data import load

    data = load("digits")
    order = np.random.default_rng(0).permutation(len(data.labels))
    images = data.images.reshape(len(data.labels), -1).astype(np.float32)
    images /= images.max()
    parts = np.array_split(order[400:], nodes)
    return [(images[at], data.labels[at]) for at in [*parts, order[:400]]]


def share(config: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """A node's own data: the file it was given, or its part of the digits."""
    if "data" in config:
        with np.load(str(config["data"])) as file:
            return file["images"], file["labels"]
    return shares(int(config["num-partitions"]))[int(config["partition-id"])]


def scores(model: Model, images: np.ndarray) -> np.ndarray:
    """Logarithms of the classes' probabilities, image by image."""
    raw = images @ model["weight"] + model["bias"]
    raw = raw - raw.max(axis=1, keepdims=True)
    return np.asarray(raw - np.log(np.exp(raw).sum(axis=1, keepdims=True)))


def loss(model: Model, images: np.ndarray, labels: np.ndarray) -> float:
    """Cross entropy."""
    return float(-scores(model, images)[np.arange(len(labels)), labels].mean())


def accuracy(model: Model, images: np.ndarray, labels: np.ndarray) -> float:
    """The part of the images that is recognised."""
    return float((scores(model, images).argmax(axis=1) == labels).mean())


def trained(model: Model, images: np.ndarray, labels: np.ndarray, rate: float, steps: int) -> Model:
    """The model after `steps` steps of gradient descent."""
    for _ in range(steps):
        slope = np.exp(scores(model, images))
        slope[np.arange(len(labels)), labels] -= 1
        slope /= len(labels)
        model = {
            "weight": model["weight"] - np.float32(rate) * (images.T @ slope),
            "bias": model["bias"] - np.float32(rate) * slope.sum(axis=0),
        }
    return model
