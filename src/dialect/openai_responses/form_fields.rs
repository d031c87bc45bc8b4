//! Fields of the content form.

pub const CANDIDATES: &[&str] = &["candidates"];
pub const CONTENTS: &[&str] = &["contents"];
pub const DECLARED_TOOLS: &[&str] = &["tools"];
pub const FUNCTION_CALL: &[&str] = &["functionCall"];
pub const FUNCTION_RESPONSE: &[&str] = &["functionResponse"];
pub const GENERATION_CONFIG: &[&str] = &["generationConfig"];
pub const PARTS: &[&str] = &["parts"];
pub const SYSTEM_INSTRUCTION: &[&str] = &["systemInstruction"];
pub const TOOL_CONFIG: &[&str] = &["toolConfig"];
