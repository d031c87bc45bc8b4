//! Code Assist: `/v1internal:{method}`, which gemini-cli calls after a login with Google.
//!
//! The envelope of a request holds a Gemini API request in `request`, with the model
//! beside it. The envelope of a response holds it in `response`.

use crate::dialect::{
    google::gemini::STREAM,
    method::{
        Access::Open,
        Api, MethodSpec,
        Operation::{CountTokens, Generate, Other},
        method_table,
    },
};

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
