"""Files of rows: JSON lines, or Parquet."""

import json

import pytest


def write_rows(path, rows):
    """Write a row on each line, or a table; returns the path."""
    if path.suffix == ".parquet":
        pa = pytest.importorskip("pyarrow", reason="parquet needs the extra 'datasets'")
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def read_rows(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
