//! The collector of traces and logs, as written and as meant.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use schemars::JsonSchema;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use url::Url;

use super::{
    load::Reading,
    raw::{RawSecret, RawUrl},
};

/// Headers that are not the operator's to choose: they say how a request is sent.
const OURS: [HeaderName; 5] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::HOST,
    header::TRANSFER_ENCODING,
];

/// The collector of traces and logs.
#[derive(Debug, Clone)]
pub struct OtlpSettings {
    /// Its base: http or https, without user, query and fragment.
    pub endpoint: Url,
    /// What is shown to it. Names are those of headers, each once.
    pub headers: Vec<(HeaderName, SecretString)>,
    /// Whether it is told of spans.
    pub traces: bool,
    /// Whether it is told of log records. One of the two is true.
    pub logs: bool,
    /// What this gateway is called there.
    pub service_name: String,
}

/// What operators see of it elsewhere.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Telemetry")]
pub(super) struct RawTelemetry {
    /// A collector that is told of every call, by the protocol of OpenTelemetry.
    pub(super) otlp: Option<RawOtlp>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Otlp")]
pub(super) struct RawOtlp {
    /// Its base; `/v1/traces` and `/v1/logs` come behind it.
    endpoint: RawUrl,
    /// Headers that it wants, such as a key.
    #[serde(default)]
    headers: BTreeMap<String, RawSecret>,
    /// Whether it is told of calls, events and hooks as spans.
    #[serde(default = "yes")]
    traces: bool,
    /// Whether it is told of the lines of the decision log.
    #[serde(default = "yes")]
    logs: bool,
    /// What this gateway is called there.
    #[serde(default = "hookgate")]
    #[schemars(length(min = 1, max = 256))]
    service_name: String,
}

const fn yes() -> bool {
    true
}

fn hookgate() -> String {
    "hookgate".to_owned()
}

impl OtlpSettings {
    /// The headers as they are sent. What no header can hold is left out; secrets
    /// are checked when they are read.
    pub fn header_map(&self) -> HeaderMap {
        let pair = |(name, secret): &(HeaderName, SecretString)| {
            let mut value = HeaderValue::from_str(secret.expose_secret()).ok()?;
            value.set_sensitive(true);
            Some((name.clone(), value))
        };
        self.headers.iter().filter_map(pair).collect()
    }
}

impl PartialEq for OtlpSettings {
    fn eq(&self, other: &Self) -> bool {
        let plain = |it: &Self| (it.endpoint.clone(), it.traces, it.logs);
        plain(self) == plain(other)
            && self.service_name == other.service_name
            && self.header_map() == other.header_map()
    }
}

/// The collector, if there is one. Every problem is noted with its place.
pub(super) fn read(reading: &mut Reading) -> Option<OtlpSettings> {
    let pointer = "/telemetry/otlp";
    let raw: RawOtlp = reading.section(pointer)?;
    if !raw.traces && !raw.logs {
        reading.problem(pointer, "`traces` or `logs` must be true");
    }
    let mut headers: Vec<(HeaderName, SecretString)> = Vec::new();
    for name in raw.headers.keys() {
        let escaped = name.replace('~', "~0").replace('/', "~1");
        let place = format!("{pointer}/headers/{escaped}");
        let known = |it: &HeaderName| OURS.contains(it) || headers.iter().any(|(has, _)| has == it);
        let Ok(header) = HeaderName::try_from(name.as_str()) else {
            reading.problem(&place, "this is no name of a header");
            continue;
        };
        if known(&header) {
            reading.problem(&place, "this header is set already");
        } else if let Some(secret) = reading.header_secret(&place) {
            headers.push((header, secret));
        }
    }
    Some(OtlpSettings {
        endpoint: raw.endpoint.0,
        headers,
        traces: raw.traces,
        logs: raw.logs,
        service_name: raw.service_name,
    })
}
