# SPDX-License-Identifier: MIT
"""What the walks of test_sampler_model.py are made of: a frame, streams of every design, requests."""

import http.client
import json

from hypothesis import strategies as st

from conftest import PATIENCE_S, Answer
from design_laws import Row

WORKERS = ("w0", "w1", "node-7:gpu.0", "A" * 128)
LONG_LEASE_S, SHORT_LEASE_S = 3000, 2
BASE_FIELDS = {"stream", "epoch", "first", "size", "ids", "labels"}
LEASE_FIELDS = {"worker", "seq", "attempt", "expires_ms"}
WITH_REPLACEMENT = ("srs", "proportional", "equal", "quota", "neyman", "weighted")


BAD_QUERIES = (
    "size=0", "size=1000001", "size=x", "worker=w", "seq=1", "worker=&seq=1", "worker=a%20b&seq=1", "worker=w&seq=-1",
    "worker=w&seq=1&index=0", "ack=1&index=0", "worker=w&seq=1&seq=2", "nothing=1", "worker=w&seq=1&ack=a",
    f"worker={'a' * 129}&seq=0", "weights=1&format=binary", "index=-1", "sort=2")
BAD_DEFINITIONS = (
    {}, {"name": ""}, {"name": "a b"}, {"name": "x" * 65}, {"name": "n", "unknown": 1}, {"name": "n", "design": "best"},
    {"name": "n", "seed": -1}, {"name": "n", "tail": "cut"}, {"name": "n", "rows": "5:2"}, {"name": "n", "rows": "0:30"},
    {"name": "n", "design": "pxk", "p": 4, "k": 1}, {"name": "n", "design": "pxk", "p": 2}, {"name": "n", "position": -1},
    {"name": "n", "design": "systematic", "size": 30}, {"name": "n", "design": "bernoulli", "rate": 1.5},
    {"name": "n", "design": "quota", "shares": {"nobody": 1}}, {"name": "n", "design": "sequential", "replacement": True},
    {"name": "n", "design": "cluster", "groups": 0}, {"name": "n", "design": "srs", "rate": 0.5}, {"name": "n", "epochs": -1},
    {"name": "n", "epochs": 1, "position": 30}, [], "n", 5, {"name": 5}, {"name": "n", "lease_s": -1})


def make_rows(texts):
    """29 units: three labels of 15, 9 and 5, groups of 3 to 6, weights 1 to 4."""
    names = ["an a", "b", "ç"] if texts else [-3, 0, 12]
    rows = []
    for number in range(29):
        label = names[0 if number % 2 == 0 else 1 if number % 3 != 2 else 2]
        rows.append(Row(10 * number + 2**53, label, 1.0 + number % 4, f"g{number * 7 // 29}"))
    return rows


def write_store(folder, rows):
    """The rows as CSV with a numeric column; the URI of it."""
    path = folder / "units.csv"
    with open(path, "w", encoding="utf-8") as out:
        out.write("id,label,w,g,score\n")
        for row in rows:
            out.write(f"{row.id},{row.label},{row.weight:g},{row.group},{row.id % 7}\n")
    return f"csv:{path}?id=id&weight=w&group=g"


class Caller:
    """Requests over a connection that is kept, opened again when the server was."""

    def __init__(self, server):
        self.server, self.connection = server, None

    def __call__(self, method, target, body=None):
        if self.connection is None:
            self.connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=PATIENCE_S)
        headers = {} if body is None else {"Content-Type": "application/json"}
        text = None if body is None else json.dumps(body).encode()
        try:
            self.connection.request(method, target, body=text, headers=headers)
            answer = self.connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        except (OSError, http.client.HTTPException):
            self.close()
            raise

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None


@st.composite
def definitions(draw, labels):
    """The body of a POST /streams that must be taken, but for its name."""
    design = draw(st.sampled_from(("srs", "sequential", "proportional", "equal", "quota", "neyman", "pxk", "weighted",
                                   "systematic", "cluster", "bernoulli")))
    body = {"design": design, "seed": draw(st.integers(0, 2**63 - 1))}
    body["replacement"] = design in WITH_REPLACEMENT and draw(st.booleans())
    body["epochs"] = draw(st.sampled_from((0, 1, 1, 2)))
    passes = design in ("cluster", "bernoulli")
    body["tail"] = "keep" if passes else draw(st.sampled_from(("keep", "drop", "span")))
    body["lease_s"] = draw(st.sampled_from((LONG_LEASE_S, LONG_LEASE_S, SHORT_LEASE_S)))
    if design == "quota":
        body["shares"] = dict(zip(map(str, labels), draw(st.sampled_from(((0.5, 0.25, 0.25), (0.1, 0.2, 0.7), (0.5, 0.5, 0))))))
    elif design == "neyman":
        body["deviations"] = dict(zip(map(str, labels), draw(st.sampled_from(((1, 1, 1), (1, 2.5, 4))))))
    elif design == "pxk":
        body["p"], body["k"] = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    elif design == "weighted" and not body["replacement"] or design == "systematic":
        body["size"] = draw(st.integers(1, 20))
    elif design == "cluster" and draw(st.booleans()):
        body["groups"] = draw(st.integers(1, 6))
    elif design == "bernoulli":
        body["rate"] = draw(st.sampled_from((0.1, 0.5, 0.9)))
    if design in ("srs", "sequential") and draw(st.booleans()):
        begin = draw(st.integers(0, 20))
        body["rows"] = f"{begin}:{begin + draw(st.integers(3, 9))}"
    return body
