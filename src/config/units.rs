//! Sizes and durations as operators write them.
//!
//! Each type is a newtype for optional settings and, for other settings, a serde
//! adapter: `#[serde(with = "Size")]` on a plain integer field.

use std::{fmt, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serializer, de::Error};

use crate::timestamp::whole_milliseconds;

/// A number of bytes: `32MiB`, `1kB` or an integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[schemars(extend("type" = ["integer", "string"], "minimum" = 1, "maximum" = MAX_SAFE_INTEGER, "pattern" = SIZE_PATTERN, "errorMessage" = "must be a size such as `32MiB`, or a number of bytes"))]
pub struct Size(#[schemars(with = "String")] pub usize);

/// A duration with a unit: `30s`, `500ms`, `5m`, `1h`.
#[derive(JsonSchema)]
#[schemars(rename = "Duration", extend("pattern" = DURATION_PATTERN, "errorMessage" = "must be a duration such as `30s` or `500ms`"))]
#[expect(dead_code, reason = "an adapter for fields of type `Duration`")]
pub(super) struct DurationText(String);

/// A duration with a unit, or an integer of milliseconds as in a settings.json.
#[derive(JsonSchema)]
#[schemars(extend("type" = ["integer", "string"], "minimum" = 1, "maximum" = MAX_SAFE_INTEGER, "pattern" = DURATION_PATTERN, "errorMessage" = "must be a number of milliseconds, or a duration such as `5s`"))]
#[expect(dead_code, reason = "an adapter for fields of type `Duration`")]
pub(super) struct Milliseconds(String);

// With at most ten digits, every product of number and unit fits into 64 bits.
const SIZE_PATTERN: &str = "^[1-9][0-9]{0,9}(B|kB|KiB|MB|MiB|GB|GiB)$";
const SIZE_UNITS: &[(&str, u64)] = &[
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("B", 1),
];

const DURATION_PATTERN: &str = "^[1-9][0-9]{0,9}(ms|s|m|h)$";
const DURATION_UNITS_MS: &[(&str, u64)] =
    &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

/// The largest integer that all JSON tools represent exactly.
pub(super) const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// An integer, or text with a unit.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a number, or a number with a unit")]
enum Amount {
    Number(u64),
    Text(String),
}

impl Amount {
    fn in_units<E: Error>(self, units: &[(&str, u64)]) -> Result<u64, E> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Text(text) => {
                parse(&text, units).ok_or_else(|| E::custom("not a number with a unit"))
            }
        }
    }
}

impl Size {
    /// Deserializes a number of bytes into an integer.
    ///
    /// # Errors
    ///
    /// If the value is neither an integer nor a size, or too large for `T`.
    pub fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
    where
        T: TryFrom<u64, Error: fmt::Display>,
        D: Deserializer<'de>,
    {
        let bytes = Amount::deserialize(deserializer)?.in_units(SIZE_UNITS)?;
        T::try_from(bytes).map_err(D::Error::custom)
    }

    /// Serializes a number of bytes as an operator would write it.
    ///
    /// # Errors
    ///
    /// If the serializer fails.
    pub fn serialize<T: Copy + TryInto<u64>, S: Serializer>(
        bytes: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let bytes = (*bytes).try_into().unwrap_or(u64::MAX);
        serializer.collect_str(&with_largest_unit(bytes, SIZE_UNITS))
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Size::deserialize(deserializer).map(Self)
    }
}

impl DurationText {
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        let milliseconds = Amount::deserialize(deserializer)?.in_units(DURATION_UNITS_MS)?;
        Ok(Duration::from_millis(milliseconds))
    }

    pub(super) fn serialize<S: Serializer>(
        duration: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let milliseconds = whole_milliseconds(*duration);
        serializer.collect_str(&with_largest_unit(milliseconds, DURATION_UNITS_MS))
    }
}

impl Milliseconds {
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        DurationText::deserialize(deserializer)
    }

    pub(super) fn serialize<S: Serializer>(
        duration: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(whole_milliseconds(*duration))
    }
}

/// Parses a duration with a unit, such as `60s`.
///
/// # Errors
///
/// Returns the rule as a message.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    duration(text).ok_or_else(|| "must be a duration such as `60s`".to_owned())
}

/// Parses a duration with a unit.
pub(super) fn duration(text: &str) -> Option<Duration> {
    parse(text, DURATION_UNITS_MS).map(Duration::from_millis)
}

/// `32MiB` → 32 × 2²⁰.
fn parse(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    units.iter().find_map(|(unit, factor)| {
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(*factor)
    })
}

/// Writes `amount` in the largest unit that divides it.
fn with_largest_unit(amount: u64, units: &[(&str, u64)]) -> String {
    let divisors = units
        .iter()
        .filter(|(_, factor)| amount.is_multiple_of(*factor));
    match divisors.max_by_key(|(_, factor)| *factor) {
        Some((unit, factor)) => format!("{}{unit}", amount / factor),
        None => amount.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations_are_parsed_by_their_unit() {
        let sizes = [
            ("32MiB", 33_554_432),
            ("1kB", 1000),
            ("1MB", 1_000_000),
            ("7B", 7),
        ];
        for (text, bytes) in sizes {
            assert_eq!(parse(text, SIZE_UNITS), Some(bytes), "{text}");
        }
        let durations = [
            ("30s", 30_000),
            ("500ms", 500),
            ("5m", 300_000),
            ("1h", 3_600_000),
        ];
        for (text, ms) in durations {
            assert_eq!(parse(text, DURATION_UNITS_MS), Some(ms), "{text}");
            assert_eq!(parse(text, SIZE_UNITS), None, "{text}");
        }
    }

    #[test]
    fn the_largest_amount_of_every_unit_fits() {
        for (unit, _) in SIZE_UNITS {
            assert!(
                parse(&format!("9999999999{unit}"), SIZE_UNITS).is_some(),
                "{unit}"
            );
        }
    }

    #[test]
    fn defaults_are_written_in_the_largest_unit() {
        assert_eq!(with_largest_unit(64 << 10, SIZE_UNITS), "64KiB");
        assert_eq!(with_largest_unit(300_000, DURATION_UNITS_MS), "5m");
    }
}
