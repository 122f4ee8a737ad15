# SPDX-License-Identifier: MIT
"""The live page: what it is made of, the JSON it asks for, and the page itself in Chromium.

Those with a browser are skipped where Chromium, its driver or Selenium is missing; the packages of
deploy/packages/page bring them, `tests/run --long` installs them.
"""

import hashlib
import json
import re
import shutil
import signal
import time
from types import SimpleNamespace

import pytest

from conftest import ROOT, free_port, wait_for

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
FILES = (("/", "text/html"), ("/page.css", "text/css"), ("/page.js", "text/javascript"))
HOSTILE = [
    "<script>window.broken = 1</script>", "<img src=x onerror='window.broken = 2'>", "\"quoted\" & 'single'",
    "</td></tr></table><h1>gone</h1>", "javascript:alert(1)", "__proto__", "constructor", "l\u00e4bel \u65e5\u672c", "a" * 300,
]


def live(server, query="", **more):
    answer = server.get(f"/live.json{query}", **more)
    assert answer.status == 200, f"{answer.status} {answer.text}"
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    return answer.json


def label_rows(server, stream="default", drawn=0):
    """The page's rows of labels, once they know `drawn` units of the last minute."""

    def look():
        labels = live(server, f"?stream={stream}")["chosen"]["labels"]
        rows = labels and labels.get("rows")
        return rows if rows and sum(row[4] or 0 for row in rows) >= drawn else None

    return wait_for(look, f"{drawn} units of the last minute")


def tokens(folder, **scopes):
    """A token file with a token of each name and these scopes."""
    path = folder / "tokens.json"
    path.write_text(json.dumps({"tokens": [
        {"name": name, "sha256": hashlib.sha256(name.encode()).hexdigest(), "scopes": list(given), "streams": ["*"]}
        for name, given in scopes.items()]}))
    path.chmod(0o600)
    return path


# ---- the files -------------------------------------------------------------------------------------


def test_the_root_is_text_for_curl_and_a_page_for_browsers(sampler):
    server = sampler("--store", "range:100?labels=4")
    for headers in ({}, {"Accept": "*/*"}, {"Accept": "text/plain"}, {"Accept": "text/html;q=0"}, {"Accept": "text/htmlx"}):
        answer = server.get("/", headers=headers)
        assert answer.status == 200 and answer.headers["content-type"].startswith("text/plain"), headers
        assert "/batch" in answer.text and answer.headers["vary"] == "Accept"
    for accept in (BROWSER["Accept"], "TEXT/HTML", "application/json, text/html;q=0.5"):
        answer = server.get("/", headers={"Accept": accept})
        assert answer.headers["content-type"] == "text/html; charset=utf-8", accept
        assert answer.headers["vary"] == "Accept"
        assert answer.text.startswith("<!doctype html>") and answer.text.endswith("</html>\n")
    assert server.request("POST", "/", body="").status == 405
    head = server.request("HEAD", "/", headers=BROWSER)
    assert head.status == 200 and head.body == b"" and head.headers["content-length"] == str(len(answer.body))


def test_the_page_may_load_nothing_but_itself(sampler):
    server = sampler("--store", "range:100?labels=4")
    size = 0
    for path, kind in FILES:
        answer = server.get(path, headers=BROWSER)
        assert answer.status == 200 and answer.headers["content-type"].startswith(kind), path
        policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'" and policy["script-src"] == policy["style-src"] == "'self'"
        assert policy["connect-src"] == "'self'" and policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert not re.search("unsafe|http|\\*", answer.headers["content-security-policy"])
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-cache"
        named = set(re.findall(r"""(?:https?:)?//[^\s'"`)]+""", answer.text)) - {"http://www.w3.org/2000/svg"}
        assert not named, f"{path} names {named}"
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|style=|\son\w+=", answer.text)
        size += len(answer.body)
    assert size < 61440, "the page has grown"


def luminance(color):
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return sum(weight * (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4)
               for weight, part in zip((0.2126, 0.7152, 0.0722), parts))


