//! Charts as inline SVG, each with a text of the same content.

use maud::{Markup, html};

use super::format::{bytes, counted, duration};
use crate::observe::trace::{CacheEffect, CallRecord, ChunkSpan, ChunkStrip};

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

/// Returns the chunks of a stream over time: received bytes up, held-back bytes down, and a mark
/// above those that were changed or whose text moved to a later one.
pub(super) fn chunk_strip(strip: &ChunkStrip) -> Markup {
    const HALF_HEIGHT: u64 = 40;
    const MARK_HEIGHT: u64 = 8;
    const AXIS: u64 = MARK_HEIGHT + HALF_HEIGHT;
    const HEIGHT: u64 = AXIS + HALF_HEIGHT + 2;
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
        "{} in {}, {} received, at most {} held back, {} changed or moved",
        counted(strip.chunks, "chunk"),
        duration(total),
        bytes(strip.received_bytes),
        bytes(strip.max_held_bytes),
        strip.edited
    );
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } width=(WIDTH) height=(HEIGHT)
            role="img" aria-label=(label) {
            line.axis x1="0" y1=(AXIS) x2=(WIDTH) y2=(AXIS) {}
            @for span in spans() {
                @let received = scaled(span.received_bytes, max_received).max(1);
                @let (left, width) = (x(span.from_us), (x(span.to_us) - x(span.from_us)).max(3));
                g {
                    title { (span_text(span, start)) }
                    rect class=(if span.edited > 0 { "c" } else { "a" }) x=(left)
                        y=(AXIS - received) width=(width) height=(received) {}
                    rect.b x=(left) y=(AXIS + 1) width=(width)
                        height=(scaled(span.held_bytes, max_held)) {}
                    @if span.edited > 0 { (edit_mark(left + width / 2)) }
                }
            }
        }
        p { (label) "." }
        ul.legend {
            li { (swatch("a")) " received (up)" }
            li { (swatch("c")) " received, and changed or moved to a later chunk (up, with a mark ▼ above)" }
            li { (swatch("b")) " held back (down)" }
        }
    }
}

/// Returns a triangle at the upper edge of the strip, that points down to `x`.
fn edit_mark(x: u64) -> Markup {
    let x = x.max(4);
    html! { path.c.mark d={ "M" (x - 4) " 0h8l-4 6z" } {} }
}

/// Returns what a span of the strip shows.
fn span_text(span: &ChunkSpan, start: u32) -> String {
    let from = duration(u64::from(span.from_us.saturating_sub(start)));
    let text = format!(
        "after {from}: {}, {} received, {} held back",
        counted(span.chunks, "chunk"),
        bytes(span.received_bytes.into()),
        bytes(span.held_bytes.into()),
    );
    match span.edited {
        0 => text,
        edited => format!("{text}, {edited} changed or moved"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_chunks_have_a_mark_and_a_text_beside_their_colour() {
        let span = |from_us, edited| ChunkSpan {
            from_us,
            to_us: from_us,
            chunks: 1,
            received_bytes: 10,
            held_bytes: 0,
            edited,
        };
        let mut strip = ChunkStrip::default();
        strip.push(span(0, 0));
        strip.push(span(50_000, 1));

        let svg = chunk_strip(&strip).into_string();

        assert_eq!(svg.matches("class=\"c mark\"").count(), 1, "{svg}");
        let texts = [
            "<title>after 0 µs: 1 chunk, 10 B received, 0 B held back</title>",
            "<title>after 50.0 ms: 1 chunk, 10 B received, 0 B held back, 1 changed or moved</title>",
        ];
        for text in texts {
            assert!(svg.contains(text), "{text}: {svg}");
        }
    }
}
