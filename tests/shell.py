"""The shell blocks of the documents, carried out: in a folder of their own, in order, as a newcomer would.

Every `holdfast` line runs, in this process, with what earlier lines of the document made. What would take long is
shortened (SHORTER), what cannot run in a test is looked at instead (LOOKED_AT says why, and what is looked at).
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
import typer.main

from holdfast.cli import main
from holdfast.cli.app import app

ROOT = Path(__file__).parent.parent
SHORTER: list[tuple[str, list[str]]] = [  # the last of a repeated option counts
    (r"holdfast demo", ["--rounds", "1"]),
    (r"holdfast train", ["--rounds", "3"]),
    (r"holdfast certify", ["--budget", "60"]),
    (r"holdfast sweep (?!.*--dry-run|byzfl)", ["--only", "seed=0", "--only", "attack=SignFlip*", "--jobs", "2"]),
    (r"holdfast paper run", ["--help"]),  # hours, days; tests/test_paper.py runs some of it
    (r"holdfast paper show", ["--store", "results/paper/runs.jsonl"]),
    (r"holdfast board run", ["--help"]),  # hours; tests/test_board.py runs a small one
    (r"holdfast board add byzfl", ["--help"]),  # ByzFL need not be there
    (r"holdfast board show", ["--folder", "results/board"]),
    (r"holdfast (play|watch)", ["--help"]),  # they serve until somebody stops them; tests/test_web.py asks them
    (r"holdfast .*--cluster", ["--help"]),  # needs a cluster; tests/test_cluster.py has one
    (r"holdfast .*--get", ["--help"]),  # downloads; tests/test_download.py does so from this machine
]
CROWD = """import numpy as np
from holdfast.rules.base import DistanceRule, Tolerance, value

@value
class Crowd(DistanceRule):
    f: Tolerance

    def weights(self, D, rng=None):
        return np.full(len(D), 1 / len(D))
"""
LOOKED_AT = {
    "make": "installs, or takes minutes: the target is there",
    "pip": "changes the environment: extras and files are there",
    "python3": "makes an environment: as written in the Makefile",
    "python": "starts processes and sockets: the program is there and has the options",
    "torchrun": "as python; tests/test_sharded.py starts it",
    "flwr": "as python, for the options of the app; tests/test_flower.py runs the strategies",
    "nvflare": "needs a running federation; the documented words are NVFlare's own",
    "ray": "starts a cluster; tests/test_cluster.py has one",
}


def lines(block: str) -> Iterator[list[str]]:
    """The words of every line, without comments and prompts."""
    for line in block.replace("\\\n", " ").splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        if words:
            yield words


def given(folder: Path) -> None:
    """What a reader has: updates, a ledger of ranks, ByzFL's benchmark file, a folder for data, the results."""
    np.save(folder / "updates.npy", np.random.default_rng(0).standard_normal((15, 8)))
    line = {"round": 0, "kept": ["0", "1"], "excluded": {"2": "far"}, "dropped": {}}
    (folder / "ranks.jsonl").write_text(json.dumps(line) + "\n")
    small = {"nb_steps": 2, "nb_honest_clients": 4, "f": [1], "data_distribution": {"name": "iid"}}
    named = {"aggregator": {"name": "TrMean"}, "attack": {"name": "SignFlipping"}}
    (folder / "config.json").write_text(json.dumps({"benchmark_config": small, **named}))
    (folder / "my_rule.py").write_text(CROWD)
    (folder / "FOLDER").mkdir()
    (folder / "results").symlink_to(ROOT / "results")


def carry_out(words: list[str], folder: Path, document: Path) -> None:
    """Run a line, or look at it."""
    if words[0] == "holdfast":
        run(words, folder)
    else:
        assert words[0] in LOOKED_AT, f"{document.name}: {' '.join(words)}"
        look(words, document.parent)


def run(words: list[str], folder: Path) -> None:
    """In this process, with names filled in as a shell does."""
    line = " ".join(words)
    for pattern, more in SHORTER:
        if re.match(pattern, line):
            words = [*words, *more]
    filled = [name for word in words for name in (_names(word, folder) if "*" in word else [word])]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("sys.argv", filled)
        with pytest.raises(SystemExit) as ended:
            main()
    assert ended.value.code in (None, 0), f"{line}: {ended.value.code}"


def _names(word: str, folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.glob(word)) or [word]


def look(words: list[str], place: Path) -> None:
    """Whether what a line names is there."""
    if words[0] == "make":
        made = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M)
        assert set(words[1:]) <= set(made), words
    elif words[0] == "python3":
        assert words == ["python3", "-m", "venv", ".venv", "&&", ".", ".venv/bin/activate"], words
        assert "-m venv $(VENV)" in (ROOT / "Makefile").read_text()
    elif words[0] == "pip":
        extras = {name for word in words for found in re.findall(r"\[(.*?)\]", word) for name in found.split(",")}
        assert extras <= set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
        assert "-c" not in words or (_checkout(place) / words[words.index("-c") + 1]).exists(), words
        assert "-c" in words or not extras & {"train", "dev"}, f"{words} brings torch for GPUs"
    elif words[0] in ("python", "torchrun"):
        programs = [place / word for word in words if word.endswith(".py")]
        text = "".join(path.read_text() for path in programs) + "".join(p.read_text() for p in place.glob("task.py"))
        assert programs
        for word in words[words.index(programs[0].name) :]:
            assert not word.startswith("--") or f'"{word}"' in text, word
    elif words[0] == "flwr":
        config = tomllib.loads((place / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
        chosen = words[words.index("--run-config") + 1] if "--run-config" in words else ""
        assert set(re.findall(r"([\w-]+)=", chosen)) <= set(config), chosen


def _checkout(place: Path) -> Path:
    """Where a reader stands: in the checkout for the pages of docs/, in its folder for an example."""
    return place.parent if place.name == "docs" else place


def told(words: list[str]) -> None:
    """Whether a command and its options are there, for lines that stand in a sentence."""
    command: click.Command = typer.main.get_command(app)
    at = 1
    while isinstance(command, click.Group) and at < len(words) and words[at] in command.commands:
        command, at = command.commands[words[at]], at + 1
    options: set[Any] = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    assert not isinstance(command, click.Group) or at == len(words) or words[at] in options, " ".join(words)
    for word in words[at:]:
        assert not word.startswith("--") or word in (options | {"--help"}), " ".join(words)
