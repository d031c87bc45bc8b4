"""opencode, which uses each of the three APIs."""

import contextlib
import json
import subprocess

from coding_agents import CodingAgent
from install import native
from harness import AGENT_CONFIGS, post
from dialects import Chat, Messages, Responses


class OpenCode(CodingAgent):
    read_tool = "read"
    error_prefix = "Error: "

    def __init__(self, api, dialect, model):
        self.name, self.dialect, self.model = f"opencode ({api})", dialect, model

    def write_settings(self, harness):
        folder = harness.home / ".config" / "opencode"
        folder.mkdir(parents=True, exist_ok=True)
        text = (AGENT_CONFIGS / "opencode.json").read_text().replace("http://127.0.0.1:8787", harness.gateway)
        settings = json.loads(text) | SETTINGS
        provider, model = self.model.split("/")
        models = settings["provider"][provider].setdefault("models", {})
        models[model] = models.get(model, {}) | THINKING.get(provider, {})
        (folder / "opencode.json").write_text(json.dumps(settings))

    def environment(self, harness):
        disabled = ["AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS"]
        keys = {f"{it}_API_KEY": "held-by-hookgate" for it in ["ANTHROPIC", "OPENAI"]}
        return keys | {f"OPENCODE_DISABLE_{it}": "true" for it in disabled}

    def command(self, resumed):
        return [native("opencode"), "run", "--model", self.model, *(["--continue"] if resumed else [])]

    @contextlib.contextmanager
    def conversation(self, harness):
        """A session of `opencode serve`, which answers sooner than a run for each prompt."""
        self.write_settings(harness)
        command = [native("opencode"), "serve", "--hostname", "127.0.0.1", "--port", "0"]
        with open(harness.home / "opencode.log", "w") as log:
            environment = harness.environment() | self.environment(harness)
            process = subprocess.Popen(command, env=environment, cwd=harness.project,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            url = next(it for it in process.stdout if "listening on " in it).split("listening on ")[1].strip()
            # A title avoids the call that would generate one.
            session = post(f"{url}/session", {"title": "a conversation"})["id"]
            yield ServedConversation(self, f"{url}/session/{session}")
        finally:
            process.kill()
            process.wait()

    def read_prompt(self, harness, *names):
        return " and ".join(f'read {json.dumps({"filePath": str(harness.project / it)})}' for it in names)

    def sub_agent_prompt(self, harness, prompt):
        return f'task {json.dumps({"description": "to look it up", "prompt": prompt, "subagent_type": "general"})}'


class ServedConversation:
    """A session of `opencode serve`."""

    def __init__(self, agent, url):
        self.url = url
        provider, model = agent.model.split("/")
        self.model = {"providerID": provider, "modelID": model}

    def send(self, prompt):
        answer = post(f"{self.url}/message", {"model": self.model, "parts": [{"type": "text", "text": prompt}]})
        return "".join(it["text"] for it in answer["parts"] if it["type"] == "text")

    def compact(self):
        post(f"{self.url}/summarize", self.model)


# Settings that enable thinking; models of OpenAI need none.
THINKING = {
    "anthropic": {"options": {"thinking": {"type": "enabled", "budgetTokens": 2048}}},
    "hookgate": {"reasoning": True, "interleaved": {"field": "reasoning_content"},
                 "options": {"reasoningEffort": "low"}},
}
SETTINGS = {"autoupdate": False, "share": "disabled", "permission": {"*": "allow"}}

ALL = [
    OpenCode("messages", Messages, "anthropic/claude-sonnet-4-5"),
    OpenCode("responses", Responses, "openai/gpt-5.1"),
    OpenCode("chat", Chat, "hookgate/qwen3-coder"),
]
