"""Runs in several processes, results as they come."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TypeVar

from holdfast.errors import BadInput
from holdfast.training import Result, Run, train

Key = TypeVar("Key")


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def trained(
    runs: Mapping[Key, Run], processes: int | None = None, data: Path | None = None, folder: Path | None = None
) -> Iterator[tuple[Key, Result]]:
    """Each run's key and result, in the order in which they end.

    With a `folder` each run is kept in a folder of its own there, named by its key, and resumes.
    A run that fails is an error that names it and ends the others.
    """
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes or cores(), mp_context=context, initializer=_alone)
    try:
        places = {key: folder / str(key) if folder else None for key in runs}
        waiting = {pool.submit(train, run, places[key], data=data): key for key, run in runs.items()}
        for future in as_completed(list(waiting)):
            key = waiting.pop(future)
            try:
                yield key, future.result()
            except BadInput as error:
                raise BadInput(f"{key}: {error}") from None
            except BrokenProcessPool:
                raise BadInput("a process was ended from outside, perhaps for lack of memory; run again.") from None
    finally:
        for process in list((getattr(pool, "_processes", None) or {}).values()):
            process.terminate()  # whoever stops early does not wait for the others
        pool.shutdown(wait=False, cancel_futures=True)


def _alone() -> None:
    """The parent answers an interrupt; a child whose parent is gone goes too; what it would log is in the record."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.getLogger("holdfast").setLevel(logging.ERROR)
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
