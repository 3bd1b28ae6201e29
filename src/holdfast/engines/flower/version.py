"""Which Flower this was seen to work with."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from holdfast.errors import MissingExtra

FROM, BELOW = (1, 41), (1, 43)


def check() -> None:
    """Refuse to be imported without Flower, or with one whose messages may differ."""
    try:
        installed = version("flwr")
    except PackageNotFoundError:
        raise MissingExtra("holdfast.engines.flower", "Flower", "flower") from None
    number = tuple(int(part) for part in installed.split(".")[:2] if part.isdigit())
    if not FROM <= number < BELOW:
        want = f">={FROM[0]}.{FROM[1]},<{BELOW[0]}.{BELOW[1]}"
        raise ImportError(
            f"holdfast.engines.flower was tried with other versions than {installed}; pip install 'flwr{want}'."
        )
