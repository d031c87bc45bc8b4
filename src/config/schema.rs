//! The JSON Schema of what operators write, made from the raw types.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Value, json};

use super::{Known, raw_policies::settings_by_policy};

/// The schema of `T`. Pure.
pub(super) fn schema<T: JsonSchema>(known: &Known) -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    finish(&mut schema, known);
    schema
}

/// Refuses `null` everywhere, since a key without a value is more likely a
/// mistake than a wish, and fills in the names that other rooms know.
fn finish(schema: &mut Value, known: &Known) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(|it| finish(it, known)),
        Value::Object(fields) => {
            if fields.get("default").is_some_and(Value::is_null) {
                fields.remove("default");
            }
            if let Some(Value::Array(types)) = fields.get_mut("type") {
                types.retain(|it| it != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    fields.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::Array(mut branches)) = fields.remove("anyOf") {
                branches.retain(|it| it != &json!({"type": "null"}));
                // Only `Option` makes these, so one branch is left.
                if let Some(Value::Object(branch)) = branches.pop() {
                    fields.extend(branch);
                }
            }
            let policies = || known.policies.iter().map(|it| it.name).collect();
            let names = match fields.remove("x-known").as_ref().and_then(Value::as_str) {
                Some("transports") => Some(known.transports.clone()),
                Some("protocols") => Some(known.protocols.clone()),
                Some("policies") => Some(policies()),
                _ => None,
            };
            if let Some(names) = names {
                fields.insert("enum".to_owned(), json!(names));
            }
            if fields.remove("x-settings").is_some() && !known.policies.is_empty() {
                let common = fields.get("properties").and_then(Value::as_object);
                let common = common.cloned().unwrap_or_default();
                let rules = settings_by_policy(&common, &known.policies);
                fields.insert("allOf".to_owned(), rules);
            }
            fields.values_mut().for_each(|it| finish(it, known));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
    }
}
