"""opencode, which uses each of the three APIs.

Its start takes seconds of CPU time. One `opencode serve` therefore answers the prompts of all cases, each in its own
project, except those that start the command with the first of the APIs.
"""

import atexit
import contextlib
import functools
import json
import shutil
import subprocess
import tempfile
import threading
import urllib.parse

from coding_agents import CodingAgent
from install import HERE, native
from harness import AGENT_CONFIGS, Failed, environment, get, post
from dialects import Chat, Messages, Responses


class OpenCode(CodingAgent):
    read_tool = "read"
    error_prefix = "Error: "

    def __init__(self, api, dialect, model):
        self.name, self.dialect, self.model = f"opencode ({api})", dialect, model

    def write_settings(self, harness):
        text = (AGENT_CONFIGS / "opencode.json").read_text().replace("http://127.0.0.1:8787", harness.gateway)
        settings = json.loads(text) | SETTINGS
        provider, model = self.model.split("/")
        models = settings["provider"][provider].setdefault("models", {})
        models[model] = models.get(model, {}) | THINKING.get(provider, {})
        (harness.project / "opencode.json").write_text(json.dumps(settings))

    def environment(self, harness):
        return VARIABLES | MODELS

    def command(self, resumed):
        return [native("opencode"), "run", "--model", self.model, *(["--continue"] if resumed else [])]

    def run(self, harness, prompt, resumed=False):
        self.write_settings(harness)
        answer, error = ServedConversation(self, harness, resumed).answer(prompt)
        return subprocess.CompletedProcess([], returncode=1 if error else 0, stdout=answer, stderr=error)

    def run_command(self, harness, prompt, resumed=False):
        return super().run_command(harness, prompt, resumed) if self is ALL[0] else self.run(harness, prompt, resumed)

    def conversation(self, harness):
        self.write_settings(harness)
        return contextlib.nullcontext(ServedConversation(self, harness))

    def read_prompt(self, harness, *names):
        return " and ".join(f'read {json.dumps({"filePath": str(harness.project / it)})}' for it in names)

    def sub_agent_prompt(self, harness, prompt):
        return f'task {json.dumps({"description": "to look it up", "prompt": prompt, "subagent_type": "general"})}'


class ServedConversation:
    """A session of `opencode serve` in a project."""

    def __init__(self, agent, harness, resumed=False):
        provider, model = agent.model.split("/")
        self.model = {"providerID": provider, "modelID": model}
        self.url = server()
        self.project = urllib.parse.urlencode({"directory": harness.project})
        # A title avoids the call that would generate one.
        session = self.sessions()[0] if resumed else self.post("session", {"title": "a conversation"})
        self.path = f"session/{session['id']}"

    def sessions(self):
        """Sessions of the project, the newest first."""
        return get(f"{self.url}/session?{self.project}")

    def post(self, path, body):
        return post(f"{self.url}/{path}?{self.project}", body)

    def answer(self, prompt):
        """The answer and the error that the user sees."""
        message = self.post(f"{self.path}/message", {"model": self.model, "parts": [{"type": "text", "text": prompt}]})
        error = message["info"].get("error")
        text = "".join(it["text"] for it in message["parts"] if it["type"] == "text")
        return text, f"Error: {error['data']['message']}" if error else ""

    def send(self, prompt):
        return self.answer(prompt)[0]

    def compact(self):
        self.post(f"{self.path}/summarize", self.model)


STARTING = threading.Lock()


def server():
    """URL of the server."""
    with STARTING:
        return start_server()


@functools.cache
def start_server():
    """Starts the server, which ends with this program. Returns its URL."""
    home = tempfile.mkdtemp(prefix="hookgate-opencode-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    command = [native("opencode"), "serve", "--hostname", "127.0.0.1", "--port", "0"]
    with open(f"{home}/opencode.log", "w") as log:
        process = subprocess.Popen(command, env=environment(home, home) | VARIABLES | MODELS, cwd=home,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
    atexit.register(process.wait)
    atexit.register(process.kill)
    for line in process.stdout:
        if "listening on " in line:
            return line.split("listening on ")[1].strip()
    raise Failed("`opencode serve` did not start")


DISABLED = ["AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS"]
VARIABLES = {
    **{f"{it}_API_KEY": "held-by-hookgate" for it in ["ANTHROPIC", "OPENAI"]},
    **{f"OPENCODE_DISABLE_{it}": "true" for it in DISABLED},
}
# The models of these cases. Reading the thousands that it knows takes seconds of CPU time, in each project again.
MODELS = {"OPENCODE_MODELS_PATH": str(HERE / "coding_agents" / "opencode.models.json")}
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
