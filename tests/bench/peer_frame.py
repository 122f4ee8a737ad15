# SPDX-License-Identifier: MIT
"""DuckDB orders a CSV of (id, label) by label, for bench_frame.py: prints `seconds` and processor seconds.

    peer_frame.py SOURCE TARGET parquet|csv|'own format' THREADS
"""
import resource
import sys
import time

import duckdb


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main():
    source, target, kind, threads = sys.argv[1:5]
    database = duckdb.connect(config={"threads": int(threads), "preserve_insertion_order": False})
    database.execute("SET enable_progress_bar = false")
    database.execute("SET force_compression = 'uncompressed'")
    query = (f"SELECT * FROM read_csv('{source}', header = true, delim = ',', quote = '', escape = '', "
             "auto_detect = false, columns = {'id': 'INTEGER', 'label': 'SMALLINT'}) ORDER BY label")
    begin, before = time.perf_counter(), processor_seconds()
    if kind == "own format":
        database.execute(f"ATTACH '{target}' AS out")
        database.execute(f"CREATE TABLE out.list AS {query}")
        database.execute("DETACH out")
    else:
        options = "FORMAT parquet, COMPRESSION uncompressed" if kind == "parquet" else "FORMAT csv"
        database.execute(f"COPY ({query}) TO '{target}' ({options})")
    print("seconds", time.perf_counter() - begin, processor_seconds() - before)


if __name__ == "__main__":
    main()
