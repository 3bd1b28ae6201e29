"""Reports over a store: what the rows are called, what the tables say, and that pages and figures are whole."""

from __future__ import annotations

import os
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from holdfast import BadInput
from holdfast.cli.report import report
from holdfast.experiments.export import write as export
from holdfast.experiments.store import Entry, Store, key, summarise_run
from holdfast.experiments.sweep import runs, sweep
from holdfast.report.grid import Grid, grid, grids, label
from holdfast.report.groups import Group, bare, caption, groups
from holdfast.report.plots import curves, heat, inline
from holdfast.report.sheet import write
from holdfast.report.tables import html, latex, markdown, note, parts, terminal
from holdfast.spec import parse
from holdfast.training import Run
from holdfast.training.presets import paper
from holdfast.twophase import AGGREGATORS

SMALL: dict[str, Any] = {"workers": 7, "byzantine": 2, "rounds": 3, "every": 2, "batch": 4, "model": "linear"}
HOSTILE = "<script>alert('1')</script> & \\ {x} $x_1$ | 100% #"


def entry(rule: str, attack: str, accuracy: float | None = 0.5, state: str = "done", **words: Any) -> Entry:
    run = Run(rule=rule, attack=attack, **{**SMALL, **words})
    lines = [{"round": t, "winner": "outer", "liars": 0.25, "events": []} for t in range(run.rounds)]
    if accuracy is not None:
        for line, value in ((lines[0], accuracy / 2), (lines[-1], accuracy)):
            line["evaluation"] = {"accuracy": value, "workers": [value]}
    return summarise_run(run, state, lines, seconds=90.0, why="it was too hot" if state == "failed" else "")


def some() -> list[Entry]:
    accuracies = {"Average()": (0.9, 0.1, 0.2), "CWTM(f=2)": (0.9, 0.7, 0.6), "Mean2P(f=2)": (0.8, 0.7, 0.75)}
    attacks = ("NoAttack()", "SignFlip()", "Empire(scale=0.5)")
    return [
        entry(rule, attack, value + 0.02 * seed, seed=seed)
        for rule, row in accuracies.items()
        for attack, value in zip(attacks, row, strict=True)
        for seed in (1, 0)
    ]


def small(reference: dict[tuple[str, str], float] | None = None) -> Grid:
    return grid("t", {("A", "none"): [0.25], ("A", "SF"): [0.76], ("B", "SF"): [0.5, 0.7]}, reference)


@pytest.mark.parametrize(
    ("text", "f", "short"),
    [
        ("CWTM(f=14)", None, "CWTM"),
        ("Average()", None, "Average"),
        ("NNM(f=3) >> CWTM(f=3)", None, "NNM >> CWTM"),
        ("MultiKrum(f=3, m=2)", None, "MultiKrum(m=2)"),
        ("CWTM(f=14)", 14, "CWTM"),
        ("CWTM(f=14)", 1, "CWTM(f=14)"),
        ("NNM(f=3) >> CWTM(f=2)", 3, "NNM >> CWTM(f=2)"),
        ("GeometricMedian(iterations=1, floor=0.0001)", None, "GeometricMedian(iterations=1, floor=0.0001)"),
        ("Mean2P(f=14)", None, "Mean2P"),
        ("Mean2P(f=14)", 13, "Mean2P(f=14)"),
        ("Cent2P(f=14)", 14, "Cent2P"),
        ("TwoPhase(MeanwO(f=4), OuterMean(f=4), Ballot(ties='outer'))", None, "Mean2P, ties to outer"),
        ("TwoPhase(MeanwO(f=4), OuterMean(f=4), Ballot(ties='outer'))", 3, "Mean2P(f=4), ties to outer"),
        ("TwoPhase(MeanwO(f=4), OuterMean(f=4), Numeric())", None, "Mean2P, Numeric()"),
        ("TwoPhase(MeanwO(f=4), OuterMean(f=4), Numeric(margin=0.5))", None, "Mean2P, Numeric(margin=0.5)"),
        ("TwoPhase(MeanExact(f=4), OuterMean(f=4), Numeric())", None, "TwoPhase(MeanExact, OuterMean), Numeric()"),
        ("TwoPhase(MeanwO(f=4), OuterMean(f=3))", 4, "TwoPhase(MeanwO, OuterMean(f=3))"),
    ],
)
def test_labels(text: str, f: int | None, short: str) -> None:
    assert label(parse(text, AGGREGATORS), f) == short


