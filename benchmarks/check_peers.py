"""What `holdfast check` finds in the aggregators of ByzFL, Flower and krum, and in their counterparts here.

Every aggregator is told f = 3 of n = 15 workers. A library that is not installed is left out, and the result says so.

example:  python benchmarks/check_peers.py --out results/benchmarks/check_peers.json
"""

from __future__ import annotations

import argparse
import json
import logging
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from common import Row, progress, save, table

from holdfast.errors import BadInput
from holdfast.rules import CWM, CWTM, GeometricMedian, Krum, MeanwO, MultiKrum
from holdfast.rules.base import Stage
from holdfast.testing import Report, Status, check_aggregator, check_rule, find_aggregator
from holdfast.testing.peers import LIBRARIES

DEFAULT = Path("results/benchmarks/check_peers.json")
F, N = 3, 15
SECONDS = 3  # of processor time for a check
OURS: tuple[Stage, ...] = (CWM(), CWTM(F), GeometricMedian(), Krum(F), MultiKrum(F), MeanwO(F))


def row(library: str, report: Report) -> Row:
    """A report as a row: how many checks passed, which failed, which do not hold and are not promised."""
    names = {
        column: {check.name: check.detail for check in report.having(status)}
        for column, status in (("failed", Status.FAILED), ("not promised", Status.NOT_PROMISED))
    }
    return {"library": library, "rule": report.subject, "passed": len(report.having(Status.PASSED)), **names}


def checked(text: str) -> Row:
    """The row of a peer's aggregator."""
    logging.disable(logging.CRITICAL)
    peer = find_aggregator(text, f=F)
    report = check_aggregator(
        peer.call,
        f=F,
        n=N,
        name=text,
        trusted=peer.trusted,
        not_promised=peer.not_promised,
        seconds=SECONDS,
        raises=False,
    )
    progress(report.summary())
    return row(text.partition(":")[0], report)


def peers() -> tuple[list[str], dict[str, str]]:
    """The aggregators of all libraries that are installed, and the other libraries, each with the reason."""
    found: list[str] = []
    missing = {}
    for library, (_, names) in LIBRARIES.items():
        texts = [f"{library}:{name}" for name in names.split()]
        try:
            find_aggregator(texts[0], f=F)
            found += texts
        except BadInput as error:
            missing[library] = str(error)
    return found, missing


def main(out: Path) -> None:
    """Write the file, and print a table."""
    texts, missing = peers()
    with ProcessPoolExecutor(max_workers=4, mp_context=get_context("spawn")) as pool:
        found = list(pool.map(checked, texts))
    for rule in OURS:
        report = check_rule(rule, f=F if rule.tolerance() is None else None, n=N, raises=False)
        found.append(row("holdfast", report))
    save(out, found, ("holdfast", "byzfl", "flwr", "krum", "numpy", "torch"))
    told = json.loads(out.read_text())
    del told["cores"]  # nothing here is a time
    told |= {"n": N, "f": F, "seconds": SECONDS, "missing": missing}
    out.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")
    print(table([{**one, "failed": len(one["failed"]), "not promised": len(one["not promised"])} for one in found]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DEFAULT)
    main(parser.parse_args().out)
