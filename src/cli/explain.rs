//! `hookgate explain`: what hooks would do, and why.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use clap::Args;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    Failure, block_on,
    dry_run::{self, Rehearsal, rehearse},
    json_diff::{Further, differences, shown},
    print,
    test_case::{AgentAction, DEFAULT_MODEL, SimulatedCall, model_path, parse_headers},
};
use crate::{
    config::{BUILTIN, Config, HookSpec},
    hook::{EventTrace, HookExecution, HookTrace},
};

pub(super) const EXAMPLES: &str = "Examples:
  hookgate explain --config hookgate.yaml event.json
  echo '{\"contents\":[{\"role\":\"user\",\"parts\":[{\"text\":\"hi\"}]}]}' | hookgate explain --config hookgate.yaml -";

/// What `explain` is told.
#[derive(Debug, Args)]
pub(super) struct Explain {
    /// The config file.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Start no hook: only say which would run.
    #[arg(long)]
    dry_run: bool,
    /// For programs.
    #[arg(long)]
    json: bool,
    /// The model that a request is for.
    #[arg(long, value_name = "NAME", default_value = DEFAULT_MODEL)]
    model: String,
    /// A hook's input, a Gemini request, or `{"path", "headers", "body", "answer"}`;
    /// `-` is stdin.
    #[arg(value_name = "EVENT.json")]
    act: PathBuf,
}

impl Explain {
    pub(super) fn run(self) -> Result<(), Failure> {
        let config = dry_run::load(&self.config)?;
        let act = read_act(&self.act, &self.model)?;
        let calling = if self.dry_run {
            HookExecution::Skipped
        } else {
            HookExecution::Executed
        };
        block_on(async {
            let rehearsal = Box::pin(rehearse(&config, &act, calling)).await?;
            if self.json {
                return print(&format!("{:#}", json!(rehearsal)));
            }
            let told = Telling {
                config: &config,
                act: &act,
                rehearsal: &rehearsal,
                calling,
            };
            print(&told.lines().join("\n"))
        })
    }
}

/// A request with what is around it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wrapped {
    path: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Map<String, Value>,
    answer: Option<Value>,
    then: Option<Value>,
}

fn read_act(file: &Path, model: &str) -> Result<AgentAction, Failure> {
    let failed =
        |error: &dyn std::fmt::Display| Failure::Failed(format!("`{}`: {error}", file.display()));
    let text = if file == Path::new("-") {
        io::read_to_string(io::stdin().lock())
    } else {
        fs::read_to_string(file)
    };
    let text = text.map_err(|it| failed(&it))?;
    let fields: Map<String, Value> = serde_json::from_str(&text).map_err(|it| failed(&it))?;
    if fields.contains_key("hook_event_name") {
        return Ok(AgentAction::Report(fields));
    }
    let wrapped = if fields.contains_key("body") {
        serde_json::from_value(Value::Object(fields)).map_err(|it| failed(&it))?
    } else {
        Wrapped {
            path: None,
            headers: BTreeMap::new(),
            body: fields,
            answer: None,
            then: None,
        }
    };
    let path = wrapped.path.unwrap_or_else(|| model_path(model));
    if !path.starts_with('/') {
        return Err(failed(&"`path` must begin with `/`"));
    }
    let headers = parse_headers(&wrapped.headers)
        .map_err(|name| failed(&format!("`{name}` cannot be sent as a header")))?;
    Ok(AgentAction::Call(Box::new(SimulatedCall {
        path,
        headers,
        body: wrapped.body,
        answer: wrapped.answer,
        then: wrapped.then,
    })))
}

/// All that is told.
struct Telling<'a> {
    config: &'a Config,
    act: &'a AgentAction,
    rehearsal: &'a Rehearsal,
    calling: HookExecution,
}

