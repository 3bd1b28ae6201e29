"""Put what was measured into the README and docs/, from the files in results.

example:  python benchmarks/report.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from statistics import fmean, mean
from typing import Any

import large_models
from bitflips_picture import draw as draw_bitflips
from lying_picture import draw as draw_lying_counts
from lying_picture import number as in_radii
from open_questions import SLOW, TASKS

from holdfast import CWTM, Mean2P
from holdfast.experiments.board import LARGE, SCENES, count_all
from holdfast.experiments.paper import MAIN, TABLES, Setting
from holdfast.experiments.scores import ScoreFile
from holdfast.experiments.store import Store
from holdfast.guarantees.bounds import number
from holdfast.guarantees.misjudged import kappa_if
from holdfast.report.agreement import agreements
from holdfast.report.agreement import draw as draw_agreement
from holdfast.report.board import draw as draw_board
from holdfast.report.board import markdown as board_table
from holdfast.report.board import places
from holdfast.report.nodes import HEADS
from holdfast.report.paper import compared, fuller, group, sections
from holdfast.report.plots import curves, heat
from holdfast.report.promises import draw_worst_rounds, format_constants, format_worst_rounds
from holdfast.training.presets import paper

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results" / "benchmarks"
TRAINING = ROOT / "results" / "training"


def spread(values: list[float], sign: str = "×") -> str:
    """The worst to the best of several measurements, as people write it."""
    low, high = f"{min(values):.2g}", f"{max(values):.2g}"
    return f"{low}{sign}" if low == high else f"{low} to {high}{sign}"


def lines(kernels: dict[str, Any], memmap: dict[str, Any]) -> list[str]:
    """A table: what, against what, and the range over sizes, libraries and kinds of rows."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for row in kernels["rows"]:
        what = "CenterwO, MeanwO" if "X.T" in row["against"] else row["what"]
        found.setdefault((what, row["against"], row["measure"]), []).append(row["value"])
    out = ["| what | against | measured |", "| --- | --- | --- |"]
    for (what, against, measure), values in found.items():
        told = f"at most {max(values):.1g}" if "error" in measure else spread(values)
        out.append(f"| {what} | {against} | {measure} {told} |")
    time, memory = (row["value"] for row in memmap["rows"])
    held = f"time ratio {time:.2g}×, {memory:.0f} MB held"
    out.append(f"| MeanwO on a 4 GB memory map | reading the cached file twice | {held} |")
    return out


def section() -> str:
    """What stands in the README between the marks."""
    kernels, memmap = (json.loads((RESULTS / f"{name}.json").read_text()) for name in ("kernels", "memmap"))
    about = (
        "Ratios, taken in one run with both sides in turn, over (n = 35, d = 115,646) and (n = 100, d = 1,000,000), "
        f"numpy and torch, honest rows and f copies, float32, {kernels['cores']} cores; `make bench` measures anew."
    )
    return "\n".join([about, "", *lines(kernels, memmap), ""])


def rounds() -> list[str]:
    """What a round of training costs."""
    measured, cell = (json.loads((RESULTS / f"{name}.json").read_text()) for name in ("training", "cell"))
    return [
        *(
            f"| {row['what']} | {row['against']} | {row['measure']} {row['value']:.2g}× (bar {row['bar']}) |"
            for row in measured["rows"]
        ),
        *(
            f"| {row['what']} | {row['against']} | {1 / row['value']:.1f} times faster (bar 3) |"
            for row in cell["rows"]
        ),
    ]


def accuracies(name: str) -> str:
    """A table of the main job."""
    told = json.loads((TRAINING / f"{name}.json").read_text())
    attacks = list(next(iter(told["accuracy"].values())))
    out = [f"| rule | {' | '.join(attacks)} | Worst |", f"| --- |{' ---: |' * (len(attacks) + 1)}"]
    best = max(told["worst"].values())
    for rule, row in told["accuracy"].items():
        worst = f"{told['worst'][rule]:.2f}"
        cells = " | ".join(f"{row[attack]:.2f}" for attack in attacks)
        out.append(f"| {rule} | {cells} | {f'**{worst}**' if told['worst'][rule] == best else worst} |")
    names = "; ".join(f"{name} is `{told['rules'][name]}`" for name in ("GM", "Mean1P", "Mean2P", "Mean2P+"))
    about = f"Accuracy on 280 test images after {told['rounds']} rounds, one seed; {names}."
    return "\n".join([*out, "", about, ""])


