"""A sweep: rules x attacks x rates x splits x seeds as runs in a store. Running it again goes on where it was."""

from __future__ import annotations

import itertools
import math
import tempfile
import tomllib
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from holdfast.checks import check_whole
from holdfast.disk import write_text
from holdfast.errors import BadInput
from holdfast.experiments.pool import News, carried_out
from holdfast.experiments.store import Store, key, why_failed
from holdfast.experiments.where import condition
from holdfast.spec import unknown
from holdfast.training import Run
from holdfast.training.folder import set_damaged_aside
from holdfast.training.run import SYNONYMS

__all__ = ["read", "runs", "sweep"]

Runs = dict[str, Run]
Readers = Mapping[str, Callable[[str], Any]]  # by the name of a field
PLURAL = {"rules": "rule", "attacks": "attack", "rates": "rate", "splits": "split", "seeds": "seed"}
KNOWN = {one.name for one in fields(Run)} | {"rate", "honest"}
APART = [("rate", "byzantine"), ("honest", "workers"), ("honest", "rate")]  # of these, a sweep says one
WRITTEN = {field: word for word, field in PLURAL.items()}
WORDS = {word: "rates or byzantine" if field == "byzantine" else field for word, field in SYNONYMS.items()}
MAX_RUNS = 100_000  # runs of a sweep


def read(path: Path | str, readers: Readers | None = None) -> Runs:
    r"""Return the runs of a sweep file, by key.

    Parameters
    ----------
    path : path
        A TOML file with the fields that `runs` takes.
    readers : dict from str to callable, optional
        As for `runs`.

    Returns
    -------
    dict from str to Run
        The runs by key.

    Raises
    ------
    BadInput
        If the file cannot be read, is no TOML, or holds no sweep.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from holdfast.experiments.sweep import read
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "sweep.toml"
    ...     _ = file.write_text("rules = ['Average()', 'CWM()']\nseeds = 2\n")
    ...     len(read(file))
    4
    """
    try:
        given = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror}); name a sweep file.") from None
    except (ValueError, RecursionError) as error:  # also numbers of 5,000 digits, and nesting without end
        raise BadInput(f"{path} is no TOML ({error}); see holdfast sweep --help for an example.") from None
    try:
        return runs(given, readers)
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None


def runs(grid: Mapping[str, Any], readers: Readers | None = None) -> Runs:
    """Return the runs of all combinations of what is given as a list.

    Parameters
    ----------
    grid : mapping
        Fields of `Run` by name, each a list of values, or a single value for all. `rules`, `attacks`, `rates`, `splits`
        and `seeds` may be written so; `seeds = 3` is 0, 1, 2. A rate is a share of the workers, rounded down: this
        number is Byzantine, and {f} in a rule stands for it. `honest` is the number of honest workers; the Byzantine
        ones come on top, so `workers` is not given. `zip` names fields whose lists go together, the first value of each
        with the first of the others, and so on. Rules and attacks may be texts or values.
    readers : dict from str to callable, optional
        How the texts of "rule" and "attack" are read. Without it, they name what the catalogue has.

    Returns
    -------
    dict from str to Run
        The runs by key.

    Raises
    ------
    BadInput
        If a field is unknown, empty or given twice, or there are too many combinations.

    Examples
    --------
    >>> from holdfast.experiments.sweep import runs
    >>> len(runs({"rules": ["Average()", "CWTM(f={f})"], "attacks": ["SignFlip()"], "rates": [0.2, 0.4], "seeds": 3}))
    12
    """
    axes: dict[str, list[Any]] = {}
    for name, given in grid.items():
        if name == "zip":
            continue
        field = PLURAL.get(name, name)
        if field not in KNOWN:
            raise BadInput(unknown(str(name), sorted(KNOWN | set(PLURAL)), "key of a sweep", WORDS))
        if field in axes:
            raise BadInput(f"a sweep was given {field!r} twice, as {name!r} too; say it once.")
        axes[field] = (
            list(range(min(given, MAX_RUNS + 1))) if name == "seeds" and type(given) is int else _listed(given)
        )
        if not axes[field]:
            raise BadInput(f"a sweep was given no {name}; name at least one.")
    if "rule" not in axes:
        raise BadInput("a sweep was given no rules; name at least one, such as rules = ['MeanwO(f={f})'].")
    for one, other in APART:
        if {one, other} <= set(axes):
            raise BadInput(
                f"a sweep was given both {WRITTEN.get(one, one)} and {WRITTEN.get(other, other)}; say one of them."
            )
    together = _zipped(axes, grid.get("zip", ()))
    if (many := math.prod(map(len, together))) > MAX_RUNS:
        raise BadInput(f"a sweep was given {many:,} combinations or more; it takes {MAX_RUNS:,} at most.")
    chosen = (dict(itertools.chain.from_iterable(some)) for some in itertools.product(*together))
    listed = [_run({name: values[name] for name in axes}, readers or {}) for values in chosen]
    return {key(run): run for run in listed}


