//! Code Assist: `/v1internal:{method}`, which gemini-cli calls after a login with Google.
//!
//! The envelope of a request holds a Gemini API request in `request`, with the model
//! beside it. The envelope of a response holds it in `response`.

use crate::dialect::{
    api_dialect::{Dialect, ReadChunks, Unwrapped, WriteChunks},
    call::Call,
    document::Document,
    error::DialectError,
    google::{
        bodies::google_bodies,
        gemini::STREAM,
        request,
        response::{self, envelope::ResponseEnvelope},
    },
    method::{
        Access::Open,
        Api, Framing, MethodSpec,
        Operation::{CountTokens, Generate, Other},
        method_table,
    },
};

#[derive(Debug)]
pub struct CodeAssist;

impl Dialect for CodeAssist {
    fn api(&self) -> Api {
        Api::CodeAssist
    }

    fn methods(&self) -> &'static [MethodSpec] {
        METHODS
    }

    fn versions(&self) -> &'static [&'static str] {
        &["v1internal"]
    }

    fn open_request(&self, call: &mut Call, body: Document) -> Result<Unwrapped, DialectError> {
        request::open_wrapped(call, body)
    }

    google_bodies!(ResponseEnvelope::ResponseField);
}

// Methods marked `Other` handle login, quota and settings. They carry neither prompts nor
// responses of a model.
method_table! { CodeAssist:
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
