"""One training from its record to its result: loop, evaluation, checkpoints."""

from __future__ import annotations

import errno
import hashlib
import logging
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.errors import BadInput, MissingExtra, Unwritable
from holdfast.jsonable import to_json
from holdfast.training.folder import OWN, Folder
from holdfast.training.loop import rashb, two_phase_rashb
from holdfast.training.own import known
from holdfast.training.remarks import is_skipped, remarks_on_rounds, remarks_on_run
from holdfast.training.run import Run
from holdfast.training.state import State
from holdfast.training.task import Task

log = logging.getLogger("holdfast")
Line = dict[str, Any]
Listener = Callable[[Line], None]
SAVE = 2.0  # seconds between checkpoints
DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.EFBIG)  # what disks say


@dataclass(frozen=True, eq=False)
class Result:
    """A finished training: its record, one line for each round, the last and the averaged model.

    Parameters
    ----------
    run : Run
        The record of the training.
    lines : list of dict
        One line for each round: the fields of `Round`, and an evaluation every `run.every` rounds.
    model : numpy.ndarray
        The last model.
    average : numpy.ndarray
        The mean of all models.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import Run, train
    >>> from holdfast.training import Functions
    >>> task = Functions(
    ...     workers=4,
    ...     first=np.zeros(2),
    ...     update=lambda worker, model, t: model - 1.0,
    ...     evaluation=lambda model: {"error": round(float(abs(model - 1.0).max()), 4)},
    ... )
    >>> result = train(Run(rule="MeanwO(f=1)", workers=4, rounds=4, every=2, momentum=0.0), task=task)
    >>> result.curve("error")
    [(2, 0.81), (4, 0.6561)]
    """

    run: Run
    lines: list[Line]
    model: np.ndarray
    average: np.ndarray

    @property
    def accuracy(self) -> float:
        """The accuracy of the last model on everybody's test data; nan if nobody measured it."""
        final = self.final.get("accuracy")
        return float("nan") if final is None else float(final)

    @property
    def success(self) -> float:
        """How often the attack's trigger works on the last model: a part of 1; nan if the attack has none.

        It is measured on the test images of all classes but the target.
        """
        final = self.final.get("success")
        return float("nan") if final is None else float(final)

    @property
    def final(self) -> Line:
        """The last evaluation."""
        return next((line["evaluation"] for line in reversed(self.lines) if "evaluation" in line), {})

    def curve(self, name: str = "accuracy") -> list[tuple[int, float]]:
        """Return (rounds done, value) of every evaluation.

        Parameters
        ----------
        name : str
            Which number of the evaluations.

        Returns
        -------
        list of (int, float)
            In the order of the rounds.
        """
        values = ((line["round"] + 1, line["evaluation"].get(name)) for line in self.lines if "evaluation" in line)
        return [(at, value) for at, value in values if value is not None]

    def kept(self) -> np.ndarray:
        """Return (rounds, workers) letters: k kept, - excluded, x dropped, . absent; a column is a worker's history."""
        blank = "." * self.run.workers
        return np.array([list(line["kept"] or blank) for line in self.lines])

    def winners(self) -> list[str]:
        """Return which candidate won in each round, '' in one that was skipped; empty where there are no elections."""
        return [line["winner"] for line in self.lines] if self.run.two_phase else []

    @property
    def skipped(self) -> int:
        """How many rounds were skipped: the rule refused, or its step was rejected, and the model stayed."""
        return sum(map(is_skipped, self.lines))

    def remarks(self) -> list[str]:
        """Return what a reader must know before the numbers; empty if there is nothing.

        Returns
        -------
        list of str
            One text for each of these: more workers are Byzantine than the rule tolerates; an attack was set, but no
            worker is Byzantine; the attack does nothing with so few (`Attack.harmless`); no message of a Byzantine
            worker reached the rule; all rounds were skipped; `weights="samples"` changes nothing.
        """
        return [*remarks_on_run(self.run), *remarks_on_rounds(self.run, self.lines)]

    def __repr__(self) -> str:
        told = {name: f", {name} {getattr(self, name):.4f}" for name in ("accuracy", "success")}
        measured = "".join(text for name, text in told.items() if name in self.final)
        lost = f", {self.skipped} of them skipped" if self.skipped else ""
        rounds = f"{len(self.lines)} rounds{lost}{measured}"
        return f"Result({'; '.join([f'{self.run.rule!r} under {self.run.attack!r}: {rounds}', *self.remarks()])})"

    def events(self) -> list[tuple[int, str]]:
        """Return (round, what happened) of all that was out of the ordinary."""
        return [(line["round"], event) for line in self.lines for event in line["events"]]


