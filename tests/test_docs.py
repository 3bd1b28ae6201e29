"""What the documents say is true: every block runs or is read, links lead somewhere, figures are measured.

The pages that are made from the code are not here: their examples are doctests, and those of tests/test_cli.py; the
students' notebook is run by tests/test_notebook.py.
"""

from __future__ import annotations

import json
import re
import runpy
import shlex
import subprocess
import tomllib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from holdfast.attacks import ATTACKS, VOTERS
from holdfast.data import SPLITS
from holdfast.experiments.demo import cells
from holdfast.guarantees.bounds import bounds, everyone
from holdfast.rules import CATALOGUE
from tests import shell

ROOT = Path(__file__).parent.parent
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "examples").glob("*/README.md")),
]
GENERATED = "built by `make docs`"  # said in the line of a link to a page that is not in the repository
SHELL = ("sh", "bash", "console")
READ: dict[str, Callable[[str], Any]] = {  # languages that are not carried out, and how they are read
    "toml": tomllib.loads,
    "json": json.loads,
    "diff": lambda text: compile(re.sub(r"^-.*\n|^[+ ] ?", "", text, flags=re.M), "diff", "exec"),
    "py": lambda text: compile(text, "py", "exec"),  # several processes: tests/test_sharded.py starts it
    "text": str,  # what a program printed
}


class Block(NamedTuple):
    """A fenced block of a document."""

    language: str
    text: str


def fenced(path: Path) -> list[Block]:
    found = re.findall(r"^( *)```([^\n]*)\n(.*?)^\1```$", path.read_text(), re.S | re.M)
    return [Block(language, text) for _, language, text in found]


def blocks(path: Path, language: str) -> list[str]:
    return [block.text for block in fenced(path) if block.language == language]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_every_block_says_its_language_and_can_be_read(path: Path) -> None:
    assert path.read_text().count("```") == 2 * len(fenced(path))
    for block in fenced(path):
        assert block.language in ("python", *SHELL, *READ), block
        if block.language in READ:
            READ[block.language](block.text)


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_python_runs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"np": np, "__name__": "__main__"}  # a later block may go on where an earlier one stopped
    for code in blocks(path, "python"):
        exec(compile(code, path.name, "exec"), names)


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if any(blocks(path, one) for one in SHELL)], ids=name)
def test_shell_lines_run(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shell.given(tmp_path)
    for block in fenced(path):
        if block.language == "toml" and (file := re.match(r"# ([\w.]+):", block.text)):
            (tmp_path / file[1]).write_text(re.sub(r"rounds = \d+", "rounds = 1", block.text))
        if block.language in SHELL:
            for words in shell.lines(block.text):
                shell.carry_out(words, tmp_path, path)


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_commands_in_sentences_are_there(path: Path) -> None:
    prose = re.sub(r"^( *)```.*?^\1```$", "", path.read_text(), flags=re.S | re.M)
    for line in re.findall(r"`(holdfast [^`]*)`", prose):
        shell.told(shlex.split(line))


def test_contributing_shows_a_whole_rule() -> None:
    (code,) = blocks(ROOT / "CONTRIBUTING.md", "python")
    names: dict[str, Any] = {"np": np}
    exec(code, names)
    rule = names["NearestPair"]()
    assert rule(np.array([[0.0], [1.0], [5.0], [np.nan]])).tolist() == [0.5]
    assert rule.decide([{"w": np.zeros(2)}, {"w": np.ones(2)}]).kept == (0, 1)
    assert repr(rule) == "NearestPair()"
    assert len([line for line in code.split("@value")[1].splitlines() if line.strip()]) <= 11


def dead_links(text: str, folder: Path) -> list[str]:
    """The relative links of a document that lead to nothing in the repository, in lines that do not say why."""
    prose = re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.S | re.M)
    return [
        target
        for line in prose.split("\n")
        if GENERATED not in line
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)|(?:src|href)=\"([^\"#]+)", line)
        for target in target
        if target and not re.match(r"[a-z]+:", target) and not in_repository(folder / target)
    ]


@cache
def tracked() -> frozenset[str]:
    """The files of the repository and their folders; empty where this is no checkout."""
    if not (ROOT / ".git").exists():
        return frozenset()
    call = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]  # with what is new
    files = map(Path, subprocess.run(call, capture_output=True, text=True, check=True).stdout.splitlines())
    return frozenset(str(path) for file in files for path in (file, *file.parents))


