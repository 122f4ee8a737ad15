# SPDX-License-Identifier: MIT
"""Parquet files as a store, as pyarrow writes them: the same rows as CSV of the same table, or a clear error.

Arrow is pyarrow's, from PyPI, and so is the module that these tests load, however the build was configured.
"""

import hashlib
import json
import os
import random
import shutil
import subprocess

import pytest

from conftest import PATIENCE_S, ROOT, SANITIZED, SEED, from_pypi, peak_kib, run, run_fails
from python_package import package, run as run_python  # noqa: F401, a fixture

SOURCE = [ROOT / "loader/parquet" / name for name in ("parquet_module.cc", "parquet_module.h", "arrow_interface.h")]


@pytest.fixture(scope="module")
def module():
    """The environment in which programs find the module; made once of each state of its sources."""
    tool = from_pypi("pyarrow")
    arrow = next(tool.glob("lib/python3*/site-packages/pyarrow"))
    made = tool / f"module-{hashlib.sha256(b''.join(path.read_bytes() for path in SOURCE)).hexdigest()[:16]}.so"
    if not made.exists():
        aside = made.with_suffix(f".{os.getpid()}")
        libraries = [*arrow.glob("libparquet.so.*00"), *arrow.glob("libarrow.so.*00")]
        subprocess.run(["g++", "-std=c++20", "-O1", "-shared", "-fPIC", "-I", ROOT, "-isystem", arrow / "include", "-o", aside,
                        SOURCE[0], *libraries, f"-Wl,-rpath,{arrow}"], check=True, timeout=PATIENCE_S)
        aside.rename(made)
    return {"TOMBOLA_PARQUET_MODULE": str(made)}


@pytest.fixture(scope="module")
def files(module, tmp_path_factory):
    folder = tmp_path_factory.mktemp("parquet")
    python = from_pypi("pyarrow") / "bin/python"
    subprocess.run([python, ROOT / "tests/service/parquet_files.py", folder], check=True, timeout=PATIENCE_S)
    return folder


@pytest.fixture
def info(module):
    def get(uri, **more):
        return json.loads(run("loader", "info", uri, "--json", "--verify", env=module, **more).stdout)
    return get


# ---- the same rows as CSV ----------------------------------------------------------------------------

ROLES = "weight=w&group=g"


def test_the_same_rows_however_they_are_written(files, info):
    csv = info(f"csv:{files}/forms.csv?{ROLES}")
    written = sorted(files.glob("forms*.parquet"))
    assert len(written) == 20
    for path in written:
        found = info(f"parquet:{path}?{ROLES}")
        assert {**found, "store": ""} == {**csv, "store": ""}, path.name


def test_a_folder_and_a_pattern_of_files(files, info):
    csv = info(f"csv:{files}/forms.csv?{ROLES}")
    for uri in (f"parquet:{files}/parts?{ROLES}", f"parquet:{files}/parts/part-*.parquet?{ROLES}"):
        assert {**info(uri), "store": ""} == {**csv, "store": ""}


@pytest.mark.parametrize("name", [
    "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64", "small", "decimal", "huge",
    "short", "texts", "half", "boolean", "whole32"])
def test_each_type_is_what_csv_makes_of_it(files, info, name):
    csv = info(files / f"type-{name}.csv")
    assert {**info(files / f"type-{name}.parquet"), "store": ""} == {**csv, "store": ""}
    assert csv["element"] == ("u8" if name in ("uint8", "small", "boolean") else "f32")


def test_features_of_one_column(files, info):
    csv = info(files / "several.csv")
    paths = sorted(files.glob("several-*.parquet"))
    assert len(paths) == 7
    for path in paths:
        binary = path.stem.endswith("binary")
        found = info(f"parquet:{path}?element=u8" if binary else path)
        assert (found["digest"], found["rows"], found["element"]) == (csv["digest"], 200, "u8")
        assert found["columns"] == ([str(i) for i in range(6)] if binary else csv["columns"])


