//! Charts as inline SVG, each with a text of the same content.

use maud::{Markup, html};

use super::format::{bytes, duration};
use crate::observe::trace::{CacheEffect, CallRecord, ChunkStrip};

/// Width of all charts in units of their own; the page scales them.
const WIDTH: u64 = 600;

/// Parts of a bar: class of the stylesheet, label and amount of each.
type BarPart = (&'static str, &'static str, u64);

/// Returns the shares of a call's duration as a bar with a legend.
pub(super) fn time_split(call: &CallRecord) -> Markup {
    let times = call.detail.as_ref().map(|detail| detail.times);
    let times = times.unwrap_or_default();
    let known = times.upstream_us + times.hooks_us;
    let rest = call.duration_us.saturating_sub(known);
    let parts = [
        ("a", "model API", times.upstream_us),
        ("b", "policies and hooks", times.hooks_us),
        ("d", "hookgate and connections", rest),
    ];
    html! {
        (bar(&parts, "Shares of the duration"))
        ul.legend {
            @for (class, label, amount) in parts {
                li { (swatch(class)) " " (label) ": " (duration(amount)) }
            }
            li { "bytes of the answer were held back for " (duration(times.held_back_us)) }
            @if let Some(first) = times.first_byte_us { li { "first byte after " (duration(first)) } }
        }
    }
}

/// Returns how much of the prompt cache an edit invalidated.
pub(super) fn cache_meter(effect: &CacheEffect) -> Markup {
    let kept = effect.prefix_bytes.saturating_sub(effect.invalidated_bytes);
    let parts = [
        ("a", "kept", kept),
        ("c", "invalidated", effect.invalidated_bytes),
    ];
    html! {
        (bar(&parts, "Prompt cache of the model API"))
        p {
            @if effect.invalidated_bytes == 0 {
                "The request begins with the " (bytes(effect.prefix_bytes))
                " of the session's last one. No edit invalidated any of it."
            } @else {
                "Edits invalidated " strong { (bytes(effect.invalidated_bytes)) " ("
                (effect.invalidated_percent) " %)" } " of the " (bytes(effect.prefix_bytes))
                " that the model API could take from its cache."
            }
        }
    }
}

/// Returns the chunks of a stream over time: received bytes up, held-back bytes down.
pub(super) fn chunk_strip(strip: &ChunkStrip) -> Markup {
    const HALF_HEIGHT: u64 = 40;
    let (Some(first), Some(last)) = (strip.spans.first(), strip.spans.last()) else {
        return html! {};
    };
    let start = first.from_us;
    let total = u64::from(last.to_us.saturating_sub(start)).max(1);
    let spans = || strip.spans.iter();
    let max_received = spans().map(|span| span.received_bytes).max();
    let max_held = spans().map(|span| span.held_bytes).max();
    let scaled = |amount: u32, max: Option<u32>| {
        u64::from(amount) * HALF_HEIGHT / u64::from(max.unwrap_or_default().max(1))
    };
    let x = |at: u32| u64::from(at.saturating_sub(start)) * (WIDTH - 4) / total;
    let label = format!(
        "{} chunks in {}, {} received, at most {} held back, {} edited",
        strip.chunks,
        duration(total),
        bytes(strip.received_bytes),
        bytes(strip.max_held_bytes),
        strip.edited
    );
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (2 * HALF_HEIGHT + 2) } width=(WIDTH) height=(2 * HALF_HEIGHT + 2)
            role="img" aria-label=(label) {
            line.axis x1="0" y1=(HALF_HEIGHT) x2=(WIDTH) y2=(HALF_HEIGHT) {}
            @for span in spans() {
                @let received = scaled(span.received_bytes, max_received).max(1);
                @let width = (x(span.to_us) - x(span.from_us)).max(3);
                rect class=(if span.edited > 0 { "c" } else { "a" }) x=(x(span.from_us))
                    y=(HALF_HEIGHT - received) width=(width) height=(received) {}
                rect.b x=(x(span.from_us)) y=(HALF_HEIGHT + 1) width=(width)
                    height=(scaled(span.held_bytes, max_held)) {}
            }
        }
        p { (label) "." }
        ul.legend {
            li { (swatch("a")) " received (up)" }
            li { (swatch("c")) " received and edited (up)" }
            li { (swatch("b")) " held back (down)" }
        }
    }
}

fn bar(parts: &[BarPart], label: &str) -> Markup {
    let amounts = parts.iter().map(|(_, _, amount)| amount);
    let total = amounts.sum::<u64>().max(1);
    let mut start = 0;
    let rects = parts.iter().map(|(class, _, amount)| {
        let width = amount.saturating_mul(WIDTH) / total;
        let x = start;
        start += width;
        (x, width, class)
    });
    html! {
        svg viewBox={ "0 0 " (WIDTH) " 20" } width=(WIDTH) height="20" role="img"
            aria-label=(label) {
            @for (x, width, class) in rects { rect class=(class) x=(x) y="0" width=(width) height="20" {} }
            rect.outline x="0.5" y="0.5" width=(WIDTH - 1) height="19" {}
        }
    }
}

/// Returns the colour of a legend's entry. Shares are also written as numbers.
fn swatch(class: &str) -> Markup {
    html! {
        svg viewBox="0 0 12 12" width="12" height="12" aria-hidden="true" {
            rect class=(class) width="12" height="12" {}
        }
    }
}
