"""A sweep on two Ray nodes of this machine, one of which is killed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import BadInput, __version__
from holdfast.experiments import cluster
from holdfast.experiments.cluster import carried_out_on
from holdfast.experiments.store import Store
from holdfast.experiments.sweep import runs, sweep
from holdfast.training import Run, train
from holdfast.training.folder import Folder, in_use
from tests.children import PATIENCE, started

ray = pytest.importorskip("ray")

SMALL: dict[str, Any] = {"rule": "MeanwO(f=2)", "attack": "SignFlip()", "byzantine": 2, "batch": 4, "model": "linear"}

# Nodes have scratch folders of their own, which tell where a run is. Ray wants short paths and other names of
# loopback than 127.0.0.1, which it would replace by the machine's outward address.
NODES = """
import os, sys, time
from pathlib import Path
from ray.cluster_utils import Cluster
base, nodes, made = Path(os.environ["RAY_TMPDIR"]), Cluster(), []
for at in (2, 3):
    os.environ["TMPDIR"] = str(base / str(at))
    (base / str(at)).mkdir()
    words = {"include_dashboard": False} if at == 2 else {}
    made.append(nodes.add_node(num_cpus=1, object_store_memory=100 << 20, node_ip_address=f"127.0.0.{at}", **words))
print(nodes.address, flush=True)
for _ in sys.stdin:
    while not (base / "at work").exists():
        time.sleep(0.05)
    nodes.remove_node(made[1], allow_graceful=False)
    print("gone", flush=True)
nodes.shutdown()
"""


@pytest.fixture(scope="module")
def nodes() -> Iterator[subprocess.Popen[str]]:
    """Two nodes with a core each; the first line they say is their address, and a line kills the second at work."""
    base = tempfile.mkdtemp(prefix="r", dir="/tmp")
    env = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": base}
    call, pipe = [sys.executable, "-c", NODES], subprocess.PIPE
    with (
        (Path(base) / "told").open("w") as told,
        started(call, env=env, stdin=pipe, stdout=pipe, stderr=told) as process,
    ):
        yield process
        assert process.stdin
        process.stdin.close()
        process.wait(PATIENCE)
    for _ in range(50):  # the last processes still write
        shutil.rmtree(base, ignore_errors=True)
        if not Path(base).exists():
            break
        time.sleep(0.1)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loaded machine takes long to start Ray."""
    monkeypatch.setattr(cluster, "PATIENCE", PATIENCE)


@pytest.fixture(scope="module")
def address(nodes: subprocess.Popen[str]) -> str:
    assert nodes.stdout
    return next(line for line in nodes.stdout if line.startswith("127.")).strip()


def test_closing_lets_go_of_runs_and_a_begun_run_goes_on(address: str, tmp_path: Path) -> None:
    run = Run(workers=7, rounds=300, every=100, **SMALL)
    endless = Run(workers=7, rounds=10**6, **SMALL)
    begun, alone = tmp_path / "begun", train(run)

    def stop(line: dict[str, Any]) -> None:
        if line["round"] == 200:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(run, begun, on_round=stop)
    jobs = {"none": (run, None), "endless": (endless, tmp_path / "endless"), "begun": (run, begun)}
    news = carried_out_on(address)(jobs)
    found = {}
    for one in news:
        found[one.key, one.what] = one
        if {("none", "done"), ("begun", "done")} <= set(found):
            break
    assert in_use(tmp_path / "endless")
    news.close()  # type: ignore[attr-defined]
    assert not in_use(tmp_path / "endless")
    assert not ray.is_initialized()
    result = found["none", "done"].result
    assert result is not None
    assert result.lines == alone.lines == train(run, begun).lines
    assert not (begun / "checkpoint.npz").exists()
    assert found["begun", "done"].accuracy == alone.accuracy


