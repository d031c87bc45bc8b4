"""gemini-cli in its window: what only somebody who sits in front of it does."""

import json

from stage import Stage, check, contains, lacks
from terminal import Terminal

CASES = []
# What has to be done while an answer is under way, so with the machine to itself.
ALONE = []

# Slow enough that an answer can be cancelled before its end.
SLOWLY = ["--chunks", "6", "--interval", "100"]
CANCELLED = "prompt 3, which is long and not answered to the end"
READ = 'Use read_file {"file_path":"alpha.txt"}'


def case(function):
    CASES.append((function.__name__.replace("_", " "), function))
    return function


def alone(function):
    ALONE.append((function.__name__.replace("_", " "), function))
    return function


@alone
def a_window_of_gemini_cli_is_one_session_through_cancelling_and_compression():
    recorded = ["SessionStart", "BeforeAgent", "BeforeModel", "AfterTool", "AfterAgent"]
    with Stage(recorded=recorded, mock=SLOWLY) as stage, Terminal(stage) as window:
        window.asks("prompt 1", "You said: prompt 1")
        window.asks(READ, "contents of alpha")
        window.sends(CANCELLED)
        window.awaits("You said: prompt 3")
        window.presses("Escape")
        window.awaits("Request cancelled")
        for prompt in ["prompt 4", "prompt 5"]:
            window.asks(prompt, f"You said: {prompt}")
        window.asks("/compress", "Chat history compressed")
        rest = [f"prompt {it}" for it in range(6, 11)]
        for prompt in rest:
            window.asks(prompt, f"You said: {prompt}")

        check({it["session_id"] for it in stage.events()}, {stage.events()[0]["session_id"]})
        said = ["prompt 1", READ, CANCELLED, "prompt 4", "prompt 5", *rest]
        check([it["prompt"] for it in stage.events("BeforeAgent")], said)
        answered = [it for it in said if it != CANCELLED]
        check([it["prompt"] for it in stage.events("AfterAgent")], answered)
        check(len(stage.events("SessionStart")), 1)
        check(len(stage.events("AfterTool")), 1)
        # Two helper calls compress; the tool's result is a call of its own.
        check(len(stage.events("BeforeModel")), 13)
        check(len(stage.sessions()), 1)


@case
def a_cleared_window_of_gemini_cli_is_another_session():
    with Stage(recorded=["SessionStart", "BeforeAgent"]) as stage, Terminal(stage) as window:
        window.asks("prompt 1", "You said: prompt 1")
        window.sends("/clear")
        window.until("the window is cleared", lambda: "prompt 1" not in window.screen())
        window.asks("prompt 2", "You said: prompt 2")
        starts = stage.events("SessionStart")
        check([it["source"] for it in starts], ["startup", "startup"])
        check(len({it["session_id"] for it in starts}), 2)
        check([it["prompt"] for it in stage.events("BeforeAgent")], ["prompt 1", "prompt 2"])
        lacks(json.dumps(stage.seen()[-1]), "prompt 1")


@case
def a_sub_agent_in_a_window_does_not_disturb_its_session():
    with Stage(recorded=["BeforeAgent", "BeforeModel", "AfterAgent"], mock=SLOWLY) as stage, Terminal(stage) as window:
        asked = {"agent_name": "codebase_investigator", "prompt": 'read_file {"file_path":"alpha.txt"}'}
        window.asks("prompt 1", "You said: prompt 1")
        window.asks(f"Use invoke_agent {json.dumps(asked)}", "The tool returned")
        window.asks("prompt 3", "You said: prompt 3")
        calls = stage.events("BeforeModel")
        main, *_, last = [it["session_id"] for it in calls]
        check(last == main, True)
        check(len({it["session_id"] for it in calls}), 2)
        of_main = [it["prompt"] for it in stage.events("BeforeAgent") if it["session_id"] == main]
        check(of_main, ["prompt 1", f"Use invoke_agent {json.dumps(asked)}", "prompt 3"])
        check(len(stage.sessions()), 2)


@case
def a_window_shows_a_denied_prompt_once_and_goes_on():
    with Stage(BeforeAgent="no_aurora.sh") as stage, Terminal(stage) as window:
        window.asks("prompt 1", "You said: prompt 1")
        window.asks("Tell me of project aurora", "Project Aurora is not for models.")
        window.asks("prompt 3", "You said: prompt 3")
        check(window.screen().count("Project Aurora is not for models."), 1)
        requests = json.dumps(stage.seen())
        check(len(stage.seen()), 2)
        lacks(requests, "project aurora")
        lacks(requests, "Project Aurora")
        contains(requests, "prompt 3")


@case
def a_window_shows_the_answer_of_a_model_whose_tool_was_denied():
    with Stage(BeforeTool="no_writes.sh") as stage, Terminal(stage) as window:
        write = 'Use write_file {"file_path":"out.txt","content":"hello"}'
        window.asks(write, 'The tool returned: {"error":"Tool execution blocked: nothing is written here')
        window.asks("And now", "You said: And now")
        check((stage.project / "out.txt").exists(), False)
        lacks(window.screen(), "✕")
