"""Table of agents and features that `run` prints, and the reasons for cells without a case.

A case with an agent and features covers their cells. A cell without a case needs a reason in `NOT_TESTED`.
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
    "claude code", "codex", "opencode (messages)", "opencode (responses)", "opencode (chat)", *LLXPRT,
    "aider (messages)", "aider (chat)", "anthropic sdk", "openai sdk (chat)", "openai sdk (responses)",
    "openai agents (chat)", "openai agents (responses)",
]

AIDER_TOOLS = "it has no tools: it reads edits in the text of answers"
NO_WINDOW = "only the windows of gemini-cli, Claude Code and Codex are driven"
PROGRAMS = "a library: the program around it keeps the conversation"
NO_THOUGHTS = "Chat Completions of OpenAI has no thoughts in its answers"


def _not_tested(reason, features, *prefixes):
    """Cells of these features, for the agents whose names begin with one of these prefixes."""
    agents = [it for it in AGENTS if it.startswith(prefixes)]
    return {(agent, feature): reason for agent in agents for feature in features}


NOT_TESTED = {
    **_not_tested(AIDER_TOOLS, ["tool loop", "parallel tools", "whitelist", "deny of a tool call",
                                "hidden result over ten turns"], "aider"),
    **_not_tested("it has no sub-agents", ["sub-agent"], "aider"),
    **_not_tested("it asks again for a minute: keep `denials: message`", ["denials: error"], "aider"),
    **_not_tested("not tried", ["thinking", "resume", "hidden result over ten turns", "sub-agent", "compaction"],
                  "llxprt"),
    **_not_tested(NO_WINDOW, ["window"], "opencode", "llxprt", "aider"),
    **_not_tested("a library has no window", ["window"], "anthropic sdk", "openai"),
    **_not_tested(PROGRAMS, ["resume", "sub-agent", "compaction"], "anthropic sdk", "openai sdk"),
    **_not_tested("it sums conversations up by the Responses API alone", ["compaction"], "openai agents (chat)"),
    **_not_tested(NO_THOUGHTS, ["thinking"], "openai sdk (chat)", "openai agents (chat)"),
}


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    function: Callable
    agent: str | None = None
    features: tuple = ()


class Matrix:
    """The cells of the table, and the outcomes of their cases."""

    def __init__(self, cases, not_run):
        """`not_run` maps each agent whose cases are skipped to the reason."""
        self.cases, self.not_run = cases, not_run
        self.outcomes = collections.defaultdict(list)

    def gaps(self):
        """Errors of the table itself: cells with neither a case nor a reason, or with both."""
        covered = {(it.agent, feature) for it in self.cases for feature in it.features}
        unknown = [it for it in covered if it[0] not in AGENTS or it[1] not in FEATURES]
        open_cells = [(agent, feature) for agent in AGENTS for feature in FEATURES if agent not in self.not_run]
        return [f"{agent}: {feature}" for agent, feature in [
            *unknown,
            *(it for it in open_cells if (it in covered) == (it in NOT_TESTED)),
        ]]

    def record(self, case, failed):
        for feature in case.features:
            self.outcomes[case.agent, feature].append(failed)

    def mark(self, cell):
        if cell[0] in self.not_run or (cell not in NOT_TESTED and cell not in self.outcomes):
            return "."
        if cell in NOT_TESTED:
            return "-"
        return "!" if any(self.outcomes[cell]) else "+"

    def table(self):
        """The table of features by agent, the names of its columns, and the reasons."""
        width = max(map(len, FEATURES))
        numbers = [f"{number:>2}" for number, _ in enumerate(AGENTS, 1)]
        lines = ["features by agent: + seen, ! failed, - not there (reasons below), . not run",
                 " ".join([" " * width, *numbers])]
        lines += [" ".join([feature.ljust(width), *(f" {self.mark((agent, feature))}" for agent in AGENTS)])
                  for feature in FEATURES]
        lines += [f"{number} {agent}" + (f": not run, {self.not_run[agent]}" if agent in self.not_run else "")
                  for number, agent in zip(numbers, AGENTS)]
        reasons = collections.defaultdict(lambda: collections.defaultdict(list))
        for agent, feature in NOT_TESTED:
            reasons[NOT_TESTED[agent, feature]][agent].append(feature)
        for reason, cells in reasons.items():
            agents = collections.defaultdict(list)
            for agent, features in cells.items():
                agents[", ".join(features)].append(agent)
            lines += [f"- {features} ({', '.join(names)}): {reason}" for features, names in agents.items()]
        return "\n".join(lines)
