//! A checker of JSON documents against the schemas that nicctl prints.

use serde_json::Value;

/// What contradicts `schema` in `document`, as far as the keywords go that schemas of plain
/// structs, enumerations and maps are made of. Fields that the schema does not know are errors
/// too.
pub fn mismatch(schema: &Value, document: &Value) -> Option<String> {
    contradiction(schema, schema, document)
}

fn contradiction(root: &Value, schema: &Value, value: &Value) -> Option<String> {
    if let Some(name) = schema["$ref"].as_str() {
        return match root.pointer(name.trim_start_matches('#')) {
            Some(schema) => contradiction(root, schema, value),
            None => Some(format!("{name} leads nowhere")),
        };
    }
    if let Some(constant) = schema.get("const") {
        return (constant != value).then(|| format!("{value} is not {constant}"));
    }
    if let Some(choices) = schema["enum"].as_array() {
        return (!choices.contains(value)).then(|| format!("{value} is none of {choices:?}"));
    }
    // What schemas of enumerations with documented variants are, and those of optional structs.
    let choices = schema.get("oneOf").or_else(|| schema.get("anyOf"));
    if let Some(choices) = choices.and_then(Value::as_array) {
        let errors: Option<Vec<_>> =
            choices.iter().map(|choice| contradiction(root, choice, value)).collect();
        return errors.map(|errors| errors.join(" and "));
    }
    if !has_type(&schema["type"], value) {
        return Some(format!("{value} is not {}", schema["type"]));
    }
    let mut items = value.as_array().into_iter().flatten();
    items
        .find_map(|item| contradiction(root, &schema["items"], item))
        .or_else(|| fields(root, schema, value))
        .or_else(|| missing(schema, value))
}

fn has_type(types: &Value, value: &Value) -> bool {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_u64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let is = |kind: &str| {
        types == kind || types.as_array().is_some_and(|kinds| kinds.contains(&kind.into()))
    };
    is(kind) || kind == "integer" && is("number")
}

fn fields(root: &Value, schema: &Value, value: &Value) -> Option<String> {
    value.as_object().into_iter().flatten().find_map(|(name, field)| {
        let property =
            schema["properties"].get(name).or_else(|| schema.get("additionalProperties"));
        match property.filter(|property| property.is_object()) {
            Some(schema) => {
                contradiction(root, schema, field).map(|error| format!("{name}: {error}"))
            }
            None => Some(format!("{name} is not in the schema")),
        }
    })
}

fn missing(schema: &Value, value: &Value) -> Option<String> {
    let mut required = schema["required"].as_array().into_iter().flatten();
    let is_missing = |name: &&Value| name.as_str().is_some_and(|name| value.get(name).is_none());
    required.find(is_missing).map(|name| format!("{name} is missing"))
}
