//! A token: a signed JWT in its compact form (RFC 7515, RFC 7519). Pure.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    jwk::{Algorithm, PublicKey},
    mtls::is_name,
};
use crate::config::JwtSpec;

/// The longest token, in bytes.
const LONGEST: usize = 16 * 1024;

/// How much the clocks of issuer and gateway may differ, in seconds.
const LEEWAY: f64 = 60.0;

/// A token whose signature nobody has looked at. Nothing of it is to be believed.
#[derive(Debug)]
pub(super) struct Token<'a> {
    pub(super) header: Header,
    /// Header and claims as they were signed.
    message: &'a [u8],
    claims: Vec<u8>,
    signature: Vec<u8>,
}

/// How a token says that it is signed.
#[derive(Debug, Deserialize)]
pub(super) struct Header {
    pub(super) alg: Algorithm,
    pub(super) kid: Option<String>,
    /// What must be understood to understand the token: nothing is.
    crit: Option<Value>,
}

/// What a token claims.
#[derive(Debug)]
pub(super) struct Claims(Map<String, Value>);

impl<'a> Token<'a> {
    /// `None` if it is none, or signed in a way that is not taken.
    pub(super) fn read(text: &'a [u8]) -> Option<Self> {
        if text.len() > LONGEST {
            return None;
        }
        let last = text.iter().rposition(|it| *it == b'.')?;
        let (message, signature) = (text.get(..last)?, text.get(last + 1..)?);
        let mut parts = message.split(|it| *it == b'.');
        let (header, claims) = (parts.next()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        let decode = |it: &[u8]| BASE64_URL_SAFE_NO_PAD.decode(it).ok();
        let header: Header = serde_json::from_slice(&decode(header)?).ok()?;
        let understood = header.crit.is_none();
        Some(Self {
            header,
            message,
            claims: decode(claims)?,
            signature: decode(signature)?,
        })
        .filter(|_| understood)
    }

    /// The claims, if `key` has signed them.
    pub(super) fn verified_by(&self, key: &PublicKey) -> Option<Claims> {
        key.has_signed(self.message, &self.signature)
            .then(|| self.unverified())?
    }

    /// The claims, whoever made them up.
    pub(super) fn unverified(&self) -> Option<Claims> {
        serde_json::from_slice(&self.claims).ok().map(Claims)
    }
}

impl Claims {
    /// Who the caller is, if this token is from the issuer, for us, and in force.
    /// `now` is in seconds since 1970.
    pub(super) fn subject(&self, spec: &JwtSpec, now: f64) -> Option<&str> {
        let time = |name: &str| match self.0.get(name) {
            None => Some(None),
            Some(value) => value.as_f64().map(Some),
        };
        let (expires, begins) = (time("exp")??, time("nbf")?);
        let in_force = now < expires + LEEWAY && begins.is_none_or(|it| it - LEEWAY <= now);
        let subject = self.text(&spec.name)?;
        let good = in_force && self.is_from(&spec.issuer) && self.is_for(&spec.audience);
        (good && is_name(subject)).then_some(subject)
    }

    pub(super) fn is_from(&self, issuer: &str) -> bool {
        self.text("iss") == Some(issuer)
    }

    fn is_for(&self, audience: &str) -> bool {
        match self.0.get("aud") {
            Some(Value::String(one)) => one == audience,
            Some(Value::Array(all)) => all.iter().any(|it| it.as_str() == Some(audience)),
            _ => false,
        }
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }
}
