"""Coding agents of other families than Google's: each case with each agent, by the API that it speaks."""

import json

from coding_agents import llxprt, opencode
from coding_agents.claude_code import ClaudeCode
from coding_agents.codex import Codex
from matrix import Case
from stage import Stage, at_least, check, contains, fail, lacks

# These need little of the machine but time, so they run beside each other.
CASES = []

AGENTS = [ClaudeCode(), Codex(), *opencode.ALL, *([] if llxprt.NOT_RUN else llxprt.ALL)]
EVENTS = ["SessionStart", "BeforeAgent", "BeforeModel", "BeforeTool", "AfterTool", "AfterAgent"]
EMAIL = {"policy": "redact", "detect": ["email"]}
SECRET = "the-secret-word"


def each_agent(*features, able=lambda agent: True):
    """One case for each agent that is able to do it; it shows these features."""

    def register(function):
        for agent in filter(able, AGENTS):
            name = f"{agent.name} {function.__name__.replace('_', ' ')}"
            lacks = {"thinking": not agent.thinks, "resume": not agent.resumes}
            shown = tuple(it for it in features if not lacks.get(it))
            CASES.append(Case(name, lambda agent=agent: function(agent), agent.name, shown))
        return function

    return register


def resumes(agent):
    return agent.resumes


def answers(*texts, prompt_tokens=10):
    """A script of the mock: these texts, streamed, one after the other."""
    usage = {"promptTokenCount": prompt_tokens, "candidatesTokenCount": 5, "totalTokenCount": prompt_tokens + 5}
    chunks = [{"candidates": [{"content": {"role": "model", "parts": [{"text": it}]}, "finishReason": "STOP"}],
               "usageMetadata": usage} for it in texts]
    return [{"method": "generateContentStream", "response": [it]} for it in chunks]


# --- what passes, and comes out as it went in ---


@each_agent("tool loop", "parallel tools", "thinking")
def runs_tools_in_parallel_with_hooks_on_every_event(agent):
    with Stage(recorded=EVENTS) as stage:
        run = agent.asks(stage, agent.reads(stage, "alpha.txt", "beta.txt"))
        check(run.returncode, 0, run)
        for name in ["alpha", "beta"]:
            contains(agent.shown(run), f"contents of {name}", run)
        requests = agent.requests(stage)
        check(len(requests), 2, run)
        # An agent may put the result that came first before the others.
        results = agent.results(requests[1])
        check(len(results), 2, run)
        for name in ["alpha", "beta"]:
            check([f"contents of {name}" in it for it in results].count(True), 1, run)
        events = [it["hook_event_name"] for it in stage.events() if it["hook_event_name"] != "BeforeModel"]
        check([events[0], events[1], events[-1]], ["SessionStart", "BeforeAgent", "AfterAgent"], run)
        check([it["tool_name"] for it in stage.events("BeforeTool")], [agent.reader_in_hooks] * 2, run)
        check([it["tool_name"] for it in stage.events("AfterTool")], [agent.reader_in_hooks] * 2, run)
        if agent.thinks:
            at_least(len(agent.wire.thoughts(requests[1]["body"])), 1, run)


@each_agent("plain answer", "resume")
def gets_a_plain_answer_and_goes_on_as_one_session_when_it_is_resumed(agent):
    with Stage(recorded=EVENTS) as stage:
        run = agent.asks(stage, "prompt 1")
        check(agent.shown(run), "You said: prompt 1", run)
        check([run.returncode, len(agent.requests(stage))], [0, 1], run)
        if not agent.resumes:
            return
        said = ["prompt 1", agent.reads(stage, "alpha.txt"), "prompt 3"]
        for prompt, shown in zip(said[1:], ["contents of alpha", "You said: prompt 3"]):
            run = agent.asks(stage, prompt, resumed=True)
            contains(agent.shown(run), shown, run)
        requests = agent.requests(stage)
        check(len(requests), 4, run)
        check(agent.prompts(requests[-1]), said, run)
        # A helper that names the conversation begins its prompt otherwise.
        turns = [it for it in stage.events("BeforeAgent") if not it["prompt"].startswith("Generate a title")]
        check([prompt for it, prompt in zip(turns, said) if it["prompt"].endswith(prompt)], said, run)
        check(len({it["session_id"] for it in turns}), 1, run)
        check([it["session_id"] for it in stage.events("SessionStart")].count(turns[0]["session_id"]), 1, run)


# --- what hooks and policies change on the way to the model ---


@each_agent("model swap", "whitelist", "redaction over a stream")
def gets_another_model_tools_of_a_whitelist_and_a_stream_without_digits(agent):
    hooks = {"BeforeModel": "small_model.sh", "BeforeToolSelection": "only_readers.sh", "AfterModel": "redact.py"}
    with Stage(settings={"policies": [EMAIL]}, mock=["--chunks", "9"], **hooks) as stage:
        run = agent.asks(stage, "My card is 4111 1111, I am jo@example.com and so on")
        check(agent.shown(run), "You said: My card is #### ####, I am [REDACTED:email] and so on", run)
        lacks(json.dumps(stage.seen()), "jo@example.com", run)
        contains(json.dumps(stage.seen()), "4111 1111", run)
        (request,) = agent.requests(stage)
        check(request["body"]["model"], "a-small-model", run)
        # Tools that the API runs itself are for policies.
        check(agent.wire.declared(request["body"]) - {"web_search"}, {agent.reader}, run)


