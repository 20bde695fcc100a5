"""What a process tells about its settings when it starts."""

from __future__ import annotations

from namesrv_stream.config.rocketmq_others import OTHER_DEFAULTS
from namesrv_stream.config.settings import CATALOGUE, NamesrvSettings
from namesrv_stream.config.values import java_text

_NOT_IDLE = ("configStorePath", "enableControllerInNamesrv")
"""Keys that nothing reads and that are not named with the others: the file of -c, and one with a line of its own."""


def settings_without_effect(settings: NamesrvSettings) -> list[str]:
    """Return the keys of changed settings that have no effect here."""
    idle = [info for info in CATALOGUE.values() if not info.read_by and info.key not in _NOT_IDLE]
    changed = [info.key for info in idle if java_text(getattr(settings, info.name)) != info.default]
    return changed + [key for key, text in settings.others.items() if text != OTHER_DEFAULTS.get(key)]


def notes_at_start(settings: NamesrvSettings) -> list[str]:
    """Return what a process tells about its settings when it starts, a line each."""
    notes = []
    if idle := settings_without_effect(settings):
        notes.append(f"accepted, and without effect here: {', '.join(idle)}. docs/configuration.md has the reasons.")
    if settings.enable_controller_in_namesrv:
        notes.append(
            "enableControllerInNamesrv=true: no controller runs in this process. Run RocketMQ's mqcontroller beside "
            "it; docs/migration.md describes how."
        )
    return notes
