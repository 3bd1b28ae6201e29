"""Which NVFlare this was seen to work with."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from holdfast.errors import MissingExtra

FROM, BELOW = (2, 9), (2, 10)


def check() -> None:
    """Refuse to be imported without NVFlare, or with one whose controllers may differ."""
    try:
        installed = version("nvflare")
    except PackageNotFoundError:
        raise MissingExtra("holdfast.engines.nvflare", "NVFlare", "nvflare") from None
    number = tuple(int(part) for part in installed.split(".")[:2] if part.isdigit())
    if not FROM <= number < BELOW:
        want = f">={FROM[0]}.{FROM[1]},<{BELOW[0]}.{BELOW[1]}"
        raise ImportError(
            f"holdfast.engines.nvflare was tried with other versions than {installed}; pip install 'nvflare{want}'."
        )
