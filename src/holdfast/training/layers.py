"""One layer's gradients for each worker, from a pass over everybody's images: linear, convolution, group norm.

Each of these layers treats every image by itself, so a worker's gradient is the sum over that worker's images.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

CACHE = 700_000  # numbers
Layer = nn.Linear | nn.Conv2d | nn.GroupNorm
Part = tuple[Tensor, slice, Tensor]  # a parameter, some workers, and their gradients


def poolable(module: nn.Module) -> bool:
    """Whether all parameters belong to layers whose gradients we can share out, once each."""
    known = {id(p) for layer in module.modules() if _known(layer) for p in layer.parameters(recurse=False)}
    places = [id(p) for part in module.modules() for p in part.parameters(recurse=False)]
    return len(places) == len(set(places)) and set(places) <= known


def _known(layer: nn.Module) -> bool:
    if isinstance(layer, nn.Conv2d):
        return layer.groups == 1 and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    return type(layer) in (nn.Linear, nn.GroupNorm)


def split_by_worker(layer: Layer, given: Tensor, slope: Tensor, w: int) -> Iterator[Part]:
    """The gradients of a layer's weight and bias for some workers at a time, from its input and its answer's slope."""
    if isinstance(layer, nn.GroupNorm):
        yield from _split_norm(layer, given, slope.unflatten(0, (w, -1)))  # type: ignore[no-untyped-call]
        return
    conv = isinstance(layer, nn.Conv2d)
    seen = _windows(layer, given) if isinstance(layer, nn.Conv2d) else given
    seen, slope = seen.unflatten(0, (w, -1)), (slope.permute(0, 2, 3, 1) if conv else slope).unflatten(0, (w, -1))  # type: ignore[no-untyped-call]
    out, channels, *kernel = layer.weight.shape
    many = max(1, CACHE // max(1, seen[0].numel()))
    for at in range(0, w, many):  # what a convolution saw is many times its input: a piece that stays in the cache
        workers = slice(at, min(at + many, w))
        columns = seen[workers].reshape(workers.stop - at, -1, layer.weight[0].numel())
        slopes = slope[workers].reshape(workers.stop - at, -1, out)
        weight = torch.bmm(slopes.transpose(1, 2), columns)
        yield layer.weight, workers, weight.view(-1, out, *kernel, channels).movedim(-1, 2) if conv else weight
        if layer.bias is not None:
            yield layer.bias, workers, slopes.sum(dim=1)


def _split_norm(layer: nn.GroupNorm, given: Tensor, slope: Tensor) -> Iterator[Part]:
    """Likewise for a group norm: its weight multiplies the normalised input, channel by channel."""
    scaled = F.group_norm(given, layer.num_groups, eps=layer.eps).view_as(slope)
    everybody, over = slice(0, len(slope)), [at for at in range(1, slope.dim()) if at != 2]
    yield layer.weight, everybody, (slope * scaled).sum(dim=over)
    if layer.bias is not None:
        yield layer.bias, everybody, slope.sum(dim=over)


def _windows(layer: nn.Conv2d, given: Tensor) -> Tensor:
    """(images, height, width, kernel height, kernel width, channels): what each answer of a convolution saw."""
    (ph, pw), (sh, sw), (dh, dw), (kh, kw) = (
        (int(pair[0]), int(pair[1])) for pair in (layer.padding, layer.stride, layer.dilation, layer.kernel_size)
    )
    image = F.pad(given.permute(0, 2, 3, 1), (0, 0, pw, pw, ph, ph)).contiguous()
    n, height, width, channels = image.shape
    rows, columns = (height - dh * (kh - 1) - 1) // sh + 1, (width - dw * (kw - 1) - 1) // sw + 1
    a, r, c = height * width * channels, width * channels, channels
    return image.as_strided((n, rows, columns, kh, kw, channels), (a, sh * r, sw * c, dh * r, dw * c, 1))