def open_questions(name: str) -> str:
    """PTM beside one-phase rules and votes with a margin: means over the seeds that met every attack."""
    task = TASKS[name]
    groups: dict[tuple[str, str, int], dict[str, float]] = {}
    for line in (TRAINING / f"open_{name}.jsonl").read_text().splitlines():
        row = json.loads(line)
        groups.setdefault((row["rule"], row["split"], row["seed"]), {})[row["attack"]] = row["accuracy"]
    complete = [
        (rule, split)
        for kind, part in task.parts.items()
        for rule, split, seed in product(map(repr, part.rules), part.splits, part.seeds)
        if kind != SLOW and groups.get((rule, split, seed), {}).keys() >= {*part.attacks}
    ]
    splits = list(dict.fromkeys(split for _, split in complete))
    rows = []
    for part in (part for kind, part in task.parts.items() if kind != SLOW):
        for rule in map(repr, part.rules):
            cells, seeds = [], []
            for split in splits:
                own = [groups.get((rule, split, seed), {}) for seed in part.seeds]
                whole = [found for found in own if found.keys() >= {*part.attacks}]
                worst = [min(found[attack] for attack in part.attacks if attack != "none") for found in whole]
                cells += [f"{mean(x):.2f}" if x else "" for x in ([found["none"] for found in whole], worst)]
                seeds += [len(whole)] if whole else []
            if seeds:
                rows.append(f"| {_election(rule)} | {' | '.join(cells)} | {' and '.join(map(str, sorted({*seeds})))} |")
    heads = [f"{split.partition('(')[0]}: {column}" for split in splits for column in ("no attack", "Worst")]
    out = [f"| rule | {' | '.join(heads)} | seeds |", f"| --- |{' ---: |' * (len(heads) + 1)}", *rows]
    slow = [
        f"{_election(rule)} {groups[rule, split, seed][SLOW]:.2f}"
        for part in (part for kind, part in task.parts.items() if kind == SLOW)
        for rule, split, seed in product(map(repr, part.rules), part.splits, part.seeds)
        if SLOW in groups.get((rule, split, seed), {})
    ]
    under = [f"Under {SLOW}, a search against the vote, on uniform data: {', '.join(slow)}.", ""] if slow else []
    both = f"Two phases are `TwoPhase(MeanExact(f={task.f}), OuterMean(f={task.f}), ...)`."
    return "\n".join([*out, "", *([both, ""] if any("TwoPhase" in rule for rule, _ in complete) else []), *under])


def _election(rule: str) -> str:
    """A rule by its text, a two-phase rule by its election."""
    found = re.search(r"election=(.*)\)$", rule)
    return f"two phases, `{found[1] if found else 'Ballot()'}`" if rule.startswith("TwoPhase") else f"`{rule}`"


def left_open(text: str) -> str:
    """docs/left-open.md with its tables put in."""
    return put(put(text, "open", open_questions("digits")), "open cnn", open_questions("cnn"))


def unknown_f(text: str) -> str:
    """docs/choosing.md with its tables put in."""
    told = json.loads((ROOT / "results" / "guarantees" / "profiles.json").read_text())
    names = list(told["rows"][0]["jumps"])
    out = [f"| rounds | {' | '.join(f'`{name}`' for name in names)} |", f"| --- |{' ---: |' * len(names)}"]
    for row in told["rows"]:
        without = None in row["right"].values()
        cells = [f"{row['jumps' if without else 'right'][name]:.0%}" for name in names]
        kind = f"{row['rounds']}: a jump" if without else f"{row['rounds']}: a jump at their number"
        out.append(f"| {kind} | {' | '.join(cells)} |")
    n, d = (" or ".join(map(str, told[key])) for key in ("workers", "dimensions"))
    about = f"Of {told['rounds']} rounds each, with n = {n}, d = {d}, and 1 to 0.4 n liars (`benchmarks/profiles.py`)."
    return put(put(text, "profiles", "\n".join([*out, "", about, ""])), "costs", costs(35, (0, 1, 3, 7, 11, 17)))


