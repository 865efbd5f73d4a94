"""Reloads the configuration of a running node: live settings change, changes of others are only logged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from penstock.control.audit import Audit
from penstock.node import logs
from penstock.node.node import Node
from penstock.settings import Settings
from penstock.settings.changes import Change, changes, with_live
from penstock.settings.errors import SettingsError
from penstock.settings.sources import Configuration

log = logs.get_logger()


class Reload:
    """The reload of a running `node`; `running` is the configuration with which it was started."""

    def __init__(self, node: Node, running: Configuration, read: Callable[[], Configuration], audit: Audit) -> None:
        self._audit = audit
        self._node = node
        self._running = running
        self._read = read

    def reload(self) -> Settings | None:
        """Reload the configuration. Returns the settings that the node's processes must reread from their node file; an
        invalid configuration changes nothing, and None is returned.
        """
        try:
            configured = self._read()
            found = changes(self._running, configured)
            node = replace(self._node, settings=with_live(self._node.settings, configured.settings))
            node.store()
        except SettingsError as error:
            self._refuse("invalid configuration, nothing changes", error)
            return None
        except OSError as error:
            self._refuse("cannot reload the configuration, nothing changes", error)
            return None
        self._node = node
        self._running = Configuration(
            with_live(self._running.settings, configured.settings), {**self._running.origins, **configured.origins}
        )
        logs.set_level("info")  # the outcome is logged whatever the old and new levels are
        _log_changes(found)
        changed = {each.key: each.configured for each in found if each.is_live}
        self._audit.record(None, "reload", {"changed": changed}, "done")
        logs.set_level(node.settings.log_level)
        return node.settings

    def _refuse(self, what: str, error: Exception) -> None:
        log.error(what, problem=str(error))
        self._audit.record(None, "reload", {}, f"refused: {error}")


def _log_changes(found: list[Change]) -> None:
    log.info("configuration reloaded", changed={each.key: each.configured for each in found if each.is_live})
    for each in found:
        if not each.is_live:
            log.warning(
                "setting cannot change while the node runs",
                setting=each.key, running=each.running, configured=each.configured, origin=each.origin,
            )  # fmt: skip
