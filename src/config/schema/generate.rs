//! Generates the JSON Schema of a type.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use crate::{
    config::registry::{PolicyShape, Registry},
    protocol,
};

/// Generates the schema of `T`, with the names that `registry` has.
pub(crate) fn schema<T: JsonSchema>(registry: &Registry) -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    finish(&mut schema, registry);
    schema
}

/// Removes `null` everywhere, since a key without a value is probably a mistake, and
/// fills in the names of the registry.
fn finish(schema: &mut Value, registry: &Registry) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(|item| finish(item, registry)),
        Value::Object(fields) => {
            remove_null(fields);
            fill_in_names(fields, registry);
            fields
                .values_mut()
                .for_each(|value| finish(value, registry));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
    }
}

fn remove_null(fields: &mut Map<String, Value>) {
    if fields.get("default").is_some_and(Value::is_null) {
        fields.remove("default");
    }
    if let Some(Value::Array(types)) = fields.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            fields.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(mut branches)) = fields.remove("anyOf") {
        branches.retain(|branch| branch != &json!({"type": "null"}));
        // An `Option` has one branch left.
        if branches.len() > 1 {
            fields.insert("anyOf".to_owned(), branches.into());
        } else if let Some(Value::Object(branch)) = branches.pop() {
            fields.extend(branch);
        }
    }
}

fn fill_in_names(fields: &mut Map<String, Value>, registry: &Registry) {
    let names = match fields.remove("x-known").as_ref().and_then(Value::as_str) {
        Some("transports") => Some(registry.transports.clone()),
        Some("protocols") => Some(
            protocol::ALL
                .iter()
                .map(|protocol| protocol.name())
                .collect(),
        ),
        Some("policies") => Some(registry.policies.iter().map(|policy| policy.name).collect()),
        _ => None,
    };
    if let Some(names) = names {
        fields.insert("enum".to_owned(), json!(names));
    }
    if fields.remove("x-settings").is_some() && !registry.policies.is_empty() {
        let common = fields.get("properties").and_then(Value::as_object);
        let common = common.cloned().unwrap_or_default();
        let rules = settings_by_policy(&common, &registry.policies);
        fields.insert("allOf".to_owned(), rules);
    }
}

/// Rules that allow the settings of the policy that a mapping names, and no other keys
/// than these and the `common` ones.
fn settings_by_policy(common: &Map<String, Value>, policies: &[PolicyShape]) -> Value {
    let rules = policies.iter().map(|policy| {
        let own = policy.schema.get("properties").and_then(Value::as_object);
        let common = common.keys().map(|name| (name.clone(), true.into()));
        let mut properties: Map<String, Value> = common.collect();
        properties.extend(own.cloned().unwrap_or_default());
        let required = policy.schema.get("required").cloned();
        json!({
            "if": { "properties": { "policy": { "const": policy.name } }, "required": ["policy"] },
            "then": {
                "description": policy.schema.get("description"),
                "properties": properties,
                "required": required.unwrap_or_else(|| json!([])),
                "additionalProperties": false,
            },
        })
    });
    rules.collect()
}
