"""Coding agents that run unmodified against the gateway. Each has a module here and a line in `cases/coding.py`."""

import contextlib
import re

from harness import check
from terminal import Window


class CodingAgent:
    """An agent: its settings, its command, the reader of its requests (`dialect`), and the prompts that make the mock
    call its tools."""

    name = ""
    dialect = None
    sends_thoughts = True  # later requests contain the signatures of the model's thoughts
    can_resume = True  # a run can continue the conversation of the last one
    read_tool = ""  # the tool that reads files
    read_tool_in_hooks = "read_file"  # the name of that tool in the input of hooks
    error_prefix = ""  # precedes the reason of a call that is denied by an error
    window_texts = {}  # arguments of `Window`: the texts that show its state

    def write_settings(self, harness):
        """Writes the agent's settings into the home."""

    def environment(self, harness):
        return {}

    def command(self, resumed):
        """The command that reads a prompt from its input. `resumed` continues the last conversation."""
        raise NotImplementedError

    def window_command(self):
        raise NotImplementedError

    def run(self, harness, prompt, resumed=False):
        """Has the agent answer a prompt without a window."""
        return self.run_command(harness, prompt, resumed)

    def run_command(self, harness, prompt, resumed=False):
        self.write_settings(harness)
        return harness.run_isolated(self.environment(harness), *self.command(resumed), stdin=prompt)

    def conversation(self, harness):
        """A context with a conversation of several prompts."""
        return contextlib.nullcontext(Conversation(self, harness))

    def window(self, harness):
        self.write_settings(harness)
        environment = harness.environment() | self.environment(harness)
        return Window(harness, self.window_command(), environment, **self.window_texts)

    def answer(self, run):
        """The answer that the user sees."""
        return run.stdout.strip()

    def error_text(self, run):
        """The error message that the user sees, without colours."""
        return re.sub(r"\x1b\[[0-9;]*m", "", run.stdout + run.stderr)

    def requests(self, harness):
        """Model calls of conversations that the mock received, without auxiliary calls such as those for titles."""
        calls = [it for it in harness.mock_requests() if it["path"].endswith(self.dialect.path)]
        return [it for it in calls if it["body"].get("tools")]

    def prompts(self, request):
        """Prompts of the user, without texts that the agent adds."""
        return [it for it in self.dialect.prompts(request["body"]) if not it.startswith("<")]

    def tool_results(self, request):
        return self.dialect.tool_results(request["body"])

    def read_prompt(self, harness, *names):
        """A prompt that makes the mock call the tool that reads files."""
        raise NotImplementedError


class Conversation:
    """A conversation in which each prompt is a run that resumes the one before."""

    def __init__(self, agent, harness):
        self.agent, self.harness, self.has_begun = agent, harness, False

    def send(self, prompt):
        """Sends a prompt. Returns the answer that the user sees."""
        run = self.agent.run(self.harness, prompt, resumed=self.has_begun)
        check(run.returncode, 0, run)
        self.has_begun = True
        return self.agent.answer(run)

    def compact(self):
        """Does nothing: an agent compacts a long conversation before the next prompt."""
