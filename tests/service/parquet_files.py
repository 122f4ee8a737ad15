# SPDX-License-Identifier: MIT
"""Writes the files of test_parquet.py: parquet_files.py FOLDER, in a Python that has pyarrow."""

import datetime
import decimal
import random
import struct
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

FOLDER = Path(sys.argv[1])
CODECS = ["none", "snappy", "gzip", "brotli", "zstd", "lz4"]
ROWS = 500
dice = random.Random(7)


def write(name, columns, **more):
    table = pa.table(columns)
    pyarrow.parquet.write_table(table, FOLDER / f"{name}.parquet", **more)
    return table


def of(kind, values):
    return pa.array(values, type=kind)


def both(name, columns, **more):
    """The same rows as CSV."""
    pyarrow.csv.write_csv(write(name, columns, **more), FOLDER / f"{name}.csv")


def forms():
    """The same rows, in every way that a writer may write them."""
    columns = {
        "id": of(pa.int64(), dice.sample(range(10**12), ROWS)),
        "label": of(pa.string(), dice.choices(["cat", "dog", "ä, ö"], k=ROWS)),
        "w": of(pa.float64(), [dice.random() for _ in range(ROWS)]),
        "g": of(pa.int32(), dice.choices(range(9), k=ROWS)),
        "a": of(pa.int16(), dice.choices(range(-300, 300), k=ROWS)),
        "b": of(pa.float32(), [dice.gauss(0, 1) for _ in range(ROWS)]),
        "c": of(pa.float64(), [dice.gauss(0, 1e20) for _ in range(ROWS)]),
    }
    both("forms", columns)
    for codec in CODECS:
        for version in ("1.0", "2.0"):
            write(f"forms-{codec}-{version}", columns, compression=codec, data_page_version=version, row_group_size=64,
                  write_page_checksum=version == "2.0", use_dictionary=codec != "none")
    plain = {name: "PLAIN" for name in columns}
    for encoding, chosen in {"plain": plain, "delta": {**plain, "id": "DELTA_BINARY_PACKED", "label": "DELTA_BYTE_ARRAY"},
                             "split": {**plain, "b": "BYTE_STREAM_SPLIT", "label": "DELTA_LENGTH_BYTE_ARRAY"}}.items():
        write(f"forms-{encoding}", columns, use_dictionary=False, column_encoding=chosen, data_page_size=200)
    write("forms-bare", columns, write_statistics=False, store_schema=False, row_group_size=1)
    category = {**columns, "label": columns["label"].dictionary_encode(), "g": columns["g"].dictionary_encode()}
    write("forms-category", category, row_group_size=100)
    write("forms-large", {**columns, "label": columns["label"].cast(pa.large_string())})
    write("forms-view", {**columns, "label": columns["label"].cast(pa.string_view())})
    parts = FOLDER / "parts"
    parts.mkdir()
    table = pa.table(columns)
    for part in range(3):
        rows = table.slice(part * 200, 200)
        pyarrow.parquet.write_table(rows, parts / f"part-{part}.parquet")


def types():
    """Each type that is a number, as a feature, and as a label."""
    wide = {"int64": pa.int64(), "uint64": pa.uint64(), "float64": pa.float64()}
    for name, kind, values in [
            ("int8", pa.int8(), [-128, 0, 127]), ("uint8", pa.uint8(), [0, 1, 255]), ("int16", pa.int16(), [-32768, 7, 32767]),
            ("uint16", pa.uint16(), [0, 256, 65535]), ("int32", pa.int32(), [-(2**31), 0, 2**31 - 1]),
            ("uint32", pa.uint32(), [0, 5, 2**32 - 1]), ("int64", wide["int64"], [-(2**63), 2**53 + 1, 2**63 - 1]),
            ("uint64", wide["uint64"], [0, 2**63, 2**64 - 1]), ("float32", pa.float32(), [0.1, -2.5, 3.0]),
            ("float64", wide["float64"], [0.1, 1e-300, 7]), ("whole32", pa.float32(), [2e6, 1234567, 16777216]), ("small", pa.int64(), [0, 3, 255]),
            ("decimal", pa.decimal128(38, 5), [decimal.Decimal(text) for text in ("-0.00001", "123.40000", "99999999999999999999.12345")]),
            ("huge", pa.decimal256(70, 2), [decimal.Decimal(text) for text in ("-0.05", "1e30", "12.5")]),
            ("short", pa.decimal32(7, 3), [decimal.Decimal(text) for text in ("-12.5", "0", "1.001")]),
            ("texts", pa.string(), ["1", "2.5", "-3e2"])]:
        both(f"type-{name}", {"label": of(kind, values), "x": of(kind, values)})
    write("type-half", {"label": of(pa.int8(), [0, 1, 2]), "x": of(pa.float16(), [0.5, -2.0, 65504.0])})
    (FOLDER / "type-half.csv").write_text("label,x\n0,0.5\n1,-2\n2,65504\n")
    write("type-boolean", {"label": of(pa.bool_(), [True, False, True]), "x": of(pa.bool_(), [False, True, True])})
    (FOLDER / "type-boolean.csv").write_text("label,x\ntrue,0\nfalse,1\ntrue,1\n")


