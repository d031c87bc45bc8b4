"""Codex."""

import json

from coding_agents import CodingAgent
from install import native
from harness import AGENT_CONFIGS
from dialects import Responses


class Codex(CodingAgent):
    name = "codex"
    dialect = Responses
    read_tool = "exec_command"
    read_tool_in_hooks = "run_shell_command"
    window_texts = {"ready": "? for shortcuts", "input_prefix": "›", "busy": "esc to interrupt"}

    def write_settings(self, harness):
        folder = harness.home / ".codex"
        folder.mkdir(exist_ok=True)
        gateway = (AGENT_CONFIGS / "codex.config.toml").read_text().replace("http://127.0.0.1:8787", harness.gateway)
        trusted = f'[projects."{harness.project}"]\ntrust_level = "trusted"\n'
        (folder / "config.toml").write_text(f"{SETTINGS}{gateway}\n{trusted}")

    def environment(self, harness):
        return {"CODEX_HOME": str(harness.home / ".codex"), "OPENAI_API_KEY": "held-by-hookgate"}

    def command(self, resumed):
        options = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
        return [native("codex"), "exec", *options, *(["resume", "--last"] if resumed else []), "-"]

    def window_command(self):
        return [native("codex"), "--dangerously-bypass-approvals-and-sandbox"]

    def read_prompt(self, harness, *names):
        return " and ".join(f'exec_command {json.dumps({"cmd": f"cat {it}"})}' for it in names)

    def sub_agent_prompt(self, harness, prompt):
        """Starts a sub-agent and sleeps, because the sub-agent ends with its parent."""
        return f'spawn_agent {json.dumps({"message": prompt})} and exec_command {json.dumps({"cmd": "sleep 2"})}'


# A long conversation is compacted before the next prompt.
SETTINGS = """
check_for_update_on_startup = false
model_reasoning_summary = "auto"
model_auto_compact_token_limit = 150000
"""
