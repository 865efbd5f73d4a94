"""The settings of relays: what is refused, and that no refusal quotes a password."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.settings.errors import SettingsError
from penstock.settings.relays import RelaySettings
from penstock.settings.sources import load_settings, read_configuration
from tests.penstock.settings.conftest import complaint

SECRET = "s3cr3t"
WHOLE = ("queue=a", "target_queue=b")


def relay(*assignments: str) -> RelaySettings:
    return load_settings(assignments=[f"relays.orders.{each}" for each in assignments]).relays["orders"]


def refusal(*assignments: str) -> str:
    return complaint(*(f"relays.orders.{each}" for each in assignments))


def test_a_node_has_no_relays_by_default() -> None:
    assert load_settings().relays == {}


def test_a_file_gives_relays_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.toml"
    path.write_text('[relays.one]\nqueue = "a"\ntarget_queue = "b"\n[relays.two]\nqueue = "c"\ntarget = "amqp://h"\n')
    monkeypatch.setenv("PENSTOCK_RELAYS__ONE__PREFETCH", "7")
    found = read_configuration(path, assignments=["relays.two.rate=5"])
    one, two = found.settings.relays["one"], found.settings.relays["two"]
    assert (one.source, one.target, one.target_queue, one.prefetch, one.rate) == ("", "", "b", 7, 0)
    assert (two.target, two.target_queue, two.prefetch, two.rate) == ("amqp://h", None, 250, 5)
    assert found.origins["relays.one.queue"] == f"in {path}"
    assert found.origins["relays.one.prefetch"] == "in the environment"
    assert found.origins["relays.two.rate"] == "by --set"


def test_the_path_of_a_file_is_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert relay(*WHOLE, "source=@old.url").source == f"@{tmp_path}/old.url"
    monkeypatch.setenv("HOME", "/home/ann")
    assert relay(*WHOLE, "target=@~/new.url").target == "@/home/ann/new.url"


@pytest.mark.parametrize(
    ("assignments", "words"),
    [
        (("target_queue=b",), "relays.orders.queue: Field required"),
        (("queue=",), "relays.orders.queue: String should have at least 1 character (by --set)"),
        ((f"queue={'ä' * 128}",), "relays.orders.queue: is longer than 255 bytes (by --set)"),
        ((*WHOLE, "prefetch=0"), "relays.orders.prefetch: Input should be greater than or equal to 1 (by --set)"),
        ((*WHOLE, "rate=-1"), "relays.orders.rate: Input should be greater than or equal to 0 (by --set)"),
        ((*WHOLE, "rate=inf"), "relays.orders.rate: Input should be a finite number (by --set)"),
        ((*WHOLE, "prefetch=many"), "relays.orders.prefetch: Input should be a valid integer"),
        ((*WHOLE, "target_exchange=e"), "relays.orders: target_queue and target_exchange exclude each other"),
        ((*WHOLE, "routing_key=k"), "relays.orders: target_queue takes no routing_key"),
        (("queue=a", "target_queue=a"), "relays.orders: source and target are the same queue (by --set)"),
        (("queue=a",), "relays.orders: source and target are the same queue"),
        ((*WHOLE, "source=http://h"), "relays.orders.source: an AMQP URL begins with amqp:// or amqps://"),
        ((*WHOLE, "source=amqp://"), "relays.orders.source: the URL names no host"),
        ((*WHOLE, "source=amqp://h:port"), "relays.orders.source: is no AMQP URL"),
        ((*WHOLE, "target=@"), "relays.orders.target: names no file after the @"),
        ((*WHOLE, "target=amqp://ann@h"), "relays.orders.target: a URL with a user and a password belongs in a file"),
        ((*WHOLE, "prefetc=1"), "unknown setting 'relays.orders.prefetc' by --set; did you mean"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named_in_one_line(assignments: tuple[str, ...], words: str) -> None:
    text = refusal(*assignments)
    assert text.startswith(words) and "\n" not in text


@pytest.mark.parametrize("name", ["a b", "ä", "x" * 65, ""])
def test_a_name_is_plain(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(f'[relays."{name}"]\nqueue = "a"\ntarget_queue = "b"\n')
    assert "a name has 1 to 64 letters, digits, hyphens and underscores" in complaint(config=path)


@pytest.mark.parametrize(("key", "words"), [("relays=5", "'relays' is a section"), ("relays.a=5", "'relays.a' is a")])
def test_a_relay_is_a_section(key: str, words: str) -> None:
    assert complaint(key).startswith(words)


def test_there_may_be_a_hundred() -> None:
    words = [f"relays.r{number}.{each}" for number in range(101) for each in WHOLE]
    assert len(load_settings(assignments=words[:200]).relays) == 100
    assert complaint(*words).startswith("relays: Dictionary should have at most 100 items")


@given(
    scheme=st.sampled_from(["amqp://", "amqps://", "amqp:/", "http://", ""]),
    user=st.sampled_from(["ann:", ":", "a:b@", "ann:1/", "ann%40:"]),
    after=st.sampled_from(["@h", "@h:1/x", "/@h", "@[", "@h:port", "@"]),
)
def test_no_refusal_quotes_a_password(scheme: str, user: str, after: str) -> None:
    with pytest.raises(SettingsError) as refused:
        relay(*WHOLE, f"source={scheme}{user}{SECRET}{after}")
    assert SECRET not in str(refused.value)
