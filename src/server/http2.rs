//! HTTP/2: limits of its streams, and requests in the form that the handlers use.
//!
//! HTTP/1.1 has one request per connection, so timeouts of the connection bound it. Streams
//! of HTTP/2 need two bounds of their own. Their receive windows fit into that of the
//! connection, so that one body which is not read stops no other stream. And a response
//! that the client does not read is dropped after the write timeout.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderValue, Request, Uri, header};
use hyper::body::{Body as _, Frame, SizeHint};
use hyper_util::{rt::TokioTimer, server::conn::auto};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::io_timeout::TimeoutKind;
use crate::{mutex::Mutex, state::AppResources};

/// Receive window of a stream, in bytes: what is buffered of a body that is not read.
const STREAM_WINDOW_BYTES: u32 = 64 * 1024;

/// Streams that the client resets before they are accepted, above which the connection is
/// closed (CVE-2023-44487).
const MAX_PENDING_RESETS: usize = 20;

/// Streams that were reset because of the client's own errors, above which the connection
/// is closed.
const MAX_ERROR_RESETS: usize = 100;

/// Maximum number of bytes that hyper takes of a response at a time: the size of a DATA frame
/// (RFC 9113, section 6.5.2).
const MAX_PIECE_BYTES: usize = 16 * 1024;

/// Sets the limits of HTTP/2 connections with this number of concurrent streams.
pub(super) fn configure<E>(builder: &mut auto::Builder<E>, streams: u32, max_head_bytes: usize) {
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(streams)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(STREAM_WINDOW_BYTES.saturating_mul(streams))
        .max_pending_accept_reset_streams(MAX_PENDING_RESETS)
        .max_local_error_reset_streams(MAX_ERROR_RESETS)
        .max_header_list_size(u32::try_from(max_head_bytes).unwrap_or(u32::MAX));
}

/// Replaces `:authority` by `Host` and the target by its path, as in HTTP/1.1. A target that
/// this cannot be done for is left as it is, and the header check rejects it: one without a
/// path, and one whose authority differs from `Host` (RFC 9113, section 8.3.1).
pub(super) fn to_origin_form<B>(request: &mut Request<B>) {
    let uri = request.uri();
    let (Some(authority), Some(path)) = (uri.authority(), uri.path_and_query()) else {
        return;
    };
    let Ok(host) = HeaderValue::try_from(authority.as_str()) else {
        return;
    };
    let target = Uri::from(path.clone());
    let headers = request.headers_mut();
    if headers.get(header::HOST).is_some_and(|given| given != host) {
        return;
    }
    if !headers.contains_key(header::HOST) {
        headers.insert(header::HOST, host);
    }
    *request.uri_mut() = target;
}

/// Response body that is dropped, with its guards, if the client accepts nothing of it within a
/// timeout. What remains is a stream with at most two pieces, which is reset at the next attempt
/// to write more.
///
/// hyper takes the next piece before the client's window is open for it, and drops the body with
/// the last piece.
pub(super) struct StallTimeoutBody<G> {
    state: Arc<Mutex<BodyState<G>>>,
    /// Ends the task that watches the progress.
    _watched: DropGuard,
}

struct BodyState<G> {
    /// `None` after a timeout.
    body: Option<PiecewiseBody<G>>,
    /// Since when the client has been expected to read; `None` while there is nothing to
    /// read.
    offered_since: Option<Instant>,
}

/// Response body whose frames are divided.
struct PiecewiseBody<G> {
    body: Body,
    /// The part of a frame that is not taken yet.
    rest: Bytes,
    /// Held until the last piece is taken.
    _guards: G,
}

impl<G: Send + 'static> StallTimeoutBody<G> {
    /// Wraps a body, and watches it in a task. The guards are dropped once it is taken, or after
    /// the timeout.
    pub(super) fn new(body: Body, guards: G, timeout: Duration, resources: &AppResources) -> Self {
        let body = PiecewiseBody {
            body,
            rest: Bytes::new(),
            _guards: guards,
        };
        let state = Arc::new(Mutex::new(BodyState {
            body: Some(body),
            offered_since: Some(Instant::now()),
        }));
        let sent = CancellationToken::new();
        let stalled = drop_when_stalled(Arc::clone(&state), timeout);
        let metrics = Arc::clone(&resources.metrics);
        let watch = sent.clone().run_until_cancelled_owned(async move {
            stalled.await;
            let reason = "write_timeout".into();
            metrics.rejected_connections.with([reason]).inc();
        });
        resources.tasks.spawn(watch);
        Self {
            state,
            _watched: sent.drop_guard(),
        }
    }
}