def test_columns_are_chosen(files, info):
    assert info(f"parquet:{files}/date.parquet?features=y")["columns"] == ["y"]
    assert info(f"parquet:{files}/forms.parquet?label=g&features=B,a&id=")["columns"] == ["a", "b"]
    assert info(files / "index.parquet")["columns"] == ["x"]
    assert info(f"parquet:{files}/index.parquet?id=__index_level_0__")["id_column"] == "__index_level_0__"


# ---- rows that differ in length ----------------------------------------------------------------------


def lengths_uri(path):
    element = "&element=f32" if "floats-binary" in path.name else ""
    return f"parquet:{path}?longest=any&group=g{element}"


def test_rows_of_any_length_however_they_are_written(files, info):
    written = sorted([*files.glob("lengths-*.parquet"), files / "lengths"])
    assert len(written) == 18
    csv = {name: info(f"csv:{files}/{name}.csv?longest=any&group=g") for name in ("lengths", "lengths-floats")}
    assert csv["lengths"]["element"] == "u8" and csv["lengths-floats"]["element"] == "f32"
    assert all(facts["longest"] == facts["features"] == 40 and facts["columns"] == [] for facts in csv.values())
    for path in written:
        found = info(lengths_uri(path))
        assert {**found, "store": ""} == {**csv["lengths-floats" if "floats" in path.name else "lengths"], "store": ""}, path.name


def test_rows_of_one_length_may_have_any(files, info):
    csv = info(f"csv:{files}/several.csv?longest=any")
    for path in sorted(files.glob("several-*.parquet")):
        assert {**info(f"parquet:{path}?longest=any"), "store": ""} == {**csv, "store": ""}


def test_integers_of_32_bits_however_they_are_written(files, module, info, sampler, tmp_path):
    csv = info(f"csv:{files}/tokens.csv?longest=any&element=i32")
    written = sorted(files.glob("tokens-*.parquet"))
    assert csv["element"] == "i32" and len(written) == 5
    server = sampler("--store", f"csv:{files}/tokens.csv?longest=any", "--seed", SEED, "--epochs", 1)
    pull = ["loader", "pull", "--sampler", server.url, "--size", 32, "--index", 0, "--store"]
    pulled = {run(*pull, f"csv:{files}/tokens.csv?longest=any&element=i32").stdout}
    for path in written:
        uri = f"parquet:{path}?longest=any&element=i32"
        assert {**info(uri), "store": ""} == {**csv, "store": ""}, path.name
        pulled.add(run(*pull, uri, env=module).stdout)
    run("loader", "import", uri, tmp_path / "x.rows", env=module)
    assert len(pulled) == 1 and info(tmp_path / "x.rows")["digest"] == csv["digest"]
    wholes = [info(f"{kind}:{files}/wholes.{kind}?element=i32") for kind in ("csv", "parquet")]
    assert wholes[0]["digest"] == wholes[1]["digest"] and wholes[1]["element"] == "i32"
    assert info(files / "wholes.parquet")["element"] == "f32"


@pytest.mark.parametrize("name", ["list", "large", "binary"])
def test_rows_of_no_features_at_all(files, info, name):
    assert {**info(f"parquet:{files}/nothing-{name}.parquet?longest=any"), "store": ""} == {
        **info(f"csv:{files}/nothing.csv?longest=any"), "store": ""}


