"""Change the code in small ways, one at a time, and count the changes that no test notices.

    make mutants                 # the sample below, until the first test that fails
    make mutants ARGS='--all'    # all tests that fail, into .cache/mutants/killed.json
    make mutants ARGS='--spark'  # those that are left once more, with the tests that use Spark or Kafka: an hour

The mutants are inside functions of PLACES, drawn evenly by a seed. The tests are those of `make test` that reach the
changed line, quick ones first. A process that has imported all tests without Spark and Kafka forks once for each mutant
and replaces the function's code there, so that no file changes; with Spark each mutant has a process of its own. It is
not in Spark's workers nor in programs that tests start.
"""

import ast
import contextlib
import gc
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType

import click
import pytest
from coverage.numbits import numbits_to_nums

ROOT = Path(__file__).parent.parent
CACHE = ROOT / ".cache" / "mutants"
PACKAGE = ROOT / "namesrv_stream"
PLACES = ("rules", "wire", "job", "gateway/known_brokers.py", "tables/publication.py")
TESTS = "not full and not deploy and not spark and not system"
SPARK_TESTS = "not full and not deploy and (spark or system)"
START_LIMIT_S = 60
"""For Spark, Kafka and what else a test with them starts."""
MIN_LIMIT_S = 20
"""Time of a mutant's tests: this, and three times what they took without it. An endless loop is a kill."""

_SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip


