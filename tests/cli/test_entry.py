import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from namesrv_stream.cli.entry import COMMANDS, main
from namesrv_stream.config import as_options

READS = Path(__file__).with_name("reads.txt").read_text("utf-8").splitlines()
NAMESRV_STREAM = str(Path(sys.executable).with_name("namesrv-stream"))


def test_print_shows_what_is_in_force_and_ends(tmp_path):
    file = tmp_path / "namesrv.properties"
    file.write_text("listenPort=1\ntriggerMillis=7\n")
    options = ["-c", str(file), "--root", "/tables", "--set", "listenPort=2", "--set", "kafka.ssl.key.password=x", "-p"]
    result = CliRunner().invoke(main, options, env={"NAMESRV_TRIGGER_MILLIS": "8"})
    assert result.exit_code == 0
    shown = {"listenPort=2", "triggerMillis=8", "delta.root=/tables", "kafka.ssl.key.password=******"}
    assert shown <= set(result.stdout.splitlines())


@pytest.mark.parametrize(
    ("before", "after", "has_traceback"), [([], [], False), (["--debug"], [], True), ([], ["--debug"], True)]
)
def test_traceback_is_shown_with_debug_alone(tmp_path, before, after, has_traceback):
    result = CliRunner().invoke(main, [*before, "--root", str(tmp_path), "topicList", *after])
    assert (result.exit_code, "Traceback" in result.stderr) == (1, has_traceback)
    assert "no registry at" in result.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_in_the_help_and_accepts_the_shared_options_after_its_name(name):
    assert name in CliRunner().invoke(main, ["-h"]).stdout
    accepted = CliRunner().invoke(main, [name, "--help"]).stdout
    assert all(option in accepted for option in ("--config", "--root", "--set", "--debug"))


def test_a_line_without_a_command_is_answered_by_the_help_and_ends_with_2():
    result = CliRunner().invoke(main, [])
    assert (result.exit_code, "topicRoute" in result.output) == (2, True)


def test_settings_given_after_the_name_win_over_those_before_it(registry, tmp_path):
    file, other = tmp_path / "namesrv.properties", tmp_path / "other.properties"
    file.write_text("listenPort=1\ntriggerMillis=7\ntickMillis=500\n")
    other.write_text("listenPort=2\ntriggerMillis=8\n")
    before = ["-c", str(file), "--root", "/nowhere", "--set", "triggerMillis=9", "--set", "tickMillis=600"]
    after = ["-c", str(other), "--root", registry.root, "--set", "triggerMillis=10"]
    shown = CliRunner().invoke(main, [*before, "getNamesrvConfig", *after]).stdout.splitlines()
    assert {"listenPort=2", "triggerMillis=10", "tickMillis=600"} <= {*shown}


def test_command_names_may_be_written_in_any_case_and_reads_start_without_what_is_slow_to_import(registry):
    registry.register("10.0.0.1:10911", "c1", "broker-a")
    lines = ["topicRoute -t TopicA", "history", "SNAPSHOTS", "status --no-kafka", "listKvConfig -s NS", "submit --help"]
    program = (
        "import contextlib, sys\n"
        "from namesrv_stream.cli.entry import main\n"
        f"for line in {lines!r}:\n"
        "    with contextlib.suppress(BaseException):\n"
        f"        main(['--root', {registry.root!r}, *line.split()], standalone_mode=False)\n"
        "print([name for name in ('pyspark', 'pandas', 'kafka', 'jsonschema') if name in sys.modules])\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.stdout.splitlines()[-1:] == ["[]"], result.stderr


@pytest.mark.parametrize("encoding", [pytest.param("latin-1", marks=pytest.mark.full), "gbk", "ascii"])
def test_a_terminal_that_lacks_letters_gets_the_whole_answer(claimed, tmp_path, encoding):
    registry = claimed.copied_to(str(tmp_path / "数据"))
    registry.register("10.0.0.1:10911", "数é€", "broker-é数€", topics=("主题",))
    before = registry.unregister("10.0.0.1:10911").epoch - 1
    registry.register("10.0.0.1:10911", "数é€", "broker-é数€", topics=("主题",))
    asked = [line.format(before=before, after=before + 1) for line in READS]
    program = (
        "from namesrv_stream.cli.entry import main\n"
        f"for line in {asked!r}:\n"
        f"    main(['--root', {registry.root!r}, *line.split()], standalone_mode=False)\n"
    )
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, env=environment, check=False)
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False), done.stderr
    told = done.stdout.decode(encoding.replace("ascii", "utf-8"))  # click takes ascii for a mistake
    assert {"gbk": "broker-é数?", "latin-1": "broker-é??", "ascii": "broker-"}[encoding] in told


def test_a_second_sigterm_does_not_cut_short_what_the_first_one_ends():
    program = (
        "import os, signal\n"
        "from namesrv_stream.cli import exit_on_sigterm\n"
        "exit_on_sigterm()\n"
        "try:\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "finally:\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    print('cleaned')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (143, "cleaned\n")


@pytest.mark.parametrize("module", ["namesrv_stream.cli.entry", "namesrv_stream.cli.on_this_machine", "pyspark.sql"])
def test_ctrl_c_while_a_command_is_imported_ends_it_without_a_traceback(module):
    program = (
        "import os, signal, sys\n"
        "class Interrupts:\n"
        "    def find_spec(self, name, *_):\n"
        f"        name != {module!r} or os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupts())\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "sys.argv[1:] = ['up', '--help']\n"
        "from namesrv_stream.cli import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (1, "", "Aborted!")


def test_a_store_that_is_away_is_one_line_without_those_of_its_retries(closed_port):
    """In a process of its own, since libraries in Rust write past Python."""
    storage = {
        "aws_endpoint_url": f"http://127.0.0.1:{closed_port}",
        "aws_allow_http": "true",
        "aws_access_key_id": "a",
        "aws_secret_access_key": "b",
        "aws_region": "us-east-1",
        "max_retries": "2",
    }
    options = as_options({f"delta.storage.{key}": text for key, text in storage.items()})
    command = [NAMESRV_STREAM, "--root", "s3://bucket/registry", *options, "snapshots"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    [line] = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (1, "")
    assert line.startswith("namesrv-stream: cannot read or write the tables under s3://bucket/registry: ")
