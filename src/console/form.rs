//! Fields of forms, and the token against cross-site requests.

use axum::extract::{FromRequest, RawForm, Request, rejection::RawFormRejection};
use maud::{Markup, html};
use url::form_urlencoded;

use crate::{
    auth::AdminPrincipal,
    error::{ApiError, ErrorReason},
    middleware::{MAX_REQUEST_SECONDS, check_csrf_token, require_operator},
    state::App,
};

/// Name of the field with the token against cross-site requests.
const CSRF_FIELD: &str = "csrf";

/// Fields of a form that was sent, or parameters of the query.
#[derive(Debug, Default)]
pub(super) struct FormFields(Vec<(String, String)>);

impl FormFields {
    /// Returns the value of a field; empty if the form has none.
    pub(super) fn get(&self, name: &str) -> &str {
        self.find(name).unwrap_or_default()
    }

    /// Returns the value of a field, if the form has it.
    pub(super) fn find(&self, name: &str) -> Option<&str> {
        let field = self.0.iter().find(|(key, _)| key == name);
        field.map(|(_, value)| value.as_str())
    }

    /// Checks the token against cross-site requests.
    ///
    /// # Errors
    ///
    /// Returns an error if the token is not that of the user's session.
    pub(super) fn check_csrf(&self, principal: &AdminPrincipal) -> Result<(), ApiError> {
        check_csrf_token(principal, self.get(CSRF_FIELD))
    }

    /// Checks the token against cross-site requests and the role of the user.
    ///
    /// # Errors
    ///
    /// Returns an error if the token is not that of the user's session, or the user is no
    /// operator.
    pub(super) fn check_operator(&self, principal: &AdminPrincipal) -> Result<(), ApiError> {
        self.check_csrf(principal)?;
        require_operator(principal)
    }

    fn parse(text: &[u8]) -> Self {
        Self(form_urlencoded::parse(text).into_owned().collect())
    }
}

impl<S: Send + Sync> FromRequest<S> for FormFields {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        if request.method().is_safe() {
            let query = request.uri().query().unwrap_or_default();
            return Ok(Self::parse(query.as_bytes()));
        }
        let form = RawForm::from_request(request, state).await;
        let RawForm(form) = form.map_err(|rejection| match rejection {
            RawFormRejection::InvalidFormContentType(_) => {
                let message =
                    "unsupported media type; supported: `application/x-www-form-urlencoded`";
                ApiError::new(ErrorReason::UnsupportedMediaType, message)
            }
            RawFormRejection::BytesRejection(rejection) => rejection.into(),
            other => ApiError::new(ErrorReason::Internal, other.body_text()),
        })?;
        Ok(Self::parse(&form))
    }
}

/// Returns the hidden field with the token against cross-site requests.
pub(super) fn csrf_field(principal: &AdminPrincipal) -> Markup {
    html! { input type="hidden" name=(CSRF_FIELD) value=(principal.csrf_token()); }
}

/// Returns how long it may take until a config is in use.
pub(super) fn proof_hint(app: &App) -> Markup {
    let limit = app.snapshot().config.proof.total_timeout;
    html! {
        p.hint {
            "The proofs of its guards come first. They end within its " code { "proof.total_timeout" }
            ", which is " (limit.as_secs_f32()) " s in the config in use. The console answers within "
            (MAX_REQUEST_SECONDS) " s; a change that takes longer goes on."
        }
    }
}
