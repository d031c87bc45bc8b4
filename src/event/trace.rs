//! Which trace a request belongs to, by the ids of W3C Trace Context. Pure.

/// One span of a trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Trace {
    /// Of the whole trace; 0 if nothing is traced.
    pub id: u128,
    /// Of this span.
    pub span: u64,
    /// Of the span that it belongs to; 0 if there is none.
    pub parent: u64,
}

impl Trace {
    /// A span within what an agent sends as `traceparent`; if that is none, the
    /// first of a trace of its own. `id` and `span` are fresh ones.
    pub fn of_agent(traceparent: Option<&str>, id: u128, span: u64) -> Self {
        match traceparent.and_then(read) {
            Some((id, parent)) => Self { id, span, parent },
            None => Self {
                id,
                span,
                parent: 0,
            },
        }
    }

    /// A span within this one.
    #[must_use]
    pub const fn child(self, span: u64) -> Self {
        Self {
            id: self.id,
            span,
            parent: self.span,
        }
    }

    /// Whether anything is traced.
    pub const fn is_on(self) -> bool {
        self.id != 0
    }

    /// What others are sent, who go on with it.
    pub fn traceparent(self) -> String {
        format!("00-{:032x}-{:016x}-01", self.id, self.span)
    }
}

/// The ids in a `traceparent` of the version that there is. Its flags are the
/// agent's wish, and nobody here asks for them.
fn read(text: &str) -> Option<(u128, u64)> {
    let mut parts = text.split('-');
    let mut part = |length: usize| {
        let part = parts.next()?;
        let hex = |it: u8| it.is_ascii_digit() || (b'a'..=b'f').contains(&it);
        (part.len() == length && part.bytes().all(hex)).then_some(part)
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

    const AGENTS: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

    #[test]
    fn what_an_agent_began_goes_on() {
        let trace = Trace::of_agent(Some(AGENTS), 7, 8);

        assert_eq!((trace.span, trace.parent), (8, 0xb7ad_6b71_6920_3331));
        assert_eq!(
            trace.traceparent(),
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000008-01"
        );
    }

    #[test]
    fn what_is_no_id_begins_a_trace() {
        let fresh = Trace {
            id: 7,
            span: 8,
            parent: 0,
        };
        let odd = [
            AGENTS.replace("00-0", "01-0"),
            AGENTS.replace("00-0", "ff-0"),
            AGENTS.to_uppercase(),
            format!("{AGENTS}-x"),
            format!(" {AGENTS}"),
            AGENTS.replace("b7ad", "b7a"),
            AGENTS.replace("b7ad", "+7ad"),
            "00-00000000000000000000000000000000-b7ad6b7169203331-01".to_owned(),
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01".to_owned(),
            String::new(),
        ];

        for odd in odd {
            assert_eq!(Trace::of_agent(Some(&odd), 7, 8), fresh, "{odd}");
        }
        assert_eq!(Trace::of_agent(None, 7, 8), fresh);
    }
}