def changes(node: ast.AST) -> Iterator[Callable[[], None]]:
    """Give functions that change the node in place, one for each way."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _SWAPS:
        yield lambda: setattr(node, "ops", [_swapped(node.ops[0]), *node.ops[1:]])
    if isinstance(node, ast.BoolOp | ast.BinOp | ast.AugAssign) and type(node.op) in _SWAPS:
        yield lambda: setattr(node, "op", _swapped(node.op))
    if isinstance(node, ast.If | ast.IfExp | ast.While) and not isinstance(node.test, ast.Compare):
        yield lambda: setattr(node, "test", ast.UnaryOp(ast.Not(), node.test))
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        value = node.value
        yield lambda: setattr(node, "value", not value if isinstance(value, bool) else value + 1)
    if isinstance(node, ast.Return) and node.value and not isinstance(node.value, ast.Constant):
        yield lambda: setattr(node, "value", ast.Constant(None))
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield lambda: setattr(node, "value", ast.Constant(None))


def _swapped(operator: ast.AST) -> ast.AST:
    return _SWAPS[type(operator)]()


class Mutant:
    """Way `way` of `changes` to change node `index` of a file, in the order of `ast.walk`."""

    def __init__(self, path: Path, index: int, way: int, node: ast.AST, function: str) -> None:
        self.path, self.index, self.way, self.function = path, index, way, function
        self.line: int = node.lineno  # type: ignore[attr-defined]
        self.place = str(path.relative_to(PACKAGE))
        column: int = node.col_offset  # type: ignore[attr-defined]
        self.name = f"{self.place}:{self.line}:{column} {type(node).__name__} {index} {way}"

    def apply(self) -> bool:
        """Replace the code of the function in this process; return whether there is one."""
        tree = ast.parse(self.path.read_text())
        node = list(ast.walk(tree))[self.index]
        list(changes(node))[self.way]()
        changed = compile(ast.fix_missing_locations(tree), str(self.path), "exec")
        codes = {code.co_qualname: code for code in _codes(changed)}
        file, found = str(self.path), False
        for each in gc.get_objects():
            if not isinstance(each, FunctionType):
                continue
            if (each.__code__.co_filename, each.__code__.co_qualname) == (file, self.function):
                each.__code__, found = codes[self.function], True
        return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


def mutants_of(path: Path) -> list[Mutant]:
    """Return all mutants of functions of a module and methods of its classes."""
    tree = ast.parse(path.read_text())
    inside: dict[ast.AST, str] = {}
    holders: list[ast.Module | ast.ClassDef] = [tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))]
    for holder in holders:
        for function in holder.body:
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                name = f"{holder.name}.{function.name}" if isinstance(holder, ast.ClassDef) else function.name
                inside |= {node: name for statement in function.body for node in ast.walk(statement)}
    return [
        Mutant(path, index, way, node, inside[node])
        for index, node in enumerate(ast.walk(tree))
        if node in inside
        for way, _ in enumerate(changes(node))
    ]


def tests_of_lines(coverage: Path) -> dict[str, dict[int, set[str]]]:
    """Return the tests that reach each line: file -> line -> tests."""
    reached: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    with sqlite3.connect(coverage) as data:
        rows = data.execute(
            "SELECT path, context, numbits FROM line_bits"
            " JOIN file ON file.id = file_id JOIN context ON context.id = context_id"
        )
        for path, context, numbits in rows:
            for line in numbits_to_nums(numbits):
                reached[path][line].add(context.partition("|")[0])
    return reached


class Runner:
    """A plugin of pytest: runs the mutants in place of the tests."""

    def __init__(self, mutants: list[Mutant], stops_at_first: bool, seconds: dict[str, float], limit_s: float) -> None:
        self.killed: dict[str, list[str]] = {}
        self._mutants, self._stops_at_first, self._seconds, self._limit_s = mutants, stops_at_first, seconds, limit_s
        self._has_failed = False
        self._log = os.fdopen(os.dup(2), "w")  # pytest captures the other one
        self._reached = tests_of_lines(CACHE / "plain.coverage")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Fork for each mutant."""
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # noqa: SLF001 -- one for all
        for number, mutant in enumerate(self._mutants):
            reaching = self._reached[str(mutant.path)][mutant.line]
            items = sorted((i for i in session.items if i.nodeid in reaching), key=self._seconds_of)
            chosen, total = [], 0.0
            for item in items:
                total += self._seconds_of(item)
                if total < self._limit_s:
                    chosen.append(item)
            self.killed[mutant.name] = self._killers(mutant, chosen, MIN_LIMIT_S + 3 * min(total, self._limit_s))
            first = (self.killed[mutant.name] or ["NO TEST"])[0]
            print(number, mutant.name, f"{len(chosen)} of {len(items)} tests:", first, file=self._log, flush=True)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note in the child that a test fails."""
        self._has_failed |= report.failed

    def _seconds_of(self, item: pytest.Item) -> float:
        return self._seconds.get(item.nodeid, 1.0)

    def _killers(self, mutant: Mutant, items: list[pytest.Item], limit_s: float) -> list[str]:
        result = CACHE / f"killers.{os.getpid()}"
        result.write_text("")
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            try:
                self._run(mutant, items, result)
            finally:
                os._exit(0)
        end = time.monotonic() + limit_s
        while not os.waitpid(child, os.WNOHANG)[0]:
            if time.monotonic() > end:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                result.write_text(result.read_text() + "time\n")
                break
            time.sleep(0.01)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # servers that a test left
        return result.read_text().splitlines()

    def _run(self, mutant: Mutant, items: list[pytest.Item], result: Path) -> None:
        if not mutant.apply():
            return
        for item, following in zip(items, [*items[1:], None], strict=True):
            self._has_failed = False
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._has_failed:
                with result.open("a") as lines:
                    lines.write(item.nodeid + "\n")
                if self._stops_at_first:
                    return


class Durations:
    """A plugin of pytest: notes how long each test takes."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the time of set-up, test or tear-down."""
        self.seconds[report.nodeid] += report.duration


def map_tests(name: str, *options: str) -> None:
    """Run tests once, to know which lines each reaches and how long it takes."""
    durations = Durations()
    os.environ |= {"COVERAGE_FILE": str(CACHE / f"{name}.coverage"), "TOKIO_WORKER_THREADS": "1"}
    coverage = ["--cov=namesrv_stream", "--cov-context=test", "--cov-report="]
    if pytest.main(["-q", *coverage, *options], plugins=[durations]):
        sys.exit("mutants say something of tests that pass only")
    (CACHE / f"{name}.json").write_text(json.dumps(durations.seconds))


def seconds_of(name: str, *options: str) -> dict[str, float]:
    """Return how long each test takes. The first call maps the tests, in a process of its own."""
    if not (CACHE / f"{name}.json").exists():
        code = f"from benchmarks.mutants import map_tests; map_tests{(name, *options)}"
        subprocess.run([sys.executable, "-c", code], check=True)
    seconds: dict[str, float] = json.loads((CACHE / f"{name}.json").read_text())
    return seconds


