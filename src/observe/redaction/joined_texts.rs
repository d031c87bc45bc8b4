//! Texts that strings of JSON are parts of. Pure.

use std::collections::HashMap;

use super::json_strings::{JsonString, TextPath};

/// Strings that may be one text.
#[derive(Debug)]
pub(super) struct JoinedText<'a> {
    pub(super) strings: Vec<JsonString<'a>>,
    /// Indices of the strings of each block or item.
    pub(super) blocks: Vec<Vec<usize>>,
}

/// The texts of a body, in the order in which they begin.
#[derive(Debug, Default)]
pub(super) struct JoinedTexts<'a> {
    texts: Vec<JoinedText<'a>>,
    /// Index of the text of all blocks and items.
    by_message: HashMap<u64, usize>,
    /// Index of a block in its text.
    by_block: HashMap<u64, usize>,
}

impl JoinedText<'_> {
    /// Returns the indices of the strings that may be one text: those of each block, and all.
    pub(super) fn groups(&self) -> Vec<Vec<usize>> {
        let mut groups = self.blocks.clone();
        if groups.len() > 1 {
            groups.push((0..self.strings.len()).collect());
        }
        groups
    }
}

impl<'a> JoinedTexts<'a> {
    /// Adds a string with its path.
    pub(super) fn add(&mut self, string: JsonString<'a>, TextPath { block, message }: TextPath) {
        let next = self.texts.len();
        let text = *self.by_message.entry(message).or_insert(next);
        let Some(text) = self.texts.get_mut(text) else {
            self.by_block.insert(block, 0);
            self.texts.push(JoinedText::new(string));
            return;
        };
        let next = text.blocks.len();
        let index = text.strings.len();
        match text
            .blocks
            .get_mut(*self.by_block.entry(block).or_insert(next))
        {
            Some(block) => block.push(index),
            None => text.blocks.push(vec![index]),
        }
        text.strings.push(string);
    }

    pub(super) fn into_texts(self) -> Vec<JoinedText<'a>> {
        self.texts
    }
}

impl<'a> JoinedText<'a> {
    /// A text of one string.
    pub(super) fn new(string: JsonString<'a>) -> Self {
        Self {
            strings: vec![string],
            blocks: vec![vec![0]],
        }
    }
}
