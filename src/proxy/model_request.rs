//! The model call as it is about to go upstream.

use bytes::Bytes;
use serde_json::Value;

use super::session_name::SessionName;
use crate::{
    auth::Identity,
    dialect::{self, Call, Detail, Dialect, DialectError, Document, ResponseExpectation},
    hook::ConditionSubject,
    model::LlmRequest,
};

/// The model call as it is about to go upstream. Hooks and policies edit it.
#[derive(Debug)]
pub(super) struct ModelRequest {
    pub(super) call: Call,
    /// The request in the content form.
    pub(super) document: Document,
    /// The body that the document was read from, if that has another form.
    pub(super) original: Option<Document>,
    /// The id of the stored response that the request continues.
    pub(super) continued: Option<String>,
    pub(super) expectation: ResponseExpectation,
    /// The session's name, if the agent gives one in path, header or body.
    pub(super) session_name: Option<SessionName>,
}

impl ModelRequest {
    /// Returns the subject on which conditions of hooks and policies are evaluated.
    pub(super) const fn subject(&self) -> ConditionSubject<'_> {
        ConditionSubject::Call {
            call: &self.call,
            document: &self.document,
        }
    }

    /// Reserves the tokens of the call, as it is now, for a caller with a token quota. Returns
    /// whether they are more than before.
    ///
    /// # Errors
    ///
    /// Fails if the parameters of the request cannot be read.
    pub(super) fn reserve_tokens(
        &self,
        identity: &Identity,
        body_bytes: usize,
    ) -> Result<bool, DialectError> {
        let operation = self.call.operation;
        if !identity.has_token_quota() || !(operation.generates() || operation.embeds()) {
            return Ok(false);
        }
        let max_output = if operation.generates() {
            let parameters = dialect::generation_parameters(&self.call, &self.document)?;
            parameters.get("maxOutputTokens").and_then(Value::as_u64)
        } else {
            Some(0)
        };
        Ok(identity.estimate_tokens(body_bytes, max_output))
    }

    /// Returns the body for upstream, in the form of its API.
    ///
    /// # Errors
    ///
    /// Fails if an edit cannot be written.
    pub(super) fn upstream_body(&self, dialect: &dyn Dialect) -> Result<Bytes, DialectError> {
        match &self.original {
            Some(original) => dialect.close_request(&self.call, original, &self.document),
            None => Ok(self.document.to_bytes()),
        }
    }

    /// The stable form that hooks receive.
    pub(super) fn stable_form(&self, detail: Detail) -> Result<LlmRequest, DialectError> {
        dialect::read_stable_form(&self.call, &self.document, detail)
    }
}
