# SPDX-License-Identifier: MIT
"""The Python package, in programs of their own: what loops get and what counts as trained, whatever ends them."""

import fcntl
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
import zipfile

import pytest

from conftest import BUILD, LONG, PATIENCE_S, SEED, environment, free_port, from_pypi, wait_for
from test_gateway import gateway, slow_acks  # noqa: F401, a fixture
from test_http_access import make_certificate, token_file
from python_package import PYTHON, SOURCES, fork, package, python_with, run, start  # noqa: F401, a fixture

pytestmark = pytest.mark.plain

BEGIN = """
import json, os, sys, time, urllib.request
import numpy as np
import tombola

def status(url):
    with urllib.request.urlopen(url + "/streams/default") as answer:
        return json.load(answer)

def wait_for(what):
    for _ in range(3000):
        if what():
            return
        time.sleep(0.02)
    raise AssertionError("it does not come")

url, store = sys.argv[1:3]
"""


@pytest.fixture
def program(package, sampler, demo_database):  # noqa: F811
    """program(script, serve options) -> what it prints, beside a sampler over the demo rows. `by`: how it is started."""

    def run_program(script, *words, by=fork, store=demo_database, **more):
        one = sampler("--store", store, "--seed", 7, *words)
        return by(package, BEGIN + script, one.url, store, **more)

    return run_program


# ---- batches ------------------------------------------------------------------------------------------------


def test_a_loop_is_an_epoch(program):
    program("""
loader = tombola.Loader(url, store, batch_size=64)
assert (loader.rows, loader.features, loader.dtype, loader.label_dtype, loader.classes) == (2000, 784, "uint8", "int64", ())
orders = []
for epoch in range(3):
    seen = []
    for ids, labels, x in loader:
        assert x.shape == (len(ids), 784) and x.dtype == np.uint8 and ids.dtype == labels.dtype == np.int64
        seen += ids.tolist()
    assert sorted(seen) == list(range(2000)), "each row once"
    orders.append(seen)
assert orders[0] != orders[1] != orders[2]
assert loader.stats()["rows"] >= 6000
""")


@pytest.mark.parametrize("at", [0, 3])
@pytest.mark.parametrize("pull", ["lease", "draw"])
def test_a_batch_that_was_left_behind_ends_no_loop(program, pull, at):
    """It is of an earlier epoch: the loop that gets it goes on, or the last epoch would not be trained."""
    program(f"""
for seq in range(2):
    urllib.request.urlopen(url + f"/batch?size=100&worker=gone&seq={{seq}}").read()

def leave():
    body = json.dumps({{"stream": "default", "worker": "gone"}}).encode()
    urllib.request.urlopen(url + "/release", body).read()

loader, rows = tombola.Loader(url, store, batch_size=50, pull="{pull}"), []
for epoch in range(3):
    if epoch == 1 and {at} == 0:
        leave()
    rows.append([])
    for step, (ids, labels, x) in enumerate(loader, 1):
        rows[-1] += ids.tolist()
        if epoch == 1 and step == {at}:
            leave()
assert [len(set(one)) for one in rows] in ([1800, 2000, 2000], [2000, 2000, 2000]), [len(one) for one in rows]
assert sum(map(len, rows)) == 6000
""", "--epochs", 3)


def test_epochs_may_be_many_or_all(program):
    program("""
assert [len(list(tombola.Loader(url, store, batch_size=500, epochs=2))) for _ in range(2)] == [8, 4]
loader = tombola.Loader(url, store, batch_size=500, epochs=0)
assert list(loader) == [] and list(loader) == [], "the stream has ended"
assert status(url)["state"] == "ended" and status(url)["acked"] == 12
""", "--epochs", 3)


def test_the_numbers_are_those_of_the_store(program, demo):
    """Also of arrays that are kept for longer than the ring has slots, and of all kinds of output."""
    program("""
rows = np.loadtxt(os.environ["CSV"], delimiter=",", dtype=np.uint8)
kept = list(tombola.Loader(url, store, batch_size=30, shape=(28, 28)))
assert sum(len(ids) for ids, _, _ in kept) == 2000
for output in (np.asarray, np.from_dlpack, "dlpack", "numpy"):
    for dtype in (None, "float32"):
        for copy in (False, True):
            with tombola.Loader(url, store, output=output, dtype=dtype, shape=(28, 28), copy=copy) as loader:
                ids, labels, x = map(np.asarray, next(iter(loader)))
                assert x.dtype == (dtype or np.uint8) and x.shape == (len(ids), 28, 28)
                wanted = rows[ids, 1:].astype(np.float32) * np.float32(1 / 255) if dtype else rows[ids, 1:]
                assert (labels == rows[ids, 0]).all() and (x.reshape(-1, 784) == wanted).all()
with tombola.Loader(url, store, dtype="float32", scale=2, label_dtype="float32") as loader:
    ids, labels, x = next(iter(loader))
    assert labels.dtype == np.float32 and (labels == rows[ids, 0]).all() and (x == rows[ids, 1:].astype(np.float32) * 2).all()
columns = np.arange(784, dtype=np.float32)
for mean, std in ((0.1307, 0.3081), (0.5, None), (None, np.float32(2)), ([1, 2], (3, 4)), (columns, 7), (columns, columns + 1)):
    with tombola.Loader(url, store, mean=mean, std=std, label_dtype="float64") as loader:
        ids, labels, x = next(iter(loader))
        means, stds = (np.repeat(np.float32(fallback if value is None else value), 784 // np.size(value))
                       for value, fallback in ((mean, 0), (std, 1)))
        assert loader.dtype == "float32" and labels.dtype == np.float64 and (labels == rows[ids, 0]).all()
        assert (x == (rows[ids, 1:].astype(np.float32) * np.float32(1 / 255) - means) / stds).all(), (mean, std)
for ids, labels, x in kept:
    assert (labels == rows[ids, 0]).all() and (x.reshape(-1, 784) == rows[ids, 1:]).all(), "it was written again"
""", CSV=f"{demo}/mnist_train.csv")


def test_a_row_keeps_its_shape(package, sampler, tmp_path):  # noqa: F811
    """Of an IDX file; and labels that are real numbers are not cut to integers."""
    (tmp_path / "x-images-idx3-ubyte").write_bytes(bytes([0, 0, 8, 3, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0, 3, *range(24)]))
    (tmp_path / "real.csv").write_text("label,a\n0.5,1\n2,3\n")
    script = """
(ids, labels, x), = tombola.Loader(url, store)
assert labels is None and x.shape == (4, 2, 3) and (x == np.arange(24).reshape(4, 2, 3)[ids]).all()
"""
    store = f"idx:{tmp_path}/x-images-idx3-ubyte"
    fork(package, BEGIN + script, sampler("--store", store, "--epochs", 1).url, store)
    script = """
try:
    tombola.Loader(url, store, label_dtype="int64")
except tombola.UsageError as error:
    assert "are real numbers" in str(error), error
else:
    raise AssertionError("it works")
"""
    store = f"csv:{tmp_path}/real.csv"
    fork(package, BEGIN + script, sampler("--store", store).url, store)


@pytest.mark.parametrize("kind,labels", [("int64", "3,-4"), ("float64", "0.5,-1.25"), ("text", "virginica,setosa"), (None, None)])
def test_labels_have_their_type(package, sampler, tmp_path, kind, labels):  # noqa: F811
    values = labels.split(",") if labels else []
    lines = ["id,a,b" + ",label" * bool(labels)]
    lines += [f"{i},{i}.5,{i + 2}" + (f",{values[i % 2]}" if labels else "") for i in range(20)]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    store = f"csv:{tmp_path}/t.csv"
    fork(package, BEGIN + """
loader, kind, values = tombola.Loader(url, store), sys.argv[3], sys.argv[4].split(",")
(ids, labels, x), = loader
assert loader.feature_names == ("a", "b") and x.dtype == np.float32
assert (x == np.stack([ids + 0.5, ids + 2], 1)).all()
if kind == "None":
    assert labels is None and loader.label_dtype is None
elif kind == "text":
    assert labels.dtype == np.int64 and [loader.classes[code] for code in labels] == [values[i % 2] for i in ids]
else:
    assert labels.dtype == kind and labels.tolist() == [float(values[i % 2]) for i in ids]
""", sampler("--store", store).url, store, kind, labels)


def test_one_hot_labels(package, sampler, tmp_path):  # noqa: F811
    (tmp_path / "t.csv").write_text("label,x\n" + "".join(f"{i * i % 5},{i}\n" for i in range(20)))
    (tmp_path / "s.csv").write_text("label,x\n" + "".join(f"{'cab'[i % 3]},{i}\n" for i in range(20)))
    store = f"csv:{tmp_path}/t.csv"
    fork(package, BEGIN + """
for one_hot, kind in ((True, np.float32), ("float32", np.float32), ("uint8", np.uint8)):
    for classes in (0, 5, 9):
        with tombola.Loader(url, store, one_hot=one_hot, num_classes=classes, copy=classes == 9) as loader:
            ids, labels, x = next(iter(loader))
            assert loader.num_classes == (classes or 5) and loader.label_dtype == labels.dtype == kind
            assert (labels == np.eye(loader.num_classes, dtype=kind)[ids * ids % 5]).all()
with tombola.Loader(url, store.replace("t.csv", "s.csv"), one_hot=True, trust_labels=True) as loader:
    ids, labels, x = next(iter(loader))
    assert [loader.classes[code] for code in labels.argmax(1)] == ["cab"[i % 3] for i in ids] and labels.sum() == len(ids)
for words, says in (({"num_classes": 3}, "one_hot=True"), ({"one_hot": "int8"}, "'uint8'"), ({"one_hot": True, "label_dtype": "int64"}, "one_hot")):
    try:
        tombola.Loader(url, store, **words)
    except tombola.UsageError as error:
        assert says in str(error), error
    else:
        raise AssertionError(words)
with tombola.Loader(url, store, one_hot=True, num_classes=4) as loader:
    try:
        list(loader)
    except tombola.Error as error:
        assert "is not one of the codes of 4 classes" in str(error), error
    else:
        raise AssertionError("4 was a code of 4 classes")
""", sampler("--store", store).url, store)


def test_rows_that_differ_in_length(package, sampler, tmp_path):  # noqa: F811
    """Padded to the batch's longest row or to the limit, with lengths behind x; buckets; a state in another world."""
    lengths = [i * 37 % 41 for i in range(200)]
    (tmp_path / "t.csv").write_text("label\n" + "".join(f"{i % 3}{(',' + str(i + 1)) * n}\n" for i, n in enumerate(lengths)))
    store = f"csv:{tmp_path}/t.csv?longest=any"
    fork(package, BEGIN + """
lengths = np.array([i * 37 % 41 for i in range(200)])

def check(ids, labels, x, n, width=None):
    assert n.dtype == np.int64 and (n == lengths[ids]).all() and x.shape == (len(ids), width or n.max())
    assert (x == np.where(np.arange(x.shape[1]) < n[:, None], (ids + 1)[:, None], 0)).all()
    assert (labels == ids % 3).all()
    return x.size - n.sum()

for words in ({}, {"dtype": "float32", "scale": 1}, {"copy": True}, {"cache": 0, "fetchers": 3}):
    with tombola.Loader(url, store, batch_size=16, pull="index", **words) as loader:
        assert loader.varies and loader.features == 40 and loader.feature_names == ()
        plain = sum(check(*batch) for batch in loader)
with tombola.Loader(url, store.replace("any", "64"), batch_size=16, pull="index") as loader:
    assert loader.features == 64 and sum(check(*batch, width=64) for batch in loader) == 200 * 64 - lengths.sum()
with tombola.Loader(url, store, batch_size=16, one_hot=True, pull="index") as loader:
    for ids, labels, x, n in loader:
        check(ids, labels.argmax(1), x, n)

def ids_of(loader, most=10**9):
    seen = []
    for number, batch in enumerate(loader, 1):
        ids_of.zeros += check(*batch)
        seen.append(batch[0].tolist())
        if number == most:
            break
    return seen

ids_of.zeros = 0
words = {"batch_size": 16, "bucket_window": 6}
right = ids_of(tombola.Loader(url, store, pull="index", **words))
assert sorted(sum(right, [])) == list(range(200)) and ids_of.zeros * 2 < plain, (ids_of.zeros, plain)
first = tombola.Loader(url, store, pull="index", **words)
assert ids_of(first, 3) == right[:3]
state = json.loads(json.dumps(first.state_dict()))
pairs = [ids_of(tombola.Loader(url, store, rank=rank, world=2, state=state, **words)) for rank in range(2)]
assert [taken for pair in zip(*pairs) for taken in pair] == right[3:13]
for more, says in (({"state": state, "bucket_window": 5}, "bucket window of 6"), ({"bucket_window": 5, "pull": "lease"}, "bucket_window"),
                   ({"mean": 0.5, "dtype": "float32"}, "not normalized"), ({"shape": (5, 8)}, "differ in length"),
                   ({"resident": 1000}, "do not stay on the device")):
    try:
        tombola.Loader(url, store, batch_size=16, **more)
    except tombola.Error as error:
        assert says in str(error), error
    else:
        raise AssertionError(more)
""", sampler("--store", store, "--epochs", "0").url, store)


