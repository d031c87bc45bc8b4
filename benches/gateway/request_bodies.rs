//! Deterministic requests of a coding agent: a system instruction, a history of file
//! reads and comments, and function declarations.

use serde_json::{Value, json};

use crate::Result;

/// Functions that a large request declares.
const DECLARATIONS: usize = 30;

/// Bodies below these sizes have fewer declarations, and a shorter instruction.
const SMALL_BYTES: usize = 8 << 10;
const MEDIUM_BYTES: usize = 64 << 10;

const SOURCE: &str = "    /// Größer als nötig, 漢字 and all that.\n\
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {\n\
    \tlet hash = self.hasher.hash_one(&key); // \"é\" too\n\
    \tif self.length >= self.bound { self.grow(64); }\n\
    \tself.table.replace(hash, (key, value)).map(|(_, old)| old)\n    }\n\n";

const INSTRUCTION: &str = "You are a coding agent. Read files before you change them, run the \
    tests after every change, and say what you did in a few words. Do not guess what a file holds. ";

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Charset {
    Any,
    Ascii,
}

/// A request of this length, within two percent.
pub(crate) fn body(bytes: usize, charset: Charset) -> Result<Vec<u8>> {
    let text = Conversation::of(bytes).to_string();
    let text = match charset {
        Charset::Any => text,
        // Keeps the number of bytes.
        Charset::Ascii => text
            .chars()
            .map(|letter| {
                if letter.is_ascii() {
                    letter.to_string()
                } else {
                    "e".repeat(letter.len_utf8())
                }
            })
            .collect(),
    };
    if text.len().abs_diff(bytes) > bytes / 50 {
        return Err(format!("{} bytes instead of {bytes}", text.len()).into());
    }
    Ok(text.into_bytes())
}

/// A conversation that can be continued.
#[derive(Clone)]
pub(crate) struct Conversation {
    contents: Vec<Value>,
    frame: Value,
}

impl Conversation {
    pub(crate) fn of(bytes: usize) -> Self {
        let (declarations, repeats) = match bytes {
            ..SMALL_BYTES => (2, 1),
            SMALL_BYTES..MEDIUM_BYTES => (10, 4),
            _ => (DECLARATIONS, 20),
        };
        let declarations: Vec<Value> = (0..declarations).map(declaration).collect();
        let frame = json!({
            "systemInstruction": { "role": "user", "parts": [{ "text": INSTRUCTION.repeat(repeats) }] },
            "tools": [{ "functionDeclarations": declarations }],
            "generationConfig": { "temperature": 0.2, "topP": 0.95, "maxOutputTokens": 8192, "thinkingConfig": { "includeThoughts": true } },
        });
        let mut conversation = Self {
            contents: vec![user("Look at the table, and say why it is slow. Größe?")],
            frame,
        };
        let mut remaining = bytes.saturating_sub(conversation.to_string().len());
        loop {
            let step = conversation.step();
            let length: usize = step
                .iter()
                .map(|content| content.to_string().len() + 1)
                .sum();
            if length + 512 > remaining {
                break;
            }
            remaining -= length;
            conversation.contents.extend(step);
        }
        conversation.fill(remaining);
        conversation
    }

    /// Adds an answer, and a prompt that fills the remaining bytes exactly.
    fn fill(&mut self, remaining: usize) {
        let answer = model("I have read them.");
        let overhead = answer.to_string().len() + user("").to_string().len();
        // A comma precedes each of them.
        let mut remaining = remaining.saturating_sub(overhead + 2);
        let mut text = String::new();
        for letter in SOURCE
            .chars()
            .filter(|letter| !letter.is_control() && *letter != '"')
            .cycle()
        {
            let Some(rest) = remaining.checked_sub(letter.len_utf8()) else {
                break;
            };
            remaining = rest;
            text.push(letter);
        }
        self.contents.extend([answer, user(&text)]);
    }

    /// Contents in which the model reads a file and comments on it, and the user continues.
    fn step(&self) -> [Value; 4] {
        let number = self.contents.len();
        let name = "read_file";
        let path = format!("src/table/part_{number}.rs");
        let output = format!("// part {number}\n{}", SOURCE.repeat(1 + number % 7));
        [
            json!({"role": "model", "parts": [{ "functionCall": { "name": name, "args": { "file_path": path } } }]}),
            json!({"role": "user", "parts": [{ "functionResponse": { "name": name, "response": { "output": output } } }]}),
            model(&format!("Part {number} inserts and grows, and so the lock is held. ").repeat(3)),
            user(&format!(
                "Go on with what comes after {number}, größer if needed."
            )),
        ]
    }

    /// Adds an answer of the model, and the user's next prompt.
    pub(crate) fn continue_conversation(&mut self, answer: &str, prompt: &str) {
        self.contents.extend([model(answer), user(prompt)]);
    }

    /// Replaces the first prompt, which makes it a new conversation.
    pub(crate) fn begin_with(&mut self, prompt: &str) {
        if let Some(first) = self.contents.first_mut() {
            *first = user(prompt);
        }
    }
}

impl std::fmt::Display for Conversation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut body = json!({ "contents": self.contents });
        if let (Some(fields), Some(frame)) = (body.as_object_mut(), self.frame.as_object()) {
            fields.extend(frame.clone());
        }
        body.fmt(f)
    }
}

/// Names of all functions that may be declared and called.
pub(crate) fn function_names() -> Vec<String> {
    let first = "read_file".to_owned();
    let others = (1..DECLARATIONS).map(|number| format!("workspace_action_{number}"));
    [first].into_iter().chain(others).collect()
}

fn declaration(number: usize) -> Value {
    json!({
        "name": function_names().get(number),
        "description": "Reads a file, or a part of it, and returns what it holds, line by line.",
        "parametersJsonSchema": {
            "type": "object",
            "properties": {
                "file_path": { "type": "string", "description": "The path of the file, from the root of the workspace." },
                "offset": { "type": "number", "description": "The first line, from 0 on." },
                "limit": { "type": "number", "description": "How many lines at most." },
            },
            "required": ["file_path"],
        },
    })
}

fn user(text: &str) -> Value {
    json!({"role": "user", "parts": [{ "text": text }]})
}

fn model(text: &str) -> Value {
    json!({"role": "model", "parts": [{ "text": text }]})
}
