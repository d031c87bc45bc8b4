//! A fast model API: it discards request bodies, and the model's name in the path
//! selects the response.
//!
//! `bench` is one answer, `bench-large` one of a MiB, `bench-sse-200-2ms` a stream of 200 chunks of which
//! each comes 2 ms after the one before, and with `0ms` as fast as it is taken.

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

/// Model whose answer is ANSWER so many times: a MiB.
pub(crate) const LARGE: &str = "bench-large";
const LARGE_TIMES: usize = (1 << 20) / ANSWER.len();

const FILLER: &str = "and so the table grows before it is full, which the caller never sees, \
     since it holds the lock all the while; a réader waits.";

pub(crate) async fn run(listener: TcpListener) -> Result<()> {
    baseline_proxy::serve(listener, answer).await
}

async fn answer(mut request: Request<Incoming>) -> Result<Response<Either<Full<Bytes>, Chunks>>> {
    while let Some(frame) = request.body_mut().frame().await {
        drop(frame?);
    }
    let path = request.uri().path();
    let (_, model) = path.rsplit_once('/').ok_or("no model in the path")?;
    let (model, _) = model.split_once(':').ok_or("no method in the path")?;
    let (kind, body) = if let Some(stream) = model.strip_prefix("bench-sse-") {
        ("text/event-stream", Either::Right(Chunks::parse(stream)?))
    } else {
        let times = if model == LARGE { LARGE_TIMES } else { 1 };
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
        .filter_map(|it| char::from_u32(97 + u32::try_from(it).ok()?))
        .collect()
}

pub(crate) fn read_stamp(letters: &[u8]) -> u64 {
    letters.iter().fold(0, |time, it| {
        (time << 4) | u64::from(it.wrapping_sub(b'a') & 0xf)
    })
}

struct Chunks {
    left: usize,
    /// The first one comes at once.
    is_first: bool,
    pace: Option<Interval>,
}

impl Chunks {
    fn parse(text: &str) -> Result<Self> {
        let (chunks, pace) = text.split_once('-').ok_or("no pace")?;
        let pace = pace.strip_suffix("ms").ok_or("no unit")?.parse()?;
        let pace = Duration::from_millis(pace);
        Ok(Self {
            left: chunks.parse()?,
            is_first: true,
            pace: (!pace.is_zero()).then(|| interval_at(Instant::now() + pace, pace)),
        })
    }

    fn next(&self) -> String {
        let end = if self.left == 0 {
            r#","finishReason":"STOP""#
        } else {
            ""
        };
        let mut chunk = format!(
            r#"data: {{"candidates":[{{"content":{{"parts":[{{"text":"{STAMP}{} {FILLER} "}}],"role":"model"}}{end},"index":0}}],"#,
            stamp(now())
        );
        let rest = if self.left == 0 {
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
        if self.left == 0 {
            return Poll::Ready(None);
        }
        if !std::mem::take(&mut self.is_first)
            && let Some(pace) = &mut self.pace
        {
            ready!(pace.poll_tick(context));
        }
        self.left -= 1;
        Poll::Ready(Some(Ok(Frame::data(self.next().into()))))
    }
}
