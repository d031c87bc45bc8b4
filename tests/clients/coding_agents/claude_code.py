"""Claude Code."""

import contextlib
import json
import re
import subprocess
import threading

from coding_agents import CodingAgent
from install import native
from harness import CLIENT_TIMEOUT, Failed, write_json
from dialects import Messages


class ClaudeCode(CodingAgent):
    name = "claude code"
    dialect = Messages
    read_tool = "Read"
    error_prefix = "API Error: 403 "
    window_texts = {"ready": "bypass permissions on", "input_prefix": "❯", "busy": "esc to interrupt"}

    def write_settings(self, harness):
        trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        if not (harness.home / ".claude.json").exists():
            write_json(harness.home / ".claude.json", {
                "hasCompletedOnboarding": True,
                "customApiKeyResponses": {"approved": ["held-by-hookgate"], "rejected": []},
                "projects": {str(harness.project): trusted},
            })
        write_json(harness.home / ".claude" / "settings.json", {"skipDangerousModePermissionPrompt": True})

    def environment(self, harness):
        return harness.agent_variables("claude-code.env") | {
            "IS_SANDBOX": "1",  # allows it to run as root
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }

    def command(self, resumed):
        return [*self.window_command(), *(["--continue"] if resumed else []), "-p"]

    @contextlib.contextmanager
    def conversation(self, harness):
        """One process answers all prompts."""
        self.write_settings(harness)
        formats = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
        process = subprocess.Popen([*self.command(resumed=False), *formats], cwd=harness.project, text=True,
                                   env=harness.environment() | self.environment(harness), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            yield ClaudeConversation(process)
        finally:
            process.kill()
            process.communicate()

    def window_command(self):
        return [native("claude"), "--dangerously-skip-permissions"]

    def prompts(self, request):
        """Removes reminders, which precede a prompt in a block of their own or, in later calls, in the same text."""
        reminder = re.compile(r"<system-reminder>.*?</system-reminder>\s*", flags=re.DOTALL)
        texts = [reminder.sub("", it) for it in self.dialect.prompts(request["body"])]
        return [it for it in texts if it and not it.startswith("<")]

    def read_prompt(self, harness, *names):
        return " and ".join(f'Read {json.dumps({"file_path": str(harness.project / it)})}' for it in names)

    def sub_agent_prompt(self, harness, prompt):
        arguments = {"description": "to look it up", "prompt": prompt, "subagent_type": "general-purpose",
                     "run_in_background": False}
        return f"Agent {json.dumps(arguments)}"


class ClaudeConversation:
    def __init__(self, process):
        self.process = process

    def send(self, prompt):
        """Sends a prompt. Returns the answer that the user sees."""
        message = {"type": "user", "message": {"role": "user", "content": prompt}}
        timeout = threading.Timer(CLIENT_TIMEOUT, self.process.kill)
        timeout.start()
        try:
            self.process.stdin.write(f"{json.dumps(message)}\n")
            self.process.stdin.flush()
            for line in self.process.stdout:
                if (event := json.loads(line))["type"] == "result":
                    return event["result"]
        finally:
            timeout.cancel()
        raise Failed(f"it ended without an answer to {prompt!r}")

    def compact(self):
        self.send("/compact")
