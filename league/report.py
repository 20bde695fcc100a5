"""Print the table of a run for the terminal and for docs/league.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table

from league.scenario import Scenario

Verdicts = Mapping[str, str | None]
"""Name of a side -> its wrong result, None if it was right. A side that did not play is left out."""

_HEAD = """# The league: what RocketMQ's users reported of the NameServer

{count} scenarios, each from a public report, are played over the wire against RocketMQ's own NameServer 5.4.0, against
4.9.7 where it has what the scenario needs, and against the gateway, with Kafka, the streaming job and Delta tables
behind it. The same code plays and judges all of them: [league/scenarios](../league/scenarios). Brokers and clients
speak as those of the server's release.

    make league

played them and wrote this page, in {minutes:.0f} minutes on {cores} cores. `make league ARGS=renamed` plays those with
the word in their rule, and writes nothing. Races are played once: a NameServer that does right in one may do wrong in
the next run.

"""

_RIGHT, _WRONG, _NOT_PLAYED = "right", "**wrong**", "not played"


def terminal_table(scenarios: Sequence[Scenario], verdicts: Sequence[Verdicts], sides: Sequence[str]) -> Table:
    """Return the table as a terminal shows it."""
    table = Table("rule", "thread", *sides)
    for each, found in zip(scenarios, verdicts, strict=True):
        table.add_row(each.rule, "\n".join(each.threads), *(_in_words(found, side) for side in sides))
    table.add_section()
    table.add_row("right", "", *(_count(verdicts, side) for side in sides))
    return table


def markdown(
    scenarios: Sequence[Scenario], verdicts: Sequence[Verdicts], sides: Sequence[str], seconds: float, cores: int
) -> str:
    """Return the page docs/league.md."""
    results = list(zip(scenarios, verdicts, strict=True))
    lines = [_HEAD.format(count=len(scenarios), minutes=max(1, seconds / 60), cores=cores).rstrip(), ""]
    lines += ["| | rule | reported in | " + " | ".join(sides) + " |", "|---|---|---|" + "---|" * len(sides)]
    for number, (each, found) in enumerate(results, start=1):
        cells = [str(number), each.rule, ", ".join(map(_link, each.threads)), *(_marked(found, side) for side in sides)]
        lines.append(f"| {' | '.join(cells)} |")
    lines.append(f"| | **right** | | {' | '.join(_count(verdicts, side) for side in sides)} |")
    lines += ["", "## What the gateway does that is not right, and why", ""]
    ours = sides[-1]
    for number, (each, found) in enumerate(results, start=1):
        if (wrong := found.get(ours)) is not None:
            lines.append(f"- **{number}. {each.rule}**: {_escaped(wrong)}. {each.why_here or 'A defect.'}")
    lines += ["", "## The scenarios", ""]
    for number, (each, found) in enumerate(results, start=1):
        lines += [f"**{number}. {each.rule}.** {each.happens} *Right:* {each.right}", ""]
        lines += [f"- {side}: {_escaped(wrong)}" for side in sides if (wrong := found.get(side)) is not None]
        if any(found.get(side) is not None for side in sides):
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _marked(found: Verdicts, side: str) -> str:
    if side not in found:
        return _NOT_PLAYED
    return _RIGHT if found[side] is None else _WRONG


def _in_words(found: Verdicts, side: str) -> str:
    return _NOT_PLAYED if side not in found else found[side] or _RIGHT


def _count(verdicts: Sequence[Verdicts], side: str) -> str:
    played = [found[side] for found in verdicts if side in found]
    return f"{played.count(None)} of {len(played)}"


def _link(thread: str) -> str:
    repository, _, number = thread.partition("#")
    return f"[{repository.partition('/')[2]}#{number}](https://github.com/{repository}/issues/{number})"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")
