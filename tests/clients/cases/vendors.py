"""The SDKs of Anthropic and OpenAI, OpenAI's Agents SDK, and aider, each with each of its APIs."""

import functools
import json

from install import HERE, SCRATCH
from matrix import Case
from harness import Harness, at_least, check, contains, lacks
from dialects import Chat, Messages, Responses

CASES = []

# Name, program with its first argument, file in `config/agents/pointed`, reader of its requests.
SDKS = [
    ("anthropic sdk", ["anthropic_conversation.py"], "anthropic-sdk.env", Messages),
    ("openai sdk (chat)", ["openai_conversation.py", "chat"], "openai-sdk.env", Chat),
    ("openai sdk (responses)", ["openai_conversation.py", "responses"], "openai-sdk.env", Responses),
    ("openai agents (chat)", ["openai_agents_conversation.py", "chat"], "openai-sdk.env", Chat),
    ("openai agents (responses)", ["openai_agents_conversation.py", "responses"], "openai-sdk.env", Responses),
]
EVENTS = ["SessionStart", "BeforeAgent", "BeforeModel", "BeforeTool", "AfterTool", "AfterAgent"]
EMAIL = {"policy": "redact", "detect": ["email"]}
SUN = 'Use lookup {"word":"sun"}'
SUN_AND_MOON = 'Use lookup {"word":"sun"} and lookup {"word":"moon"}'


class Sdk:
    """One of the programs in `agents/`."""

    def __init__(self, name, program, env_file, dialect):
        self.name, self.program, self.env_file, self.dialect = name, program, env_file, dialect
        self.sends_thoughts = dialect is not Chat

    def run(self, harness, *prompts, modes=("streamed", "whole"), file=(), **environment):
        """Has a conversation with these prompts in each mode. `results` of the returned run has the outcome of each."""
        name, *api = self.program
        variables = harness.agent_variables(self.env_file) | environment
        run = harness.run_python("vendors", HERE / "agents" / name, *api, ",".join(modes), json.dumps(prompts), *file,
                                 **variables)
        check(run.returncode, 0, run)
        run.results = json.loads(run.stdout.splitlines()[-1])
        return run

    def requests(self, harness):
        return [it["body"] for it in harness.mock_requests() if it["path"].endswith(self.dialect.path)]


ALL = [Sdk(*it) for it in SDKS]


def each_sdk(*features, condition=lambda sdk: True):
    """Registers a case for each SDK that meets the condition. It covers these features of the table."""

    def register(function):
        for sdk in filter(condition, ALL):
            name = f"{sdk.name} {function.__name__.replace('_', ' ')}"
            covered = tuple(it for it in features if it != "thinking" or sdk.sends_thoughts)
            CASES.append(Case(name, lambda sdk=sdk: function(sdk), sdk.name, covered))
        return function

    return register


def keeps_one_session_over_ten_turns(sdk, mode):
    with Harness(recorded=EVENTS) as harness:
        sent = [SUN_AND_MOON if turn == 4 else f"prompt {turn}" for turn in range(1, 11)]
        run = sdk.run(harness, *sent, modes=[mode])
        (result,) = run.results
        for text, prompt in zip(result["texts"], sent, strict=True):
            contains(text, "moon means moon" if "moon" in prompt else f"You said: {prompt}", run)
        check(sorted(result["words"]), ["moon", "sun"], run)
        requests = sdk.requests(harness)
        check(len(requests), 11, run)
        for before, after in zip(requests, requests[1:]):
            history = sdk.dialect.history(before)
            check(sdk.dialect.history(after)[:len(history)], history, run)
        check(len({it["session_id"] for it in harness.events()}), 1, run)
        check([it["prompt"] for it in harness.events("BeforeAgent")], sent, run)
        check([it["tool_input"] for it in harness.events("BeforeTool")], [{"word": "sun"}, {"word": "moon"}], run)
        check(len(harness.events("AfterTool")), 2, run)
        check(len(harness.events("AfterAgent")), 10, run)
        if sdk.sends_thoughts:
            at_least(len(sdk.dialect.thoughts(requests[-1])), 10, run)


for mode in ["streamed", "whole"]:
    case = functools.partial(keeps_one_session_over_ten_turns, mode=mode)
    case.__name__ = f"keeps_one_session_over_ten_turns_({mode})"
    each_sdk("plain answer", "tool loop", "parallel tools", "thinking")(case)


@each_sdk("deny at the prompt", "hidden result over ten turns")
def sends_no_hidden_or_denied_content_upstream(sdk):
    with Harness(AfterTool="hide_meaning.sh", BeforeAgent="no_aurora.sh", settings={"policies": [EMAIL]}) as harness:
        sent = [SUN, "Tell me of project aurora", "I am jo@example.com", *(f"prompt {it}" for it in range(4, 11))]
        run = sdk.run(harness, *sent)
        for result in run.results:
            texts = result["texts"]
            contains(texts[0], "this meaning is not for models", run)
            masked = "You said: I am [REDACTED:email]"
            check(texts[1:4], ["Project Aurora is not for models.", masked, "You said: prompt 4"], run)
        requests = json.dumps(harness.mock_requests())
        for hidden in ["sun means sun", "project aurora", "Project Aurora", "jo@example.com"]:
            lacks(requests, hidden, run)


