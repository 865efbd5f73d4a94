"""The properties key of a binding: its routing key and a digest of its arguments, as RabbitMQ's management writes it.

    orders.%2A       a routing key, quoted
    ~                an empty one
    orders~5d41402a  a routing key, and the digest of arguments

It names a binding among those between the same two, and is quoted once more in paths.
"""

from __future__ import annotations

import hashlib
import json
from urllib.parse import quote_plus, unquote_plus

from router.model.records import Arguments, Binding

DIGEST_CHARACTERS = 22


def properties_key(binding: Binding) -> str:
    """Return the properties key of a binding."""
    key = quote_plus(binding.key, safe="", errors="surrogateescape").replace("~", "%7E")
    return f"{key}~{_digest(binding.arguments)}" if binding.arguments else key or "~"


def is_named(binding: Binding, given: str) -> bool:
    """Whether a properties key is that of a binding; as in RabbitMQ some clients give the routing key as it is."""
    key, _, digest = given.partition("~")
    return unquote_plus(key, errors="surrogateescape") == binding.key and digest == _digest(binding.arguments)


def _digest(arguments: Arguments) -> str:
    if not arguments:
        return ""
    words = json.dumps(arguments, default=repr, sort_keys=True)
    return hashlib.sha256(words.encode()).hexdigest()[:DIGEST_CHARACTERS]