TOKENS = '''
wanted = [[2**31 - 1, -(2**31), 2**24 + 1, i][: i % 5] for i in range(200)]

def check(loader, kind):
    assert loader.dtype == "int32"
    seen = 0
    for ids, labels, x, n in loader:
        assert x.dtype == kind and x.shape == (len(ids), int(n.max()))
        for i, row, length in zip(ids.tolist(), x.tolist(), n.tolist()):
            assert row == wanted[i] + [0] * (len(row) - length) and length == len(wanted[i])
        seen += len(ids)
    assert seen == 200
'''


@pytest.fixture
def tokens(sampler, tmp_path):
    """url, store: token ids that no float32 has."""
    (tmp_path / "t.csv").write_text("label\n" + "".join(
        ",".join(map(str, [i % 3, *[2**31 - 1, -(2**31), 2**24 + 1, i][: i % 5]])) + "\n" for i in range(200)))
    store = f"csv:{tmp_path}/t.csv?longest=any&element=i32"
    return sampler("--store", store, "--epochs", "0").url, store


def test_the_length_of_a_loop_in_buckets_across_epochs(package, sampler, tokens):  # noqa: F811
    """A window may hold rows of two."""
    fork(package, BEGIN + """
for world in (1, 2):
    with tombola.Loader(url, store, batch_size=16, rank=0, world=world, bucket_window=6) as loader:
        for loop in range(4):
            assert len(loader) == len(list(loader)), (world, loop)
""", sampler("--store", tokens[1], "--epochs", 3, "--tail", "span").url, tokens[1])


def test_integers_of_32_bits(package, tokens):  # noqa: F811
    fork(package, BEGIN + TOKENS + """
for words in ({}, {"copy": True}, {"cache": 0, "fetchers": 3}, {"pull": "index", "bucket_window": 4}):
    with tombola.Loader(url, store, batch_size=16, **words) as loader:
        check(loader, np.int32)
with tombola.Loader(url, store, output=np.from_dlpack) as loader:
    check(loader, np.int32)
try:
    tombola.Loader(url, store, dtype="float32")
except tombola.UsageError as error:
    assert "are 32-bit integers, which come as they are" in str(error), error
else:
    raise AssertionError("they became floats")
""", *tokens)


def test_integers_that_floats_round_are_told(package, sampler, tmp_path):  # noqa: F811
    """Once, on standard error; not of what is integers, or fractions."""
    (tmp_path / "t.csv").write_text("label,a,b\n" + "".join(f"{i % 2},{2**24 + i},{i / 2}\n" for i in range(300)))
    store = f"csv:{tmp_path}/t.csv"
    program = start(package, BEGIN + """
for query in ("features=a", "features=a&element=i32", "features=a,b"):
    with tombola.Loader(url, f"{store}?{query}", pull="index") as loader:
        print(sum(len(ids) for ids, labels, x in loader))
""", sampler("--store", store).url, store)
    out, err = program.communicate(timeout=PATIENCE_S)
    assert program.returncode == 0 and out.split() == ["300"] * 3, err
    assert err.count("whole numbers of 2^24 and more, which 32-bit floats round; element=i32") == 1 == err.count("features=a:"), err


def test_weights_and_groups_come_with_a_batch(package, sampler, tmp_path):  # noqa: F811
    """Where they are asked for; else a batch is ids, labels, x."""
    (tmp_path / "t.csv").write_text("w,label,g,x\n" + "".join(f"{i}.25,{i % 2},{'ba'[i % 2]},{i}\n" for i in range(20)))
    store = f"csv:{tmp_path}/t.csv?weight=w&group=g"
    fork(package, BEGIN + """
for weights, kind in ((True, np.float32), ("float32", np.float32), ("float64", np.float64)):
    with tombola.Loader(url, store, weights=weights, groups=True) as loader:
        ids, labels, x, w, g = next(iter(loader))
        assert loader.groups == ("a", "b") and w.dtype == kind and g.dtype == np.int64
        assert (w == ids + 0.25).all() and [loader.groups[code] for code in g] == ["ba"[i % 2] for i in ids]
with tombola.Loader(url, store, weights=True, copy=True) as loader:
    ids, labels, x, w = next(iter(loader))
    assert loader.groups is None and (w == ids + 0.25).all()
with tombola.Loader(url, store) as loader:
    ids, labels, x = next(iter(loader))
for words in ({"weights": True}, {"groups": True}, {"weights": "float16"}):
    try:
        tombola.Loader(url, store.split("?")[0] + "?features=x", **words)
    except tombola.UsageError as error:
        assert "weight=NAME" in str(error) or "group=NAME" in str(error) or "'float32'" in str(error), error
    else:
        raise AssertionError("it works")
""", sampler("--store", store, "--epochs", 9).url, store)


def test_a_recipe_makes_the_same_of_another_table(package, sampler, tmp_path):  # noqa: F811
    """What was learnt from one store, for rows of another one; without it they are bad."""
    (tmp_path / "train.csv").write_text("age,color,y\n" + "20,red,0\n,blue,1\n40,NA,0\n" * 5)
    (tmp_path / "test.csv").write_text("color,age,y\n" + "mauve,NA,0\nred,7,1\n" * 5)
    store, other = f"csv:{tmp_path}/train.csv?label=y&missing=mean&onehot=*", f"csv:{tmp_path}/test.csv?label=y"
    fork(package, BEGIN + """
with tombola.Loader(url, store) as train:
    assert train.feature_names == ("age", "color=blue", "color=red") and train.dtype == "float32"
    ids, labels, x = next(iter(train))
    assert all(x[i].tolist() == ([20, 0, 1], [30, 1, 0], [40, 0, 0])[id % 3] for i, id in enumerate(ids))
with tombola.Loader(sys.argv[3], sys.argv[4], recipe=train.recipe) as test:
    assert test.feature_names == train.feature_names and test.recipe == train.recipe
    for ids, labels, x in test:
        assert all(x[i].tolist() == ([30, 0, 0], [7, 0, 1])[id % 2] for i, id in enumerate(ids))
with tombola.Loader(url, store.split("?")[0] + "?label=y&features=age&missing=zero") as plain:
    assert '"fill":0' in plain.recipe
for recipe, says in (("{}", "the recipe"), ('{"unseen":"bad","columns":[{"name":"size"}]}', "size")):
    try:
        tombola.Loader(url, store.split("?")[0] + "?label=y", recipe=recipe)
    except tombola.InputError as error:
        assert says in str(error), error
    else:
        raise AssertionError("it works")
""", sampler("--store", store, "--epochs", 2).url, store, sampler("--store", other, "--epochs", 1).url, other)


def test_a_cache_changes_no_batch(program):
    """None, of some rows, of all, and the default: three epochs, while it fills and behind."""
    program("""
url, store = sys.argv[1:3]
def batches(cache):
    with tombola.Loader(url, store, batch_size=100, pull="index", cache=cache) as loader:
        return [(ids.tobytes(), labels.tobytes(), x.tobytes()) for _ in range(3) for ids, labels, x in loader]
plain = batches(0)
assert len(plain) == 60
for cache in ("auto", 500_000, 1 << 30, 1):
    assert batches(cache) == plain, cache
""")


@pytest.mark.parametrize("options", [{}, {"dtype": "float32"}, {"mean": 20, "std": 70}, {"bad_rows": "skip"}], ids=str)
def test_rows_that_stay_on_the_device_change_no_batch(program, options):
    """All, some, or none of them, by number and by lease: three epochs, the first of which brings them."""
    program(f"options = {options!r}" + """
def batches(resident, **more):
    with tombola.Loader(url, store, batch_size=100, resident=resident, **options, **more) as loader:
        return [(ids.tobytes(), labels.tobytes(), x.tobytes()) for _ in range(3) for ids, labels, x in loader], loader.stats()
plain, stats = batches(0, pull="index")
assert len(plain) == 60 and stats["resident_rows"] == stats["copied_rows"] == 0, stats
seen, stats = batches(1 << 30, pull="index")
assert seen == plain and stats["resident_rows"] == stats["copied_rows"] == 2000, stats
seen, stats = batches((500 + 8 * 100) * 784, pull="index", slots=8)
assert seen == plain and stats["resident_rows"] == 500 and stats["copied_rows"] >= 2000 + 2 * 1500, stats
seen, stats = batches("auto", pull="index")
assert seen == plain and stats["resident_rows"] == 0, "a CPU keeps none"
assert sorted(batches(1 << 30)[0]) == sorted(plain), "by lease"
try:
    batches(-2)
except ValueError as error:
    assert "resident" in str(error)
else:
    raise AssertionError("a negative number")
""")


def test_views_share_the_memory_of_the_ring(program):
    """No copy while there is room: then what is kept is copied, and the loop goes on."""
    program("""
with tombola.Loader(url, store, batch_size=10, slots=8, output="dlpack") as loader:
    held, feed = [], loader._feed
    for batch in loader:
        held.append(batch)
        if len(held) <= 4:
            assert feed.out == len(held)
    assert len(held) == 200 and feed.out <= 5
    del batch, held
    assert feed.out == 1, "the first one of the next epoch"
""")


def test_an_array_may_outlive_python(program):
    """Held by what a library frees at the very end of the process, as objects of its own."""
    program("""
import ctypes
api, libc = ctypes.pythonapi, ctypes.CDLL(None)
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
libc.__cxa_atexit.argtypes = [ctypes.c_void_p] * 3
used = b"used_dltensor"
ids, labels, x = next(iter(tombola.Loader(url, store, output="dlpack")))
capsule = ids.__dlpack__()
managed = api.PyCapsule_GetPointer(capsule, b"dltensor")
api.PyCapsule_SetName(capsule, used)
libc.__cxa_atexit(ctypes.c_void_p.from_address(managed + 56), managed, None)  # its deleter
for kept in (used, capsule):
    api.Py_IncRef(ctypes.py_object(kept))
""", by=run)


# ---- what counts as trained ---------------------------------------------------------------------------------


@pytest.mark.parametrize("ending,trained", [
    ("break", 5), ("raise KeyError", 4), ("return", 5), ("yield_and_close", 4), ("yield_and_raise", 4),
    ("close_a_coroutine", 4), ("break_in_a_generator", 5), ("done", 5), ("with_ok", 5), ("with_error", 4), ("next", 5)])
def test_what_ends_a_loop(program, ending, trained):
    program("""
ending, trained = os.environ["ENDING"], int(os.environ["TRAINED"])
loader = tombola.Loader(url, store, batch_size=100)
kept = []

def loop():
    for number, batch in enumerate(loader, 1):
        kept.append(batch)  # its memory is held: what was said of it holds all the same
        if number < 5:
            continue
        if ending == "raise KeyError":
            raise KeyError
        if ending == "return":
            return
        break

def generate():
    # A break outside closes it as an exception would: what it has counts when it says so.
    for number, batch in enumerate(loader, 1):
        yield number
        if number == 5:
            raise AssertionError("it is not asked for more")

def generate_five():
    for number, batch in enumerate(loader, 1):
        yield number
        if number == 5:
            break
    yield "and no more"

async def wait():
    for number, batch in enumerate(loader, 1):
        if number == 5:
            await Never()

class Never:
    def __await__(self):
        yield

if ending in ("break", "raise KeyError", "return"):
    try:
        loop()
    except KeyError:
        pass
elif ending in ("yield_and_close", "yield_and_raise", "done"):
    try:
        for number in generate():
            if number == 5:
                if ending == "done":
                    loader.done()
                if ending == "yield_and_raise":
                    raise KeyError
                break
    except KeyError:
        pass
elif ending == "close_a_coroutine":
    waiting = wait()
    waiting.send(None)
    waiting.close()
elif ending == "break_in_a_generator":
    five = generate_five()
    for number in five:
        if number == "and no more":
            break
elif ending == "next":
    loop = iter(loader)
    for _ in range(5):
        kept.append(next(loop))
    del loop
else:
    try:
        with loader:
            loop = iter(loader)
            for _ in range(5):
                kept.append(next(loop))
            if ending == "with_error":
                raise KeyError
    except KeyError:
        pass
wait_for(lambda: status(url)["acked"] == trained)
loader.close()
wait_for(lambda: status(url)["leased"] == 0 or kept and ending == "raise KeyError")
assert status(url)["acked"] == trained
kept.clear()
loop = batch = None
if ending != "with_error":
    left = [ids for ids, _, _ in tombola.Loader(url, store, batch_size=100)]
    assert len(np.concatenate(left)) == 2000 - 100 * trained
""", "--epochs", 1, "--lease", 600, ENDING=ending, TRAINED=str(trained))


def test_a_state_that_is_refused_trains_nothing(program):
    """By lease: what ends the loop is its error, so that its batch is for others."""
    program("""
loader = tombola.Loader(url, store, batch_size=100)
try:
    for ids, labels, x in loader:
        loader.state_dict()
except tombola.UsageError:
    loader.close()
wait_for(lambda: status(url)["leased"] == 0)
assert status(url)["acked"] == 0
""", "--lease", 600)


