"""The students' notebook runs, and says what it said when it was committed.

python tests/test_notebook.py    runs it and keeps what it shows, without the times that jupyter-execute leaves behind
"""

from __future__ import annotations

import re
import shutil
import warnings
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

HERE = Path(__file__).parent.parent / "docs" / "students.ipynb"
LARGEST = 400_000  # bytes
NEAR = 0.02  # accuracies of another machine's sums: five of 280 images
NUMBER = re.compile(r"-?\d+\.\d+")
DATA = "results["  # what is trained differs by machine in its last digits


def executed(path: Path, folder: Path) -> Any:
    """The notebook, run from its first cell in a folder."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the kernel's own, which are Jupyter's business
        book = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
        resources = {"metadata": {"path": str(folder)}}
        NotebookClient(book, timeout=900, record_timing=False, coalesce_streams=True, resources=resources).execute()
    book.metadata["language_info"] = {"name": "python"}  # without the version of whoever ran it
    return book


def cells(book: Any) -> list[Any]:
    return [cell for cell in book.cells if cell.cell_type == "code"]


def said(cell: Any) -> str:
    """What a cell printed, and the text of what it drew."""
    texts = [out["text"] if out["output_type"] == "stream" else out["data"]["text/plain"] for out in cell.outputs]
    return "".join(texts)


@pytest.fixture(scope="module")
def committed() -> Any:
    return nbformat.read(HERE, as_version=4)  # type: ignore[no-untyped-call]


def test_it_runs_and_says_the_same(committed: Any, tmp_path: Path) -> None:
    copy = Path(shutil.copy(HERE, tmp_path))
    again = executed(copy, tmp_path)  # an error in a cell is an error here
    for then, now in zip(cells(committed), cells(again), strict=True):
        assert [out["output_type"] for out in then.outputs] == [out["output_type"] for out in now.outputs], then.id
        assert all(out.get("name", "stdout") == "stdout" for out in now.outputs), said(now)
        if "train(Run(" in then.source or DATA in then.source:
            assert NUMBER.sub("#", said(then)) == NUMBER.sub("#", said(now)), then.id
            numbers = [[float(x) for x in NUMBER.findall(said(cell))] for cell in (then, now)]
            assert numbers[0] == pytest.approx(numbers[1], abs=NEAR), then.id
        else:
            assert said(then) == said(now), then.id
    assert sorted(path.name for path in tmp_path.iterdir()) == [copy.name]  # it leaves nothing behind


def test_every_cell_shows_what_it_did(committed: Any) -> None:
    assert len(cells(committed)) > 20
    for count, cell in enumerate(cells(committed), start=1):
        assert cell.outputs, cell.source
        assert cell.execution_count == count  # run from top to bottom


def test_it_is_small_and_tells_nothing_of_a_machine(committed: Any) -> None:
    assert HERE.stat().st_size < LARGEST
    words = re.sub(r'"image/png": "[^"]*"', "", HERE.read_text())
    assert not re.search(r"/(home|root|tmp|opt|usr|work)/|site-packages", words)
    assert committed.metadata == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    assert all(not cell.metadata for cell in committed.cells)  # no times


def test_exercises_have_solutions(committed: Any) -> None:
    text = "\n".join(cell.source for cell in committed.cells if cell.cell_type == "markdown")
    asked, answered = text.split("## Solutions")
    posed = re.findall(r"\*\*Exercise (\d+)\.\*\*", asked)
    assert posed == re.findall(r"^\*\*(\d+)\.\*\*", answered, re.M) == [str(i + 1) for i in range(len(posed))]


if __name__ == "__main__":
    nbformat.write(executed(HERE, HERE.parent), HERE)  # type: ignore[no-untyped-call]
