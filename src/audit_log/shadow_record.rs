//! Records of shadows: configs that evaluate live calls without an effect on them.

use serde::{Serialize, Serializer};

/// Units of a share. Versions of `jq` write smaller numbers differently.
const SHARE_UNITS: f64 = 10_000.0;

/// The start or the end of a shadow.
#[derive(Debug, Clone, Serialize)]
pub struct ShadowRecord {
    /// Change that the line records: the start or the end of the shadow.
    pub action: ShadowChange,
    /// Version of the config in use.
    pub from: String,
    /// Version of the shadow's config.
    pub to: String,
    /// Share of the sessions; rounded in the log.
    #[serde(serialize_with = "serialize_share")]
    pub sample: f64,
    /// Operator who started or ended it; empty if the config file or the gateway did.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// Reason of the end, and the counts until then.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub end: Option<ShadowEnd>,
}

/// Kind of a record of a shadow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ShadowChange {
    /// It evaluates calls from now on.
    Start,
    /// It evaluates no more calls.
    End,
}

/// The end of a shadow, with the counts of its report.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ShadowEnd {
    /// Reason of the end.
    pub reason: &'static str,
    /// Calls that were evaluated.
    pub calls: u64,
    /// Calls that it denies, and the config in use did not.
    pub newly_denied: u64,
    /// Calls that the config in use denied, and it does not.
    pub newly_allowed: u64,
    /// Calls with other content or another verdict.
    pub edited: u64,
    /// Calls without a difference.
    pub unchanged: u64,
    /// Calls that cannot be compared.
    pub unknown: u64,
    /// Calls with the same verdicts, whose content is not known.
    pub stale: u64,
    /// Calls that were not evaluated, because its queue or memory was full.
    pub dropped: u64,
}

/// Writes a share from 0 to 1, rounded to units but not to 0; 0 and 1 have no fraction.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn serialize_share<S: Serializer>(share: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    let least = if *share > 0.0 { 1.0 } else { 0.0 };
    let rounded = (share * SHARE_UNITS).round().max(least) / SHARE_UNITS;
    if rounded.fract() == 0.0 {
        serializer.serialize_u8(u8::from(rounded > 0.0))
    } else {
        serializer.serialize_f64(rounded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_written_as_jq_writes_them() {
        let shares = [0.0, 1.0, 0.1, 0.07, 0.333_333, 0.000_01, 0.999_99];
        let written = shares.map(|sample| {
            let record = ShadowRecord {
                action: ShadowChange::Start,
                from: String::new(),
                to: String::new(),
                sample,
                by: String::new(),
                end: None,
            };
            let line = serde_json::to_string(&record).unwrap();
            let (_, sample) = line.trim_end_matches('}').split_once("sample\":").unwrap();
            sample.to_owned()
        });

        assert_eq!(written, ["0", "1", "0.1", "0.07", "0.3333", "0.0001", "1"]);
    }
}
