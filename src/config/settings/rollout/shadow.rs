//! The shadow: another config that evaluates live calls after they have ended.

use std::{path::PathBuf, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use crate::config::{
    schema::scalars::{CountSchema, FilePathSchema},
    units::{DurationText, Size},
};

/// Another config that evaluates a share of the live calls after they have ended, without an effect
/// on them.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Shadow")]
pub struct ShadowSettings {
    /// Path of the other config.
    // Absolute, once it is set.
    #[schemars(with = "FilePathSchema")]
    pub config: PathBuf,
    /// Share of the sessions, from 0 to 1. Sessions are evaluated as a whole.
    #[serde(default = "default_sample")]
    #[schemars(range(min = 0.0, max = 1.0), extend("errorMessage" = "must be a share from 0 to 1"))]
    pub sample: f64,
    /// Hooks that run, besides policies and hooks with `shadow: true`.
    #[serde(default)]
    pub hooks: ShadowHooks,
    /// Limits of what the shadow uses.
    #[serde(default)]
    pub budget: ShadowBudget,
    /// Time after which the shadow ends.
    #[serde(with = "DurationText", default = "default_until")]
    #[schemars(with = "DurationText")]
    pub until: Duration,
}

/// Hooks that a shadow runs, besides policies and hooks with `shadow: true`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ShadowHooks {
    /// None. Hooks give their live output if definition and input are the same, or no output.
    #[default]
    Policies,
    /// The same, but an event of a hook without a live output is unknown.
    Recorded,
}

/// Limits of what a shadow uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ShadowBudget {
    /// Bytes of exchanges that are collected, wait or are evaluated. Further ones are dropped.
    #[serde(with = "Size")]
    #[schemars(with = "Size")]
    pub memory: usize,
    /// Number of exchanges that wait. Further ones are dropped.
    #[schemars(with = "CountSchema")]
    pub queue: usize,
    /// Share of one core.
    pub cpu: CpuShare,
}

/// A share of one core, in percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[schemars(extend("pattern" = "^([1-9][0-9]?|100)%$", "errorMessage" = "must be a percentage from `1%` to `100%`"))]
pub struct CpuShare(#[schemars(with = "String")] pub u32);

impl Default for ShadowBudget {
    fn default() -> Self {
        Self {
            memory: 64 * 1024 * 1024,
            queue: 256,
            cpu: CpuShare(10),
        }
    }
}

impl Serialize for CpuShare {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}%", self.0))
    }
}

impl<'de> Deserialize<'de> for CpuShare {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let percent = text
            .strip_suffix('%')
            .and_then(|number| number.parse().ok());
        let percent = percent.filter(|percent| (1..=100).contains(percent));
        percent
            .map(Self)
            .ok_or_else(|| D::Error::custom("not a percentage from `1%` to `100%`"))
    }
}

const fn default_sample() -> f64 {
    0.1
}

const fn default_until() -> Duration {
    Duration::from_hours(24)
}