def rows_of_several():
    """Features that lie in one column."""
    rows = [[dice.randrange(256) for _ in range(6)] for _ in range(200)]
    label = of(pa.int8(), [row[0] % 3 for row in rows])
    both("several", {"label": label, **{f"x.{i}": of(pa.uint8(), [row[i] for row in rows]) for i in range(6)}})
    for name, kind in {"fixed": pa.list_(pa.uint8(), 6), "list": pa.list_(pa.int32()), "large": pa.large_list(pa.float64()),
                       "booleans": pa.list_(pa.float32(), 6)}.items():
        write(f"several-{name}", {"label": label, "x": of(kind, rows)}, row_group_size=70)
    for name, kind in {"binary": pa.binary(), "large-binary": pa.large_binary(), "fixed-binary": pa.binary(6)}.items():
        write(f"several-{name}", {"label": label, "x": of(kind, list(map(bytes, rows)))}, row_group_size=70)


def lengths():
    """Rows that differ in length, in every way that a writer may write them; `floats` of them are floats."""
    rows = [[dice.randrange(256) for _ in range(dice.choice([0, 1, 2, 5, 9, 40]))] for _ in range(400)]
    floats = [[value / 4 - 30 for value in row] for row in rows]
    keys = {"id": of(pa.int64(), dice.sample(range(10**6), 400)), "label": of(pa.string(), dice.choices("abc", k=400)),
            "g": of(pa.int32(), dice.choices(range(4), k=400))}
    for name, values in {"lengths": rows, "lengths-floats": floats}.items():
        lines = zip(*(keys[key].to_pylist() for key in keys), values)
        (FOLDER / f"{name}.csv").write_text("id,label,g\n" + "".join(",".join(map(str, [*line[:3], *line[3]])) + "\n" for line in lines))
    view, coded = pa.binary_view(), pa.list_(pa.dictionary(pa.int8(), pa.int32()))
    for name, kind in {"u8": pa.list_(pa.uint8()), "i32": pa.list_(pa.int32()), "f64": pa.list_(pa.float64()), "large": pa.large_list(pa.int64()),
                       "required": pa.list_(pa.field("item", pa.int16(), nullable=False)), "coded": coded,
                       "decimal": pa.list_(pa.decimal128(5, 1)), "half": pa.list_(pa.float16())}.items():
        write(f"lengths-{name}", {**keys, "x": of(kind, rows)}, row_group_size=70)
    for name, kind in {"binary": pa.binary(), "large-binary": pa.large_binary(), "view-binary": view}.items():
        write(f"lengths-{name}", {**keys, "x": of(kind, list(map(bytes, rows)))}, row_group_size=70)
    for version in ("1.0", "2.0"):
        write(f"lengths-pages-{version}", {**keys, "x": of(pa.list_(pa.uint8()), rows)}, data_page_version=version, data_page_size=100,
              use_dictionary=False)
    write("lengths-bare", {**keys, "x": of(pa.list_(pa.int16()), rows)}, store_schema=False, write_statistics=False)
    for name, kind in {"f32": pa.list_(pa.float32()), "f64": pa.large_list(pa.float64())}.items():
        write(f"lengths-floats-{name}", {**keys, "x": of(kind, floats)}, row_group_size=33)
    write("lengths-floats-binary", {**keys, "x": of(pa.binary(), [struct.pack(f"<{len(row)}f", *row) for row in floats])})
    table = pa.table({**keys, "x": of(pa.list_(pa.uint8()), rows)})
    (FOLDER / "lengths").mkdir()
    for part in range(3):
        pyarrow.parquet.write_table(table.slice(part * 150, 150), FOLDER / "lengths" / f"part-{part}.parquet")


