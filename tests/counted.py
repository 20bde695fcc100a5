"""Lines of the history as older releases wrote them: with the number of very many topics, not with their rows."""

import json

from namesrv_stream.tables import publication

TABLES = ("topic", "topic_mapping")


def counted(line, above=0):
    """The line with only the number of its topics, if they are more than `above`."""
    before, after = ({} if side is None else json.loads(side) for side in (line.before, line.after))
    for name in TABLES:
        if max(len(side.get(name, ())) for side in (before, after)) > above:
            for side in (before, after):
                if name in side:
                    side[name] = {"count": len(side[name])}
    before, after = (json.dumps(side, separators=(",", ":")) if side else None for side in (before, after))
    return line._replace(before=before, after=after)


def count_topics(monkeypatch, above=200):
    """Publish lines of the history as those releases did."""
    appended = publication.appended

    def as_before(spec, rows):
        return appended(spec, [counted(row, above) for row in rows] if spec.name == "broker_event" else rows)

    monkeypatch.setattr(publication, "appended", as_before)
