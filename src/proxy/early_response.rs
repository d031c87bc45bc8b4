//! An agent gives up on a call whose status does not come within a minute. A
//! stream's status goes out before that, and keep-alives until hooks and
//! upstream have come to an answer.

use std::{pin::Pin, sync::Arc, time::Duration};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{HeaderValue, header};

use super::{
    keep_alive::keep_alive,
    reply::{Reply, ResponseBuilder, media_type},
};
use crate::{dialect::Framing, state::ApiError, upstream::sse::KEEP_ALIVE};

/// How the exchange ends, once it does.
type Outcome = Pin<Box<dyn Future<Output = Result<Reply, ApiError>> + Send>>;

/// The response of a streaming call: the whole truth if the exchange is quick,
/// status 200 and keep-alives if it is not.
pub(super) async fn answer(
    mut outcome: Outcome,
    teller: Arc<ResponseBuilder>,
    framing: Framing,
    interval: Duration,
) -> Result<Response, ApiError> {
    if let Ok(reply) = tokio::time::timeout(interval, &mut outcome).await {
        return Ok(teller.tell(reply?));
    }
    let first = stream::iter([Ok(Bytes::from_static(KEEP_ALIVE))]);
    let rest = stream::once(outcome)
        .flat_map(move |reply| teller.tell_late(reply, framing).into_data_stream());
    let body = first.chain(keep_alive(rest, interval));
    let mut response = Response::new(Body::from_stream(body));
    let value = HeaderValue::from_static(media_type(framing));
    response.headers_mut().insert(header::CONTENT_TYPE, value);
    Ok(response)
}
