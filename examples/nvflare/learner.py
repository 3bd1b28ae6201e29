"""A site: softmax regression on its own part of scikit-learn's digits. It misbehaves if its arguments say so."""

from __future__ import annotations

import argparse

import numpy as np
import nvflare.client as flare
from lies import Model, fault_of, misbehave
from sklearn.datasets import load_digits

from holdfast.engines.nvflare import answer_vote

CLASSES = 10


def own_part(site: str, sites: int) -> tuple[np.ndarray, np.ndarray]:
    """The images and labels of a site: every n-th image of the first 1,500."""
    images, labels = load_digits(return_X_y=True)
    mine = slice(int(site.rsplit("-", 1)[1]) - 1, 1500, sites)
    return (images / 16).astype(np.float32)[mine], labels[mine]


def probabilities(model: Model, images: np.ndarray) -> np.ndarray:
    scores = images @ model["weight"] + model["bias"]
    powers = np.exp(scores - scores.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True))


def train(model: Model, images: np.ndarray, labels: np.ndarray, *, steps: int = 20, rate: float = 0.5) -> Model:
    """The model after some steps of gradient descent."""
    model = dict(model)
    for _ in range(steps):
        error = (probabilities(model, images) - np.eye(CLASSES, dtype=np.float32)[labels]) / len(labels)
        model["weight"] = model["weight"] - np.float32(rate) * (images.T @ error)
        model["bias"] = model["bias"] - np.float32(rate) * error.sum(0)
    return model


def loss(model: Model, images: np.ndarray, labels: np.ndarray) -> float:
    right = probabilities(model, images)[np.arange(len(labels)), labels]
    return float(-np.log(right + 1e-12).mean())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sites", type=int, default=4)
    parser.add_argument("--lies", nargs="*", default=[], help="sites and their faults, such as site-4=nan")
    args = parser.parse_args()
    flare.init()
    site = flare.get_site_name()
    images, labels = own_part(site, args.sites)
    while flare.is_running():
        received = flare.receive()
        if received is None:
            break
        vote = answer_vote(received, lambda candidate: loss(candidate, images, labels))
        if vote is not None:
            flare.send(vote)
            continue
        fault = fault_of(site, args.lies, int(received.current_round or 0))
        learned = misbehave(fault, received.params, train(received.params, images, labels))
        flare.send(flare.FLModel(params=learned, meta={"NUM_STEPS_CURRENT_ROUND": len(labels)}))


if __name__ == "__main__":
    main()
