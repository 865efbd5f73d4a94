"""Texts for scrapers: made apart from the loop, one for all that ask at once."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from console.metrics.exposition import Chosen
from console.metrics.reading import Reading
from console.metrics.scraping import Scraping
from penstock.memory.gauges import Gauges
from penstock.settings import Settings


def test_those_who_ask_for_the_same_get_one_text(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path).model_dump(mode="json")
    made, go_on = [], threading.Event()
    path = Path(f"/dev/shm/test-scraping-{os.getpid()}.gauges")
    with Gauges.create(path, epoch=1, acceptors=1, shards=1, queues=70, pid=os.getpid()) as gauges:
        path.unlink()

        def reading(vhosts: tuple[str, ...] | None) -> Reading:
            made.append(vhosts)
            assert go_on.wait(50)
            if vhosts == ("wrong",):
                raise ValueError("a bug")
            return Reading(gauges, settings, vhosts)

        async def scrape() -> None:
            scraping = Scraping(reading)
            same = [asyncio.create_task(scraping.text((Chosen.NODE, None, False))) for _ in range(5)]
            other = asyncio.create_task(scraping.text((Chosen.QUEUES, ("/",), False)))
            wrong = asyncio.create_task(scraping.text((Chosen.QUEUES, ("wrong",), False)))
            await asyncio.sleep(0)
            same.pop().cancel()
            go_on.set()
            texts = await asyncio.gather(*same)
            assert b"rabbitmq_connections" in texts[0] and all(text is texts[0] for text in texts)
            assert await other
            with pytest.raises(ValueError, match="a bug"):
                await wrong
            assert made == [None, ("/",), ("wrong",)]
            assert await scraping.text((Chosen.NODE, None, True)) and len(made) == 4
            scraping.close()

        asyncio.run(scrape())
