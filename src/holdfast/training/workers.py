"""Workers that train a torch module on their share of a data set: the task of the experiments."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import vmap
from torch.nn import functional as F

from holdfast.data import Dataset, Share, load, standardise_images
from holdfast.data.pools import Indices
from holdfast.errors import BadInput
from holdfast.jsonable import finite_or_none
from holdfast.training.falsified import false_images, false_labels
from holdfast.training.gradients import Gradients, Loss, together
from holdfast.training.holding import deal_images
from holdfast.training.messages import BALLOT, BATCH, PROBE, generator
from holdfast.training.models import build
from holdfast.training.run import Run
from holdfast.training.task import Failures

CHUNK = 2**17  # numbers in one forward pass: what its first layer answers stays in the cache


class Workers:
    """All workers of a run in one process: a module, a loss, and each worker's indices into the images.

    Parameters
    ----------
    run : Run
        The record of the training.
    data : Dataset or path, optional
        A data set, or a folder where that of the run is looked for first.
    module : torch.nn.Module, optional
        Stands in for the run's model. It is copied; `fill(module, result.model)` puts a trained vector into it.
    loss : callable, optional
        Stands in for cross entropy. Any loss that is a mean over images will do.

    Raises
    ------
    BadInput
        If the module or the loss does not take the images.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.training import Run, Workers
    >>> workers = Workers(Run(rule="MeanwO(f=1)", workers=4))
    >>> rows, failures = workers.updates(workers.start(), np.arange(4), 0)
    >>> len(rows), failures
    (4, {})
    """

    reuses = True  # its rows are one array, written anew in every round

    def __init__(
        self,
        run: Run,
        data: Dataset | Path | str | None = None,
        module: nn.Module | None = None,
        loss: Loss | None = None,
    ) -> None:
        data = data if isinstance(data, Dataset) else load(run.data, data)
        self.run, self.workers, self.classes = run, run.workers, len(data.classes)
        self.shares, aside, root = deal_images(run, data)
        self.device = _device(run.device)
        self.places = Places(self.shares, aside, root)
        self.images = _images(data, self.places, standardise=run.standardise, device=self.device)
        self.samples = self.places.sizes.tolist()
        self.labels = torch.as_tensor(data.labels, dtype=torch.long, device=self.device)[self.places.used]
        self.lies = false_labels(run.attack, self.labels, self.classes)
        self.poisoned, self.backdoor = false_images(run.attack, self.images, self.classes)
        shape = tuple(self.images.shape[1:])
        own = copy.deepcopy(module) if module is not None else None  # theirs stays as it is
        self.module = own if own is not None else build(run.model, shape, self.classes, run.seed)
        self.module.to(self.device)
        if len(shape) == 3:
            self.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.gradients = Gradients(self.module, loss or F.cross_entropy)
        self.loss = self.gradients.loss
        self.first = torch.cat([p.detach().reshape(-1) for p in self.gradients.trained]).cpu().numpy().copy()
        self._takes(shape)
        self.rows: np.ndarray | None = None
        self.chunk = max(32, CHUNK // self.images[0].numel())
        self.module.eval()
        self.blocked = self._blocks(self.images[:2])

    def _takes(self, shape: tuple[int, ...]) -> None:
        """Try module and loss once, on what the first round will see, so that every start chooses the same way."""
        x, y = self.batch(np.arange(self.workers), self.run.batch, BATCH, 0, lie=True)
        try:
            with drawing(self.run.seed, self.device):
                answer = self.module(together(x))
                if not isinstance(answer, Tensor) or answer.shape[0] != y.numel():
                    raise TypeError("it answers with something else than a row of scores an image")
                if self.loss(answer, y.flatten()).dim():
                    raise TypeError("the loss is no mean over images but a number an image")
                self.gradients.settle(x, y, local=self.run.steps > 1)
        except BadInput:
            raise
        except Exception as error:
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise BadInput(f"the module or the loss does not take images of shape {shape} ({why}).") from None

    def mark(self) -> bytes:
        """Return what the first model does not tell: the images, their labels, the loss."""
        digest = hashlib.sha256(self.images.cpu().numpy().tobytes())
        digest.update(self.labels.cpu().numpy().tobytes())
        digest.update(getattr(self.loss, "__qualname__", type(self.loss).__name__).encode())
        return digest.digest()

    def start(self) -> np.ndarray:
        """Return the first model."""
        return self.first.copy()

    def _load(self, model: np.ndarray) -> None:
        self.gradients.load(torch.as_tensor(model, device=self.device))

    def batch(
        self, who: np.ndarray, size: int | None, purpose: int, t: int, *, lie: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Return images and labels (workers, batch), drawn by a stream of its own.

        Parameters
        ----------
        who : numpy.ndarray
            The workers of this round.
        size : int or None
            Images for each worker. None: all its training images.
        purpose : int
            Which stream of draws: for updates, for votes.
        t : int
            The round.
        lie : bool
            Whether Byzantine workers see the labels and images of their attack.

        Returns
        -------
        images : torch.Tensor
            One batch for each worker.
        labels : torch.Tensor
            Their labels.
        """
        places = self.places.draw(size, generator(self.run, purpose, t))[who]
        at = torch.as_tensor(places, device=self.device)
        x, y = self.images[at], self.labels[at]
        if lie and self.run.byzantine:
            liars = torch.as_tensor(who >= self.run.honest, device=self.device)
            y = torch.where(liars[:, None], self.lies[at], y)
            if self.poisoned is not None:
                x[liars] = self.poisoned[at[liars]]
        return x, y

    def updates(self, model: np.ndarray, who: np.ndarray, t: int) -> tuple[np.ndarray, Failures]:
        """Return one update for each worker in `who`, and who failed, and why.

        Parameters
        ----------
        model, who, t
            As for `Task.updates`.

        Returns
        -------
        updates : numpy.ndarray of shape (n, d)
            One row for each worker. The same array is written again in the next round.
        failures : dict from int to str
            Always empty: all workers run in this process.
        """
        if self.rows is None or len(self.rows) != len(who):
            self.rows = np.empty((len(who), len(model)), np.float32)
        out = (
            torch.from_numpy(self.rows)
            if self.device.type == "cpu"
            else torch.empty(self.rows.shape, device=self.device)
        )
        with drawing((self.run.seed * 1_000_003 + t) % 2**63, self.device):
            self.module.train()
            self._load(model)
            if self.run.steps == 1:
                x, y = self.batch(who, self.run.batch, BATCH, t, lie=True)
                self.gradients(x, y, out)
            else:
                self._local(torch.as_tensor(model, device=self.device), who, t, out)
        if self.device.type != "cpu":
            self.rows[:] = out.cpu().numpy()
        return self.rows, {}

    def server_gradient(self, model: np.ndarray, t: int) -> np.ndarray:
        """Return the gradient over all images of the server's own.

        Parameters
        ----------
        model, t
            As for `Task.server_gradient`.

        Returns
        -------
        numpy.ndarray
            As long as the model.
        """
        out = torch.empty((1, len(model)), device=self.device)
        at = torch.as_tensor(self.places.root, device=self.device)[None]
        with drawing((self.run.seed * 1_000_003 + t) % 2**63, self.device):
            self.module.train()
            self._load(model)
            self.gradients(self.images[at], self.labels[at], out)
        return np.asarray(out[0].cpu().numpy())

    def _local(self, model: Tensor, who: np.ndarray, t: int, out: Tensor) -> None:
        """Several SGD steps of every worker; it sends (model - its model) / lr."""
        rate = self.run.lr * self.run.schedule(t, self.run.rounds) or self.run.lr  # the server takes no step then
        out.copy_(model.expand_as(out))
        for step in range(self.run.steps):
            x, y = self.batch(who, self.run.batch, BATCH, t * self.run.steps + step, lie=True)
            self.gradients.descend(out, x, y, rate)
        out.sub_(model).div_(-rate)

    @torch.inference_mode()
    def losses(self, models: Sequence[np.ndarray], who: np.ndarray, t: int) -> np.ndarray:
        """Return each worker's loss at each model, on images that it draws for the vote.

        Parameters
        ----------
        models, who, t
            As for `Task.losses`.

        Returns
        -------
        numpy.ndarray of shape (workers, models)
            The losses.
        """
        self.module.eval()
        x, y = self.batch(who, self.run.vote_batch, BALLOT, t)
        x = together(x)
        out = np.empty((len(who), len(models)))
        for k, model in enumerate(models):
            self._load(model)
            answers = torch.cat([self._seen(part) for part in torch.split(x, self.chunk)])
            out[:, k] = self._felt(answers, y).cpu().numpy()
        return out

    def _seen(self, x: Tensor) -> Tensor:
        """The module's answers, in the library's own layout where it takes that: its pooling is three times as fast."""
        return self.module(x.to_mkldnn()).to_dense() if self.blocked else self.module(x)

    def _blocks(self, x: Tensor) -> bool:
        """Whether the module gives the same in that layout."""
        if x.dim() != 4 or x.device.type != "cpu":
            return False
        try:
            with torch.inference_mode():
                return bool(torch.allclose(self.module(x.to_mkldnn()).to_dense(), self.module(x), rtol=1e-3, atol=1e-5))
        except Exception:  # torch says in many ways what it cannot do
            return False

    def _felt(self, answers: Tensor, y: Tensor) -> Tensor:
        """Each worker's mean loss."""
        if self.loss is F.cross_entropy:  # the usual one, without the cost of a map
            return F.cross_entropy(answers, y.flatten(), reduction="none").view(y.shape).mean(dim=1)
        apart = answers.view(len(y), -1, *answers.shape[1:])
        try:
            return vmap(self.loss)(apart, y)
        except Exception:  # a loss that looks at its numbers cannot be mapped
            return torch.stack([self.loss(*pair) for pair in zip(apart, y, strict=True)])

    def evaluate(self, model: np.ndarray) -> dict[str, Any]:
        """Return how good a model is on the test images, and the norm of the honest workers' gradient.

        Parameters
        ----------
        model : numpy.ndarray
            The model to evaluate.

        Returns
        -------
        dict
            Numbers by name. `accuracy` is over the test images of all workers, `honest` over those of the honest, and
            `pooled` counts each image once, if several workers hold it. `workers` has one accuracy for each worker.
            `validation` is there if the run sets images aside. `success` is there if the attack has a trigger: the part
            of the test images of other classes that are taken for its target once they have the trigger.
        """
        if not np.isfinite(model).all():
            raise BadInput("evaluate was given a model that is not finite.")
        self._load(model)
        self.module.eval()
        places = np.concatenate(self.places.test)
        right, answers, labels = self._right(places)
        by_worker = np.split(right, np.cumsum([len(test) for test in self.places.test])[:-1])
        with torch.no_grad():
            loss = float(self.loss(answers, labels))
        found: dict[str, Any] = {
            "accuracy": float(right.mean()),
            "honest": _mean(np.concatenate(by_worker[: self.run.honest])),
            "pooled": float(right[np.unique(places, return_index=True)[1]].mean()),
            "loss": finite_or_none(loss),
            "gradient_norm": self._slope(),
            "workers": [None if (mean := _mean(part)) is None else round(mean, 4) for part in by_worker],
        }
        if self.run.validation:
            found["validation"] = float(self._right(np.concatenate(self.places.validation))[0].mean())
        if self.backdoor is not None:
            found["success"] = self._success(places, *self.backdoor)
        return found

    def _success(self, places: np.ndarray, stamped: Tensor, target: int) -> float | None:
        """Which part of these images of other classes is taken for the target; None if there is no other class."""
        at = torch.as_tensor(places, device=self.device)
        at = at[self.labels[at] != target]
        return _mean((self._answers(stamped, at).argmax(dim=1) == target).double().cpu().numpy())

    def _right(self, places: np.ndarray) -> tuple[np.ndarray, Tensor, Tensor]:
        """For these images: whether the module is right, its answers, and the labels."""
        at = torch.as_tensor(places, device=self.device)
        answers, labels = self._answers(self.images, at), self.labels[at]
        return (answers.argmax(dim=1) == labels).double().cpu().numpy(), answers, labels

    def _answers(self, images: Tensor, at: Tensor) -> Tensor:
        """The module's scores of these images."""
        with torch.no_grad():
            return torch.cat([self.module(together(images[part][None])) for part in torch.split(at, self.chunk)])

    def _slope(self) -> float | None:
        """Norm of the gradient of the honest workers' mean loss, over a fixed draw of training images."""
        if not self.run.probe:
            return None
        x, y = self.batch(np.arange(self.run.honest), self.run.probe, PROBE, 0)
        total = self.loss(self.module(together(x)), y.flatten(0, 1))
        slopes = torch.autograd.grad(total, self.gradients.trained, allow_unused=True)
        norm = float(torch.cat([g.reshape(-1).double() for g in slopes if g is not None]).norm())
        return finite_or_none(norm)