def test_a_limit_is_how_wide_batches_are(files, module, info, tmp_path):
    for limit in (40, 64):
        found = info(f"parquet:{files}/lengths-i32.parquet?longest={limit}&features=x")
        assert (found["features"], found["longest"], found["limit"]) == (limit, 40, limit)
    for name in ("i32", "binary"):
        uri = f"parquet:{files}/lengths-{name}.parquet?longest=39&features=x"
        run_fails("loader", "import", uri, tmp_path / "x.rows", env=module, status=2, says=[
            f"lengths-{name}.parquet, row ", "the row has 40 features, and longest=39 allows 39; longest=40 or longest=any"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form, kind", [("u8", "lengths"), ("large", "lengths"), ("binary", "lengths"), ("floats-f32", "lengths-floats")])
def test_batches_of_any_length_are_those_of_csv_and_sqlite(files, module, sampler, tmp_path, form, kind):
    """Rows at random, over many row groups; directly, from memory, from a file, and cut by length."""
    csv, uri = f"csv:{files}/{kind}.csv?longest=any&group=g", lengths_uri(files / f"lengths-{form}.parquet")
    for made, source in {"x.sqlite": csv, "x.rows": uri, "again.sqlite": uri}.items():
        run("loader", "import", source, tmp_path / made, env=module)
    server = sampler("--store", uri, "--seed", SEED, "--epochs", 1, env=module)
    stores = [csv, uri, *(str(tmp_path / made) for made in ("x.sqlite", "x.rows", "again.sqlite"))]
    for size, more in [(32, []), (32, ["--cache-bytes", 0]), (7, ["--cache-bytes", 500]), (32, ["--cache", tmp_path / "kept"]),
                       (32, ["--cache", tmp_path / "kept"]), (16, ["--bucket-window", 4, "--cache-bytes", 0])]:
        pull = ["loader", "pull", "--sampler", server.url, "--size", size, "--index", 0, *more]
        pulled = {run(*pull, "--store", store, env=module).stdout for store in stores}
        assert len(pulled) == 1 and pulled.pop().count("\n") == 401, more


def test_rows_of_any_length_over_many_batches_of_one_row_group(files, module, info, sampler):
    csv, uri = f"csv:{files}/many.csv?longest=any", f"parquet:{files}/many.parquet?longest=any"
    assert {**info(uri), "store": ""} == {**info(csv), "store": ""}
    server = sampler("--store", csv, "--seed", SEED)
    pull = ["loader", "pull", "--sampler", server.url, "--size", 2000, "--index", 0, "--batches", 3, "--cache-bytes", 0]
    assert run(*pull, "--store", uri, env=module).stdout == run(*pull, "--store", csv).stdout


def test_a_frame_of_rows_of_any_length_is_that_of_csv(files, module, tmp_path):
    for uri in (f"csv:{files}/lengths.csv?longest=any&group=g", lengths_uri(files / "lengths-i32.parquet")):
        run("sampler", "build", "--store", uri, "--out", tmp_path / uri[:3], env=module)
    assert (tmp_path / "par").read_bytes() == (tmp_path / "csv").read_bytes()


@pytest.mark.plain
def test_memory_holds_a_batch_however_well_pages_encode_it(files, module):
    """160 MB of zeros, and 200 MB of bytes, each in a file of some kilobytes and one row group."""
    if SANITIZED:
        pytest.skip("a sanitizer has its own idea of memory")
    for name in ("zeros", "same-bytes"):
        assert (files / f"{name}.parquet").stat().st_size < 10**5
        assert peak_kib("loader", "info", f"parquet:{files}/{name}.parquet?longest=any", env=module) < 130_000, name


# ---- what is refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name, query, says", [
    ("empty", "", "has no rows"),
    ("null-feature", "", 'row 1: column "x" is null; a number belongs there'),
    ("null-label", "", 'row 1: column "label" is null; a label belongs there'),
    ("null-id", "", 'row 1: column "id" is null; an id from 0'),
    ("null-item", "", 'row 1: item 1 of column "x" is null; a number belongs there'),
    ("null-list", "", 'row 1: column "x" is null; a list of 2 belongs there'),
    ("null-all", "", 'column "x" holds nothing but nulls'),
    ("null-type", "", 'column "x" holds nothing but nulls'),
    ("nan", "", 'row 1: column "x" is nan; a number belongs there'),
    ("too-large", "", 'row 1: column "x" is 1e+300; a number that fits 32-bit float'),
    ("nan-label", "", 'row 1: column "label" is nan; a label belongs there'),
    ("nul-label", "", 'row 1: column "label" is "b?c"; UTF-8 text without NUL belongs there'),
    ("empty-label", "", 'row 1: column "label" is ""; a label belongs there'),
    ("words", "", 'row 1: column "x" is "Rome"; a number belongs there; features=A,B,C in the URI names'),
    ("ragged", "", 'row 1: column "x" is a list of 1 item; a list of 2 belongs there; longest=any in the URI takes rows of'),
    ("ragged-empty", "", 'row 1: column "x" is a list of 1 item; a list of 0 belongs there; longest=any in the URI takes rows of'),
    ("ragged-bytes", "", 'row 1: column "x" is 3 bytes; a value of 2 bytes belongs there; longest=any in the URI takes rows of'),
    ("ragged-beside", "", "a list of 2 belongs there\n"),
    ("ragged-beside", "longest=any", "longest= is for rows whose features are one column, of lists or bytes; features=NAME"),
    ("null-feature", "longest=any", "longest= is for rows whose features are one column, of lists or bytes; features=NAME"),
    ("ragged", "longest=0", 'longest is "0", must be any, or the length of the longest row'),
    ("ragged", "longest=1", "row 0: the row has 2 features, and longest=1 allows 1; longest=2 or longest=any would take it"),
    ("null-item", "longest=any", 'row 1: item 1 of column "x" is null; a number belongs there'),
    ("nan-item", "longest=any", 'row 1: item 1 of column "x" is nan; a number belongs there'),
    ("null-list", "", "a list of 2 belongs there\n"),
    ("null-list", "longest=any", 'row 1: column "x" is null; a list belongs there'),
    ("null-all", "longest=any", 'row 0: column "x" is null; a list belongs there'),
    ("null-bytes", "", "a value of 2 bytes belongs there\n"),
    ("null-bytes", "longest=any", 'row 1: column "x" is null; a value of bytes belongs there'),
    ("nan-bytes", "longest=any&element=f32", 'row 1: column "x" is 8 bytes; a finite number (element 1 is not) belongs there'),
    ("no-floats", "longest=any&element=f32", 'row 1: column "x" is 5 bytes; a value of 32-bit floats belongs there'),
    ("looks-float-late", "longest=any", "look like 2 32-bit floats, and may be 8 integers"),
    ("two-labels", "", 'two columns are called "label"; give one another name'),
    ("two-labels", "label=x", 'two columns are called "label"; give one another name'),
    ("two-labels", "features=y", 'two columns are called "label"; give one another name'),
    ("two-features", "features=x", 'two columns are called "x"; give one another name'),
    ("item-and-column", "", 'two features are called "x.0", a list\'s item and a column'),
    ("twice", "", "the id 5 is there twice, in the rows 0 and 1"),
    ("negative-id", "", 'row 1: column "id" is -1; an id from 0'),
    ("text-id", "", 'column "id" holds texts; ids must be integers'),
    ("negative-weight", "weight=w", 'row 1: column "w" is -1; a weight'),
    ("date", "", 'column "x" holds dates; a feature must be a number'),
    ("date", "label=x", 'column "x" holds dates; a label must be'),
    ("struct", "", 'column "x" holds structs'),
    ("nested", "", 'column "x" holds lists'),
    ("bytes-beside", "", 'column "x" holds bytes, next to other features'),
    ("looks-float", "", "look like 1 32-bit floats, and may be 4 integers"),
    ("looks-integer", "", "look like 3 32-bit integers, and may be 12 integers from 0 to 255: element=i32 or element=u8"),
    ("nan", "element=u8", "element=u8 says what values of bytes hold, and the file has no single column of them"),
    ("nan", "element=u16", 'element is "u16", must be u8, f32 or i32'),
    ("not-whole", "element=i32", 'row 1: column "x" is 1.5; an integer from -2147483648 to 2147483647 (element=i32) belongs there'),
    ("words", "element=i32", 'row 1: column "x" is "Rome"; an integer from -2147483648 to 2147483647 (element=i32) belongs there\n'),
    ("beyond-i32", "longest=any&element=i32", 'row 1: item 1 of column "x" is 2147483648; an integer from -2147483648 to 2147483647'),
    ("no-integers", "longest=any&element=i32", 'row 1: column "x" is 5 bytes; a value of 32-bit integers belongs there'),
    ("nan", "label=y", 'label="y" names no column'),
    ("nan", "header=no", 'unknown parameter "header"'),
])
def test_what_is_no_row_is_named(files, module, tmp_path, name, query, says):
    uri = f"parquet:{files}/{name}.parquet" + (f"?{query}" if query else "")
    run_fails("loader", "import", uri, tmp_path / "x.rows", says=[f"{name}.parquet", says], env=module)
    assert list(tmp_path.iterdir()) == []


