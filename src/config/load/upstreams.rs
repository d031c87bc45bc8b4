//! The model APIs of a config: with which credential each is called, and which of
//! their methods pass unseen.

use serde_json::{Value, json};
use url::{Host, Url};

use super::Reading;
use crate::config::{
    Auth, ConfigError, CoverageSettings, FallbackConfig, Grant, Known, Overrides, Problem,
    UpstreamsConfig, schema_validation::is_base_url,
};

impl Reading {
    pub(super) fn check_upstreams(
        &mut self,
        upstreams: &UpstreamsConfig,
        coverage: &CoverageSettings,
        known: &Known,
    ) {
        if upstreams.is_empty() {
            let message = "`upstreams` must hold `gemini`, `vertex` or `code_assist`";
            self.problem("/upstreams", message);
        }
        for (api, upstream) in upstreams.each() {
            let same = |it: &FallbackConfig| is_same(&it.url, &upstream.url);
            if upstream.fallback.as_ref().is_some_and(same) {
                let message = "a fallback needs another address than the first";
                self.problem(&format!("/upstreams/{api}/fallback/url"), message);
            }
        }
        for (index, wrong) in coverage.wrong(&known.methods) {
            self.problem(&format!("/coverage/allow/{index}"), &wrong);
        }
    }
}

impl Reading {
    /// Warns of keys of ours that whoever listens on the way can read.
    pub(super) fn warn_of_plain_text(&mut self, auth: &Auth, upstreams: &UpstreamsConfig) {
        let mut grants = auth.keys.iter().map(|it| &it.grant);
        let has_key = |it: &Grant| it.upstream.is_some();
        let shown = grants.any(has_key)
            || auth.jwt.as_ref().is_some_and(|it| has_key(&it.grant))
            || auth.mtls.as_ref().is_some_and(|it| has_key(&it.grant));
        for (api, upstream) in upstreams.each() {
            let at = format!("/upstreams/{api}");
            let first = shown || upstream.credential.is_some();
            let fallback = upstream.fallback.as_ref();
            let fallback = fallback.map(|it| (format!("{at}/fallback/url"), &it.url));
            let first = first.then(|| (format!("{at}/url"), &upstream.url));
            for (at, _) in first.into_iter().chain(fallback).filter(|it| is_open(it.1)) {
                let message = "the key for the model API travels in the clear: use https";
                self.warning(&at, message);
            }
        }
    }
}

/// Whether two bases are one.
fn is_same(one: &Url, other: &Url) -> bool {
    let path = |it: &Url| it.path().trim_end_matches('/').to_owned();
    one.origin() == other.origin() && path(one) == path(other)
}

/// Whether what goes to `url` leaves this machine, and can be read on its way.
fn is_open(url: &Url) -> bool {
    let is_here = match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.to_canonical().is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    url.scheme() == "http" && !is_here
}

/// Puts the upstreams that do not stand in the file into the config.
pub(super) fn put_upstreams(value: &mut Value, overrides: &Overrides) -> Result<(), ConfigError> {
    match &overrides.upstream {
        Some(url) if is_base_url(url) => put_upstream(value, "gemini", url),
        Some(_) => {
            let message =
                "`--upstream` must be an http or https URL without user, query or fragment";
            return Err(Problem::nowhere(message).into());
        }
        None => (),
    }
    let none = value.get("upstreams").is_none();
    for url in overrides.missing_upstreams.iter().filter(|_| none) {
        for api in ["gemini", "vertex", "code_assist"] {
            put_upstream(value, api, url);
        }
    }
    Ok(())
}

fn put_upstream(value: &mut Value, api: &str, url: &Url) {
    let mut value = value;
    for key in ["upstreams", api] {
        let Some(fields) = value.as_object_mut() else {
            return;
        };
        value = fields.entry(key).or_insert_with(|| json!({}));
    }
    if let Some(fields) = value.as_object_mut() {
        fields.insert("url".to_owned(), url.as_str().into());
    }
}
