"""Readers of request bodies, one class for each model API, with the same functions."""

import json


def _texts(content):
    """Texts of a string or of a list of blocks."""
    if isinstance(content, str):
        return [content]
    return [it["text"] for it in content or [] if "text" in it]


class Messages:
    """Anthropic Messages."""

    upstream, path = "anthropic", "/messages"

    @staticmethod
    def prompts(body):
        """Texts of the user's messages in order."""
        return [text for it in body["messages"] if it["role"] == "user" for text in _texts(it["content"])]

    @staticmethod
    def tool_results(body):
        """Texts of all tool results in order."""
        blocks = [block for it in body["messages"] if isinstance(it["content"], list) for block in it["content"]]
        return ["".join(_texts(it.get("content"))) for it in blocks if it["type"] == "tool_result"]

    @staticmethod
    def declared_tools(body):
        return {it["name"] for it in body.get("tools", [])}

    @staticmethod
    def thoughts(body):
        """The model's thoughts in the history: signatures or encrypted content."""
        blocks = [block for it in body["messages"] if isinstance(it["content"], list) for block in it["content"]]
        return [it["signature"] for it in blocks if it["type"] == "thinking"]

    @staticmethod
    def history(body):
        """Items of the conversation in a form that is equal in each later call: without `cache_control`."""
        items = []
        for message in body["messages"]:
            content = message["content"]
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            items += [(message["role"], _without(it, "cache_control")) for it in blocks]
        return items


class Chat:
    """OpenAI Chat Completions."""

    upstream, path = "openai", "/chat/completions"

    @staticmethod
    def prompts(body):
        return [text for it in body["messages"] if it["role"] == "user" for text in _texts(it["content"])]

    @staticmethod
    def tool_results(body):
        return ["".join(_texts(it["content"])) for it in body["messages"] if it["role"] == "tool"]

    @staticmethod
    def declared_tools(body):
        return {it["function"]["name"] for it in body.get("tools", [])}

    @staticmethod
    def thoughts(body):
        return [it["reasoning_content"] for it in body["messages"] if it.get("reasoning_content")]

    @staticmethod
    def history(body):
        return [(it["role"], _without(it)) for it in body["messages"]]


class Responses:
    """OpenAI Responses."""

    upstream, path = "openai", "/responses"

    @staticmethod
    def prompts(body):
        return [text for it in _items(body) if it.get("role") == "user" for text in _texts(it["content"])]

    @staticmethod
    def tool_results(body):
        return ["".join(_texts(it["output"])) for it in _items(body) if it.get("type", "").endswith("_output")]

    @staticmethod
    def declared_tools(body):
        tools = [inner for it in body.get("tools", []) for inner in it.get("tools", [it])]
        return {it.get("name", it["type"]) for it in tools}

    @staticmethod
    def thoughts(body):
        return [it.get("encrypted_content") for it in _items(body) if it.get("type") == "reasoning"]

    @staticmethod
    def history(body):
        return [(it.get("role", it.get("type")), _without(it)) for it in _items(body)]


def _items(body):
    items = body["input"]
    return [{"role": "user", "content": items}] if isinstance(items, str) else items


def _without(document, *keys):
    return json.dumps({key: value for key, value in document.items() if key not in keys}, sort_keys=True)
