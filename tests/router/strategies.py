"""Strategies for topologies, with few names, so that records meet."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(max_size=4),
    st.binary(max_size=4),
)
field_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)

words = st.sampled_from(["", "a", "b", "c", "*", "#"])
topics = st.lists(words, max_size=5).map(".".join)
"""Patterns and keys alike: in a key, `*` and `#` are words like any other."""

header_names = st.sampled_from(["a", "b", "x-a", "x-match"])
header_values = st.sampled_from([None, True, 1, 1.0, "1", "", [1], {"a": 1}])
headers = st.dictionaries(header_names, header_values)
modes: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{}, *({"x-match": mode} for mode in ("all", "any", "all-with-x", "any-with-x"))]
)
header_arguments = st.builds(lambda wanted, mode: {**wanted, **mode}, st.dictionaries(
    st.sampled_from(["a", "b", "x-a"]), header_values), modes)  # fmt: skip
