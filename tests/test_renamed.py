"""Old names: they answer with the new one and a warning; files written under them are still read."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from holdfast import Average, MeanwO
from holdfast.journal import read_journal
from holdfast.renamed import RENAMED, RENAMED_KEYS, read_renamed, rename_keys
from holdfast.report.nodes import nodes

OLD_LINE = {"round": 1, "kept": ["0", "1"], "left_out": {"2": "weight zero"}, "dropped": {}, "far": {"2": 7.5}}


def test_an_old_attribute_answers_with_the_new_one_and_a_warning() -> None:
    decision = MeanwO(f=1).decide(np.array([[0.0], [1.0], [2.0], [90.0]]))
    with pytest.warns(
        DeprecationWarning, match=r"^left_out is named excluded since holdfast 0\.2\.0; write excluded\."
    ):
        assert getattr(decision, "left_out") == decision.excluded == (3,)  # noqa: B009 (mypy knows no old name)


def test_a_name_that_was_never_in_use_is_refused() -> None:
    decision = Average().decide(np.zeros((2, 1)))
    with pytest.raises(AttributeError, match=r"^'Decision' object has no attribute 'leftover'$"):
        getattr(decision, "leftover")  # noqa: B009
    with pytest.raises(AttributeError, match=r"^module 'some' has no attribute 'leftover'$"):
        read_renamed(ModuleType("some"), "leftover")


def test_an_old_line_of_a_journal_is_read_under_the_new_names(tmp_path: Path) -> None:
    (tmp_path / "rounds.jsonl").write_text(json.dumps(OLD_LINE) + "\n" + '{"round": 2, "left_out": 5}\n')
    (line,) = read_journal(tmp_path)  # the second one is in no form of ours, under either name
    assert line == {("excluded" if key == "left_out" else key): value for key, value in OLD_LINE.items()}
    assert [node.letters for node in nodes([line])] == ["f", "k", "k"]


def test_new_records_stay_as_they_are() -> None:
    record = {"round": 1, "excluded": {"2": "weight zero"}}
    assert rename_keys(record) == record


def test_no_name_is_both_old_and_new() -> None:
    assert not set(RENAMED_KEYS) & set(RENAMED_KEYS.values())
    for old, (new, _) in RENAMED.items():
        assert f"{old.rpartition('.')[0]}.{new}" not in RENAMED


def test_the_page_lists_every_renamed_name() -> None:
    page = (Path(__file__).parent.parent / "docs" / "migration.md").read_text()
    names, keys = page.split("## Keys in JSON")
    rows = re.findall(r"^\| `([\w.]+)` \| `(\w+)` \| ([\d.]+) \|$", names, flags=re.MULTILINE)
    assert {old: (new, since) for old, new, since in rows} == RENAMED
    assert dict(re.findall(r"^\| `(\w+)` \| `(\w+)` \|", keys, flags=re.MULTILINE)) == RENAMED_KEYS


@pytest.mark.parametrize("old", [name for name in RENAMED if not name.startswith("holdfast.decision")])
def test_old_names_of_modules_answer(old: str) -> None:
    where, _, name = old.rpartition(".")
    pytest.importorskip("flwr" if "flower" in where else "torch" if "sharded" in where else "numpy")
    module = import_module(where)
    with pytest.warns(DeprecationWarning, match=f"^{name} is named {RENAMED[old][0]} "):
        assert getattr(module, name) is getattr(module, RENAMED[old][0])
    assert name not in module.__all__
