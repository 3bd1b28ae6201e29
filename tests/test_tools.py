"""The project's own programs: what is built is looked at, and benchmarks keep their history."""

from __future__ import annotations

import io
import json
import runpy
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.children import run

ROOT = Path(__file__).parent.parent
DIST, LOWEST = (runpy.run_path(str(ROOT / "tools" / f"{name}.py")) for name in ("dist", "lowest"))


def build(folder: Path, more: dict[str, bytes], without: str = "") -> Path:
    """A wheel and an sdist of the package, with more files and without one."""
    files = {name: (ROOT / "src" / name).read_bytes() for name in DIST["package_files"]() if name != without}
    with zipfile.ZipFile(folder / "holdfast-0-py3-none-any.whl", "w") as wheel:
        for name, text in {**files, "holdfast-0.dist-info/licenses/LICENSE": b"", **more}.items():
            wheel.writestr(name, text)
    with tarfile.open(folder / "holdfast-0.tar.gz", "w:gz") as sdist:
        held = {f"src/{name}": text for name, text in files.items()}
        for name, text in {**dict.fromkeys(DIST["NEEDED_IN_SDIST"], b""), **held, **more}.items():
            info = tarfile.TarInfo(f"holdfast-0/{name}")
            info.size = len(text)
            sdist.addfile(info, io.BytesIO(text))
    return folder


@pytest.mark.parametrize(
    ("more", "without", "why"),
    [
        ({}, "", "are complete"),
        ({}, "holdfast/py.typed", "holdfast/py.typed is missing"),
        ({"holdfast/.env": b"x"}, "", "holdfast/.env looks private by its name"),
        ({"notes.txt": b"x"}, "", "notes.txt does not belong there"),
        ({"holdfast/x.py": b"# /home/somebody/x"}, "", "holds a private key or somebody's folder"),
    ],
)
def test_what_is_missing_or_private_fails_the_build(
    more: dict[str, bytes], without: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = DIST["main"](build(tmp_path, more, without))
    said = capsys.readouterr()
    assert why in said.out + said.err
    assert code == (0 if why == "are complete" else 1)


def test_an_empty_folder_fails_the_build(tmp_path: Path) -> None:
    assert DIST["main"](tmp_path) == 1


def test_lower_bounds_are_read_and_kept_packages_stay() -> None:
    assert LOWEST["lowest"](["cli"]).keys() == {"numpy", "array-api-compat", "typer", "rich", "safetensors"}
    assert LOWEST["kept"](["torch"]).keys() == {"torch"}


def test_a_benchmark_leaves_a_line_and_the_history_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    common: Any = __import__("common")
    monkeypatch.setattr(common, "HISTORY", tmp_path / "history.jsonl")
    for value in (2.0, 3.0):
        common.save(tmp_path / "kernels.json", [{"measure": "time ratio", "value": value}], ("numpy",))
    lines = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    assert [line["ratios"] for line in lines] == [{"time ratio": 2.0}, {"time ratio": 3.0}]
    assert lines[0].keys() == {"date", "code", "cores", "system", "python", "benchmark", "ratios"}
    words = ["--history", str(tmp_path / "history.jsonl"), "--out", str(tmp_path / "history.svg")]
    monkeypatch.setattr(sys, "argv", ["history.py", *words])
    assert __import__("history").main() == 0
    assert (tmp_path / "history.svg").exists()


class TestProse:
    def test_long_sentences_and_phrases_are_found_with_their_lines(self, tmp_path: Path) -> None:
        page = tmp_path / "page.md"
        short = "This one is short and plain. " * 9
        page.write_text(
            f"# A page\n\n{short}\n\nThis {'very ' * 30}long one.\n\nWhoever reads a line a round, stops.\n"
        )
        done = run([sys.executable, str(ROOT / "tools" / "prose.py"), str(page)])
        assert done.returncode == 1
        long, *phrases = done.stdout.splitlines()
        assert long.startswith(f"{page}:5: 33 words in one sentence")
        assert [line.split(":")[2].strip() for line in phrases] == ["'Whoever'", "'a line a round'"]

    def test_code_tables_formulas_and_written_parts_are_not_read(self, tmp_path: Path) -> None:
        page = tmp_path / "page.md"
        words = "so many " * 40
        parts = [f"```\n{words}\n```", f"| {words} |", f"<!-- table -->\n{words}\n<!-- /table -->", f"Call `{words}`."]
        page.write_text("\n\n".join(parts) + "\n")
        assert run([sys.executable, str(ROOT / "tools" / "prose.py"), str(page)]).stdout == "the prose is plain\n"

    def test_docstrings_are_read_for_phrases_alone(self, tmp_path: Path) -> None:
        module = tmp_path / "module.py"
        module.write_text('"""A line a run."""\n\ncode = "whoever"  # so many\n')
        done = run([sys.executable, str(ROOT / "tools" / "prose.py"), str(module)])
        assert done.stdout == f"{module}:1: 'A line a run': write 'one ... per ...'\n"
