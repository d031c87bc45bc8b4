//! Callers that show a certificate. Pure.

use crate::config::CertificateName;

/// The names in a certificate that was found good.
#[derive(Debug, Clone, Copy)]
pub struct Certificate<'a> {
    /// The common name of its subject.
    pub common_name: Option<&'a str>,
    /// Its alternative names.
    pub alternative_names: &'a [String],
}

/// The longest name of a caller, in bytes.
pub(super) const LONGEST_NAME: usize = 256;

impl<'a> Certificate<'a> {
    /// The name that counts, if it is let in.
    pub(super) fn name(self, which: CertificateName, allow: Option<&[String]>) -> Option<&'a str> {
        let allowed =
            |it: &&str| is_name(it) && allow.is_none_or(|all| all.iter().any(|one| one == it));
        match which {
            CertificateName::CommonName => self.common_name.filter(allowed),
            CertificateName::AlternativeName => {
                let mut names = self.alternative_names.iter().map(String::as_str);
                names.find(allowed)
            }
        }
    }
}

/// Whether a caller can be called so: it stands in logs.
pub(super) fn is_name(text: &str) -> bool {
    (1..=LONGEST_NAME).contains(&text.len()) && !text.chars().any(char::is_control)
}
