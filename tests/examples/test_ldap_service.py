"""Users of a real LDAP directory (OpenLDAP's slapd) log in, by the example's service."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pika
import pytest

from tests.broker import Broker
from tests.ports import free_port
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.slow]

SLAPD = shutil.which("slapd", path="/usr/sbin:/usr/local/sbin:/sbin")
SCHEMAS = Path("/etc/ldap/schema")
SERVICE = Path(__file__).parents[2] / "examples" / "ldap_service.py"
CONFIGURATION = """\
include {schemas}/core.schema
include {schemas}/cosine.schema
include {schemas}/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
database mdb
suffix dc=example
rootdn cn=penstock,dc=example
rootpw planted-reader
directory {directory}
access to attrs=userPassword by anonymous auth by * none
access to * by * none
"""
ENTRIES = """\
dn: dc=example
objectClass: domain
dc: example

dn: ou=people,dc=example
objectClass: organizationalUnit
ou: people

dn: ou=groups,dc=example
objectClass: organizationalUnit
ou: groups
"""
PERSON = """
dn: uid={name},ou=people,dc=example
objectClass: inetOrgPerson
uid: {name}
cn: {name}
sn: {name}
userPassword: {password}
"""
GROUP = """
dn: cn={name},ou=groups,dc=example
objectClass: groupOfNames
cn: {name}
{members}
"""
PEOPLE = {"ann": "ann's own", "bob": "bob's own", "stray": "of no group"}
GROUPS = {
    "configure /": ["ann"],
    "write /": ["ann", "bob"],
    "read /": ["ann"],
    "tag impersonator": ["bob"],
}


def entries() -> str:
    """Return the people and their groups, as LDIF."""
    people = (PERSON.format(name=name, password=password) for name, password in PEOPLE.items())
    groups = (
        GROUP.format(name=name, members="\n".join(f"member: uid={each},ou=people,dc=example" for each in members))
        for name, members in GROUPS.items()
    )
    return "".join((ENTRIES, *people, *groups))


@contextmanager
def ended(*command: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program, and end it."""
    process = subprocess.Popen(command, env=os.environ | environment, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.communicate()


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a directory, and yield its URL."""
    if SLAPD is None:
        pytest.skip("slapd is not installed")
    home = tmp_path_factory.mktemp("directory")
    configuration = home / "slapd.conf"
    configuration.write_text(CONFIGURATION.format(schemas=SCHEMAS, directory=home))
    filled = subprocess.run(
        ["slapadd", "-f", configuration], input=entries(), text=True, capture_output=True, check=False,
        env=os.environ | {"PATH": f"{os.environ['PATH']}:/usr/sbin"},
    )  # fmt: skip
    assert filled.returncode == 0, filled.stderr
    url = f"ldap://127.0.0.1:{free_port()}"
    with ended(SLAPD, "-f", str(configuration), "-h", url, "-d", "0"):
        wait_for(lambda: subprocess.run(["ldapwhoami", "-x", "-H", url], capture_output=True).returncode == 0)
        yield url


@pytest.fixture(scope="module")
def broker(directory: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Run a node whose users are the directory's."""
    names = ("--user", "uid={},ou=people,dc=example", "--groups", "ou=groups,dc=example")
    command = (sys.executable, str(SERVICE), directory, *names, "--bind-as", "cn=penstock,dc=example", "--port", "0")
    with ended(*command, LDAP_PASSWORD="planted-reader") as service:
        assert service.stderr is not None
        url = f"http://{service.stderr.readline().split()[-1]}"
        calls = [f"auth.http.{name}_path={url}/{name}" for name in ("user", "vhost", "resource", "topic")]
        settings = ["auth.backends=http,internal", "auth.http.http_method=post", *calls]
        with Broker(tmp_path_factory.mktemp("node"), *settings) as node:
            yield node


def connect(broker: Broker, user: str, password: str, vhost: str = "/") -> pika.BlockingConnection:
    host, port = broker.address
    return pika.BlockingConnection(pika.ConnectionParameters(host, port, vhost, pika.PlainCredentials(user, password)))


def test_a_member_of_all_groups_does_everything_in_the_vhost(broker: Broker) -> None:
    with connect(broker, "ann", PEOPLE["ann"]) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.exchange_declare("topics", "topic")
        channel.queue_declare("orders")
        channel.queue_bind("orders", "topics", "#")
        channel.basic_publish("topics", "a.b", b"x", mandatory=True)
        assert channel.basic_get("orders", auto_ack=True)[2] == b"x"


def test_rights_are_those_of_the_groups(broker: Broker) -> None:
    with connect(broker, "bob", PEOPLE["bob"]) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("", "nowhere", b"x", pika.BasicProperties(user_id="somebody-else"))
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
            channel.queue_declare("bobs")
    assert refused.value.reply_code == 403 and "for user 'bob'" in refused.value.reply_text


@pytest.mark.parametrize(
    ("user", "password"), [("ann", "wrong"), ("ann", ""), ("stray", PEOPLE["stray"]), ("*", "any"), ("nobody", "any")]
)
def test_who_is_not_known_or_cannot_bind_is_refused(broker: Broker, user: str, password: str) -> None:
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        connect(broker, user, password)


def test_a_vhost_without_groups_is_shut(broker: Broker) -> None:
    assert broker.penstock("vhost", "add", "other").returncode == 0
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError):
        connect(broker, "ann", PEOPLE["ann"], "other")


def test_the_nodes_own_users_log_in_beside_those_of_the_directory(broker: Broker) -> None:
    connect(broker, "guest", "guest").close()