impl Telling<'_> {
    fn lines(&self) -> Vec<String> {
        let rehearsal = self.rehearsal;
        let mut lines: Vec<String> = Vec::new();
        for (index, record) in rehearsal.events.iter().enumerate() {
            let before = rehearsal.events.iter().take(index);
            let earlier = before.filter(|it| it.event == record.event).count();
            self.event(record, earlier, &mut lines);
        }
        if lines.is_empty() && rehearsal.verdict != "error" {
            lines.push("no hook listens to this".to_owned());
        }
        let why = why(rehearsal.reason.as_ref());
        let verdict = format!("verdict: {}{why}", rehearsal.verdict);
        match (self.calling, self.act) {
            (HookExecution::Skipped, _) if rehearsal.verdict != "error" => return lines,
            (HookExecution::Skipped, _) => (),
            (HookExecution::Executed, AgentAction::Call(call)) => self.call(call, &mut lines),
            (HookExecution::Executed, AgentAction::Report(_)) => {
                lines.push(format!("answer: {} {}", rehearsal.status, rehearsal.answer));
            }
        }
        lines.push(verdict);
        lines
    }

    /// One event; `earlier` counts those of the same name before it.
    fn event(&self, record: &EventTrace, earlier: usize, lines: &mut Vec<String>) {
        let others = if earlier == 0 {
            self.not_asked(record)
        } else {
            Vec::new()
        };
        if record.hooks.is_empty() && others.is_empty() {
            return;
        }
        let count = if earlier == 0 {
            String::new()
        } else {
            format!(" ({})", earlier + 1)
        };
        let hooks = record.hooks.iter().filter(|it| it.kind != BUILTIN);
        let order = match (hooks.count(), record.sequential) {
            (0 | 1, _) => "",
            (_, true) => ", hooks one after the other",
            (_, false) => ", hooks in parallel",
        };
        lines.push(format!("{}{count}{order}:", record.event));
        for (index, hook) in record.hooks.iter().enumerate() {
            lines.push(format!("  {}. {}", index + 1, told(hook)));
            let ran = hook.ran.iter().flat_map(|it| &it.diagnostics);
            lines.extend(ran.map(|(code, detail)| format!("     {code}: {detail}")));
        }
        if !others.is_empty() {
            lines.push(format!("  not asked: {}", others.join(", ")));
        }
        if self.calling == HookExecution::Executed {
            lines.push(format!(
                "  so: {}{}",
                record.verdict.as_str(),
                why(record.reason.as_ref())
            ));
        }
    }

    /// The hooks of an event that are not in its plan.
    fn not_asked(&self, record: &EventTrace) -> Vec<&str> {
        let groups = self.config.hooks.get(&record.event);
        let hooks = groups.into_iter().flatten().flat_map(|it| &it.hooks);
        let labels = hooks.map(HookSpec::label);
        let asked = |label: &&str| record.hooks.iter().any(|it| it.name == **label);
        labels.filter(|it| !asked(it)).collect()
    }

    fn call(&self, call: &SimulatedCall, lines: &mut Vec<String>) {
        let rehearsal = self.rehearsal;
        let sent = json!(call.body);
        let path = call.path.split('?').next().unwrap_or_default();
        if rehearsal.upstream.is_empty() {
            lines.push("upstream: not called".to_owned());
        }
        for asked in &rehearsal.upstream {
            lines.push(format!("upstream: {}", asked.path));
            let changes = differences(&sent, &asked.body, Further::Told);
            if changes.is_empty() && asked.path == path {
                lines.push("  as the agent sent it".to_owned());
            }
            lines.extend(changes.iter().map(|it| {
                let (from, to) = (shown(it.first.as_ref()), shown(it.second.as_ref()));
                format!("  {}: {from} → {to}", it.path)
            }));
        }
        let text = match rehearsal.text.as_str() {
            "" => shown(Some(&rehearsal.answer)),
            text => text.to_owned(),
        };
        lines.push(format!("agent: {} {text}", rehearsal.status));
    }
}

/// What stands after a verdict.
fn why(reason: Option<&String>) -> String {
    reason.map(|it| format!(": {it}")).unwrap_or_default()
}

/// One hook in one line.
fn told(hook: &HookTrace) -> String {
    let HookTrace { name, kind, ran } = hook;
    let Some(ran) = ran else {
        return format!("{name} ({kind})");
    };
    let said = match ran.output.as_object() {
        Some(fields) if !fields.is_empty() => format!("says {}", ran.output),
        _ if ran.edited => "edits the request".to_owned(),
        _ => "says nothing".to_owned(),
    };
    let would = ran
        .would
        .map(|it| format!(", only observes, would {}", it.as_str()));
    let would = would.unwrap_or_default();
    format!(
        "{name} ({kind}), {}, {} ms{would}, {said}",
        ran.status, ran.ms
    )
}
