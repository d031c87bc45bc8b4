//! Destinations of filtered responses: one JSON body, or a stream.

use std::{collections::BTreeSet, sync::Arc};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};

use super::channel::ChunkChannel;
use crate::{
    dialect::{DialectError, ResponseDocument, WriteChunks},
    error::ApiError,
    observe::recorder::ExchangeEvent,
    proxy::{
        reply::{HookReply, Reply, Responder, late_error, unreadable, unreadable_response},
        turn_state::TurnState,
    },
    upstream::{UpstreamResponse, headers},
};

/// Destination of the filtered responses of one call.
#[derive(Debug)]
pub struct Output {
    responder: Arc<Responder>,
    /// True if the head of a stream is prepared, or a part of the response is written.
    is_started: bool,
    /// True if a part of the stream has gone to the agent.
    is_sent: bool,
    /// Indexes of the candidates beside the first one that are written without their ends.
    open_alternatives: BTreeSet<u64>,
    /// Token counts of the last answer of the model, for a denial that ends the response.
    pub usage: Option<Bytes>,
    form: OutputForm,
}

#[derive(Debug)]
enum OutputForm {
    /// One JSON body. If the model is asked again, the answers are merged.
    Whole {
        /// Status and headers of the last response.
        head: (StatusCode, HeaderMap),
        chunks: Vec<ResponseDocument>,
    },
    /// A stream, written as the chunks pass.
    Stream {
        writer: Box<dyn WriteChunks>,
        channel: ChunkChannel,
    },
}

impl Output {
    /// Output into one JSON body.
    pub fn whole(responder: Arc<Responder>) -> Self {
        let (head, chunks) = Default::default();
        Self::new(responder, OutputForm::Whole { head, chunks })
    }

    /// Output into a stream, whose chunks go into `channel`.
    pub fn stream(responder: Arc<Responder>, channel: ChunkChannel) -> Self {
        let form = OutputForm::Stream {
            writer: responder.dialect.chunk_writer(responder.framing()),
            channel,
        };
        Self::new(responder, form)
    }

    fn new(responder: Arc<Responder>, form: OutputForm) -> Self {
        Self {
            responder,
            is_started: false,
            is_sent: false,
            open_alternatives: BTreeSet::new(),
            usage: None,
            form,
        }
    }

    /// Returns whether the output is a stream.
    pub const fn is_stream(&self) -> bool {
        matches!(self.form, OutputForm::Stream { .. })
    }

    /// Returns whether a stream has begun before upstream answered, so that a response without its
    /// own headers follows.
    pub fn is_announced(&self) -> bool {
        match &self.form {
            OutputForm::Whole { .. } => false,
            OutputForm::Stream { channel, .. } => channel.is_announced(),
        }
    }

    /// Returns whether a reply is an error, because the agent has received nothing.
    pub fn is_error(&self, reply: &HookReply) -> bool {
        !self.is_sent && self.responder.is_error(reply)
    }

    /// Takes status and headers of a response that is about to be filtered.
    pub fn start(&mut self, answer: &UpstreamResponse) {
        let mut headers = headers::rewritten_response_headers(answer.headers.clone());
        match &mut self.form {
            OutputForm::Whole { head, .. } => *head = (answer.status, headers),
            OutputForm::Stream { writer, channel } => {
                writer.begin_answer();
                if !std::mem::replace(&mut self.is_started, true) {
                    headers.insert(header::CONTENT_TYPE, self.responder.media_type());
                    channel.send_head(answer.status, headers);
                }
            }
        }
    }

    /// Writes chunks for the agent.
    pub fn write(
        &mut self,
        turn: &mut TurnState<'_>,
        documents: Vec<ResponseDocument>,
    ) -> Result<(), ApiError> {
        let context = turn.context;
        for document in documents {
            let emitted = turn.record_emitted(&document);
            emitted.map_err(unreadable_response)?;
            turn.steps.record_sent(&document);
            self.is_started = true;
            document.note_alternatives(&mut self.open_alternatives);
            match &mut self.form {
                OutputForm::Whole { chunks, .. } => {
                    if document.has_error().map_err(unreadable_response)? {
                        // It takes the place of all answers, as an error with its status does.
                        chunks.clear();
                    }
                    chunks.push(document);
                }
                OutputForm::Stream { writer, .. } => {
                    let written = writer.output().len();
                    let chunk = writer.write(&document);
                    chunk.map_err(unreadable_response)?;
                    if writer.output().len() - written > context.snapshot.config.limits.response {
                        return Err(unreadable());
                    }
                }
            }
        }
        Ok(())
    }

