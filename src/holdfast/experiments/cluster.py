"""Runs on the nodes of a Ray cluster, a task each; a lost node takes no run with it, and the store stays with us."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from holdfast import __version__
from holdfast.disk import read_regular, write_whole
from holdfast.errors import BadInput, MissingExtra, Unwritable
from holdfast.experiments.pool import AGAIN, News, checked
from holdfast.experiments.store import summarise
from holdfast.training import Run, train
from holdfast.training.folder import Folder, InUse

Files = dict[str, bytes]
FILES = ("record.json", "code", "metrics.jsonl", "checkpoint.npz", "timing.json", "model.npz", "summary.json", "done")
TRIES = 4  # of a run whose process or node dies each time
PATIENCE = 30.0  # seconds for a cluster to answer: Ray itself would ask for a quarter of an hour
GRACE = 3.0  # seconds for runs to end when nobody wants them any more
ALONE = 600.0  # seconds that a cluster may be without a core, as while its nodes start again


def carried_out_on(address: str) -> Callable[..., Iterator[News]]:
    """What `sweep(..., carry=)` takes to work on the Ray cluster at 'host:port', or 'auto': the one this machine is in.

    A folder is locked by us while its run is out, and filled when it is back, the mark `done` last. A run that was
    begun goes on from its checkpoint; what a node had done of it when it died, or when we stop, is done again. Every
    node needs the same holdfast, and the data under the same path.
    """
    return partial(_carried_out, address)


def _carried_out(
    address: str, jobs: Mapping[Any, tuple[Run, Path | None]], processes: int | None = None, data: Path | None = None
) -> Iterator[News]:
    checked(processes)
    if not jobs:
        return
    ray = _connected(address)
    task = ray.remote(num_cpus=1, max_retries=0)(
        _train_one
    )  # tries are counted here, so that lack of memory counts too
    where = None if data is None else str(Path(data).absolute())
    waiting, later, tried = deque(jobs), dict[Any, float](), Counter[Any]()
    out: dict[Any, tuple[Any, ExitStack]] = {}
    seen = time.monotonic()
    try:
        while waiting or later or out:
            for name in [name for name, at in later.items() if at <= time.monotonic()]:
                waiting.append(name)
                del later[name]
            cores = int(ray.cluster_resources().get("CPU", 0))  # nodes come and go
            seen = time.monotonic() if cores else seen
            if time.monotonic() - seen > ALONE:
                raise BadInput(
                    f"the Ray cluster {address!r} has had no core for {ALONE / 60:g} minutes; start a node with "
                    f"'ray start --address={address}', then the same command goes on."
                )
            room = processes or cores or 1
            while waiting and len(out) < room:
                run, place = jobs[name := waiting.popleft()]
                hold = ExitStack()
                try:
                    begun = _held(run, place, hold)
                except InUse as error:
                    later[name] = time.monotonic() + AGAIN
                    yield News(name, "busy", why=str(error))
                except (BadInput, OSError) as error:
                    hold.close()
                    yield _refused(name, place, error)
                else:
                    out[task.remote(__version__, run.text(), begun, where)] = (name, hold)
                    yield News(name, "began")
            if not out:  # all that is left is in use by others
                time.sleep(AGAIN / 2)
                continue
            for ref in ray.wait(list(out), timeout=AGAIN)[0]:
                name, hold = out.pop(ref)
                with hold:
                    news = _back(ray, ref, name, *jobs[name])
                tried[name] += 1
                if news is None and tried[name] < TRIES:
                    waiting.append(name)
                else:
                    yield news or News(name, "failed", why=f"its process or its node died, {TRIES} times of {TRIES}.")
    finally:
        for _, hold in out.values():
            hold.close()
        with suppress(ray.exceptions.RayError):  # the cluster may be gone
            for ref in out:
                ray.cancel(ref)
            if out:
                ray.wait(list(out), num_returns=len(out), timeout=GRACE)
        ray.shutdown()


def _connected(address: str) -> Any:
    """The module ray, connected. A process of its own asks first: within ours, asking in vain could not be ended."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise MissingExtra("a Ray cluster", "ray", "ray") from None
    ask = [sys.executable, "-c", "import sys, ray; ray.init(sys.argv[1], log_to_driver=False)", address]
    try:
        if address != "auto" and ":" not in address:
            raise BadInput("it is no host:port")
        subprocess.run(ask, timeout=PATIENCE, check=True, capture_output=True, text=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # on GPUs, which a run does not ask for
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
    except subprocess.TimeoutExpired:
        why = f"no answer in {PATIENCE:g} s"
    except subprocess.CalledProcessError as error:
        why = (error.stderr.strip().splitlines() or ["it ended"])[-1]
    except Exception as error:
        why = _first(error)
    else:
        return ray
    raise BadInput(
        f"a sweep was given the Ray cluster {address!r}, which cannot be used ({why.rstrip('.')}); name the host:port "
        "that 'ray start --head' told, on a machine that 'ray start --address=host:port' made a part of it."
    )


def _first(error: BaseException) -> str:
    """The first line of what it says, or its name."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _held(run: Run, place: Path | None, hold: ExitStack) -> Files:
    """What the folder has of the run, which is ours until `hold` is closed."""
    if place is None:
        return {}
    hold.enter_context(Folder(place, run).held())
    return _files(place)


def _back(ray: Any, ref: Any, name: Any, run: Run, place: Path | None) -> News | None:
    """What became of a run; None: its process or its node died."""
    try:
        why, files = ray.get(ref)
    except ray.exceptions.RayTaskError as error:  # before our part began, such as for lack of holdfast
        why = f"a node could not begin it ({_first(error.cause)}); each needs holdfast {__version__}."
        return News(name, "failed", why=why, begun=False)
    except ray.exceptions.RayError:
        return None
    with tempfile.TemporaryDirectory() as scratch:
        try:
            _put(files, place or Path(scratch))
            if why:
                return News(name, "failed", why=why, begun=bool(files))
            result = train(run, place or Path(scratch))  # reads it
        except (BadInput, OSError) as error:
            return _refused(name, place, error)
    accuracy = result.final.get("accuracy")
    return News(name, "done", round=run.rounds, accuracy=accuracy, result=None if place else result)


def _refused(name: Any, place: Path | None, error: Exception) -> News:
    if isinstance(error, OSError):
        return News(name, "unwritable", why=f"{place} cannot be written ({error.strerror}); make room or name another.")
    return News(name, "failed", why=str(error))


def _train_one(version: str, text: str, begun: Files, data: str | None) -> tuple[str, Files]:
    """What a node does: a run in a folder of its own; why it failed, if it did, and all that it wrote if it began."""
    if version != __version__:
        return f"a node has holdfast {__version__} and the sweep {version}; install the same on both.", {}
    run = Run.read(text)
    with _quiet(), tempfile.TemporaryDirectory(prefix="holdfast-") as scratch:
        place = Path(scratch)
        try:
            _put(begun, place)
            train(run, place, data=data)
            summarise(place, run)
            return "", _files(place)
        except Unwritable as error:  # the node's disk, not the run
            return f"on its node: {error}", {}
        except BadInput as error:
            why = str(error).replace(scratch, "its folder")
        except Exception as error:  # whatever a run does, the others go on
            why = f"{type(error).__name__}: {error}"
        return (why, _files(place)) if (place / "lock").exists() else (f"on its node: {why}", {})


@contextmanager
def _quiet() -> Iterator[None]:
    """Log errors alone: what a run would log is in its record. Afterwards the level is as before."""
    log = logging.getLogger("holdfast")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def _files(place: Path) -> Files:
    return {name: read_regular(place / name) for name in FILES if (place / name).exists()}


def _put(files: Files, place: Path) -> None:
    """Into the folder, each file whole or not at all, and the mark last; then a checkpoint has had its time."""
    for name in [name for name in FILES if name in files]:
        write_whole(place / name, files[name], sync=True)
    if "done" in files:
        (place / "checkpoint.npz").unlink(missing_ok=True)
