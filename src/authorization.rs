//! Values of the header `Authorization`.

const BEARER: &[u8] = b"Bearer";

/// Returns the token in a value of the scheme `Bearer`, whose case does not matter (RFC 9110,
/// section 11.1). `None` for another scheme; the token is empty if there is none.
pub fn bearer_token(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.trim_ascii().split_at_checked(BEARER.len())?;
    let is_bearer = scheme.eq_ignore_ascii_case(BEARER) && matches!(token, [] | [b' ', ..]);
    is_bearer.then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_is_case_insensitive_and_ends_with_a_space() {
        for (value, token) in [
            ("Bearer abc", Some("abc")),
            ("bearer abc", Some("abc")),
            (" BEARER  abc ", Some("abc")),
            ("Bearer", Some("")),
            ("Bearerabc", None),
            ("Basic abc", None),
            ("abc", None),
            ("", None),
        ] {
            let found = bearer_token(value.as_bytes());
            assert_eq!(found, token.map(str::as_bytes), "{value}");
        }
    }
}
