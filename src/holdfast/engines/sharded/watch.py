"""Who is gone and who hangs: every rank tells what it does, and a job that fails says so by rank, everywhere."""

from __future__ import annotations

import faulthandler
import json
import os
import re
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from types import TracebackType
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from holdfast.errors import BadInput, BrokenRule, HoldfastError, listing

BEAT, QUIET, GRACE = 0.5, 3.0, 2.0  # seconds: between signs of life, until their lack means death, to end by oneself
OVER, TOLD, SEEN, STOPPED = "over", "told", "seen", "stopped while "
LINK = re.compile("gloo|nccl|connection|timed out|timeout|peer|socket", re.IGNORECASE)  # words of a broken exchange
_current: Watch | None = None
_begun = 0


class RankFailed(HoldfastError, RuntimeError):
    """Raised when some rank is gone, or does not come."""


class Watch:
    """A job's ranks: signs of life in the store that brought them together, and one sentence when some are missing."""

    def __init__(self, store: Any, rank: int, size: int, timeout: float) -> None:
        self.store, self.rank, self.size = store, rank, size
        self.limit = timeout + QUIET + 2 * GRACE
        self.step, self.what, self.waits, self.beats = "", "starting", False, 0
        self.ended = self.stopping = False
        self.thread = threading.Thread(target=self._live, daemon=True)
        self.thread.start()

    def say(self, what: str, *, waits: bool) -> None:
        """What this rank does now, and whether it waits for others."""
        self.what, self.waits = what, waits

    def end(self) -> None:
        """No more signs; the job is done."""
        self.ended = True
        self.thread.join(GRACE)
        faulthandler.cancel_dump_traceback_later()

    def _live(self) -> None:
        last = time.monotonic()
        while not self.ended:
            try:
                self.sign()
                faulthandler.dump_traceback_later(self.limit, exit=True)  # if nothing else can end this process
                if self.store.check([OVER]):
                    return self._over(self.store.get(OVER).decode())
                last = time.monotonic()
            except Exception:  # the store is gone, and with it the rank that holds it
                if time.monotonic() - last > QUIET and not self.ended:
                    return self._over(self._lost())
            time.sleep(BEAT)
        return None

    def sign(self) -> None:
        """One more sign of life."""
        self.beats += 1
        doing = f"{self.what}, {self.step}" if self.step else self.what
        self.store.set(f"rank {self.rank}", json.dumps([self.beats, self.waits, doing]))

    def _over(self, why: str) -> None:
        """End this process if it does not end by itself: it hangs, or waits for somebody who will not come."""
        until = time.monotonic() + GRACE
        while time.monotonic() < until and not self.ended:
            with suppress(Exception):
                self.sign()
            time.sleep(0.1)
        if not self.ended and not self.stopping:
            self._count_told()
            print(f"rank {self.rank} is ended: {why}", file=sys.stderr, flush=True)
            os._exit(70)

    def _lost(self) -> str:
        return "the store that brought the ranks together is gone, and rank 0 with it, unless torchrun holds it."

    def explained(self, error: Exception) -> RankFailed:
        """Who is missing, told to all; asked by a rank whose exchange has failed."""
        self.stopping = True
        why = self._lost()
        with suppress(Exception):
            before, until = self._first_look(), time.monotonic() + QUIET
            self.say(f"{STOPPED}{self.what}", waits=True)
            self.sign()
            while time.monotonic() < until and not self.store.check([OVER]):
                time.sleep(0.1)
            known = self.store.get(OVER).decode() if self.store.check([OVER]) else ""
            why = known or self._missing(before, self._signs()) or f"an exchange failed: {str(error).splitlines()[0]}"
            self.over(why)
        self.ended = True
        return RankFailed(why)

    def over(self, why: str) -> None:
        """Tell everybody that the job is over; who holds the store stays until the others know."""
        self.stopping = True
        if not self.store.check([OVER]):
            self.store.set(OVER, why)
        self._count_told()
        until = time.monotonic() + GRACE + 2 * BEAT
        while self.rank == 0 and time.monotonic() < until and self.store.add(TOLD, 0) < self.size:
            time.sleep(0.1)

    def _count_told(self) -> None:
        with suppress(Exception):
            self.store.add(TOLD, 1)

    def _signs(self) -> dict[int, list[Any]]:
        names = {rank: f"rank {rank}" for rank in range(self.size)}
        return {rank: json.loads(self.store.get(name)) for rank, name in names.items() if self.store.check([name])}

    def _first_look(self) -> dict[int, list[Any]]:
        """The signs as the first rank saw them whose exchange failed: those who come later do not change them."""
        seen = self.store.compare_set(SEEN, "", json.dumps(self._signs()))
        return {int(rank): sign for rank, sign in json.loads(seen).items()}

    def _missing(self, before: dict[int, list[Any]], after: dict[int, list[Any]]) -> str:
        """One sentence about ranks that gave no sign, or have not come where the others wait; "" if there are none."""
        gone, late, tardy = [], [], []
        for rank in range(self.size):
            if rank not in after or after[rank][0] == before.get(rank, [-1])[0]:
                seen = f"last seen {after[rank][2]}" if rank in after else "never seen"
                gone.append(f"rank {rank} is gone ({seen})")
            elif not after[rank][1]:
                late.append(f"rank {rank} does not come (it is {after[rank][2]})")
            elif rank in before and not before[rank][1]:
                tardy.append(f"rank {rank} came too late (it was {before[rank][2]})")
        missing = gone or late or tardy or self._elsewhere(after)  # who computes while another is dead may be well
        return f"{listing(missing)}; the job ends on all ranks." if missing else ""

    def _elsewhere(self, signs: dict[int, list[Any]]) -> list[str]:
        """Ranks that wait for something else than most, as after a call that they skipped or made twice."""
        doing = {rank: str(sign[2]).removeprefix(STOPPED) for rank, sign in signs.items()}
        (usual, many), *_ = Counter(doing.values()).most_common(1)
        if many <= len(doing) / 2:
            return []
        others = [rank for rank, what in doing.items() if what != usual]
        return [f"rank {rank} made other calls (it is {doing[rank]}, most are {usual})" for rank in others]


