//! The frame of all pages, and their response.

use std::{borrow::Cow, fmt::Write};

use axum::response::{Html, IntoResponse, Response};
use http::{StatusCode, header};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{
    assets::{SCRIPT, STYLESHEET},
    form::csrf_field,
};
use crate::{
    auth::{AdminCredential, AdminPrincipal},
    config::AdminRole,
    error::ApiError,
    invisible_char::is_hidden,
    middleware::RenderedError,
};

/// Pages of the navigation: address and title.
const NAVIGATION: [(&str, &str); 10] = [
    ("/console/", "Overview"),
    ("/console/calls", "Calls"),
    ("/console/sessions", "Sessions"),
    ("/console/denials", "Denials"),
    ("/console/rules", "Policies and hooks"),
    ("/console/coverage", "Coverage"),
    ("/console/config", "Config"),
    ("/console/changes", "Changes"),
    ("/console/fleet", "Fleet"),
    ("/console/try", "Try it"),
];

/// Columns that are aligned to the right, because they hold numbers.
const NUMBER_COLUMNS: [&str; 14] = [
    "Acted",
    "After",
    "Before",
    "Calls",
    "Calls in 24 h",
    "Denied",
    "Failed",
    "For",
    "Prompts",
    "Would have",
    "p50",
    "p99",
    "Requests",
    "Runs",
];

/// Keys of the script, and what they do.
const KEYS: [(&str, &str); 6] = [
    ("j", "next row"),
    ("k", "previous row"),
    ("Enter", "open the row"),
    ("Esc", "back to the list, or leave a field"),
    ("/", "filter"),
    ("?", "this help"),
];

/// One page: its title and its content.
#[derive(Clone)]
pub(super) struct Page {
    title: Cow<'static, str>,
    address: &'static str,
    body: Markup,
    notice: Option<&'static str>,
    error: Option<ApiError>,
}

impl Page {
    /// Creates a page that is not in the navigation.
    pub(super) fn new(title: impl Into<Cow<'static, str>>, body: Markup) -> Self {
        Self {
            title: title.into(),
            address: "",
            body,
            notice: None,
            error: None,
        }
    }

    /// Marks the entry of the navigation to which the page belongs.
    pub(super) fn under(self, address: &'static str) -> Self {
        Self { address, ..self }
    }

    /// Shows a notice above the content.
    pub(super) fn with_notice(self, notice: Option<&'static str>) -> Self {
        Self { notice, ..self }
    }

    /// Sets the error that the page shows. The response has its status.
    pub(super) fn with_error(self, error: Option<ApiError>) -> Self {
        Self { error, ..self }
    }

    /// Renders the page for a user, or for a visitor who is not logged in.
    pub(super) fn respond(&self, principal: Option<&AdminPrincipal>) -> Response {
        let html = escape_invisible(self.markup(principal).into_string());
        let status = self.error.as_ref().map_or(StatusCode::OK, ApiError::status);
        let mut response = (status, Html(html)).into_response();
        if let Some(error) = self.error.clone() {
            if let Some(seconds) = error.retry_seconds() {
                let headers = response.headers_mut();
                headers.insert(header::RETRY_AFTER, seconds.into());
            }
            response.extensions_mut().insert(RenderedError(error));
        }
        response
    }

    fn markup(&self, principal: Option<&AdminPrincipal>) -> Markup {
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (self.title) " · hookgate" }
                    link rel="icon" href="data:,";
                    link rel="stylesheet" href=(STYLESHEET.path());
                    script src=(SCRIPT.path()) defer {}
                }
                body {
                    a.skip href="#content" { "Skip to content" }
                    header {
                        a.brand href="/console/" { "hookgate" }
                        @if let Some(principal) = principal {
                            (self.navigation())
                            (user(principal))
                        }
                        button type="button" data-open-keys aria-haspopup="dialog" hidden { "Keys" }
                    }
                    main #content tabindex="-1" {
                        h1 { (self.title) }
                        @if let Some(notice) = self.notice { p.problem role="status" { (notice) } }
                        (self.body)
                    }
                    (key_help())
                }
            }
        }
    }

    fn navigation(&self) -> Markup {
        html! {
            nav aria-label="Pages" {
                @for (address, title) in NAVIGATION {
                    a href=(address) aria-current=[(address == self.address).then_some("page")] {
                        (title)
                    }
                }
            }
        }
    }
}

