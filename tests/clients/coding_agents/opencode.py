"""opencode, which speaks each of the three APIs."""

import json

from coding_agents import CodingAgent
from install import native
from stage import POINTED
from wires import Chat, Messages, Responses


class OpenCode(CodingAgent):
    reader = "read"
    shows_error = "Error: "

    def __init__(self, api, wire, model):
        self.name, self.wire, self.model = f"opencode ({api})", wire, model
        self.thinks = wire is Responses

    def settle(self, stage):
        folder = stage.home / ".config" / "opencode"
        folder.mkdir(parents=True, exist_ok=True)
        pointed = (POINTED / "opencode.json").read_text().replace("http://127.0.0.1:8787", stage.gate)
        (folder / "opencode.json").write_text(json.dumps(json.loads(pointed) | SETTINGS))

    def environment(self, stage):
        off = ["AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS"]
        keys = {f"{it}_API_KEY": "held-by-hookgate" for it in ["ANTHROPIC", "OPENAI"]}
        return keys | {f"OPENCODE_DISABLE_{it}": "true" for it in off}

    def command(self, resumed):
        return [native("opencode"), "run", "--model", self.model, *(["--continue"] if resumed else [])]

    def reads(self, stage, *names):
        return " and ".join(f'read {json.dumps({"filePath": str(stage.project / it)})}' for it in names)

    def delegates(self, stage, prompt):
        return f'task {json.dumps({"description": "to look it up", "prompt": prompt, "subagent_type": "general"})}'


SETTINGS = {"autoupdate": False, "share": "disabled", "permission": {"*": "allow"}}

ALL = [
    OpenCode("messages", Messages, "anthropic/claude-sonnet-4-5"),
    OpenCode("responses", Responses, "openai/gpt-5.1"),
    OpenCode("chat", Chat, "hookgate/qwen3-coder"),
]