@contextmanager
def watched(what: str) -> Iterator[None]:
    """Around an exchange: tells what is waited for, and who is missing if it fails."""
    watch = _current
    if watch is None:
        yield
        return
    watch.say(what, waits=True)
    try:
        yield
    except RuntimeError as error:
        raise watch.explained(error) from error
    watch.say("computing", waits=False)


def at(step: int, *, done: bool = False) -> None:
    """Which step this is, or has been, for those who ask later."""
    if _current is not None:
        _current.step = f"{'after' if done else 'in'} step {step}"
        with suppress(Exception):
            _current.sign()


class Job:
    """The ranks that were brought together; a context that ends with them.

    Parameters
    ----------
    rank : int
        The number of this rank.
    size : int
        How many ranks there are.
    watch : Watch
        What notices ranks that are gone. `begin` makes it.

    Examples
    --------
    Start such a program by torchrun:

    >>> from holdfast.engines.sharded import begin
    >>> def main():
    ...     with begin(timeout=60) as job:
    ...         print(f"rank {job.rank} of {job.size}")
    """

    def __init__(self, rank: int, size: int, watch: Watch) -> None:
        self.rank, self.size, self.watch = rank, size, watch

    def __enter__(self) -> Job:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        ours = isinstance(error, RankFailed | BrokenRule)
        if isinstance(error, RuntimeError) and not ours and LINK.search(str(error)):
            failed = self.watch.explained(error)  # an exchange that is not ours, such as DDP's own
            self._leave()
            raise failed from error
        if error is None:
            with watched("waiting for the others to end"):
                dist.barrier()
        elif not isinstance(error, RankFailed):  # say it before the others ask
            if self.rank == 0:  # which waits until all know, and may be ended meanwhile
                traceback.print_exception(error)
            with suppress(Exception):
                self.watch.over(f"rank {self.rank} failed, {self.watch.step or 'at the start'} ({error!r}).")
        self._leave()
        if error is None:
            dist.destroy_process_group()

    def _leave(self) -> None:
        global _current
        self.watch.end()
        _current = None


def begin(backend: str | None = None, timeout: float = 60.0) -> Job:
    """Join the other ranks, as torchrun's environment says, with a limit on how long anybody is waited for.

    Parameters
    ----------
    backend : str, optional
        The backend of torch.distributed. Without it, nccl where there is CUDA, else gloo.
    timeout : float
        How many seconds anybody is waited for, above 0.

    Returns
    -------
    Job
        A context. A rank that is killed or hangs ends the job on all ranks, with a sentence that names it and what it
        was doing.

    Raises
    ------
    BadInput
        If the timeout is out of range, or the program was not started by torchrun.

    Examples
    --------
    Start such a program by torchrun:

    >>> from holdfast.engines.sharded import begin
    >>> def main():
    ...     with begin(timeout=60) as job:
    ...         print(f"rank {job.rank} of {job.size}")
    """
    global _current, _begun
    if not 0 < timeout < 1e7:
        raise BadInput(f"begin was given timeout = {timeout!r}; it is a number of seconds above 0.")
    if missing := [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]:
        raise BadInput(f"begin found no {listing(missing)} in the environment; start the program by torchrun.")
    limit = timedelta(seconds=timeout)
    store, rank, size = next(rendezvous("env://", timeout=limit))
    _begun += 1
    own = f"{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')} {_begun}"  # a job that begins again meets nobody's past
    backend = backend or ("nccl" if torch.cuda.is_available() else "gloo")
    dist.init_process_group(
        backend, store=PrefixStore(f"ranks {own}", store), rank=rank, world_size=size, timeout=limit
    )
    _current = Watch(PrefixStore(f"holdfast {own}", store), rank, size, timeout)
    return Job(rank, size, _current)
