"""What the server promises: the same verdicts as the model, for forms and for bodies, alone and in company."""

import asyncio
import copy
import io
import re
import sys
import threading
import time

import httpx
import numpy as np
import pytest
import torch
from PIL import Image

from madod import __version__
from madod.predict import Model
from madod.predict.examine import Examined, examine
from tests.serve.conftest import WARNED
from tests.serve.hostile import form

PNG = {"content-type": "image/png"}


def files(pictures, names=None):
    return [("files", (names[k] if names else f"{k}.png", data)) for k, data in enumerate(pictures)]


def test_many_pictures_get_the_model_s_own_verdicts_in_order(client, model, digits):
    expected = model.predict(digits)
    answer = client.post("/predict", files=files(digits))
    assert answer.status_code == 200
    entries = answer.json()["images"]
    assert [entry["name"] for entry in entries] == [f"{k}.png" for k in range(len(digits))]
    for entry, own in zip(entries, expected, strict=True):
        assert list(entry) == ["name", "label", "confidence", "score", "threshold", "unknown", "similar"]
        assert entry["label"] == own.label
        assert entry["confidence"] == pytest.approx(own.confidence, abs=1e-4)
        assert entry["score"] == pytest.approx(own.score, abs=1e-3)
        assert entry["threshold"] == own.threshold == model.threshold
        assert entry["unknown"] is (entry["score"] > entry["threshold"])
    assert len({entry["label"] for entry in entries}) > 2


def test_what_cannot_be_scored_is_unknown_and_answered_in_numbers(make_client, model, digits):
    broken = Model(copy.deepcopy(model.net), model.detector, model.card, model.held_scores, model.gallery)
    for parameter in broken.net.parameters():
        parameter.data.fill_(float("nan"))
    (entry,) = make_client(broken).post("/predict", content=digits[0], headers=PNG).json()["images"]
    assert entry["unknown"] is True
    assert entry["confidence"] == 0
    assert entry["score"] > entry["threshold"]
    assert all(near["similarity"] == 0 for near in entry["similar"])


@pytest.mark.parametrize("kind", ["image/png", "image/x-anything", "IMAGE/PNG; a=b", "application/octet-stream"])
def test_one_picture_as_the_body(client, model, digits, kind):
    answer = client.post("/predict", content=digits[5], headers={"content-type": kind})
    assert answer.status_code == 200
    (entry,) = answer.json()["images"]
    assert entry["label"] == model.predict(digits[5])[0].label


def test_other_forms_of_form(client, digits):
    """Under any field name, without a file's name, with a preamble and an epilogue."""
    inside = form([("a.png", digits[0])]).replace(b'name="f"; filename="a.png"', b"name=other")
    content = b"a preamble\r\n" + inside + b"an epilogue"
    answer = client.post("/predict", content=content, headers={"content-type": 'multipart/form-data; boundary="xyz"'})
    assert [entry["name"] for entry in answer.json()["images"]] == ["other"]


def test_the_threshold_is_what_was_asked_for(client, model, digits):
    everything = client.post("/predict?threshold=-1e9", files=files(digits)).json()["images"]
    assert all(entry["unknown"] and entry["threshold"] == -1e9 for entry in everything)
    nothing = client.post("/predict?threshold=1e9", files=files(digits)).json()["images"]
    assert not any(entry["unknown"] for entry in nothing)
    strict = client.post("/predict?keep=0.3", files=files(digits)).json()["images"]
    other = Model(model.net, model.detector, model.card, model.held_scores)
    assert {entry["threshold"] for entry in strict} == {other.set_threshold(0.3)}
    assert any(entry["unknown"] for entry in strict)
    assert model.threshold != other.threshold


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("keep=0.3&threshold=7", "keep and threshold both set the threshold: give one of them"),
        ("keep=0.3&keep=0.3", "keep is given 2 times: give it once"),
        ("threshold=1&threshold=2&threshold=3", "threshold is given 3 times: give it once"),
    ],
)
def test_an_option_is_given_once(client, digits, query, words):
    answer = client.post(f"/predict?{query}", content=digits[0], headers=PNG)
    assert (answer.status_code, answer.json()) == (400, {"error": words})