def test_attacks_are_called_by_their_text() -> None:
    attacks = [paper("Avg", name, text=False).attack for name in ("none", "SF", "SV")]
    assert [bare(attack) for attack in attacks] == ["NoAttack", "SignFlip", "ScaledVariance(z=-0.5714, over='honest')"]


def test_a_grid_has_rules_by_attacks_over_seeds() -> None:
    (one,) = grids(some())
    assert (one.title, one.rows) == ("", ["Average", "CWTM", "Mean2P"])
    assert one.columns == ["NoAttack", "SignFlip", "Empire(scale=0.5)"]
    cell = one["CWTM", "SignFlip"]
    assert cell.values == (0.7, 0.72)  # in the order of the seeds
    assert cell.n == 2
    assert cell.mean == pytest.approx(0.71)
    assert cell.std == pytest.approx(0.01)  # divided by n
    assert one.caption == (
        "On digits, split Natural, 7 workers, 2 of them liars, 3 rounds, batch 4, learning rate 0.1, momentum 0.9, "
        "model = linear; seeds 0 and 1; f is the number of liars unless a name says otherwise."
    )


def test_worst_is_over_the_attacks_and_only_if_all_are_known() -> None:
    (one,) = grids(some())
    assert one["Average", "Worst"].mean == pytest.approx(0.11)
    assert one["Mean2P", "Worst"].mean == pytest.approx(0.71)  # not of the run in which nobody lies
    (less,) = grids([e for e in some() if (label(e.run.rule), bare(e.run.attack)) != ("CWTM", "SignFlip")])
    assert less["CWTM", "Worst"].mean is None
    assert less["CWTM", "SignFlip"].n == 0
    assert less["Mean2P", "Worst"].mean == pytest.approx(0.71)


def test_the_best_are_compared_as_they_are_shown() -> None:
    one = grid("", {("A", "x"): [0.764], ("B", "x"): [0.756], ("C", "x"): [0.75], ("C", "y"): [0.1]})
    assert one.best("x") == {"A", "B"}
    assert (one.best("y"), one.best("Worst"), one.best("z")) == (set(), set(), set())  # not all are known


def test_whatever_else_differs_makes_another_grid() -> None:
    more = [
        entry("CWTM(f=3)", "SignFlip()", byzantine=3, split=split) for split in ("Dirichlet(alpha=0.1)", "Uniform()")
    ]
    more += [entry("CWTM(f=2)", "SignFlip()"), entry("CWTM(f=2)", "SignFlip()", 0.7, draw=5)]
    found = grids(more)
    assert [one.title for one in found] == [
        "split = Dirichlet(alpha=0.1, prior='natural'), byzantine = 3",
        "split = Natural, byzantine = 2",
        "split = Uniform, byzantine = 3",
    ]
    assert [one["CWTM", "SignFlip"].n for one in found] == [1, 2, 1]  # another draw is another sample
    assert all(one.caption == found[0].caption for one in found)
    assert "split Natural" not in found[0].caption
    assert "liars," not in found[0].caption


def test_grids_are_in_the_order_of_their_numbers() -> None:
    found = grids([entry("Average()", "SignFlip()", workers=n, byzantine=1) for n in (14, 4, 35)])
    assert [one.title for one in found] == ["workers = 4", "workers = 14", "workers = 35"]