def test_bad_rows_are_skipped_where_that_is_asked(files, module, sampler):
    uri = f"parquet:{files}/null-feature.parquet"
    server = sampler("--store", uri, env=module)
    pull = ["loader", "pull", "--sampler", server.url, "--store", uri, "--size", 2, "--batches", 1]
    run_fails(*pull, says="is null", env=module)
    assert run(*pull, "--bad-rows", "skip", "--index", 0, env=module).stdout.splitlines()[1:] == ["0,0,1"]
    for name, left in {"null-item": "0,0,1,2", "null-bytes": "0,0,49,50"}.items():
        uri = f"parquet:{files}/{name}.parquet?longest=any"
        pull[5] = uri
        run_fails(*pull, "--index", 0, says="is null", env=module)
        assert run(*pull, "--bad-rows", "skip", "--index", 0, env=module).stdout.splitlines()[1:] == [left]


@pytest.mark.parametrize("name, element", [("null-first", "u8"), ("null-last", "f32")])
def test_a_bad_row_decides_what_it_does_in_csv(files, module, name, element):
    """What follows its first bad value decides nothing."""
    for kind in ("csv", "parquet"):
        done = run("loader", "info", f"{files}/{name}.{kind}", "--json", env=module, status=2)
        assert json.loads(done.stdout)["element"] == element, kind


