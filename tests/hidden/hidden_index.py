# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Index functions in the form of the schema gpuinfer/1, written from their definition."""


def index_function(index):
    """address -> set number, for any kind of index; None outside a table that does not repeat."""
    kind = index["kind"]
    if kind == "bits":
        bits = list(enumerate(index["bits"]))
        return lambda address: sum((address >> bit & 1) << place for place, bit in bits)
    if kind == "xor":
        masks = [(place, sum(1 << bit for bit in row)) for place, row in enumerate(index["rows"])]
        constant = index.get("constant", 0)
        return lambda address: constant ^ sum(((address & mask).bit_count() & 1) << place for place, mask in masks)
    if kind == "modulo":
        granule, sets = index["granule_bytes"], index["sets"]
        return lambda address: address // granule % sets
    if kind == "sum":
        fields, sets = index["fields"], index["sets"]
        return lambda address: (
            sum((address >> bit & 1) << place for field in fields for place, bit in enumerate(field)) % sets
        )
    if kind == "table":
        granule, table, origin = index["granule_bytes"], index["sets_of"], index.get("origin", 0)
        limit = index.get("range_bytes")
        if limit is None:
            return lambda address: table[(address - origin) // granule % len(table)]
        return lambda address: table[(address - origin) // granule] if 0 <= address - origin < limit else None
    raise ValueError(f"unknown index kind {kind}")
