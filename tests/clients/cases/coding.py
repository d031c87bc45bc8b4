"""Coding agents of other vendors than Google: each case with each agent and each API that it uses."""

import json

from coding_agents import llxprt, opencode
from coding_agents.claude_code import ClaudeCode
from coding_agents.codex import Codex
from matrix import Case
from harness import Harness, at_least, check, contains, fail, lacks

CASES = []

AGENTS = [ClaudeCode(), Codex(), *opencode.ALL, *([] if llxprt.NOT_RUN else llxprt.ALL)]
EVENTS = ["SessionStart", "BeforeAgent", "BeforeModel", "BeforeTool", "AfterTool", "AfterAgent"]
EMAIL = {"policy": "redact", "detect": ["email"]}
SECRET = "the-secret-word"


def each_agent(*features, condition=lambda agent: True):
    """Registers a case for each agent that meets the condition. It covers these features of the table."""

    def register(function):
        for agent in filter(condition, AGENTS):
            name = f"{agent.name} {function.__name__.replace('_', ' ')}"
            unsupported = {"thinking": not agent.sends_thoughts, "resume": not agent.can_resume}
            covered = tuple(it for it in features if not unsupported.get(it))
            CASES.append(Case(name, lambda agent=agent: function(agent), agent.name, covered))
        return function

    return register


def can_resume(agent):
    return agent.can_resume


def mock_script(*texts, prompt_tokens=10):
    """A script of the mock: one streamed response for each text."""
    usage = {"promptTokenCount": prompt_tokens, "candidatesTokenCount": 5, "totalTokenCount": prompt_tokens + 5}
    chunks = [{"candidates": [{"content": {"role": "model", "parts": [{"text": it}]}, "finishReason": "STOP"}],
               "usageMetadata": usage} for it in texts]
    return [{"method": "generateContentStream", "response": [it]} for it in chunks]


# --- calls that pass unchanged ---


@each_agent("tool loop", "parallel tools", "thinking")
def runs_tools_in_parallel_with_hooks_on_every_event(agent):
    with Harness(recorded=EVENTS) as harness:
        run = agent.run(harness, agent.read_prompt(harness, "alpha.txt", "beta.txt"))
        check(run.returncode, 0, run)
        for name in ["alpha", "beta"]:
            contains(agent.answer(run), f"contents of {name}", run)
        requests = agent.requests(harness)
        check(len(requests), 2, run)
        # Agents may order the results by their completion.
        results = agent.tool_results(requests[1])
        check(len(results), 2, run)
        for name in ["alpha", "beta"]:
            check([f"contents of {name}" in it for it in results].count(True), 1, run)
        events = [it["hook_event_name"] for it in harness.events() if it["hook_event_name"] != "BeforeModel"]
        check([events[0], events[1], events[-1]], ["SessionStart", "BeforeAgent", "AfterAgent"], run)
        check([it["tool_name"] for it in harness.events("BeforeTool")], [agent.read_tool_in_hooks] * 2, run)
        check([it["tool_name"] for it in harness.events("AfterTool")], [agent.read_tool_in_hooks] * 2, run)
        if agent.sends_thoughts:
            at_least(len(agent.dialect.thoughts(requests[1]["body"])), 1, run)


@each_agent("plain answer", "resume")
def gets_a_plain_answer_and_keeps_its_session_when_resumed(agent):
    with Harness(recorded=EVENTS) as harness:
        run = agent.run_command(harness, "prompt 1")
        check(agent.answer(run), "You said: prompt 1", run)
        check([run.returncode, len(agent.requests(harness))], [0, 1], run)
        if not agent.can_resume:
            return
        prompts = ["prompt 1", agent.read_prompt(harness, "alpha.txt"), "prompt 3"]
        for prompt, expected in zip(prompts[1:], ["contents of alpha", "You said: prompt 3"]):
            run = agent.run_command(harness, prompt, resumed=True)
            contains(agent.answer(run), expected, run)
        requests = agent.requests(harness)
        check(len(requests), 4, run)
        check(agent.prompts(requests[-1]), prompts, run)
        # The prompt of a call for the title of the conversation has a prefix.
        turns = [it for it in harness.events("BeforeAgent") if not it["prompt"].startswith("Generate a title")]
        check([prompt for it, prompt in zip(turns, prompts) if it["prompt"].endswith(prompt)], prompts, run)
        check(len({it["session_id"] for it in turns}), 1, run)
        check([it["session_id"] for it in harness.events("SessionStart")].count(turns[0]["session_id"]), 1, run)


# --- edits by hooks and policies ---


@each_agent("model swap", "whitelist", "redaction over a stream")
def uses_a_replaced_model_whitelisted_tools_and_a_redacted_stream(agent):
    hooks = {"BeforeModel": "small_model.sh", "BeforeToolSelection": "only_readers.sh", "AfterModel": "redact.py"}
    with Harness(settings={"policies": [EMAIL]}, mock=["--chunks", "9"], **hooks) as harness:
        run = agent.run(harness, "My card is 4111 1111, I am jo@example.com and so on")
        check(agent.answer(run), "You said: My card is #### ####, I am [REDACTED:email] and so on", run)
        lacks(json.dumps(harness.mock_requests()), "jo@example.com", run)
        contains(json.dumps(harness.mock_requests()), "4111 1111", run)
        (request,) = agent.requests(harness)
        check(request["body"]["model"], "a-small-model", run)
        # A hook does not filter tools that the API runs itself; policies do.
        check(agent.dialect.declared_tools(request["body"]) - {"web_search"}, {agent.read_tool}, run)


# --- synthetic answers and denials ---


