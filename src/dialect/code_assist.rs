//! `code_assist`: Code Assist, under `/v1internal:{method}`, which gemini-cli
//! calls for those who log in with Google.
//!
//! A request of the Gemini API stands under `request`, its model beside it; an
//! answer stands under `response`. Both are opened here and closed again, so that
//! nobody else knows of it.

use bytes::Bytes;

use super::{
    Api, Call, Dialect, DialectError, Document, Opened, Operation, ResponseDocument, Row, Words,
    envelope,
    json::Wrapping,
    method_table::{Access::Open, STREAM, table},
};

#[derive(Debug)]
pub(super) struct CodeAssist;

impl Dialect for CodeAssist {
    fn api(&self) -> Api {
        Api::CodeAssist
    }

    fn rows(&self) -> &'static [Row] {
        ROWS
    }

    fn open_request(&self, call: &mut Call, body: Document) -> Result<Opened, DialectError> {
        envelope::open_wrapped(call, body)
    }

    fn open_answer(&self, bytes: Bytes) -> Result<ResponseDocument, DialectError> {
        envelope::open_answer(bytes)
    }

    fn open_words(&self, bytes: Bytes, last: Option<&Words>) -> Result<Words, Bytes> {
        Words::read(bytes, Wrapping::Response, last)
    }

    fn wrap_answer(&self, inner: Bytes) -> Bytes {
        envelope::wrap(&inner)
    }

    fn close_answer(&self, answer: &ResponseDocument) -> Bytes {
        envelope::close_answer(answer)
    }
}

use Operation::{CountTokens, Generate, Other};

// What gemini-cli asks for beside models: who the user is and what they may do.
// None of it carries a prompt or an answer.
table! { CodeAssist:
    POST "/v1internal:generateContent" "v1internal.generateContent" Generate, Open;
    POST "/v1internal:streamGenerateContent" "v1internal.streamGenerateContent" STREAM, Open;
    POST "/v1internal:countTokens" "v1internal.countTokens" CountTokens, Open;
    POST "/v1internal:loadCodeAssist" "v1internal.loadCodeAssist" Other, Open;
    POST "/v1internal:onboardUser" "v1internal.onboardUser" Other, Open;
    POST "/v1internal:retrieveUserQuota" "v1internal.retrieveUserQuota" Other, Open;
    POST "/v1internal:listExperiments" "v1internal.listExperiments" Other, Open;
    POST "/v1internal:fetchAdminControls" "v1internal.fetchAdminControls" Other, Open;
    GET "/v1internal:getCodeAssistGlobalUserSetting" "v1internal.getCodeAssistGlobalUserSetting" Other, Open;
    POST "/v1internal:setCodeAssistGlobalUserSetting" "v1internal.setCodeAssistGlobalUserSetting" Other, Open;
    POST "/v1internal:recordCodeAssistMetrics" "v1internal.recordCodeAssistMetrics" Other, Open;
    GET "/v1internal/operations/{operation}" "v1internal.operations.get" Other, Open;
}
