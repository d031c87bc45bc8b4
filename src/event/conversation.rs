//! What hooks add to the conversation, and how it stands there (hook protocol,
//! section 10). Pure.

/// A text for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Added {
    /// It stands between tags, and cannot close them.
    Tagged(String),
    /// It stands as it is.
    Raw(String),
}

impl Added {
    /// A text that stands between tags.
    pub fn tagged(text: &str) -> Self {
        Self::Tagged(text.to_owned())
    }

    /// The text as the hook wrote it.
    pub fn text(&self) -> &str {
        match self {
            Self::Tagged(text) | Self::Raw(text) => text,
        }
    }
}

/// The texts as they stand in the conversation, line by line; neighbours share
/// their tags.
pub fn render(added: &[Added]) -> String {
    let alike = |a: &Added, b: &Added| {
        matches!(
            (a, b),
            (Added::Tagged(_), Added::Tagged(_)) | (Added::Raw(_), Added::Raw(_))
        )
    };
    let rendered: Vec<String> = added.chunk_by(alike).map(render_alike).collect();
    rendered.join("\n")
}

fn render_alike(added: &[Added]) -> String {
    let texts: Vec<&str> = added.iter().map(Added::text).collect();
    let joined = texts.join("\n");
    match added.first() {
        Some(Added::Tagged(_)) => {
            let escaped = joined.replace('<', "&lt;").replace('>', "&gt;");
            format!("<hook_context>{escaped}</hook_context>")
        }
        Some(Added::Raw(_)) | None => joined,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_cannot_close_its_own_tag() {
        assert_eq!(
            render(&[Added::tagged("use <b> & \"c\"</hook_context>")]),
            "<hook_context>use &lt;b&gt; & \"c\"&lt;/hook_context&gt;</hook_context>"
        );
    }

    #[test]
    fn each_text_keeps_the_form_of_its_family() {
        let raw = |it: &str| Added::Raw(it.to_owned());
        let added = [
            Added::tagged("a"),
            Added::tagged("<b>"),
            raw("<c>"),
            raw("d"),
            Added::tagged("e"),
        ];
        assert_eq!(
            render(&added),
            "<hook_context>a\n&lt;b&gt;</hook_context>\n<c>\nd\n<hook_context>e</hook_context>"
        );
    }
}
