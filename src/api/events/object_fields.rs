//! Fields of reported events whose values must be objects. The deserializer also reads the fields
//! of an object from a list, which no agent sends.

use serde_json::Value;

/// Returns the path of the first list in `reported` where the event that was read from it has an
/// object.
pub fn list_for_object(reported: &Value, read: &Value) -> Option<String> {
    match (reported, read) {
        (Value::Array(_), Value::Object(_)) => Some(String::new()),
        (Value::Array(reported), Value::Array(read)) => {
            let mut items = reported.iter().zip(read).enumerate();
            items.find_map(|(index, (reported, read))| {
                Some(format!("[{index}]{}", list_for_object(reported, read)?))
            })
        }
        (Value::Object(reported), Value::Object(read)) => read.iter().find_map(|(key, read)| {
            let path = list_for_object(reported.get(key)?, read)?;
            Some(format!(".{key}{path}"))
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_in_the_place_of_an_object_is_found() {
        let read = json!({ "a": { "b": [{ "c": {} }, { "c": {} }], "d": [1] }, "e": "" });
        let find = |reported: Value| list_for_object(&reported, &read);
        assert_eq!(find(read.clone()), None);
        assert_eq!(find(json!({ "a": { "d": ["x"] }, "e": [], "f": [] })), None);
        assert_eq!(find(json!({ "a": [] })).unwrap(), ".a");
        let inner = json!({ "a": { "b": [{}, { "c": ["x"] }] } });
        assert_eq!(find(inner).unwrap(), ".a.b[1].c");
    }
}
