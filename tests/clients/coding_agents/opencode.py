"""opencode, which speaks each of the three APIs."""

import contextlib
import json
import socket
import subprocess

from coding_agents import CodingAgent
from install import native
from stage import POINTED, post
from wires import Chat, Messages, Responses


class OpenCode(CodingAgent):
    reader = "read"
    shows_error = "Error: "

    def __init__(self, api, wire, model):
        self.name, self.wire, self.model = f"opencode ({api})", wire, model

    def settle(self, stage):
        folder = stage.home / ".config" / "opencode"
        folder.mkdir(parents=True, exist_ok=True)
        pointed = json.loads((POINTED / "opencode.json").read_text().replace("http://127.0.0.1:8787", stage.gate)) | SETTINGS
        provider, model = self.model.split("/")
        models = pointed["provider"][provider].setdefault("models", {})
        models[model] = models.get(model, {}) | THINKING.get(provider, {})
        (folder / "opencode.json").write_text(json.dumps(pointed))

    def environment(self, stage):
        off = ["AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS"]
        keys = {f"{it}_API_KEY": "held-by-hookgate" for it in ["ANTHROPIC", "OPENAI"]}
        return keys | {f"OPENCODE_DISABLE_{it}": "true" for it in off}

    def command(self, resumed):
        return [native("opencode"), "run", "--model", self.model, *(["--continue"] if resumed else [])]

    @contextlib.contextmanager
    def conversation(self, stage):
        """A server of its own, which answers sooner than a run for each prompt."""
        self.settle(stage)
        command = [native("opencode"), "serve", "--hostname", "127.0.0.1", "--port", str(free_port())]
        with open(stage.home / "opencode.log", "w") as log:
            process = subprocess.Popen(command, env=stage.environment() | self.environment(stage), cwd=stage.project,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            url = next(it for it in process.stdout if "listening on " in it).split("listening on ")[1].strip()
            # With a title there is no call that makes one.
            session = post(f"{url}/session", {"title": "a conversation"})["id"]
            yield ServedConversation(self, f"{url}/session/{session}")
        finally:
            process.kill()
            process.wait()

    def reads(self, stage, *names):
        return " and ".join(f'read {json.dumps({"filePath": str(stage.project / it)})}' for it in names)

    def delegates(self, stage, prompt):
        return f'task {json.dumps({"description": "to look it up", "prompt": prompt, "subagent_type": "general"})}'


class ServedConversation:
    """A session of `opencode serve`."""

    def __init__(self, agent, url):
        self.url = url
        provider, model = agent.model.split("/")
        self.model = {"providerID": provider, "modelID": model}

    def says(self, prompt):
        answer = post(f"{self.url}/message", {"model": self.model, "parts": [{"type": "text", "text": prompt}]})
        return "".join(it["text"] for it in answer["parts"] if it["type"] == "text")

    def compacts(self):
        post(f"{self.url}/summarize", self.model)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


# What makes its models think; those of OpenAI do by themselves.
THINKING = {
    "anthropic": {"options": {"thinking": {"type": "enabled", "budgetTokens": 2048}}},
    "hookgate": {"reasoning": True, "interleaved": {"field": "reasoning_content"}, "options": {"reasoningEffort": "low"}},
}
SETTINGS = {"autoupdate": False, "share": "disabled", "permission": {"*": "allow"}}

ALL = [
    OpenCode("messages", Messages, "anthropic/claude-sonnet-4-5"),
    OpenCode("responses", Responses, "openai/gpt-5.1"),
    OpenCode("chat", Chat, "hookgate/qwen3-coder"),
]
