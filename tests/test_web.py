"""The server of the pages: the library's own answers, to its own pages alone, whatever is sent."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import re
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast import BadInput, CenterwO, MeanwO, OuterCenter, OuterMean, parse
from holdfast.attacks import ATTACKS, View
from holdfast.guarantees.bounds import bounds
from holdfast.guarantees.criteria import worst
from holdfast.guarantees.instances import DILEMMA, SIEGE, SNEAK
from holdfast.twophase import AGGREGATORS
from holdfast.web import answers
from holdfast.web.answers import answered
from holdfast.web.guard import LIMIT
from holdfast.web.presets import listed, preset
from holdfast.web.rounds import WORKERS, Round, read
from holdfast.web.snippet import snippet
from holdfast.web.walk import walked
from tests.children import PATIENCE, holdfast, run, wait_until
from tests.pages import ask, served

RULES = ["Average()", "MeanwO(f=4)", "CenterwO(f=4)", "OuterMean(f=4)", "CWTM(f=4)", "GeometricMedian()", "Krum(f=4)"]
STORY: dict[str, Any] = {"points": DILEMMA.tolist(), "liars": SNEAK.tolist(), "f": 5, "rules": ["Mean2P(f=5)"]}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served("play") as found:
        yield found


def cloud(n: int = 13, liars: int = 4, seed: int = 0, away: float = 3.0) -> Round:
    X = np.random.default_rng(seed).normal(size=(n, 2))
    X[n - liars :] += away
    return Round(X, tuple(range(n - liars, n)), liars, tuple(RULES))


class TestRounds:
    def test_answers_are_the_library_s(self) -> None:
        asked = cloud()
        told = answered(asked)
        np.testing.assert_allclose(told["mean"], asked.X[:9].mean(axis=0))
        for text, one in zip(RULES, told["answers"], strict=True):
            decision = parse(text).decide(asked.X)
            np.testing.assert_array_equal(one["value"], decision.value)
            assert one["kept"] == decision.kept
            assert one["ball"] == decision.ball
            assert one["away"] == pytest.approx(np.linalg.norm(decision.value - asked.X[:9].mean(axis=0)))

    def test_the_ball_of_inner_holds_the_kept_and_that_of_outer_the_dropped(self) -> None:
        X = cloud().X
        for rule, who in (
            (CenterwO(4), "kept"),
            (MeanwO(4), "kept"),
            (OuterCenter(4), "excluded"),
            (OuterMean(4), "excluded"),
        ):
            decision = rule.decide(X * 1e-200)  # measured at another scale
            assert decision.ball is not None
            centre, radius = decision.ball
            far = np.linalg.norm(X - X[centre], axis=1) * 1e-200
            assert radius == pytest.approx(far[list(getattr(decision, who))].max(), rel=1e-6)
        decision = CenterwO(4).decide(X)
        assert decision.ball is not None
        assert decision.ball[1] == decision.cost
        assert MeanwO(4, refine=2).decide(X).ball is None
        assert OuterMean(0).decide(X).ball is None
        assert parse("NNM(f=4) >> MeanwO(f=4)").decide(X).ball is None

    def test_the_region_holds_the_honest_mean(self) -> None:
        for seed in range(40):
            for one in answered(cloud(seed=seed))["answers"]:
                assert one["away"] <= one["certificate"]["region"] * (1 + 1e-9)

    def test_the_rule_that_is_looked_at_is_certified_alone(self) -> None:
        asked = cloud()
        every = answered(asked)["answers"]
        alone = answered(replace(asked, look=2))["answers"]
        assert [at for at, one in enumerate(alone) if "certificate" in one] == [2]
        quick, sharp = alone[2].pop("certificate"), every[2].pop("certificate")
        assert alone[2] == every[2]
        assert quick["kappa"] >= sharp["kappa"] > 0  # at rest there is time for the sharper proof
        assert [one["value"] for one in alone] == [one["value"] for one in every]

    def test_what_no_answer_can_be_below_is_said_at_rest(self) -> None:
        asked = cloud()
        told = answered(asked)
        assert 0 < told["least"] <= min(one["certificate"]["kappa"] for one in told["answers"])
        assert answered(replace(asked, look=2))["least"] is None
        assert answered(replace(asked, f=0))["least"] is None

    def test_nothing_is_certified_if_more_lie_than_f(self) -> None:
        asked = cloud(liars=5)
        told = answered(Round(asked.X, asked.liars, 4, ("MeanwO(f=4)", "Average()", "MeanwO(f=5)")))
        assert [one["certificate"] for one in told["answers"][:2]] == [None, None]
        assert [one["over"] for one in told["answers"]] == [True, True, False]  # each by the f of its own
        assert told["answers"][0]["promise"] == {}
        X = asked.X.copy()
        X[-3:] = np.nan  # whoever is dropped does no harm; here f is lowered as well
        (one,) = answered(Round(X, asked.liars, 5, ("MeanwO(f=5)",)))["answers"]
        assert (one["used"], one["n"], one["f"], one["over"]) == ("MeanwO(f=4)", 10, 4, False)

    def test_the_vote_is_that_of_the_library(self) -> None:
        for liars, name in ((SNEAK, "outer"), (SIEGE, "inner")):
            (one,) = answered(read({**STORY, "liars": liars.tolist()}))["answers"]
            assert one["winner"] == name
            near = {side: told["away"] for side, told in one["candidates"].items()}
            assert min(near, key=near.__getitem__) == name
            assert one["value"] == one["candidates"][name]["value"]
            mean = np.delete(DILEMMA, liars, axis=0).mean(axis=0)
            for i, gain in one["gains"].items():
                if int(i) in liars:
                    assert (gain > 0) == (name == "inner")  # against the honest majority
                    continue
                say = mean + (DILEMMA[int(i)] - mean) / np.sqrt(8)
                losses = [np.square(say - one["candidates"][s]["value"]).sum() / 2 for s in near]
                assert gain == pytest.approx(losses[0] - losses[1])

    def test_few_images_lose_the_sneak_s_vote(self) -> None:
        """As in a training: whoever votes with no more than its update was made from errs too often."""
        for images, name, votes in ((1, "inner", [6, 5]), (3, "outer", [5, 6]), (32, "outer", [4, 7])):
            (one,) = answered(read({**STORY, "images": images}))["answers"]
            assert (one["winner"], one["votes"]) == (name, votes)

    def test_nan_is_dropped_by_name_and_does_not_vote(self) -> None:
        points: list[Any] = DILEMMA.tolist()
        points[0] = None
        told = answered(read({**STORY, "points": points, "f": 4, "rules": ["MeanwO(f=4)", "Mean2P(f=4)"]}))
        for one in told["answers"]:
            assert one["dropped"] == {"0": "not finite"}
        assert "0" not in told["answers"][1]["gains"]

    def test_a_rule_that_refuses_says_so_and_the_others_answer(self) -> None:
        told = answered(read({**STORY, "rules": ["Zeno()", "Krum(f=5)", "NNM(f=2)", "Average()", "x" * 400]}))
        refused = [one.get("error", "") for one in told["answers"]]
        assert [bool(text) for text in refused] == [True, True, True, False, True]
        assert "no known rule" in refused[0]
        assert "at least 13" in refused[1]

    @pytest.mark.parametrize("text", ["GeometricMedian(iterations=2001)", "NNM(f=4) >> MeanExact(f=4, cap=10001)"])
    def test_nobody_waits_for_a_rule(self, text: str) -> None:
        (one,) = answered(Round(cloud().X, (), 4, (text,)))["answers"]
        assert "so that nobody waits" in one["error"]
        (one,) = answered(Round(cloud().X, (), 4, ("Clip(tau=25000.123456789) >> Average()",)))["answers"]
        assert "error" not in one

    def test_after_slow_rules_the_others_say_that_they_were_not_asked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(answers, "SECONDS", 0.0)
        assert all("was not asked" in one["error"] for one in answered(cloud())["answers"])


class TestPresets:
    def test_the_dilemma_is_the_paper_s(self) -> None:
        for name, liars in (("sneak", SNEAK), ("siege", SIEGE)):
            found = preset({"name": name})
            assert (found["points"], found["liars"], found["f"]) == (DILEMMA.tolist(), liars.tolist(), 5)

    @pytest.mark.parametrize("name", [one["name"] for one in listed()])
    def test_every_preset_is_a_round_that_rules_answer(self, name: str) -> None:
        for rule in ("MeanwO(f=4)", "Mean2P(f=4)", "Average()"):
            found = preset({"name": name, "rule": rule})
            told = answered(read({**found, "rules": [f"MeanwO(f={found['f']})"]}))
            assert "error" not in told["answers"][0]
            assert found["liars"]

    def test_attacks_are_the_library_s(self) -> None:
        for name in ("ALIE", "Empire", "Omniscient"):
            found = preset({"name": name, "rule": "CWTM(f=4)", "seed": 3})
            X = np.array(found["points"])
            view = View(honest=X[:9], own=np.zeros((4, 2)), rule=parse("CWTM(f=4)"), f=4)
            if name != "Omniscient":  # which also sees what the liars' own data say
                np.testing.assert_allclose(X[9:], ATTACKS[name]()(view), atol=2e-4)
        assert preset({"name": "nan"})["points"][-1] is None
        assert preset({"name": "ALIE", "seed": 1}) != preset({"name": "ALIE", "seed": 2})

    @pytest.mark.parametrize("rule", ["MeanwO(f=2)", "CenterwO(f=2)", "CWTM(f=2)", "Mean2P(f=2)", "GeometricMedian()"])
    def test_the_worst_round_is_bad_and_not_worse_than_proved(self, rule: str) -> None:
        found = preset({"name": "break", "rule": rule, "n": 7, "f": 2})
        X, named = np.array(found["points"]), parse(rule, AGGREGATORS)
        named = getattr(named, "inner", named)
        honest = [i for i in range(7) if i not in found["liars"]]
        bad = worst("kappa", named(X), X, 2)
        assert bad.honest == tuple(honest)
        proved = bounds(named, 7, 2)["kappa"].ours
        assert proved is not None
        assert 0.4 * proved.value < bad.value <= proved.value * (1 + 1e-4)
        assert f"{bad.value:.3g}" in found["said"]

    def test_a_rule_that_needs_many_is_broken_with_a_smaller_f(self) -> None:
        found = preset({"name": "break", "rule": "Bulyan(f=5)", "n": 11, "f": 5})
        assert (len(found["points"]), found["f"], len(found["liars"])) == (11, 2, 2)
        assert "nothing to break" in preset({"name": "break", "rule": "MeanwO(f=0)", "n": 2})["refused"]
        assert "no rule" in preset({"name": "PGA", "rule": "x("})["refused"]
        assert "points" in preset({"name": "ALIE", "rule": "x("})  # which does not ask it

    @pytest.mark.parametrize("words", [{"name": "x"}, {"name": "PGA", "seed": -1}, {"name": "break", "n": 1e9}])
    def test_what_cannot_be_is_a_sentence(self, words: Any) -> None:
        with pytest.raises(BadInput, match=r"\.$"):
            preset(words)


class TestWalk:
    FRAME = [[-6.0, -6.0], [6.0, 6.0]]

    def walk(self, rule: str, steps: int) -> tuple[list[float], Any]:
        asked = cloud(away=0.0)
        given: Any = {"points": asked.X.tolist(), "liars": list(asked.liars), "f": 4, "rules": [rule]}
        given |= {"frame": self.FRAME, "reach": 0.25}
        harms = []
        for step in range(steps):
            found = walked(read(given), {**given, "step": step})
            given |= {"points": found["points"], "reach": found["reach"]}
            harms.append(found["harm"])
        return harms, given["points"]

    @pytest.mark.parametrize("rule", ["MeanwO(f=4)", "CWTM(f=4)", "Mean2P(f=4)", "GeometricMedian()", "Average()"])
    def test_harm_grows_and_the_honest_stay(self, rule: str) -> None:
        harms, points = self.walk(rule, 12)
        assert harms == sorted(harms)
        (first,) = answered(Round(cloud(away=0.0).X, (9, 10, 11, 12), 4, (rule,)))["answers"]
        assert harms[-1] > 1.4 * first["away"]
        np.testing.assert_array_equal(points[:9], cloud(away=0.0).X[:9])
        assert np.abs(points).max() <= 6
        assert answered(read({"points": points, "liars": [9, 10, 11, 12], "f": 4, "rules": [rule]}))["answers"][0][
            "away"
        ] == pytest.approx(harms[-1])

    def test_it_is_the_same_each_time(self) -> None:
        assert self.walk("MeanwO(f=4)", 4) == self.walk("MeanwO(f=4)", 4)

    def test_a_walk_without_liars_or_rules_is_refused(self) -> None:
        asked = cloud()
        for other in (Round(asked.X, (), 4, ("CWM()",)), Round(asked.X, (0,), 4)):
            with pytest.raises(BadInput, match="without a rule or without a liar"):
                walked(other, {"frame": self.FRAME})
        with pytest.raises(BadInput, match="two corners"):
            walked(asked, {"frame": [[0, 0], [0, 1]]})


def test_the_program_repeats_the_answers() -> None:
    points: list[Any] = [*DILEMMA.tolist(), None]
    rules = ["MeanwO(f=5)", "Mean2P(f=4)", "CenterwO(f=2, candidates=3)", "NNM(f=3) >> CWTM(f=3)"]
    asked = read({"points": points, "liars": [0, 1, 11], "f": 5, "rules": rules})
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(snippet(asked), names)
    wanted = {one["rule"]: one for one in answered(asked)["answers"]}
    assert len(names["answers"]) == len(rules) == len(said.getvalue().splitlines())
    for rule, answer in names["answers"].items():
        text = "Mean2P(f=4)" if "TwoPhase" in repr(rule) else repr(rule)
        np.testing.assert_array_equal(answer, wanted[text]["value"])


class TestServer:
    def test_pages_and_their_headers(self, address: str) -> None:
        for path in ("/", "/runs", "/static/play.js", "/static/base.css", "/api/about", "/nothing"):
            status, _, headers = ask(address, path)
            assert status == (404 if path == "/nothing" else 200)
            assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
            assert headers["x-content-type-options"] == "nosniff"
            assert "server" not in headers

    def test_it_listens_on_loopback_alone(self, address: str) -> None:
        port = urlsplit(address).port or 0
        lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
        sockets = [line.split() for line in lines]
        bound = [at for _, at, _, state, *_ in sockets if at.endswith(f":{port:04X}") and state == "0A"]
        assert bound == [f"0100007F:{port:04X}"]
        tcp6 = Path("/proc/net/tcp6")
        assert not tcp6.exists() or f":{port:04X} 0000" not in tcp6.read_text()

    def test_other_hosts_and_origins_are_refused(self, address: str) -> None:
        port = urlsplit(address).port
        for host in (
            "evil.example",
            f"evil.example:{port}",
            "127.0.0.1",
            "localhost:1",
            "",
            f"127.0.0.1:{port}.evil",
        ):
            status, told, _ = ask(address, "/api/about", headers={"Host": host})
            assert status == 421, host
            assert "loopback" in told["error"]
        assert ask(address, "/api/about", headers={"Host": f"localhost:{port}"})[0] == 200
        for origin in (
            "http://evil.example",
            "null",
            f"127.0.0.1:{port}",
            f"http://localhost:{port}",
            f"https://127.0.0.1:{port}",
        ):
            assert ask(address, "/api/round", STORY, {"Origin": origin})[0] == 403, origin
        assert ask(address, "/api/round", STORY, {"Origin": f"http://127.0.0.1:{port}"})[0] == 200

    def test_a_host_that_is_named_twice_is_none(self, address: str) -> None:
        at = urlsplit(address)
        with socket.create_connection((at.hostname or "", at.port or 0), timeout=PATIENCE) as line:
            line.sendall(f"GET /api/about HTTP/1.1\r\nHost: {at.netloc}\r\nHost: evil.example\r\n\r\n".encode())
            assert line.recv(4096).split()[1] in (b"400", b"421")

    def test_half_a_request_keeps_nobody_from_asking_or_ending(self) -> None:
        with served("play") as address, contextlib.ExitStack() as stack:
            at = urlsplit(address)
            head = f"POST /api/round HTTP/1.1\r\nHost: {at.netloc}\r\nContent-Type: application/json\r\n"
            for _ in range(40):
                line = socket.create_connection((at.hostname or "", at.port or 0), timeout=PATIENCE)
                stack.enter_context(line)
                line.sendall(head.encode() + b"Content-Length: 100\r\n\r\n{")
            assert ask(address, "/api/round", STORY)[0] == 200

    def test_it_ends_while_rules_compute(self) -> None:
        turn = np.linspace(0, 2 * np.pi, 41)[:40]
        ring = np.stack([np.cos(turn), np.sin(turn)], axis=1).tolist()
        slow = {"points": ring, "f": 19, "rules": ["CenterExact(f=19)", "SMEA(f=12)", "MeanExact(f=19)"]}
        replies: list[int] = []
        with served("play") as address:

            def impatient() -> None:
                with contextlib.suppress(OSError, http.client.HTTPException):
                    replies.append(ask(address, "/api/round", slow)[0])

            threads = [threading.Thread(target=impatient) for _ in range(12)]
            for thread in threads:
                thread.start()
            wait_until(lambda: 503 in replies, "as many questions as are worked on at a time")
            assert ask(address, "/")[0] == 200  # pages are there meanwhile
            assert ask(address, "/api/round", STORY)[0] in (200, 503)
        for thread in threads:
            thread.join(PATIENCE)
        assert replies.count(200) < 8, "it waited for all rules before it ended"

    def test_what_is_too_long_is_refused_however_it_is_sent(self, address: str) -> None:
        long = b'{"points": "' + b"x" * LIMIT + b'"}'
        assert ask(address, "/api/round", long)[0] == 413
        at = urlsplit(address)
        with socket.create_connection(
            (at.hostname or "", at.port or 0), timeout=PATIENCE
        ) as line:  # in pieces, no length said
            head = f"POST /api/round HTTP/1.1\r\nHost: {at.netloc}\r\nContent-Type: application/json\r\n"
            line.sendall(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n")
            with contextlib.suppress(OSError):
                for _ in range(40):
                    line.sendall(b"1000\r\n" + b"x" * 4096 + b"\r\n")
            assert b"413" in line.recv(4096)
        assert ask(address, "/api/round", STORY)[0] == 200

    @pytest.mark.parametrize(
        ("body", "headers", "status"),
        [
            (b"{", {}, 400),
            (b"[]", {}, 400),
            (b'"x"', {}, 400),
            (b"[" * 30_000, {}, 400),
            (b"\xff\xfe", {}, 400),
            (b'{"points": [[NaN, 1]], "rules": []}', {}, 400),
            (b'{"points": [[1e999, 1]]}', {}, 400),
            (b"{}", {"Content-Type": "text/plain"}, 415),
            (b"{}", {"Content-Type": "application/json; charset=utf-8"}, 400),
        ],
    )
    def test_malformed_requests_are_a_sentence(self, address: str, body: bytes, headers: Any, status: int) -> None:
        found, told, _ = ask(address, "/api/round", body, headers)
        assert found == status
        assert told["error"].endswith(".")

    @pytest.mark.parametrize("path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static/"])
    def test_no_file_but_the_page_s_is_served(self, address: str, path: str) -> None:
        assert ask(address, path)[0] == 404

    def test_methods_that_nothing_has(self, address: str) -> None:
        for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
            assert ask(address, "/api/round", method=method)[0] == 405
        assert ask(address, "/api/round")[0] == 405
        assert ask(address, "/api/runs")[0] == 400

    def test_a_worker_too_many(self, address: str) -> None:
        status, told, _ = ask(address, "/api/round", {"points": [[0, 0]] * (WORKERS + 1)})
        assert (status, "1 to 40 pairs" in told["error"]) == (400, True)

    @settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=st.data())
    def test_whatever_is_sent_it_answers(self, address: str, data: st.DataObject) -> None:
        """Rounds with parts exchanged for anything, to every endpoint: an answer or a sentence, never a failure."""
        number = st.one_of(st.integers(), st.floats(), st.booleans())
        plain = st.recursive(st.one_of(st.none(), number, st.text(max_size=12)), st.lists, max_leaves=6)
        good: dict[str, Any] = {**STORY, "rules": ["MeanwO(f=2)"], "frame": TestWalk.FRAME, "step": 1, "name": "break"}
        good |= {"points": DILEMMA[:7].tolist(), "liars": [0], "f": 2, "rule": "MeanwO(f=2)"}
        changed = data.draw(st.dictionaries(st.sampled_from([*good, "n", "seed", "reach", "rule"]), plain, max_size=3))
        body = json.dumps({**good, **changed}).encode()
        path = data.draw(st.sampled_from(["round", "preset", "walk", "snippet"]))
        status, told, _ = ask(address, f"/api/{path}", body)
        assert status in (200, 400, 413), (path, changed, told)
        assert status == 200 or (told["error"].endswith((".", "?")) and len(told["error"]) < 1500)

    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(path=st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=30), body=st.binary(max_size=60))
    def test_any_path_any_bytes(self, address: str, path: str, body: bytes) -> None:
        assert ask(address, f"/{path}".replace("#", ""))[0] in (200, 400, 404, 405)
        assert ask(address, "/api/round", body)[0] == 400


def test_a_port_that_is_taken_is_a_sentence() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run(holdfast("play", "--no-browser", "--port", str(port)))
    assert done.returncode == 2
    assert re.fullmatch(
        rf"holdfast: port {port} cannot be had .*; name another, or 0 for any that is free\.\n", done.stderr
    )


def test_without_the_extra_the_command_names_it() -> None:
    code = "import sys; sys.modules['starlette.applications'] = None; from holdfast.cli import main; main()"
    done = run([sys.executable, "-c", code, "play"])
    assert done.returncode == 2
    assert "pip install -c constraints.txt '.[web]'" in done.stderr
