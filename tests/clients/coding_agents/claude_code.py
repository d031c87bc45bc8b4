"""Claude Code."""

import json
import re

from coding_agents import CodingAgent
from install import native
from stage import write_json
from wires import Messages


class ClaudeCode(CodingAgent):
    name = "claude code"
    wire = Messages
    reader = "Read"
    shows_error = "API Error: 403 "
    window_marks = {"ready": "bypass permissions on", "line": "❯", "working": "esc to interrupt"}

    def settle(self, stage):
        trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        if not (stage.home / ".claude.json").exists():
            write_json(stage.home / ".claude.json", {
                "hasCompletedOnboarding": True,
                "customApiKeyResponses": {"approved": ["held-by-hookgate"], "rejected": []},
                "projects": {str(stage.project): trusted},
            })
        write_json(stage.home / ".claude" / "settings.json", {"skipDangerousModePermissionPrompt": True})

    def environment(self, stage):
        return stage.pointed("claude-code.env") | {
            "IS_SANDBOX": "1",  # it may run as root
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }

    def command(self, resumed):
        return [*self.window_command(), *(["--continue"] if resumed else []), "-p"]

    def window_command(self):
        return [native("claude"), "--dangerously-skip-permissions"]

    def prompts(self, request):
        """Its reminders come before a prompt, in a block of their own or, later on, in the same text."""
        texts = [re.sub(r"<system-reminder>.*?</system-reminder>\s*", "", it, flags=re.DOTALL) for it in self.wire.prompts(request["body"])]
        return [it for it in texts if it and not it.startswith("<")]

    def reads(self, stage, *names):
        return " and ".join(f'Read {json.dumps({"file_path": str(stage.project / it)})}' for it in names)

    def delegates(self, stage, prompt):
        asked = {"description": "to look it up", "prompt": prompt, "subagent_type": "general-purpose", "run_in_background": False}
        return f"Agent {json.dumps(asked)}"

    def compacts(self, stage):
        return "/compact"