@pytest.mark.parametrize("call", ["next(loop)", "asyncio.run(anext(loop))"])
@pytest.mark.parametrize("pull", ["lease", "index"])
def test_a_batch_that_cannot_be_converted_is_not_trained(program, pull, call):
    """A program that asks for the next one after the error has not seen it."""
    program("""
import asyncio
calls = 0

def convert(array):
    global calls
    calls += 1
    if calls == 5:
        raise KeyError("the labels of the second batch")
    return np.asarray(array)

async def anext(loop):
    return await loop.__anext__()

loader = tombola.Loader(url, store, batch_size=100, pull=os.environ["PULL"], output=convert)
loop = loader.__iter__() if os.environ["CALL"] == "next(loop)" else loader.__aiter__()
seen = []
for _ in range(4):
    try:
        ids, labels, x = eval(os.environ["CALL"])
        seen += ids.tolist()
    except KeyError:
        pass
assert len(seen) == 300
if os.environ["PULL"] == "index":
    rest = tombola.Loader(url, store, batch_size=100, state=loader.state_dict())
    seen += [unit for ids, _, _ in rest for unit in ids.tolist()]
    assert sorted(seen) == list(range(2000)), len(seen)
else:
    loader.done()
    loader.close()
    assert status(url)["acked"] == 3, status(url)
""", "--epochs", 1, PULL=pull, CALL=call)


@pytest.mark.parametrize("error", [True, False])
def test_the_end_of_a_program(package, sampler, demo_database, error):  # noqa: F811
    """By an exception the batch that it had was not trained, else it was; what was fetched ahead is for others."""
    one = sampler("--store", demo_database, "--epochs", 1)
    run(package, BEGIN + f"""
loop = iter(tombola.Loader(url, store, batch_size=100))
for _ in range(3):
    batch = next(loop)
{'1 / 0' if error else ''}
""", one.url, demo_database, status=int(error))
    now = one.get("/streams/default").json
    assert (now["acked"], now["leased"]) == (2 if error else 3, 0)


def test_whatever_is_killed_each_row_is_acked_once(package, sampler, demo_database, tmp_path):  # noqa: F811
    dice, port = random.Random(SEED), free_port()
    words = ("--store", demo_database, "--epochs", 2, "--lease", 1, "--state", tmp_path / "state", "--seed", 5)
    served = sampler(*words, listen=f"127.0.0.1:{port}")
    script = BEGIN + """
import random
dice = random.Random(int(sys.argv[3]))
for batch in tombola.Loader(url, store, batch_size=10, epochs=0):
    if dice.random() < 0.004:
        dice.choice([sys.exit, lambda: os._exit(0), lambda: 1 / 0])()
"""
    consumers = []
    try:
        for _ in range(30):
            while len(running := [one for one in consumers if one.poll() is None]) < 3:
                consumers.append(start(package, script, f"http://127.0.0.1:{port}", demo_database, len(consumers)))
            time.sleep(0.1)
            dice.choice(running).send_signal(dice.choice((signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT, signal.SIGTERM)))
            if dice.random() < 0.1:
                served.kill()
                served.finish()
                served = sampler(*words, listen=f"127.0.0.1:{port}")
            if served.get("/streams/default").json["state"] == "ended":
                break
    finally:
        for one in consumers:
            one.kill()
    for one in consumers:
        _, err = one.communicate()
        assert one.returncode in (0, -signal.SIGKILL, -signal.SIGTERM) or "ZeroDivisionError" in err, err
    fork(package, BEGIN + "for batch in tombola.Loader(url, store, batch_size=10, epochs=0): pass", served.url, demo_database)
    now = served.get("/streams/default").json
    assert now["state"] == "ended" and now["acked"] == 400, now


def test_what_a_program_that_stood_still_has_ahead_is_left_to_others(package, sampler, demo_database):  # noqa: F811
    """It had one batch, and several more ready, when it was stopped for longer than its leases."""
    one = sampler("--store", demo_database, "--epochs", 1, "--lease", 1, "--seed", 5)
    stopped = start(package, BEGIN + """
for ids, labels, x in tombola.Loader(url, store, batch_size=50, epochs=0):
    print(json.dumps(ids.tolist()), flush=True)
    sys.stdin.readline()
""", one.url, demo_database)
    first = json.loads(stopped.stdout.readline())
    wait_for(lambda: one.get("/streams/default").json["leased"] > 1, "nothing is fetched ahead")
    stopped.send_signal(signal.SIGSTOP)
    others = fork(package, BEGIN + """
seen = [row for ids, _, _ in tombola.Loader(url, store, batch_size=50, epochs=0) for row in ids.tolist()]
print(json.dumps(seen))
""", one.url, demo_database)
    assert sorted(json.loads(others)) == list(range(2000))
    stopped.send_signal(signal.SIGCONT)
    out, err = stopped.communicate("\n" * 100, timeout=PATIENCE_S)
    assert (stopped.returncode, out) == (0, ""), (len(first), out[:1000], err)
    assert "may be trained twice" in err


# ---- by index -----------------------------------------------------------------------------------------------


def test_a_state_goes_on_in_another_world(program):
    """Saved in the middle of an epoch, inside the loop and behind it, by way of JSON."""
    program("""
def ids_of(loader, most):
    seen = []
    for number, (ids, _, _) in enumerate(loader, 1):
        seen.append(ids.tolist())
        if number == most:
            return seen, loader.state_dict()
    return seen, loader.state_dict()

right, _ = ids_of(tombola.Loader(url, store, batch_size=50, pull="index", epochs=0), 10**9)
assert len(right) == 80
alone, state = ids_of(tombola.Loader(url, store, batch_size=50, pull="index", epochs=0), 6)
assert alone == right[:6]
state = json.loads(json.dumps(state))
first = [tombola.Loader(url, store, batch_size=50, rank=rank, world=2, state=state, epochs=0) for rank in range(2)]
assert first[0].state_dict() == state
fresh = tombola.Loader(url, store, batch_size=50, pull="index", epochs=0)
begun = fresh.state_dict()
assert fresh.state_dict() == begun and ids_of(fresh, 3)[0] == right[:3], "before the first batch"
assert ids_of(tombola.Loader(url, store, batch_size=50, state=begun, epochs=0), 3)[0] == right[:3]
pairs = [ids_of(loader, 5) for loader in first]
assert [taken for pair in zip(pairs[0][0], pairs[1][0]) for taken in pair] == right[6:16]
assert pairs[0][1] == pairs[1][1], "after as many steps the state of one serves all"
loader = tombola.Loader(url, store, batch_size=50, pull="index", epochs=0)
next(iter(loader))
loader.load_state_dict(pairs[1][1])
rest, _ = ids_of(loader, 10**9)
assert rest == right[16:]
for wrong in ({}, None, {"tombola": 5}, {"tombola": {"name": "x"}}, {**state, "epoch": "x"}, {**state, "epoch": -1}):
    try:
        loader.load_state_dict(wrong)
    except tombola.Error:
        pass
    else:
        raise AssertionError(wrong)
assert status(url)["position"] == 0
""", "--epochs", 2)


def test_a_state_is_loaded_in_the_middle_of_a_loop(program):
    """The loop goes on with it, and what it has is counted as before."""
    program("""
loader = tombola.Loader(url, store, batch_size=100, pull="index")
states, seen = [], []
for ids, labels, x in loader:
    states.append(loader.state_dict())
    seen.append(ids.tolist())
    if len(seen) == 5:
        loader.load_state_dict(states[1])
    if len(seen) == 8:
        break
assert seen[5:] == seen[2:5]
assert states[5:] == states[2:5], [state["tombola"]["next_index"] for state in states]
""")


def test_a_state_of_a_later_epoch_is_loaded_in_the_middle_of_a_loop(program):
    """The loop goes on with the rest of that epoch, which may be empty."""
    program("""
loader = tombola.Loader(url, store, batch_size=100, pull="index")
first = [ids.tolist() for ids, _, _ in loader]
second, states = [], []
for ids, _, _ in loader:
    second.append(ids.tolist())
    states.append(loader.state_dict())
for state, rest in ((states[4], second[5:]), (states[-1], [])):
    again = tombola.Loader(url, store, batch_size=100, pull="index")
    seen = []
    for ids, _, _ in again:
        seen.append(ids.tolist())
        if len(seen) == 3:
            again.load_state_dict(state)
    assert seen[:3] == first[:3]
    assert seen[3:] == rest, (len(seen), len(rest))
""", "--epochs", 3)


@pytest.mark.parametrize("epochs", [1, 0])
@pytest.mark.parametrize("parts, where", [(1, "in"), (2, "in"), (1, "behind")])
def test_a_state_of_an_epochs_last_batch(program, parts, where, epochs):
    """Saved in the loop, its rest is empty, for one as for several; saved behind it, the next loop comes: the whole one."""
    program(f"""
parts, inside = {parts}, {where == "in"}
options = dict(batch_size=500, pull="index")  # 4 batches an epoch
right = [ids.tolist() for ids, _, _ in tombola.Loader(url, store, epochs=0, **options)]
again, taken = [], []
for part in range(parts):
    share = dict(options, part=part, parts=parts)
    loader = tombola.Loader(url, store, epochs={epochs}, **share)
    for step, _ in enumerate(loader, 1):
        if step == 4 // parts:
            state = loader.state_dict()
            break
    state = json.loads(json.dumps(state if inside else loader.state_dict()))
    again.append(tombola.Loader(url, store, state=state, **share))
    len(again[-1])
    assert again[-1].state_dict()["epoch"] == state["epoch"], "a length changes nothing"
for _ in range(3):
    taken.append([ids.tolist() for loader in again for ids, _, _ in loader])
assert list(map(sorted, taken)) == [*([[]] if inside else []), sorted(right[4:8]), sorted(right[8:]), *([] if inside else [[]])]
""", "--epochs", 3)


def test_a_state_is_saved_without_a_sampler(program):
    """Behind a loop that ended since the sampler is gone, as in it."""
    program("""
server = tombola.serve(store, seed=1)
loader, seen = tombola.Loader(server, batch_size=10, pull="index", slots=2, patience=1), 0
try:
    for step, _ in enumerate(loader, 1):
        seen, inside = step, loader.state_dict()
        if step == 5:
            server.close()
except (tombola.SamplerError, tombola.SamplerTimeoutError):  # gone, or stopping
    pass
assert 5 <= seen < 200 and loader.state_dict() == inside
""")


@pytest.mark.parametrize("options", [(), ("--tail", "span"), ("--tail", "drop")], ids=["keep", "span", "drop"])
def test_ranks_take_equally_many_steps_in_each_loop(program, options):
    """Where an epoch is no whole number of rounds, and so the states of all ranks are one at a loop's end."""
    program("""
for world in (3, 4, 7):
    loaders = [tombola.Loader(url, store, batch_size=64, rank=rank, world=world, pad=world == 4) for rank in range(world)]
    steps, rows = [], []
    for loop in range(4):
        taken = [[ids.tolist() for ids, _, _ in loader] for loader in loaders]
        assert len({len(batches) for batches in taken}) == 1, [len(batches) for batches in taken]
        states = [loader.state_dict() for loader in loaders]
        assert all(state == states[0] for state in states), states
        steps.append(len(taken[0]))
        rows += [row for batches in zip(*taken) for batch in batches for row in batch]
    assert steps[3] == 0 and max(steps) <= 32 // world + 1 and min(steps[:3]) >= 31 // world - 1, steps
    alone = [ids.tolist() for ids, _, _ in tombola.Loader(url, store, batch_size=64, pull="index", epochs=0)]
    whole = [row for batch in alone[:len(alone) // world * world] for row in batch]
    assert rows[:len(whole)] == whole and (world == 4 or len(rows) == len(whole))
""", "--epochs", 3, *options)


@pytest.mark.parametrize("world, pad", [(1, False), (2, False), (2, True)])
def test_parts_take_together_what_their_rank_takes(program, world, pad):
    """As workers of a DataLoader, of a stream of 31 batches, and from where each of them was stopped."""
    program(f"""
world, parts, pad = {world}, 4, {pad}
options = dict(batch_size=65, pad=pad, epochs=0, world=world)
for rank in range(world):
    whole = [ids.tolist() for ids, _, _ in tombola.Loader(url, store, rank=rank, **options)]
    taken = []
    for part in range(parts):
        with tombola.Loader(url, store, rank=rank, part=part, parts=parts, **options) as loader:
            steps = iter(loader)
            mine = [next(steps)[0].tolist() for _ in range(2)]
            loader.done()
            state = loader.state_dict()
        mine += [ids.tolist() for ids, _, _ in tombola.Loader(url, store, rank=rank, part=part, parts=parts, state=state, **options)]
        taken.append(mine)
    assert [batch for at in range(len(taken[0])) for mine in taken for batch in mine[at:at + 1]] == whole
    assert len(whole) == (31 if world == 1 else 16 if pad else 15)
""", "--epochs", 1)


