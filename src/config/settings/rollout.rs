//! Other configs beside that in use: the rollout to a share of the sessions, and the shadow.

pub(in crate::config) mod shadow;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error};

use crate::config::units::{self, DurationText};

/// The rollout of another config to a share of the sessions.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Rollout")]
pub struct RolloutSettings {
    /// Version of a kept revision, or path of another config in the directory of this one.
    #[schemars(length(min = 1))]
    pub to: String,
    /// Share of the sessions at the start, in percent. Default: the first of `steps`.
    #[schemars(range(max = 100))]
    pub percent: Option<u8>,
    /// The unit that runs under one config.
    #[serde(default)]
    pub by: RolloutUnit,
    /// Names of the callers that take part. Default: all.
    #[serde(default)]
    pub callers: Vec<String>,
    /// Shares that follow, in percent. Those that are not larger than the one before are skipped.
    #[serde(default)]
    #[schemars(inner(range(max = 100)))]
    pub steps: Vec<u8>,
    /// Time between two steps. With `abort_if`, a step also lasts until the configs are compared.
    #[serde(with = "DurationText", default = "default_hold")]
    #[schemars(with = "DurationText")]
    pub hold: Duration,
    /// Differences of the two configs that end the rollout.
    #[serde(default)]
    pub abort_if: AbortConditions,
}

/// The unit that runs under one config during a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RolloutUnit {
    /// A session of an agent.
    #[default]
    Session,
    /// A caller with all of its sessions.
    Caller,
}

/// Differences of the two configs that end a rollout.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "AbortIf")]
pub struct AbortConditions {
    /// Points by which the share of denied calls may be larger.
    #[serde(deserialize_with = "percentage")]
    #[schemars(with = "Option<PercentageText>")]
    pub newly_denied: Option<f64>,
    /// Points by which the share of calls with a failed hook may be larger.
    #[serde(deserialize_with = "percentage")]
    #[schemars(with = "Option<PercentageText>")]
    pub hook_failures: Option<f64>,
    /// Time by which the 99th percentile of a call's hooks may be larger.
    #[serde(deserialize_with = "increase")]
    #[schemars(with = "Option<IncreaseText>")]
    pub hook_p99: Option<Duration>,
}

/// A percentage: `1%`, `0.5%`.
#[derive(JsonSchema)]
#[schemars(rename = "Percentage", extend("pattern" = r"^[0-9]{1,2}(\.[0-9]{1,3})?%$", "errorMessage" = "must be a percentage such as `0.5%`"))]
#[expect(dead_code, reason = "only its schema is used")]
struct PercentageText(String);

/// An increase of a duration: `+20ms`.
#[derive(JsonSchema)]
#[schemars(rename = "Increase", extend("pattern" = r"^\+[1-9][0-9]{0,9}(ms|s|m|h)$", "errorMessage" = "must be an increase such as `+20ms`"))]
#[expect(dead_code, reason = "only its schema is used")]
struct IncreaseText(String);

impl RolloutSettings {
    /// Returns the shares of the sessions in percent, in order.
    pub fn shares(&self) -> Vec<u8> {
        let mut shares: Vec<u8> = Vec::new();
        for share in self.percent.iter().chain(&self.steps) {
            if shares.last().is_none_or(|last| share > last) {
                shares.push(*share);
            }
        }
        shares
    }
}

impl AbortConditions {
    /// Returns whether there is any condition.
    pub fn is_set(&self) -> bool {
        *self != Self::default()
    }
}

/// Deserializes a percentage into a share, from 0 to 1.
fn percentage<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let percent = text
        .strip_suffix('%')
        .and_then(|number| number.parse().ok());
    let percent: f64 = percent.ok_or_else(|| D::Error::custom("not a percentage"))?;
    Ok(Some(percent / 100.0))
}

fn increase<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let duration = text.strip_prefix('+').and_then(units::duration);
    duration
        .map(Some)
        .ok_or_else(|| D::Error::custom("not an increase of a duration"))
}

const fn default_hold() -> Duration {
    Duration::from_mins(15)
}
