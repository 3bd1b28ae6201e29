"""A page on a store of runs: tables, heat maps, curves, and one line per run. One file, no network, no script."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path

from holdfast.errors import install, plural
from holdfast.experiments.store import STATES, Entry
from holdfast.report.grid import Grid, grids
from holdfast.report.groups import Group, bare, caption, differing, groups, label, written_value
from holdfast.report.landscape import landscapes
from holdfast.report.page import put
from holdfast.report.plots import curves, heat, inline
from holdfast.report.tables import NOTHING, html

__all__ = ["write"]

FEW = 60  # runs whose list is open from the beginning
MISSING = f"The figures are left out, for they need matplotlib; {install('plot')}."
OVER, BAND = "Accuracy over the rounds", "; bands are one standard deviation over the seeds to each side"
STYLE = """
:root { --bg: #fff; --ink: #1b1e22; --soft: #5d6570; --line: #e2e5e9; }
@media screen and (prefers-color-scheme: dark) {
  :root { --bg: #14161a; --ink: #e7e9ec; --soft: #9ba3ad; --line: #2c3138; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1168px; padding: 56px 24px 40px; background: var(--bg); color: var(--ink);
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 28px; line-height: 1.2; font-weight: 650; margin: 0 0 12px; overflow-wrap: anywhere; }
h2 { font-size: 19px; font-weight: 650; margin: 56px 0 4px; overflow-wrap: anywhere; }
p, li { max-width: 50em; overflow-wrap: anywhere; } p { margin: 0 0 12px; }
summary { cursor: pointer; } dd { margin: 0; overflow-wrap: anywhere; }
caption, figcaption, footer, small { color: var(--soft); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 20px; }
code { font: 13px ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
.scroll { overflow-x: auto; margin: 12px 0 20px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { caption-side: bottom; text-align: left; padding-top: 8px; font-size: 13px; max-width: 60em; }
th, td { padding: 5px 12px; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th { font-weight: 500; } th:first-child { text-align: left; padding-left: 0; position: sticky; left: 0;
  background: var(--bg); } thead th { border-bottom-color: var(--soft); } b { font-weight: 750; }
td { -webkit-print-color-adjust: exact; print-color-adjust: exact; } small { font-size: 12px; }
.worst { border-right: 1px solid var(--soft); } td[style] small { color: var(--ink); } .theirs { display: block; }
.runs td, .runs th { text-align: left; font-size: 13px; padding: 3px 14px 3px 0; }
figure { margin: 24px 0; overflow-x: auto; break-inside: avoid; } figcaption { font-size: 13px; padding-top: 6px; }
svg { display: block; max-width: 100%; height: auto; min-width: 340px; border-radius: 6px; }
footer { margin-top: 64px; padding-top: 16px; border-top: 1px solid var(--line); font-size: 13px; }
@media print { body { padding: 0; max-width: none; font-size: 12px; } h2 { margin-top: 24px; break-after: avoid; }
  .scroll, figure { overflow: visible; } tr { break-inside: avoid; }
  details::details-content { content-visibility: visible; block-size: auto; } }
"""
HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<link rel="icon" href="data:,">"""


def write(entries: Iterable[Entry], complaints: Sequence[str], out: Path, title: str = "Runs") -> None:
    """Write a page of a store's runs: tables, heat maps, curves, what failed.

    Parameters
    ----------
    entries : iterable of Entry
        The runs.
    complaints : sequence of str
        What could not be read.
    out : Path
        The file, which is written whole or not at all.
    title : str
        The title of the page.

    Notes
    -----
    Names are shown as text, whatever they hold.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from holdfast.report.sheet import write
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write([], [], Path(folder) / "report.html", title="Nothing yet")
    ...     "<h1>Nothing yet</h1>" in (Path(folder) / "report.html").read_text()
    True
    """
    entries = list(entries)
    body = [f"<h1>{escape(title)}</h1>", *(f"<p>{escape(text)}</p>" for text in _about(entries))]
    drawn = _can_draw()
    body += [] if drawn else [f"<p>{escape(MISSING)}</p>"]
    for group, grid in zip(groups(entries), grids(entries), strict=True):
        body += _section(group, grid, drawn=drawn)
    body += [part for grid in landscapes(entries) for part in _landscape(grid, drawn=drawn)]
    body += _runs(entries)
    failed = [f"{_name(one)}, seed {one.run.seed} ({one.key}): {one.why}" for one in entries if one.state == "failed"]
    body += [*_list("What failed", failed), *_list("What could not be read", complaints)]
    body += ["<footer>Written by holdfast; everything on this page comes from the runs' records.</footer>"]
    page = f"{HEAD}\n<title>{escape(title)}</title>\n<style>{STYLE}</style></head>\n<body>\n"
    put(page + "\n".join(body) + "\n</body></html>\n", out)


def _can_draw() -> bool:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def _about(entries: Sequence[Entry]) -> list[str]:
    many = Counter(one.state for one in entries)
    states = ", ".join(f"{many[state]} {state}" for state in STATES if many[state])
    what = (
        "Every run trains a model while some of its workers lie: a row is the server's rule, a column what the liars "
        "send. The number is the share of test images that the model has right at the end; Worst is the lowest in "
        f"a row, over the attacks. {len(entries)} {plural(len(entries), 'run')}: {states or 'none'}."
    )
    return [what, common] if (common := caption(entries)) else [what]


def _section(group: Group, grid: Grid, *, drawn: bool) -> list[str]:
    title = grid.title or "Accuracy"
    parts = [f"<h2>{escape(title)}</h2>", f'<div class="scroll">{html(replace(grid, caption=""))}</div>']
    if drawn:
        band = BAND * any(cell.n > 1 for cell in grid.cells.values())
        parts += [f"<figure>{inline(heat, grid, f'Heat map of the table, {title}')}</figure>"]
        parts += [f"<figure>{inline(curves, group, f'{OVER}, {title}')}<figcaption>{OVER}{band}.</figcaption></figure>"]
    texts = {row: repr(alike[0].run.rule) for (row, _), alike in group.cells.items()}
    texts |= {column: alike[0].run.attack.written() for (_, column), alike in group.cells.items()}
    full = "".join(
        f"<dt>{escape(name)}</dt><dd><code>{escape(texts[name])}</code></dd>"
        for name in (*group.rows, *group.columns)
        if bare(texts[name]) != name
    )
    return [*parts, f"<details><summary>Names in full</summary><dl>{full}</dl></details>"] if full else parts


def _landscape(grid: Grid, *, drawn: bool) -> list[str]:
    """A map of f against heterogeneity: a picture, or its numbers where nothing can be drawn."""
    shown = inline(heat, grid, f"Heat map, {grid.title}") if drawn else html(replace(grid, caption=""))
    caption = f"<figcaption>{escape(grid.caption)}</figcaption>"
    return [f"<h2>{escape(grid.title)}</h2>", f"<figure>{shown}{caption}</figure>"]


def _runs(entries: Sequence[Entry]) -> list[str]:
    more = differing(one.run for one in entries)
    more += ["draw"] if any(one.run.draw is not None for one in entries) else []
    heads = ["rule", "attack", *more, "seed", "state", "accuracy", "Outer won", "liars' share", "skipped", "minutes"]
    order = {state: at for at, state in enumerate(STATES)}
    ordered = sorted(entries, key=lambda one: (order.get(one.state, 9), _name(one), one.run.seed, one.key))
    rows = [_line(one, more) for one in ordered]
    lines = ["".join(f'<th scope="col">{escape(head)}</th>' for head in heads)]
    lines += ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows]
    table = "\n".join(["<table>", *(f"<tr>{line}</tr>" for line in lines), "</table>"])
    opened = " open" if len(rows) <= FEW else ""
    head = f"<details{opened}><summary>{len(rows)} {plural(len(rows), 'run')}, one a line</summary>"
    return ["<h2>The runs</h2>", f'{head}<div class="scroll runs">{table}</div></details>']


def _line(one: Entry, more: Iterable[str]) -> list[str]:
    what = [label(one.run.rule, one.run.byzantine), bare(one.run.attack)]
    what += [*(bare(written_value(one.run, name)) for name in more), str(one.run.seed), one.state]
    shares = [_share(one.facts.get(name)) for name in ("outer", "liars")]
    minutes = NOTHING if one.seconds is None else f"{one.seconds / 60:.2f}"
    return [*what, _share(one.accuracy, 4), *shares, str(one.facts.get("skipped", NOTHING)), minutes]


def _list(title: str, lines: Iterable[str]) -> list[str]:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return [f"<h2>{title}</h2>", f"<ul>{items}</ul>"] if items else []


def _name(one: Entry) -> str:
    return f"{label(one.run.rule, one.run.byzantine)} under {bare(one.run.attack)}"


def _share(value: float | None, digits: int = 2) -> str:
    return NOTHING if value is None else f"{value:.{digits}f}"