@pytest.mark.parametrize("tail", ["keep", "span", "drop"])
def test_the_length_of_a_loop(program, tail):
    """Before it, in it, behind a break and from a state, with ranks, parts and other ends."""
    program("""
def check(most, **options):
    lengths = []
    with tombola.Loader(url, store, pull="index", batch_size=64, **options) as loader:
        for loop in range(5):
            wanted, taken = len(loader), 0
            steps = iter(loader)
            while taken < most and next(steps, None):
                taken += 1
                assert len(loader) == wanted, "in the loop"
            if taken == most:
                state = loader.state_dict()
                steps = None
                with tombola.Loader(url, store, batch_size=64, **{**options, "state": state, "first_index": 0}) as rest:
                    assert len(rest) == wanted - taken == len(list(rest)), (options, loop)
            else:
                assert taken == wanted, (options, loop, taken, wanted)
            lengths.append(wanted)
    return lengths

for most in (3, 1000):
    for options in ({}, {"epochs": 2}, {"epochs": 0}, {"first_index": 40}, {"world": 3, "rank": 2}, {"world": 3, "rank": 0, "pad": True},
                    {"part": 2, "parts": 4}, {"world": 2, "rank": 1, "part": 1, "parts": 3}, {"world": 45, "rank": 44}):
        check(most, **options)
assert check(1000) == ([32, 32, 32, 0, 0] if sys.argv[3] == "keep" else [31, 31, 31, 0, 0] if sys.argv[3] == "drop" else [32, 31, 31, 0, 0])
assert check(1000, batches=40, epochs=2) == [40, 0, 0, 0, 0]
loader = tombola.Loader(url, store, pull="index", batch_size=64)
assert loader and len(list(loader)) == len(loader) + (sys.argv[3] == "span")
""", "--epochs", 3, "--tail", tail, by=lambda *words, **more: fork(*words, tail, **more))


def test_a_length_that_is_not_known(program, sampler, demo_database):
    program("""
def refuses(says, **options):
    with tombola.Loader(url, store, batch_size=64, **options) as loader:
        assert loader, "a truth value needs no length"
        try:
            len(loader)
        except TypeError as error:
            assert says in str(error), error
        else:
            raise AssertionError(options)
        assert len(next(iter(loader))[0]) > 0 and (options.get("epochs") == 0 or list(loader)), "the loop goes on"

refuses('with pull="index"')
refuses('with pull="index"', pull="draw")
refuses("stream default has no end", pull="index", epochs=0)
urllib.request.urlopen(urllib.request.Request(url + "/streams", b'{"name": "b", "design": "bernoulli", "rate": 0.5, "epochs": 1}')).close()
refuses("design bernoulli", pull="index", stream="b")
assert len(tombola.Loader(url, store, batch_size=64, pull="index", epochs=2)) == 64, "of a stream without end"
""")


@pytest.mark.parametrize("steps", range(6))
def test_the_rest_of_an_epoch_has_no_batches_of_the_next_one(program, steps):
    """Of workers of a DataLoader that were stopped after this many batches: one may have none left, and another still one."""
    program(f"""
steps = {steps}
options = dict(batch_size=400, parts=2)  # 5 batches an epoch
right = [ids.tolist() for ids, _, _ in tombola.Loader(url, store, batch_size=400, pull="index", epochs=0)]
again = []
for part in range(2):
    with tombola.Loader(url, store, part=part, **options) as loader:
        loop = iter(loader)
        mine = [next(loop)[0].tolist() for _ in range((steps + 1 - part) // 2)]
        assert mine == right[part:steps:2]
        state = json.loads(json.dumps(loader.state_dict()))
    again.append(tombola.Loader(url, store, part=part, state=state, **options))
for begin, end in ((steps, 5), (5, 10), (10, 15)):
    taken = [ids.tolist() for loader in again for ids, _, _ in loader]
    assert sorted(taken) == sorted(right[begin:end]), (begin, end, [right.index(batch) for batch in taken])
""", "--epochs", 3)


@pytest.mark.parametrize("left", ["whole", "break", "state"])
def test_parts_that_have_no_batch_of_an_epoch(program, left):
    """Where there are more of them than batches; also of loops that were left, and from a state of one that was no part."""
    program(f"""
left = {left!r}
options = dict(batch_size=1000, parts=3)  # 2 batches an epoch
right = [ids.tolist() for ids, _, _ in tombola.Loader(url, store, batch_size=1000, pull="index", epochs=0)]
state, begin = None, 0
if left == "state":
    begun, begin = tombola.Loader(url, store, batch_size=1000, pull="index"), 1
    next(iter(begun))
    state = begun.state_dict()
loaders = [tombola.Loader(url, store, part=part, state=state, **options) for part in range(3)]
if left == "break":
    for ids, _, _ in loaders[0]:
        break
    begin = 1
for first in range(0, len(right), 2):
    taken = [ids.tolist() for loader in loaders for ids, _, _ in loader]
    assert sorted(taken) == sorted(right[first + begin:first + 2]), (first, [right.index(batch) for batch in taken])
    begin = 0
assert len(right) == 8
""", "--epochs", 4)


# ---- who asks -----------------------------------------------------------------------------------------------


def test_tokens_and_certificates(package, sampler, demo_database, tmp_path):  # noqa: F811
    """By option or by environment, of which the option wins; of two samplers, too."""
    cert, key = make_certificate(tmp_path, "one")
    secure = sampler("--store", demo_database, "--token-file", token_file(tmp_path / "tokens.json"), "--tls-cert", cert, "--tls-key", key)
    fork(package, BEGIN + """
cert, = sys.argv[3:]
assert next(iter(tombola.Loader(url, store, token="secret-trainer", authority=cert)))[2].shape == (100, 784)
for wrong in ({"token": "secret-nobody", "authority": cert}, {"token": "secret-trainer"}, {"authority": cert, "token": ""},
              {"token": "a" + chr(10), "authority": cert}):
    try:
        next(iter(tombola.Loader(url, store, patience=1, **wrong)))
    except (tombola.SamplerError, tombola.UsageError):
        pass
    else:
        raise AssertionError(wrong)
os.environ.update(TOMBOLA_TOKEN="secret-nobody", TOMBOLA_CA="/nowhere")
assert len(next(iter(tombola.Loader(url, store, token="secret-trainer", authority=cert)))[0]) == 100
os.environ.update(TOMBOLA_TOKEN="secret-trainer", TOMBOLA_CA=cert)
assert len(next(iter(tombola.Loader(url, store)))[0]) == 100
""", secure.url, demo_database, cert)


# ---- waiting ------------------------------------------------------------------------------------------------

PAUSED = """
urllib.request.urlopen(urllib.request.Request(url + "/streams/default/pause", method="POST"))
loader = tombola.Loader(url, store, patience=None)
"""


def test_acks_that_come_after_the_end_are_told(package, sampler, gateway, demo_database):  # noqa: F811
    """close() does not wait for long: what was trained comes again, and the program hears of it."""
    one = gateway(sampler("--store", demo_database), slow_acks)
    program = start(package, """
import sys, tombola
with tombola.Loader(*sys.argv[1:], batch_size=100) as loader:
    for batch in loader:
        break
""", one.url, demo_database)
    _, err = program.communicate(timeout=PATIENCE_S)
    assert program.returncode == 0, err
    assert "1 of the batches that were trained is not acked yet, and will be trained again" in err, err


def test_ctrl_c_ends_a_wait(package, sampler, demo_database):  # noqa: F811
    one = sampler("--store", demo_database)
    fork(package, BEGIN + PAUSED, one.url, demo_database)
    # Nobody hears a silent sampler: a port that accepts and says nothing.
    program = start(package, BEGIN + """
import socket
silent = socket.create_server(("127.0.0.1", 0))
loader = tombola.Loader(f"http://127.0.0.1:{silent.getsockname()[1]}", store, patience=None)
print("waits", flush=True)
next(iter(loader))
""", one.url, demo_database)
    try:
        assert program.stdout.readline() == "waits\n"
        time.sleep(0.2)
        program.send_signal(signal.SIGINT)
        _, err = program.communicate(timeout=PATIENCE_S)
        assert program.returncode == -signal.SIGINT and "KeyboardInterrupt" in err, err
    finally:
        program.kill()


def test_a_loader_whose_opening_ctrl_c_ends_leases_nothing(program):
    """Though the exception is kept, as notebooks do."""
    program("""
import signal, threading
from tombola import _core
begins, goes_on, opened, Feed = threading.Event(), threading.Event(), [], _core.Feed

def open_late(**options):
    begins.set()
    goes_on.wait()
    opened.append(Feed(**options))
    return opened[0]

def is_closed():
    try:
        return opened and opened[0].next(0) and False
    except tombola.UsageError:
        return True

_core.Feed = open_late
threading.Thread(target=lambda: begins.wait() and os.kill(os.getpid(), signal.SIGINT)).start()
try:
    tombola.Loader(url, store)
    raise AssertionError("it opens")
except KeyboardInterrupt as error:
    kept = error
goes_on.set()
wait_for(is_closed)
_core.Feed = Feed
assert sum(len(ids) for ids, labels, x in tombola.Loader(url, store)) == 2000
""", "--lease", 600, by=run)


def test_a_batch_that_comes_with_ctrl_c_is_the_next_one(program):
    """A gateway lets each response pass just after a signal: the batch that then comes is not thrown away."""
    program("""
import http.server, signal, threading
from tombola import _core

ROWS = 4096  # so that a response is one batch
gate = threading.Semaphore(0)

class Gateway(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        with urllib.request.urlopen(url + self.path) as answer:
            body = answer.read()
        if self.path.startswith("/batch"):
            gate.acquire()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Gateway)
threading.Thread(target=server.serve_forever, daemon=True).start()

def signal_and_open():
    time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)
    gate.release()

feed = _core.Feed(f"http://127.0.0.1:{server.server_port}", store.encode(), batch_size=ROWS, pull=1)
seen, interrupted = [], 0
while len(seen) < 20:
    thread = threading.Thread(target=signal_and_open)
    try:
        thread.start()  # the signal may come before this returns
        seen.append(feed.next().index)
        time.sleep(1)
    except KeyboardInterrupt:
        interrupted += 1
        assert len(seen) == 0 or feed.left(1) == 25 - len(seen), "it counts"
        seen.append(feed.next(20000).index)
    thread.join()
assert interrupted == 20 and seen == list(range(20)), (interrupted, seen)
os._exit(0)  # the gateway's threads wait
""", store="range:100000")


@pytest.mark.parametrize("call", ["assert loader.state_dict() == state", "loader.close()"])
def test_a_signal_handler_saves_or_closes_while_its_thread_waits(program, call):
    """As that of SIGTERM, in a job that is preempted: it would wait for its own thread."""
    program("""
import signal, socket
first = tombola.Loader(url, store, batch_size=100, pull="index")
next(iter(first))
state = first.state_dict()
silent = socket.create_server(("127.0.0.1", 0))
loader = tombola.Loader(f"http://127.0.0.1:{silent.getsockname()[1]}", store, batch_size=100, state=state, patience=None)

def handle(*_):
    exec(os.environ["CALL"])
    if "state" in os.environ["CALL"]:
        raise InterruptedError("saved")

signal.signal(signal.SIGALRM, handle)
try:
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    next(iter(loader))
except (InterruptedError, tombola.UsageError) as error:
    assert str(error) in ("saved", "the loader is closed"), error
else:
    raise AssertionError("a batch came")
""", CALL=call)


def test_two_loaders_of_one_stream_say_whom_they_wait_for(package, sampler, demo_database):  # noqa: F811
    """One thread has batches of one loader and waits for those of another, in slices that Ctrl-C ends."""
    program = start(package, BEGIN + """
one, two = (tombola.Loader(url, store, batch_size=100) for _ in range(2))
held = iter(one)
next(held)
for batch in two:
    pass
""", sampler("--store", demo_database, "--epochs", 1).url, demo_database)
    try:
        said = next(line for line in program.stderr if "waited" in line)
        found = re.search(r"stream default: nothing is left but \d+ leased batch(?:es)?; the first lease, of worker (\S+), expires in \d+ ms; "
                          r"this is worker (\S+)", said)
        assert found and found[1] != found[2] and all(f"-{program.pid}-" in name for name in found.groups()), said
        program.send_signal(signal.SIGINT)
        _, err = program.communicate(timeout=PATIENCE_S)
        assert "KeyboardInterrupt" in err, err
    finally:
        program.kill()
        program.communicate()


def test_a_loop_that_waits_for_what_it_left_says_so(package, sampler, demo_database):  # noqa: F811
    program = start(package, BEGIN + """
loader = tombola.Loader(url, store, batch_size=1000)
try:
    for batch in loader:
        raise KeyError
except KeyError:
    del batch
for batch in loader:
    pass
""", sampler("--store", demo_database, "--epochs", 1).url, demo_database)
    try:
        said = next(line for line in program.stderr if "waited" in line)
        assert "which put back a batch that was not trained (an exception ended its loop): it comes again when" in said, said
    finally:
        program.kill()
        program.communicate()


def test_a_wait_lets_others_work(program):
    """The GIL is free; interrupt() ends it, and the loop after it goes on."""
    program("""
import socket, threading
silent = socket.create_server(("127.0.0.1", 0))
loader = tombola.Loader(f"http://127.0.0.1:{silent.getsockname()[1]}", store, patience=None)
found = []

def wait():
    try:
        next(iter(loader))
    except tombola.Interrupted as error:
        found.append(error)

waiter = threading.Thread(target=wait)
waiter.start()
for _ in range(100_000):
    pass
assert waiter.is_alive()
loader.interrupt()
waiter.join(60)
assert len(found) == 1 and not waiter.is_alive()
""")