def in_repository(path: Path) -> bool:
    """Whether a file or folder is in the repository; what `make docs` or a program leaves in a checkout is not."""
    there = path.resolve()
    return there.exists() and (not tracked() or str(there.relative_to(ROOT.resolve())) in tracked())


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_no_link_is_dead_in_the_repository(path: Path) -> None:
    assert not dead_links(path.read_text(), path.parent)


def test_a_page_that_is_only_built_is_a_dead_link_unless_its_line_says_so() -> None:
    docs = ROOT / "docs"
    assert dead_links("[The attacks](attacks.md#pga) and ![x](pictures/x.svg)", docs) == [
        "attacks.md",
        "pictures/x.svg",
    ]
    assert not dead_links("[The attacks](attacks.md), built by `make docs`.", docs)
    assert not dead_links("[a](choosing.md#a), [b](../README.md), [c](../src/holdfast/rules), [d](https://e.org)", docs)
    assert dead_links('<img src="pictures/x.svg"> <a href="#here">', docs) == ["pictures/x.svg"]


def test_the_readme_shows_both_commands_and_every_make_target_exists() -> None:
    made = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    named = set(re.findall(r"`?make ([a-z]+)", "".join(path.read_text() for path in DOCUMENTS)))
    assert {"demo", "test"} <= named <= made


def test_the_readme_s_figures_come_from_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    report = runpy.run_path(str(ROOT / "benchmarks" / "report.py"))
    text = (ROOT / "README.md").read_text()
    assert report["replaced"](text) == text
    training = (ROOT / "docs" / "training.md").read_text()
    assert report["trained"](training) == training
    assert report["searches"]() == (ROOT / "docs" / "search.md").read_text()
    see = (ROOT / "docs" / "see.md").read_text()
    assert report["pages"](see) == see
    testing = (ROOT / "docs" / "testing.md").read_text()
    assert report["checks"](testing) == testing
    guarantees = (ROOT / "docs" / "guarantees.md").read_text()
    assert report["promises"](guarantees) == guarantees
    distributed = (ROOT / "docs" / "distributed.md").read_text()
    assert report["distributed"](distributed) == distributed
    flower = (ROOT / "docs" / "flower.md").read_text()
    assert report["flower"](flower) == flower
    left_open = (ROOT / "docs" / "left-open.md").read_text()
    assert report["left_open"](left_open) == left_open
    choosing = (ROOT / "docs" / "choosing.md").read_text()
    assert report["unknown_f"](choosing) == choosing
    weights = (ROOT / "docs" / "weights.md").read_text()
    assert report["weighing"](weights) == weights
    board = (ROOT / "docs" / "board.md").read_text()
    assert report["board"](board) == board


def test_the_page_on_checks_shows_what_the_check_prints(capsys: pytest.CaptureFixture[str]) -> None:
    code = next(code for code in blocks(ROOT / "docs" / "testing.md", "python") if "except ChecksFailed" in code)
    exec(code, {})
    shown = re.search(r"print\(error\)  # (.*?) \.\.\.", code)
    assert shown is not None
    assert shown[1] in capsys.readouterr().out


def test_the_readme_s_training_was_another_than_the_cell_of_its_table() -> None:
    (code,) = [code for code in blocks(ROOT / "README.md", "python") if "holdfast.Run(" in code]
    names: dict[str, Any] = {}
    exec(code.partition("print(")[0], names)
    assert names["run"] == replace(cells()["Mean2P", "SF"], every=10, probe=16)  # when it is evaluated changes nothing


def test_every_proved_constant_has_its_proof_in_the_document() -> None:
    headings = set(re.findall(r"^#+ (.*)$", (ROOT / "docs" / "guarantees.md").read_text(), re.M))
    for n, f in ((35, 7), (35, 0), (35, 1), (9, 2)):
        for rule in everyone(n, f):
            for promise in bounds(rule, n, f).values():
                source = promise.ours.source if promise.ours else ""
                assert not source or source.startswith("from ") or source in headings, (rule, source)


def test_every_rule_and_attack_is_in_the_changelog() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    for name in (*CATALOGUE, *ATTACKS, *VOTERS, *SPLITS):
        assert f"`{name}`" in text, name


def test_no_document_speaks_of_a_machine() -> None:
    for path in DOCUMENTS:
        assert not re.search(r"(^|[\s`(])/(home|root|tmp|opt|usr)/", path.read_text()), path.name
