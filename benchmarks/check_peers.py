"""What `holdfast check` finds in the aggregators of ByzFL, Flower and krum, and in their counterparts here.

Every aggregator is told f = 3 of n = 15 workers. A library that is not installed is left out, and the result says so.

example:  python benchmarks/check_peers.py --out results/benchmarks/check_peers.json
"""

from __future__ import annotations

import argparse
import json
import logging
from pathlib import Path

from common import Row, progress, save, table

from holdfast.errors import BadInput
from holdfast.rules import CWM, CWTM, GeometricMedian, Krum, MeanwO, MultiKrum
from holdfast.rules.base import Stage
from holdfast.testing import Report, Status, check_aggregator, check_rule, find_aggregator
from holdfast.testing.peers import LIBRARIES

DEFAULT = Path("results/benchmarks/check_peers.json")
F, N = 3, 15
OURS: tuple[Stage, ...] = (CWM(), CWTM(F), GeometricMedian(), Krum(F), MultiKrum(F), MeanwO(F))


def row(library: str, report: Report) -> Row:
    """A report as a row: how many checks passed, which failed, which do not hold and are not promised."""
    names = {
        column: {check.name: check.detail for check in report.having(status)}
        for column, status in (("failed", Status.FAILED), ("not promised", Status.NOT_PROMISED))
    }
    return {"library": library, "rule": report.subject, "passed": len(report.having(Status.PASSED)), **names}


def rows() -> tuple[list[Row], dict[str, str]]:
    """All rows, and the libraries that cannot be used, each with the reason."""
    out, missing = [], {}
    for library, (_, names) in LIBRARIES.items():
        for name in names.split():
            progress(f"{library}:{name}")
            try:
                peer = find_aggregator(f"{library}:{name}", f=F)
            except BadInput as error:
                missing[library] = str(error)
                break
            words = {"trusted": peer.trusted, "not_promised": peer.not_promised}
            out.append(row(library, check_aggregator(peer.call, f=F, n=N, name=peer.name, raises=False, **words)))  # type: ignore[arg-type]
    for rule in OURS:
        mine = rule.tolerance()
        report = check_rule(rule, f=F if mine is None else None, n=N, raises=False)
        out.append(row("holdfast", report))
    return out, missing


def main(out: Path) -> None:
    """Write the file, and print a table."""
    logging.disable(logging.CRITICAL)
    found, missing = rows()
    save(out, found, ("holdfast", "byzfl", "flwr", "krum", "numpy", "torch"))
    told = json.loads(out.read_text())
    del told["cores"]  # nothing here is a time
    told |= {"n": N, "f": F, "missing": missing}
    out.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")
    print(table([{**one, "failed": len(one["failed"]), "not promised": len(one["not promised"])} for one in found]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DEFAULT)
    main(parser.parse_args().out)