impl<G> PiecewiseBody<G> {
    fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            let polled = ready!(Pin::new(&mut self.body).poll_frame(context));
            match polled.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) if data.len() > MAX_PIECE_BYTES => self.rest = data,
                Some(Ok(Ok(data))) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Some(Ok(Err(trailers))) => return Poll::Ready(Some(Ok(trailers))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        let piece = self.rest.split_to(MAX_PIECE_BYTES.min(self.rest.len()));
        // A copy, because what is left of a dropped body must not hold the memory of all of it.
        Poll::Ready(Some(Ok(Frame::data(Bytes::copy_from_slice(&piece)))))
    }
}

/// Waits until the client has read nothing for the length of the timeout, and drops the body.
async fn drop_when_stalled<G>(state: Arc<Mutex<BodyState<G>>>, timeout: Duration) {
    loop {
        let now = Instant::now();
        let (deadline, stalled) = {
            let mut state = state.lock();
            let deadline = state.offered_since.unwrap_or(now) + timeout;
            let is_stalled = deadline <= now;
            (deadline, is_stalled.then(|| state.body.take()))
        };
        if let Some(body) = stalled {
            // Dropped without the lock: it ends the call upstream.
            drop(body);
            return;
        }
        sleep_until(deadline).await;
    }
}

impl<G> Drop for StallTimeoutBody<G> {
    /// Drops the body and its guards at once. The task holds them until it is woken.
    fn drop(&mut self) {
        let body = self.state.lock().body.take();
        drop(body);
    }
}

impl<G: Send + 'static> hyper::body::Body for StallTimeoutBody<G> {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        let mut state = self.state.lock();
        let Some(body) = &mut state.body else {
            return Poll::Ready(Some(Err(TimeoutKind::Write.into())));
        };
        let polled = body.poll_piece(context);
        state.offered_since = polled.is_ready().then(Instant::now);
        polled.map(|frame| frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        let state = self.state.lock();
        let body = state.body.as_ref();
        body.is_some_and(|body| body.rest.is_empty() && body.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let state = self.state.lock();
        let body = state.body.as_ref().filter(|body| body.rest.is_empty());
        body.map(|body| body.body.size_hint()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    fn origin_form(target: &str, host: Option<&str>) -> (String, Option<String>) {
        let mut request = Request::post(target);
        if let Some(host) = host {
            request = request.header(header::HOST, host);
        }
        let mut request = request.body(()).unwrap();
        to_origin_form(&mut request);
        let host = request.headers().get(header::HOST);
        let host = host.map(|host| host.to_str().unwrap().to_owned());
        (request.uri().to_string(), host)
    }

    #[test]
    fn the_authority_becomes_the_host() {
        let expected = ("/v1/models?key=k".to_owned(), Some("gate:80".to_owned()));
        let target = "http://gate:80/v1/models?key=k";
        assert_eq!(origin_form(target, None), expected);
        assert_eq!(origin_form(target, Some("gate:80")), expected);
    }

    #[test]
    fn a_target_with_two_meanings_is_left_for_the_header_check() {
        let other = origin_form("http://gate/v1/models", Some("other"));
        assert_eq!(other.0, "http://gate/v1/models");
        assert_eq!(origin_form("gate:80", None).0, "gate:80");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_not_read_is_dropped() {
        let resources = AppResources::default();
        let timeout = Duration::from_secs(5);
        let mut body = StallTimeoutBody::new(Body::from("answer"), (), timeout, &resources);

        resources.tasks.close();
        resources.tasks.wait().await;

        let error = body.frame().await.unwrap().unwrap_err();
        assert_eq!(error.to_string(), "timed out writing");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_waits_for_the_model_is_kept() {
        let resources = AppResources::default();
        let answer = async {
            sleep_until(Instant::now() + Duration::from_mins(1)).await;
            Ok::<_, axum::BoxError>(Bytes::from_static(b"answer"))
        };
        let body = Body::from_stream(futures_util::stream::once(answer));
        let mut body = StallTimeoutBody::new(body, (), Duration::from_secs(5), &resources);

        let frame = body.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), "answer");
        drop(body);
        resources.tasks.close();
        resources.tasks.wait().await;
    }
}
