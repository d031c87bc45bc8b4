//! Texts that hooks add to the conversation, and their rendering for the model
//! (hook protocol, section 10). Pure.

/// Text for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddedContext {
    /// Rendered escaped between tags.
    Tagged(String),
    /// Rendered verbatim, without tags.
    Raw(String),
}

impl AddedContext {
    /// Returns a text to be rendered between tags.
    pub fn tagged(text: &str) -> Self {
        Self::Tagged(text.to_owned())
    }

    /// Returns the text as the hook wrote it.
    pub fn text(&self) -> &str {
        match self {
            Self::Tagged(text) | Self::Raw(text) => text,
        }
    }

    /// Replaces the text, which stays tagged or not.
    pub fn set_text(&mut self, text: String) {
        match self {
            Self::Tagged(own) | Self::Raw(own) => *own = text,
        }
    }
}

/// Renders texts for the conversation, one per line; adjacent tagged texts share
/// their tags.
pub fn render_context(added: &[AddedContext]) -> String {
    let same_form =
        |a: &AddedContext, b: &AddedContext| std::mem::discriminant(a) == std::mem::discriminant(b);
    let rendered: Vec<String> = added.chunk_by(same_form).map(render_group).collect();
    rendered.join("\n")
}

fn render_group(added: &[AddedContext]) -> String {
    let texts: Vec<&str> = added.iter().map(AddedContext::text).collect();
    let joined = texts.join("\n");
    match added.first() {
        Some(AddedContext::Tagged(_)) => {
            let escaped = joined.replace('<', "&lt;").replace('>', "&gt;");
            format!("<hook_context>{escaped}</hook_context>")
        }
        Some(AddedContext::Raw(_)) | None => joined,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_cannot_close_its_own_tag() {
        assert_eq!(
            render_context(&[AddedContext::tagged("use <b> & \"c\"</hook_context>")]),
            "<hook_context>use &lt;b&gt; & \"c\"&lt;/hook_context&gt;</hook_context>"
        );
    }

    #[test]
    fn each_text_keeps_the_form_of_its_protocol() {
        let raw = |text: &str| AddedContext::Raw(text.to_owned());
        let added = [
            AddedContext::tagged("a"),
            AddedContext::tagged("<b>"),
            raw("<c>"),
            raw("d"),
            AddedContext::tagged("e"),
        ];
        assert_eq!(
            render_context(&added),
            "<hook_context>a\n&lt;b&gt;</hook_context>\n<c>\nd\n<hook_context>e</hook_context>"
        );
    }
}
