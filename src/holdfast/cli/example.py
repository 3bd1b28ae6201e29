"""Every command carries an example, which its help shows and a test runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Command = TypeVar("Command", bound=Callable[..., None])
EXAMPLES: dict[str, str] = {}


def example(text: str) -> Callable[[Command], Command]:
    """Note a line that a newcomer can paste for a command."""

    def mark(command: Command) -> Command:
        EXAMPLES[command.__name__] = text
        return command

    return mark
