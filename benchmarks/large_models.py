"""The tables on large models: memory under FSDP2, flipped bits, adapters. `benchmarks/report.py` puts them in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent.parent / "results" / "benchmarks"
FACTORS = (5, 30, 100)


def told(name: str) -> dict[str, Any]:
    """What a benchmark found."""
    return dict(json.loads((RESULTS / f"{name}.json").read_text()))


def fsdp_table() -> str:
    """Memory of a rank under FSDP2 with a rule."""
    rows = told("fsdp")["rows"]
    out = ["| rule | peak memory | plain FSDP2 | difference | against the bar |", "| --- | ---: | ---: | ---: | ---: |"]
    for row in rows:
        value, bar = f"{row['value']:.2f}×", row["bar"]
        more = f"{row['shards more']:g} shards"
        out.append(f"| `{row['what']}` | {row['peak MB']} MB | {row['plain MB']} MB | {more} | {value} (bar {bar}) |")
    about = (
        f"{rows[0]['size']}, SGD, Gloo on loopback. Memory is the peak of the resident memory above what the process "
        "held before it built the model, of the largest rank (`benchmarks/fsdp.py`). The bar compares the peak without "
        "one shard of each replica to plain FSDP2."
    )
    return "\n".join([*out, "", about, ""])


def detection_table() -> str:
    """Steps until a rank is named, by bits and rate."""
    heads = [f"named, {least}× | steps until then" for least in FACTORS]
    out = [f"| bits | one flip in | flips | {' | '.join(heads)} |", f"| --- |{' ---: |' * (2 + 2 * len(FACTORS))}"]
    found = told("bitflips")
    chance = found["honest"]["last rank"]
    for row in found["detection"]:
        cells = [f"{row[f'named at {x}']} | {_steps(row[f'steps until named at {x}'])}" for x in FACTORS]
        out.append(f"| {row['bits']} | {row['one flip in']:,} steps | {row['flips']} | {' | '.join(cells)} |")
    about = (
        "A flip is in one number of the gradient or in one weight, with equal chance. Steps until a rank is named are "
        "all steps over all namings (`benchmarks/bitflips.py`). Without a flip, this rank was farther than 5 times in "
        f"{chance['false alarms at 5']} of {found['steps']:,} steps: the namings of mantissa bits are chance."
    )
    return "\n".join([*out, "", about, ""])


def _steps(steps: int | None) -> str:
    return "never" if steps is None else f"{steps:,}"


def alarms_table() -> str:
    """False alarms in honest steps."""
    found = told("bitflips")
    heads = [f"from {least}×" for least in FACTORS]
    out = [f"| ranks send | {' | '.join(heads)} | largest |", f"| --- |{' ---: |' * (1 + len(FACTORS))}"]
    for way in ("gradients", "momenta"):
        row = found["honest"][way]
        cells = [f"{row[f'false alarms at {least}']:,}" for least in FACTORS]
        out.append(f"| {way} | {' | '.join(cells)} | {row['largest factor']:g}× |")
    first, last = (found["honest"]["gradients"]["false alarms by tenth of the training"][at] for at in (0, -1))
    about = (
        f"Honest steps, of {found['steps']:,}, in which some rank of {found['ranks']} was farther than the "
        f"limit, in middle distances: `{found['rule']}`, an MLP of {found['parameters']:,} parameters on 4,000 images "
        f"of MNIST. Of those from 5× with gradients, {first} came in the first tenth of the training and {last} in the "
        "last. Then most images are learned, and one hard image decides a gradient."
    )
    return "\n".join([*out, "", about, ""])


def harm_table() -> str:
    """Which flips would have done harm."""
    heads, found = [f"named, {least}×" for least in FACTORS], told("bitflips")
    out = [f"| the plain mean moves by | flips | {' | '.join(heads)} | kept by the rule |"]
    out.append(f"| --- |{' ---: |' * (2 + len(FACTORS))}")
    for row in found["harm"]:
        low, high = row["from"], row["to"]
        span = f"less than {high:g}" if not low else f"{low:g} or more" if high is None else f"{low:g} to {high:g}"
        cells = [f"{row[f'named at {least}']:,}" for least in FACTORS]
        out.append(f"| {span} of its length | {row['flips']:,} | {' | '.join(cells)} | {row['kept']:,} |")
    about = (
        "Every bit was flipped in both places at 400 moments of the training. Not every flip of the top bit does harm: "
        f"it turns a 0 into 2, and {found['zeros']:.0%} of these gradients' numbers are 0. A weight that no image uses "
        "changes nothing."
    )
    return "\n".join([*out, "", about, ""])


def gap_table() -> str:
    """How far means of adapters are from the mean of their products."""
    found = told("lora")
    out = ["| local steps of a round | A and B are averaged | B alone is averaged |", "| ---: | ---: | ---: |"]
    out += [f"| {row['local steps']} | {row['AB']:.1%} | {_percent(row['B'])} |" for row in found["gaps"]]
    about = (
        f"The largest gap in {found['gap rounds']} rounds of {found['nodes']} honest nodes, as a part of what the mean "
        "of the products changes in that round (`benchmarks/lora.py`). Two nodes whose products were the same stood "
        f"{found['apart with the same products']:g} lengths of their adapters apart."
    )
    return "\n".join([*out, "", about, ""])


def _percent(value: float) -> str:
    return "rounding" if value < 1e-5 else f"{value:.1%}"


def lora_table() -> str:
    """Adapters under attack."""
    found = told("lora")
    out = ["| rule | liars | A and B | B alone | B alone, twice the rank |", "| --- |" + " ---: |" * 4]
    out += [
        f"| `{row['rule']}` | {row['liars']} | {row['AB']:.2f} | {row['B']:.2f} | {row['B, twice the rank']:.2f} |"
        for row in found["rows"]
    ]
    sent = found["numbers sent"]
    about = (
        f"Accuracy after {found['rounds']} rounds of {found['nodes']} nodes, {found['before']:.2f} before the first, "
        f"one seed. A node sends {sent['B']:,} numbers for B, {sent['AB']:,} for A and B, and would send "
        f"{sent['products']:,} for the products."
    )
    return "\n".join([*out, "", about, ""])
