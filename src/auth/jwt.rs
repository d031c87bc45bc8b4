//! Verification of tokens (JWT, RFC 7519) with the public keys of their issuer (JWKS,
//! RFC 7517).

use jsonwebtoken::{
    Algorithm, DecodingKey, Validation, dangerous, decode, decode_header,
    errors::ErrorKind,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse},
};
use serde::Deserialize;
use serde_json::{Map, Value};
use thiserror::Error;

use super::mtls::is_valid_name;
use crate::config::JwtSpec;

/// Longest token in bytes.
const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// Tolerated difference between the clocks of issuer and gateway, in seconds.
const CLOCK_SKEW_SECONDS: f64 = 60.0;

/// Reason why the keys of an issuer are not available.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum JwksError {
    /// The document is not a JSON Web Key Set.
    #[error("not a JSON Web Key Set")]
    Malformed,
    /// The set contains no key for a supported signature algorithm.
    #[error("no key for RS256, ES256 or EdDSA in the JSON Web Key Set")]
    NoUsableKey,
    /// The set could not be fetched.
    #[error("cannot fetch the JSON Web Key Set: {0}")]
    Unreachable(String),
}

/// Reason why a token is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenProblem {
    /// None of the keys has signed it.
    OtherKey,
    /// It is malformed, or its claims are not accepted.
    Invalid,
}

/// Public keys of an issuer. Never empty.
#[derive(Debug)]
pub(super) struct VerificationKeys(Vec<VerificationKey>);

#[derive(Debug)]
pub(super) struct VerificationKey {
    id: Option<String>,
    algorithm: Algorithm,
    key: DecodingKey,
}

#[derive(Deserialize)]
struct KeySetDocument {
    keys: Vec<Value>,
}

type Claims = Map<String, Value>;

impl VerificationKeys {
    /// Parses a JSON Web Key Set and skips keys of other kinds and uses.
    pub(super) fn parse(text: &str) -> Result<Self, JwksError> {
        let set: KeySetDocument = serde_json::from_str(text).map_err(|_| JwksError::Malformed)?;
        let keys = set.keys.into_iter();
        let keys: Vec<VerificationKey> = keys.filter_map(VerificationKey::from_value).collect();
        if keys.is_empty() {
            return Err(JwksError::NoUsableKey);
        }
        Ok(Self(keys))
    }

    /// Returns the caller's name if the token is signed by one of these keys, has the
    /// issuer and audience of `spec`, and is valid at `now` (seconds since 1970).
    ///
    /// # Errors
    ///
    /// Returns the reason why the token is not accepted.
    pub(super) fn verify(
        &self,
        token: &[u8],
        spec: &JwtSpec,
        now: f64,
    ) -> Result<String, TokenProblem> {
        let key = self.find(token).ok_or(TokenProblem::OtherKey)?;
        let mut validation = Validation::new(key.algorithm);
        validation.set_audience(&[&spec.audience]);
        validation.set_issuer(&[&spec.issuer]);
        validation.set_required_spec_claims(&["aud", "iss"]);
        // Checked below: with serde_json's `arbitrary_precision`, which documents need,
        // `jsonwebtoken` reads no numbers.
        validation.validate_exp = false;
        let decoded = decode::<Claims>(token, &key.key, &validation);
        let claims = decoded.map_err(|error| match error.kind() {
            ErrorKind::InvalidSignature => TokenProblem::OtherKey,
            _ => TokenProblem::Invalid,
        });
        let claims = claims?.claims;
        let name = claims.get(&spec.name).and_then(Value::as_str);
        let is_accepted =
            is_in_force(&claims, now) == Some(true) && has_issuer(&claims, &spec.issuer);
        let name = name.filter(|name| is_accepted && is_valid_name(name));
        name.map(str::to_owned).ok_or(TokenProblem::Invalid)
    }

    /// Returns the key with the token's `kid`; without one, the only key of its algorithm.
    pub(super) fn find(&self, token: &[u8]) -> Option<&VerificationKey> {
        if token.len() > MAX_TOKEN_BYTES {
            return None;
        }
        let header = decode_header(token).ok()?;
        // No critical extension (RFC 7515, section 4.1.11) is supported.
        if header.crit.is_some() {
            return None;
        }
        let mut keys = self.0.iter().filter(|key| key.algorithm == header.alg);
        match header.kid {
            Some(_) => keys.find(|key| key.id == header.kid),
            None => keys.next().filter(|_| keys.next().is_none()),
        }
    }
}

impl VerificationKey {
    /// Reads a public key for signatures with `RS256`, `ES256` or `EdDSA`.
    fn from_value(value: Value) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(value).ok()?;
        let (algorithm, key_algorithm) = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => (Algorithm::RS256, KeyAlgorithm::RS256),
            AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => {
                (Algorithm::ES256, KeyAlgorithm::ES256)
            }
            AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
                (Algorithm::EdDSA, KeyAlgorithm::EdDSA)
            }
            _ => return None,
        };
        let key = DecodingKey::from_jwk(&jwk).ok()?;
        let common = jwk.common;
        let signs = (common.public_key_use).is_none_or(|usage| usage == PublicKeyUse::Signature)
            && (common.key_algorithm).is_none_or(|algorithm| algorithm == key_algorithm);
        signs.then_some(Self {
            id: common.key_id,
            algorithm,
            key,
        })
    }
}

/// Returns whether a token claims to be of this issuer. Its signature is not verified.
pub(super) fn claims_issuer(token: &[u8], issuer: &str) -> bool {
    token.len() <= MAX_TOKEN_BYTES
        && dangerous::insecure_decode::<Claims>(token)
            .is_ok_and(|token| has_issuer(&token.claims, issuer))
}

fn has_issuer(claims: &Claims, issuer: &str) -> bool {
    claims.get("iss").and_then(Value::as_str) == Some(issuer)
}

/// Returns whether `now` lies between `nbf` and `exp`; `None` if `exp` is missing or one
/// of them is not a number.
fn is_in_force(claims: &Claims, now: f64) -> Option<bool> {
    let expires_at = claims.get("exp")?.as_f64()?;
    let has_begun = match claims.get("nbf") {
        None => true,
        Some(not_before) => not_before.as_f64()? - CLOCK_SKEW_SECONDS <= now,
    };
    Some(now < expires_at + CLOCK_SKEW_SECONDS && has_begun)
}