def tokens():
    """Integers of 32 bits, most of which no float is, in rows that differ in length and in columns."""
    rows = [[dice.randrange(-(2**31), 2**31) for _ in range(dice.choice([0, 1, 2, 5, 9, 40]))] for _ in range(300)]
    rows[:3] = [[2**31 - 1, -(2**31), 2**24 + 1], [], [7]]
    label = of(pa.string(), dice.choices("abc", k=300))
    (FOLDER / "tokens.csv").write_text("label\n" + "".join(",".join(map(str, [y.as_py(), *row])) + "\n" for y, row in zip(label, rows)))
    for name, kind in {"i32": pa.list_(pa.int32()), "i64": pa.large_list(pa.int64()), "f64": pa.list_(pa.float64()),
                       "decimal": pa.list_(pa.decimal128(12, 1))}.items():
        write(f"tokens-{name}", {"label": label, "x": of(kind, rows)}, row_group_size=70)
    write("tokens-binary", {"label": label, "x": of(pa.binary(), [struct.pack(f"<{len(row)}i", *row) for row in rows])})
    both("wholes", {"label": label, "a": of(pa.int32(), [row[0] if row else 0 for row in rows]), "b": of(pa.int64(), range(2**24, 2**24 + 300))})


def long_lists():
    """Of one row group, which takes several batches; and of values that pages keep in next to nothing."""
    rows = [[dice.randrange(256) for _ in range(dice.randrange(6))] for _ in range(20000)]
    label = of(pa.int8(), dice.choices(range(3), k=len(rows)))
    write("many", {"label": label, "x": of(pa.list_(pa.uint8()), rows)}, row_group_size=len(rows))
    (FOLDER / "many.csv").write_text("label\n" + "".join(",".join(map(str, [y.as_py(), *row])) + "\n" for y, row in zip(label, rows)))
    two = {"label": of(pa.int8(), [0, 1])}
    empty = [[], []]
    for name, kind in {"list": pa.list_(pa.float32()), "large": pa.large_list(pa.uint8())}.items():
        write(f"nothing-{name}", {**two, "x": of(kind, empty)})
    write("nothing-binary", {**two, "x": of(pa.binary(), [b"", b""])})
    (FOLDER / "nothing.csv").write_text("label\n0\n1\n")
    zeros = pa.ListArray.from_arrays(of(pa.int32(), range(0, 8193 * 2500, 2500)), pa.repeat(pa.scalar(0.0), 8192 * 2500))
    write("zeros", {"x": zeros}, row_group_size=8192)
    same = pa.DictionaryArray.from_arrays(of(pa.int8(), [0, 1] * 4000), of(pa.binary(), [bytes(range(200)) * 250, b"12345"]))
    write("same-bytes", {"x": same}, row_group_size=8000, store_schema=False)


