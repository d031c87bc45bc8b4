//! Where filtered responses go: into one JSON body, or a stream.

use std::sync::Arc;

use axum::{body::Body, response::Response};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::channel::{ChunkReceiver, ChunkSender, channel};
use crate::{
    dialect::{Framing, MergedChunks, ResponseDocument},
    error::ApiError,
    observe::recorder::ExchangeEvent,
    proxy::{
        reply::{Reply, Responder, unreadable},
        request_context::RequestContext,
        stream_encoder::{StreamEncoder, media_type},
        turn_state::TurnState,
    },
    upstream::{UpstreamResponse, headers},
};

/// Where the filtered responses of one call go.
#[derive(Debug)]
pub enum Output {
    /// Into one JSON body. If the model is asked again, the answers are merged.
    Whole(WholeOutput),
    /// Into a stream, as they pass.
    Stream(StreamOutput),
}

/// Collects responses for one JSON body.
#[derive(Debug)]
pub struct WholeOutput {
    responder: Arc<Responder>,
    /// Status and headers of the last response.
    head: (StatusCode, HeaderMap),
    chunks: Vec<ResponseDocument>,
}

/// Writes responses into a stream.
#[derive(Debug)]
pub struct StreamOutput {
    responder: Arc<Responder>,
    framing: Framing,
    encoder: StreamEncoder,
    sender: ChunkSender,
    is_started: bool,
    buffer: BytesMut,
}

impl Output {
    /// Output into one JSON body.
    pub fn whole(responder: Arc<Responder>) -> Self {
        Self::Whole(WholeOutput {
            responder,
            head: (StatusCode::OK, HeaderMap::new()),
            chunks: Vec::new(),
        })
    }

    /// Output into a stream, whose chunks arrive at the receiver.
    pub fn stream(responder: Arc<Responder>, framing: Framing) -> (Self, ChunkReceiver) {
        let (sender, receiver) = channel();
        let output = Self::Stream(StreamOutput {
            responder,
            framing,
            encoder: StreamEncoder::new(framing),
            sender,
            is_started: false,
            buffer: BytesMut::new(),
        });
        (output, receiver)
    }

    /// Takes status and headers of a response that is about to be filtered.
    pub fn start(&mut self, answer: &UpstreamResponse) {
        match self {
            Self::Whole(output) => output.head = head(answer),
            Self::Stream(output) => output.start(answer),
        }
    }

    /// Writes chunks for the agent.
    pub fn write(
        &mut self,
        context: &RequestContext,
        turn: &mut TurnState,
        chunks: Vec<ResponseDocument>,
    ) -> Result<(), ApiError> {
        match self {
            Self::Whole(output) => {
                for chunk in &chunks {
                    turn.record_emitted(chunk)?;
                }
                output.chunks.extend(chunks);
                Ok(())
            }
            Self::Stream(output) => output.write(context, turn, &chunks),
        }
    }

    /// Ends the output, with `reply` in the place of what is missing. Returns the reply to send,
    /// or the rest of it if a part is streamed already.
    ///
    /// INVARIANT: a decision of hooks is in a durable decision log before the agent receives it.
    pub async fn finish(
        self,
        context: &RequestContext,
        turn: &mut TurnState,
        reply: Option<Reply>,
    ) -> Result<Reply, ApiError> {
        if let Some(Reply::Answered(_) | Reply::Denied(_)) = reply {
            context
                .recorder
                .record_durably(&ExchangeEvent::Replying)
                .await?;
        }
        match self {
            Self::Whole(output) => output.finish(context, turn, reply).await,
            Self::Stream(output) => output.finish(context, turn, reply).await,
        }
    }
}

impl WholeOutput {
    async fn finish(
        mut self,
        context: &RequestContext,
        turn: &mut TurnState,
        reply: Option<Reply>,
    ) -> Result<Reply, ApiError> {
        let by_model = reply.is_none();
        if let Some(reply) = reply {
            if self.chunks.is_empty() {
                return Ok(reply);
            }
            let Some(chunk) = self.responder.chunk(&reply)? else {
                return Ok(reply);
            };
            turn.record_emitted(&chunk)?;
            self.chunks.push(chunk);
        }
        let body = merge(self.chunks)?.to_wire(context.dialect.response_envelope());
        turn.finish_response(by_model).await;
        let mut response = Response::new(Body::from(body));
        (*response.status_mut(), *response.headers_mut()) = self.head;
        Ok(Reply::Upstream(response))
    }
}

impl StreamOutput {
    fn start(&mut self, answer: &UpstreamResponse) {
        if !std::mem::replace(&mut self.is_started, true) {
            let (status, mut headers) = head(answer);
            let value = HeaderValue::from_static(media_type(self.framing));
            headers.insert(header::CONTENT_TYPE, value);
            self.sender.send_head(status, headers);
        }
    }

    /// Writes chunks for the agent.
    pub fn write(
        &mut self,
        context: &RequestContext,
        turn: &mut TurnState,
        chunks: &[ResponseDocument],
    ) -> Result<(), ApiError> {
        for chunk in chunks {
            turn.record_emitted(chunk)?;
            let json = chunk.to_wire(context.dialect.response_envelope());
            self.write_bytes(context, &json)?;
        }
        Ok(())
    }

    /// Writes the JSON of one chunk.
    fn write_bytes(&mut self, context: &RequestContext, json: &Bytes) -> Result<(), ApiError> {
        if json.len() > context.snapshot.config.limits.response {
            return Err(unreadable());
        }
        self.encoder.write(&mut self.buffer, json);
        Ok(())
    }

    /// Waits until the agent's connection has taken what was written.
    pub async fn flush(&mut self) {
        if !self.buffer.is_empty() {
            self.sender.send(self.buffer.split().freeze()).await;
        }
    }

    async fn finish(
        mut self,
        context: &RequestContext,
        turn: &mut TurnState,
        reply: Option<Reply>,
    ) -> Result<Reply, ApiError> {
        let by_model = reply.is_none();
        match reply {
            None => (),
            Some(reply) if !self.is_started => return Ok(reply),
            // Status 200 is out: an error of upstream breaks the stream.
            Some(Reply::Upstream(response)) => {
                return Err(ApiError::upstream_status(response.status()));
            }
            Some(reply) => {
                let chunk = self.responder.chunk(&reply)?;
                self.write(context, turn, chunk.as_slice())?;
            }
        }
        turn.finish_response(by_model).await;
        self.encoder.write_end(&mut self.buffer);
        self.flush().await;
        Ok(Reply::Upstream(Response::default()))
    }
}

fn head(answer: &UpstreamResponse) -> (StatusCode, HeaderMap) {
    (
        answer.status,
        headers::rewritten_response_headers(answer.headers.clone()),
    )
}

/// Merges chunks into one response.
fn merge(mut chunks: Vec<ResponseDocument>) -> Result<ResponseDocument, ApiError> {
    if chunks.len() == 1
        && let Some(only) = chunks.pop()
    {
        return Ok(only);
    }
    let bytes: Vec<Bytes> = chunks.iter().map(ResponseDocument::to_bytes).collect();
    let merged = ResponseDocument::parse(MergedChunks::parse(&bytes)?.response)?;
    Ok(merged.in_envelope_of(chunks.first()))
}