@pytest.mark.parametrize("name", ["keep", "threshold", "similar"])
def test_an_option_among_the_pictures_of_a_form_is_told_where_it_belongs(client, digits, name):
    answer = client.post("/predict", files=files(digits[:1]), data={name: "0.9"})
    said = (
        f"{name} is an option, and a form holds pictures alone: put it into the address, as in /predict?{name}=NUMBER"
    )
    assert (answer.status_code, answer.json()) == (400, {"error": said})
    assert client.post("/predict", files=files(digits[:1], [name])).status_code == 200


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("keep=0", "keep cannot be '0': give a share between 0 and 1, such as 0.95"),
        ("keep=95", "keep cannot be '95': give a share between 0 and 1, such as 0.95"),
        ("keep=most", "keep cannot be 'most': give a share"),
        ("keep=", "keep cannot be '': give a share"),
        ("threshold=nan", "threshold cannot be 'nan': give a finite number"),
        ("treshold=1", "did you mean 'threshold'?"),
        ("similar=9", "similar cannot be '9': give a whole number from 0 to 8"),
        ("similar=-1", "similar cannot be '-1'"),
    ],
)
def test_options_that_cannot_be(client, digits, query, words):
    answer = client.post(f"/predict?{query}", content=digits[0], headers=PNG)
    assert answer.status_code == 422
    assert list(answer.json()) == ["error"]
    assert words in answer.json()["error"]


def test_similar_pictures_can_be_seen(client, model, digits):
    (entry,) = client.post("/predict?similar=5", content=digits[0], headers=PNG).json()["images"]
    near = entry["similar"]
    assert len(near) == 5
    assert [each["similarity"] for each in near] == sorted((each["similarity"] for each in near), reverse=True)
    for each in near:
        shown = client.get(f"/similar/{each['index']}.png")
        assert shown.headers["content-type"] == "image/png"
        pixels = np.asarray(Image.open(io.BytesIO(shown.content))).transpose(2, 0, 1)
        assert (pixels == model.gallery.thumbnails[each["index"]].numpy()).all()
        assert each["label"] == model.classes[int(model.gallery.labels[each["index"]])]
        assert each["domain"] == model.card.domains[int(model.gallery.domains[each["index"]])]
    assert client.post("/predict?similar=0", content=digits[0], headers=PNG).json()["images"][0]["similar"] == []


@pytest.mark.parametrize("index", ["512", "-1", "a", "1.5", "99999999999999999999"])
def test_similar_pictures_that_are_none(client, index):
    answer = client.get(f"/similar/{index}.png")
    assert answer.status_code in (404, 422)
    assert answer.json()["error"]


def test_a_bad_picture_among_good_ones(client, digits):
    given = [digits[0], b"no picture", digits[1], digits[2][:200], b""]
    answer = client.post("/predict", files=files(given, ["a", "../b.png", "c", "d", "e"]))
    assert answer.status_code == 200
    entries = answer.json()["images"]
    assert ["label" in entry for entry in entries] == [True, False, True, False, False]
    assert entries[1] == {"name": "b.png", "error": "cannot read 'b.png': its content is not a picture of a known kind"}
    assert "truncated" in entries[3]["error"]
    assert entries[4]["error"] == "cannot read 'e': it is empty"


@pytest.mark.parametrize(
    ("kind", "content", "status", "words"),
    [
        ("image/png", b"no picture", 422, "not a picture of a known kind"),
        ("image/png", b"", 422, "empty"),
        ("text/plain", b"hello", 415, "'text/plain' holds no pictures"),
        ("", b"hello", 415, "without a content type"),
        ("application/json", b"{}", 415, "application/json"),
        ("multipart/form-data", b"hello", 400, "boundary"),
        ("multipart/form-data; boundary=xyz", b"hello", 400, "broken"),
        ("multipart/form-data; boundary=xyz", b"--xyz--\r\n", 422, "no file"),
        ("multipart/form-data; boundary=xyz", form([("a", b"x")])[:-9], 400, "ends too early"),
        ("multipart/form-data; boundary=xyz", form([("a", b"x"), ("b", b"y")]), 422, "none of the 2 pictures"),
        ("multipart/form-data; boundary=xyz", form([("a", b"x")] * 257), 413, "more than 256 pictures"),
    ],
)
def test_a_wholly_bad_request_is_refused_in_a_sentence(client, kind, content, status, words):
    answer = client.post("/predict", content=content, headers={"content-type": kind} if kind else {})
    assert answer.status_code == status
    assert words in answer.json()["error"]
    assert "\n" not in answer.json()["error"]