/// Stores the page in the response's extensions. The middleware renders it for the user.
impl IntoResponse for Page {
    fn into_response(self) -> Response {
        let mut response = Response::default();
        response.extensions_mut().insert(self);
        response
    }
}

fn user(principal: &AdminPrincipal) -> Markup {
    let roles: Vec<&str> = principal.roles().map(AdminRole::as_str).collect();
    let is_session = matches!(principal.credential, AdminCredential::Session { .. });
    html! {
        form.user method="post" action="/console/logout" {
            span title=(roles.join(", ")) { (principal.name) }
            @if is_session {
                (csrf_field(principal))
                button { "Log out" }
            }
        }
    }
}

/// Help that the script opens.
fn key_help() -> Markup {
    html! {
        dialog #keys aria-labelledby="keys-title" {
            h2 #keys-title { "Keys" }
            dl {
                @for (key, meaning) in KEYS {
                    dt { kbd { (key) } }
                    dd { (meaning) }
                }
            }
            p { label {
                input type="checkbox" data-char-keys checked;
                " Use the keys " kbd { "j" } ", " kbd { "k" } ", " kbd { "/" } " and " kbd { "?" }
            } }
            form method="dialog" { button { "Close" } }
        }
    }
}

/// Shows characters that are invisible, or reorder text, as escapes like those of JSON.
///
/// INVARIANT: applied to the whole page, so that no text of a page can contain them.
fn escape_invisible(html: String) -> String {
    if !html.contains(is_hidden) {
        return html;
    }
    let mut out = String::with_capacity(html.len() + 64);
    for char in html.chars() {
        if is_hidden(char) {
            for unit in char.encode_utf16(&mut [0; 2]) {
                // Writing into a `String` cannot fail.
                let _infallible = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(char);
        }
    }
    out
}

/// Returns a word with a shape, so that its meaning does not depend on its colour.
pub(super) fn badge(kind: BadgeKind, text: &str) -> Markup {
    html! {
        span class={ "badge " (kind.class()) } {
            span aria-hidden="true" { (kind.shape()) } " " (text)
        }
    }
}

/// Meaning of a badge, from which its colour and shape follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadgeKind {
    /// All is as it should be.
    Good,
    /// Neither good nor bad.
    Neutral,
    /// Deserves attention, but works.
    Warning,
    /// Failing, denied or refused.
    Bad,
}

impl BadgeKind {
    /// Returns the class of the stylesheet.
    pub(super) const fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Neutral => "neutral",
            Self::Warning => "warning",
            Self::Bad => "bad",
        }
    }

    /// Returns the shape that replaces the colour.
    pub(super) const fn shape(self) -> &'static str {
        match self {
            Self::Good => "●",
            Self::Neutral => "○",
            Self::Warning => "▲",
            Self::Bad => "■",
        }
    }
}

/// Returns the header of a column, aligned like its cells.
pub(super) fn header_cell(column: &str) -> Markup {
    html! {
        th scope="col" class=[NUMBER_COLUMNS.contains(&column).then_some("number")] { (column) }
    }
}

/// Returns a table that can be scrolled by keys when it is wider than the page.
pub(super) fn table(caption: &str, columns: &[&str], rows: &Markup) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(caption) {
            table data-rows {
                caption { (caption) }
                thead { tr { @for column in columns { (header_cell(column)) } } }
                tbody { (PreEscaped(&rows.0)) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_escaped_as_in_json() {
        let shown = |text: &str| escape_invisible(text.to_owned());
        assert_eq!(shown("plain\ttext\n<é>"), "plain\ttext\n<é>");
        assert_eq!(
            shown("a\u{202e}b\0\r\u{7f}"),
            "a\\u202eb\\u0000\\u000d\\u007f"
        );
        assert_eq!(shown("\u{e0041}"), "\\udb40\\udc41");
        assert_eq!(shown("👩\u{200d}👩"), "👩\u{200d}👩", "joined emoji");
    }
}
