"""Coding agents that run unmodified against the gateway: one file each, and one line in `cases/coding.py`."""

import contextlib
import re

from stage import check
from terminal import Window


class CodingAgent:
    """An agent: its settings, its command, how to read its requests (`wire`), and the prompts by which the mock makes it
    use its tools."""

    name = ""
    wire = None
    thinks = True  # it sends signatures of the model's thoughts back
    resumes = True  # a run can go on with the conversation of the last one
    reader = ""  # the tool by which it reads files
    reader_in_hooks = "read_file"  # its name for hooks of gemini-cli
    shows_error = ""  # what it shows in front of the reason of a call that is denied by an error
    window_marks = {}  # the marks of its window, for `Window`

    def settle(self, stage):
        """Writes the agent's settings into the home."""

    def environment(self, stage):
        return {}

    def command(self, resumed):
        """The command that reads a prompt from its input; `resumed` goes on with the last conversation."""
        raise NotImplementedError

    def window_command(self):
        raise NotImplementedError

    def asks(self, stage, prompt, resumed=False):
        """Runs the agent once without a window."""
        self.settle(stage)
        return stage.run_sealed(self.environment(stage), *self.command(resumed), said=prompt)

    def conversation(self, stage):
        """A context with a conversation of several prompts."""
        return contextlib.nullcontext(Conversation(self, stage))

    def compacts(self, stage):
        """The prompt that has a conversation summed up; none if a long one is summed up before the next prompt."""
        return None

    def window(self, stage):
        self.settle(stage)
        environment = stage.environment() | self.environment(stage)
        return Window(stage, self.window_command(), environment, **self.window_marks)

    def shown(self, run):
        """What the user sees as the answer."""
        return run.stdout.strip()

    def complains(self, run):
        """What the user sees of an error, without colours."""
        return re.sub(r"\x1b\[[0-9;]*m", "", run.stdout + run.stderr)

    def requests(self, stage):
        """The model calls of conversations that the mock saw, without helpers such as titles."""
        calls = [it for it in stage.seen() if it["path"].endswith(self.wire.path)]
        return [it for it in calls if it["body"].get("tools")]

    def prompts(self, request):
        """What the user of an agent has asked, without what the agent adds."""
        return [it for it in self.wire.prompts(request["body"]) if not it.startswith("<")]

    def results(self, request):
        return self.wire.results(request["body"])

    # Prompts that name a tool, for the mock.

    def reads(self, stage, *names):
        raise NotImplementedError


class Conversation:
    """A conversation in which each prompt is a run that resumes the one before."""

    def __init__(self, agent, stage):
        self.agent, self.stage, self.has_begun = agent, stage, False

    def says(self, prompt):
        """What the user sees as the answer to a prompt."""
        run = self.agent.asks(self.stage, prompt, resumed=self.has_begun)
        check(run.returncode, 0, run)
        self.has_begun = True
        return self.agent.shown(run)

    def compacts(self):
        if prompt := self.agent.compacts(self.stage):
            self.says(prompt)