@each_agent("synthetic answer")
def shows_a_synthetic_answer_once(agent):
    with Harness(BeforeModel="answer.sh") as harness:
        run = agent.run(harness, "Say hello")
        check(agent.answer(run), "An answer from the hook.", run)
        check(run.returncode, 0, run)
        check(agent.requests(harness), [], run)


@each_agent("deny at the prompt")
def shows_the_denial_of_a_prompt_once_and_continues(agent):
    with Harness(BeforeAgent="no_aurora.sh") as harness:
        run = agent.run(harness, "Tell me of project aurora")
        check(agent.answer(run), "Project Aurora is not for models.", run)
        check(run.returncode, 0, run)
        check(agent.requests(harness), [], run)
        if not agent.can_resume:
            return
        run = agent.run(harness, "And now", resumed=True)
        check(agent.answer(run), "You said: And now", run)
        (request,) = agent.requests(harness)
        check(agent.prompts(request), ["And now"], run)
        lacks(json.dumps(request["body"]), "Project Aurora", run)


@each_agent("denials: error")
def does_not_retry_a_denial_that_is_an_error(agent):
    with Harness(settings={"denials": "error"}, BeforeModel="deny.sh") as harness:
        run = agent.run_command(harness, "Say hello")
        check(run.returncode, 1, run)
        contains(agent.error_text(run), f"{agent.error_prefix}No models today.", run)
        check(agent.requests(harness), [], run)
        # The call for the title of the conversation may be denied as well.
        if harness.hook_runs() > 2:
            fail(f"called {harness.hook_runs()} times", run)


@each_agent("deny of a tool call")
def shows_the_answer_after_a_denied_tool_call(agent):
    with Harness(BeforeTool="refuse_alpha.sh") as harness:
        run = agent.run(harness, agent.read_prompt(harness, "alpha.txt"))
        check(run.returncode, 0, run)
        contains(agent.answer(run), "alpha is private", run)
        lacks(run.stdout + run.stderr, "contents of alpha", run)
        requests = agent.requests(harness)
        check(len(requests), 2, run)
        contains(agent.tool_results(requests[1])[-1], "alpha is private", run)


@each_agent("hidden result over ten turns", condition=can_resume)
def sends_no_hidden_tool_result_upstream_in_ten_turns(agent):
    with Harness(AfterTool="hide_secret.sh") as harness, agent.conversation(harness) as conversation:
        (harness.project / "secret.txt").write_text(f"{SECRET}\n")
        contains(conversation.send(agent.read_prompt(harness, "secret.txt")), "this result is not for models")
        for turn in range(2, 11):
            check(conversation.send(f"prompt {turn}"), f"You said: prompt {turn}")
        requests = agent.requests(harness)
        check(len(requests), 11)
        for request in requests[1:]:
            lacks(json.dumps(request["body"]), SECRET)
            contains(agent.tool_results(request)[0], "this result is not for models")


# --- sub-agents and compaction ---


@each_agent("sub-agent", condition=lambda agent: hasattr(agent, "sub_agent_prompt"))
def has_a_separate_session_for_a_sub_agent(agent):
    with Harness(recorded=EVENTS, BeforeTool="refuse_alpha.sh") as harness:
        run = agent.run(harness, agent.sub_agent_prompt(harness, agent.read_prompt(harness, "beta.txt")))
        check(run.returncode, 0, run)
        reads = [it for it in harness.events("BeforeTool") if it["tool_name"] == agent.read_tool_in_hooks]
        inner = {it["session_id"] for it in reads if "beta" in json.dumps(it)}
        prefix = agent.sub_agent_prompt(harness, "")[:8]
        turns = [it for it in harness.events("BeforeAgent") if prefix in it["prompt"]]
        outer = {it["session_id"] for it in turns if "title" not in it["prompt"]}
        check([len(inner), len(outer), len(inner & outer)], [1, 1, 0], run)


@each_agent("compaction", condition=can_resume)
def continues_after_a_compaction(agent):
    texts = ["the first answer", "<summary>what was said before</summary>", "the last answer"]
    script = mock_script(*texts, prompt_tokens=190000)
    with (Harness(recorded=["BeforeAgent", "BeforeModel"], script=script, settings={"policies": [EMAIL]}) as harness,
          agent.conversation(harness) as conversation):
        check(conversation.send("I am jo@example.com"), "the first answer")
        conversation.compact()
        check(conversation.send("And now"), "the last answer")
        requests = harness.mock_requests()
        check(len([it for it in requests if it["path"].endswith(agent.dialect.path)]), 3)
        contains(json.dumps(requests[-1]["body"]), "what was said before")
        lacks(json.dumps(requests), "jo@example.com")
        check("And now" in harness.events("BeforeAgent")[-1]["prompt"], True)


# --- interactive windows ---


@each_agent("window", condition=lambda agent: agent.window_texts)
def shows_denials_and_redaction_in_its_window(agent):
    with Harness(BeforeAgent="no_aurora.sh", BeforeTool="refuse_alpha.sh", settings={"policies": [EMAIL]}) as harness:
        with agent.window(harness) as window:
            window.send_and_wait("I am jo@example.com", "You said: I am [REDACTED:email]")
            window.send_and_wait("Tell me of project aurora", "Project Aurora is not for models.")
            window.send_and_wait(agent.read_prompt(harness, "alpha.txt"), "alpha is private")
            window.send_and_wait("prompt 4", "You said: prompt 4")
            check(window.screen().count("Project Aurora is not for models."), 1)
        requests = json.dumps(harness.mock_requests())
        lacks(requests, "jo@example.com")
        contains(requests, "prompt 4")
        (last,) = [it for it in agent.requests(harness) if "prompt 4" in agent.prompts(it)]
        lacks(json.dumps(last["body"]), "project aurora")
