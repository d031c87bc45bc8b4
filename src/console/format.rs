//! Numbers, times and addresses as people read them.

use std::fmt::Display;

use maud::{Markup, html};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use url::form_urlencoded;

use crate::{observe::trace::RulePosition, state::Snapshot, view::MAX_TEXT_BYTES};

/// Characters of a segment of a path that need no escape.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// Formats microseconds: `870 µs`, `12.3 ms`, `4.56 s`.
pub(super) fn duration(microseconds: u64) -> String {
    match microseconds {
        0..1_000 => format!("{microseconds} µs"),
        1_000..1_000_000 => format!("{}.{} ms", microseconds / 1_000, microseconds / 100 % 10),
        _ => format!(
            "{}.{:02} s",
            microseconds / 1_000_000,
            microseconds / 10_000 % 100
        ),
    }
}

/// Formats a time in seconds by its largest unit: `45 s`, `12 min`, `3 h`, `2 d`.
pub(super) fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Formats bytes: `870 B`, `12.3 KiB`, `4.5 MiB`.
pub(super) fn bytes(bytes: u64) -> String {
    let in_units = |unit: u64| format!("{}.{}", bytes / unit, bytes % unit * 10 / unit);
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", in_units(1024)),
        _ => format!("{} MiB", in_units(1_048_576)),
    }
}

/// Formats a number of things: `1 call`, `2 calls`.
pub(super) fn counted(number: impl Display, noun: &str) -> String {
    let number = number.to_string();
    let ending = if number == "1" { "" } else { "s" };
    format!("{number} {noun}{ending}")
}

/// Returns the address of an item of a list, with the query of the list.
pub(super) fn item_address(list: &str, id: &str, query: &str) -> String {
    let id = utf8_percent_encode(id, SEGMENT);
    let separator = if query.is_empty() { "" } else { "?" };
    format!("{list}/{id}{separator}{query}")
}

/// Returns the address of the list of calls with one condition.
pub(super) fn calls_with(key: &str, value: &str) -> String {
    format!("/console/calls?{}", parameter(key, value))
}

/// Returns a query of one parameter.
pub(super) fn parameter(key: &str, value: &str) -> String {
    form_urlencoded::Serializer::new(String::new())
        .append_pair(key, value)
        .finish()
}

/// Returns a query with one more parameter, which needs no escape.
pub(super) fn with_parameter(query: &str, parameter: &str) -> String {
    let separator = if query.is_empty() { "" } else { "&" };
    format!("{query}{separator}{parameter}")
}

/// Returns the line of a rule, with a link to it if the config in use has the rule there.
pub(super) fn config_line(snapshot: &Snapshot, rule: &str, at: &RulePosition) -> Markup {
    let line = line_text(at);
    html! {
        @if snapshot.trace.has_rule(rule, at) {
            a href={ "/console/config#" (line) } { code { (line) } }
        } @else {
            code { (line) } span.muted { " of another config" }
        }
    }
}

/// Returns a line of a config as its file and number.
pub(super) fn line_text(at: &RulePosition) -> String {
    format!("{}:{}", at.file, at.line)
}

/// Returns a text as it is, or a notice if it is too large for a page.
pub(super) fn text_block(text: Option<&str>) -> Markup {
    html! {
        @match text {
            Some(text) => pre tabindex="0" { (text) },
            None => (too_large(MAX_TEXT_BYTES)),
        }
    }
}

/// Returns a notice on a text that is not shown because it has more bytes than this.
pub(super) fn too_large(maximum: usize) -> Markup {
    html! {
        p.problem { "The text is too large for a page: more than " (bytes(maximum as u64)) "." }
    }
}

/// Returns a text whose words in backticks are code.
pub(super) fn with_code(text: &str) -> Markup {
    html! {
        @for (index, piece) in text.split('`').enumerate() {
            @if index % 2 == 1 { code { (piece) } } @else { (piece) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_thing_is_singular() {
        let calls = [0, 1, 2].map(|number| counted(number, "call"));
        assert_eq!(calls, ["0 calls", "1 call", "2 calls"]);
    }

    #[test]
    fn durations_and_sizes_have_the_unit_that_suits_them() {
        let durations = [0, 999, 1_000, 12_345, 999_999, 1_000_000, 61_234_567].map(duration);
        assert_eq!(
            durations,
            [
                "0 µs", "999 µs", "1.0 ms", "12.3 ms", "999.9 ms", "1.00 s", "61.23 s"
            ]
        );
        let sizes = [0, 1023, 1024, 12_595, 1_048_576, 4_718_592].map(bytes);
        assert_eq!(
            sizes,
            ["0 B", "1023 B", "1.0 KiB", "12.2 KiB", "1.0 MiB", "4.5 MiB"]
        );
    }

    #[test]
    fn words_in_backticks_are_code() {
        let shown = with_code("allow `a<b` with `c`").into_string();
        assert_eq!(shown, "allow <code>a&lt;b</code> with <code>c</code>");
    }

    #[test]
    fn addresses_escape_what_agents_choose() {
        assert_eq!(
            item_address("/console/sessions", "../a?b#c", "q=1"),
            "/console/sessions/..%2Fa%3Fb%23c?q=1"
        );
        assert_eq!(
            calls_with("session", "a&b=c"),
            "/console/calls?session=a%26b%3Dc"
        );
    }
}
