"""All workers' gradients in one pass.

Three ways, the first that the module allows: one pooled forward and backward pass over everybody's images, in which
each layer gives each worker its own gradient (`layers.py`); torch's vmap; a loop over workers.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from holdfast.errors import BadInput
from holdfast.training.layers import Layer, poolable, split_by_worker

log = logging.getLogger("holdfast")
Loss = Callable[[Tensor, Tensor], Tensor]


class Gradients:
    """The gradients of `loss(module(x), y)` for many workers at one model; `loss` is a mean over images.

    Called with x (workers, batch, ...), y (workers, batch), out (workers, d): fills one row a worker, the parameters
    in the module's order.
    """

    def __init__(self, module: nn.Module, loss: Loss) -> None:
        for name, part in module.named_modules():
            if getattr(part, "track_running_stats", False):
                raise BadInput(
                    f"layer {name!r} keeps running statistics, which no aggregation rule sees; "
                    "use GroupNorm, or track_running_stats=False."
                )
        self.module, self.loss = module, loss
        trained = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
        if not trained:
            raise BadInput("a module was given that has no parameters to train; set requires_grad on some.")
        if strange := {str(p.dtype) for _, p in trained} - {"torch.float32"}:
            raise BadInput(
                f"a module of {', '.join(sorted(strange))} was given; training is in float32: call .float()."
            )
        self.names, self.trained = [name for name, _ in trained], [p for _, p in trained]
        self.ways = [self._pooled, self._mapped, self._looped]
        if not poolable(module):
            self.ways.pop(0)
        self.settled, self.apart = False, True

    @property
    def way(self) -> str:
        """How the gradients are computed: pooled, mapped or looped."""
        return self.ways[0].__name__[1:]

    def __call__(self, x: Tensor, y: Tensor, out: Tensor) -> None:
        if not self.settled:
            self.settle(x, y)
        self.ways[0](x, y, out)

    def settle(self, x: Tensor, y: Tensor, *, local: bool = False) -> None:
        """Choose the way by trying it on some images, that of `local` steps too; torch's generator is left alone."""
        buffers = [buffer.clone() for buffer in self.module.buffers()]
        before = torch.get_rng_state()
        while len(self.ways) > 1:
            try:
                with strictly():
                    if self._agrees(x, y):
                        break
                why = "it gives other gradients than a worker by itself"
            except Exception as error:  # torch says in many ways what it cannot do
                why = _first_line(error)
            tried = self.way
            self.ways.pop(0)
            log.warning("gradients are %s, since %s is not possible for this module (%s)", self.way, tried, why)
        if self.way == "looped":
            self._looped(x[:1], y[:1], torch.empty(1, self.size, device=x.device))
        self.apart = self.way != "looped" and (not local or self._maps(x, y))
        torch.set_rng_state(before)
        if any(not torch.equal(was, now) for was, now in zip(buffers, self.module.buffers(), strict=True)):
            raise BadInput("the module changes its buffers in training, which no rule sees; use one that does not.")
        self.settled = True

    def _maps(self, x: Tensor, y: Tensor) -> bool:
        """Whether a mapped local step of the first worker is what the module by itself gives."""
        here = torch.cat([p.detach().reshape(-1) for p in self.trained])
        models, want, training = (
            here.repeat(len(x), 1),
            torch.empty(1, self.size, device=x.device),
            self.module.training,
        )
        self.module.eval()
        try:
            self.descend(models, x, y, 1.0)
            self._looped(x[:1], y[:1], want)
        finally:
            self.module.train(training)
            self.load(here)
        return self.apart and _close(here - models[:1], want)

    def _agrees(self, x: Tensor, y: Tensor) -> bool:
        """Whether the first worker's row is what the module by itself gives: without dropout, and pooled also with."""
        training, state = self.module.training, torch.get_rng_state()
        got, alone, want = torch.empty(len(x), self.size), torch.empty(1, self.size), torch.empty(1, self.size)
        got, alone, want = got.to(x.device), alone.to(x.device), want.to(x.device)
        try:
            self.ways[0](x, y, got)  # as it will be
            self.module.eval()
            self.ways[0](x, y, got)
            self._looped(x[:1], y[:1], want)
            same = _close(got[:1], want)
        finally:
            self.module.train(training)
        if self.way == "pooled":
            torch.set_rng_state(state)
            self._pooled(x[:1], y[:1], alone)
            torch.set_rng_state(state)
            self._looped(x[:1], y[:1], want)
            same = same and _close(alone, want)
            torch.set_rng_state(state)
            self._pooled(x, y, got)
            torch.set_rng_state(state)
            others = got.new_empty(got.shape)
            self._pooled(torch.cat([x[:1], x[1:].flip(0)]), torch.cat([y[:1], y[1:].flip(0)]), others)
            same = same and _close(got[:1], others[:1])  # nobody else's images matter
        return same

    @property
    def size(self) -> int:
        """Numbers that are trained."""
        return sum(p.numel() for p in self.trained)

    def _pooled(self, x: Tensor, y: Tensor, out: Tensor) -> None:
        w = len(y)
        uses: list[tuple[Layer, Tensor, Tensor]] = []
        versions: list[tuple[tuple[Tensor, int], ...]] = []

        def note(layer: Layer, given: tuple[Tensor, ...], answer: Tensor) -> None:
            if not answer.requires_grad:
                answer.requires_grad_()
            uses.append((layer, given[0].detach(), answer))
            versions.append(((given[0], given[0]._version), (answer, answer._version)))

        parts = self.module.modules()
        layers = [one for one in parts if isinstance(one, Layer) and one.weight is not None]
        hooks = [layer.register_forward_hook(note) for layer in layers]
        held = self.trained
        try:
            for p in held:  # the pass stops at the layers' answers; their parameters come by worker
                p.requires_grad_(False)
            total = self.loss(self.module(together(x)), y.flatten(0, 1)) * w
            if any(seen._version != version for pair in versions for seen, version in pair):
                raise RuntimeError("a layer's input or answer was changed in place")
            slopes = torch.autograd.grad(total, [answer for _, _, answer in uses])
        finally:
            for hook in hooks:
                hook.remove()
            for p in held:
                p.requires_grad_()
        rows = dict(zip(map(id, self.trained), self._views(out), strict=True))
        fresh = set(rows)  # what nothing was added to yet
        for (layer, given, _), slope in zip(uses, slopes, strict=True):
            for owner, workers, part in split_by_worker(layer, given, slope, w):
                if id(owner) not in rows:  # frozen
                    continue
                rows[id(owner)][workers].copy_(part) if id(owner) in fresh else rows[id(owner)][workers].add_(part)
            fresh -= {id(owner) for owner in layer.parameters()}
        for unused in fresh:
            rows[unused].zero_()

    def _mapped(self, x: Tensor, y: Tensor, out: Tensor) -> None:
        fixed = {name: p.detach() for name, p in zip(self.names, self.trained, strict=True)}
        grads = vmap(grad(self._at), in_dims=(None, 0, 0), randomness="different")(fixed, x, y)
        self._fill(grads, out)

    def _looped(self, x: Tensor, y: Tensor, out: Tensor) -> None:
        for i in range(len(x)):
            loss = self.loss(self.module(x[i]), y[i])
            grads = torch.autograd.grad(loss, self.trained, allow_unused=True)
            flat = [g.reshape(-1) if g is not None else torch.zeros_like(p).reshape(-1) for g, p in self._with(grads)]
            torch.cat(flat, out=out[i])

    def descend(self, models: Tensor, x: Tensor, y: Tensor, lr: float) -> None:
        """One SGD step of every worker from its own model (workers, d), in place: what local steps are made of."""
        before = torch.get_rng_state()
        if self.apart:
            split = dict(zip(self.names, self._views(models), strict=True))
            try:
                with strictly():
                    grads = vmap(grad(self._at), in_dims=(0, 0, 0), randomness="different")(split, x, y)
                for name, g in grads.items():
                    split[name].sub_(g, alpha=lr)
                return
            except Exception as error:
                self.apart = False
                torch.set_rng_state(before)
                log.warning(
                    "local steps are looped, since mapped is not possible for this module (%s)", _first_line(error)
                )
        out = torch.empty_like(models[:1])
        for i in range(len(models)):
            self.load(models[i])
            self._looped(x[i : i + 1], y[i : i + 1], out)
            models[i].sub_(out[0], alpha=lr)

    def load(self, flat: Tensor) -> None:
        """Put a flat vector into the module's parameters."""
        with torch.no_grad():
            for p, part in zip(self.trained, self._views(flat[None]), strict=True):
                p.copy_(part[0])

    def _at(self, parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return self.loss(functional_call(self.module, parameters, (x,)), y)

    def _views(self, rows: Tensor) -> list[Tensor]:
        sizes = [p.numel() for p in self.trained]
        shapes = [p.shape for p in self.trained]
        parts = torch.split(rows, sizes, dim=1)
        return [part.view(len(rows), *shape) for part, shape in zip(parts, shapes, strict=True)]

    def _with(self, grads: Any) -> Any:
        return zip(grads, self.trained, strict=True)

    def _fill(self, grads: dict[str, Tensor], out: Tensor) -> None:
        torch.cat([grads[name].flatten(1) for name in self.names], dim=1, out=out)


def _close(got: Tensor, want: Tensor) -> bool:
    """The same up to rounding, where they are finite at all."""
    sound = torch.isfinite(want)
    if not torch.equal(torch.isfinite(got), sound):
        return False
    got, want = got[sound], want[sound]
    return not len(want) or torch.allclose(got, want, rtol=1e-3, atol=1e-4 * float(want.abs().max()) + 1e-30)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


@contextmanager
def strictly() -> Iterator[None]:
    """What torch only warns of, such as a map that is a slow loop inside, counts as not possible."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*performance drop.*")
        yield


def together(x: Tensor) -> Tensor:
    """Everybody's images as one batch; pictures with the channels last, which convolutions like."""
    x = x.flatten(0, 1)
    return x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x
