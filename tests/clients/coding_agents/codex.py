"""Codex."""

import json

from coding_agents import CodingAgent
from install import native
from stage import POINTED
from wires import Responses


class Codex(CodingAgent):
    name = "codex"
    wire = Responses
    reader = "exec_command"
    reader_in_hooks = "run_shell_command"
    window_marks = {"ready": "? for shortcuts", "line": "›", "working": "esc to interrupt"}

    def settle(self, stage):
        folder = stage.home / ".codex"
        folder.mkdir(exist_ok=True)
        pointed = (POINTED / "codex.config.toml").read_text().replace("http://127.0.0.1:8787", stage.gate)
        trusted = f'[projects."{stage.project}"]\ntrust_level = "trusted"\n'
        (folder / "config.toml").write_text(f"{SETTINGS}{pointed}\n{trusted}")

    def environment(self, stage):
        return {"CODEX_HOME": str(stage.home / ".codex"), "OPENAI_API_KEY": "held-by-hookgate"}

    def command(self, resumed):
        options = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
        return [native("codex"), "exec", *options, *(["resume", "--last"] if resumed else []), "-"]

    def window_command(self):
        return [native("codex"), "--dangerously-bypass-approvals-and-sandbox"]

    def reads(self, stage, *names):
        return " and ".join(f'exec_command {json.dumps({"cmd": f"cat {it}"})}' for it in names)

    def delegates(self, stage, prompt):
        """Waits beside the sub-agent, which ends with its parent."""
        return f'spawn_agent {json.dumps({"message": prompt})} and exec_command {json.dumps({"cmd": "sleep 2"})}'


# A long conversation is summed up before the next prompt.
SETTINGS = """
check_for_update_on_startup = false
model_reasoning_summary = "auto"
model_auto_compact_token_limit = 150000
"""