def test_every_text_has_the_contrast_of_wcag_aa():
    style = (ROOT / "sampler/api/page/page.css").read_text()
    light, dark = (dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", part)) for part in style.split("@media (prefers-color-scheme: dark)")[:2])
    pairs = [(text, ground) for text in ("ink", "soft", "accent", "bad") for ground in ("paper", "card")]
    pairs += [("warn", "card"), ("warn", "paper"), ("warn", "warn-wash"), ("bad", "bad-wash"), ("card", "accent"), ("soft", "track"), ("ink", "track")]
    for colors in (light, dark):
        for text, ground in pairs:
            high, low = sorted((luminance(colors[text]), luminance(colors[ground])), reverse=True)
            assert (high + 0.05) / (low + 0.05) >= 4.5, f"{text} {colors[text]} on {ground} {colors[ground]}"


# ---- what it asks for ------------------------------------------------------------------------------


STREAM = {
    "name": str, "frame": str, "design": str, "replacement": bool, "units": int, "epochs": int, "epoch_draws": int,
    "generation": int, "position": int, "epoch": int, "leased": int, "waiting": int, "acked": int, "redelivered": int,
    "state": str, "rate": dict, "history": list, "history_s": int, "stalled": bool,
}
WORKER = {"name": str, "leased": int, "oldest_ms": int, "acked": int, "redelivered": int, "batches_per_s": (int, float), "last_seen_ms": int}


def check_fields(value, fields):
    for key, kind in fields.items():
        assert isinstance(value[key], kind), f"{key}: {value[key]!r}"


@pytest.mark.threads
def test_live_says_where_everything_stands(sampler, tmp_path):
    server = sampler("--store", "range:1000?labels=4", "--state", tmp_path / "state", "--durability", "process", "--epochs", "2")
    for seq in range(3):
        server.batch(f"size=10&worker=w0&seq={seq}")
    server.batch("size=10&worker=w1&seq=0")
    server.batch("size=5")
    server.batch("size=10&worker=w0&seq=3&ack=0,1")
    facts = live(server)
    check_fields(facts["server"], {"version": str, "started": int, "now": float, "phase": str, "durability": str})
    assert facts["server"]["phase"] == "ready" and facts["server"]["durability"] == "process"
    assert facts["server"]["failing"] is None
    assert facts["streams_count"] == 1
    stream, chosen = facts["streams"][0], facts["chosen"]
    check_fields(stream, STREAM)
    shown = server.get("/streams/default").json
    for key in set(stream) & set(shown):
        assert stream[key] == shown[key], key
    assert stream["position"] == 55 and stream["leased"] == 3 and stream["acked"] == 3
    assert stream["read"] is None and chosen["readers"] == {"count": 0, "rows": []}
    assert facts["server"]["may_change"] is True
    assert chosen["name"] == "default" and chosen["digest"] == shown["digest"] and chosen["seed"] == str(shown["seed"])
    workers = {worker["name"]: worker for worker in chosen["workers"]["rows"]}
    assert chosen["workers"]["count"] == 2 and set(workers) == {"w0", "w1"}
    for worker in workers.values():
        check_fields(worker, WORKER)
        assert worker["oldest_ms"] >= 0 and worker["last_seen_ms"] >= 0
    assert workers["w0"]["leased"] == 2 and workers["w0"]["acked"] == 2 and workers["w1"]["leased"] == 1
    rows = label_rows(server, drawn=55)
    assert [row[0] for row in rows] == [0, 1, 2, 3]
    assert sum(row[2] for row in rows) == 55 == sum(row[4] for row in rows)
    assert all(row[1] == 250 and row[3] == 0.25 and abs(row[2] - 55 / 4) <= 2 for row in rows)


@pytest.mark.threads
def test_live_says_when_a_stream_ended(sampler, tmp_path):
    arguments = ("--store", "range:1000?labels=4", "--state", tmp_path / "state", "--epochs", "1")
    server = sampler(*arguments)
    server.batch("size=999")
    assert "ended" not in live(server)["streams"][0]
    before = time.time()
    server.batch("size=1")
    stream = wait_for(lambda: (lambda stream: stream if "ended" in stream else None)(live(server)["streams"][0]), "the end")
    assert stream["state"] == "ended" and int(before) <= stream["ended"] <= time.time() + 1
    assert live(server)["streams"][0]["ended"] == stream["ended"], "the time of the end stays"
    assert server.request("POST", "/streams/default/seek", body='{"position":500}').status == 200
    assert "ended" not in live(server)["streams"][0]
    server.batch("size=500")
    again = wait_for(lambda: (lambda stream: stream if "ended" in stream else None)(live(server)["streams"][0]), "the second end")
    assert again["ended"] >= stream["ended"]
    server.stop()
    server = sampler(*arguments)
    stream = live(server)["streams"][0]
    assert stream["state"] == "ended" and "ended" not in stream, "this server has not seen it end"


@pytest.mark.threads
def test_who_reads_by_index_moves_the_page(sampler):
    """Our own trainer draws nothing: its readers are what there is to see."""
    server = sampler("--store", "range:1000?labels=4", "--epochs", "3")
    for index in range(110):
        server.batch(f"size=10&index={index}&worker=node{index % 4}")
    server.batch("size=10&index=299&worker=late")

    def look():
        stream = live(server)["streams"][0]
        return stream if stream["rate"]["batches"] > 0 else None

    stream = wait_for(look, "a rate")
    assert stream["position"] == 0 and stream["state"] == "running" and not stream["stalled"]
    assert {key: stream["read"][key] for key in ("position", "epoch", "batches")} == {"position": 3000, "epoch": 2, "batches": 111}
    assert stream["rate"]["ids"] == pytest.approx(10 * stream["rate"]["batches"], rel=1e-4)
    assert 0 <= stream["idle_s"] < 60
    readers = live(server)["chosen"]["readers"]
    assert readers["count"] == 5
    shown = {reader["name"]: (reader["newest"], reader["position"], reader["batches"]) for reader in readers["rows"]}
    assert shown == {"node0": (108, 1090, 28), "node1": (109, 1100, 28), "node2": (106, 1070, 27), "node3": (107, 1080, 27), "late": (299, 3000, 1)}
    assert all(reader["ids_per_s"] >= 0 and reader["last_seen_ms"] >= 0 for reader in readers["rows"])


def test_live_refuses_what_it_does_not_know(sampler):
    server = sampler("--store", "range:100?labels=4")
    assert live(server, "?stream=nobody")["chosen"]["name"] == "default"
    for query in ("?x=1", "?stream=a&stream=b", "?stream=%zz"):
        assert server.get(f"/live.json{query}").status == 400, query
    assert server.request("POST", "/live.json", body="{}").status == 405
    assert server.request("HEAD", "/live.json").status == 200


@pytest.mark.threads
def test_several_streams_and_the_chosen_one(sampler):
    server = sampler("--store", "range:1000?labels=4")
    for number in range(120):
        answer = server.request("POST", "/streams", body=json.dumps({"name": f"s{number}", "design": "srs", "rows": "0:100"}))
        assert answer.status == 201, answer.text
    facts = live(server, "?stream=s119")
    assert facts["streams_count"] == 121
    names = [stream["name"] for stream in facts["streams"]]
    assert names[0] == "default" and names[-1] == "s119" and len(names) == 101 == len(set(names))
    assert facts["chosen"]["name"] == "s119" and facts["chosen"]["rows"] == "0:100"


@pytest.mark.threads
def test_a_redelivered_batch_counts_once_in_the_last_minute(sampler):
    server = sampler("--store", "range:1000?labels=4", "--lease", "1")
    server.batch("size=40&worker=lost&seq=0")
    again = wait_for(lambda: (lambda batch: batch if batch.get("redelivered") else None)(
        server.batch(f"size=1&worker=other&seq={time.monotonic_ns()}")), "the lease's end")
    assert again["attempt"] == 2 and again["size"] == 40
    position = server.get("/streams/default").json["position"]
    rows = label_rows(server, drawn=position)
    assert sum(row[4] for row in rows) == position
    shown = server.get("/labels").json["labels"]
    assert sum(label["last_minute"] for label in shown) == sum(label["drawn"] for label in shown) == position


def test_a_seek_is_no_draw(sampler):
    server = sampler("--store", "range:1000?labels=4")
    server.batch("size=20")
    label_rows(server, drawn=20)
    assert server.request("POST", "/streams/default/seek", body='{"position":500}').status == 200
    server.batch("size=30")

    rows = label_rows(server, drawn=50)
    assert sum(row[2] for row in rows) == 50
    assert sum(row[4] for row in rows) == 50, "positions that a seek passed over were not drawn"
    assert server.request("POST", "/streams", body='{"name":"late","design":"srs","position":100}').status == 201
    server.batch("size=7&stream=late")
    assert sum(row[4] for row in label_rows(server, stream="late", drawn=7)) == 7


def test_of_many_labels_the_largest_and_the_worst_are_told(sampler):
    server = sampler("--store", "range:5000?labels=1000")
    server.batch("size=777")

    def look():
        return live(server)["chosen"]["labels"]

    labels = wait_for(look, "the balance")
    assert labels["count"] == 1000 and labels["drawn"] == 777
    assert 0 < len(labels["rows"]) <= 64 and 0 < len(labels["worst"]) <= 64
    assert all(abs(row[2] - row[3] * 777) <= 2 for row in labels["rows"] + labels["worst"])


def test_the_page_asks_for_no_token_but_live_does(sampler, tmp_path):
    file = tokens(tmp_path, reader=["read"], drawer=["draw"], ops=["read", "admin"])
    server = sampler("--store", "range:100?labels=4", "--token-file", file)
    for path, _ in FILES:
        assert server.get(path, headers=BROWSER).status == 200, path
    assert server.get("/live.json").status == 401
    for token, status in (("reader", 200), ("drawer", 403), ("nobody", 401)):
        assert server.get("/live.json", headers={"Authorization": f"Bearer {token}"}).status == status, token
    for token, may_change in (("reader", False), ("ops", True)):
        facts = live(server, headers={"Authorization": f"Bearer {token}"})["server"]
        assert facts["guarded"] is True and facts["may_change"] is may_change, token
    assert live(sampler("--store", "range:100"))["server"]["guarded"] is False


# ---- in a browser ----------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["chromium"])  # named in tests/skips
def chromium():
    selenium = pytest.importorskip("selenium.webdriver", reason="python3-selenium is not installed (deploy/packages/page)")
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not program or not driver:
        pytest.skip("chromium and chromium-driver are not installed (deploy/packages/page)")
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = program
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-background-networking"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = selenium.Chrome(service=Service(driver), options=options)
    yield browser
    browser.quit()


@pytest.fixture
def page(chromium, sampler):  # which stops its servers after the page has gone
    """page.open(server) shows its page; at the end nothing was loaded from elsewhere, and the console is empty."""
    urls, allowed = [], []

    def script(code):
        return chromium.execute_script(f"return {code}")

    def text(selector):
        return script(f"document.querySelector({json.dumps(selector)})?.textContent")

    def shows(selector, pattern):
        wait_for(lambda: re.search(pattern, text(selector) or ""), f"{pattern!r} in {selector}, which says {text(selector)!r}")

    def open_page(server, fragment=""):
        urls.append(server.url)
        chromium.get("about:blank")
        chromium.get(f"{server.url}/{fragment}")

    for kind in ("browser", "performance"):
        chromium.get_log(kind)
    yield SimpleNamespace(open=open_page, script=script, text=text, shows=shows, browser=chromium, allowed=allowed)
    complaints = [entry["message"] for entry in chromium.get_log("browser")]
    assert not [one for one in complaints if not any(re.search(pattern, one) for pattern in allowed)]
    for entry in chromium.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            url = message["params"]["request"]["url"]
            assert url.startswith(("data:", "about:", *(f"{one}/" for one in urls))), url
    chromium.get("about:blank")


@pytest.mark.heavy
def test_numbers_move_without_a_reload(page, sampler):
    server = sampler("--store", "range:6000?labels=10")
    page.open(server)
    page.shows("#link-text", "^live$")
    page.script("window.same = 1")
    for round_number in range(1, 4):
        server.batch("size=1000")
        page.shows(".stream .place", f"^{round_number},000 of 6,000$")
    page.shows(".stream .now", r"^[1-9].*ids/s$")
    page.shows("#labels tbody tr:first-child .drawn", "^300$")
    page.shows("#labels tbody tr:first-child .off", "^±0$")
    assert page.script("window.same") == 1
    server.batch("size=10&worker=gpu-0&seq=0")
    page.shows("#workers tbody th", "^gpu-0$")
    assert page.script("document.querySelector('.stream .bar').getAttribute('aria-valuenow')") == "50"


@pytest.mark.heavy
def test_a_young_server_says_what_it_does_not_have_yet(page, sampler):
    server = sampler("--store", "range:600?labels=2", "--epochs", 3)
    page.open(server)
    page.shows(".stream .epoch", "epoch 0, 2 more$")
    page.shows("#server", "^.*statenot kept$")
    page.shows("#rate-empty", "^collecting …$")
    hidden = "document.querySelector('#rate-empty').hidden"
    assert page.script(hidden) is (len(page.script("document.querySelector('#rate-chart .line').getAttribute('d') || ''")) > 20)
    server.batch("size=600"), server.batch("size=600")
    page.shows(".stream .epoch", "epoch 2, the last$")
    wait_for(lambda: page.script(hidden), "the chart never had a line")
    server.request("POST", "/streams", body=b'{"name":"one","epochs":1}')
    page.shows(".stream:nth-child(2) .epoch", "epoch 0, the only one$")


@pytest.mark.heavy
def test_hostile_labels_stay_text(page, sampler, tmp_path):
    table = tmp_path / "hostile.csv"
    quoted = ['"' + label.replace('"', '""') + '"' for label in HOSTILE]
    table.write_text("label,x\n" + "".join(f"{label},1\n" for label in quoted * 3), encoding="utf-8")
    server = sampler("--store", f"csv:{table}")
    server.batch("size=9")
    page.open(server)
    page.shows("#labels-count", "^9$")
    wait_for(lambda: page.script("document.querySelectorAll('#labels tbody tr').length") == 9, "the labels")
    assert sorted(page.script("[...document.querySelectorAll('#labels tbody th')].map((cell) => cell.textContent)")) == sorted(HOSTILE)
    assert page.script("window.broken") is None
    assert page.script("document.querySelectorAll('img, script:not([src]), main h1').length") == 0


@pytest.mark.heavy
def test_it_comes_back_after_a_restart(page, sampler, tmp_path):
    page.allowed.append("ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE|503")
    arguments = ("--store", "range:6000?labels=10", "--state", tmp_path / "state")
    listen = f"127.0.0.1:{free_port()}"
    server = sampler(*arguments, listen=listen)
    server.batch("size=600")
    page.open(server)
    page.shows(".stream .place", "^600 of 6,000$")
    page.script("window.same = 1")
    server.kill()
    page.shows("#link-text", r"^not reachable since \d\d:\d\d:\d\d, trying again$")
    assert page.text(".stream .place") == "600 of 6,000", "what was known stays to be seen"
    server = sampler(*arguments, listen=listen)
    server.batch("size=600")
    page.shows("#link-text", "^live$")
    page.shows(".stream .place", "^1,200 of 6,000$")
    assert page.script("window.same") == 1


@pytest.mark.heavy
def test_a_server_that_hangs_is_not_called_live(page, sampler):
    page.allowed.append("ERR_")
    server = sampler("--store", "range:6000?labels=10")
    page.open(server)
    page.shows("#link-text", "^live$")
    server.signal(signal.SIGSTOP)
    try:
        page.shows("#link-text", r"^no answer for \d s$")
        assert page.script("document.getElementById('link').dataset.kind") == "quiet"
        assert page.script("document.getElementById('board').classList.contains('old')")
        page.shows("#link-text", r"^not reachable since \d\d:\d\d:\d\d, trying again$")
        assert re.match("not reachable", page.text("#link-said")), "those who listen hear of it too"
    finally:
        server.signal(signal.SIGCONT)
    page.shows("#link-text", "^live$")
    assert not page.script("document.getElementById('board').classList.contains('old')")


@pytest.mark.heavy
def test_what_stands_still_has_no_rate(page, sampler):
    server = sampler("--store", "range:100?labels=4", "--epochs", "1")
    assert server.request("POST", "/streams", body='{"name":"other","design":"srs"}').status == 201
    server.batch("size=60&stream=other")
    assert server.request("POST", "/streams/other/pause").status == 200
    page.open(server)
    page.shows("#link-text", "^live$")
    assert page.text("#hint-command") == f"curl '{server.url}/batch?size=100'"
    server.batch("size=100")
    page.shows(".stream:first-child .now", r"^ended \d\d:\d\d:\d\d$")
    assert page.text(".stream:first-child .left") == "after 1 batch"
    page.shows("#rates .number:first-child", r"^\d\d:\d\d:\d\dended$")
    assert "/s" not in page.text("#rates") and page.script("document.getElementById('hint').hidden")
    assert page.text(".stream:nth-child(2) .now") == "paused"
    assert page.text(".stream:nth-child(2) .left") == "40 left in the epoch"
    page.browser.find_element("css selector", ".stream:nth-child(2) .name").click()
    page.shows("#rates .number:first-child", "^paused")
    assert "/s" not in page.text("#rates")
    assert page.text("#hint-command") == f"curl '{server.url}/batch?size=100&stream=other'"
    assert page.text("#labels-link") == "/labels?stream=other"


@pytest.mark.heavy
def test_it_stays_short_with_many_streams_and_workers(page, sampler):
    server = sampler("--store", "range:1000000?labels=1000")
    for number in range(50):
        assert server.request("POST", "/streams", body=json.dumps({"name": f"s{number}"})).status == 201
    for number in range(150):
        server.batch(f"size=10&stream=s40&worker=w{number}&seq=0")
    page.open(server, "#stream=s40")
    page.shows("#chosen-title", "^Stream s40$")
    page.shows("#workers-count", "^150$")
    assert page.script("document.documentElement.scrollHeight") < 2500
    inside = "(() => { const list = document.getElementById('streams').getBoundingClientRect(), row = " \
        "document.querySelector('[aria-current]').getBoundingClientRect(); return row.top >= list.top && row.bottom <= list.bottom; })()"
    wait_for(lambda: page.script(inside), "the chosen stream in its list")
    for part in ("streams", "workers"):
        assert page.script(f"document.getElementById('{part}').tabIndex") == 0, "what scrolls can be reached with the keyboard"


@pytest.mark.heavy
def test_a_token_is_asked_for_and_kept_in_the_tab(page, sampler, tmp_path):
    page.allowed.append("401|403")
    server = sampler("--store", "range:100?labels=4", "--token-file", tokens(tmp_path, reader=["read"], drawer=["draw"]))
    page.open(server)
    page.shows("#link-text", "needs a token")
    field = page.browser.find_element("id", "token")
    for token, says in (("nobody", r"\(401\)"), ("drawer", r"\(403\)"), ("gr\u00fcn", "ASCII")):
        field.send_keys(token + "\n")
        page.shows("#access-why", says)
        assert page.script("document.getElementById('board').hidden")
    field.send_keys("reader\n")
    page.shows("#link-text", "^live$")
    assert page.script("document.getElementById('access').hidden")
    assert page.script("Object.values(sessionStorage)") == ["reader"]
    assert page.script("localStorage.length") == 0 and "reader" not in page.script("location.href")
    page.browser.refresh()
    page.shows("#link-text", "^live$")
    assert page.text("#hint-command") == f"curl -H 'Authorization: Bearer TOKEN' '{server.url}/batch?size=100'"
    for path, says in (("streams", '"name":"default"'), ("metrics", "tombola_"), ("openapi.json", '"openapi"')):
        page.browser.find_element("css selector", f"#links [href='{path}']").click()
        page.shows("#view-text", says)
        assert page.script("document.getElementById('view').open")
        assert page.text("#view-title") == f"/{path}"
        page.browser.switch_to.active_element.send_keys("\ue00c")  # Escape
        assert not page.script("document.getElementById('view').open")
    page.script("sessionStorage.clear()")


@pytest.mark.heavy
def test_a_stream_is_chosen_by_keyboard_and_by_address(page, sampler):
    server = sampler("--store", "range:100?labels=4", "--epochs", "1")
    assert server.request("POST", "/streams", body='{"name":"eval","design":"srs","epochs":1}').status == 201
    server.batch("size=100&stream=eval")
    page.open(server, "#stream=eval")
    page.shows("#chosen-title", "^Stream eval$")
    page.shows(".stream:nth-child(2) .chip", "^ended$")
    page.browser.find_element("css selector", ".stream:first-child .name").send_keys("\n")
    page.shows("#chosen-title", "^Stream default$")
    assert page.script("location.hash") == "#stream=default"
    assert page.text("[aria-current]") == "default"


@pytest.mark.heavy
@pytest.mark.parametrize("width", [320, 360, 768, 1440])
def test_it_fits_every_width(page, sampler, width):
    server = sampler("--store", "range:1000000?labels=100")
    name = "e" * 64
    assert server.request("POST", "/streams", body=json.dumps({"name": name})).status == 201
    server.batch(f"size=10&worker={'w' * 128}&seq=0")
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500})
    try:
        page.open(server)
        page.shows("#workers tbody th", "w" * 128)
        page.shows("#labels tbody th", ".")
        assert page.script("document.documentElement.scrollWidth") <= width
    finally:
        page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.heavy
