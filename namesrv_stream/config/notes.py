"""Notes about settings, which a process logs when it starts."""

from __future__ import annotations

import logging

from namesrv_stream.config.rocketmq_others import OTHER_DEFAULTS
from namesrv_stream.config.settings import CATALOGUE, NamesrvSettings
from namesrv_stream.config.values import java_text

log = logging.getLogger(__name__)

_NOT_IDLE = ("configStorePath", "enableControllerInNamesrv")
"""Keys that nothing reads and that are not named with the others: the file of -c, and one with a line of its own."""


def settings_without_effect(settings: NamesrvSettings) -> list[str]:
    """Return the keys of changed settings that have no effect here."""
    idle = [info for info in CATALOGUE.values() if not info.read_by and info.key not in _NOT_IDLE]
    changed = [info.key for info in idle if java_text(getattr(settings, info.name)) != info.default]
    return changed + [key for key, text in settings.others.items() if text != OTHER_DEFAULTS.get(key)]


def log_notes(settings: NamesrvSettings) -> None:
    """Log what a process has to tell about its settings when it starts."""
    if idle := settings_without_effect(settings):
        log.warning("accepted, and without effect here: %s. docs/configuration.md has the reasons.", ", ".join(idle))
    if settings.enable_controller_in_namesrv:
        log.warning(
            "enableControllerInNamesrv=true: no controller runs in this process. Run RocketMQ's mqcontroller beside "
            "it; docs/migration.md describes how."
        )
