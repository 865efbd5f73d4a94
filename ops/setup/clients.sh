#!/bin/sh
# Install the programs that tests need besides Python: rabbitmq-c's tools, Node.js with npm, Redis (for Celery's own
# tests) and Java (for Spark); with the argument `slow` those of the slow tests: RabbitMQ, Chromium, clients in Java and
# Go, sslscan, HAProxy, OpenLDAP, Prometheus, the checker of systemd, strace, mmdebstrap, Helm, kubectl, the schemas of
# Kubernetes. Programs that cannot be installed are named; the tests that need them skip.
set -u

debian() {
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "setup: missing for some tests, install it yourself: $*" >&2
        return
    fi
    echo "setup: installing $*" >&2
    apt-get install -qq -y --no-install-recommends "$@" >/dev/null 2>&1 && return
    { apt-get update -qq && apt-get install -qq -y --no-install-recommends "$@" >/dev/null; } ||
        echo "setup: could not be installed, some tests will skip: $*" >&2
}

if [ "${1:-}" = slow ]; then
    export RUNLEVEL=1 # tests start RabbitMQ themselves, Debian is not to
    [ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || debian rabbitmq-server
    command -v chromium >/dev/null || debian chromium
    command -v javac >/dev/null || debian default-jdk-headless
    [ -e /usr/share/java/amqp-client.jar ] || debian librabbitmq-client-java libslf4j-java
    command -v go >/dev/null || debian golang-go
    [ -d /usr/share/gocode/src/github.com/rabbitmq/amqp091-go ] || debian golang-github-rabbitmq-amqp091-go-dev
    command -v sslscan >/dev/null || debian sslscan
    command -v haproxy >/dev/null || debian haproxy
    command -v promtool >/dev/null || debian prometheus
    [ -x /usr/sbin/slapd ] || debian slapd ldap-utils
    command -v systemd-analyze >/dev/null || debian systemd
    command -v strace >/dev/null || debian strace
    command -v mmdebstrap >/dev/null || debian mmdebstrap
    .venv/bin/python ops/setup/helm.py && .venv/bin/python -m pip install --quiet kubernetes-validate ||
        echo "setup: could not be installed, some tests will skip: helm kubectl kubernetes-validate" >&2
    exit
fi

command -v amqp-publish >/dev/null || debian amqp-tools
command -v node >/dev/null || debian nodejs
command -v npm >/dev/null || debian npm
command -v redis-server >/dev/null || debian redis-server
command -v java >/dev/null || debian default-jre-headless
