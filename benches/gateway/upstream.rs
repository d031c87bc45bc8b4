//! A fast model API: it discards request bodies, and the model's name in the path
//! selects the response.
//!
//! `bench` returns one document, `bench-large` one of a MiB, and `bench-sse-200-2ms` a stream of
//! 200 chunks, 2 ms apart; with `0ms`, chunks are sent without a pause. Requests of Anthropic and
//! OpenAI are always streamed, and their bodies name the model.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt as _, Either, Full};
use hyper::body::{Body, Frame, Incoming};
use rustix::time::{ClockId, clock_gettime};
use tokio::{
    net::TcpListener,
    time::{Instant, Interval, interval_at},
};

use crate::{Result, baseline_proxy};

/// Marker in front of the timestamp in a chunk's text.
pub(crate) const STAMP: &str = "~~";

/// Letters of a timestamp.
pub(crate) const STAMP_LENGTH: usize = 16;

/// Text of the response that is not streamed.
pub(crate) const ANSWER: &str = "The function takes the hash of the key once, looks for a free \
     slot from there on, and grows the table before more than three quarters of it are taken. \
     I would leave it as it is; the caller holds the lock for too long instead, since it reads \
     the file while it has it.";

/// Model whose response is a MiB of `ANSWER`.
pub(crate) const LARGE: &str = "bench-large";
const LARGE_ANSWER_REPEATS: usize = (1 << 20) / ANSWER.len();

const FILLER: &str = "and so the table grows before it is full, which the caller never sees, \
     since it holds the lock all the while; a réader waits.";

pub(crate) async fn run(listener: TcpListener) -> Result<()> {
    baseline_proxy::serve(listener, answer).await
}

async fn answer(mut request: Request<Incoming>) -> Result<Response<Either<Full<Bytes>, Chunks>>> {
    let format = WireFormat::of(request.uri().path());
    let mut model_of_body = None;
    while let Some(frame) = request.body_mut().frame().await {
        let frame = frame?;
        if format != WireFormat::Gemini && model_of_body.is_none() {
            model_of_body = frame.data_ref().and_then(|data| model_in(data));
        }
    }
    let path = request.uri().path();
    let (_, model) = path.rsplit_once('/').ok_or("no model in the path")?;
    let model = match (&model_of_body, model.split_once(':')) {
        (Some(model_of_body), _) => model_of_body,
        (None, Some((model, _))) => model,
        (None, None) => return Err("no method in the path".into()),
    };
    let (kind, body) = if let Some(stream) = model.strip_prefix("bench-sse-") {
        (
            "text/event-stream",
            Either::Right(Chunks::parse(stream, format)?),
        )
    } else {
        let times = if model == LARGE {
            LARGE_ANSWER_REPEATS
        } else {
            1
        };
        let answer = unary(&ANSWER.repeat(times));
        (
            "application/json; charset=UTF-8",
            Either::Left(answer.into()),
        )
    };
    let response = Response::builder().header(header::CONTENT_TYPE, kind);
    Ok(response.body(body)?)
}

fn unary(text: &str) -> String {
    format!(
        r#"{{"candidates":[{{"content":{{"parts":[{{"text":"{text}"}}],"role":"model"}},"finishReason":"STOP","index":0}}],{}}}"#,
        usage()
    )
}

fn usage() -> &'static str {
    r#""usageMetadata":{"promptTokenCount":24381,"candidatesTokenCount":71,"totalTokenCount":24452,"promptTokensDetails":[{"modality":"TEXT","tokenCount":24381}]},"modelVersion":"bench","responseId":"pV4kafaTFMmg_uMP3rCGoQY""#
}

/// Nanoseconds of the monotonic clock, which all processes share.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = Duration::new(
        u64::try_from(time.tv_sec).unwrap_or_default(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    );
    u64::try_from(seconds.as_nanos()).unwrap_or_default()
}

/// A timestamp in sixteen letters, because digits could match the card detector.
fn stamp(time: u64) -> String {
    let digits = (0..STAMP_LENGTH).rev().map(|at| (time >> (4 * at)) & 0xf);
    digits
        .filter_map(|digit| char::from_u32(97 + u32::try_from(digit).ok()?))
        .collect()
}

pub(crate) fn read_stamp(letters: &[u8]) -> u64 {
    letters.iter().fold(0, |time, letter| {
        (time << 4) | u64::from(letter.wrapping_sub(b'a') & 0xf)
    })
}

/// The API whose stream format is used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WireFormat {
    Gemini,
    Anthropic,
    Responses,
}

impl WireFormat {
    fn of(path: &str) -> Self {
        match path {
            "/v1/messages" => Self::Anthropic,
            "/v1/responses" => Self::Responses,
            _ => Self::Gemini,
        }
    }