def _zipped(axes: Mapping[str, list[Any]], given: Any) -> list[list[list[tuple[str, Any]]]]:
    """The axes, each a list of choices; a choice sets one field, or all fields that go together."""
    names = [PLURAL.get(name, name) if isinstance(name, str) else name for name in _listed(given)]
    if strange := [name for name in names if not isinstance(name, str) or name not in axes]:
        raise BadInput(f"a sweep was given zip = {given!r}, and {strange[0]!r} is no list of it; name its lists.")
    sizes = {len(axes[name]) for name in names}
    if len(sizes) > 1:
        many = ", ".join(f"{len(axes[name])} of {name}" for name in names)
        raise BadInput(f"a sweep was given zip = {given!r} for {many}; zipped lists are of one length.")
    apart = [[[(name, value)] for value in values] for name, values in axes.items() if name not in names]
    joined = [[(name, axes[name][at]) for name in names] for at in range(max(sizes, default=0))]
    return [joined, *apart] if names else apart


def _run(fields: dict[str, Any], readers: Readers) -> Run:
    if (honest := fields.pop("honest", None)) is not None:
        byzantine = check_whole(fields.get("byzantine", 0), "byzantine", least=0, most=MAX_RUNS, who="a sweep")
        fields["workers"] = check_whole(honest, "honest", least=1, most=MAX_RUNS, who="a sweep") + byzantine
    workers = fields.get("workers", Run.workers)
    if (rate := fields.pop("rate", None)) is not None:
        if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 <= rate < 0.5:
            raise BadInput(f"a sweep was given rate = {rate!r}; it is a share of the workers, from 0 to below 0.5.")
        fields["byzantine"] = int(rate * workers + 1e-9) if type(workers) is int and workers < 2**31 else 0
    if isinstance(fields["rule"], str):
        fields["rule"] = fields["rule"].replace("{f}", str(fields.get("byzantine", 0)))
    fields |= {name: read(fields[name]) for name, read in readers.items() if isinstance(fields.get(name), str)}
    return Run(**fields)


def _listed(given: Any) -> list[Any]:
    return list(given) if isinstance(given, (list, tuple)) else [given]


def only(runs: Runs, conditions: list[str]) -> Runs:
    """Return the runs that meet all conditions.

    Parameters
    ----------
    runs : dict from str to Run
        The runs by key.
    conditions : list of str
        Such as 'rule=Mean*', 'seed<2' or 'attack!=NoAttack()'.

    Returns
    -------
    dict from str to Run
        Some of the runs.

    Examples
    --------
    >>> from holdfast.experiments.sweep import only, runs
    >>> len(only(runs({"rules": ["Average()", "CWM()"], "seeds": 5}), ["rule=CWM*", "seed<2"]))
    2
    """
    tests = [condition(text) for text in conditions]
    return {name: run for name, run in runs.items() if all(test(run) for test in tests)}


def sweep(
    runs: Runs,
    store: Store,
    jobs: int | None = None,
    data: Path | None = None,
    *,
    retry_failed: bool = False,
    carry: Callable[..., Iterator[News]] = carried_out,
) -> Generator[News]:
    """Carry out the runs that the store does not have yet.

    Parameters
    ----------
    runs : dict from str to Run
        The runs by key, as `runs` returns them.
    store : Store
        The folder of the runs.
    jobs : int, optional
        How many processes work. Without it, one for each core.
    data : Path, optional
        The folder where data sets are looked for first.
    retry_failed : bool
        Whether runs that failed before are tried again.
    carry : callable
        What carries them out; other than here, on a cluster.

    Yields
    ------
    News
        News as they come, first of what is there already. A run that fails under way leaves a note in its folder.

    Raises
    ------
    BadInput
        If the store cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from holdfast.experiments.store import Store
    >>> from holdfast.experiments.sweep import sweep
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     list(sweep({}, Store(folder)))
    []
    """
    _writable(store.path)
    todo: dict[str, tuple[Run, Path]] = {}
    for name, run in runs.items():
        state, place = store.state(run), store.place(run)
        if state == "done":
            yield News(name, "there", round=run.rounds)
        elif state == "broken":
            yield News(
                name, "failed", why=f"{place} does not hold the run of its name; move it elsewhere, then run again."
            )
        elif state == "failed" and not retry_failed:
            yield News(name, "failed", why=why_failed(place))
        else:
            if state == "failed":
                set_damaged_aside(place)
            todo[name] = (run, place)
    for news in carry(todo, jobs, data):
        place = store.place(runs[news.key])
        if news.what == "unwritable":
            raise BadInput(news.why)
        if news.what == "failed" and news.begun and place.is_dir():  # for lack of data it does not begin: tried again
            with suppress(OSError):  # the disk may be the reason
                write_text(place / "failed", news.why)
        elif news.what == "done":
            (place / "failed").unlink(missing_ok=True)
        yield news


def _writable(path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise BadInput(f"{path} is a file; name a folder for the runs.")
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise BadInput(f"{path} cannot be written ({error.strerror}); make room or name another store.") from None