def test_a_row_says_what_its_rule_has_of_its_own() -> None:
    rules = [paper(name, "SF", text=False) for name in ("CWTM", "Mean1P", "Mean2P")]
    rules.append(rules[1].changed(shrink=1.0))
    (one,) = grids([summarise_run(run, "done", [{"round": 0, "evaluation": {"accuracy": 0.5}}]) for run in rules])
    assert one.rows == [
        "MeanwO(ties='all')",
        "MeanwO(ties='all'), shrink = 0.6",
        "CWTM",
        "Mean2P, ties to outer, shrink = 0.6",
    ]
    assert "reject = 100000.0" in one.caption


def test_two_rules_never_share_a_row() -> None:
    rules = ["NormBoundedMean(tau=0.2157711)", "NormBoundedMean(tau=0.2157712)", "CWTM(f=2)", "CWTM(f=1)"]
    (one,) = grids([entry(rule, "SignFlip()") for rule in rules])
    assert one.rows == ["CWTM", "CWTM(f=1)", *rules[:2]]


def test_a_split_drawn_by_the_seed_and_the_same_draw_count_once() -> None:
    """Both have the same numbers; and nobody told which draws there are."""
    same = [entry("CWM()", "SignFlip()", seed=3), entry("CWM()", "SignFlip()", seed=3, draw=3)]
    (one,) = grids(same)
    assert one["CWM", "SignFlip"].n == 1
    (one,) = grids([*same, entry("CWM()", "SignFlip()", seed=3, draw=5)])
    assert one["CWM", "SignFlip"].n == 2
    assert "; seed 3; draws 3 and 5 of the split, and each seed's own." in one.caption
    assert "; seed 3; draw 5 of the split." in caption([entry("CWM()", "SignFlip()", seed=3, draw=5)])


def test_only_what_is_done_counts_and_once() -> None:
    twice = [entry("CWM()", "SignFlip()"), entry("CWM()", "SignFlip()")]
    others = [entry("CWM()", "Zero()", state=state) for state in ("running", "begun", "failed")]
    (one,) = grids([*twice, *others, entry("CWM()", "Zero()", None, seed=3)])
    assert (one.columns, one["CWM", "SignFlip"].n) == (["SignFlip"], 1)
    assert grids(others) == []
    assert caption(others) == ""


def test_a_grid_by_names_has_a_reference() -> None:
    one = small({("A", "SF"): 0.79, ("C", "SF"): 0.3, ("B", "Worst"): 0.1})
    assert (one.rows, one.columns) == (["A", "B", "C"], ["none", "SF"])
    assert one["A", "SF"].difference == -0.03
    assert (one["A", "Worst"].mean, one["A", "Worst"].reference) == (0.76, 0.79)
    assert one["B", "Worst"].reference == 0.1  # as it is given
    assert (one["C", "SF"].mean, one["C", "SF"].reference, one["C", "SF"].difference) == (None, 0.3, None)
    assert parts(one["A", "SF"]) == ("0.76", "", "(0.79, −0.03)")
    assert parts(one["C", "SF"]) == ("–", "", "(0.30)")
    assert parts(one["B", "SF"]) == ("0.60", "± 0.10", "")
    assert "reference" in note(one)
    with pytest.raises(BadInput, match="column 'Worst'"):
        grid("", {("A", "Worst"): [0.5]})


def test_markdown() -> None:
    lines = markdown(small()).splitlines()
    assert lines[:6] == [
        "**t**",
        "",
        "| rule | Worst | none | SF |",
        "| --- | --: | --: | --: |",
        "| A | **0.76** | 0.25 | **0.76** |",
        "| B | 0.60 | – | 0.60 ± 0.10 |",
    ]
    assert lines[7] == (
        "Accuracy, mean ± standard deviation (divided by n) of 1 to 2 runs a cell; "
        "Worst: the lowest mean over the attacks; bold: the best of its column."
    )
    assert "| B | – | 0.60 ± 0.10 | 0.60 |" in markdown(small(), worst="last")
    hostile = markdown(grid("", {(HOSTILE, "a|b"): [0.5]}))
    assert "<script>" not in hostile
    assert "| a\\|b |" in hostile
    with pytest.raises(BadInput, match="worst = 'middle'; it stands first or last"):
        markdown(small(), worst="middle")