    /// Events before the chunks.
    const fn head(self) -> &'static str {
        match self {
            Self::Gemini => "",
            Self::Anthropic => ANTHROPIC_HEAD,
            Self::Responses => RESPONSES_HEAD,
        }
    }

    /// Events after the chunks.
    const fn tail(self) -> &'static str {
        match self {
            Self::Gemini => "",
            Self::Anthropic => ANTHROPIC_TAIL,
            Self::Responses => RESPONSES_TAIL,
        }
    }
}

const ANTHROPIC_HEAD: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"bench","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":24381,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

"#;

const ANTHROPIC_TAIL: &str = r#"event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":71}}

event: message_stop
data: {"type":"message_stop"}

"#;

const RESPONSES_HEAD: &str = r#"event: response.created
data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","created_at":1,"status":"in_progress","model":"bench","output":[]}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"type":"message","id":"msg_1","status":"in_progress","role":"assistant","content":[]}}

event: response.content_part.added
data: {"type":"response.content_part.added","sequence_number":2,"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}

"#;

/// `ALL` is the whole text.
const RESPONSES_TAIL: &str = r#"event: response.output_text.done
data: {"type":"response.output_text.done","sequence_number":100000,"item_id":"msg_1","output_index":0,"content_index":0,"text":"ALL"}

event: response.content_part.done
data: {"type":"response.content_part.done","sequence_number":100001,"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"ALL","annotations":[]}}

event: response.output_item.done
data: {"type":"response.output_item.done","sequence_number":100002,"output_index":0,"item":{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"ALL","annotations":[]}]}}

event: response.completed
data: {"type":"response.completed","sequence_number":100003,"response":{"id":"resp_1","object":"response","created_at":1,"status":"completed","model":"bench","output":[{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"ALL","annotations":[]}]}],"usage":{"input_tokens":24381,"output_tokens":71,"total_tokens":24452}}}

"#;

/// Returns the model in a request body.
fn model_in(body: &[u8]) -> Option<String> {
    let marker = br#""model":""#;
    let start = memchr::memmem::find(body, marker)? + marker.len();
    let rest = body.get(start..)?;
    let end = memchr::memchr(b'"', rest)?;
    String::from_utf8(rest.get(..end)?.to_vec()).ok()
}

struct Chunks {
    format: WireFormat,
    remaining: usize,
    /// Text so far, which the end of a stream of Responses repeats.
    sent: String,
    /// The first chunk is sent without a pause.
    is_first: bool,
    pace: Option<Interval>,
}

impl Chunks {
    fn parse(text: &str, format: WireFormat) -> Result<Self> {
        let (chunks, pace) = text.split_once('-').ok_or("no pace")?;
        let pace = pace.strip_suffix("ms").ok_or("no unit")?.parse()?;
        let pace = Duration::from_millis(pace);
        Ok(Self {
            format,
            remaining: chunks.parse()?,
            sent: String::new(),
            is_first: true,
            pace: (!pace.is_zero()).then(|| interval_at(Instant::now() + pace, pace)),
        })
    }

    fn next_chunk(&mut self, is_first: bool) -> String {
        let stamp = stamp(now());
        let text = format!("{STAMP}{stamp} {FILLER} ");
        let event = match self.format {
            WireFormat::Gemini => return self.next_gemini_chunk(&text),
            WireFormat::Anthropic => format!(
                "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{text}\"}}}}\n\n"
            ),
            WireFormat::Responses => format!(
                "event: response.output_text.delta\ndata: {{\"type\":\"response.output_text.delta\",\"sequence_number\":{},\"item_id\":\"msg_1\",\"output_index\":0,\"content_index\":0,\"delta\":\"{text}\",\"logprobs\":[]}}\n\n",
                100_000 - self.remaining
            ),
        };
        self.sent.push_str(&text);
        let head = if is_first { self.format.head() } else { "" };
        let tail = if self.remaining == 0 {
            self.format.tail()
        } else {
            ""
        };
        [head, &event, &tail.replace("ALL", &self.sent)].concat()
    }

    fn next_gemini_chunk(&self, text: &str) -> String {
        let end = if self.remaining == 0 {
            r#","finishReason":"STOP""#
        } else {
            ""
        };
        let mut chunk = format!(
            r#"data: {{"candidates":[{{"content":{{"parts":[{{"text":"{text}"}}],"role":"model"}}{end},"index":0}}],"#
        );
        let rest = if self.remaining == 0 {
            usage()
        } else {
            r#""modelVersion":"bench""#
        };
        chunk.push_str(rest);
        chunk.push_str("}\r\n\r\n");
        chunk
    }
}

impl Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Infallible>>> {
        if self.remaining == 0 {
            return Poll::Ready(None);
        }
        let is_first = std::mem::take(&mut self.is_first);
        if !is_first && let Some(pace) = &mut self.pace {
            ready!(pace.poll_tick(context));
        }
        self.remaining -= 1;
        Poll::Ready(Some(Ok(Frame::data(self.next_chunk(is_first).into()))))
    }
}
