//! Field names that several files use, in the spellings that the API accepts.

/// Arguments of a function call.
pub const ARGUMENTS: &[&str] = &["args"];
/// Caller of a function: the model, or code of its own. Google's APIs have none.
pub const CALLER: &[&str] = &["caller"];
pub const CACHED_CONTENT: &[&str] = &["cachedContent", "cached_content"];
pub const CANDIDATES: &[&str] = &["candidates"];
/// Id of the container in which the model runs code, for the next request. Google's APIs have none.
pub const CONTAINER: &str = "hookgateContainer";
pub const CONTENT: &[&str] = &["content"];
pub const CONTENTS: &[&str] = &["contents"];
/// Token with which the model continues an answer that ended with the finish reason
/// `CONTINUATION`.
pub const CONTINUATION_TOKEN: &[&str] = &["continuationToken", "continuation_token"];
pub const DECLARATIONS: &[&str] = &["functionDeclarations", "function_declarations"];
pub const FINISH_REASON: &[&str] = &["finishReason", "finish_reason"];
pub const FUNCTION_CALL: &[&str] = &["functionCall", "function_call"];
pub const FUNCTION_RESPONSE: &[&str] = &["functionResponse", "function_response"];
pub const GENERATION_CONFIG: &[&str] = &["generationConfig", "generation_config"];
/// True if an answer has images or sound that are no parts. Google's APIs have none.
pub const HAS_MEDIA: &str = "hookgateMedia";
/// True if a stored response holds what is before the contents. Google's APIs have none.
pub const HAS_STORED_HISTORY: &str = "hookgateStoredHistory";
/// Present if a text is a refusal of the model. Google's APIs have none.
pub const IS_REFUSAL: &str = "hookgateRefusal";
/// True if a declaration is that of a toolset, whose tools the request does not list.
pub const IS_TOOLSET: &str = "hookgateToolset";
/// Free texts beside the conversation. For other APIs, every field that hookgate does not
/// interpret.
pub const LABELS: &[&str] = &["labels"];
/// Tokens with their probabilities: a copy of every text in small pieces. For other APIs, whether
/// the answer has any.
pub const LOGPROBS_RESULT: &str = "logprobsResult";
/// The field with these tokens, in the spellings that the API accepts.
pub const LOGPROBS: &[&str] = &[LOGPROBS_RESULT, "logprobs_result"];
pub const MODEL: &[&str] = &["model"];
/// Finish reason of an answer that the agent sends back, so that the model continues it. The Gemini
/// API has none of this kind.
pub const PAUSED: &str = "PAUSE";
/// Chunks of a function call's arguments.
pub const PARTIAL_ARGS: &[&str] = &["partialArgs", "partial_args"];
/// Phase of the model's message in which a text is, of the text's first piece at least. Google's
/// APIs have none.
pub const PHASE: &str = "hookgatePhase";
pub const PARTS: &[&str] = &["parts"];
/// Elements of a `batchEmbedContents` request.
pub const REQUESTS: &[&str] = &["requests"];
/// Data that another API requires before a part, in its own format: thinking, reasoning.
pub const PRECEDING: &str = "hookgatePreceding";
/// Result of a function, or the response in an envelope.
pub const RESPONSE: &[&str] = &["response"];
/// Index in another API's list from which a content, part or declaration was read.
pub const SOURCE: &str = "hookgateSource";
pub const SYSTEM_INSTRUCTION: &[&str] = &["systemInstruction", "system_instruction"];
/// True if a text or a block does not continue the text in front of it. Google's APIs have none.
pub const STARTS_TEXT: &str = "hookgateStart";
pub const TOOLS: &[&str] = &["tools"];
/// Set of tools to which a called function belongs. Google's APIs have none.
pub const TOOLSET_NAME: &[&str] = &["toolsetName"];
pub const TOOL_CONFIG: &[&str] = &["toolConfig", "tool_config"];
/// True if another chunk of a function call, or of one argument, follows.
pub const WILL_CONTINUE: &[&str] = &["willContinue", "will_continue"];
/// Whole request inside a `countTokens` request.
pub const WRAPPED_REQUEST: &[&str] = &["generateContentRequest", "generate_content_request"];