def test_what_is_wrong_with_each_is_said_where_all_are_bad(client):
    answer = client.post("/predict", files=files([b"x", b""]))
    assert answer.status_code == 422
    assert [entry["name"] for entry in answer.json()["images"]] == ["0.png", "1.png"]


def test_the_other_addresses(client, model):
    facts = client.get("/model").json()
    assert facts["classes"] == list(model.classes)
    assert facts["domains"] == list(model.card.domains)
    assert (facts["detector"], facts["threshold"]) == ("energy", model.threshold)
    assert facts["provenance"]["spec"]["dataset"] == "digits"
    assert len(facts["kept"]) == 100
    assert facts["kept"] == sorted(facts["kept"])
    assert facts["kept"][94] == facts["threshold"]
    assert facts["gallery"] == len(model.gallery.thumbnails)
    for address in ("/nothing", "/docs", "/similar/", "/predict/"):
        answer = client.get(address)
        assert answer.status_code == 404
        assert answer.json()["error"]
    answer = client.get("/predict")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_what_the_model_s_own_check_warned_of_is_said(make_client, client, warned):
    doubtful = make_client(warned)
    assert doubtful.get("/model").json()["warnings"] == list(WARNED.warnings)
    shown = doubtful.get("/").text
    assert "own check warns</b>: do not rely on it to find unknowns (AUROC 0.555).</p>" in shown
    assert "do not &lt;b&gt;rely&lt;/b&gt; on its labels" in shown
    assert shown.index('<aside class="warnings"') < shown.index('id="files"')
    assert client.get("/model").json()["warnings"] == []
    assert "<aside" not in client.get("/").text
    described = client.get("/openapi.json").json()["components"]["schemas"]["About"]
    assert "not to rely on" in described["properties"]["warnings"]["description"]
    assert "warnings" in described["required"]


@pytest.fixture
def asked_at_once(monkeypatch):
    """Pictures that came through just now prove nothing."""
    monkeypatch.setattr("madod.serve.pulse.FRESH", 0)


def ill(client, words: str) -> bool:
    answer = client.get("/health")
    assert answer.status_code == 503
    assert list(answer.json()) == ["error"]
    return words in answer.json()["error"]


def test_health_is_whether_pictures_come_through(make_client, monkeypatch, asked_at_once):
    client = make_client(health_seconds=20)
    service = client.app.app.state.service
    passes = service.batcher.passes
    well = client.get("/health")
    assert (well.status_code, well.json()) == (200, {"status": "ok", "version": __version__})
    assert service.batcher.passes == passes + 1
    assert not service.metrics.images

    with monkeypatch.context() as broken:
        broken.setattr(service.model, "examine", lambda pictures: 1 / 0)
        assert ill(client, "do not come through (ZeroDivisionError: division by zero): start the server again")
    assert client.get("/health").status_code == 200
    with monkeypatch.context() as broken:
        broken.setattr("madod.serve.decoding.PROGRAM", (sys.executable, "-c", ""))
        for worker in service.decoders.workers:
            worker.process.kill()
        assert ill(client, "its decoder broke down over it")
    assert client.get("/health").status_code == 200


def test_pictures_that_do_not_fit_into_memory_together_go_half_by_half(make_client, digits, monkeypatch):
    client, room, seen = make_client(), 3, []

    def short_of_memory(net: object, detector: object, pictures: list[object]) -> Examined:
        seen.append(len(pictures))
        if len(pictures) > room:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return examine(net, detector, pictures)

    sent = files([digits[k % len(digits)] for k in range(10)])
    plain = client.post("/predict", files=sent).json()["images"]
    monkeypatch.setattr("madod.predict.model.examine", short_of_memory)
    found = client.post("/predict", files=sent).json()["images"]
    assert seen == [10, 5, 2, 3, 5, 2, 3]
    assert [(each["name"], each["label"]) for each in found] == [(each["name"], each["label"]) for each in plain]
    assert [each["score"] for each in found] == pytest.approx([each["score"] for each in plain], rel=1e-4)
    room = 0
    none = client.post("/predict", files=sent)
    assert (none.status_code, none.headers["retry-after"]) == (503, "10")
    assert none.json()["error"].startswith("there is not enough memory to look at a picture just now")


