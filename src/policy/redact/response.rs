//! `redact` on one answer: one carry for each text that comes in pieces.

use std::collections::HashMap;

use super::{
    redactor::{FoundDetectors, Redact},
    settings::RedactionScope,
};
use crate::{
    dialect::{
        AnswerEditor, Channel, DialectError, ResponseDocument, Rest, TextKind, TextStream, Words,
    },
    event::HookOutput,
    policy::definition::{ChunkPosition, PolicyEffects, ResponsePolicy, TextVerdict},
};
use stream_redact::Masker;

/// How many texts of one answer may be under way. A model has few.
const MOST_CHANNELS: usize = 256;

/// What stands in the place of a text that there is no room for.
const NO_ROOM: &str = "[REDACTED]";

/// Looks at one answer.
#[derive(Debug)]
pub(super) struct Answering {
    redact: Redact,
    channels: HashMap<Channel, Masker>,
    found: FoundDetectors,
    /// Of how many of these somebody was told.
    told: usize,
}

impl Answering {
    pub(super) fn new(redact: Redact) -> Self {
        Self {
            redact,
            channels: HashMap::new(),
            found: FoundDetectors::new(),
            told: 0,
        }
    }
}

impl ResponsePolicy for Answering {
    fn chunk(
        &mut self,
        chunk: &mut ResponseDocument,
        extent: ChunkPosition,
    ) -> Result<HookOutput, DialectError> {
        let rest = match extent {
            ChunkPosition::Last => Rest::None,
            ChunkPosition::Chunk => Rest::MayCome,
        };
        chunk.edit_texts(self, rest)?;
        Ok(self.redact.output(&self.found))
    }

    fn words(&mut self, words: &mut Words) -> TextVerdict {
        words.edit_texts(self);
        let output = self.redact.output(&self.found);
        if self.found.len() == self.told && output == HookOutput::default() {
            return TextVerdict::Silent;
        }
        TextVerdict::Said(Box::new(output))
    }

    /// A detector is told of when it first finds something in an answer.
    fn take_effects(&mut self) -> PolicyEffects {
        let found = self.found.len();
        let told = std::mem::replace(&mut self.told, found);
        PolicyEffects {
            edited: found > told,
            refused: Vec::new(),
        }
    }

    fn end(&mut self) -> Result<Option<(ResponseDocument, HookOutput)>, DialectError> {
        let held = ResponseDocument::of_held(self)?;
        Ok(held.map(|it| (it, self.redact.output(&self.found))))
    }
}

impl AnswerEditor for Answering {
    fn piece(&mut self, channel: &Channel, text: &str, rest: Rest) -> Option<String> {
        let side = match channel.stream {
            TextStream::Speech | TextStream::Thought => RedactionScope::Answer,
            TextStream::Argument(_) => RedactionScope::ToolCalls,
        };
        if !self.redact.on.contains(&side) {
            return None;
        }
        if !self.channels.contains_key(channel) {
            if self.channels.len() >= MOST_CHANNELS {
                return Some(NO_ROOM.to_owned());
            }
            let masker = self.redact.mask.stream();
            self.channels.insert(channel.clone(), masker);
        }
        let masker = self.channels.get_mut(channel)?;
        let mut said = masker.push(text);
        if rest == Rest::None {
            said.push_str(&masker.finish());
        }
        self.found.extend(masker.found());
        if rest == Rest::None {
            self.channels.remove(channel);
        }
        (said != text).then_some(said)
    }

    fn alone(&mut self, kind: TextKind, text: &str) -> Option<String> {
        self.redact.redact(
            RedactionScope::from_response_text(kind),
            text,
            &mut self.found,
        )
    }

    fn holding(&self, candidate: Option<u64>) -> Vec<Channel> {
        let holding = self.channels.iter().filter(|(channel, masker)| {
            !masker.is_idle() && candidate.is_none_or(|it| channel.candidate == it)
        });
        let mut holding: Vec<Channel> = holding.map(|it| it.0.clone()).collect();
        holding.sort();
        holding
    }
}
