"""What an attack sends: one row for each Byzantine worker, read as a numpy array, or refused in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from holdfast.arrays import is_array, viewed
from holdfast.attacks.base import Rows, View
from holdfast.errors import BadInput, article
from holdfast.places import fetch

Attacker = Callable[[View], Any]
ORDINARY = 0.25  # power of the largest float up to which an attack has room for its arithmetic


class _Unfit(Exception):
    """Says what was sent instead of rows."""


def is_hostile(attack: Attacker) -> bool:
    """Whether the attack declares, by `hostile = True`, that it sends broken messages on purpose."""
    return bool(getattr(attack, "hostile", False))


def read_rows(attack: Attacker, seen: View, *, who: str | None = None) -> Any:
    """Call an attack and return the rows that it sends.

    Parameters
    ----------
    attack : callable
        It takes a `View`.
    seen : View
        The round.
    who : str, optional
        What the sentence of the error calls the attack. Default: its text.

    Returns
    -------
    numpy.ndarray of shape (b, d)
        The rows. They may come as an array, or as a list of b vectors, of numpy, torch, JAX and other libraries. If a
        hostile attack sends something else, it is returned as it is.

    Raises
    ------
    BadInput
        If the attack returns something else, and does not declare `hostile = True`.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.attacks import View
    >>> from holdfast.attacks.sent import read_rows
    >>> seen = View(honest=np.ones((3, 2)), own=np.ones((2, 2)))
    >>> read_rows(lambda seen: seen.honest[0], seen, who="Mine()")
    Traceback (most recent call last):
    holdfast.errors.BadInput: Mine() returned an array of shape (2,); return one row for each Byzantine worker, an array
    of shape (2, 2), or set hostile = True on its class to send anything.
    """
    sent = attack(seen)
    try:
        return _stacked(sent, seen.own.shape)
    except _Unfit as unfit:
        if is_hostile(attack):
            return sent
        raise BadInput(
            f"{who or _name(attack)} returned {unfit}; return one row for each Byzantine worker, an array of shape "
            f"{seen.own.shape}, or set hostile = True on its class to send anything."
        ) from None


def is_finite(sent: Any, own: Rows) -> bool:
    """Whether all numbers that were sent are finite in the precision of the workers' own rows; others cannot be."""
    if not isinstance(sent, np.ndarray) or sent.dtype.kind not in "fiu":
        return True
    with np.errstate(all="ignore"):
        if sent.dtype == own.dtype and np.isfinite(sent.sum()):
            return True
        return bool(np.isfinite(sent.astype(own.dtype, copy=False) if own.dtype.kind == "f" else sent).all())


def require_finite(attack: Attacker, sent: Any, seen: View, *, who: str | None = None) -> None:
    """Refuse rows that are not finite.

    Rounds whose own numbers are not finite, or too large for arithmetic, are let pass. So are hostile attacks.
    """
    if is_hostile(attack) or is_finite(sent, seen.own) or not _is_ordinary(seen):
        return
    raise BadInput(
        f"{who or _name(attack)} returned rows that are not finite in {seen.own.dtype}; return finite rows, or set "
        "hostile = True on its class if that is the attack."
    )


def list_messages(sent: Any) -> list[Any]:
    """What was sent as a list of messages; empty if it is no list of anything."""
    return list(sent) if isinstance(sent, (list, tuple)) or (isinstance(sent, np.ndarray) and sent.ndim) else []


def _stacked(sent: Any, shape: tuple[int, ...]) -> Rows:
    if isinstance(sent, (list, tuple)):
        if len(sent) != shape[0]:
            raise _Unfit(f"a {type(sent).__name__} of length {len(sent)}")
        rows = [_numbers(row, f"a {type(sent).__name__} with ") for row in sent]
        for row in rows:
            if row.shape != shape[1:]:
                raise _Unfit(f"a {type(sent).__name__} with a row of shape {row.shape}")
        return np.stack(rows) if rows else np.empty(shape)
    if not is_array(sent):
        raise _Unfit(_noun(sent))
    numbers = _numbers(sent, "")
    if numbers.shape != shape:
        raise _Unfit(f"an array of shape {numbers.shape}")
    return numbers


def _numbers(given: Any, within: str) -> np.ndarray:
    """Real numbers of any library, on the host."""
    try:
        numbers = fetch(viewed(given)) if is_array(given) else np.asarray(given)
    except Exception as error:  # whatever an array says when it is looked at
        why = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        raise _Unfit(f"{within}{_noun(given)} that cannot be read ({why})") from None
    if numbers.dtype.kind not in "fiu":
        raise _Unfit(f"{within}{f'an array of {numbers.dtype}' if is_array(given) else _noun(given)}")
    return numbers


def _noun(given: object) -> str:
    return "None" if given is None else article(type(given).__name__)


def _is_ordinary(seen: View) -> bool:
    """Whether the round's numbers leave room for arithmetic; false if one of them is not finite."""
    rows = (seen.honest, seen.own)
    limit = min(float(np.finfo(part.dtype).max) if part.dtype.kind == "f" else np.inf for part in rows) ** ORDINARY
    return all(bool(np.abs(part).max(initial=0) <= limit) for part in rows)


def _name(attack: Attacker) -> str:
    return getattr(attack, "__name__", None) or repr(attack)
