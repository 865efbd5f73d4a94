from __future__ import annotations

import html
import json
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2.utils import htmlsafe_json_dumps

from load.target import Target, without_password


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("amqp://", Target()),
        ("amqp://127.0.0.1", Target()),
        ("amqp://broker:5699", Target(host="broker", port=5699)),
        ("amqp://u:p%40ss@h/v%2Fw", Target("h", 5672, "u", "p@ss", "v/w")),
        ("amqp://h/%2F", Target(host="h")),
        ("amqp://h/", Target(host="h")),
        ("amqp://u:@[::1]:1", Target("::1", 1, "u", "")),
        ("amqps://h", Target("h", 5671, tls=True)),
        ("amqps://u@h:1/v", Target("h", 1, "u", vhost="v", tls=True)),
    ],
)
def test_parts_left_out_have_defaults(url: str, expected: Target) -> None:
    assert Target.parse(url) == expected


@pytest.mark.parametrize("url", ["127.0.0.1:5672", "http://h", "tls://h", "amqp://h:port", "amqp://h:70000"])
def test_what_is_no_amqp_url_is_named(url: str) -> None:
    with pytest.raises(ValueError, match="amqp://"):
        Target.parse(url)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("amqp://u:p%40ss@h:1/v%2Fw", "amqp://u:***@h:1/v%2Fw"), ("amqp://u:@h", "amqp://u:***@h"),
        ("amqp://u@h", "amqp://u@h"), ("amqp://h/%2F", "amqp://h/%2F"), ("amqp://:p@[::1]:1", "amqp://:***@[::1]:1"),
    ],
)  # fmt: skip
def test_a_text_shows_the_url_without_its_password(url: str, shown: str) -> None:
    assert without_password(f'{{"host": "{url}"}}, {url}', url) == f'{{"host": "{shown}"}}, {shown}'


@given(st.text(st.characters(exclude_characters="/?#@[]", exclude_categories=["Cc", "Cs"])))
def test_no_writing_of_a_url_has_its_password(password: str) -> None:
    url = f"amqp://ann:<{password}>&'@host:5672/v"
    assert Target.parse(url).password == f"<{unquote(password)}>&'"
    for write, read in ((str, str), (htmlsafe_json_dumps, json.loads), (html.escape, html.unescape)):
        shown = without_password(str(write(url)), url)
        assert read(shown) == "amqp://ann:***@host:5672/v"


def test_a_text_without_a_url_stays() -> None:
    assert without_password("a: b@c", None) == "a: b@c"
    assert without_password("a: b@c", "amqp://h") == "a: b@c"
