"""Windows of agents, driven through tmux."""

import contextlib
import os
import shlex
import signal
import subprocess
import time

from install import BIN
from stage import DEADLINE, fail

ROWS, COLUMNS = 60, 200


class Window:
    """A terminal of its own with an agent in it, gone at the end.

    `ready` is shown where a prompt may be typed, `line` begins the line where it is typed, `working` is shown while
    the agent is at work.
    """

    def __init__(self, stage, command, environment, ready, line, working):
        self.stage, self.ready, self.line, self.working = stage, ready, line, working
        self.socket = stage.home / "tmux"
        self.command = shlex.join(map(str, command))
        self.environment = environment

    def __enter__(self):
        size = ["-x", COLUMNS, "-y", ROWS]
        self.tmux("-f", "/dev/null", "new-session", "-d", *size, self.command)
        try:
            self.awaits(self.ready)
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
        self.until("nothing is under way", lambda: self.working not in self.screen())

    def sends(self, prompt):
        self.tmux("send-keys", "-l", prompt)
        self.until(f"{prompt!r} is typed", lambda: self.input().endswith(prompt[-40:]))
        # An agent takes a return that follows text too closely as pasted, a line break. How close that is depends on
        # how busy the machine is, so it is pressed again until the prompt is gone.
        self.until(f"{prompt!r} is sent off", lambda: self.submits(prompt))

    def submits(self, prompt):
        """Presses return after a pause; true if the prompt is no longer in the line where it was typed."""
        time.sleep(0.5)
        if not self.input().endswith(prompt[-40:]):
            return True
        self.presses("Enter")
        return False

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
        """The line where prompts are typed."""
        return next((it for it in reversed(self.screen().splitlines()) if it.startswith(self.line)), "")

    def screen(self):
        lines = self.tmux("capture-pane", "-p", "-J").splitlines()
        return "\n".join(it.rstrip() for it in lines if it.strip())

    def tmux(self, *arguments):
        command = ["tmux", "-S", self.socket, *map(str, arguments)]
        return subprocess.run(command, env=self.environment, cwd=self.stage.project, check=True,
                              capture_output=True, text=True, timeout=DEADLINE).stdout


class Terminal(Window):
    """A window of gemini-cli, in which every tool is approved: the mark of its input says so."""

    def __init__(self, stage, *arguments):
        command = [BIN / "node", BIN / "gemini", "-m", "gemini-2.5-flash", "--yolo", *arguments]
        super().__init__(stage, command, stage.agent_environment(),
                         ready="Type your message", line=" * ", working="esc to cancel")