def train(
    run: Run,
    folder: Path | str | None = None,
    task: Task | None = None,
    *,
    data: Path | str | None = None,
    on_round: Listener | None = None,
    save: float = SAVE,
    certify: bool = False,
) -> Result:
    """Run a training to its end, or from where it was interrupted if its folder holds it.

    Parameters
    ----------
    run : Run
        The record of the training.
    folder : path, optional
        Where lines, checkpoints and models are kept. Without it, nothing is written.
    task : Task, optional
        Stands in for torch workers on the run's data set.
    data : path, optional
        The folder where the data set is looked for first.
    on_round : callable, optional
        Hears every line as it comes.
    save : float
        Seconds between checkpoints. One is also written on an interrupt, which waits for the end of the round.
    certify : bool
        Whether each line has what is certain about its aggregate (`kappa`).

    Returns
    -------
    Result
        Lines and models.

    Raises
    ------
    BadInput
        If the run, the task and the folder do not fit together.
    MissingExtra
        If torch or the data set's package is missing.
    Unwritable
        If the folder cannot be written.

    Notes
    -----
    A run with more Byzantine workers than the rule tolerates is carried out. The log warns of it, and so does the text
    of the result (`Result.remarks`). The same holds for an attack that does nothing with these
    numbers of workers.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import Run, train
    >>> from holdfast.training import Functions
    >>> task = Functions(workers=4, first=np.zeros(2), update=lambda worker, model, t: model - 1.0)
    >>> run = Run(rule="MeanwO(f=1)", attack="SignFlip()", workers=4, byzantine=1, rounds=20, momentum=0.0)
    >>> train(run, task=task).model.round(2)
    array([0.88, 0.88])
    """
    if not isinstance(run, Run):
        raise BadInput(f"train was given {run!r}; it takes a Run.")
    known(run)
    if getattr(task, "run", run) != run:
        raise BadInput("train was given a task that was built for another run; build it from the same one.")
    place = None if folder is None else Folder(Path(folder), run, OWN if task is None else fingerprint(task))
    if place and place.done:
        return Result(run, place.whole(), *place.models())
    for remark in remarks_on_run(run):
        log.warning("%s", remark)
    with threads(run.threads):
        task = task or _workers(run, data)
        if task.workers != run.workers:
            raise BadInput(f"train was given {run.workers} workers by its run and {task.workers} by its task; agree.")
        try:
            with place.held() if place else nullcontext():
                return _trained(run, place, task, on_round=on_round, save=save, certify=certify)
        except OSError as error:
            if place is None or error.errno not in DISK:
                raise
            raise Unwritable(
                f"{place.path} cannot be written ({error.strerror}); make room or name another folder, "
                "then the same command goes on from what was saved."
            ) from None


def _trained(
    run: Run, place: Folder | None, task: Task, *, on_round: Listener | None, save: float, certify: bool
) -> Result:
    state = State.first(run, task)
    state = (place.state(state) if place else None) or state
    lines = list(place.lines()) if place else []
    try:
        with closing(_saved(run, task, state, place, save, certify=certify)) as news, interruptible() as interrupts:
            for new in news:
                lines.append(new)
                if on_round:
                    on_round(new)
                if interrupts:
                    raise KeyboardInterrupt
        if place:
            place.finish(state)
    finally:
        if place:
            place.spent()
    return Result(run, lines, state.model, state.average)


def _saved(run: Run, task: Task, state: State, place: Folder | None, save: float, *, certify: bool) -> Generator[Line]:
    """The rounds' lines, written down from time to time, and when somebody stops in between."""
    waiting: list[Line] = []
    saved = time.monotonic()
    for line in rounds(run, task, state, certify=certify):
        waiting.append(line)
        if place and (time.monotonic() - saved > save or state.round == run.rounds):
            place.add(waiting, state)
            waiting, saved = [], time.monotonic()
        try:
            yield line
        except GeneratorExit:
            if place and waiting:
                place.add(waiting, state)
            raise


@contextmanager
def interruptible() -> Iterator[list[int]]:
    """An interrupt waits for the end of the round, so that nothing of it is lost; a second one does not wait."""
    interrupts: list[int] = []

    def note(number: int, _: Any) -> None:
        if interrupts:
            raise KeyboardInterrupt
        interrupts.append(number)

    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield interrupts
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)


def fingerprint(task: Task) -> str:
    """What tells a task from another that the same record could be run with: its first model, and its own mark."""
    first = task.start()
    digest = hashlib.sha256(first.tobytes())
    digest.update(getattr(task, "mark", bytes)())
    return f"{type(task).__name__} from {first.size} numbers {digest.hexdigest()[:16]}"


def rounds(run: Run, task: Task, state: State, *, certify: bool = False) -> Iterator[Line]:
    """The loop's records as plain lines, with an evaluation every few rounds and at the end."""
    loop = two_phase_rashb if run.two_phase else rashb
    for record in loop(run, task, state, certify=certify):
        line: Line = {**asdict(record), "events": list(record.events)}
        if not certify:
            del line["kappa"]
        if state.mail is None:
            del line["age"], line["time"]
        if state.round % run.every == 0 or state.round == run.rounds:
            line["evaluation"] = to_json(task.evaluate(state.model.copy()), "an evaluation")
            if state.round == run.rounds:
                line["averaged"] = to_json(task.evaluate(state.average.astype(state.model.dtype)), "an evaluation")
        yield line


@contextmanager
def threads(wanted: int) -> Iterator[None]:
    """Use this number of threads of torch and one of numpy's products, then as many as before.

    Idle threads of numpy and of torch spin for a while and slow each other: a round of the paper's takes twice as long.
    """
    try:
        import torch
        from threadpoolctl import threadpool_limits
    except ImportError:  # without torch there is nobody to wait for
        yield
        return
    before = torch.get_num_threads()
    with threadpool_limits(limits=1, user_api="blas"):
        torch.set_num_threads(wanted)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def _workers(run: Run, data: Path | str | None) -> Task:
    try:
        from holdfast.training.workers import Workers
    except ImportError as error:
        raise MissingExtra("training on images", error.name or "torch", "train") from None
    return Workers(run, data)
