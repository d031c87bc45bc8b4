//! Sizes, numbers and durations as operators write them.

use std::{borrow::Cow, fmt, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, Visitor},
};

/// A number of bytes: `32MiB`, `1kB`, or a plain integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub usize);

/// How many of something at the same time.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("minimum" = 1, "maximum" = 1_000_000, "errorMessage" = "must be a number from 1 to 1000000"))]
pub(super) struct Count(pub(super) usize);

/// How often something is done again that costs a model call each time.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("minimum" = 1, "maximum" = 100, "errorMessage" = "must be a number from 1 to 100"))]
pub(super) struct Rounds(pub(super) u32);

/// A duration: `30s`, `500ms`, `5m`, `1h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Period(pub(super) Duration);

/// A duration, or an integer of milliseconds as in a settings.json.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Milliseconds(pub(super) Duration);

// With ten digits at most, no product below leaves 64 bits.
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

/// The largest plain number: all JSON tools agree on integers up to here.
const MOST: u64 = (1 << 53) - 1;

const PERIOD_PATTERN: &str = "^[1-9][0-9]{0,9}(ms|s|m|h)$";
const PERIOD_UNITS: &[(&str, u64)] = &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

impl Size {
    pub(super) const fn kib(number: usize) -> Self {
        Self(number << 10)
    }

    pub(super) const fn mib(number: usize) -> Self {
        Self(number << 20)
    }
}

impl Default for Milliseconds {
    fn default() -> Self {
        Self(Duration::from_mins(1))
    }
}

/// `32MiB` → 32 × 2²⁰. Pure.
fn parse(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    units.iter().find_map(|(unit, factor)| {
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(*factor)
    })
}

/// The shortest way to write `amount`: the largest unit that divides it.
fn write(amount: u64, units: &[(&str, u64)]) -> String {
    let fitting = units
        .iter()
        .filter(|(_, factor)| amount.is_multiple_of(*factor));
    match fitting.max_by_key(|(_, factor)| *factor) {
        Some((unit, factor)) => format!("{}{unit}", amount / factor),
        None => amount.to_string(),
    }
}

/// Reads an integer as it is, and text by its unit.
struct AmountVisitor {
    units: &'static [(&'static str, u64)],
}

impl Visitor<'_> for AmountVisitor {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, or a number with a unit")
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<u64, E> {
        Ok(value)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<u64, E> {
        parse(value, self.units).ok_or_else(|| E::custom("not a number with a unit"))
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = deserializer.deserialize_any(AmountVisitor { units: SIZE_UNITS })?;
        usize::try_from(bytes).map(Self).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let ms = deserializer.deserialize_any(AmountVisitor {
            units: PERIOD_UNITS,
        })?;
        Ok(Self(Duration::from_millis(ms)))
    }
}

impl<'de> Deserialize<'de> for Milliseconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Period::deserialize(deserializer).map(|it| Self(it.0))
    }
}

// What follows writes defaults into the schema.

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&write(self.0 as u64, SIZE_UNITS))
    }
}

impl Serialize for Period {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ms = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        serializer.collect_str(&write(ms, PERIOD_UNITS))
    }
}

impl Serialize for Milliseconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX))
    }
}

impl JsonSchema for Size {
    fn schema_name() -> Cow<'static, str> {
        "Size".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["integer", "string"],
            "minimum": 1,
            "maximum": MOST,
            "pattern": SIZE_PATTERN,
            "errorMessage": "must be a size such as `32MiB`, or a number of bytes",
        })
    }
}

impl JsonSchema for Period {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": PERIOD_PATTERN,
            "errorMessage": "must be a duration such as `30s` or `500ms`",
        })
    }
}

impl JsonSchema for Milliseconds {
    fn schema_name() -> Cow<'static, str> {
        "Milliseconds".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["integer", "string"],
            "minimum": 1,
            "maximum": MOST,
            "pattern": PERIOD_PATTERN,
            "errorMessage": "must be a number of milliseconds, or a duration such as `5s`",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations_are_read_by_their_unit() {
        let sizes = [
            ("32MiB", 33_554_432),
            ("1kB", 1000),
            ("1MB", 1_000_000),
            ("7B", 7),
        ];
        for (text, bytes) in sizes {
            assert_eq!(parse(text, SIZE_UNITS), Some(bytes), "{text}");
        }
        let periods = [
            ("30s", 30_000),
            ("500ms", 500),
            ("5m", 300_000),
            ("1h", 3_600_000),
        ];
        for (text, ms) in periods {
            assert_eq!(parse(text, PERIOD_UNITS), Some(ms), "{text}");
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
    fn defaults_are_shown_as_an_operator_would_write_them() {
        assert_eq!(write(64 << 10, SIZE_UNITS), "64KiB");
        assert_eq!(write(300_000, PERIOD_UNITS), "5m");
    }
}