def costs(n: int, several: tuple[int, ...]) -> str:
    """What CWTM promises for a chosen f, by how many workers lie in truth."""
    out = [f"| κ of `CWTM(f)`, n = {n} | {' | '.join(f'{lie} lie' for lie in several)} |"]
    out.append(f"| --- |{' ---: |' * len(several)}")
    for f in several:
        cells = (number(kappa_if(CWTM(f), n, lie)) for lie in several)
        out.append(f"| f = {f} | {' | '.join(cells)} |")
    return "\n".join([*out, ""])


def put(text: str, name: str, section: str) -> str:
    """The text with a section between its marks."""
    before, begin, rest = text.partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition(f"<!-- /{name} -->")
    if not begin or not end:
        raise ValueError(f"no marks for {name}")
    return f"{before}{begin}{section}{end}{after}"


def replaced(text: str) -> str:
    """The README with its sections put in."""
    return put(put(text, "benchmarks", section()), "accuracies", accuracies("demo"))


def trained(text: str) -> str:
    """docs/training.md with its sections put in."""
    cost = ["| what | against | measured |", "| --- | --- | --- |", *rounds(), ""]
    text = put(text, "late", late())
    return put(put(text, "rounds", "\n".join(cost)), "harder", accuracies("harder"))


def late() -> str:
    """What late replies cost: accuracies by rule and way, each the mean over seeds."""
    lines = [json.loads(line) for line in (TRAINING / "late.jsonl").read_text().splitlines()]
    attacks = list(dict.fromkeys(line["attack"] for line in lines))
    heads = ["rule", "a round", "time", *attacks, "mean", "skipped rounds"]
    out = ["| " + " | ".join(heads) + " |", "| --- | --- |" + " ---: |" * (len(heads) - 2)]
    for rule in dict.fromkeys(line["rule"] for line in lines):
        for way in dict.fromkeys(line["way"] for line in lines):
            mine = [line for line in lines if (line["rule"], line["way"]) == (rule, way)]
            by = [fmean(line["accuracy"] for line in mine if line["attack"] == attack) for attack in attacks]
            cells = [f"{value:.3f}" for value in (*by, fmean(by))]
            time, skipped = (fmean(line[name] for line in mine) for name in ("time", "skipped"))
            name = "Mean2P(f=6)" if rule == repr(Mean2P(6)) else rule
            out.append(f"| `{name}` | {way} | {time:.1f} | " + " | ".join(cells) + f" | {skipped:.1f} |")
    return "\n".join([*out, ""])


def papers(text: str) -> str:
    """docs/paper.md with its tables put in, from the archive of measured runs."""
    entries, complaints = Store(ROOT / "results" / "paper" / "runs.jsonl").read()
    if complaints:
        raise ValueError(complaints[0])
    for name, section in sections(Setting(), entries).items():
        text = put(text, name, section)
    return text


def promises(text: str) -> str:
    """docs/guarantees.md with its tables put in."""
    text = put(text, "constants", format_constants(35, 7))
    text = put(text, "worst", format_worst_rounds(worst()))
    return put(text, "gradients", gradients())


def worst() -> list[dict[str, Any]]:
    """What `make certify` found."""
    return list(json.loads((ROOT / "results" / "guarantees" / "worst.json").read_text())["rows"])