def test_readers_appear_with_their_place(page, sampler):
    server = sampler("--store", "range:1000?labels=4", "--epochs", "2")
    for index in range(30):
        server.batch(f"size=10&index={index}&worker=node{index % 3}")
    page.open(server)
    page.shows("#readers-count", "^3$")
    page.shows(".stream .epoch", "^30.0 % by index · epoch 0, 1 more$")
    page.shows(".stream .place", "^300 of 1,000$")
    assert page.script("[...document.querySelectorAll('#readers tbody tr')].map((row) => row.children[1].textContent)") == ["27", "28", "29"]
    assert page.script("document.querySelectorAll('#readers-places .ball').length") == 3
    assert page.script("document.getElementById('workers-section').hidden"), "nobody leases"
    hues = page.script("[...document.querySelectorAll('#readers .ball')].map((ball) => ball.style.getPropertyValue('--hue'))")
    assert len(set(hues)) == 3
    server.batch("size=50")
    page.shows(".stream .place", "^50 of 1,000$")
    assert page.script("document.querySelector('.stream .bar .mark').hidden") is False, "how far it was read stays to be seen"
    server.batch("size=10&index=199&worker=node0")
    page.shows("#readers-epoch", "^epoch 1$")


@pytest.mark.heavy
def test_a_stream_that_stalls_says_so(page, sampler):
    server = sampler("--store", "range:1000?labels=4")
    for _ in range(20):
        server.batch("size=10")
    page.open(server)
    page.shows(".stream .chip", "^running$")
    page.shows(".stream .now", r"^stalled \d+ s$")
    assert page.text(".stream .chip") == "stalled"
    assert page.text(".stream .left") == "800 left in the epoch"
    page.shows("#rates .number:first-child", r"^stalled \d+ snothing was drawn or read$")
    assert "/s" not in page.text("#rates") and "to the" not in page.text("#rates")
    server.batch("size=10")
    page.shows(".stream .chip", "^running$")