# --- what hooks answer and deny ---


@each_agent("synthetic answer")
def shows_a_synthetic_answer_once(agent):
    with Stage(BeforeModel="answer.sh") as stage:
        run = agent.asks(stage, "Say hello")
        check(agent.shown(run), "An answer from the hook.", run)
        check(run.returncode, 0, run)
        check(agent.requests(stage), [], run)


@each_agent("deny at the prompt")
def shows_a_denied_prompt_once_and_goes_on(agent):
    with Stage(BeforeAgent="no_aurora.sh") as stage:
        run = agent.asks(stage, "Tell me of project aurora")
        check(agent.shown(run), "Project Aurora is not for models.", run)
        check(run.returncode, 0, run)
        check(agent.requests(stage), [], run)
        if not agent.resumes:
            return
        run = agent.asks(stage, "And now", resumed=True)
        check(agent.shown(run), "You said: And now", run)
        (request,) = agent.requests(stage)
        check(agent.prompts(request), ["And now"], run)
        lacks(json.dumps(request["body"]), "Project Aurora", run)


@each_agent("denials: error")
def asks_once_when_a_denial_is_an_error(agent):
    with Stage(settings={"denials": "error"}, BeforeModel="deny.sh") as stage:
        run = agent.asks(stage, "Say hello")
        check(run.returncode, 1, run)
        contains(agent.complains(run), f"{agent.shows_error}No models today.", run)
        check(agent.requests(stage), [], run)
        # A helper that names the conversation may be denied beside it.
        if stage.hook_runs() > 2:
            fail(f"asked {stage.hook_runs()} times", run)


@each_agent("deny of a tool call")
def shows_the_answer_of_a_model_whose_tool_call_was_denied(agent):
    with Stage(BeforeTool="refuse_alpha.sh") as stage:
        run = agent.asks(stage, agent.reads(stage, "alpha.txt"))
        check(run.returncode, 0, run)
        contains(agent.shown(run), "alpha is nobody's business", run)
        lacks(run.stdout + run.stderr, "contents of alpha", run)
        requests = agent.requests(stage)
        check(len(requests), 2, run)
        contains(agent.results(requests[1])[-1], "alpha is nobody's business", run)


@each_agent("hidden result over ten turns", able=resumes)
def hides_a_result_over_ten_turns(agent):
    with Stage(AfterTool="hide_secret.sh") as stage, agent.conversation(stage) as talk:
        (stage.project / "secret.txt").write_text(f"{SECRET}\n")
        contains(talk.says(agent.reads(stage, "secret.txt")), "this result is not for models")
        for turn in range(2, 11):
            check(talk.says(f"prompt {turn}"), f"You said: prompt {turn}")
        requests = agent.requests(stage)
        check(len(requests), 11)
        for request in requests[1:]:
            lacks(json.dumps(request["body"]), SECRET)
            contains(agent.results(request)[0], "this result is not for models")


# --- sub-agents and compaction ---


@each_agent("sub-agent", able=lambda agent: hasattr(agent, "delegates"))
def has_sub_agents_that_are_sessions_of_their_own(agent):
    with Stage(recorded=EVENTS, BeforeTool="refuse_alpha.sh") as stage:
        run = agent.asks(stage, agent.delegates(stage, agent.reads(stage, "beta.txt")))
        check(run.returncode, 0, run)
        inner = [it["session_id"] for it in stage.events("BeforeTool") if it["tool_name"] == agent.reader_in_hooks and "beta" in json.dumps(it)]
        outer = [it["session_id"] for it in stage.events("BeforeAgent") if agent.delegates(stage, "")[:8] in it["prompt"] and "title" not in it["prompt"]]
        check([len(set(inner)), len(set(outer)), len(set(inner) & set(outer))], [1, 1, 0], run)


@each_agent("compaction", able=resumes)
def goes_on_after_its_conversation_was_compacted(agent):
    script = answers("the first answer", "<summary>what was said before</summary>", "the last answer", prompt_tokens=190000)
    with (Stage(recorded=["BeforeAgent", "BeforeModel"], script=script, settings={"policies": [EMAIL]}) as stage,
          agent.conversation(stage) as talk):
        check(talk.says("I am jo@example.com"), "the first answer")
        talk.compacts()
        check(talk.says("And now"), "the last answer")
        requests = stage.seen()
        check(len([it for it in requests if it["path"].endswith(agent.wire.path)]), 3)
        contains(json.dumps(requests[-1]["body"]), "what was said before")
        lacks(json.dumps(requests), "jo@example.com")
        check("And now" in stage.events("BeforeAgent")[-1]["prompt"], True)


# --- in a window ---


@each_agent("window", able=lambda agent: agent.window_marks)
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