def test_a_bad_row_has_no_length(files, module):
    """[[1, 2], [3, nan, 5]]"""
    done = run("loader", "info", f"parquet:{files}/nan-item.parquet?longest=any", "--json", env=module, status=2)
    facts = json.loads(done.stdout)
    assert (facts["bad_rows"], facts["longest"], facts["features"], facts["elements"]) == (1, 2, 2, 2)


# ---- imported, sampled and trained on ----------------------------------------------------------------


@pytest.mark.parametrize("made", ["x.rows", "x.sqlite"])
def test_import(files, module, info, tmp_path, made):
    run("loader", "import", f"parquet:{files}/forms.parquet?{ROLES}", tmp_path / made, env=module)
    assert info(tmp_path / made)["digest"] == info(f"csv:{files}/forms.csv?{ROLES}")["digest"]


@pytest.mark.parametrize("cache", [0, 10**8])
def test_batches_are_those_of_csv(files, module, sampler, cache):
    """Rows at random, over many row groups."""
    uri, csv = f"parquet:{files}/forms-zstd-2.0.parquet?features=a,b,c", f"csv:{files}/forms.csv?features=a,b,c"
    server = sampler("--store", uri, "--seed", SEED, env=module)
    pull = ["loader", "pull", "--sampler", server.url, "--size", 40, "--index", 0, "--batches", 12, "--cache-bytes", cache]
    assert run(*pull, "--store", uri, env=module).stdout == run(*pull, "--store", csv).stdout


