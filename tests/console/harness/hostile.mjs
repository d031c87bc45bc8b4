// Texts that run a script in a page that does not escape them, and servers that return them.

import { createServer } from "node:http";

import { onCleanup } from "./gateway.mjs";

const SCRIPT = "window.__xss=1";

// XSS vectors: markup, URLs, styles and templates.
const VECTORS = [
  `<script>${SCRIPT}</script>`,
  `<img src=x onerror=${SCRIPT}>`,
  `<svg onload=${SCRIPT}>`,
  `<svg><script>${SCRIPT}</script></svg>`,
  `<iframe srcdoc="<script>parent.__xss=1</script>"></iframe>`,
  `<iframe src="javascript:parent.__xss=1"></iframe>`,
  `<body onload=${SCRIPT}>`,
  `<details open ontoggle=${SCRIPT}>x</details>`,
  `<input autofocus onfocus=${SCRIPT}>`,
  `<video><source onerror=${SCRIPT}></video>`,
  `<a href="javascript:${SCRIPT}" autofocus>x</a>`,
  `<form action="javascript:${SCRIPT}"><button autofocus>x</button></form>`,
  `<meta http-equiv="refresh" content="0;url=javascript:${SCRIPT}">`,
  `<base href="javascript:${SCRIPT}//">`,
  `<link rel="stylesheet" href="https://evil.example/x.css">`,
  `<style>@import "https://evil.example/x.css";*{animation:x}</style>`,
  `<math><mtext><style><img src=x onerror=${SCRIPT}></style></math>`,
  `<object data="data:text/html,<script>${SCRIPT}</script>"></object>`,
  `<embed src="javascript:${SCRIPT}">`,
  `<div style="background:url(https://evil.example/x.png)">x</div>`,
  `<noscript><p title="</noscript><img src=x onerror=${SCRIPT}>">`,
  `<template><script>${SCRIPT}</script></template>`,
  `<button popovertarget=p onclick=${SCRIPT}>x</button><p popover id=p>`,
  `javascript:${SCRIPT}//<`,
  `<x>{{constructor.constructor('${SCRIPT}')()}}`,
];

// Injection contexts: between tags, in attributes, in text elements, in JSON, in a comment,
// between invisible characters, and as character references.
const CONTEXTS = [
  (vector) => vector,
  (vector) => `">${vector}`,
  (vector) => `'/>${vector}<a title='`,
  (vector) => `</title></textarea></pre></style></script>${vector}`,
  (vector) => `","x":"</script>${vector}`,
  (vector) => `--><!--${vector}]]>`,
  (vector) => `\u202e\u0000${vector}\u200b`,
  (vector) => vector.replaceAll("<", "&lt;").replaceAll(">", "&#62;"),
];

/** 200 different hostile texts. */
export const HOSTILE = CONTEXTS.flatMap((context) => VECTORS.map(context));

/** A model that calls tools with the texts of the prompt as names and, after denials, answers with the texts. */
export const startHostileModel = () =>
  serveJson((request) => {
    // Tests of other APIs check only the content of requests.
    if (!request.contents) return {};
    const texts = request.contents[0].parts.map((part) => part.text);
    const calls = texts.map((text) => ({ functionCall: { name: text, args: { [text]: text } } }));
    const parts = request.contents.length === 1 ? calls : texts.map((text) => ({ text }));
    const candidate = { content: { role: "model", parts }, finishReason: "STOP", index: 0 };
    return { candidates: [candidate], modelVersion: texts[0] };
  });

/** Addresses and bodies of calls with the texts as prompts, names of tools, arguments and results. */
export function callsOfOtherApis(texts) {
  const all = texts.map((text, index) => ({ text, id: `call_${index}`, json: JSON.stringify({ [text]: text }) }));
  const anthropic = {
    model: "m",
    max_tokens: 99,
    system: texts[0],
    messages: [
      { role: "user", content: all.map(({ text }) => ({ type: "text", text: `asks ${text}\n` })) },
      { role: "assistant", content: all.map(({ text, id }) => ({ type: "tool_use", id, name: text, input: { [text]: text } })) },
      { role: "user", content: all.map(({ text, id }) => ({ type: "tool_result", tool_use_id: id, content: `found ${text}` })) },
    ],
  };
  const responses = {
    model: "m",
    store: false,
    instructions: texts[0],
    input: [
      { role: "user", content: all.map(({ text }) => ({ type: "input_text", text: `asks ${text}\n` })) },
      ...all.map(({ text, id, json }) => ({ type: "function_call", call_id: id, name: text, arguments: json })),
      ...all.map(({ text, id }) => ({ type: "function_call_output", call_id: id, output: `found ${text}` })),
    ],
  };
  const calls = all.map(({ text, id, json }) => ({ id, type: "function", function: { name: text, arguments: json } }));
  const chat = {
    model: "m",
    messages: [
      { role: "system", content: texts[0] },
      { role: "user", content: all.map(({ text }) => ({ type: "text", text: `asks ${text}\n` })) },
      { role: "assistant", content: null, tool_calls: calls },
      ...all.map(({ text, id }) => ({ role: "tool", tool_call_id: id, content: `found ${text}` })),
    ],
  };
  return [["/v1/messages", anthropic], ["/v1/responses", responses], ["/v1/chat/completions", chat]];
}

/** A hook that denies every tool with its hostile argument as reason. */
export const startHostileHook = () =>
  serveJson(({ tool_input }) => {
    const [text] = Object.keys(tool_input);
    return { decision: "deny", reason: text, systemMessage: text };
  });

async function serveJson(answer) {
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(answer(JSON.parse(Buffer.concat(chunks)))));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  onCleanup(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${server.address().port}`;
}

/** The text as the console displays it, with escapes for invisible characters. */
export const displayed = (text) =>
  text.replaceAll(/[\u0000\u200b\u202e]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
