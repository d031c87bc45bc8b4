//! `redact`: secrets are masked, hashed or refused, wherever a model or an agent
//! would read them; also where they come in pieces.

mod response;
mod settings;

use std::{collections::BTreeSet, sync::Arc};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use self::{
    response::Answering,
    settings::{Action, Settings, Side},
};
use super::{Occasion, Policy, PolicyKind, PolicyRequest, ResponsePolicy};
use crate::{
    dialect::{self, DialectError, TextEditor, TextKind},
    event::{AfterTool, ArgumentsMean, BeforeTool, Event, EventName, HookOutput},
};
use stream_redact::Mask;

pub(super) use self::settings::FORMAT;

pub(super) const KIND: PolicyKind = PolicyKind::of::<Redact>(
    "redact",
    &[
        EventName::BeforeModel,
        EventName::AfterModel,
        EventName::BeforeTool,
        EventName::AfterTool,
        EventName::BeforeAgent,
    ],
)
.blind("images, sound and files in requests and answers are not looked into, nor are declarations of tools and content that upstream has cached");

/// The names of detectors that found something.
type Found = BTreeSet<Arc<str>>;

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(try_from = "Settings")]
#[schemars(with = "Settings")]
struct Redact {
    mask: Mask,
    on: BTreeSet<Side>,
    action: Action,
    reason: Option<Arc<str>>,
}

impl TryFrom<Settings> for Redact {
    type Error = String;

    fn try_from(settings: Settings) -> Result<Self, String> {
        if settings.is_idle() {
            return Err(
                "it looks for nothing: `detect` and `patterns`, or `on`, are empty".to_owned(),
            );
        }
        Ok(Self {
            mask: settings.mask().map_err(|error| error.to_string())?,
            on: settings.on,
            action: settings.action,
            reason: settings.reason.map(Into::into),
        })
    }
}

impl Redact {
    /// What to say of what was found.
    fn judge(&self, found: &Found) -> HookOutput {
        if self.action != Action::Deny || found.is_empty() {
            return HookOutput::default();
        }
        if let Some(reason) = &self.reason {
            return HookOutput::denial(&**reason);
        }
        let found: Vec<&str> = found.iter().map(AsRef::as_ref).collect();
        HookOutput::denial(format!("Not allowed here: {}.", found.join(", ")))
    }

    /// A text that stands alone.
    fn conceal(&self, side: Side, text: &str, found: &mut Found) -> Option<String> {
        if !self.on.contains(&side) {
            return None;
        }
        let concealed = self.mask.conceal(text)?;
        found.extend(concealed.detectors);
        Some(concealed.text)
    }

    fn before_tool(&self, event: &BeforeTool) -> HookOutput {
        let mut found = Found::new();
        let mut arguments = Value::Object(event.tool_input.clone());
        let mut conceal = |text: &str| self.conceal(Side::ToolCalls, text, &mut found);
        let edited = dialect::edit_leaves(&mut arguments, &mut conceal);
        let mut output = self.judge(&found);
        if edited {
            let specific = &mut output.hook_specific_output;
            specific.insert("tool_input".to_owned(), arguments);
            output.meaning.arguments = ArgumentsMean::Instead;
        }
        output
    }

    /// Hooks cannot change a result, but what they say can stand in its place.
    fn after_tool(&self, event: &AfterTool) -> HookOutput {
        let mut found = Found::new();
        let mut result = Value::Object(event.tool_response.clone());
        let mut conceal = |text: &str| self.conceal(Side::ToolResults, text, &mut found);
        if !dialect::edit_leaves(&mut result, &mut conceal) {
            return HookOutput::default();
        }
        if self.action == Action::Deny {
            return self.judge(&found);
        }
        let shown = result.get("llmContent").unwrap_or(&result);
        let shown = shown
            .as_str()
            .map_or_else(|| shown.to_string(), str::to_owned);
        HookOutput::denial(shown)
    }
}

impl Policy for Redact {
    fn request(
        &self,
        _occasion: &Occasion<'_>,
        call: &mut PolicyRequest,
    ) -> Result<HookOutput, DialectError> {
        let mut editor = RequestEditor {
            redact: self,
            found: Found::new(),
        };
        // Also what is refused is masked: hooks are shown it.
        call.edit_texts(&mut editor)?;
        call.edited |= !editor.found.is_empty();
        Ok(self.judge(&editor.found))
    }

    fn answer(&self, _occasion: &Occasion<'_>) -> Option<Box<dyn ResponsePolicy>> {
        let sides = [Side::Answer, Side::ToolCalls, Side::ToolResults];
        let looks = sides.iter().any(|it| self.on.contains(it));
        looks.then(|| Box::new(Answering::new(self.clone())) as Box<dyn ResponsePolicy>)
    }

    fn event(&self, _occasion: &Occasion<'_>, event: Event<'_>) -> HookOutput {
        match event {
            Event::BeforeTool(it) => self.before_tool(it),
            Event::AfterTool(it) => self.after_tool(it),
            Event::BeforeAgent(it) => {
                // A prompt cannot be masked here; the request that holds it is.
                let mut found = Found::new();
                self.conceal(Side::Request, &it.prompt, &mut found);
                self.judge(&found)
            }
            _ => HookOutput::default(),
        }
    }
}

/// Edits the texts of a request.
struct RequestEditor<'a> {
    redact: &'a Redact,
    found: Found,
}

impl TextEditor for RequestEditor<'_> {
    fn wants(&self, kind: TextKind, text: &str) -> bool {
        let redact = self.redact;
        redact.on.contains(&Side::of_request(kind)) && redact.mask.finds(text)
    }

    fn run(&mut self, kind: TextKind, texts: &mut [String]) -> bool {
        let side = Side::of_request(kind);
        if let [text] = texts {
            let Some(concealed) = self.redact.conceal(side, text, &mut self.found) else {
                return false;
            };
            *text = concealed;
            return true;
        }
        let whole = texts.concat();
        if self.redact.conceal(side, &whole, &mut self.found).is_none() {
            return false;
        }
        let mut masker = self.redact.mask.stream();
        for text in texts.iter_mut() {
            *text = masker.push(text);
        }
        if let Some(last) = texts.last_mut() {
            last.push_str(&masker.finish());
        }
        true
    }

    fn alone(&mut self, kind: TextKind, text: &str) -> Option<String> {
        let side = Side::of_request(kind);
        self.redact.conceal(side, text, &mut self.found)
    }
}
