"""Every command carries an example, which its help shows and a test runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Command = TypeVar("Command", bound=Callable[..., None])


def example(text: str) -> Callable[[Command], Command]:
    """Mark a command with a line that a newcomer can paste."""

    def mark(command: Command) -> Command:
        command.example = text  # type: ignore[attr-defined]
        return command

    return mark
