"""The compiled modules of this checkout. A module that is not built: test_entry.py."""

from __future__ import annotations

from ops import compiled


def test_every_source_to_compile_is_found_and_compiled() -> None:
    names = compiled.extension_modules()
    assert {"penstock.memory.mapped_file", "penstock.batch.batch_cy", "penstock.amqp.scan_cy"} <= set(names)
    assert compiled.uncompiled() == []
