//! Expected outcome of a case, and its comparison with the actual outcome.

use super::stage::Stage;

/// Outcome that a guard must produce for a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expectation {
    /// Deny it on at least one event.
    Deny,
    /// Deny it on no event.
    Allow,
    /// Edit it, without denying it.
    Mask,
}

/// Actual outcome of a case that differs from the expected one.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Mismatch {
    /// Selection skipped the guard on every event.
    NotSelected,
    /// The guard ran, and this came of it.
    Found(String),
}

impl Expectation {
    /// Returns the verb in messages.
    pub(super) const fn verb(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Allow => "allow",
            Self::Mask => "mask",
        }
    }

    /// Compares the stages of a case. A run that failed proves nothing, even if the
    /// guard fails closed.
    ///
    /// # Errors
    ///
    /// Returns what the guard did instead.
    pub(super) fn verify(self, stages: &[Stage], secret: Option<&str>) -> Result<(), Mismatch> {
        let found = |what: &str| Err(Mismatch::Found(what.to_owned()));
        let ran = || stages.iter().filter(|stage| stage.has_run());
        if let Some(failure) = ran().find_map(|stage| stage.failure.as_deref()) {
            return Err(Mismatch::Found(format!("failed: {failure}")));
        }
        let is_selected = ran().next().is_some();
        let is_denied = ran().any(|stage| stage.is_denied);
        match self {
            Self::Deny if is_denied => Ok(()),
            Self::Allow if !is_denied => Ok(()),
            Self::Deny | Self::Mask if !is_selected => Err(Mismatch::NotSelected),
            Self::Deny => found(&with_diagnostic("allowed it", stages)),
            Self::Allow => found("denied it"),
            Self::Mask => {
                let is_left = |stage: &Stage| secret.is_some_and(|secret| stage.contains(secret));
                let mut edited = ran().filter(|stage| stage.is_edited);
                match edited.clone().next() {
                    None if is_denied => found("denied it"),
                    None => found(&with_diagnostic("left it unchanged", stages)),
                    Some(_) if edited.any(is_left) => found("left the secret in it"),
                    Some(_) => Ok(()),
                }
            }
        }
    }
}

/// Adds the first diagnostic of the guard's output.
fn with_diagnostic(what: &str, stages: &[Stage]) -> String {
    let mut stages = stages.iter();
    match stages.find_map(|stage| stage.diagnostic.as_deref()) {
        Some(diagnostic) => format!("{what} ({diagnostic})"),
        None => what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{event::EventName, proof::stage::GuardSelection};

    fn ran() -> Stage {
        Stage {
            selection: GuardSelection::Ran,
            ..Stage::new(EventName::BeforeModel)
        }
    }

    #[test]
    fn a_denial_on_any_event_is_a_denial() {
        let denied = Stage {
            is_denied: true,
            ..ran()
        };
        let stages = [ran(), denied];

        assert_eq!(Expectation::Deny.verify(&stages, None), Ok(()));
        let found = Expectation::Allow.verify(&stages, None);
        assert_eq!(found, Err(Mismatch::Found("denied it".to_owned())));
    }

    #[test]
    fn a_failed_run_proves_nothing() {
        let failed = Stage {
            is_denied: true,
            failure: Some("timed out".to_owned()),
            ..ran()
        };

        for expectation in [Expectation::Deny, Expectation::Allow, Expectation::Mask] {
            let found = expectation.verify(std::slice::from_ref(&failed), None);
            assert_eq!(found, Err(Mismatch::Found("failed: timed out".to_owned())));
        }
    }

    #[test]
    fn a_guard_that_is_not_selected_allows() {
        let skipped = [Stage::new(EventName::BeforeModel)];

        assert_eq!(Expectation::Allow.verify(&skipped, None), Ok(()));
        for expectation in [Expectation::Deny, Expectation::Mask] {
            let found = expectation.verify(&skipped, None);
            assert_eq!(found, Err(Mismatch::NotSelected));
        }
    }

    #[test]
    fn a_secret_must_be_gone_where_the_guard_edits() {
        let unedited = Stage {
            content: "ann@example.com".to_owned(),
            ..ran()
        };
        let masked = Stage {
            is_edited: true,
            content: "[EMAIL]".to_owned(),
            ..ran()
        };
        let secret = Some("ann@example.com");

        let found = Expectation::Mask.verify(&[unedited, masked], secret);
        assert_eq!(found, Ok(()));
        let left = Stage {
            is_edited: true,
            content: "for ann@example.com".to_owned(),
            ..ran()
        };
        let found = Expectation::Mask.verify(&[left], secret);
        let expected = Mismatch::Found("left the secret in it".to_owned());
        assert_eq!(found, Err(expected));
    }
}
