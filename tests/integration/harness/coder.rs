//! A simulated coding agent with tools that behaves like gemini-cli.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Agent, Answer};

const MODEL: &str = "gemini-2.5-pro";
const CONTEXT: &str = "<session_context>\nThis is the Gemini CLI.\n</session_context>";

/// A coding agent that runs tools on files in memory and sends its whole history with every call.
pub struct Coder {
    agent: Agent,
    history: Vec<Value>,
    /// The files that its tools read and write.
    pub files: BTreeMap<String, String>,
    /// The function calls that it ran, in order.
    pub ran: Vec<Value>,
    /// The answers that it received, in order.
    pub answers: Vec<Answer>,
}

impl Coder {
    /// Returns a coding agent with an empty history.
    pub fn new(agent: Agent) -> Self {
        let user_agent = format!("GeminiCLI/0.61.0/{MODEL} (linux; x64; terminal)");
        Self {
            agent: agent.sending("user-agent", user_agent),
            history: vec![json!({ "role": "user", "parts": [{ "text": CONTEXT }] })],
            files: BTreeMap::new(),
            ran: Vec::new(),
            answers: Vec::new(),
        }
    }

    /// Runs one turn: sends the prompt and runs the requested tools until the model requests none.
    /// Returns all texts of the model.
    #[track_caller]
    pub fn ask(&mut self, prompt: &str) -> impl Future<Output = String> {
        let mut user_parts = vec![json!({ "text": prompt })];
        async move {
            let mut texts = String::new();
            while !user_parts.is_empty() {
                let (text, calls) = self.step(user_parts).await;
                texts.push_str(&text);
                user_parts = calls.iter().map(|call| self.run(call)).collect();
            }
            texts
        }
    }

    /// Makes one model call. Returns the text and the function calls of its answer.
    async fn step(&mut self, user_parts: Vec<Value>) -> (String, Vec<Value>) {
        self.push_user_parts(user_parts);
        let request =
            json!({ "contents": self.history, "tools": [{ "functionDeclarations": tools() }] });
        let answer = self.agent.stream(MODEL, &request).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let chunks = answer.events();
        let parts = chunks.iter().flat_map(parts);
        let parts: Vec<&Value> = parts.filter(|part| part["thought"] != true).collect();
        let text: String = parts
            .iter()
            .filter_map(|part| part["text"].as_str())
            .collect();
        let calls = parts.iter().map(|part| part["functionCall"].clone());
        let calls: Vec<Value> = calls.filter(Value::is_object).collect();
        let text_part = (!text.is_empty()).then(|| json!({ "text": text }));
        let call_parts = calls.iter().map(|call| json!({ "functionCall": call }));
        let model_parts: Vec<Value> = text_part.into_iter().chain(call_parts).collect();
        if !model_parts.is_empty() {
            self.history
                .push(json!({ "role": "model", "parts": model_parts }));
        }
        self.answers.push(answer);
        (text, calls)
    }

    /// Appends to the history. Consecutive contents of the user are merged.
    fn push_user_parts(&mut self, parts: Vec<Value>) {
        match self.history.last_mut() {
            Some(last) if last["role"] == "user" => {
                last["parts"].as_array_mut().unwrap().extend(parts);
            }
            _ => self.history.push(json!({ "role": "user", "parts": parts })),
        }
    }

    /// Runs a function call. Returns its `functionResponse` part.
    fn run(&mut self, call: &Value) -> Value {
        self.ran.push(call.clone());
        let argument = |name: &str| call["args"][name].as_str().unwrap_or_default().to_owned();
        let file = argument("file_path");
        let response = match call["name"].as_str().unwrap() {
            "write_file" => {
                self.files.insert(file, argument("content"));
                json!({ "output": "Successfully created the file." })
            }
            "read_file" => match self.files.get(&file) {
                Some(text) => json!({ "output": text }),
                None => json!({ "error": "File not found." }),
            },
            _ => json!({ "error": "There is no such tool." }),
        };
        json!({ "functionResponse": { "name": call["name"], "response": response } })
    }
}

fn parts(chunk: &Value) -> Vec<&Value> {
    let parts = chunk["candidates"][0]["content"]["parts"].as_array();
    parts.into_iter().flatten().collect()
}

fn tools() -> Value {
    let text = json!({ "type": "string" });
    let tool = |name: &str, parameters: &[&str]| {
        let properties: BTreeMap<_, _> = parameters
            .iter()
            .map(|parameter| (*parameter, &text))
            .collect();
        json!({ "name": name, "parametersJsonSchema": {
            "type": "object", "properties": properties, "required": parameters,
        }})
    };
    json!([
        tool("read_file", &["file_path"]),
        tool("write_file", &["file_path", "content"]),
        tool("run_shell_command", &["command"]),
    ])
}