def refused():
    """What is refused, or a bad row."""
    two = of(pa.int8(), [0, 1])
    write("empty", {"label": of(pa.int8(), []), "x": of(pa.int8(), [])})
    write("null-feature", {"label": two, "x": of(pa.int32(), [1, None])})
    both("null-first", {"label": two, "x": of(pa.int32(), [1, None]), "y": of(pa.float64(), [2, 1.5])})
    both("null-last", {"label": two, "x": of(pa.float64(), [2, 1.5]), "y": of(pa.int32(), [1, None])})
    write("null-label", {"label": of(pa.int8(), [1, None]), "x": two})
    write("nul-label", {"label": of(pa.string(), ["a", "b\0c"]), "x": two})
    write("empty-label", {"label": of(pa.string(), ["a", ""]), "x": two})
    write("null-id", {"id": of(pa.int64(), [3, None]), "label": two, "x": two})
    write("null-item", {"label": two, "x": of(pa.list_(pa.int32()), [[1, 2], [3, None]])})
    write("null-list", {"label": two, "x": of(pa.list_(pa.int32()), [[1, 2], None])})
    write("null-all", {"label": two, "x": of(pa.list_(pa.int32()), [None, None])})
    write("null-type", {"label": two, "x": of(pa.null(), [None, None])})
    write("nan", {"label": two, "x": of(pa.float32(), [1, float("nan")])})
    write("too-large", {"label": two, "x": of(pa.float64(), [1, 1e300])})
    write("nan-label", {"label": of(pa.float64(), [1, float("nan")]), "x": two})
    write("words", {"label": two, "x": of(pa.string(), ["1", "Rome"])})
    write("ragged", {"label": two, "x": of(pa.list_(pa.int32()), [[1, 2], [3]])})
    write("ragged-empty", {"label": two, "x": of(pa.list_(pa.int32()), [[], [3]])})
    write("ragged-bytes", {"label": two, "x": of(pa.binary(), [b"12", b"345"])})
    write("ragged-beside", {"label": two, "x": of(pa.list_(pa.int32()), [[1, 2], [3]]), "y": two})
    write("nan-item", {"label": two, "x": of(pa.list_(pa.float64()), [[1, 2], [3, float("nan"), 5]])})
    write("null-bytes", {"label": two, "x": of(pa.binary(), [b"12", None])})
    write("nan-bytes", {"label": two, "x": of(pa.binary(), [b"\0\0\x80\x3f", b"\0\0\x80\x3f\0\0\xc0\x7f"])})
    write("no-floats", {"label": two, "x": of(pa.binary(), [b"\0\0\x80\x3f", b"12345"])})
    write("looks-float-late", {"label": two, "x": of(pa.binary(), [b"", b"\0\0\x80\x3f\0\0\0\x40"])})
    for name, columns in (("two-labels", ["label", "x", "y", "label"]), ("two-features", ["label", "x", "x", "y"])):
        pyarrow.parquet.write_table(pa.table([two] * 4, names=columns), FOLDER / f"{name}.parquet")
    write("item-and-column", {"label": two, "x": of(pa.list_(pa.int8()), [[1, 2], [3, 4]]), "x.0": two})
    write("twice", {"id": of(pa.int64(), [5, 5]), "label": two, "x": two})
    write("negative-id", {"id": of(pa.int64(), [5, -1]), "label": two, "x": two})
    write("text-id", {"id": of(pa.string(), ["a", "b"]), "label": two, "x": two})
    write("negative-weight", {"label": two, "w": of(pa.float64(), [1, -1]), "x": two})
    write("date", {"label": two, "x": of(pa.date32(), [datetime.date(2026, 1, day) for day in (1, 2)]), "y": two})
    write("struct", {"label": two, "x": of(pa.struct([("a", pa.int8())]), [{"a": 1}, {"a": 2}])})
    write("nested", {"label": two, "x": of(pa.list_(pa.list_(pa.int8())), [[[1]], [[2]]])})
    write("bytes-beside", {"label": two, "x": of(pa.binary(), [b"12", b"34"]), "y": two})
    write("looks-float", {"label": two, "x": of(pa.binary(), [b"\0\0\x80\x3f", b"\0\0\0\x40"])})
    write("not-whole", {"label": two, "x": of(pa.float64(), [1, 1.5])})
    write("beyond-i32", {"label": two, "x": of(pa.list_(pa.int64()), [[1], [2, 2**31]])})
    write("no-integers", {"label": two, "x": of(pa.binary(), [b"\0\0\x80\x3f", b"12345"])})
    write("looks-integer", {"label": two, "x": of(pa.binary(), [struct.pack("<3i", 300, 7, 2**24 - 1), struct.pack("<3i", 300, 400, 0)])})
    write("index", {"label": two, "x": two, "__index_level_0__": of(pa.int64(), [70, 80])})


forms()
types()
rows_of_several()
lengths()
long_lists()
tokens()
refused()
