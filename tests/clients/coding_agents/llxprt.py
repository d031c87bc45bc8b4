"""LLxprt Code, which uses each of the three APIs. No registry has it: its cases run if HOOKGATE_LLXPRT names its
command."""

import json
import os
import shlex

from coding_agents import CodingAgent
from dialects import Chat, Messages, Responses

VARIABLE = "HOOKGATE_LLXPRT"


class Llxprt(CodingAgent):
    read_tool = "read_file"
    sends_thoughts = False
    can_resume = False

    def __init__(self, api, dialect, provider, model, path=""):
        self.name, self.dialect = f"llxprt ({api})", dialect
        self.provider, self.model, self.path = provider, model, path

    def run(self, harness, prompt, resumed=False):
        command = shlex.split(os.environ[VARIABLE])
        options = ["--provider", self.provider, "--baseurl", f"{harness.gateway}{self.path}",
                   "--key", "held-by-hookgate", "--model", self.model]
        return harness.run_isolated({}, *command, *options, "--yolo", "-p", prompt)

    def answer(self, run):
        """Removes the profile, which it prints first."""
        return "\n".join(it for it in run.stdout.splitlines() if not it.startswith("[cli-args:")).strip()

    def read_prompt(self, harness, *names):
        return " and ".join(f'read_file {json.dumps({"file_path": str(harness.project / it)})}' for it in names)


NOT_RUN = None if VARIABLE in os.environ else f"{VARIABLE} does not name its command"
ALL = [
    Llxprt("messages", Messages, "anthropic", "claude-sonnet-4-5"),
    Llxprt("responses", Responses, "openai-responses", "gpt-5.1", "/v1"),
    Llxprt("chat", Chat, "openai", "qwen3-coder", "/v1"),
]
