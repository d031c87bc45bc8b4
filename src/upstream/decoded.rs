//! An answer as it is meant: what is compressed, decoded.

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream, stream::BoxStream};

use super::{
    UpstreamError,
    content_headers::ContentEncoding,
    decompress::{BoundedGunzip, DecompressError},
};

type Piece = Result<Bytes, UpstreamError>;

/// The same pieces, decoded; from one of them come at most `limit` bytes.
pub(super) fn decoded(
    pieces: impl Stream<Item = Piece> + Send + 'static,
    encoding: ContentEncoding,
    limit: usize,
) -> BoxStream<'static, Piece> {
    match encoding {
        ContentEncoding::Identity => pieces.boxed(),
        ContentEncoding::Gzip => {
            let start = (pieces.boxed(), Some(BoundedGunzip::new(limit)));
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
        ContentEncoding::Other => stream::iter([Err(UpstreamError::UnsupportedEncoding)]).boxed(),
    }
}

fn undecodable(error: DecompressError) -> UpstreamError {
    match error {
        DecompressError::TooLarge(limit) => UpstreamError::TooLarge { limit },
        DecompressError::Invalid => UpstreamError::UnsupportedEncoding,
    }
}
