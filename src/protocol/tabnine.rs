//! `tabnine`: the protocol of the Tabnine CLI. A hook that changes a tool's
//! arguments gives all of them.

use super::Protocol;
use crate::event::{Answer, ArgumentsMean, Event};

#[derive(Debug)]
pub(super) struct Tabnine;

impl Protocol for Tabnine {
    fn name(&self) -> &'static str {
        "tabnine"
    }

    fn interpret(&self, answer: &mut Answer, _event: Event<'_>) {
        answer.output.meaning.arguments = ArgumentsMean::Instead;
    }
}