@each_sdk("deny of a tool call")
def receives_the_reason_of_a_denied_tool_call(sdk):
    with Harness(BeforeTool="no_lookups.sh") as harness:
        run = sdk.run(harness, SUN, "And now")
        for result in run.results:
            contains(result["texts"][0], "nothing is looked up", run)
            check([result["texts"][1], result["words"]], ["You said: And now", []], run)
        check(len(sdk.requests(harness)), 6, run)


@each_sdk("model swap", "whitelist", "redaction over a stream")
def uses_a_replaced_model_whitelisted_tools_and_a_redacted_answer(sdk):
    hooks = {"BeforeModel": "small_model.sh", "BeforeToolSelection": "only_readers.sh", "AfterModel": "redact.py"}
    with Harness(**hooks) as harness:
        run = sdk.run(harness, "My card is 4111 1111")
        check([it["texts"] for it in run.results], [["You said: My card is #### ####"]] * 2, run)
        requests = sdk.requests(harness)
        check([it["model"] for it in requests], ["a-small-model"] * 2, run)
        check([sdk.dialect.declared_tools(it) for it in requests], [{"lookup"}] * 2, run)


@each_sdk("synthetic answer")
def gets_a_synthetic_answer(sdk):
    with Harness(BeforeModel="answer.sh") as harness:
        run = sdk.run(harness, "Say hello")
        check([it["texts"] for it in run.results], [["An answer from the hook."]] * 2, run)
        check(sdk.requests(harness), [], run)


@each_sdk("denials: error")
def does_not_retry_a_denial_that_is_an_error(sdk):
    with Harness(settings={"denials": "error"}, BeforeModel="deny.sh") as harness:
        run = sdk.run(harness, "Say hello")
        check([it.get("status") for it in run.results], [403 if sdk.dialect is Messages else 400] * 2, run)
        contains(run.results[0]["message"], "No models today.", run)
        check([sdk.requests(harness), harness.hook_runs()], [[], 2], run)


def is_agents_sdk(sdk):
    return sdk.name.startswith("openai agents")


@each_sdk(condition=lambda sdk: not is_agents_sdk(sdk))
def works_over_http_2_only(sdk):
    with Harness(BeforeTool="no_lookups.sh", settings={"policies": [EMAIL]}) as harness:
        run = sdk.run(harness, SUN, "I am jo@example.com", OVER_HTTP2="1")
        for result in run.results:
            contains(result["texts"][0], "nothing is looked up", run)
            check([result["texts"][1], result["words"]], ["You said: I am [REDACTED:email]", []], run)
    with Harness(recorded=EVENTS) as harness:
        run = sdk.run(harness, SUN_AND_MOON, OVER_HTTP2="1")
        check([sorted(it["words"]) for it in run.results], [["moon", "sun"]] * 2, run)
        at_least(len(harness.events("AfterTool")), 2, run)


@each_sdk("sub-agent", condition=is_agents_sdk)
def has_a_separate_session_for_an_agent_as_a_tool(sdk):
    with Harness(recorded=EVENTS) as harness:
        arguments = {"input": 'lookup {"word":"sun"} and lookup {"word":"moon"}'}
        run = sdk.run(harness, f"Use ask_expert {json.dumps(arguments)}", modes=["streamed"])
        contains(run.results[0]["texts"][0], "sun means sun", run)
        check(sorted(run.results[0]["words"]), ["moon", "sun"], run)
        inner = {it["session_id"] for it in harness.events("BeforeTool") if it["tool_name"] == "lookup"}
        outer = {it["session_id"] for it in harness.events("BeforeTool") if it["tool_name"] == "ask_expert"}
        check([len(inner), len(outer), len(inner & outer)], [1, 1, 0], run)


@each_sdk("resume", condition=is_agents_sdk)
def continues_a_conversation_from_a_file(sdk):
    with Harness(recorded=EVENTS) as harness:
        file = [harness.home / "talk.db"]
        for prompt in ["prompt 1", SUN, "prompt 3"]:
            run = sdk.run(harness, prompt, modes=["streamed"], file=file)
        check(run.results[0]["texts"], ["You said: prompt 3"], run)
        check(sdk.dialect.prompts(sdk.requests(harness)[-1]), ["prompt 1", SUN, "prompt 3"], run)
        check(len({it["session_id"] for it in harness.events()}), 1, run)
        check(len(harness.events("SessionStart")), 1, run)


