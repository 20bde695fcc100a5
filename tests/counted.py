"""Lines of the history as older releases wrote them: with the number of very many topics, not with their rows."""

import json

from namesrv_stream.tables import publication


def counted(line):
    """The line with the number of its topics."""
    before, after = ({} if side is None else json.loads(side) for side in (line.before, line.after))
    for side in (before, after):
        side.update({name: {"count": len(side[name])} for name in ("topic", "topic_mapping") if name in side})
    return line._replace(**{
        name: json.dumps(side, separators=(",", ":")) if side else None
        for name, side in (("before", before), ("after", after))
    })  # fmt: skip


def count_topics(monkeypatch):
    """Publish lines of the history as those releases did."""
    appended = publication.appended
    monkeypatch.setattr(publication, "appended", lambda spec, rows: appended(spec, [
        counted(line) if spec.name == "broker_event" else line for line in rows
    ]))  # fmt: skip