class Applied:
    """A plugin of pytest: runs the tests with one mutant."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def pytest_collection_finish(self) -> None:
        """Change the code, which the tests have imported by now."""
        if not self._mutant.apply():
            pytest.exit(f"{self._mutant.function} is not in this process", pytest.ExitCode.NO_TESTS_COLLECTED)


def run_with_mutant(count: int, seed: int, name: str, *tests: str) -> None:
    """End this process with the exit code of tests that run with one mutant of a sample."""
    [mutant] = [each for each in sample(count, seed) if each.name == name]
    sys.exit(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests], plugins=[Applied(mutant)]))


def noticed_with_spark(mutants: list[Mutant], count: int, seed: int, limit_s: float) -> Iterator[Mutant]:
    """Give the mutants of a sample that a test with Spark or Kafka notices; one that lets tests hang is not given."""
    seconds = seconds_of("spark", "-m", SPARK_TESTS)
    reached = tests_of_lines(CACHE / "spark.coverage")
    for mutant in mutants:
        tests = sorted(reached[str(mutant.path)][mutant.line] & seconds.keys(), key=seconds.__getitem__)
        while sum(map(seconds.__getitem__, tests)) > limit_s and len(tests) > 1:
            tests.pop()
        if not tests:
            click.echo(f"{mutant.name} NO TEST")
            continue
        code = f"from benchmarks.mutants import run_with_mutant; run_with_mutant{(count, seed, mutant.name, *tests)}"
        run = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL, process_group=0)
        result = "time"
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                result = pytest.ExitCode(
                    run.wait(START_LIMIT_S + 3 * max(limit_s, *map(seconds.__getitem__, tests)))
                ).name
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
            run.wait()
        click.echo(f"{mutant.name} {len(tests)} tests with Spark or Kafka: {result}")
        if result == pytest.ExitCode.TESTS_FAILED.name:
            yield mutant


def sample(count: int, seed: int) -> list[Mutant]:
    """Return mutants drawn from all that there are, in the order of files and lines."""
    files = [file for place in PLACES for file in sorted((PACKAGE / place).glob("*.py")) or [PACKAGE / place]]
    every = [mutant for file in files for mutant in mutants_of(file)]
    chosen = random.Random(seed).sample(range(len(every)), min(count, len(every)))
    return [every[number] for number in sorted(chosen)]


@click.command()
@click.option("--count", default=400, show_default=True, help="How many mutants.")
@click.option("--seed", default=1, show_default=True)
@click.option("--all", "finds_all", is_flag=True, help="Go on after the first test that fails.")
@click.option("--limit-s", default=10.0, show_default=True, help="Most seconds of tests for one mutant.")
@click.option("--spark", "has_spark", is_flag=True, help="Try those that are left with Spark and Kafka, for 60 s each.")
def main(count: int, seed: int, finds_all: bool, limit_s: float, has_spark: bool) -> None:
    """Print the share of mutants that tests kill, by package. The tests of each line are found in the first run."""
    CACHE.mkdir(parents=True, exist_ok=True)
    seconds = seconds_of("plain", "-m", TESTS, "-n", "2", "--dist", "loadfile")
    mutants = sample(count, seed)
    runner = Runner(mutants, not finds_all, seconds, limit_s)
    pytest.main(
        ["-q", "-p", "no:cacheprovider", "--hypothesis-profile=quick", "-m", TESTS],
        plugins=[runner],
    )
    (CACHE / "killed.json").write_text(json.dumps(runner.killed, indent=1))
    killed = [mutant for mutant in mutants if runner.killed[mutant.name]]
    show(killed, mutants)
    if has_spark:
        left = [mutant for mutant in mutants if not runner.killed[mutant.name]]
        show([*killed, *noticed_with_spark(left, count, seed, limit_s=60)], mutants)


def show(killed: list[Mutant], made: list[Mutant]) -> None:
    """Print how many mutants were killed of each package and of all."""
    counts = Counter(mutant.place.split("/")[0] for mutant in killed)
    all_counts = Counter(mutant.place.split("/")[0] for mutant in made)
    click.echo("".join(f"{place}: {counts[place]} of {n} killed\n" for place, n in all_counts.items()))
    click.echo(f"all: {counts.total()} of {all_counts.total()}")


if __name__ == "__main__":
    main()