def test_a_killed_node_a_dying_run_and_a_failing_run_lose_nothing_else(
    nodes: subprocess.Popen[str], address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = runs({**SMALL, "rounds": 400, "every": 200, "workers": [8, 9, 10], "seeds": 2})
    bad = runs({**SMALL, "rounds": 9, "workers": 8, "data": ["nowhere", "dies"]})
    one = cluster._train_one

    def gated(version: str, text: str, *words: Any) -> Any:
        """The first node begins once the second is at work; the second keeps what it has done until it is killed."""
        if "dies" in text:
            os._exit(3)
        own = Path(os.environ["TMPDIR"])
        mark, second = own.parent / "at work", own.name == "3"
        if second:
            mark.touch()
        while not mark.exists():
            time.sleep(0.05)
        done = one(version, text, *words)
        while second:
            time.sleep(0.05)
        return done

    monkeypatch.setattr(cluster, "_train_one", gated)
    monkeypatch.setattr(cluster, "TRIES", 3)
    assert nodes.stdin
    assert nodes.stdout
    nodes.stdin.write("kill the second node\n")
    nodes.stdin.flush()
    there, here = Store(tmp_path / "there"), Store(tmp_path / "here")
    news = list(sweep(good | bad, there, carry=carried_out_on(address)))
    assert nodes.stdout.readline() == "gone\n"
    assert Counter(one.key for one in news if one.what == "done") == Counter(list(good))
    assert sum(one.what == "began" and one.key in good for one in news) > len(good), "no run was lost with the node"
    why = {bad[one.key].data: one.why for one in news if one.what == "failed"}
    assert why.keys() == {"nowhere", "dies"}
    assert "'nowhere' is no known data set" in why["nowhere"]
    assert "its process or its node died" in why["dies"]
    assert {one.what for one in sweep(good, here)} >= {"done"}
    for run in good.values():
        assert there.state(run) == here.state(run) == "done"
        for name in ("metrics.jsonl", "record.json", "summary.json", "done"):
            assert (there.place(run) / name).read_bytes() == (here.place(run) / name).read_bytes()
        assert train(run, there.place(run)).accuracy == train(run, here.place(run)).accuracy
    assert {one.what for one in sweep(good, there, carry=carried_out_on("nobody:1"))} == {"there"}


def test_runs_in_use_elsewhere_are_told_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a cluster: what a node would do is done at once."""
    run = Run(workers=7, rounds=3, **SMALL)
    monkeypatch.setattr(cluster, "_connected", lambda address: _Here())
    hold = Folder(tmp_path / "a", run).held()
    hold.__enter__()
    found = []
    for news in carried_out_on("here")({"a": (run, tmp_path / "a")}):
        found.append(news.what)
        if news.what == "busy":
            hold.__exit__(None, None, None)
    assert found == ["busy", "began", "done"]
    (tmp_path / "file").write_text("")
    (news,) = carried_out_on("here")({"a": (run, tmp_path / "file")})
    assert "is a file" in news.why
    (news,) = carried_out_on("here")({"a": (run, tmp_path / "file" / "in")})
    assert news.what in ("failed", "unwritable")


def test_a_run_that_could_not_begin_on_a_node_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was marked as failed, because its folder is made here before a node looks for the data."""
    monkeypatch.setattr(cluster, "_connected", lambda address: _Here())
    (run,) = found = runs({**SMALL, "workers": 7, "data": "nowhere"})
    store = Store(tmp_path)
    for _ in range(2):
        began, failed = sweep(found, store, carry=carried_out_on("here"))
        assert (began.what, failed.what, failed.begun) == ("began", "failed", False)
        assert failed.why.startswith("on its node: 'nowhere' is no known data set")
        assert store.state(found[run]) == "begun"


def test_a_run_that_fails_on_a_node_keeps_what_it_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rounds were lost, and so was what would have told why."""
    monkeypatch.setattr(cluster, "_connected", lambda address: _Here())
    (run,) = (found := runs({**SMALL, "workers": 7, "rounds": 5})).values()
    store = Store(tmp_path)

    def fails(run: Run, place: Path, **words: Any) -> Any:
        def late(line: dict[str, Any]) -> None:
            assert line["round"] < 3, f"{place} is too hot"

        return train(run, place, on_round=late, **words)

    with monkeypatch.context() as patch:
        patch.setattr(cluster, "train", fails)
        *_, news = sweep(found, store, carry=carried_out_on("here"))
    assert (news.what, news.begun) == ("failed", True)
    assert store.state(run) == "failed"
    assert len(list(Folder(store.place(run), run).lines())) == 4
    *_, news = sweep(found, store, retry_failed=True, carry=carried_out_on("here"))
    assert news.what == "done"
    assert train(run, store.place(run)).lines == train(run).lines


def test_an_error_without_words_does_not_end_the_sweep() -> None:
    class Lost(_Here):
        def get(self, ref: Any) -> Any:
            raise ray.exceptions.RayTaskError("_train_one", "", MemoryError())

    news = cluster._back(Lost(), None, "a", Run(workers=7, **SMALL), None)
    assert news is not None
    assert news.why.startswith("a node could not begin it (MemoryError); each needs holdfast")
    assert not news.begun


def test_a_cluster_is_not_waited_for_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """-1 processes, and a cluster that has lost its last core, waited for ever."""

    class Empty(_Here):
        def wait(self, refs: list[Any], timeout: float, num_returns: int = 1) -> tuple[list[Any], list[Any]]:
            return [], refs

        def cancel(self, ref: Any) -> None:
            raise ray.exceptions.RayError

    monkeypatch.setattr(cluster, "_connected", lambda address: Empty())
    monkeypatch.setattr(cluster, "ALONE", 0.0)
    jobs = {"a": (Run(workers=7, rounds=3, **SMALL), tmp_path / "a")}
    with pytest.raises(BadInput, match="-1 processes were asked for"):
        list(carried_out_on("here:1")(jobs, -1))
    with pytest.raises(BadInput, match="the Ray cluster 'here:1' has had no core"):
        list(carried_out_on("here:1")(jobs))
    assert not in_use(tmp_path / "a")


class _Here:
    exceptions = ray.exceptions

    def remote(self, **_: Any) -> Any:
        return lambda do: type("Task", (), {"remote": lambda _, *words: _Ref(do(*words))})()

    def cluster_resources(self) -> dict[str, float]:
        return {}

    def wait(self, refs: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        return refs, []

    def get(self, ref: Any) -> Any:
        return ref.value

    def shutdown(self) -> None:
        pass


class _Ref:
    def __init__(self, value: Any) -> None:
        self.value = value


def test_another_version_on_a_node_and_data_that_is_not_there(tmp_path: Path) -> None:
    why, files = cluster._train_one("0.0", "", {}, None)
    assert "and the sweep 0.0; install the same on both." in why
    run = Run(workers=7, rounds=3, **SMALL | {"data": "mnist"})
    why, files = cluster._train_one(__version__, run.text(), {}, str(tmp_path / "none"))
    assert "is no folder; name one that holds mnist" in why
    assert not files


@pytest.mark.parametrize(
    ("address", "why"),
    [("127.0.0.2:9", "no answer in 4 s"), ("somewhere", "it is no host:port"), ("local", "it is no host")],
)
def test_a_cluster_that_does_not_answer(
    address: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "PATIENCE", 4.0)
    with pytest.raises(BadInput, match=f"'{address}', which cannot be used .{why}"):
        list(sweep(runs(SMALL), Store(tmp_path), carry=carried_out_on(address)))


def test_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(BadInput, match=r"pip install -c constraints.txt '\.\[ray\]'"):
        list(carried_out_on("auto")({"a": (Run(workers=7, **SMALL), None)}))
