"""Starts the server under test from a command template, on a copy of the model repository."""

import os
import pathlib
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from . import gauges
from .cases import ROOT, profiles
from .http_wire import Connection
from .steps import Target

_START_S = 120.0
_STOP_S = 40.0


def _free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def groups(cases):
    """Cases by what their server must serve and be started with, as [((profile, needs), cases)]; deadly ones last in each."""
    result = {}
    for profile in profiles():
        for case in sorted((c for c in cases if c.profile == profile), key=lambda c: (len(c.needs), c.deadly)):
            result.setdefault((profile, tuple(sorted(case.needs))), []).append(case)
    return list(result.items())


class Server:
    """A running server; a context manager. The template may name {repo} {http} {grpc} {metrics} {options}. needs: the
    further repositories models_NEED that it serves."""

    def __init__(self, template, profile, needs=()):
        self._template = template
        self._profile = profiles()[profile]
        self._extra = [f"models_{need}" for need in needs]
        self._folder = None
        self._process = None
        self.log = None
        self.target = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        """Starts the server and waits until it is ready; raises RuntimeError when it does not come up."""
        self._folder = tempfile.mkdtemp(prefix="conformance-")
        repository = os.path.join(self._folder, "models")
        shutil.copytree(ROOT / "models", repository)
        for folder in self._profile.get("repositories", []):
            shutil.copytree(ROOT / folder, os.path.join(self._folder, folder))
        for folder in self._extra:
            shutil.copytree(ROOT / folder, os.path.join(self._folder, pathlib.Path(folder).name))
        ports = _free_ports(3)
        self.log = os.path.join(self._folder, "server.log")
        with open(self.log, "wb") as log:
            self._process = subprocess.Popen(
                self._command(repository, ports), stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self.target = Target(*(f"127.0.0.1:{p}" for p in ports), repository)
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise

    def _command(self, repository, ports):
        options = list(self._profile.get("options", []))
        for folder in (*self._profile.get("repositories", []), *self._extra):
            options.append("--model-repository=" + os.path.join(self._folder, pathlib.Path(folder).name))
        http, grpc, metrics = ports
        command = []
        for word in shlex.split(self._template):
            if word == "{options}":
                command += options
            else:
                command.append(word.format(repo=repository, http=http, grpc=grpc, metrics=metrics))
        return command

    def _wait(self):
        end = time.monotonic() + _START_S
        while time.monotonic() < end:
            if self._process.poll() is not None:
                raise RuntimeError(f"the server ended with {self._process.returncode}:\n{self._tail()}")
            try:
                if gauges.get(self.target.http, "/v2/health/ready", 2).status == 200:
                    gauges.get(self.target.metrics, "/metrics", 2)
                    Connection(self.target.grpc, 2).close()
                    return
            except Exception:  # not up yet, whatever the way it shows
                pass
            time.sleep(0.1)
        raise RuntimeError(f"the server was not ready within {_START_S:.0f} s:\n{self._tail()}")

    def _tail(self):
        return pathlib.Path(self.log).read_text(errors="replace")[-3000:]

    def alive(self, grace_s=0.0):
        """Whether the server still runs after a moment in which it may end."""
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            return True
        return False

    def without_paths(self, value):
        """The value with the folder of this run replaced in all texts."""
        if isinstance(value, str):
            return value.replace(self._folder, "FOLDER")
        if isinstance(value, list):
            return [self.without_paths(v) for v in value]
        if isinstance(value, dict):
            return {k: self.without_paths(v) for k, v in value.items()}
        return value

    def stop(self):
        """Stops the server if it still runs, and removes its folder."""
        self.target.close()
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