def gradients() -> str:
    """What certificates say of real gradients, and what they cost."""
    told = json.loads((RESULTS / "certificates.json").read_text())
    out = [
        f"On real gradients of the paper's CNN, n = {told['n']}, f = {told['f']}, nobody attacking, "
        f"over {told['rows'][0]['rounds']} rounds (`benchmarks/certificates.py`):",
        "",
        "| rule | κ(X), median | largest | the rule's own constant |",
        "| --- | ---: | ---: | ---: |",
    ]
    for row in told["rows"]:
        numbers = " | ".join(f"{row[name]:.3g}" for name in ("median", "largest", "promise"))
        out.append(f"| {row['rule']} | {numbers} |")
    cost = f"A certificate takes {told['cost']:.2g} of the time of `MeanwO` at d = {told['d']:,} (bar {told['bar']})."
    tight = told["tightness"]
    shown = [
        f"How far above the truth is κ(X)? The table divides it by the κ of the worst set that a search finds. "
        f"It is about {tight['answers']:,} answers: seven rules, {tight['rounds']} rounds of n = 11, 20 and 35, six "
        "attacks and none.",
        "",
        "| proof | median | 90 % are below | largest | time at n = 35 |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name, quantiles in tight["above"].items():
        shown.append(f"| {name} | {' | '.join(f'{q:.2f}' for q in quantiles)} | {tight['ms'][name]:.2g} ms |")
    bound = f"The bound below which no answer can be takes {tight['ms']['bound']:.2g} ms at n = 35. "
    bound += f"It was found in {tight['rounds'] - tight['unbounded']} of these {tight['rounds']} rounds."
    return "\n".join([*out, "", cost, "", *shown, "", bound, ""])


def flower(text: str) -> str:
    """docs/flower.md with its tables put in."""
    deployed = json.loads((ROOT / "results" / "flower" / "deployment.json").read_text())
    out = ["| the bad node | the run | accuracy | what the journal says of it |", "| --- | --- | ---: | --- |"]
    for row in deployed["rows"]:
        said = in_words_of_today(row["said"]) or "nothing to say"
        out.append(f"| {row['what']} | {row['status']}, {row['rounds']} rounds | {row['accuracy']:.2f} | {said} |")
    text = put(put(text, "faults", "\n".join([*out, ""])), "hostile", hostile())
    told = json.loads((RESULTS / "flower.json").read_text())
    kinds = list(next(iter(told["faults"].values())))
    out = [f"| strategy | {' | '.join(kinds)} |", f"| --- |{' --- |' * len(kinds)}"]
    for name, row in told["faults"].items():
        out.append(f"| {name} | {' | '.join(row[kind].replace('aborts', '**aborts**') for kind in kinds)} |")
    text = put(text, "peers", "\n".join([*out, ""]))
    out = ["| what | against | measured |", "| --- | --- | --- |"]
    for row in told["rows"]:
        out.append(f"| {row['what']} | {row['against']} | {row['measure']} {row['value']:.2g}× (bar {row['bar']}) |")
    text = put(text, "cost", "\n".join([*out, ""]))
    return put(put(text, "gaps", large_models.gap_table()), "adapters", large_models.lora_table())


def nvflare(text: str) -> str:
    """docs/nvflare.md with its tables put in."""
    held = ROOT / "results" / "nvflare"
    out = ["| the bad site | the job | accuracy | what the journal says of it |", "| --- | --- | ---: | --- |"]
    for row in json.loads((held / "poc.json").read_text())["rows"]:
        said = row["said"] or "nothing to say"
        out.append(f"| {row['what']} | {row['status']}, {row['rounds']} rounds | {row['accuracy']:.2f} | {said} |")
    text = put(text, "poc", "\n".join([*out, ""]))
    out = ["| rule | measured | weighted mean | the rule | ratio |", "| --- | --- | ---: | ---: | ---: |"]
    for row in json.loads((held / "cost.json").read_text())["rows"]:
        measured = "from the bytes of the replies" if "bytes" in row["measure"] else "the aggregation alone"
        times = f"{1000 * row['theirs']:.0f} ms | {1000 * row['ours']:.0f} ms"
        out.append(f"| `{row['what']}` | {measured} | {times} | {row['value']:.3g}× (bar {row['bar']}) |")
    return put(text, "nvflare-cost", "\n".join([*out, ""]))


def lying_counts() -> dict[str, Any]:
    """What `benchmarks/lying_counts.py` found."""
    return dict(json.loads((ROOT / "results" / "flower" / "lying_counts.json").read_text()))


def lying_table() -> str:
    """How far a lying count moves each strategy."""
    told = lying_counts()
    scenarios = told["scenarios"]
    out = [f"| strategy | counts | {' | '.join(scenarios.values())} |", f"| --- | --- |{' ---: |' * len(scenarios)}"]
    for row in told["rows"]:
        name = row["strategy"].removesuffix(", weighted")
        cells = (f"{in_radii(row[key]['mean'])} ({in_radii(row[key]['largest'])})" for key in scenarios)
        out.append(f"| `{name}` | {row['counts']} | {' | '.join(cells)} |")
    about = (
        f"Mean and, in brackets, largest distance over {told['rounds']} rounds, n = {told['n']}, f = {told['f']}, "
        f"flwr {told['versions']['flwr']} (`benchmarks/lying_counts.py`). The squared distance of a weighted rule to "
        f"the honest mean by capped counts was never more than {told['largest part']:.2g} of what its constant allows."
    )
    return "\n".join([*out, "", about, ""])


def weighted_search() -> str:
    """How near the search for worst rounds came to the constants for weights."""
    rows = json.loads((ROOT / "results" / "guarantees" / "weighted.json").read_text())["rows"]
    signs = {"lambda": "λ", "kappa": "κ", "xi": "ξ"}
    out = [f"| rule | rounds | {' | '.join(signs.values())} |", "| --- | ---: | ---: | ---: | ---: |"]
    for rule in dict.fromkeys(row["rule"] for row in rows):
        mine = [row for row in rows if row["rule"] == rule]
        largest = [max(row["of"][name] for row in mine) for name in signs]
        cells = [f"{part:.3f}" if part else "none" for part in largest]
        out.append(f"| `{rule}` | {sum(row['rounds'] for row in mine):,} | {' | '.join(cells)} |")
    reached = [row["rule"] for row in rows if row["of"]["kappa"] > 0.99]
    total = sum(row["rounds"] for row in rows)
    about = f"{total:,} rounds for each criterion with all their honest sets. No constant was exceeded. "
    about += f"κ was reached to 1 % by {len(set(reached))} rules. 1 is the constant itself, and none means no constant."
    return "\n".join([*out, "", about, ""])


def worth() -> str:
    """What sample counts are worth in training: accuracies over the seeds, with equal weights and by counts."""
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    for line in (TRAINING / "weights.jsonl").read_text().splitlines():
        row = json.loads(line)
        found.setdefault((row["rule"], row["weights"]), {}).setdefault(row["attack"], []).append(row["accuracy"])
    attacks = list(dict.fromkeys(attack for cells in found.values() for attack in cells))
    out = [f"| rule | weights | {' | '.join(attacks)} |", f"| --- | --- |{' ---: |' * len(attacks)}"]
    for (rule, weights), cells in found.items():
        told = (f"{mean(cells[attack]):.3f}" if attack in cells else "" for attack in attacks)
        out.append(f"| `{rule}` | {weights} | {' | '.join(told)} |")
    seeds = max(len(values) for cells in found.values() for values in cells.values())
    about = f"Accuracy on 360 test images, the mean over {seeds} seeds (`benchmarks/weights.py`)."
    return "\n".join([*out, "", about, ""])


def weighing(text: str) -> str:
    """docs/weights.md with its tables put in."""
    for name, section in {"lying": lying_table(), "weighted": weighted_search(), "worth": worth()}.items():
        text = put(text, name, section)
    return text


def in_words_of_today(text: str) -> str:
    """A sentence of a journal; files of results that were written before 0.2 say 'left out'."""
    return text.replace("left out", "excluded")


def hostile() -> str:
    """What one hostile client costs a server in a round, by what it sends, for each size of the model."""
    measured = ROOT / "results" / "flower" / "hostile_cost.json"
    if not measured.exists():
        return "Not measured yet.\n"
    rows = json.loads(measured.read_text())["rows"]
    sizes = {row["d"]: row for row in rows}
    heads = [f"CPU, d = {d:,} | memory" for d in sizes]
    out = [f"| it sends | {' | '.join(heads)} | the journal says |", f"| --- |{' ---: | ---: |' * len(sizes)} --- |"]
    for kind in dict.fromkeys(row["sends"] for row in rows):
        own = [row for row in rows if row["sends"] == kind]
        cells = [f"{row['seconds']:.2f} s, {row['times']:.1f}× | {row['bytes'] / 1e6:+.0f} MB" for row in own]
        out.append(f"| {kind} | {' | '.join(cells)} | {in_words_of_today(own[0]['said'])} |")
    out += ["", "An honest round, and what is allowed above it (five times the time; three replies and 64 MB):", ""]
    out += ["| d | a reply | CPU | peak memory | allowed | kinds that meet both bars |", f"| ---: |{' ---: |' * 5}"]
    for d, row in sizes.items():
        met = [one["time_met"] and one["memory_met"] for one in rows if one["d"] == d]
        least, most = (f"{row[name] / 1e6:.0f}" for name in ("honest_least", "honest_most"))
        peak = f"{row['reply'] / 1e6:.1f} MB | {row['honest_seconds']:.2f} s | {least} to {most} MB"
        allowed = f"{5 * row['honest_seconds']:.2f} s, +{(3 * row['reply'] + 64e6) / 1e6:.0f} MB"
        out.append(f"| {d:,} | {peak} | {allowed} | {sum(met)} of {len(met)} |")
    return "\n".join([*out, ""])


def distributed(text: str) -> str:
    """docs/distributed.md with its tables put in."""
    runs = json.loads((RESULTS / "ddp.json").read_text())["rows"]
    out = ["| fault | plain DDP | with `MeanwO(f=2)` |", "| --- | ---: | ---: |"]
    out += [f"| {row['fault']} | {row['plain']:.2f} | {row['robust']:.2f} |" for row in runs]
    about = "Accuracy after 60 steps of 16 images a rank, one seed (`benchmarks/ddp.py`)."
    text = put(text, "ddp", "\n".join([*out, "", about, ""]))
    heads = ("rank", *HEADS)
    out = [f"| {' | '.join(heads)} |", f"| {' | '.join('---' for _ in heads)} |"]
    out += [f"| {in_words_of_today(' | '.join(row))} |" for row in runs[-1]["ranks"]]
    text = put(text, "flips", "\n".join([*out, ""]))
    out = ["| what | ranks | against `all_reduce` |", "| --- | ---: | --- |"]
    for row in json.loads((RESULTS / "sharded.json").read_text())["rows"]:
        out.append(f"| {row['what']} | {row['n']} | {row['measure']} {row['value']:.2f}× (bar {row['bar']}) |")
    about = "10,000,000 numbers a rank, float32, Gloo on loopback (`benchmarks/sharded.py`)."
    text = put(text, "sharded", "\n".join([*out, "", about, ""]))
    text = put(put(text, "fsdp", large_models.fsdp_table()), "alarms", large_models.alarms_table())
    return put(put(text, "detection", large_models.detection_table()), "harm", large_models.harm_table())


def agreement(row: dict[str, Any], *names: str) -> str:
    """How many rounds agree in each of these settings, and by how much the others differ."""
    found = [row[name] for name in names]
    if set(found) == {row["rounds"]}:
        return f"all {row['rounds']}"
    off = max(row[f"{name} off"] for name in names)
    return f"{' and '.join(map(str, found))} of {row['rounds']}; off by up to {off:.2g}"


def pairs(rows: list[dict[str, Any]], columns: Mapping[str, tuple[str, ...]], peer: str) -> str:
    """A table of texts that were run side by side."""
    out = [
        f"| {peer} | holdfast, and what differs | {' | '.join(columns)} |",
        f"| --- | --- |{' --- |' * len(columns)}",
    ]
    for row in rows:
        cells = " | ".join(agreement(row, *names) for names in columns.values())
        ours = f"`{row['holdfast']}`" + (f"<br>{row['note']}" if row["note"] else "")
        out.append(f"| `{row['peer']}` | {ours} | {cells} |")
    return "\n".join([*out, ""])


def coming(text: str) -> str:
    """docs/coming-from.md with its tables put in."""
    told = json.loads((RESULTS / "coming_from.json").read_text())
    dtypes = {"agree": ("float64", "float32")}
    for name, rows in (("byzfl", told["rows"]), ("stages", told["stages"]), ("attacks", told["attacks"])):
        text = put(text, name, pairs(rows, dtypes, "ByzFL"))
    out = [
        "| ByzFL | holdfast | rule | at least their harm | harm over theirs, median |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in told["searches"]:
        often = f"in {row['at least']} of {row['rounds']} rounds | {row['median']:.2f}"
        out.append(f"| `{row['peer']}` | `{row['holdfast']}` | `{row['rule']}` | {often} |")
    text = put(text, "searches", "\n".join([*out, ""]))
    out = ["| | ByzFL | holdfast |", "| --- | --- | --- |"]
    for row in told["habits"]:
        out.append(f"| {row['what']} | `{row['theirs']}`<br>{row['byzfl']} | `{row['ours']}`<br>{row['holdfast']} |")
    text = put(text, "habits", "\n".join([*out, ""]))
    settings = {"agree": ("equal",), "num-examples differ": ("counts",), "float32, offset": ("float32",)}
    text = put(text, "flower", pairs(told["flower"], settings, "Flower"))
    for name, library in (("krum", "krum"), ("torchjd", "TorchJD"), ("byzpy", "ByzPy")):
        text = put(text, name, pairs(told[name], dtypes, library))
    ours = min(row["float32 exact"] / row["rounds"] for row in told["flower"])
    sure = "every round" if ours == 1 else f"{ours:.0%} of the rounds or more"
    floors = told["floors"]
    every = f"of the {floors['pairs']:,} pairs f < n/2, n ≤ 100, first at"
    out = [
        "In the last column the numbers of all models are near 100 and differ by 0.01. `RobustStrategy`, which sees",
        f"differences, gave there what its rule gives in float64 in {sure}, to a hundredth of the spread.",
        f"`FedTrimmedAvg(beta=f / n)` trims one less than f for {floors['trimmed']} {every} {floors['first trimmed']}.",
        "",
    ]
    text = put(text, "offset", "\n".join(out))
    text = put(text, "program", program())
    kept = f"Its k = floor((1 - f/n) · n) is one less than n - f for {floors['kept']} {every} {floors['first kept']}."
    return put(text, "floors", f"{kept}\n")


FLAGS = {
    "Avg": "mean",
    "GM": "geom_median --weiszfeld-maxiter 1",
    "CClip": "norm_bounded_mean --norm_bound 0.215771",
    "CWM": "coord_median",
    "CWTM": "trimmed_mean --fraction_to_discard 0.4",
    "Krum": "krum --fraction_to_discard 0.4",
    "Cent1P": "minimum_enclosing_ball_with_outliers1",
    "Mean1P": "minimum_enclosing_ball_with_outliers1 --mebwo_alg cluster",
    "Cent2P": "minimum_enclosing_ball_with_outliers",
    "Mean2P": "minimum_enclosing_ball_with_outliers --mebwo_alg cluster",
}
LIES = {
    "LF": "labelflip",
    "SF": "signflip",
    "Gauss": "gauss",
    "Omn": "omniscient",
    "Empire": "empire",
    "SV": "little --z 20",
    "PGA": "pga",
}


def program() -> str:
    """The flags of the authors' program, and what stands for them, from the presets."""
    out = ["| `--aggregation` | the paper's name | holdfast, at rate 0.4 | `shrink` |", "| --- | --- | --- | --- |"]
    for name, flags in FLAGS.items():
        run = paper(name, text=False)
        out.append(f"| `{flags}` | {name} | `{run.rule!r}` | {run.shrink:g} |")
    out += [
        "",
        "| `--corruption` | the paper's name | the program's, in holdfast | the text's |",
        "| --- | --- | --- | --- |",
    ]
    for name, flags in LIES.items():
        coded, written = (paper("Avg", name, text=text).attack for text in (False, True))
        out.append(f"| `{flags}` | {name} | `{coded!r}` | `{written!r}` |")
    return "\n".join([*out, ""])


def checks(text: str) -> str:
    """docs/testing.md with its table put in."""
    told = json.loads((RESULTS / "check_peers.json").read_text())
    used = {"byzfl": "byzfl", "flower": "flwr", "krum": "krum"}
    versions = [
        f"{package} {told['versions'][package]}" for name, package in used.items() if name not in told["missing"]
    ]
    about = (
        f"Every aggregator had to withstand f = {told['f']} of n = {told['n']} workers, with {told['seconds']} "
        f"seconds of processor time for a check ({', '.join(versions)}; `benchmarks/check_peers.py`). "
        "The last rows are rules of holdfast, which have more checks."
    )
    out = [about, ""]
    out += [line for name, why in told["missing"].items() for line in (f"{name} was left out: {why}", "")]
    out += ["| aggregator | passed | fails | does not hold, and is not promised |", "| --- | ---: | --- | --- |"]
    for row in told["rows"]:
        names = (", ".join(row[column]) or "nothing" for column in ("failed", "not promised"))
        out.append(f"| `{row['rule']}` | {row['passed']} | {' | '.join(names)} |")
    return put(text, "checks", "\n".join([*out, ""]))


def pages(text: str) -> str:
    """docs/see.md with its table put in."""
    out = ["| what | measured | bar | met? |", "| --- | --- | --- | --- |"]
    for row in json.loads((RESULTS / "web.json").read_text())["rows"]:
        name, _, unit = row["measure"].rpartition(", ")
        met = "met" if row["met"] else "missed"
        out.append(f"| {row['what']}, {name} | {row['value']:.2g} {unit} | {row['bar']} | {met} |")
    about = "In Chromium without a graphics card, on two cores (`benchmarks/web.py`)."
    return put(text, "web", "\n".join([*out, "", about, ""]))


def board(text: str) -> str:
    """docs/board.md with the tables of the finished rows, and a picture of them."""
    file, scenes = ScoreFile(ROOT / "results" / "board"), {**SCENES, **LARGE}
    found = {name: places(name, scene, file) for name, scene in scenes.items()}
    tables = [board_table(name, scenes[name], some) for name, some in found.items() if some]
    done = f"{len(file.read()):,} of {count_all(file.rows(), SCENES):,} trainings of the embedded part are done.\n\n"
    picture = "![accuracy without an attack against accuracy under the worst attack](board.svg)\n\n" if tables else ""
    return put(text, "board", done + picture + "\n".join([*tables, ""]))


def board_picture() -> None:
    """docs/board.svg."""
    file, scenes = ScoreFile(ROOT / "results" / "board"), {**SCENES, **LARGE}
    found = {name: places(name, scene, file) for name, scene in scenes.items()}
    if any(found.values()):
        draw_board(found, ROOT / "docs" / "board.svg")


def searches() -> str:
    """docs/search.md, whole: the optimum's price, many workers, little memory."""
    rows = json.loads((RESULTS / "search.json").read_text())["rows"]
    grid: dict[str, dict[str, float]] = {}
    for row in rows:
        if row["what"] == "MeanExact" and "d=20000" in row["size"]:
            grid.setdefault(row["size"].replace(" d=20000", ""), {})[row["measure"]] = row["value"]
    out = [
        "# What the optimum costs",
        "",
        "`MeanExact(f)` searches for the best set of n - f vectors. This table shows what the search costs after",
        "the distances are known, on Gaussian vectors with the default `cap`. A gap of 0 means that the answer is",
        "proved to be optimal. `make bench` measures it and writes this page from `results/benchmarks/search.json`.",
        "",
        "| n, f | nodes | seconds | gap |",
        "| --- | --- | --- | --- |",
    ]
    for size, told in grid.items():
        out.append(f"| {size} | {told['nodes']:.0f} | {told['search, seconds']:.2g} | {told['gap']:.2g} |")
    out += [
        "",
        "The next table has all other measurements. The bar is the limit that a value has to keep.",
        "",
        "| what | size | vectors | measure | value | bar |",
    ]
    out.append("| --- | --- | --- | --- | --- | --- |")
    for row in rows:
        if row["size"].replace(" d=20000", "") not in grid or "d=20000" not in row["size"]:
            names = " | ".join(row[name] for name in ("what", "size", "rows", "measure"))
            out.append(f"| {names} | {row['value']:.3g} | {row['bar']} |")
    return "\n".join([*out, ""])


def pictures() -> None:
    """The figures of docs/paper.md, from the same archive."""
    entries, _ = Store(ROOT / "results" / "paper" / "runs.jsonl").read()
    setting = fuller(TABLES[MAIN].runs, Setting(), entries)
    heat(compared(MAIN, setting, entries), ROOT / "docs" / "paper-main.svg")
    curves(group(MAIN, setting, entries), ROOT / "docs" / "paper-curves.svg")
    draw_agreement(agreements(Setting(), entries), ROOT / "docs" / "paper-agreement.svg")
    draw_worst_rounds(worst(), 9, ROOT / "docs" / "bounds.svg")
    board_picture()
    draw_lying_counts(lying_counts(), ROOT / "docs" / "lying-counts.svg")
    draw_bitflips(large_models.told("bitflips"), ROOT / "docs" / "bitflips.svg")


if __name__ == "__main__":
    pictures()
    (ROOT / "docs" / "search.md").write_text(searches())
    docs = {"training": trained, "paper": papers, "guarantees": promises, "flower": flower, "distributed": distributed}
    docs |= {"nvflare": nvflare}
    docs |= {"board": board, "coming-from": coming, "see": pages, "testing": checks}
    docs |= {"left-open": left_open, "choosing": unknown_f, "weights": weighing}
    made_of = {ROOT / "README.md": replaced} | {ROOT / "docs" / f"{name}.md": made for name, made in docs.items()}
    for path, made in made_of.items():
        path.write_text(made(path.read_text()))
