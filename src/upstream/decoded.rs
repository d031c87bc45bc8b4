//! An answer as it is meant: what is compressed, decoded.

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream, stream::BoxStream};

use super::{
    UpstreamError,
    content_headers::Encoding,
    gzip::{Gunzip, GunzipError},
};

type Piece = Result<Bytes, UpstreamError>;

/// The same pieces, decoded; from one of them come at most `limit` bytes.
pub(super) fn decoded(
    pieces: impl Stream<Item = Piece> + Send + 'static,
    encoding: Encoding,
    limit: usize,
) -> BoxStream<'static, Piece> {
    match encoding {
        Encoding::Identity => pieces.boxed(),
        Encoding::Gzip => {
            let start = (pieces.boxed(), Some(Gunzip::new(limit)));
            stream::try_unfold(start, |(mut pieces, gunzip)| async move {
                let Some(mut gunzip) = gunzip else {
                    return Ok(None);
                };
                let Some(piece) = pieces.next().await else {
                    let rest = gunzip.finish().map_err(undecodable)?;
                    return Ok(Some((rest, (pieces, None))));
                };
                gunzip.push(&piece?).map_err(undecodable)?;
                Ok(Some((gunzip.take(), (pieces, Some(gunzip)))))
            })
            .boxed()
        }
        Encoding::Other => stream::iter([Err(UpstreamError::Encoded)]).boxed(),
    }
}

fn undecodable(error: GunzipError) -> UpstreamError {
    match error {
        GunzipError::TooLarge(limit) => UpstreamError::TooLarge { limit },
        GunzipError::Broken => UpstreamError::Encoded,
    }
}