def fill(module: nn.Module, vector: np.ndarray) -> nn.Module:
    """Put a flat model, such as a result's, into a module of the same structure.

    Parameters
    ----------
    module : torch.nn.Module
        The module to fill.
    vector : numpy.ndarray
        One number for each parameter to train.

    Returns
    -------
    torch.nn.Module
        The same module.

    Raises
    ------
    BadInput
        If the vector has another length.

    Examples
    --------
    >>> import numpy as np
    >>> from torch import nn
    >>> from holdfast.training import fill
    >>> fill(nn.Linear(2, 1, bias=False), np.array([1.0, 2.0], np.float32)).weight.tolist()
    [[1.0, 2.0]]
    """
    wanted = sum(p.numel() for p in module.parameters() if p.requires_grad)
    if vector.shape != (wanted,):
        raise BadInput(f"fill was given a vector of shape {vector.shape} for a module of {wanted} parameters to train.")
    Gradients(module, F.cross_entropy).load(torch.as_tensor(vector))
    return module


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None


@contextmanager
def drawing(seed: int, device: torch.device) -> Iterator[None]:
    """Torch's own draws, such as dropout, by a seed; the caller's generator is left as it was."""
    before = torch.get_rng_state()
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(before)


class Places:
    """Where each worker's images stand among those that are used, and the server's own."""

    def __init__(self, shares: Sequence[Share], aside: Sequence[Indices], root: Indices) -> None:
        parts = [side for share, own in zip(shares, aside, strict=True) for side in (share.train, share.test, own)]
        self.used, at = np.unique(np.concatenate([*parts, root]), return_inverse=True)
        *split, self.root = np.split(at, np.cumsum([len(part) for part in parts]))
        self.train, self.test, self.validation = split[::3], split[1::3], split[2::3]
        self.sizes = np.array([len(train) for train in self.train])
        if not self.sizes.all():
            raise BadInput(f"worker {int(self.sizes.argmin())} was dealt no training image; deal fewer workers.")
        self.table = np.stack([np.resize(train, self.sizes.max()) for train in self.train])

    def draw(self, size: int | None, rng: np.random.Generator) -> np.ndarray:
        """(workers, size) images, without repetition where every worker has that many; None: all (the short repeat)."""
        if size is None:
            return self.table
        if size > self.sizes.min():  # some worker has too few: everybody draws with repetition
            at = (rng.random((len(self.table), size)) * self.sizes[:, None]).astype(int)
        else:
            keys = rng.random(self.table.shape)
            keys[np.arange(self.table.shape[1]) >= self.sizes[:, None]] = 2.0
            at = np.argpartition(keys, size - 1, axis=1)[:, :size]
        return np.take_along_axis(self.table, at, axis=1)


def _images(data: Dataset, places: Places, *, standardise: bool, device: torch.device) -> Tensor:
    """The images in use, channels first, or the rows of features; standardised by the training images."""
    images = data.images[places.used]
    if images.ndim > 2:
        images = images.astype(np.float32) / 255 if images.dtype == np.uint8 else images.astype(np.float32)
    if standardise:
        train = images[np.unique(np.concatenate(places.train))]
        images = standardise_images(train, images)[1]
    if images.ndim > 2:
        images = images[:, None] if images.ndim == 3 else np.moveaxis(images, 3, 1)
    with np.errstate(over="ignore"):
        single = np.ascontiguousarray(images, dtype=np.float32)
    if not np.isfinite(single).all():
        raise BadInput(f"{data.name} has numbers beyond 3e38, which have no place in float32; scale them first.")
    return torch.as_tensor(single, device=device)


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise BadInput(f"device {name!r} cannot be used ({str(error).splitlines()[0]}); 'cpu' always can.") from None
    return device
