"""Starts Python programs, whose imports take seconds of CPU time.

The first start of a program is its unmodified command. Later ones are forks of a process that has already imported the
modules of the program, in the same virtual environment. That process has no arguments, variables or home of a case; a
fork gets them before it executes the program.
"""

import atexit
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading

from install import HERE, environment, python

PROGRAMS = {}
ADDING = threading.Lock()


def run(virtual_environment, path, arguments, variables, folder, timeout):
    """Runs a program as `subprocess.run` does."""
    with ADDING:
        program = PROGRAMS.setdefault(path, Program(virtual_environment, path))
    return program.run([str(it) for it in arguments], variables, folder, timeout)


class Program:
    def __init__(self, virtual_environment, path):
        self.python, self.path = python(virtual_environment), path
        self.starting, self.was_started, self.server = threading.Lock(), False, None

    def run(self, arguments, variables, folder, timeout):
        with self.starting:  # the others wait for the first one, which compiles the modules
            if not self.was_started:
                self.was_started = True
                return subprocess.run([self.python, self.path, *arguments], env=variables, cwd=folder,
                                      stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout)
            self.server = self.server or ForkServer(self.python, self.path)
        return self.server.run(arguments, variables, folder, timeout)


class ForkServer:
    """A process of `fork_server.py`, which ends with this process."""

    def __init__(self, interpreter, program):
        home = tempfile.mkdtemp(prefix="hookgate-programs-")
        # When LiteLLM is imported, it otherwise fetches its prices from the network.
        variables = environment(home, home) | {"LITELLM_LOCAL_MODEL_COST_MAP": "true"}
        self.requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [interpreter, HERE / "fork_server.py", str(theirs.fileno()), program]
            process = subprocess.Popen(command, env=variables, cwd=home, stdin=subprocess.DEVNULL,
                                       pass_fds=[theirs.fileno()])
        for end in [lambda: shutil.rmtree(home, ignore_errors=True), process.wait, self.requests.close]:
            atexit.register(end)  # the last one is called first

    def run(self, arguments, variables, folder, timeout):
        replies, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with replies, tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
            with theirs:
                request = json.dumps([arguments, variables, str(folder)]).encode()
                socket.send_fds(self.requests, [request], [it.fileno() for it in [output, errors, theirs]])
            replies.settimeout(timeout)
            process = None
            try:
                process = replies.recv(100)
                status = replies.recv(100)  # empty if the process was killed
            except TimeoutError:
                if process:
                    os.killpg(int(process), signal.SIGKILL)
                raise subprocess.TimeoutExpired(arguments, timeout) from None
            output.seek(0)
            errors.seek(0)
            return subprocess.CompletedProcess(arguments, int(status or -signal.SIGKILL), output.read(), errors.read())
