"""An HTTP service for `auth.http` in front of an LDAP directory.

    LDAP_PASSWORD=... python examples/ldap_service.py ldaps://ldap.example \
        --user "uid={},ou=people,dc=example" --groups "ou=groups,dc=example" --bind-as "cn=penstock,dc=example"

A user is who the directory lets bind (RFC 4513, 5.1.3). What it may do are its groups (`groupOfNames`, RFC 4519): the
members of `configure NAME`, `write NAME` and `read NAME` have that right to everything in the vhost NAME, which any of
them opens, and the members of `tag NAME` have the tag; a user without a group is refused. Groups are read as
`--bind-as`, or anonymously without it.

It needs `ldap3`, and listens on this machine only: it is asked with passwords.
"""

from __future__ import annotations

import argparse
import os
import ssl
import sys
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from ldap3 import Connection, Server, Tls
from ldap3.core.exceptions import LDAPException
from ldap3.utils.conv import escape_filter_chars
from ldap3.utils.dn import escape_rdn

SECONDS = 5
FORM_BYTES_MOST = 64 * 1024
RIGHTS = ("configure", "write", "read")


class Directory:
    """Decides by a directory. LDAPException if that cannot be asked."""

    def __init__(self, server: Server, user: str, groups: str, reader: str | None, password: str | None) -> None:
        self._server, self._user, self._groups = server, user, groups
        self._reader, self._password = reader, password

    def decide(self, call: str, form: dict[str, str]) -> str:
        """Return the answer to a call, `user`, `vhost`, `resource` or `topic`. KeyError if a field is missing."""
        user = form["username"]
        match call:
            case "user":
                # A client that has shown its certificate has no password: it only has to be known.
                if "password" in form and not self._can_bind(user, form["password"]):
                    return "deny"
                groups = self._groups_of(user)
                tags = sorted(group.removeprefix("tag ") for group in groups if group.startswith("tag "))
                return " ".join(("allow", *tags)) if groups else "deny"
            case "vhost":
                wanted = {f"{right} {form['vhost']}" for right in RIGHTS}
            case "resource" | "topic":
                wanted = {f"{form['permission']} {form['vhost']}"}
            case _:
                return "deny"
        return "deny" if wanted.isdisjoint(self._groups_of(user)) else "allow"

    def _can_bind(self, user: str, password: str) -> bool:
        if not password:  # that would be an anonymous bind, which succeeds (RFC 4513, 5.1.2)
            return False
        connection = Connection(self._server, self._name_of(user), password, receive_timeout=SECONDS)
        try:
            return bool(connection.bind())
        finally:
            connection.unbind()

    def _groups_of(self, user: str) -> set[str]:
        of_user = f"(&(objectClass=groupOfNames)(member={escape_filter_chars(self._name_of(user))}))"
        with Connection(
            self._server, self._reader, self._password, receive_timeout=SECONDS, raise_exceptions=True
        ) as connection:
            connection.search(self._groups, of_user, attributes=["cn"])
            return {name for entry in connection.entries for name in entry["cn"].values}

    def _name_of(self, user: str) -> str:
        return self._user.replace("{}", escape_rdn(user))


class Handler(BaseHTTPRequestHandler):
    """Answers the calls. The password is in the body: set `auth.http.http_method` to `post`."""

    protocol_version = "HTTP/1.1"
    timeout = 2 * SECONDS
    directory: Directory

    def do_POST(self) -> None:
        """Answer a call."""
        size = int(self.headers.get("Content-Length", "0"))
        if not 0 <= size <= FORM_BYTES_MOST:
            self.send_error(413)
            return
        form = dict(parse_qsl(self.rfile.read(size).decode(), keep_blank_values=True))
        try:
            body = self.directory.decide(self.path.strip("/"), form).encode()
        except KeyError as error:
            self.send_error(400, f"the field {error} is missing")
        except LDAPException as error:
            self.log_error("the directory cannot be asked: %s", error)
            self.send_error(503)
        else:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_request(self, *_: Any) -> None:
        """Log failures only."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="of the directory: ldaps://HOST[:PORT], or ldap:// for one on this machine")
    parser.add_argument("--user", required=True, help="the name of a user's entry; {} stands for the user")
    parser.add_argument("--groups", required=True, help="the entry below which the groups are")
    parser.add_argument("--bind-as", help="the entry that may read groups; its password is in LDAP_PASSWORD")
    parser.add_argument("--authority", type=Path, help="a file of authorities to verify the directory by")
    parser.add_argument("--port", type=int, default=8389)
    options = parser.parse_args(arguments)
    tls = Tls(validate=ssl.CERT_REQUIRED, ca_certs_file=options.authority)
    server = Server(options.url, tls=tls, connect_timeout=SECONDS)
    Handler.directory = Directory(
        server, options.user, options.groups, options.bind_as, os.environ.get("LDAP_PASSWORD")
    )
    with ThreadingHTTPServer(("127.0.0.1", options.port), Handler) as service:
        print(f"serving on 127.0.0.1:{service.server_port}", file=sys.stderr, flush=True)
        service.serve_forever()


if __name__ == "__main__":
    main()
