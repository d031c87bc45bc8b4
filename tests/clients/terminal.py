"""A window of gemini-cli, driven through tmux."""

import contextlib
import os
import shlex
import signal
import subprocess
import time

from install import BIN
from stage import DEADLINE, fail

ROWS, COLUMNS = 60, 200
INPUT = "Type your message"  # what the CLI shows where a prompt may be typed
WORKING = "esc to cancel"


class Terminal:
    """A terminal of its own, with gemini-cli in it; gone at the end."""

    def __init__(self, stage, *arguments):
        self.stage = stage
        self.socket = stage.home / "tmux"
        command = [BIN / "node", BIN / "gemini", "-m", "gemini-2.5-flash", "--yolo", *arguments]
        self.command = shlex.join(map(str, command))

    def __enter__(self):
        size = ["-x", COLUMNS, "-y", ROWS]
        self.tmux("-f", "/dev/null", "new-session", "-d", *size, self.command)
        try:
            self.awaits(INPUT)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error):
        with contextlib.suppress(subprocess.CalledProcessError, ProcessLookupError):
            group = int(self.tmux("display-message", "-p", "#{pane_pid}"))
            self.tmux("kill-server")
            os.killpg(group, signal.SIGKILL)  # gemini-cli does not mind that its terminal is gone

    def asks(self, prompt, *shown):
        """Types a prompt, sends it off, and waits until all of this is shown and nothing is under way."""
        self.sends(prompt)
        self.awaits(*shown)
        self.until("nothing is under way", lambda: WORKING not in self.screen())

    def sends(self, prompt):
        self.tmux("send-keys", "-l", prompt)
        self.until(f"{prompt!r} is typed", lambda: self.input().endswith(prompt[-40:]))
        # A return that follows text too closely counts as pasted, and is then a line break.
        time.sleep(0.2)
        self.presses("Enter")
        self.until(f"{prompt!r} is sent off", lambda: INPUT in self.input())

    def presses(self, *keys):
        self.tmux("send-keys", *keys)

    def awaits(self, *shown):
        self.until(f"the window shows {shown}", lambda: all(it in self.screen() for it in shown))

    def until(self, what, holds):
        deadline = time.monotonic() + DEADLINE
        while not holds():
            if time.monotonic() > deadline:
                fail(f"not within {DEADLINE} s: {what}; it shows\n{self.screen()}")
            time.sleep(0.05)

    def input(self):
        """The line where prompts are typed; its mark says that every tool is approved."""
        return next((it for it in reversed(self.screen().splitlines()) if it.startswith(" * ")), "")

    def screen(self):
        lines = self.tmux("capture-pane", "-p", "-J").splitlines()
        return "\n".join(it.rstrip() for it in lines if it.strip())

    def tmux(self, *arguments):
        command = ["tmux", "-S", self.socket, *map(str, arguments)]
        return subprocess.run(command, env=self.stage.agent_environment(), cwd=self.stage.project, check=True,
                              capture_output=True, text=True, timeout=DEADLINE).stdout