@each_sdk("compaction", condition=lambda sdk: sdk.name == "openai agents (responses)")
def continues_after_a_compaction(sdk):
    with Harness(recorded=["BeforeAgent"], settings={"policies": [EMAIL]}) as harness:
        file = [harness.home / "talk.db"]
        run = sdk.run(harness, "I am jo@example.com, and long", "And now", modes=["whole"], file=file)
        check(run.results[0]["texts"][1], "You said: And now", run)
        paths = [it["path"] for it in harness.mock_requests()]
        check(paths, ["/v1/responses", "/v1/responses/compact", "/v1/responses"], run)
        contains(json.dumps(harness.mock_requests()[-1]["body"]["input"]), '"type": "compaction"', run)
        lacks(json.dumps(harness.mock_requests()), "jo@example.com", run)


# --- aider, which has no tools ---


class Aider:
    """aider with one of its APIs."""

    def __init__(self, api, model, dialect, thinking):
        self.name, self.model, self.dialect, self.thinking = f"aider ({api})", model, dialect, thinking

    def run(self, harness, prompt, *options):
        return harness.run_python(
            "aider", SCRATCH / "aider" / "bin" / "aider",
            "--model", self.model, "--weak-model", self.model, "--no-git", "--yes-always", "--no-check-update",
            "--no-analytics", "--no-show-model-warnings", "--no-pretty", "--map-tokens", "0", *options,
            "--message", prompt, **harness.agent_variables("aider.env"))

    def run_and_check(self, expected, harness, prompt, *options):
        """Runs it and checks that its output contains the expected text once."""
        run = self.run(harness, prompt, *options)
        check(run.returncode, 0, run)
        check(run.stdout.count(expected), 1, run)
        return run

    def requests(self, harness):
        return [it["body"] for it in harness.mock_requests() if it["path"].endswith(self.dialect.path)]


AIDERS = [
    Aider("messages", "anthropic/claude-sonnet-4-5", Messages, ["--thinking-tokens", "2k"]),
    Aider("chat", "openai/gpt-4o", Chat, ["--reasoning-effort", "low", "--no-check-model-accepts-settings"]),
]


def each_aider(*features):
    """Registers a case for each API of aider. It covers these features of the table."""

    def register(function):
        for aider in AIDERS:
            name = f"{aider.name} {function.__name__.replace('_', ' ')}"
            CASES.append(Case(name, lambda aider=aider: function(aider), aider.name, features))
        return function

    return register


@each_aider("plain answer", "model swap", "redaction over a stream", "thinking")
def shows_thoughts_of_a_replaced_model_and_a_redacted_answer(aider):
    with Harness(BeforeModel="small_model.sh", AfterModel="redact.py", settings={"policies": [EMAIL]}) as harness:
        expected = "You said: My card is #### ####, I am [REDACTED:email]"
        run = aider.run_and_check(expected, harness, "My card is 4111 1111, I am jo@example.com", *aider.thinking)
        contains(run.stdout, "Considering the request", run)
        (request,) = aider.requests(harness)
        check(request["model"], "a-small-model", run)
        lacks(json.dumps(request), "jo@example.com", run)


@each_aider("deny at the prompt", "resume")
def continues_after_a_denied_prompt(aider):
    with Harness(BeforeAgent="no_aurora.sh") as harness:
        history = ["--restore-chat-history", "--max-chat-history-tokens", "100000"]
        aider.run_and_check("Project Aurora is not for models.", harness, "Tell me of project aurora", *history)
        check(aider.requests(harness), [])
        for turn in [2, 3]:
            run = aider.run_and_check(f"You said: prompt {turn}", harness, f"prompt {turn}", *history)
        last = aider.requests(harness)[-1]
        check([it[:8] for it in aider.dialect.prompts(last) if it.startswith("prompt")], ["prompt 2", "prompt 3"], run)
        lacks(json.dumps(last), "project aurora", run)


@each_aider("compaction")
def continues_after_a_summary_of_its_history(aider):
    with Harness(BeforeAgent="no_aurora.sh", settings={"policies": [EMAIL]}) as harness:
        (harness.project / ".aider.chat.history.md").write_text(f"#### I am jo@example.com\n\n{'an answer ' * 40}\n")
        history = ["--restore-chat-history", "--max-chat-history-tokens", "50"]
        run = aider.run_and_check("You said: prompt 2", harness, "prompt 2", *history)
        summary, last = aider.requests(harness)
        contains(json.dumps(summary), "# USER\\nI am [REDACTED:email]", run)
        contains(json.dumps(last), "I spoke to you previously", run)
        lacks(json.dumps([summary, last]), "jo@example.com", run)


@each_aider("synthetic answer")
def shows_a_synthetic_answer(aider):
    with Harness(BeforeModel="answer.sh") as harness:
        aider.run_and_check("An answer from the hook.", harness, "Say hello")
        check(aider.requests(harness), [])