def test_threads_share_a_loader(program):
    program("""
import threading
loader = tombola.Loader(url, store, batch_size=10)
loops = [iter(loader) for _ in range(4)]
seen = [next(loop)[0].tolist() for loop in loops]  # a loop's epoch is that of its first batch

def take(at):
    for ids, labels, x in loops[at]:
        assert (x.sum(1) >= 0).all()
        seen[at] += ids.tolist()

threads = [threading.Thread(target=take, args=(at,)) for at in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert sorted(sum(seen, [])) == list(range(2000))
""")


def test_threads_share_a_loop(program):
    """And end it from elsewhere while others look at it."""
    program("""
import threading
for closes in (False, True):
    loader = tombola.Loader(url, store, batch_size=10)
    loop, seen, over = iter(loader), [], threading.Event()

    def take():
        try:
            for ids, labels, x in loop:
                seen.extend(ids.tolist())
                if closes and len(seen) > 500:
                    loader.close()
        except tombola.UsageError as error:
            assert closes and "closed" in str(error)

    def look():
        try:
            while not over.is_set():
                loader.stats()
        except tombola.UsageError as error:
            assert closes and "closed" in str(error)

    threads = [threading.Thread(target=take) for _ in range(4)]
    looks = threading.Thread(target=look)
    for thread in (looks, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    over.set()
    looks.join()
    assert closes or sorted(seen) == list(range(2000)), len(seen)
""")


def test_threads_that_take_at_once_from_a_loop_train_both_batches(program):
    program("""
import threading
both, own, seen = threading.Barrier(2), threading.local(), []

def convert(array):
    if not hasattr(own, "waits"):
        own.waits = both.wait(60)  # each has taken a batch, and the loop holds neither yet
    return np.asarray(array)

loop = iter(tombola.Loader(url, store, batch_size=100, output=convert))

def take():
    for ids, labels, x in loop:
        seen.extend(ids.tolist())
        if len(own.__dict__) == 1:
            own.held = both.wait(60)  # now it has held both

threads = [threading.Thread(target=take) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert sorted(seen) == list(range(2000)), len(seen)
""", "--epochs", 1, "--lease", 1)


def test_async(program):
    """Tasks share the loop with others; one that is cancelled leaves its batch to the next loop."""
    program("""
import asyncio

async def main():
    loader, ticks = tombola.Loader(url, store, batch_size=100), 0

    async def tick():
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticking = asyncio.ensure_future(tick())
    seen = []
    async for ids, _, _ in loader:
        seen += ids.tolist()
        await asyncio.sleep(0)
        if len(seen) == 500:
            break
    async for ids, _, _ in loader:
        seen += ids.tolist()
    assert sorted(seen) == list(range(2000)) and ticks > 0
    taken = 0
    while taken < 20:
        async def take():
            nonlocal taken
            async for ids, _, _ in loader:
                taken += 1
                await asyncio.sleep(0.003)
        task = asyncio.ensure_future(take())
        await asyncio.sleep(0.01)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            pass
    ticking.cancel()
    loader.close()

asyncio.run(main())
now = status(url)
assert now["acked"] <= 40, now
""", "--lease", 30)


def test_a_loop_of_a_task_that_ends_leaves_no_lease(program):
    """While the task runs on, and has the last batch's arrays. Each batch comes by the thread that waits."""
    program("""
import asyncio
take = tombola.Loader._take
tombola.Loader._take = lambda loader, timeout_ms=-1: timeout_ms != 0 and take(loader, timeout_ms)

async def main():
    async for ids, labels, x in tombola.Loader(url, store, batch_size=100):
        pass
    wait_for(lambda: status(url)["leased"] == 0)

asyncio.run(main())
now = status(url)
assert now["acked"] == 20, now
""", "--lease", 3600)


def test_a_task_that_is_cancelled_twice_leaves_its_batch_to_the_next_one(program):
    """As by its program, and then by asyncio.run() at the end, while the batch is on its way."""
    program("""
import asyncio
loader = tombola.Loader(url, store, batch_size=100, pull="index")
take = loader._take

def take_late(timeout_ms=-1):
    if timeout_ms == 0:
        return False
    batch = take()
    time.sleep(0.1)
    return batch

async def main():
    loader._take = take_late
    loop, seen = loader.__aiter__(), []
    for _ in range(3):
        task = asyncio.ensure_future(loop.__anext__())
        for _ in range(2):
            await asyncio.sleep(0.01)
            task.cancel()
        try:
            seen += (await task)[0].tolist()
        except asyncio.CancelledError:
            pass
    loader._take = take
    async for ids, _, _ in loader:
        seen += ids.tolist()
    assert sorted(seen) == list(range(2000)), len(seen)

asyncio.run(main())
""")


def test_an_exception_of_a_cancelled_task_keeps_no_batch(program):
    program("""
import asyncio
loader = tombola.Loader(url, store, batch_size=100)
take = loader._take

def take_late(timeout_ms=-1):
    if timeout_ms == 0:
        return False
    batch = take()
    time.sleep(0.1)
    return batch

async def main():
    loader._take = take_late
    task = asyncio.ensure_future(loader.__aiter__().__anext__())
    await asyncio.sleep(0.01)
    task.cancel()
    await task

try:
    asyncio.run(main())
except asyncio.CancelledError as error:
    loader.close()
    wait_for(lambda: status(url)["leased"] == 0)
    del error
""", "--lease", 600)


# ---- processes ----------------------------------------------------------------------------------------------


def test_a_child_leaves_its_parents_loader_alone(program):
    """With few slots, so that few of the epoch's batches are lent to the parent ahead."""
    program("""
loader = tombola.Loader(url, store, batch_size=100, slots=2)
loop = iter(loader)
batch = next(loop)
child = os.fork()
if child == 0:
    try:
        next(loop)
        os._exit(3)
    except tombola.UsageError as error:
        assert "forked" in str(error)
    del batch, loop, loader
    own = tombola.Loader(url, store, batch_size=100)
    next(iter(own))
    own.close()
    os._exit(0)
_, ended = os.waitpid(child, 0)
assert ended == 0
assert len(list(loop)) == 18, "the child took one"
""", by=run)


def test_a_child_does_not_get_what_a_loop_of_its_parent_left(program):
    """The first batch of the next epoch."""
    program("""
loader = tombola.Loader(url, store, batch_size=1000)
rows = sum(len(ids) for ids, labels, x in loader)
child = os.fork()
if child == 0:
    try:
        next(iter(loader))
        os._exit(3)
    except tombola.UsageError as error:
        assert "forked" in str(error)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert rows + sum(len(ids) for ids, labels, x in loader) == 4000
""", "--epochs", 2, by=run)


@pytest.mark.parametrize("call", ["sys.exit()", "loader.close()", "next(loop)", "next(iter(loader))", "loader.state_dict()"])
def test_a_child_does_not_wait_for_a_thread_of_its_parent(program, call):
    """At the fork another thread waits for a batch, and has the loader's locks."""
    program("""
import threading
held = iter(tombola.Loader(url, store, batch_size=2000))
next(held)
loader = tombola.Loader(url, store)
loop = iter(loader)
threading.Thread(target=lambda: list(loop), daemon=True).start()

def is_locked():
    if taken := loader._lock.acquire(blocking=False):
        loader._lock.release()
    return not taken

wait_for(is_locked)
time.sleep(0.2)  # it is in the library
child = os.fork()
if child == 0:
    try:
        eval(os.environ["CALL"])
    except tombola.UsageError:
        pass
    sys.exit()
try:
    wait_for(lambda: os.waitpid(child, os.WNOHANG) != (0, 0))
except AssertionError:
    os.kill(child, 9)
    raise
""", "--epochs", 1, "--lease", 600, CALL=call, by=run)


def test_serve_ends_with_its_process(package, demo, tmp_path):  # noqa: F811
    script = """
import tombola, sys, time
server = tombola.serve(sys.argv[1], label=0, header="no", seed=1, design="srs")
ids, labels, x = next(iter(tombola.Loader(server)))
assert len(ids) == 100
print(server.url, flush=True)
time.sleep(1000)
"""
    one = start(package, script, f"{demo}/mnist_train.csv")
    try:
        url = one.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:")
        listens = f":{int(url.rsplit(':', 1)[1]):04X} 00000000:0000 0A"
        assert any(listens in line for line in open("/proc/net/tcp", encoding="ascii"))
    finally:
        one.kill()
        one.communicate()
    wait_for(lambda: not any(listens in line for line in open("/proc/net/tcp", encoding="ascii")), "the sampler goes on")
    headless = tmp_path / "head?less.csv"
    headless.write_text("1,2\n3,4\n")
    out = run(package, """
import tombola, sys
try:
    tombola.serve("/nowhere.csv")
except tombola.SamplerError as error:
    print(error)
with tombola.serve("range:100", seed=1, replacement=False, epochs=None) as server:
    print(server)
for label, header, rows in ((0, False, 2), ("1", True, 1)):
    with tombola.serve(sys.argv[1], label=label, header=header) as server, tombola.Loader(server) as loader:
        assert loader.rows == rows
with tombola.serve(sys.argv[1] + "?header=no", label=0) as server:
    assert server.store.endswith("?header=no&label=0"), "after a bare path that ends in a question mark, too"
""", headless)
    assert "cannot open /nowhere.csv" in out and "<tombola.Server of range:100 at http://127.0.0.1:" in out


def test_serve_takes_options_as_python_has_them(package):  # noqa: F811
    """Not only texts as on a command line."""
    run(package, """
import numpy, tombola

def labels_of(**options):
    with tombola.serve("range:1000?labels=2", epochs=1, **options) as server, tombola.Loader(server) as loader:
        return numpy.concatenate([labels for ids, labels, x in loader])

drawn = labels_of(design="quota", shares={0: 0.75, 1: 0.25})
assert (drawn == 0).sum() == 3 * (drawn == 1).sum()
assert len(labels_of(splits=[0, 0, 1], split="test")) == len(labels_of(splits=(1, 0.0, 0), split="train")) == 1000
""")


def test_serve_passes_on_what_its_sampler_warns_of(package, tmp_path):  # noqa: F811
    (tmp_path / "prices.csv").write_text("area,price\n" + "".join(f"{i},{i}.5\n" for i in range(2000)))
    run(package, """
import os, sys, tombola
os.chdir(sys.argv[1])
said = os.open("said", os.O_RDWR | os.O_CREAT | os.O_APPEND)
console = os.dup(2)
for options, warns, informs in (({}, True, False), ({"log_level": "error"}, False, False), ({"log_level": "info"}, True, True)):
    os.ftruncate(said, 0)
    os.dup2(said, 2)
    server = tombola.serve("prices.csv", label="price", **options)
    server.close()
    server._reader.join()
    os.dup2(console, 2)
    with open("said") as file:
        text = file.read()
    assert ("--design srs" in text, " info " in text) == (warns, informs), text
""", tmp_path)


def test_the_documentation_names_each_attribute(program):
    program("""
import inspect, re
loader = tombola.Loader(url, store)
for name in inspect.signature(tombola.Loader).parameters:
    assert re.search(rf"^ {{4}}(\\w+, )*{name}(, \\w+)*  |\\b{name}=", tombola.Loader.__doc__, re.M), name
for name in (name for name in vars(loader) if not name.startswith("_")):
    assert f"`{name}`" in tombola.Loader.__doc__, name
for name in (name for name in dir(loader) if not name.startswith("_") and name not in vars(loader)):
    assert getattr(loader, name).__doc__, name
""")


def test_what_is_not_pickled_says_so_and_shows_what_it_is(program):
    program("""
import copy, pickle
loader = tombola.Loader(url, store, batch_size=50, pull="index", output="dlpack")
loop, waits = iter(loader), aiter(loader)
ids, labels, x = next(loop)
for one, says in ((loader, "tombola.torch.Dataset"), (loop, "a Loader of its own"), (waits, "a Loader of its own")):
    for call in (pickle.dumps, copy.copy, copy.deepcopy):
        try:
            call(one)
        except TypeError as error:
            assert "neither copied nor pickled" in str(error) and says in str(error), error
        else:
            raise AssertionError(one)
assert "a loop of 1 batches so far over <tombola.Loader of " in repr(loop), loop
assert [str(one) for one in (ids, labels, x)] == ["<tombola array, int64 (50,)>"] * 2 + ["<tombola array, uint8 (50, 784)>"], (ids, x)
""")


def test_a_server_is_given_to_no_other_process(package):  # noqa: F811
    run(package, """
import copy, pickle, tombola
with tombola.serve("range:100") as server:
    for call in (pickle.dumps, copy.copy, copy.deepcopy):
        try:
            call(server)
        except TypeError as error:
            assert "give others its url and its store" in str(error), error
        else:
            raise AssertionError(call)
""")


