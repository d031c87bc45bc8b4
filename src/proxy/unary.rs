//! An answer in one piece, judged as a whole.

use axum::{body::Body, response::Response};
use bytes::Bytes;

use super::{
    chunk_source,
    exchange::{Asked, Exchange},
    reply::{Reply, ResponseBuilder},
    response_buffer::{Round, Taken},
    response_filter::Gate,
    tool_denial::Ending,
};
use crate::{
    dialect::{MergedChunks, ResponseDocument},
    hook::Progress,
    policy::ChunkPosition,
    state::ApiError,
    upstream::{UpstreamResponse, headers},
};

/// The reply of a judged answer. If the model is asked again, all that the agent
/// may hear of its answers is one.
pub(super) async fn answer(
    mut exchange: Box<Exchange>,
    answered: (UpstreamResponse, Gate),
    teller: &ResponseBuilder,
) -> Result<Reply, ApiError> {
    let (mut answer, mut gate) = answered;
    let mut said = Vec::new();
    let mut stands = false;
    loop {
        let head = headers::rewritten_response_headers(answer.headers.clone());
        let status = answer.status;
        let mut round = exchange.round(gate);
        let document = match judge(&mut exchange, &mut round, answer).await? {
            Ending::Stands => {
                stands = true;
                said.extend(round.release()?);
                None
            }
            Ending::Told(reason) => {
                said.extend(round.release_open()?);
                let reply = Reply::Denied(exchange.apart(&round, reason));
                if said.is_empty() {
                    return Ok(reply);
                }
                said.extend(teller.words(&reply)?);
                None
            }
            Ending::Refused(reason) if said.is_empty() => return Ok(Reply::Denied(reason)),
            Ending::Refused(reason) => {
                said.extend(teller.words(&Reply::Denied(reason))?);
                None
            }
            Ending::Again(document) => {
                said.extend(round.release_open()?);
                Some(document)
            }
        };
        let asked = match document {
            Some(document) => Some(exchange.ask(document).await?),
            None => None,
        };
        match asked {
            Some(Asked::Answered(next, its_gate)) => (answer, gate) = (next, *its_gate),
            // Nothing of what was said is out yet.
            Some(Asked::Told(reply)) if said.is_empty() || teller.words(&reply)?.is_none() => {
                return Ok(reply);
            }
            told => {
                if let Some(Asked::Told(reply)) = told {
                    said.extend(teller.words(&reply)?);
                }
                let whole = exchange.dialect.close_answer(&whole(&said)?);
                let mut response = Response::new(Body::from(whole));
                for chunk in &said {
                    exchange.spoke(chunk)?;
                }
                exchange.has_spoken(stands).await;
                *response.status_mut() = status;
                *response.headers_mut() = head;
                return Ok(Reply::Upstream(response));
            }
        }
    }
}

/// All that was said as one answer.
fn whole(said: &[ResponseDocument]) -> Result<ResponseDocument, ApiError> {
    if let [one] = said {
        return Ok(one.clone());
    }
    let chunks: Vec<Bytes> = said.iter().map(ResponseDocument::to_bytes).collect();
    let whole = ResponseDocument::parse(MergedChunks::of(&chunks)?.answer)?;
    Ok(whole.wrapped_like(said.first()))
}

async fn judge(
    exchange: &mut Exchange,
    round: &mut Round,
    answer: UpstreamResponse,
) -> Result<Ending, ApiError> {
    let whole = exchange.open_answer(
        chunk_source::json(answer, &exchange.head, &exchange.snapshot.config.limits).await?,
    )?;
    let ending = match round
        .take(whole, Progress::default(), ChunkPosition::Last)
        .await?
    {
        Taken::Out(chunks) => {
            round.hold(chunks);
            exchange.conclude(round).await?
        }
        Taken::Refused(refusal) => exchange.refused(refusal),
    };
    exchange.settle_ending(&ending).await?;
    Ok(ending)
}
