"""Coding agents of other families than Google's: each case with each agent, by the API that it speaks."""

import json

from coding_agents import opencode
from coding_agents.claude_code import ClaudeCode
from coding_agents.codex import Codex
from stage import Stage, at_least, check, contains, fail, lacks

# These need little of the machine but time, so they run beside each other.
CASES = []

AGENTS = [ClaudeCode(), Codex(), *opencode.ALL]
EVENTS = ["SessionStart", "BeforeAgent", "BeforeModel", "BeforeTool", "AfterTool", "AfterAgent"]
EMAIL = {"policy": "redact", "detect": ["email"]}
SECRET = "the-secret-word"


def each_agent(able=lambda agent: True):
    """One case for each agent that is able to do it."""

    def register(function):
        for agent in AGENTS:
            if able(agent):
                name = f"{agent.name} {function.__name__.replace('_', ' ')}"
                CASES.append((name, lambda agent=agent: function(agent)))
        return function

    return register


def answers(*texts, prompt_tokens=10):
    """A script of the mock: these texts, streamed, one after the other."""
    usage = {"promptTokenCount": prompt_tokens, "candidatesTokenCount": 5, "totalTokenCount": prompt_tokens + 5}
    chunks = [{"candidates": [{"content": {"role": "model", "parts": [{"text": it}]}, "finishReason": "STOP"}],
               "usageMetadata": usage} for it in texts]
    return [{"method": "generateContentStream", "response": [it]} for it in chunks]


# --- what passes, and comes out as it went in ---


@each_agent()
def gets_a_plain_answer(agent):
    with Stage() as stage:
        run = agent.asks(stage, "Say hello")
        check(agent.shown(run), "You said: Say hello", run)
        check(run.returncode, 0, run)
        check(len(agent.requests(stage)), 1, run)


@each_agent()
def runs_tools_in_parallel_with_hooks_on_every_event(agent):
    with Stage(recorded=EVENTS) as stage:
        run = agent.asks(stage, agent.reads(stage, "alpha.txt", "beta.txt"))
        check(run.returncode, 0, run)
        for name in ["alpha", "beta"]:
            contains(agent.shown(run), f"contents of {name}", run)
        requests = agent.requests(stage)
        check(len(requests), 2, run)
        check([f"contents of {it}" in result for it, result in zip(["alpha", "beta"], agent.results(requests[1]))],
              [True, True], run)
        events = [it["hook_event_name"] for it in stage.events() if it["hook_event_name"] != "BeforeModel"]
        check([events[0], events[1], events[-1]], ["SessionStart", "BeforeAgent", "AfterAgent"], run)
        check([it["tool_name"] for it in stage.events("BeforeTool")], [agent.reader_in_hooks] * 2, run)
        check([it["tool_name"] for it in stage.events("AfterTool")], [agent.reader_in_hooks] * 2, run)
        if agent.thinks:
            at_least(len(agent.wire.thoughts(requests[1]["body"])), 1, run)


@each_agent()
def goes_on_as_one_session_when_it_is_resumed(agent):
    with Stage(recorded=EVENTS) as stage:
        said = ["prompt 1", agent.reads(stage, "alpha.txt"), "prompt 3"]
        for index, prompt in enumerate(said):
            run = agent.asks(stage, prompt, resumed=index > 0)
            contains(agent.shown(run), "contents of alpha" if "alpha" in prompt else f"You said: {prompt}", run)
        requests = agent.requests(stage)
        check(len(requests), 4, run)
        check(agent.prompts(requests[-1]), said, run)
        # A helper that names the conversation begins its prompt otherwise.
        turns = [it for it in stage.events("BeforeAgent") if not it["prompt"].startswith("Generate a title")]
        check([prompt for it, prompt in zip(turns, said) if it["prompt"].endswith(prompt)], said, run)
        check(len({it["session_id"] for it in turns}), 1, run)
        check([it["session_id"] for it in stage.events("SessionStart")].count(turns[0]["session_id"]), 1, run)


# --- what hooks and policies change on the way to the model ---


@each_agent()
def is_given_another_model_and_the_tools_of_a_whitelist(agent):
    with Stage(BeforeModel="small_model.sh", BeforeToolSelection="only_readers.sh") as stage:
        run = agent.asks(stage, "Say hello")
        check(agent.shown(run), "You said: Say hello", run)
        (request,) = agent.requests(stage)
        check(request["body"]["model"], "a-small-model", run)
        # Tools that the API runs itself are for policies.
        check(agent.wire.declared(request["body"]) - {"web_search"}, {agent.reader}, run)


@each_agent()
def sends_what_a_policy_masks_and_shows_a_stream_without_digits(agent):
    with Stage(settings={"policies": [EMAIL]}, AfterModel="redact.py", mock=["--chunks", "9"]) as stage:
        run = agent.asks(stage, "My card is 4111 1111, I am jo@example.com and so on")
        check(agent.shown(run), "You said: My card is #### ####, I am [REDACTED:email] and so on", run)
        lacks(json.dumps(stage.seen()), "jo@example.com", run)
        contains(json.dumps(stage.seen()), "4111 1111", run)
        check(len(agent.requests(stage)), 1, run)


# --- what hooks answer and deny ---


@each_agent()
def shows_a_synthetic_answer_once(agent):
    with Stage(BeforeModel="answer.sh") as stage:
        run = agent.asks(stage, "Say hello")
        check(agent.shown(run), "An answer from the hook.", run)
        check(run.returncode, 0, run)
        check(agent.requests(stage), [], run)