def test_serve_takes_the_parameters_of_a_store(package, tmp_path):  # noqa: F811
    (tmp_path / "people.csv").write_text("age;color;size;y\n20;red;1;0\n;blue;2;1\n40;;3;0\n")
    (tmp_path / "tokens.csv").write_text("label\n0,70000,8\n1,9\n")
    (tmp_path / "odd.csv").write_text('"label, or not","a, b","""c""",d\n0,1,2,3\n1,4,5,6\n')
    run(package, """
import os, sys, tombola
os.chdir(sys.argv[1])
odd = ("a, b", chr(34) + "c" + chr(34))
with tombola.serve("odd.csv", label="label, or not", features=odd) as server, tombola.Loader(server) as loader:
    assert loader.feature_names == odd
for features in ("age,color", ["age", "color"], ("age", "color")):
    with tombola.serve("people.csv", label="y", features=features, missing="mean", onehot="*", unseen="bad", delimiter=";") as server:
        with tombola.Loader(server) as loader:
            assert loader.feature_names == ("age", "color=blue", "color=red")
            ids, labels, x = next(iter(loader))
            assert x[ids.tolist().index(1)].tolist() == [30, 1, 0]
with tombola.serve("tokens.csv", longest="any", element="i32") as server, tombola.Loader(server) as loader:
    assert (loader.varies, loader.dtype, loader.features) == (True, "int32", 2)
""", tmp_path)


def test_serve_takes_any_name_and_keeps_no_pipe(package, tmp_path):  # noqa: F811
    """Names that are not UTF-8, which its messages then contain, and bytes; and no warning that something is left open."""
    run(package, """
import gc, os, sys, warnings, tombola
warnings.simplefilter("error")
sys.unraisablehook = lambda what: os._exit(5)
os.chdir(sys.argv[1])
latin = b"caf" + bytes([0xe9]) + b".csv"
with open(latin, "w") as file:
    print("label,a", "1,2", sep=chr(10), file=file)
before = len(os.listdir("/proc/self/fd"))
for name in (latin, os.fsdecode(latin)):
    server = tombola.serve(name, label="label")
    server.close()
    server._reader.join()
    assert len(os.listdir("/proc/self/fd")) == before
for wrong, kind, says in ((b"no" + latin, tombola.SamplerError, "cannot open nocaf"), (5, tombola.UsageError, "store is 5; give a path"),
                          (None, tombola.UsageError, "a URI")):
    try:
        tombola.serve(wrong)
    except kind as error:
        assert says in str(error), error
    else:
        raise AssertionError("it works")
del server
gc.collect()
""", tmp_path)


def test_a_loader_takes_any_name(package, tmp_path):  # noqa: F811
    """As serve() does: that of a store, of a cache's folder, and in messages."""
    run(package, """
import os, sys, tombola
os.chdir(os.fsencode(sys.argv[1]))
latin = b"caf" + bytes([0xe9])
with open(latin + b".csv", "w") as file:
    print("label,a", "1,2", sep=chr(10), file=file)
os.mkdir(latin)
with tombola.serve(latin + b".csv") as server:
    for store in (None, latin + b".csv", os.fsdecode(latin) + ".csv"):
        with tombola.Loader(server, store, cache_dir=latin) as loader:
            assert len(next(iter(loader))[0]) == 1 and os.fsdecode(latin) in repr(loader)
    assert os.listdir(latin), "no cache"
    for words, kind, says in ((dict(store=b"no" + latin), tombola.Error, "nocaf"), (dict(store="a" + chr(0)), ValueError, "null")):
        try:
            tombola.Loader(server, **words)
        except kind as error:
            assert says in str(error), error
        else:
            raise AssertionError(words)
""", tmp_path)


def test_a_password_is_not_shown(package):  # noqa: F811
    run(package, """
import tombola
from tombola.server import without_password
for uri, shown in (("postgresql://me:se/c:ret@db/x?table=t", "postgresql://me@db/x?table=t"),
                   ("postgres://db:5432/x?user=me&password=secret&table=t", "postgres://db:5432/x?user=me&password=&table=t"),
                   ("csv:a:b@c.csv?label=0", "csv:a:b@c.csv?label=0")):
    assert without_password(uri) == shown, without_password(uri)
try:
    tombola.serve("postgresql+psycopg2://me:secret@db/x?table=t")
except tombola.SamplerError as error:
    assert '"postgresql+psycopg2": which kind of store' in str(error), error
""")


def test_a_server_closes_the_loaders_that_lease_from_it(package, demo_database, tmp_path):  # noqa: F811
    """What was trained is acked and the rest released before the sampler ends; nobody looks for it in vain afterwards."""
    program = start(package, """
import sys, tombola
with tombola.serve(sys.argv[1], state=sys.argv[2], lease=3600, epochs=1) as server:
    loader = tombola.Loader(server, batch_size=100)
    for batch in loader:
        break
    loop = iter(loader)
    next(loop)
    other = tombola.Loader(server, batch_size=2000, pull="index")
    for batch in other:
        pass
assert loader.stats()["batches"] == 2
assert other.state_dict(), "it leases nothing, and stays open"
del loop, loader
with tombola.serve(sys.argv[1], state=sys.argv[2], epochs=1) as server:
    with tombola.Loader(server, batch_size=100) as loader:
        assert sum(len(batch[0]) for batch in loader) == 1800, "two were acked, the others lent again at once"
""", demo_database, tmp_path / "state")
    _, err = program.communicate(timeout=PATIENCE_S)
    assert (program.returncode, err) == (0, "")


@pytest.mark.parametrize("ends", ["close", "exit"])
def test_serve_ends_where_sigterm_is_blocked(package, ends):
    """As in a thread that leaves signals to another one: the sampler begins with that mask."""
    run(package, """
import os, signal, sys, time, tombola

class Kept:  # of the session: the shell, the sampler, and who guards it
    def __init__(self, session):
        self.names = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                name, fields = open(f"/proc/{pid}/stat").read().split("(", 1)[1].rsplit(") ", 1)
            except OSError:
                continue  # it has ended
            if fields.split()[3] == str(session):
                self.names[int(pid)] = name

    def check(self):
        for pid in self.names:
            for _ in range(3000):
                if not os.path.exists(f"/proc/{pid}"):
                    break
                time.sleep(0.02)
            else:
                raise AssertionError(f"{pid} goes on: {self.names}")

killed, kill = [], os.killpg
os.killpg = lambda *words: (killed.append(words), kill(*words))  # after 10 s
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])
server = tombola.serve("range:100", seed=1)
kept = Kept(server._process.pid)
assert len(kept.names) == 3, kept.names
if sys.argv[1] == "exit":
    os.kill({name: pid for pid, name in kept.names.items()}["tombola-sampler"], signal.SIGKILL)
    server._process.wait()
else:
    server.close()
assert not killed
kept.check()
""", ends)


@pytest.mark.parametrize("where", ["listening", "thread", "process"])
def test_ctrl_c_while_a_sampler_starts(package, tmp_path, where):  # noqa: F811
    """As for a large CSV, or as its thread or process starts: it does not go on alone, and nothing is said of what was left."""
    slow = tmp_path / "tombola-sampler"
    slow.write_text(f"#!/bin/sh\necho $$ >{tmp_path}/new\nmv {tmp_path}/new {tmp_path}/pid\nexec sleep 1000\n")
    slow.chmod(0o755)
    program = start(package, """
import gc, os, pathlib, signal, subprocess, sys, threading, time, types, tombola, tombola.server

def interrupt():
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)

class InterruptedThread(threading.Thread):
    def start(self):
        super().start()
        interrupt()

class InterruptedProcess(subprocess.Popen):
    def _execute_child(self, *words):
        super()._execute_child(*words)
        interrupt()
        time.sleep(0.1)

signal.signal(signal.SIGINT, signal.default_int_handler)
if sys.argv[2] == "thread":
    tombola.server.threading = types.SimpleNamespace(Thread=InterruptedThread, Event=threading.Event)
elif sys.argv[2] == "process":
    subprocess.Popen = InterruptedProcess
else:
    threading.Thread(target=interrupt).start()
try:
    tombola.serve("range:100")
except KeyboardInterrupt as error:
    kept = error  # as a notebook keeps the last one
    for _ in range(3000):  # a Popen that is interrupted itself does not wait for it
        if not os.path.exists("/proc/" + pathlib.Path(sys.argv[1]).read_text().strip()):
            break
        time.sleep(0.02)
    else:
        raise AssertionError("it goes on")
else:
    raise AssertionError("it is not interrupted")
kept = None  # what it left is freed, and told of
gc.collect()
""", tmp_path / "pid", where, TOMBOLA_SAMPLER=str(slow), PYTHONDEVMODE="1")
    out, err = program.communicate(timeout=PATIENCE_S)
    assert (program.returncode, out, err) == (0, "", "")


def test_serve_and_children_of_fork(package):  # noqa: F811
    """They have its pipe: close() ends the sampler while one lives, and theirs does not."""
    run(package, """
import os, signal, sys, tombola, urllib.error, urllib.request
server = tombola.serve("range:100", seed=1)
if os.fork() == 0:
    server.close()
    sys.exit()
assert os.wait()[1] == 0
urllib.request.urlopen(server.url + "/healthz").close()
child = os.fork()
if child == 0:
    signal.pause()
server.close()
try:
    urllib.request.urlopen(server.url + "/healthz").close()
except urllib.error.URLError:
    os.kill(child, signal.SIGKILL)
else:
    os.kill(child, signal.SIGKILL)
    raise AssertionError("it goes on")
""")


@pytest.mark.parametrize("options,kind,says", [
    ("url, '/nowhere.csv'", "NotFoundError", "/nowhere.csv"),
    ("url, store, device='gpu'", "UsageError", "gpu"),
    pytest.param("url, store, output='tensor'", "UsageError", "numpy, torch, jax, cupy, dlpack", id="output"),
    ("url, store, pull='lend'", "UsageError", "'lease', 'index', 'draw'"),
    ("url, store, bad_rows='ignore'", "UsageError", "'fail', 'skip', 'replace'"),
    ("url, store, shape=(28, 27)", "UsageError", "756 elements; a row has 784"),
    ("url, store, mean=[1, 2], std=[1, 2, 3]", "UsageError", "mean has 2 numbers, std 3"),
    ("url, store, mean=[1] * 5", "UsageError", "5 channels; a row has 784"),
    ("url, store, std=0", "UsageError", "deviation 0 is 0"),
    ("url, store, dtype='float16'", "UsageError", "float32"),
    ("url, store, epochs=-1", "UsageError", "epochs is -1"),
    ("url, store, trust_labels='no'", "UsageError", "trust_labels is 'no'; False, True are possible"),
    ("url, store, pad=None", "UsageError", "pad is None"),
    ("url, store, copy='False'", "UsageError", "copy is 'False'"),
    ("url, store, groups='user'", "UsageError", "groups is 'user'"),
    ("url, store, worker=''", "UsageError", '"" is not the name of a worker'),
    ("url, store, batch_size=-1", "ValueError", "batch_size is -1; give an integer, 1 or more"),
    ("url, store, batch_size=0", "UsageError", "batch_size is 0; give an integer, 1 or more"),
    ("url, store, batch_size='10'", "UsageError", "batch_size is '10'"),
    ("url, store, slots=2.5", "UsageError", "slots is 2.5; give an integer, 0 or more"),
    ("url, store, world=0", "UsageError", "world is 0"),
    ("url, store, cache='none'", "UsageError", "cache is 'none'; give 'auto', or an integer"),
    ("url, store, dtype='float32', scale=1e39", "UsageError", "scale is inf; give a finite number other than 0"),
    ("url, store, dtype='float32', scale=1e-46", "UsageError", "scale is 0.0; give a finite number other than 0"),
    ("url, store, dtype='float32', scale=0", "UsageError", "scale is 0; give a finite number other than 0"),
    ("url, store, scale=2", "UsageError", "scale is 2 of features as stored; dtype='float32' makes them floats"),
    ("url, store, pull='index', first_index=2**62", "UsageError", "first_index is 4611686018427387904; batches are numbered from 0"),
    ("url, store, patience=float('nan')", "UsageError", "patience is nan; give a finite number above 0"),
    ("url, store, shape=('28', 28)", "UsageError", "shape is '28'"),
    ("url, store, shape=784.0", "UsageError", "shape is 784.0"),
    ("url, store, shape=(784, *[1] * 16)", "UsageError", "17 dimensions; at most 16"),
    ("url, store, mean='abc'", "UsageError", "mean is 'abc'; give a number, or one for each"),
    ("url, store, std=[[1, 2], [3, 4]]", "UsageError", "std is [[1, 2], [3, 4]]; give a number"),
    ("url, store, device=0", "UsageError", "device is 0; give a str"),
    ("url, store, recipe={}", "UsageError", "recipe is {}; give a str"),
    ("url, store, pull=['index']", "UsageError", "pull is ['index']; 'lease', 'index', 'draw'"),
    ("url, 5", "UsageError", "store is 5; give a path"),
    ("url, store, patience=-1", "UsageError", "above 0, or None for no limit"),
    ("None, store", "UsageError", "sampler is None; give a URL, or what tombola.serve() returned"),
    ("url, store, rank=2, world=2", "UsageError", "rank 2 of 2"),
    ("url, store, world=2", "UsageError", "rank and world are None and 2; both are given, or neither"),
    ("url, store, rank=0", "UsageError", "rank and world are 0 and None"),
    ("url, store, parts=2", "UsageError", "part and parts are None and 2"),
    ("url, store, first_index=5", "UsageError", 'first_index is for pull="index"'),
    ("url, store, worker='a b'", "UsageError", "[A-Za-z0-9._:-]"),
    ("url", "UsageError", "store is not given"),
    ("url, store, state={'tombola': {}}", "tombola.InputError", "the state"),
    ("'http://127.0.0.1:1', store, patience=0.05", "SamplerError", "Failed to connect"),
    ("url, store, stream='none'", "NotFoundError", "none"),
])
def test_errors_say_what_is_wrong(program, options, kind, says):
    program(f"""
try:
    next(iter(tombola.Loader({options})))
except {kind if kind == 'ValueError' or '.' in kind else 'tombola.' + kind} as error:
    assert {says!r} in str(error), error
else:
    raise AssertionError("it works")
""")