@pytest.mark.parametrize("design,warns", [("sequential", False), ("srs", True)])
def test_rows_at_random_are_warned_of(files, module, sampler, design, warns):
    """Not rows in order, though each of them is in a row group of its own."""
    uri = f"parquet:{files}/forms-bare.parquet?features=a,b,c"
    server = sampler("--store", uri, "--seed", SEED, "--design", design, env=module)
    done = run("loader", "pull", "--sampler", server.url, "--size", 5, "--index", 0, "--batches", 30, "--cache-bytes", 0,
               "--fetchers", 1, "--store", uri, env=module)
    assert ("rows at random cost the decoding of whole row groups" in done.stderr) == warns, done.stderr


def test_a_frame_of_keys_is_that_of_csv(files, module, tmp_path):
    for kind in ("parquet", "csv"):
        run("sampler", "build", "--store", f"{kind}:{files}/forms.{kind}?{ROLES}", "--out", tmp_path / kind, env=module)
    assert (tmp_path / "parquet").read_bytes() == (tmp_path / "csv").read_bytes()


# ---- damage ------------------------------------------------------------------------------------------


def outcome(path, module):
    """The digest, or None where it is refused."""
    done = run("loader", "info", path, "--json", "--verify", env=module, status=None)
    if done.returncode == 0:
        return json.loads(done.stdout)["digest"]
    assert done.returncode == 2 and str(path) in done.stderr, done.stderr
    return None


def test_a_file_that_was_cut_is_refused(files, module, tmp_path):
    content = (files / "forms-snappy-1.0.parquet").read_bytes()
    for length in [0, 3, 4, 11, *random.Random(SEED).sample(range(len(content)), 12), len(content) - 1]:
        path = tmp_path / "cut.parquet"
        path.write_bytes(content[:length])
        assert outcome(path, module) is None, length


def test_flipped_bytes_never_give_other_rows(files, module, info, tmp_path):
    """With checksums of pages; behind the last page is the footer, of which a byte may be a name's."""
    content = (files / "forms-zstd-2.0.parquet").read_bytes()
    right = info(files / "forms-zstd-2.0.parquet")["digest"]
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    dice = random.Random(SEED)
    refused = 0
    for _ in range(20):
        at = dice.randrange(4, footer)
        path = tmp_path / "flipped.parquet"
        path.write_bytes(content[:at] + bytes([content[at] ^ 1 << dice.randrange(8)]) + content[at + 1:])
        found = outcome(path, module)
        assert found in (None, right), at
        refused += found is None
    assert refused > 10
    for _ in range(20):
        at = dice.randrange(footer, len(content))
        path.write_bytes(content[:at] + bytes([content[at] ^ 1 << dice.randrange(8)]) + content[at + 1:])
        outcome(path, module)



@pytest.mark.plain
def test_the_python_package_brings_its_module_along(package, module, files, tmp_path):  # noqa: F811
    """For its process, and for the samplers that this one serves."""
    shutil.copytree(package, tmp_path / "lib")
    bundled = tmp_path / "lib" / "tombola" / "tombola_parquet.so"
    bundled.unlink(missing_ok=True)
    script = """
import sys, tombola
with tombola.serve(sys.argv[1], weight="w", group="g") as server:
    print(sum(len(ids) for ids, labels, x in tombola.Loader(server)))
"""
    store = f"parquet:{files}/forms-snappy-1.0.parquet"
    with pytest.raises(AssertionError, match="this build has no Parquet"):
        run_python(tmp_path / "lib", script, store, TOMBOLA_PARQUET_MODULE="/nowhere/tombola_parquet.so")
    shutil.copy(module["TOMBOLA_PARQUET_MODULE"], bundled)
    assert int(run_python(tmp_path / "lib", script, store)) == len((files / "forms.csv").read_text().splitlines()) - 1
