"""A rule of one's own on the command line, by FILE.py:RULE or MODULE:RULE."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

from holdfast import BadInput
from holdfast.cli.own import parse_own
from holdfast.experiments.store import Store
from holdfast.testing import find_aggregator
from tests import children
from tests.test_cli import run

RULES = """
from __future__ import annotations

import numpy as np
from beside import HALF
from holdfast.attacks import Attack
from holdfast.rules.base import DistanceRule, Tolerance, value


@value
class Crowd(DistanceRule):
    f: Tolerance

    def weights(self, D, rng=None):
        reach = np.sort(D, axis=1)[:, len(D) - self.f - 1]
        w = (reach <= np.quantile(reach, HALF)).astype(float)
        return w / w.sum()


@value
class Back(Attack):
    def __call__(self, seen):
        return -seen.own


def median(X):
    return np.median(X, axis=0)
"""
LACKING = "from holdfast.rules.base import DistanceRule\n"


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """A folder with rules that lie beside it."""
    (tmp_path / "mine").mkdir()
    for name, text in {
        "mine/my_rules.py": RULES,
        "mine/beside.py": "HALF = 0.5",
        "mine/broken.py": "\nx = 1 / 0",
        "mine/syntax.py": "def (",
        "mine/lacking.py": LACKING,
        "here.py": "from mine.my_rules import Crowd",
        "beside.py": "HALF = 0.5",
    }.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_training_takes_a_rule_and_an_attack_of_ones_own_and_resumes(shelf: Path) -> None:
    pytest.importorskip("torch")
    line = "holdfast train --rule 'mine/my_rules.py:Crowd(f=2)' --attack 'mine/my_rules.py:Back()' --n 7 --rounds 2"
    for _ in range(2):
        said = run(f"{line} --out run", shelf)
        assert said.startswith("Crowd(f=2) under Back(), 2 of 7 Byzantine: 2 rounds")


def test_a_rule_of_ones_own_aggregates_and_is_compared(shelf: Path) -> None:
    run("holdfast sample demo", shelf)
    files = " ".join(sorted(f"demo/{path.name}" for path in (shelf / "demo").glob("worker-*")))
    assert "Crowd(f=4) on 15 vectors" in run(f"holdfast aggregate 'mine/my_rules.py:Crowd(f=4)' {files}", shelf)
    rules = "Average; mine/my_rules.py:Crowd(f=4); here:NNM(f=4) >> Crowd(f=4)"
    said = run(f"holdfast compare {files} --f 4 --rules '{rules}'", shelf)
    assert "Crowd(f=4)" in said
    assert "NNM(f=4) >> Crowd(f=4)" in said


@pytest.mark.parametrize("name", ["NNM(f=2) >> mine/my_rules.py:Crowd(f=2)", "mine/my_rules.py:NNM(f=2) >> Crowd(f=2)"])
def test_the_file_of_a_rule_may_stand_before_any_stage(shelf: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shelf)
    assert repr(parse_own(name)) == "NNM(f=2) >> Crowd(f=2)"


@pytest.mark.parametrize("rule", ["mine/my_rules.py:Crowd(f=2)", "mine/my_rules.py:Crowd", "here:Crowd"])
def test_a_rule_of_ones_own_is_checked_as_a_rule(shelf: Path, rule: str) -> None:
    assert "Crowd(f=2), n = 11, f = 2: " in run(f"holdfast check '{rule}'", shelf)


def test_a_function_of_a_file_is_checked(shelf: Path) -> None:
    done = children.run(children.holdfast("check", "mine/my_rules.py:median", "--f", "2"), cwd=shelf, env=children.WIDE)
    assert done.returncode == 1, done.stderr
    assert "mine/my_rules.py:median, n = 11, f = 2: " in done.stdout


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("none.py:Crowd(f=2)", "none.py is no file; name"),
        ("no_such_module:Crowd(f=2)", "no_such_module cannot be used here (No module named 'no_such_module')"),
        (
            "mine/my_rules.py:Crwd(f=2)",
            "Crwd is no known rule of mine/my_rules.py; did you mean Crowd? known are Crowd.",
        ),
        ("mine/my_rules.py:Crowd", "Crowd needs f; write it as Crowd(f=2)."),
        ("mine/my_rules.py:Crowd(f=-1)", "Crowd was given f = -1; f is a whole number, at least 0."),
        ("mine/my_rules.py:", "is no rule; write one as MeanwO(f=3)"),
        ("mine/broken.py:Crowd(f=2)", "broken.py cannot be imported (ZeroDivisionError: division by zero, line 2 of"),
        ("mine.broken:Crowd(f=2)", "mine.broken cannot be imported (ZeroDivisionError: division by zero, line 2 of"),
        ("mine/syntax.py:Crowd(f=2)", "syntax.py cannot be imported (SyntaxError: "),
        ("mine/lacking.py:Crowd(f=2)", "lacking.py defines no rule; write a class that inherits from DistanceRule"),
    ],
)
def test_a_file_or_name_that_is_not_there_is_one_sentence(shelf: Path, rule: str, said: str) -> None:
    for command in (f"train --rule '{rule}'", f"aggregate '{rule}' here.py"):
        told = run(f"holdfast {command}", shelf, code=2)
        assert said in told
        assert told.count("\n") == 1


@pytest.mark.parametrize("command", ["train", "aggregate", "compare", "check"])
def test_the_help_says_that_code_is_run(tmp_path: Path, command: str) -> None:
    assert "runs the code" in " ".join(run(f"holdfast {command} --help", tmp_path).replace("│", "").split())


def test_the_text_of_a_rule_still_runs_nothing(shelf: Path) -> None:
    """Sweep files and pages read rules by `parse`, which knows no files."""
    (shelf / "marks.py").write_text("open('ran', 'w').close()")
    call = "from holdfast import Run; Run(rule='marks.py:Crowd(f=1)')"
    done = children.run([sys.executable, *shlex.split(f'-c "{call}"')], cwd=shelf)
    assert "'marks.py:Crowd(f=1)' names a rule of your own, and a text runs no code" in done.stderr
    (shelf / "s.toml").write_text("rules = ['marks.py:Crowd(f=1)']\nbyzantine = 1\n")
    said = run("holdfast sweep s.toml", shelf, code=2)
    assert "s.toml: 'marks.py:Crowd(f=1)' names code of your own; add --own-code, which runs it." in said
    assert not (shelf / "ran").exists()


def test_a_sweep_file_called_a_rule_of_ones_own_no_rule(shelf: Path) -> None:
    pytest.importorskip("torch")
    rules = "['MeanwO(f={f})', 'mine/my_rules.py:Crowd(f={f})', 'NNM(f={f}) >> mine/my_rules.py:Crowd(f={f})']"
    attacks = "['SignFlip()', 'mine/my_rules.py:Back()']"
    (shelf / "s.toml").write_text(f"rules = {rules}\nattacks = {attacks}\nrates = 0.3\nworkers = 7\nrounds = 1\n")
    assert "6 of 6 done" in run("holdfast sweep s.toml --own-code --jobs 1", shelf)
    found = {(repr(entry.run.rule), repr(entry.run.attack)) for entry in Store(shelf / "runs").read()[0]}
    rules_run = ("MeanwO(f=2)", "Crowd(f=2)", "NNM(f=2) >> Crowd(f=2)")
    assert found == {(rule, attack) for rule in rules_run for attack in ("SignFlip()", "Back()")}


def test_a_function_of_ones_own_was_taken_for_the_name_of_another_library(shelf: Path) -> None:
    said = run("holdfast train --rule mine/my_rules.py:median", shelf, code=2)
    assert "median of mine/my_rules.py is a function, no rule; write a class that inherits from DistanceRule" in said


@pytest.mark.parametrize("attack", ["mine/my_rules.py:Back()", "mine/my_rules.py:Back"])
def test_an_attack_was_checked_as_if_it_were_a_rule(shelf: Path, attack: str) -> None:
    done = children.run(children.holdfast("check", attack), cwd=shelf, env=children.WIDE)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "Back() is an attack; these are the checks for attacks\n"
    assert "Back(), n = 11, f = 2: 14 passed" in done.stdout


def test_a_file_is_run_once_and_two_files_of_one_name_are_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "twins.py").write_text(f"name = '{folder}'\ndef mine(X): return name")
    before = set(sys.modules)
    try:
        calls = [find_aggregator(f"{tmp_path / folder}/twins.py:mine", f=1).call for folder in ("one", "two", "one")]
        assert [call(np.zeros((2, 2))) for call in calls] == ["one", "two", "one"]
        assert len(set(sys.modules) - before) == 2
        with pytest.raises(BadInput, match=r"twins.py has no other; name a function"):
            find_aggregator(f"{tmp_path}/one/twins.py:other", f=1)
    finally:
        for name in set(sys.modules) - before:
            monkeypatch.delitem(sys.modules, name)