    /// Waits until the agent's connection has taken what was written to the stream.
    pub async fn flush(&mut self) {
        if let OutputForm::Stream { writer, channel } = &mut self.form
            && !writer.output().is_empty()
        {
            self.is_sent = true;
            channel.send(writer.output().split().freeze()).await;
        }
    }

    /// Ends the output, with `reply` in the place of what is missing. Returns the reply to send;
    /// `None` if all of it is streamed.
    ///
    /// INVARIANT: a decision of hooks is in a durable decision log before the agent receives it.
    pub async fn finish(
        mut self,
        turn: &mut TurnState<'_>,
        reply: Option<Reply>,
    ) -> Result<Option<Reply>, ApiError> {
        if let Some(Reply::Hooks(_)) = reply {
            let recorder = &turn.context.recorder;
            recorder.record_durably(&ExchangeEvent::Replying).await?;
        }
        let by_model = reply.is_none();
        match reply {
            None => (),
            Some(Reply::Upstream(response)) => {
                if self.is_sent {
                    // Status 200 is out: an error of upstream breaks the stream.
                    return Err(late_error(response.status()));
                }
                if let OutputForm::Stream { channel, .. } = &self.form {
                    // The prepared head is that of an earlier response.
                    channel.take_head();
                }
                return Ok(Some(Reply::Upstream(response)));
            }
            Some(Reply::Hooks(reply)) if !self.is_started || self.is_error(&reply) => {
                // No answer of the model is sent, but what hooks decided holds for later calls.
                turn.save_session().await;
                // An error is known by its status.
                if let Ok(chunk) = self.responder.chunk(&reply) {
                    turn.steps.record_sent(&chunk);
                }
                return Ok(Some(Reply::Hooks(reply)));
            }
            Some(Reply::Hooks(reply)) => {
                let chunk = self.last_chunk(turn, &reply)?;
                turn.steps
                    .record_answer_edit(Bytes::new(), chunk.to_bytes());
                self.write(turn, vec![chunk])?;
            }
        }
        let response = match &mut self.form {
            OutputForm::Whole { head, chunks } => {
                let merged = merge(std::mem::take(chunks));
                let merged = merged.map_err(unreadable_response)?;
                let body = turn.context.dialect.close_response(&merged)?;
                let mut response = Response::new(Body::from(body));
                (*response.status_mut(), *response.headers_mut()) = std::mem::take(head);
                Some(response)
            }
            OutputForm::Stream { .. } => None,
        };
        turn.finish_response(by_model).await;
        if let OutputForm::Stream { writer, .. } = &mut self.form {
            writer.write_end()?;
        }
        self.flush().await;
        Ok(response.map(Reply::Upstream))
    }

    /// Builds the chunk with which a reply of hooks ends the output.
    fn last_chunk(
        &self,
        turn: &TurnState<'_>,
        reply: &HookReply,
    ) -> Result<ResponseDocument, DialectError> {
        let mut chunk = self.responder.chunk(reply)?;
        chunk.start_paragraphs(&mut turn.sent_texts.clone())?;
        chunk.end_alternatives(&self.open_alternatives)?;
        if let OutputForm::Whole { chunks, .. } = &self.form
            && let Some(last) = chunks.last()
        {
            chunk.end_answer(last)?;
        }
        if let (HookReply::Denied(_), Some(usage)) = (reply, &self.usage) {
            chunk.replace_usage(usage)?;
        }
        Ok(chunk)
    }
}

/// Merges chunks into one response.
fn merge(mut chunks: Vec<ResponseDocument>) -> Result<ResponseDocument, DialectError> {
    if chunks.len() == 1
        && let Some(only) = chunks.pop()
    {
        return Ok(only);
    }
    ResponseDocument::merge(chunks)
}
