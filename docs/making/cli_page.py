"""The page of the command line, from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import click
import typer.main

from holdfast.cli.app import app

INTRODUCTION = (Path(__file__).parent / "cli.md").read_text(encoding="utf-8")


def page() -> str:
    """Every command with its help, arguments, options and example."""
    group = typer.main.get_command(app)
    assert isinstance(group, click.Group)
    found = list(commands(group, "holdfast"))
    table = ["| command | what it does |", "| --- | --- |"]
    table += [f"| [`{name}`](#{name.replace(' ', '-')}) | {_first(command)} |" for name, command in found]
    return "\n\n".join([INTRODUCTION, "\n".join(table), *(_section(name, command) for name, command in found), ""])


def commands(group: click.Group, before: str) -> Iterator[tuple[str, click.Command]]:
    """All commands by their whole name, those of a group in its place."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{before} {name}")
        else:
            yield f"{before} {name}", command


def _help(command: click.Command) -> str:
    return cleandoc(command.help or "").replace("\f", "")


def _first(command: click.Command) -> str:
    return " ".join(_help(command).split("\n\n")[0].split()).replace("|", "\\|")


def _section(name: str, command: click.Command) -> str:
    parts = [f"## {name}", _help(command)]
    example = cleandoc(command.epilog or "").removeprefix("Example:").strip()
    if example:
        parts.append(f"```sh\n{example}\n```")
    rows = [row for param in command.params if (row := _row(param))]
    if rows:
        parts.append("\n".join(["| argument or option | default | what it is |", "| --- | --- | --- |", *rows]))
    return "\n\n".join(parts)


def _row(param: click.Parameter) -> str:
    names = [*param.opts, *param.secondary_opts] if isinstance(param, click.Option) else [(param.name or "").upper()]
    if "--help" in names:
        return ""
    told = getattr(param, "help", None) or ""
    text = " ".join(told.split()).replace("|", "\\|")
    return f"| {', '.join(f'`{name}`' for name in names)} | {_default(param)} | {text} |"


def _default(param: click.Parameter) -> str:
    given = param.default
    if param.required:
        return "needed"
    if given is None or given == "" or callable(given) or str(given) == "Sentinel.UNSET":
        return ""
    if isinstance(given, bool):
        return "yes" if given else "no"
    return f"`{given}`"
