"""LLxprt Code, which speaks each of the three APIs. No registry has it: its cases run if HOOKGATE_LLXPRT names its command."""

import json
import os
import shlex

from coding_agents import CodingAgent
from wires import Chat, Messages, Responses

VARIABLE = "HOOKGATE_LLXPRT"


class Llxprt(CodingAgent):
    reader = "read_file"
    thinks = False
    resumes = False

    def __init__(self, api, wire, provider, model, path=""):
        self.name, self.wire, self.provider, self.model, self.path = f"llxprt ({api})", wire, provider, model, path

    def asks(self, stage, prompt, resumed=False):
        command = shlex.split(os.environ[VARIABLE])
        options = ["--provider", self.provider, "--baseurl", f"{stage.gate}{self.path}", "--key", "held-by-hookgate", "--model", self.model]
        return stage.run_sealed({}, *command, *options, "--yolo", "-p", prompt)

    def shown(self, run):
        """It names the profile first."""
        return "\n".join(it for it in run.stdout.splitlines() if not it.startswith("[cli-args:")).strip()

    def reads(self, stage, *names):
        return " and ".join(f'read_file {json.dumps({"file_path": str(stage.project / it)})}' for it in names)


NOT_RUN = None if VARIABLE in os.environ else f"{VARIABLE} does not name its command"
ALL = [
    Llxprt("messages", Messages, "anthropic", "claude-sonnet-4-5"),
    Llxprt("responses", Responses, "openai-responses", "gpt-5.1", "/v1"),
    Llxprt("chat", Chat, "openai", "qwen3-coder", "/v1"),
]
