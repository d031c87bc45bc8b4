//! JSON that means one thing: no key is given twice.

use std::{fmt, str::FromStr};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value};

use super::DialectError;

/// Under this key `serde_json` hands numbers over; a document that uses it as a
/// key of its own would be read as a number.
const NUMBER_KEY: &str = "$serde_json::private::Number";

/// Parses `text`. Keys keep their order and numbers their precision; a key given
/// twice in one object is an error, not a guess.
pub fn parse(text: &str) -> Result<Value, DialectError> {
    if memchr::memmem::find(text.as_bytes(), b"$serde_json::private").is_some() {
        return Err(DialectError::Json("a key is reserved".to_owned()));
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Strict.deserialize(&mut deserializer);
    let value = value.and_then(|it| deserializer.end().map(|()| it));
    value.map_err(|error| DialectError::Json(error.to_string()))
}

#[derive(Debug, Clone, Copy)]
struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(self)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if key == NUMBER_KEY {
                let spelled = map.next_value::<String>()?;
                let number = Number::from_str(&spelled).map_err(Error::custom)?;
                return Ok(Value::Number(number));
            }
            let value = map.next_value_seed(self)?;
            if fields.contains_key(&key) {
                return Err(Error::custom(format!("the key `{key}` is given twice")));
            }
            fields.insert(key, value);
        }
        Ok(Value::Object(fields))
    }
}

/// The fields of an object in order, with their texts still unparsed.
#[derive(Debug)]
pub(super) struct Fields<'a>(pub(super) Vec<(String, &'a serde_json::value::RawValue)>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor).map(Self)
    }
}

#[derive(Debug)]
struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Vec<(String, &'de serde_json::value::RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_precision_and_keys_their_order() {
        for text in [
            r#"{"z":1.0,"a":[-0,12345678901234567890123,0.10],"m":null}"#,
            r#""x""#,
            "true",
            "0",
            "[0,-1,2.5]",
            "[]",
        ] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_means_two_things_is_refused() {
        for text in [
            r#"{"a":1,"a":2}"#,
            r#"{"x":[{"b":1,"\u0062":2}]}"#,
            r#"{"$serde_json::private::Number":"1"}"#,
            "{} {}",
            "\u{feff}{}",
            "{",
            r#""\ud800""#,
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
