"""Which agent shows which feature: the table that `run` prints, and why some agents lack some features.

A case that names an agent and features fills their cells. A cell without a case needs a reason in `LACKS`.
"""

import collections
import dataclasses
from collections.abc import Callable

FEATURES = [
    "plain answer", "tool loop", "parallel tools", "thinking", "model swap", "whitelist", "synthetic answer",
    "deny at the prompt", "deny of a tool call", "hidden result over ten turns", "redaction over a stream", "resume",
    "sub-agent", "compaction", "denials: error", "window",
]
LLXPRT = ["llxprt (messages)", "llxprt (responses)", "llxprt (chat)"]
AGENTS = [
    "claude code", "codex", "opencode (messages)", "opencode (responses)", "opencode (chat)", *LLXPRT, "aider (messages)",
    "aider (chat)", "anthropic sdk", "openai sdk (chat)", "openai sdk (responses)", "openai agents (chat)",
    "openai agents (responses)",
]

AIDER_TOOLS = "it has no tools: it reads edits in the text of answers"
NO_WINDOW = "only the windows of gemini-cli, Claude Code and Codex are driven"
PROGRAMS = "a library: the program around it keeps the conversation"
NO_THOUGHTS = "Chat Completions of OpenAI has no thoughts in its answers"


def _lacks(reason, features, *names):
    """The cells of these features and of the agents whose names begin with one of these."""
    agents = [it for it in AGENTS if it.startswith(names)]
    return {(agent, feature): reason for agent in agents for feature in features}


LACKS = {
    **_lacks(AIDER_TOOLS, ["tool loop", "parallel tools", "whitelist", "deny of a tool call",
                           "hidden result over ten turns"], "aider"),
    **_lacks("it has no sub-agents", ["sub-agent"], "aider"),
    **_lacks("it asks again for a minute: keep `denials: message`", ["denials: error"], "aider"),
    **_lacks("not tried", ["thinking", "resume", "hidden result over ten turns", "sub-agent", "compaction"], "llxprt"),
    **_lacks(NO_WINDOW, ["window"], "opencode", "llxprt", "aider"),
    **_lacks("a library has no window", ["window"], "anthropic sdk", "openai"),
    **_lacks(PROGRAMS, ["resume", "sub-agent", "compaction"], "anthropic sdk", "openai sdk"),
    **_lacks("it sums conversations up by the Responses API alone", ["compaction"], "openai agents (chat)"),
    **_lacks(NO_THOUGHTS, ["thinking"], "openai sdk (chat)", "openai agents (chat)"),
}


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    function: Callable
    agent: str | None = None
    features: tuple = ()


class Matrix:
    """The cells of the cases, and what came of them."""

    def __init__(self, cases, not_run):
        """`not_run` has the agents without cases, and why."""
        self.cases, self.not_run = cases, not_run
        self.outcomes = collections.defaultdict(list)

    def gaps(self):
        """What is wrong with the table itself: cells with neither a case nor a reason, or with both."""
        covered = {(it.agent, feature) for it in self.cases for feature in it.features}
        unknown = [it for it in covered if it[0] not in AGENTS or it[1] not in FEATURES]
        open_cells = [(agent, feature) for agent in AGENTS for feature in FEATURES if agent not in self.not_run]
        return [f"{agent}: {feature}" for agent, feature in [
            *unknown,
            *(it for it in open_cells if (it in covered) == (it in LACKS)),
        ]]

    def record(self, case, failed):
        for feature in case.features:
            self.outcomes[case.agent, feature].append(failed)

    def mark(self, cell):
        if cell[0] in self.not_run or (cell not in LACKS and cell not in self.outcomes):
            return "."
        if cell in LACKS:
            return "-"
        return "!" if any(self.outcomes[cell]) else "+"

    def table(self):
        """Features by agent, the numbers of the columns, and the reasons."""
        width = max(map(len, FEATURES))
        numbers = [f"{number:>2}" for number, _ in enumerate(AGENTS, 1)]
        lines = ["features by agent: + seen, ! failed, - not there (reasons below), . not run",
                 " ".join([" " * width, *numbers])]
        lines += [" ".join([feature.ljust(width), *(f" {self.mark((agent, feature))}" for agent in AGENTS)]) for feature in FEATURES]
        lines += [f"{number} {agent}" + (f": not run, {self.not_run[agent]}" if agent in self.not_run else "")
                  for number, agent in zip(numbers, AGENTS)]
        reasons = collections.defaultdict(lambda: collections.defaultdict(list))
        for agent, feature in LACKS:
            reasons[LACKS[agent, feature]][agent].append(feature)
        for reason, cells in reasons.items():
            agents = collections.defaultdict(list)
            for agent, features in cells.items():
                agents[", ".join(features)].append(agent)
            lines += [f"- {features} ({', '.join(names)}): {reason}" for features, names in agents.items()]
        return "\n".join(lines)