def test_a_library_that_does_not_start_is_not_called_missing(program, tmp_path):
    for at, (lines, says) in enumerate([("raise ImportError('libx.so is not found')", "libx.so is not found"), ("import other", "No module named 'other'"),
                                        (None, "output='cupy' needs cupy: pip install cupy-cuda12x")]):
        (tmp_path / f"{at}").mkdir()
        if lines:
            (tmp_path / f"{at}" / "cupy.py").write_text(lines)
        program("""
sys.path.insert(0, os.environ["FOLDER"])
try:
    tombola.Loader(url, store, output="cupy")
    raise AssertionError("it is taken")
except ImportError as error:
    assert str(error) == os.environ["SAYS"], error
""", FOLDER=str(tmp_path / f"{at}"), SAYS=says)


def test_options_may_be_of_other_types(program):
    """Integers of NumPy, paths as bytes, a patience of ages."""
    program("""
for words in ({"shape": np.int64(784)}, {"shape": np.array([28, 28])}, {"shape": (28, 28, *[1] * 14)}, {"patience": 1e300},
              {"batch_size": np.int32(100), "epochs": np.uint8(1)}, {"store": os.fsencode(store)}, {"dtype": "float32", "scale": np.float32(2)}, {"mean": np.array(0.5), "std": np.float32(2)}):
    with tombola.Loader(**{"sampler": url, "store": store, **words}) as loader:
        assert len(next(iter(loader))[0]) == 100, words
""")


@pytest.mark.parametrize("call, kind, says", [
    ("loader.state_dict()", "tombola.UsageError", 'a state is for pull="index"'),
    ("pickle.dumps(loader)", "TypeError", "neither copied nor pickled"),
    ("copy.copy(loader)", "TypeError", "open one in each"),
    ("next(iter(tombola.Loader(url, store, output=lambda array: array.__dlpack__(dl_device=1))))", "TypeError", "2-item"),
    ("tombola.Loader(url, store, pull='lease', rank=1, world=2)", "tombola.UsageError", 'pull="index"'),
    ("tombola.Loader(url, store, pull='index', worker='w')", "tombola.UsageError", 'pull="lease"'),
    ("list(tombola.Loader(*sys.argv[3:]))", "tombola.InputError", '(bad_rows="skip" goes on without such rows)'),
])
def test_errors_speak_of_python(program, sampler, tmp_path, call, kind, says):
    """Not of C's functions and options, nor of options of programs."""
    (tmp_path / "t.csv").write_text("label,a,b\n0,1,2\n1,,4\n")
    broken = f"csv:{tmp_path}/t.csv"
    program(f"""
import copy, pickle
sys.argv[3:] = {sampler("--store", broken).url!r}, {broken!r}
loader = tombola.Loader(url, store)
try:
    {call}
except {kind} as error:
    assert {says!r} in str(error) and "tombola_" not in str(error).lower() and "--" not in str(error), error
else:
    raise AssertionError("it works")
""")


def test_a_loader_that_is_closed_says_so(program):
    program("""
loader = tombola.Loader(url, store, pull="index")
loader.close()
loader.close()
loader.interrupt()
for call in (lambda: next(iter(loader)), loader.state_dict):
    try:
        call()
    except tombola.UsageError as error:
        assert "closed" in str(error)
    else:
        raise AssertionError("it works")
assert loader.stats()["batches"] == 0
loader = tombola.Loader(url, store)
next(iter(loader))
loader.close()
assert loader.stats()["batches"] == 1, "as it was"
""")


def test_a_loader_that_is_closed_in_a_loop_leaves_what_it_fetched_ahead(program):
    """Only the loop's current batch stays its own, for as long as there is the loop."""
    program("""
import threading
closed, other = tombola.Loader(url, store), tombola.Loader(url, store)
loop = iter(closed)
first = next(loop)[0].tolist()
closed.close()
timer = threading.Timer(60, other.interrupt)
timer.start()
rest = iter(other)
ids = [id for batch in range(19) for id in next(rest)[0].tolist()]
assert sorted(first + ids) == list(range(2000))
del loop
timer.cancel()
""", "--lease", 1, "--epochs", 1)


def test_a_process_of_multiprocessing_gives_its_leases_back(program):
    """It ends without atexit: what it trained is acked, what it fetched ahead is lent to others at once."""
    program("""
import multiprocessing

code = {"tombola": tombola, "words": (url, store)}  # of no module
exec("def opened(): return tombola.Loader(*words, batch_size=50)", code)

def child(fails):
    loop = iter(code["opened"]())
    for _ in range(3):
        next(loop)
    multiprocessing.current_process().loop = loop  # it lasts as long as the process
    if fails:
        raise KeyError

for fails, right in ((False, 3), (True, 5)):
    one = multiprocessing.get_context("fork").Process(target=child, args=(fails,))
    one.start()
    one.join()
    now = status(url)
    assert (now["leased"], now["acked"]) == (0, right), now
assert sum(len(ids) for ids, _, _ in tombola.Loader(url, store, batch_size=50)) == 2000 - 5 * 50
""", "--epochs", 1, "--lease", 600, by=run)


def test_nothing_grows(program):
    """Descriptors, threads and memory over thousands of batches, and over loaders that come and go."""
    program("""
def now():
    resident = int(open("/proc/self/statm").read().split()[1]) * 4096
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), resident

def work():
    for _ in range(5):
        for ids, labels, x in tombola.Loader(url, store, batch_size=100):
            pass
    loader = tombola.Loader(url, store, batch_size=10)
    for _ in range(20):
        for ids, labels, x in loader:
            pass
    loader.close()

for _ in range(3):
    work()
before = now()
for _ in range(4):
    work()
after = now()
assert after[0] <= before[0] and after[1] <= before[1] + 1, (before, after)
assert after[2] < before[2] + (8 << 20), (before, after)
""", by=run)


def test_acks_keep_up(program):
    """However small and fast batches are: those not acked at the end of a program come again."""
    program("""
loader = tombola.Loader(url, store, batch_size=1, epochs=0)
for number, batch in enumerate(loader, 1):
    if number == 150000:
        break
now = status(url)
assert now["leased"] < 150000 / 4, now
""")


