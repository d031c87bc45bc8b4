//! Position in a distributed trace (W3C Trace Context). Pure.

/// Ids of one span.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Trace {
    /// Trace id; 0 if tracing is disabled.
    pub id: u128,
    /// Id of this span.
    pub span: u64,
    /// Id of the parent span; 0 if there is none.
    pub parent: u64,
}

impl Trace {
    /// Returns a span within an agent's `traceparent`; if that is missing or
    /// invalid, the first span of a new trace. `id` and `span` are fresh ids.
    pub fn from_traceparent(traceparent: Option<&str>, id: u128, span: u64) -> Self {
        let (id, parent) = traceparent.and_then(parse).unwrap_or((id, 0));
        Self { id, span, parent }
    }

    /// Returns a child span.
    #[must_use]
    pub const fn child(self, span: u64) -> Self {
        Self {
            id: self.id,
            span,
            parent: self.span,
        }
    }

    /// Returns whether tracing is enabled.
    pub const fn is_enabled(self) -> bool {
        self.id != 0
    }

    /// Returns the `traceparent` header for downstream services.
    pub fn traceparent(self) -> String {
        format!("00-{:032x}-{:016x}-01", self.id, self.span)
    }
}

/// Returns the trace and span id of a version 00 `traceparent`. The sampling flag
/// is ignored.
fn parse(text: &str) -> Option<(u128, u64)> {
    let mut parts = text.split('-');
    let mut part = |length: usize| {
        let part = parts.next()?;
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (part.len() == length && part.bytes().all(is_hex)).then_some(part)
    };
    let (version, id, span, _flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
    if version != "00" || parts.next().is_some() {
        return None;
    }
    let id = u128::from_str_radix(id, 16).ok()?;
    let span = u64::from_str_radix(span, 16).ok()?;
    (id != 0 && span != 0).then_some((id, span))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

    #[test]
    fn an_agents_trace_is_continued() {
        let trace = Trace::from_traceparent(Some(TRACEPARENT), 7, 8);

        assert_eq!((trace.span, trace.parent), (8, 0xb7ad_6b71_6920_3331));
        assert_eq!(
            trace.traceparent(),
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000008-01"
        );
    }

    #[test]
    fn an_invalid_traceparent_starts_a_trace() {
        let fresh = Trace {
            id: 7,
            span: 8,
            parent: 0,
        };
        let invalid = [
            TRACEPARENT.replace("00-0", "01-0"),
            TRACEPARENT.replace("00-0", "ff-0"),
            TRACEPARENT.to_uppercase(),
            format!("{TRACEPARENT}-x"),
            format!(" {TRACEPARENT}"),
            TRACEPARENT.replace("b7ad", "b7a"),
            TRACEPARENT.replace("b7ad", "+7ad"),
            "00-00000000000000000000000000000000-b7ad6b7169203331-01".to_owned(),
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01".to_owned(),
            String::new(),
        ];

        for text in invalid {
            let trace = Trace::from_traceparent(Some(&text), 7, 8);
            assert_eq!(trace, fresh, "{text}");
        }
        assert_eq!(Trace::from_traceparent(None, 7, 8), fresh);
    }
}