@pytest.mark.heavy
def test_where_is_a_unit(page, sampler):
    server = sampler("--store", "range:1000?labels=4", "--epochs", "2")
    page.open(server)
    page.shows("#link-text", "^live$")

    def find(unit, says, epoch=""):
        for field, text in (("where-id", unit), ("where-epoch", epoch)):
            page.browser.find_element("id", field).clear()
            page.browser.find_element("id", field).send_keys(text)
        page.browser.find_element("css selector", "#where button").click()
        page.shows("#where-said", says)

    place = server.get("/where?id=77&epoch=0").json["position"]
    find("77", f"^id 77, label {77 % 4}: position {place}, epoch 0, still ahead\\.$")
    server.batch(f"size={place}"), server.batch("size=1&worker=gpu-0&seq=0")
    find("77", "epoch 0, leased by gpu-0")
    find("77", "epoch 1, still ahead", epoch="1")
    page.allowed.append("400|404")
    find("5000", "5000")
    assert page.script("document.getElementById('where-said').dataset.kind") == "wrong"
    find("seven", "seven")
    find("", "seven")  # the form asks for an id first


@pytest.mark.heavy
def test_a_person_with_the_scope_changes_streams(page, sampler, tmp_path):
    page.allowed.append("401|403|Clipboard")
    server = sampler("--store", "range:1000?labels=4", "--token-file", tokens(tmp_path, reader=["read"], ops=["read", "draw", "admin"]))
    ops = {"Authorization": "Bearer ops"}
    assert server.request("POST", "/streams", body='{"name":"eval","design":"srs"}', headers=ops).status == 201
    page.open(server, "#stream=eval")

    def visible():
        return [button["id"] for button in page.script("[...document.querySelectorAll('.head button')]."
                                                       "map((button) => ({id: button.id, hidden: button.hidden}))") if not button["hidden"]]

    def press(button):
        page.browser.find_element("id", button).click()

    page.browser.find_element("id", "token").send_keys("reader\n")
    page.shows("#chosen-title", "^Stream eval$")
    assert visible() == ["stream-token"]
    press("stream-token")
    page.shows("#access-why", "scope admin")
    time.sleep(1.5)  # the next answers do not take the form away
    assert not page.script("document.getElementById('access').hidden")
    page.browser.find_element("id", "token").send_keys("ops\n")
    wait_for(lambda: visible() == ["stream-pause", "stream-checkpoint", "stream-delete"], "the buttons")
    press("stream-pause")
    page.shows("#stream-said", "^Paused.$")
    wait_for(lambda: visible() == ["stream-resume", "stream-checkpoint", "stream-delete"], "the other button")
    assert server.get("/streams/eval", headers=ops).json["state"] == "paused"
    press("stream-resume")
    page.shows("#stream-said", "^Resumed.$")
    press("stream-checkpoint")
    page.shows("#view-title", "^Checkpoint of eval$")
    token = page.text("#view-text")
    assert server.request("POST", "/streams/eval/restore", body=json.dumps({"token": token}), headers=ops).status == 200
    press("view-copy")
    page.shows("#view-copy", "^Copied$|^Select it by hand$")
    page.browser.find_element("css selector", "#view .close").click()
    for answer, status in (("dismiss", 200), ("accept", 404)):
        press("stream-delete")
        alert = wait_for(lambda: page.browser.switch_to.alert, "the question")
        assert "eval" in alert.text
        getattr(alert, answer)()
        wait_for(lambda: server.get("/streams/eval", headers=ops).status == status, f"{status} after {answer}")
    page.shows("#chosen-title", "^Stream default$")
    assert visible() == ["stream-pause", "stream-checkpoint"], "default cannot be deleted"
    page.script("sessionStorage.clear()")


@pytest.mark.heavy
def test_the_help_names_what_is_shown(page, sampler):
    server = sampler("--store", "range:100")
    page.open(server)
    page.shows("#link-text", "^live$")
    page.browser.find_element("id", "help-open").click()
    assert page.script("document.getElementById('help').open")
    for word in ("Worker", "Reader", "Stalled", "Labels", "Checkpoint", "openapi.json"):
        assert word in page.text("#help")
    page.browser.switch_to.active_element.send_keys("\ue00c")  # Escape
    assert not page.script("document.getElementById('help').open")
