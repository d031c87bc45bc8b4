//! Finish reasons of refused answers.

/// Returns whether a finish reason of the Gemini API means that the answer was refused. Other APIs
/// have one reason for all of these.
pub fn is_refusal(finish_reason: &str) -> bool {
    matches!(
        finish_reason,
        "SAFETY"
            | "RECITATION"
            | "BLOCKLIST"
            | "PROHIBITED_CONTENT"
            | "SPII"
            | "MODEL_ARMOR"
            | "IMAGE_SAFETY"
            | "IMAGE_PROHIBITED_CONTENT"
            | "IMAGE_RECITATION"
    )
}
