"""Build the image of deploy/Dockerfile by buildah, on a base made from Debian's packages, and run commands in it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from namesrv_stream.tools.local.process import OwnedProcess
from tests.deploy.chart import PROJECT

TOOLS = {"buildah": "buildah", "debootstrap": "debootstrap", "apt-get": "apt"}
"""Program, and the package of Debian that has it."""

SUITE = "bookworm"
PACKAGES = "python3,python3-venv,python-is-python3,ca-certificates"
OWN_CERTIFICATES = Path("/usr/local/share/ca-certificates")
ALL_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
LIMIT_S = 1_800


def require_tools():
    """Skip the test if this machine cannot build an image."""
    missing = [f"{tool} (package {package})" for tool, package in TOOLS.items() if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"the image is not built: this machine has no {', '.join(missing)}")
    if os.geteuid() != 0:
        pytest.skip("the image is not built: debootstrap needs root")


class Builder:
    """buildah with images and containers below `folder`."""

    def __init__(self, folder):
        self._folder = folder
        self._log = folder / "build.log"
        self._buildah = ["buildah", "--storage-driver", "vfs", "--root", str(folder / "storage"),
                         "--runroot", str(folder / "run")]  # fmt: skip

    def call(self, *arguments):
        return self._run(*self._buildah, *arguments)

    def _run(self, *command):
        with self._log.open("a") as log:
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=log, text=True, check=False, timeout=LIMIT_S,
                env=os.environ | {"BUILDAH_ISOLATION": "chroot"},
            )  # fmt: skip
            log.write(done.stdout)
        assert done.returncode == 0, self._log.read_text()[-4_000:]
        return done.stdout.strip()

    def base(self):
        """An image of Debian with Python, and with the certificates that this machine trusts."""
        root = self._folder / "debian"
        self._run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(root), *_mirror())
        for certificate in OWN_CERTIFICATES.glob("*.crt"):
            shutil.copy(certificate, root / OWN_CERTIFICATES.relative_to("/"))
        self._run("chroot", str(root), "update-ca-certificates")
        container = self.call("from", "scratch")
        self.call("copy", "--quiet", container, str(root), "/")
        # pip has certificates of its own and asks for those of the system by name.
        self.call("config", "--env", f"PIP_CERT={ALL_CERTIFICATES}", container)
        self.call("commit", "--quiet", "--rm", container, "debian-python")
        shutil.rmtree(root)
        return "debian-python"

    def container(self):
        """A container of the image of deploy/Dockerfile."""
        dockerfile = PROJECT / "deploy" / "Dockerfile"
        base = f"BASE={self.base()}"
        self.call(
            "bud", "--pull-never", "--build-arg", base, "-f", str(dockerfile), "-t", "namesrv-stream", str(PROJECT)
        )
        return Container(self, self.call("from", "--pull-never", "namesrv-stream"))

    def command(self, *arguments):
        return [*self._buildah, *arguments]


class Container:
    """Runs commands by the entry point of the image, as its user, in the network of this machine."""

    def __init__(self, builder, name):
        self._builder = builder
        self._name = name

    def command(self, volume, *command):
        volumes = ("--volume", f"{volume}:/var/lib/namesrv")
        entry_point = ("tini", "--", "/opt/namesrv-stream/deploy/entrypoint.sh")
        return self._builder.command("run", "--isolation", "chroot", *volumes, self._name, "--", *entry_point, *command)

    def start(self, log, volume, *command):
        return OwnedProcess(self.command(volume, *command), log)

    def output(self, volume, *command):
        done = subprocess.run(self.command(volume, *command), capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout


def _mirror():
    """Return the mirror that apt uses for the suite; without one debootstrap knows its own."""
    lines = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", f"Codename: {SUITE}", "Component: main"],
        capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    return lines[:1]