def test_health_is_said_soon_while_the_network_is_busy_and_lost_when_it_stays_so(
    make_client, digits, monkeypatch, asked_at_once
):
    client = make_client(health_seconds=0.05, stalled_seconds=1)
    service, free = client.app.app.state.service, threading.Event()
    examine = service.model.examine
    monkeypatch.setattr(service.model, "examine", lambda pictures: free.wait(20) and examine(pictures))
    start = time.monotonic()
    assert client.get("/health").status_code == 200  # behind others, for all it knows
    assert time.monotonic() - start < 1
    time.sleep(1)
    assert ill(client, "none came through in the last")
    assert service.batcher.depth <= 1  # however often it is asked
    free.set()
    assert client.post("/predict", content=digits[0], headers=PNG).status_code == 200
    assert client.get("/health").status_code == 200


def test_under_load_health_is_what_was_just_seen(make_client, monkeypatch):
    monkeypatch.setattr("madod.serve.pulse.FRESH", 60)
    client = make_client()
    passes = client.app.app.state.service.batcher.passes
    assert [client.get("/health").status_code for _ in range(3)] == [200] * 3
    assert client.app.app.state.service.batcher.passes == passes


def test_metrics_count(make_client, digits):
    client = make_client()

    def value(name: str) -> float:
        return float(re.search(rf"^{re.escape(name)} (\S+)$", client.get("/metrics").text, re.MULTILINE)[1])

    assert value('madod_images_total{verdict="known"}') == 0
    client.post("/predict?threshold=1e9", files=files([*digits[:3], b"x"]))
    client.post("/predict?threshold=-1e9", files=files(digits[:2]))
    client.post("/predict", content=b"x", headers=PNG)
    client.get("/elsewhere")
    assert value('madod_images_total{verdict="known"}') == 3
    assert value('madod_images_total{verdict="unknown"}') == 2
    assert value('madod_images_total{verdict="unreadable"}') == 2
    assert value('madod_requests_total{path="/predict",status="200"}') == 2
    assert value('madod_requests_total{path="/predict",status="422"}') == 1
    assert value('madod_requests_total{path="other",status="404"}') == 1
    assert value("madod_predict_seconds_count") == 3
    assert value("madod_judged_total") == 6  # five, and the one of the start
    assert value("madod_requests_active") == value("madod_body_bytes") == value("madod_pictures_waiting") == 0


def test_a_model_without_gallery(make_client, model, digits):
    client = make_client(Model(model.net, model.detector, model.card, model.held_scores))
    (entry,) = client.post("/predict", content=digits[0], headers=PNG).json()["images"]
    assert entry["similar"] == []
    assert client.get("/similar/0.png").status_code == 404


def test_beyond_the_bound_a_request_is_asked_to_come_back(make_client, digits):
    answer = make_client(requests=0).post("/predict", content=digits[0], headers=PNG)
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "1"


def test_a_request_for_another_host_is_refused(server):
    for host, status in (("evil.example", 421), ("localhost", 200), ("127.0.0.1:1", 200), ("[::1]:80", 200), ("", 421)):
        assert httpx.get(f"{server.url}/health", headers={"host": host}).status_code == status, host


def test_two_hundred_clients_at_once_are_all_answered_and_share_passes(server, digits, model):
    labels = [row.label for row in model.predict(digits)]

    async def one(client: httpx.AsyncClient, k: int) -> bool:
        answer = await client.post(f"{server.url}/predict", content=digits[k % len(digits)], headers=PNG, timeout=60)
        assert answer.status_code == 200, answer.text
        return answer.json()["images"][0]["label"] == labels[k % len(digits)]

    async def all_of_them() -> list[bool]:
        async with httpx.AsyncClient(limits=httpx.Limits(max_connections=200)) as client:
            return await asyncio.gather(*(one(client, k) for k in range(200)))

    def judged() -> tuple[float, float]:
        text = httpx.get(f"{server.url}/metrics").text
        found = [re.search(rf"^madod_{name}_total (\S+)$", text, re.MULTILINE) for name in ("judged", "passes")]
        return float(found[0][1]), float(found[1][1])

    before = judged()
    assert all(asyncio.run(all_of_them()))
    after = judged()
    assert after[0] - before[0] == 200
    assert after[1] - before[1] < 150