@each_agent()
def shows_a_denied_prompt_once_and_goes_on(agent):
    with Stage(BeforeAgent="no_aurora.sh") as stage:
        run = agent.asks(stage, "Tell me of project aurora")
        check(agent.shown(run), "Project Aurora is not for models.", run)
        check(run.returncode, 0, run)
        check(agent.requests(stage), [], run)
        run = agent.asks(stage, "And now", resumed=True)
        check(agent.shown(run), "You said: And now", run)
        (request,) = agent.requests(stage)
        check(agent.prompts(request), ["And now"], run)
        lacks(json.dumps(request["body"]), "Project Aurora", run)


@each_agent()
def asks_once_when_a_denial_is_an_error(agent):
    with Stage(settings={"denials": "error"}, BeforeModel="deny.sh") as stage:
        run = agent.asks(stage, "Say hello")
        check(run.returncode, 1, run)
        contains(agent.complains(run), f"{agent.shows_error}No models today.", run)
        check(agent.requests(stage), [], run)
        # A helper that names the conversation may be denied beside it.
        if stage.hook_runs() > 2:
            fail(f"asked {stage.hook_runs()} times", run)


@each_agent()
def shows_the_answer_of_a_model_whose_tool_call_was_denied(agent):
    with Stage(BeforeTool="refuse_alpha.sh") as stage:
        run = agent.asks(stage, agent.reads(stage, "alpha.txt"))
        check(run.returncode, 0, run)
        contains(agent.shown(run), "alpha is nobody's business", run)
        lacks(run.stdout + run.stderr, "contents of alpha", run)
        requests = agent.requests(stage)
        check(len(requests), 2, run)
        contains(agent.results(requests[1])[-1], "alpha is nobody's business", run)


@each_agent(lambda agent: agent.name in ["claude code", "codex"])  # ten runs of opencode take long
def hides_a_result_over_ten_turns(agent):
    with Stage(AfterTool="hide_secret.sh") as stage:
        (stage.project / "secret.txt").write_text(f"{SECRET}\n")
        run = agent.asks(stage, agent.reads(stage, "secret.txt"))
        contains(agent.shown(run), "this result is not for models", run)
        for turn in range(2, 11):
            run = agent.asks(stage, f"prompt {turn}", resumed=True)
            check(agent.shown(run), f"You said: prompt {turn}", run)
        requests = agent.requests(stage)
        check(len(requests), 11, run)
        for request in requests[1:]:
            lacks(json.dumps(request["body"]), SECRET, run)
            contains(agent.results(request)[0], "this result is not for models", run)


# --- sub-agents and compaction ---


@each_agent(lambda agent: hasattr(agent, "delegates") and agent.name != "opencode (responses)")
def has_sub_agents_that_are_sessions_of_their_own(agent):
    with Stage(recorded=EVENTS, BeforeTool="refuse_alpha.sh") as stage:
        run = agent.asks(stage, agent.delegates(stage, agent.reads(stage, "beta.txt")))
        check(run.returncode, 0, run)
        inner = [it["session_id"] for it in stage.events("BeforeTool") if it["tool_name"] == agent.reader_in_hooks and "beta" in json.dumps(it)]
        outer = [it["session_id"] for it in stage.events("BeforeAgent") if agent.delegates(stage, "")[:8] in it["prompt"] and "title" not in it["prompt"]]
        check([len(set(inner)), len(set(outer)), len(set(inner) & set(outer))], [1, 1, 0], run)


@each_agent(lambda agent: hasattr(agent, "compacts"))
def goes_on_after_its_conversation_was_compacted(agent):
    script = answers("the first answer", "<summary>what was said before</summary>", "the last answer", prompt_tokens=190000)
    with Stage(recorded=["BeforeAgent", "BeforeModel"], script=script, settings={"policies": [EMAIL]}) as stage:
        agent.asks(stage, "I am jo@example.com")
        if agent.compacts(stage):
            agent.asks(stage, agent.compacts(stage), resumed=True)
        run = agent.asks(stage, "And now", resumed=True)
        check(agent.shown(run), "the last answer", run)
        requests = stage.seen()
        check(len([it for it in requests if it["path"].endswith(agent.wire.path)]), 3, run)
        contains(json.dumps(requests[-1]["body"]), "what was said before", run)
        lacks(json.dumps(requests), "jo@example.com", run)
        check("And now" in stage.events("BeforeAgent")[-1]["prompt"], True, run)


# --- in a window ---


@each_agent(lambda agent: agent.window_marks)
def obeys_in_its_window(agent):
    with Stage(BeforeAgent="no_aurora.sh", BeforeTool="refuse_alpha.sh", settings={"policies": [EMAIL]}) as stage:
        with agent.window(stage) as window:
            window.asks("I am jo@example.com", "You said: I am [REDACTED:email]")
            window.asks("Tell me of project aurora", "Project Aurora is not for models.")
            window.asks(agent.reads(stage, "alpha.txt"), "alpha is nobody's business")
            window.asks("prompt 4", "You said: prompt 4")
            check(window.screen().count("Project Aurora is not for models."), 1)
        requests = json.dumps(stage.seen())
        lacks(requests, "jo@example.com")
        contains(requests, "prompt 4")
        (last,) = [it for it in agent.requests(stage) if "prompt 4" in agent.prompts(it)]
        lacks(json.dumps(last["body"]), "project aurora")
