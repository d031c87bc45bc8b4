"""Interactive terminals of agents, driven through tmux."""

import contextlib
import os
import shlex
import signal
import subprocess
import time

from install import BIN
from harness import CLIENT_TIMEOUT, fail

ROWS, COLUMNS = 60, 200


class Window:
    """A tmux window with an interactive agent, closed at the end.

    The agent displays `ready` when it takes a prompt and `busy` while it works. `input_prefix` begins its input line.
    """

    def __init__(self, harness, command, environment, ready, input_prefix, busy):
        self.harness, self.ready, self.input_prefix, self.busy = harness, ready, input_prefix, busy
        self.socket = harness.home / "tmux"
        self.command = shlex.join(map(str, command))
        self.environment = environment

    def __enter__(self):
        size = ["-x", COLUMNS, "-y", ROWS]
        self.tmux("-f", "/dev/null", "new-session", "-d", *size, self.command)
        try:
            self.wait_for(self.ready)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error):
        with contextlib.suppress(subprocess.CalledProcessError, ProcessLookupError):
            group = int(self.tmux("display-message", "-p", "#{pane_pid}"))
            self.tmux("kill-server")
            os.killpg(group, signal.SIGKILL)  # gemini-cli survives its terminal

    def send_and_wait(self, prompt, *texts):
        """Sends a prompt, and waits until the window shows all of these texts and the agent is idle."""
        self.send(prompt)
        self.wait_for(*texts)
        self.wait_until("the agent is idle", lambda: self.busy not in self.screen())

    def send(self, prompt):
        self.tmux("send-keys", "-l", prompt)
        self.wait_until(f"{prompt!r} is typed", lambda: self.is_typed(prompt))
        # Agents treat Enter shortly after text as a pasted line break. How shortly depends on the load of the machine,
        # so Enter is pressed until the prompt has left the input line.
        self.wait_until(f"{prompt!r} is sent", lambda: self.press_enter(prompt))

    def press_enter(self, prompt):
        """Presses Enter after a pause. Returns true, without pressing it, if the prompt has left the input line."""
        time.sleep(0.5)
        if not self.is_typed(prompt):
            time.sleep(0.1)  # while it is redrawn, a window lacks its input line for a moment
            return not self.is_typed(prompt)
        self.press("Enter")
        return False

    def is_typed(self, prompt):
        return self.input_line().endswith(prompt[-40:])

    def press(self, *keys):
        self.tmux("send-keys", *keys)

    def wait_for(self, *texts):
        self.wait_until(f"the window shows {texts}", lambda: all(it in self.screen() for it in texts))

    def wait_until(self, description, condition):
        deadline = time.monotonic() + CLIENT_TIMEOUT
        while not condition():
            if time.monotonic() > deadline:
                fail(f"not within {CLIENT_TIMEOUT} s: {description}; the window shows\n{self.screen()}")
            time.sleep(0.05)

    def input_line(self):
        """The line in which prompts are typed."""
        return next((it for it in reversed(self.screen().splitlines()) if it.startswith(self.input_prefix)), "")

    def screen(self):
        lines = self.tmux("capture-pane", "-p", "-J").splitlines()
        return "\n".join(it.rstrip() for it in lines if it.strip())

    def tmux(self, *arguments):
        command = ["tmux", "-S", self.socket, *map(str, arguments)]
        return subprocess.run(command, env=self.environment, cwd=self.harness.project, check=True,
                              capture_output=True, text=True, timeout=CLIENT_TIMEOUT).stdout


class GeminiWindow(Window):
    """A window of gemini-cli with every tool approved, which changes the prefix of its input line."""

    def __init__(self, harness, *arguments):
        command = [BIN / "node", BIN / "gemini", "-m", "gemini-2.5-flash", "--yolo", *arguments]
        super().__init__(harness, command, harness.gemini_environment(),
                         ready="Type your message", input_prefix=" * ", busy="esc to cancel")