def test_latex() -> None:
    text = latex(small({("A", "SF"): 0.79}))
    assert r"A & \textbf{0.76} (0.79, $-$0.03) & 0.25 & \textbf{0.76} (0.79, $-$0.03) \\" in text
    assert r"B & 0.60 & -- & 0.60 $\pm$ 0.10 \\" in text
    assert r"\begin{tabular}{lrrr}" in text
    for line in (r"\toprule", r"\midrule", r"\bottomrule"):
        assert text.splitlines().count(line) == 1
    hostile = latex(grid(HOSTILE, {(HOSTILE, "x"): [0.5]}))
    assert r"$<$script$>$alert('1')$<$/script$>$ \& \textbackslash{} \{x\} \$x\_1\$ $|$ 100\% \# &" in hostile
    left = re.sub(r"\\[a-z]+|\\[&%$#_{}]|\\\\", "", hostile)  # all that is left of special letters is meant
    assert not re.search(r"[%#_~^\\]", left)


def test_terminal() -> None:
    from rich.console import Console

    console = Console(width=120, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    with console.file:
        console.print(terminal(small()))
    lines = console.export_text().splitlines()
    assert [line.split() for line in lines[:4]] == [
        ["t"],
        ["rule", "Worst", "none", "SF"],
        ["A", "0.76*", "0.25", "0.76*"],
        ["B", "0.60", "–", "0.60", "±", "0.10"],
    ]


def test_terminal_tables_need_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with pytest.raises(BadInput, match=r"rich; in a checkout of holdfast, pip install -c constraints.txt '\.\[cli\]'"):
        terminal(small())


class Reader(HTMLParser):
    """What a browser would see: tags in their order, rows of tables, all text; every tag is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "link", "col"):
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if {"th", "td"} & set(self.open):
            self.rows[-1][-1] += data


def test_html() -> None:
    text = html(small({("A", "SF"): 0.79, ("B", "SF"): 0.5}))
    read = Reader(text)
    assert read.rows == [
        ["rule", "Worst", "none", "SF"],
        ["A", "0.76 (0.79, −0.03)", "0.25", "0.76 (0.79, −0.03)"],
        ["B", "0.60 (0.50, +0.10)", "–", "0.60 ± 0.10 (0.50, +0.10)"],
    ]
    assert text.count("<b>0.76</b>") == 2
    assert '<td style="background: rgba(213, 94, 0, 0.07)"><b>0.76' in text  # below: orange
    assert '<td style="background: rgba(0, 114, 178, 0.25)">0.60' in text  # above: blue
    hostile = Reader(html(grid(HOSTILE, {(HOSTILE, HOSTILE): [0.5]})))
    assert "script" not in hostile.tags
    assert hostile.rows[1][0] == hostile.rows[0][2] == HOSTILE


@pytest.mark.parametrize("ending", [".svg", ".png"])
def test_figures_are_the_same_every_time(ending: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        curves(some(), tmp_path / f"{name}-curves{ending}")
        heat(grids(some())[0], tmp_path / f"{name}-heat{ending}")
    for what in ("curves", "heat"):
        one, other = ((tmp_path / f"{name}-{what}{ending}").read_bytes() for name in "ab")
        assert one == other
        assert len(one) > 5000


def test_a_figure_shows_every_name_and_number() -> None:
    text = inline(curves, some(), "Curves & co")
    for name in ("Average", "CWTM", "Mean2P", "NoAttack", "SignFlip", "Empire(scale=0.5)", "rounds", "accuracy"):
        assert f">{name}</text>" in text
    assert text.startswith('<svg role="img" aria-label="Curves &amp; co" ')
    shown = Reader(inline(heat, grids(some())[0], "Heat")).texts
    assert {"Worst", "Average", "SignFlip", "0.11", "0.91", "0.76"} <= set(shown)
    assert "–" in Reader(inline(heat, small(), "Heat")).texts
    assert HOSTILE in Reader(inline(heat, grid("", {(HOSTILE, "x"): [0.5]}), HOSTILE)).texts


def test_curves_by_other_names_and_of_many_attacks(tmp_path: Path) -> None:
    (found,) = groups(some())
    cells = {("ours", f"attack {at}"): entries for at, entries in enumerate(found.cells.values())}
    text = inline(curves, Group("t", ["ours", "theirs"], [f"attack {at}" for at in range(7)], cells), "t")
    assert text.count(">ours</text>") == 1
    assert ">theirs</text>" not in text
    assert text.count(">rounds</text>") == 4


def test_what_cannot_be_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match="no finished run"):
        curves([], tmp_path / "x.svg")
    with pytest.raises(BadInput, match="runs of byzantine = 1 and byzantine = 2; choose"):
        curves([entry("CWM()", "Zero()"), entry("CWM()", "Zero()", byzantine=1)], tmp_path / "x.svg")
    with pytest.raises(BadInput, match="empty grid"):
        heat(grid("", {}), tmp_path / "x.svg")
    with pytest.raises(BadInput, match=r"the formats are \.svg, \.png, \.pdf"):
        heat(small(), tmp_path / "x.bmp")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(BadInput, match=r"matplotlib; in a checkout of holdfast, pip install"):
        heat(small(), tmp_path / "x.svg")
    assert not list(tmp_path.iterdir())


def test_the_sheet_is_one_page_that_asks_for_nothing(tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    failed = entry("CWM()", "Zero()", state="failed", seed=4)
    hostile = Entry(failed.key, failed.run, "failed", why=HOSTILE)
    write([*some(), hostile, entry("CWM()", "Zero()", state="running")], [HOSTILE, "line 3"], out, HOSTILE)
    text = out.read_text()
    read = Reader(text)
    assert "http:" not in text
    assert "https:" not in text
    assert "script" not in read.tags
    places = [value for name, value in read.attributes if name in ("src", "href", "xlink:href", "action")]
    assert all(str(value).startswith("#") or value == "data:," for value in places)
    assert read.tags.count("svg") == 2
    assert read.texts.count(HOSTILE) >= 3  # the title twice, the complaint
    assert f"CWM under Zero, seed 4 ({failed.key}): {HOSTILE}" in read.texts
    assert any("20 runs: 18 done, 1 running, 1 failed." in one for one in read.texts)
    assert ["Mean2P", "0.71", "0.81 ± 0.01", "0.71 ± 0.01", "0.76 ± 0.01"] in read.rows
    assert ["Mean2P", "SignFlip", "1", "done", "0.7200", "1.00", "0.25", "0", "1.50"] in read.rows
    assert ["CWM", "Zero", "4", "failed", "–", "–", "–", "–", "–"] in read.rows
    assert "TwoPhase(inner=MeanwO(f=2), outer=OuterMean(f=2))" in read.texts
    write([*some(), hostile], [], tmp_path / "again.html", "a\ud800")
    assert "What could not be read" not in (tmp_path / "again.html").read_text()


def test_the_same_runs_give_the_same_sheet(tmp_path: Path) -> None:
    for name, entries in (("a", some()), ("b", some()[::-1])):
        write(entries, [], tmp_path / name, "t")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_sheet_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    write(some(), [], tmp_path / "report.html", "t")
    read = Reader((tmp_path / "report.html").read_text())
    assert any("pip install -c constraints.txt '.[plot]'" in one for one in read.texts)
    assert "svg" not in read.tags
    assert ["Average", "0.11", "0.91 ± 0.01", "0.11 ± 0.01", "0.21 ± 0.01"] in read.rows


def test_a_sheet_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(BadInput, match=r"report\.html cannot be written .no space left"):
        write([], [], tmp_path / "report.html", "t")
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Two rules under two attacks, trained, and a folder that holds no run."""
    made = Store(tmp_path_factory.mktemp("store"))
    words = {"rules": ["CWM()", "Mean2P(f={f})"], "attacks": ["NoAttack()", "SignFlip()"], **SMALL}
    assert sum(news.what == "done" for news in sweep(runs(words), made, jobs=1)) == 4
    (made.path / "empty").mkdir()
    return made


def told_by(capsys: pytest.CaptureFixture[str], *args: Any, **words: Any) -> tuple[str, str]:
    report(*args, **words)
    return capsys.readouterr()


def test_the_command_writes_a_page(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert told_by(capsys, store.path)[0] == "the report is in report.html\n"
    read = Reader(Path("report.html").read_text())
    assert [row[0] for row in read.rows[:3]] == ["rule", "CWM", "Mean2P"]
    assert any("empty has no record.json" in one for one in read.texts)
    assert len(read.rows) == 3 + 5
    export(store.read()[0], tmp_path / "results.jsonl")
    told_by(capsys, tmp_path / "results.jsonl", out=Path("other.html"))
    assert Reader(Path("other.html").read_text()).rows[:3] == read.rows[:3]


def test_the_command_prints_tables(store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entries, complaints = store.read()
    (one,) = grids(entries)
    assert told_by(capsys, store.path, kind="markdown") == (markdown(one), f"{complaints[0]}\n")
    told_by(capsys, store.path, out=tmp_path / "t.tex")
    assert (tmp_path / "t.tex").read_text() == latex(one)
    out, _ = told_by(capsys, store.path, kind="terminal", where=["rule=TwoPhase*", "attack!=No*"])
    assert [line.split()[0] for line in out.splitlines()[1:3]] == ["rule", "Mean2P"]
    assert "NoAttack" not in out
    told_by(capsys, store.path, out=tmp_path / "t.txt")
    assert "\x1b" not in (tmp_path / "t.txt").read_text()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ({"kind": "word"}, "word is no known format; .*known are html, markdown, latex, terminal"),
        ({"where": ["rule=Krum*"]}, "has 4 runs and no finished one that meets rule=Krum"),
        ({"where": ["Krum"]}, "a condition was given as 'Krum'"),
        ({"out": Path("table.pdf")}, "table.pdf was given; the formats are .html, .md, .tex, .txt"),  # it was HTML
        ({"out": Path("nowhere/x.html")}, "there is no folder nowhere"),
        ({"out": Path("/"), "kind": "markdown"}, "/ was given, which is a folder"),
    ],
)
def test_the_command_refuses_in_one_sentence(store: Store, words: dict[str, Any], why: str) -> None:
    with pytest.raises(BadInput, match=why):
        report(store.path, **words)


def test_a_file_has_no_escapes_though_there_is_a_terminal(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    report(store.path, out=tmp_path / "t.txt")
    assert "\x1b" not in (tmp_path / "t.txt").read_text()


def test_a_store_that_is_not_there_or_empty(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="nowhere is not there"):
        report(tmp_path / "nowhere")
    with pytest.raises(BadInput, match="has 0 runs and no finished one; name a store"):
        report(tmp_path)
    unfinished = entry("CWM()", "Zero()", state="running")
    (tmp_path / "some.jsonl").write_text(unfinished.text() + "\nnonsense\n")
    with pytest.raises(BadInput, match=r"has 1 run and no finished one; .*some\.jsonl:2: "):
        report(tmp_path / "some.jsonl")
    assert unfinished.key == key(unfinished.run)