# ---- the package --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wheel(package, tmp_path_factory):  # noqa: F811
    """As pip makes it of the tree."""
    folder = tmp_path_factory.mktemp("wheel")
    env = environment({"TOMBOLA_BUILD": os.fspath(BUILD)})
    with open(SOURCES / "setup.py", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # it builds in the folder of the sources, as another worker's pip does
        subprocess.run([PYTHON, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index", "-w", folder, SOURCES], check=True,
                       env=env, capture_output=True, timeout=PATIENCE_S)
        for name in os.listdir(SOURCES):
            if name == "build" or name.endswith(".egg-info"):
                shutil.rmtree(SOURCES / name)
    return next(folder.glob("tombola-*.whl"))


def check_wheel(wheel, demo, folder):
    """It works in an environment of its own, without the tree."""
    venv = folder / "venv"
    subprocess.run([PYTHON, "-m", "venv", "--system-site-packages", "--without-pip", venv], check=True, timeout=PATIENCE_S)
    subprocess.run([venv / "bin" / "python", "-m", "pip", "install", "--no-index", "--no-deps", wheel], check=True, capture_output=True, timeout=PATIENCE_S)
    script = """
import tombola, sys
assert tombola.__file__.startswith(sys.prefix), tombola.__file__
with tombola.serve(sys.argv[1], label=0, header="no") as server, tombola.Loader(server) as loader:
    print(sum(len(ids) for ids, labels, x in loader), tombola.__version__)
"""
    done = subprocess.run([venv / "bin" / "python", "-c", script, f"{demo}/mnist_train.csv"], env={"PATH": "/usr/bin:/bin"}, cwd=folder,
                          capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0 and done.stdout.startswith("2000 "), done.stderr


def test_a_wheel_in_a_clean_environment(wheel, demo, tmp_path):
    names = zipfile.ZipFile(wheel).namelist()
    assert {"tombola/py.typed", "tombola/_core.pyi", "tombola/libtombola.so.0", "tombola/bin/tombola-sampler"} <= set(names)
    assert not [name for name in names if name.endswith((".c", ".h"))]
    check_wheel(wheel, demo, tmp_path)


def test_a_package_of_a_build_that_is_older_than_its_sources(tmp_path):
    """It takes along what make makes of them, and not what an earlier make has left."""
    for name in ("loader/.libs/libtombola.so.0", "sampler/tombola-sampler"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("old")
    (tmp_path / "Makefile").write_text("all:\n\tfor file in loader/.libs/* sampler/*; do echo new >$$file; done\n")
    subprocess.run([PYTHON, "setup.py", "-q", "build_py", "--build-lib", tmp_path / "lib"], cwd=SOURCES, check=True, timeout=PATIENCE_S,
                   env=environment({"TOMBOLA_BUILD": os.fspath(tmp_path)}), capture_output=True)
    taken = tmp_path / "lib" / "tombola"
    assert (taken / "libtombola.so.0").read_text() == (taken / "bin" / "tombola-sampler").read_text() == "new\n"


def test_no_source_distribution_that_cannot_be_built(tmp_path):
    done = subprocess.run([PYTHON, "setup.py", "-q", "egg_info", "--egg-base", tmp_path, "sdist", "--dist-dir", tmp_path], cwd=SOURCES,
                          capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 1 and "make dist" in done.stderr and not list(tmp_path.glob("*.tar.gz")), done.stderr


def test_a_wheel_for_other_machines(wheel, demo, tmp_path):
    """It takes all libraries along that not every Linux has."""
    tool = from_pypi("auditwheel")
    subprocess.run([tool / "bin" / "auditwheel", "repair", "-w", tmp_path, wheel], check=True, capture_output=True, timeout=PATIENCE_S,
                   env={**os.environ, "PATH": f"{tool}/bin:{os.environ['PATH']}"})
    repaired, = tmp_path.glob("tombola-*manylinux*.whl")
    names = " ".join(zipfile.ZipFile(repaired).namelist())
    assert "tombola.libs/libcurl" in names and "tombola.libs/libsqlite3" in names
    check_wheel(repaired, demo, tmp_path)


def test_types_are_right(tmp_path):
    """Of the package, and of a program whose numbers are not Python's own, as those of NumPy are not."""
    (tmp_path / "program.py").write_text("""
import tombola

class Scalar:
    def __index__(self) -> int:
        return 1

    def __float__(self) -> float:
        return 1.0

one = Scalar()
tombola.Loader("url", "store", one, dtype="float32", scale=one, mean=one, std=[one], shape=one, rank=one, world=one, cache=one, epochs=one)
""")
    done = subprocess.run(["mypy", "--strict", "--ignore-missing-imports", "--cache-dir=/dev/null", "tombola", tmp_path / "program.py"], cwd=SOURCES,
                          capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout


def check_examples(package, demo, folder, least, imports, python=PYTHON):
    """The README's blocks of Python that import this library, or none, each as a program in a folder with train.csv."""
    header = "species," + ",".join(f"p{i}" for i in range(784)) + "\n"
    (folder / "train.csv").write_text(header + (demo / "mnist_train.csv").read_text())
    blocks = re.findall(r"```python\n(.*?)```", (SOURCES / "README.md").read_text(), re.S)
    chosen = [block for block in blocks if (re.findall(r"^import (torch|jax)$", block, re.M) or [None]) == [imports]]
    assert len(chosen) >= least
    for at, block in enumerate(chosen):
        (folder / f"example{at}.py").write_text(block)
        done = subprocess.run([python, f"example{at}.py"], cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
                              env=environment({"PYTHONPATH": os.fspath(package), "MASTER_PORT": str(free_port())}))
        assert done.returncode == 0, f"{block}\n{done.stderr}"


def test_the_examples_of_the_readme(package, demo, tmp_path):  # noqa: F811
    check_examples(package, demo, tmp_path, 4, None)


def test_the_log_has_levels(package, tmp_path):  # noqa: F811
    (tmp_path / "train.csv").write_text("label,a\n0,1\n1,x\n")
    run(package, """
import os, sys, tombola
os.chdir(sys.argv[1])
log = os.open("log", os.O_RDWR | os.O_CREAT | os.O_APPEND)
console = os.dup(2)
with tombola.serve("train.csv") as server:
    for level, tells in ((None, True), (3, False), (2, True)):
        os.ftruncate(log, 0)
        os.dup2(log, 2)
        if level is not None:
            tombola.log_level(level)
        with tombola.Loader(server, pull="index", bad_rows="skip") as loader:
            assert sum(len(ids) for ids, labels, x in loader) == 1
        os.dup2(console, 2)
        with open("log") as file:
            assert ("the row is skipped" in file.read()) == tells, level
""", tmp_path)


# ---- torch --------------------------------------------------------------------------------------------------

TORCH = """
import sys, torch, tombola, tombola.torch
from torch.utils.data import DataLoader
url, store = sys.argv[1:3]
torch.set_num_threads(1)
"""


def test_torch_tensors(package, sampler, demo_database):  # noqa: F811
    run(package, TORCH + """
loader = tombola.Loader(url, store, output="torch", dtype="float32", shape=(1, 28, 28))
for epoch in range(2):
    seen = []
    for ids, labels, x in loader:
        assert x.dtype == torch.float32 and x.shape == (100, 1, 28, 28) and labels.dtype == ids.dtype == torch.int64
        assert 0.9 < x.max() <= 1
        seen += ids.tolist()
    assert sorted(seen) == list(range(2000))
""", sampler("--store", demo_database).url, demo_database, python=python_with("torch"))


def test_torch_tensors_of_integers(package, tokens):  # noqa: F811
    fork(package, TORCH + TOKENS + 'check(tombola.Loader(url, store, output="torch"), torch.int32)', *tokens, imports="torch")


@pytest.mark.parametrize("pull, workers", [("lease", 0), ("lease", 2), ("index", 0), ("index", 2), ("draw", 2)])
def test_a_data_loader_with_workers(package, sampler, demo_database, workers, pull):  # noqa: F811
    fork(package, TORCH + """
workers, pull = int(sys.argv[3]), sys.argv[4]
dataset = tombola.torch.Dataset(url, store, batch_size=50, pull=pull, epochs=0)
seen = []
for ids, labels, x in DataLoader(dataset, batch_size=None, num_workers=workers):
    seen += ids.tolist()
assert sorted(seen) == sorted(2 * list(range(2000)))
""", sampler("--store", demo_database, "--epochs", 2).url, demo_database, workers, pull, imports="torch")


@pytest.mark.parametrize("pull, stay", [("lease", False), ("lease", True), ("index", True)])
def test_a_loop_of_a_data_loader_is_an_epoch(package, sampler, demo_database, pull, stay):  # noqa: F811
    """What workers that do not stay had fetched ahead comes in the next loop, not when its lease is over."""
    fork(package, TORCH + """
dataset = tombola.torch.Dataset(url, store, batch_size=49, pull=sys.argv[3])  # 41 batches an epoch, 123 in all
loader = DataLoader(dataset, batch_size=None, num_workers=4, persistent_workers=sys.argv[4] == "True")
for epoch in range(3):
    seen = [row for ids, labels, x in loader for row in ids.tolist()]
    assert sorted(seen) == list(range(2000)), (epoch, len(seen))
""", sampler("--store", demo_database, "--epochs", 3, "--lease", 600).url, demo_database, pull, stay, imports="torch")


def test_the_length_of_a_data_loader(package, sampler, demo_database):  # noqa: F811
    """PyTorch warns of a wrong one."""
    fork(package, TORCH + """
import warnings
warnings.simplefilter("error")
for workers, world in ((0, 1), (0, 3), (2, 1), (2, 3)):
    dataset = tombola.torch.Dataset(url, store, batch_size=49, pull="index", world=world, rank=0)
    loader = DataLoader(dataset, batch_size=None, num_workers=workers, persistent_workers=workers > 0)
    for epoch in range(3):
        try:
            wanted = len(loader)
        except TypeError as error:
            assert workers > 0 and world > 1 and epoch > 0 and "may differ" in str(error), error
            wanted = None
        seen = len(list(loader))
        assert wanted in (seen, None), (workers, world, epoch, wanted, seen)
    del loader
dataset = tombola.torch.Dataset(url, store)
assert dataset
try:
    len(dataset)
except TypeError as error:
    assert 'pull="index"' in str(error)
else:
    raise AssertionError("others may draw from it")
""", sampler("--store", demo_database, "--epochs", 3).url, demo_database, imports="torch")


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("workers", [0, 1])
def test_a_data_loader_that_makes_batches_of_batches(package, sampler, demo_database, size, workers):  # noqa: F811
    fork(package, TORCH + """
size = int(sys.argv[3])
dataset = tombola.torch.Dataset(url, store, batch_size=50, pull="index")
try:
    next(iter(DataLoader(dataset, batch_size=size, num_workers=int(sys.argv[4]))))
except tombola.UsageError as error:
    assert f"batch_size={size}" in str(error) and "batch_size=None" in str(error), error
else:
    raise AssertionError("it makes one")
first = next(iter(DataLoader(dataset, batch_size=size, collate_fn=lambda batches: batches)))
assert [len(ids) for ids, _, _ in first] == [50] * size, "as one asks for"
""", sampler("--store", demo_database).url, demo_database, size, workers, imports="torch")


@pytest.mark.parametrize("pull, start", [("index", "fork"), ("index", "spawn"), ("index", "forkserver"), ("draw", "fork")])
def test_a_second_loop_of_a_data_loader_with_new_workers_is_refused(package, sampler, demo_database, pull, start):  # noqa: F811
    """It would be the first one again, or lack rows; a state is another beginning, and so is another Dataset. A worker of a loop that
    is garbage may fail while it starts, or be aborted as it ends: torch would report that to whatever loop comes then. One that is
    spawned imports torch for three seconds: two only in the first loop, where both must know that it is one."""
    fork(package, TORCH + """
import torch.utils.data._utils.signal_handling
torch.utils.data._utils.signal_handling._SIGCHLD_handler_set = True  # so that it sets none
pull, start = sys.argv[3:]
few = 1 if start == "spawn" else 2
torch.multiprocessing.set_forkserver_preload(["torch.utils.data"])

def loader_of(dataset, workers=few):
    return DataLoader(dataset, batch_size=None, num_workers=workers, multiprocessing_context=start)

def rows_of(loader):
    return sorted(row for ids, labels, x in loader for row in ids.tolist())

if __name__ == "__main__":
    dataset = tombola.torch.Dataset(url, store, batch_size=50, pull=pull)
    loader = loader_of(dataset, 2)
    for step, batch in enumerate(loader):
        if step == 3:
            break  # a loop none the less
    for again in (loader, loader_of(dataset))[-few:]:
        try:
            next(iter(again))
        except tombola.UsageError as error:
            assert "persistent_workers=True" in str(error) and "next epoch" in str(error), error
        else:
            raise AssertionError("a second loop")
    if pull == "index":
        assert rows_of(loader_of(tombola.torch.Dataset(url, store, batch_size=50, pull=pull))) == list(range(2000))
        begun = tombola.Loader(url, store, batch_size=50, pull=pull)
        first = set(next(iter(begun))[0].tolist())
        state = begun.state_dict()
        for _ in range(few):
            dataset.load_state_dict(state)
            assert rows_of(loader_of(dataset)) == sorted(set(range(2000)) - first)
""", sampler("--store", demo_database, "--epochs", 2).url, demo_database, pull, start, imports="torch")


@pytest.mark.parametrize("options, by", [
    ({"rank": None, "world": None}, "lease"), ({"pull": None, "state": None}, "lease"), ({"pull": "lease", "rank": None}, "lease"),
    ({"part": 1, "parts": 2}, "index"), ({"part": 1, "parts": 2, "pull": "index"}, "index")])
def test_a_dataset_of_torch_pulls_as_a_loader_with_its_options(package, sampler, demo_database, options, by):  # noqa: F811
    """An option that is None is not given; workers divide what is a part already."""
    fork(package, TORCH + f"""
options = {options!r}
dataset = tombola.torch.Dataset(url, store, batch_size=50, **options)
one = tombola.Loader(url, store, batch_size=50, pull="index", part=options.get("part", 0), parts=options.get("parts", 1))
right = [row for ids, _, _ in one for row in ids.tolist()]
loader = DataLoader(dataset, batch_size=None, num_workers=2)
assert sorted(row for ids, _, _ in loader for row in ids.tolist()) == sorted(right)
try:
    again = [row for ids, _, _ in loader for row in ids.tolist()]
except tombola.UsageError as error:
    assert {by!r} == "index" and "second loop" in str(error), error
else:
    assert {by!r} == "lease" and sorted(again) == sorted(right)
""", sampler("--store", demo_database, "--epochs", 2).url, demo_database, imports="torch")


def test_a_dataset_of_torch_that_was_looked_at_before_its_workers_began(package, sampler, demo_database):  # noqa: F811
    """By index they begin anew; otherwise the loader in the main process has batches that would be missing. Their state is not its."""
    fork(package, TORCH + """
for pull in ("index", "lease"):
    dataset = tombola.torch.Dataset(url, store, batch_size=50, pull=pull)
    assert len(next(iter(dataset))[0]) == 50
    loader = DataLoader(dataset, batch_size=None, num_workers=2, multiprocessing_context="fork")
    try:
        seen = sorted(row for ids, _, _ in loader for row in ids.tolist())
    except tombola.UsageError as error:
        assert pull == "lease" and "a new Dataset" in str(error), error
    else:
        assert pull == "index" and seen == list(range(2000))
dataset = tombola.torch.Dataset(url, store, batch_size=50, pull="index")
assert dataset.state_dict() is None
next(iter(DataLoader(dataset, batch_size=None, num_workers=2)))
try:
    dataset.state_dict()
except tombola.UsageError as error:
    assert "StatefulDataLoader" in str(error), error
else:
    raise AssertionError("a state of nothing")
""", sampler("--store", demo_database, "--epochs", 2).url, demo_database, imports="torch")


def test_ranks_of_torch_that_were_given_a_dataset_have_loops_of_their_own(package, sampler, demo_database):  # noqa: F811
    fork(package, TORCH + """
import torch.multiprocessing

def train(rank, dataset):
    torch.manual_seed(rank)  # which loops are known by
    loader = DataLoader(dataset, batch_size=None, num_workers=1, multiprocessing_context="spawn")
    assert sorted(row for ids, labels, x in loader for row in ids.tolist()) == list(range(2000))

if __name__ == "__main__":
    dataset = tombola.torch.Dataset(url, store, batch_size=50, pull="index")
    torch.multiprocessing.start_processes(train, (dataset,), nprocs=2, start_method="fork")
""", sampler("--store", demo_database, "--epochs", 2).url, demo_database, imports="torch")


def test_the_examples_with_torch(package, demo, tmp_path):  # noqa: F811
    check_examples(package, demo, tmp_path, 2, "torch", python_with("torch"))


# ---- JAX ----------------------------------------------------------------------------------------------------


@pytest.fixture
def jax():
    """A Python that has JAX, which takes longer to install than all tests of this file."""
    return from_pypi("jax") / "bin" / "python" if LONG else python_with("jax")


def test_jax_arrays(package, sampler, demo_database, jax):  # noqa: F811
    """They stay what they are while later batches come."""
    run(package, """
import sys, jax, numpy, tombola
loader = tombola.Loader(*sys.argv[1:], output="jax", dtype="float32", shape=(28, 28, 1))
total = jax.jit(lambda x: x.sum(axis=(1, 2, 3)))
for epoch in range(2):
    kept = []
    for ids, labels, x in loader:
        assert all(isinstance(each, jax.Array) for each in (ids, labels, x)) and x.shape == (100, 28, 28, 1)
        kept.append((ids, x, numpy.array(total(x))))
    assert sorted(numpy.concatenate([ids for ids, _, _ in kept])) == list(range(2000))
    assert all((numpy.array(total(x)) == then).all() for _, x, then in kept)
""", sampler("--store", demo_database).url, demo_database, python=jax)


@pytest.mark.parametrize("dtype", [None, "float32"])
@pytest.mark.parametrize("copy", [False, True])
def test_jax_copies_nothing(package, sampler, demo_database, jax, dtype, copy):  # noqa: F811
    """It does where memory is not aligned as it wants."""
    run(package, f"dtype, copy = {dtype!r}, {copy}" + """
import sys, jax, numpy, tombola

def both(array):
    return jax.numpy.from_dlpack(array), numpy.asarray(array)

rows = tombola.Loader(*sys.argv[1:], output=both, dtype=dtype, copy=copy, batch_size=7, label_dtype="float32")
for ids, labels, x in rows:
    for made, array in (labels, x):
        assert made.unsafe_buffer_pointer() == array.ctypes.data, array.ctypes.data
""", sampler("--store", demo_database).url, demo_database, python=jax)


def test_the_examples_with_jax(package, demo, tmp_path, jax):  # noqa: F811
    check_examples(package, demo, tmp_path, 1, "jax", jax)


LARGE = """
import sys, jax, tombola
jax.config.update("jax_enable_x64", sys.argv.pop(1) == "64")
for ids, labels, x in tombola.Loader(*sys.argv[1:], output="jax"):
    print(*map(int, ids), *map(int, labels))
"""


@pytest.mark.parametrize("large", ["5000000000,1", "5,7000000000"])
def test_jax_and_what_takes_more_than_32_bits(package, sampler, tmp_path, jax, large):  # noqa: F811
    (tmp_path / "rows.csv").write_text(f"id,label,x\n{large},3\n")
    store = f"csv:{tmp_path}/rows.csv?id=id&label=label"
    url = sampler("--store", store).url
    with pytest.raises(AssertionError, match=r"UsageError: .000000000 does not fit the 32 bits .*jax_enable_x64"):
        run(package, LARGE, "32", url, store, python=jax)
    assert run(package, LARGE, "64", url, store, python=jax).split() == large.split(",")
