"""What Byzantine workers make of their data: labels, images and a trigger, as the attack says, checked."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from holdfast.attacks import Attack
from holdfast.checks import is_whole
from holdfast.errors import BadInput, article


def false_labels(attack: Attack, labels: Tensor, classes: int) -> Tensor:
    """The labels as Byzantine workers see them."""
    wrong = np.asarray(attack.labels(labels.cpu().numpy().copy(), classes))
    known = wrong.dtype.kind in "iu" and bool(((wrong >= 0) & (wrong < classes)).all())
    if wrong.shape != tuple(labels.shape) or not known:
        raise BadInput(f"{attack!r} made labels that are no classes; return one of {classes} for each image.")
    return torch.as_tensor(wrong, dtype=torch.long, device=labels.device)


def false_images(attack: Attack, images: Tensor, classes: int) -> tuple[Tensor | None, tuple[Tensor, int] | None]:
    """The images as Byzantine workers see them, if they differ; the images with a trigger and their target."""
    true = images.cpu().numpy()
    wrong, trigger = attack.images(true.copy()), attack.backdoor(true.copy())  # which may write into theirs
    made = _as_images(wrong, attack, images)
    poisoned = None if torch.equal(made, images) else made
    if trigger is None:
        return poisoned, None
    if not isinstance(trigger, tuple) or len(trigger) != 2 or not is_whole(trigger[1], least=0, most=classes - 1):
        raise BadInput(f"{attack!r} made no backdoor; return images and one of {classes} classes, as (x, 0).")
    return poisoned, (_as_images(trigger[0], attack, images), int(trigger[1]))


def _as_images(given: object, attack: Attack, images: Tensor) -> Tensor:
    shape, wanted = getattr(given, "shape", None), tuple(images.shape)
    if not isinstance(given, np.ndarray) or shape != wanted or not np.isfinite(given).all():
        told = f" of shape {shape}" if shape is not None and shape != wanted else " with numbers that are not finite"
        what = article(type(given).__name__) if shape is None else f"images{told}"
        raise BadInput(f"{attack!r} made {what} of images of shape {wanted}; return finite ones of the same shape.")
    return torch.as_tensor(given, dtype=images.dtype, device=images.device)
