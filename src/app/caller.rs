//! Who is calling. Pure.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use sha2::{Digest, Sha256};

use crate::event::Caller;

const API_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");

/// Who is calling: conversations are kept apart by it, and policies know it.
/// `query_key` is the credential of the query, if one came there.
pub fn caller(headers: &HeaderMap, query_key: Option<&str>) -> Caller {
    let given = |it: HeaderName| headers.get(it).map_or(&[][..], HeaderValue::as_bytes);
    let authorization = given(header::AUTHORIZATION);
    let credentials = [
        given(API_KEY),
        authorization
            .strip_prefix(b"Bearer ")
            .unwrap_or(authorization),
        query_key.unwrap_or_default().as_bytes(),
    ];
    let credentials = credentials.into_iter().filter(|it| !it.is_empty());
    let credentials: Vec<&[u8]> = credentials.collect();
    let key = match credentials.as_slice() {
        [] => String::new(),
        // Of one credential it is what `sha256sum` prints.
        some => format!("{:x}", Sha256::digest(some.join(&0))),
    };
    let agent = String::from_utf8_lossy(given(header::USER_AGENT)).into_owned();
    Caller { key, agent }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_known_by_its_hash_wherever_it_comes() {
        const HASH_OF_K: &str = "8254c329a92850f6d539dd376f4816ee2764517da5e0235514af433164480d7a";
        let bearer = HeaderMap::from_iter([(header::AUTHORIZATION, "Bearer k".parse().unwrap())]);
        let api_key = HeaderMap::from_iter([(API_KEY, "k".parse().unwrap())]);
        let nobody = HeaderMap::new();

        assert_eq!(caller(&bearer, None).key, HASH_OF_K);
        assert_eq!(caller(&api_key, None).key, HASH_OF_K);
        assert_eq!(caller(&nobody, Some("k")).key, HASH_OF_K);
        assert_ne!(caller(&api_key, Some("k")).key, HASH_OF_K);
        assert_eq!(caller(&nobody, None).key, "");
    }
}
