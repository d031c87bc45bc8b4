//! The config in use, the revisions before it, and their differences.

use std::{iter, sync::Arc, time::Duration};

use jiff::Timestamp;
use serde::Serialize;
use similar::{Change, ChangeTag, TextDiff};
use utoipa::ToSchema;

use crate::{
    config::Config,
    error::{ApiError, ErrorReason},
    state::{ActiveRevision, App, ReloadError, Snapshot},
    timestamp::rfc3339,
};

/// Time after which a difference may be coarser than the smallest one.
const DIFF_TIMEOUT: Duration = Duration::from_millis(500);

/// Separates a line from the hash of its masked values. YAML cannot contain it.
const HASH_SEPARATOR: char = '\0';

/// Unchanged lines around each change.
const CONTEXT_LINES: usize = 3;

/// The config in use, without secrets.
#[derive(Debug, Serialize, ToSchema)]
pub struct ConfigView {
    /// Version of the config, as in the decision log.
    pub version: String,
    /// Version of the config file, if a promoted revision is in use instead of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_version: Option<String>,
    /// Sections with defaults filled in, those of settings files last.
    pub sections: Vec<SectionView>,
    /// Settings that are valid but probably not intended.
    pub warnings: Vec<String>,
    /// Settings that a reload has changed, and that take effect at the next start only.
    pub needs_restart: Vec<&'static str>,
    /// Configs that are or were in use, newest first. Of many, the last ones.
    pub revisions: Vec<RevisionView>,
    /// Rollout of another config, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutView>,
    /// Bundles whose policies are in use, the organisation's first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bundles: Vec<BundleView>,
    /// The last reload, if its config was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<RefusedView>,
}

/// One section of the config, without secrets.
#[derive(Debug, Serialize, ToSchema)]
pub struct SectionView {
    /// Name of the section.
    pub name: String,
    /// File and line where it is written, `command line` or `default`.
    pub origin: String,
    /// The section as YAML.
    pub yaml: String,
    /// Origin of each line of `yaml`: file and line, `command line` or `default`; empty if they
    /// are unknown.
    pub line_origins: Vec<String>,
}

/// A config that is or was in use.
#[derive(Debug, Serialize, ToSchema)]
pub struct RevisionView {
    /// Number of the revision since the start, newest first from 0.
    pub number: usize,
    /// Version of the config, as in the decision log.
    pub version: String,
    /// Time since which it is or was in use: RFC 3339 in UTC.
    pub applied: String,
    /// Reason why it was loaded: `start`, `signal`, `file change`, `bundle`,
    /// `user NAME`, `promotion by NAME` or `rollback by NAME`.
    pub cause: String,
}

/// A config that is or was in use, kept as files.
#[derive(Debug, Serialize, ToSchema)]
pub struct StoredRevisionView {
    /// Version of the config, as in the decision log.
    pub version: String,
    /// Time at which it was last taken into use: RFC 3339 in UTC. Empty if it is damaged.
    pub applied: String,
    /// Reason why it was taken into use; empty if it is damaged.
    pub cause: String,
    /// `in use`, `previous` for that of a rollback, or empty.
    pub state: &'static str,
    /// True if it is that of the config file.
    pub is_file: bool,
    /// Reason why its file cannot be read, if it is damaged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
}

/// Rollout of another config to a share of the sessions.
#[derive(Debug, Serialize, ToSchema)]
pub struct RolloutView {
    /// Version that is rolled out.
    pub to: String,
    /// Share of the sessions under it, in percent.
    pub percent: u8,
    /// True if a difference of the two configs has ended the rollout.
    pub is_aborted: bool,
    /// True if the next step waits until each config has 200 calls since the last one.
    pub awaits_comparison: bool,
    /// Calls since the last step: of the config in use, and of the other.
    pub arms: Vec<RolloutArmView>,
}

/// Calls of one config of a rollout since the last step.
#[derive(Debug, Serialize, ToSchema)]
pub struct RolloutArmView {
    /// Version of the config.
    pub version: String,
    /// Calls and reported events.
    pub calls: u64,
    /// Those that were denied or stopped.
    pub denied: u64,
    /// Those in which a hook failed.
    pub hook_failures: u64,
}

/// A bundle whose policies are in use.
#[derive(Debug, Serialize, ToSchema)]
pub struct BundleView {
    /// Name of the bundle in `source`.
    pub name: String,
    /// Revision of the bundle.
    pub revision: String,
    /// Time at which it was built: RFC 3339 in UTC.
    pub created: String,
    /// SHA-256 of its manifest.
    pub digest: String,
    /// Time of the last response of its server: RFC 3339 in UTC.
    pub checked: Option<String>,
    /// Reason why it may not be the bundle of its server.
    pub error: Option<String>,
}

/// A config that was refused.
#[derive(Debug, Serialize, ToSchema)]
pub struct RefusedView {
    /// Time of the attempt: RFC 3339 in UTC.
    pub time: String,
    /// Reason of the attempt.
    pub cause: String,
    /// Every problem of the config, with its position.
    pub problems: Vec<String>,
}

/// The difference of two revisions.
#[derive(Debug, Serialize, ToSchema)]
pub struct ConfigDiff {
    /// Version of the older config.
    pub from: String,
    /// Version of the newer config.
    pub to: String,
    /// Changed lines in the unified format; empty if there are none. A line whose only change is
    /// a masked value ends with ` (changed)`.
    pub diff: String,
}

/// Returns the config in use.
pub fn current(app: &App) -> ConfigView {
    let snapshot = app.snapshot();
    let masked = |text: String| app.resources.trace.contents.masked_text(&text);
    let sections = snapshot.config.document.sections().iter().map(|section| {
        let yaml = masked(section.yaml());
        SectionView {
            name: section.name.clone(),
            origin: section.origin(),
            line_origins: section.line_origins(&yaml),
            yaml,
        }
    });
    let refused = app.refused_reload().map(|refused| {
        let problems = masked(refused.error.to_string());
        RefusedView {
            time: rfc3339(refused.time),
            cause: refused.cause.to_string(),
            problems: problems.lines().map(str::to_owned).collect(),
        }
    });
    let warnings = snapshot.warnings().into_iter();
    // A promoted revision may be in use instead of the file.
    let promoted = app.active_revision();
    let promoted = promoted.filter(|active| active.file != active.revision);
    ConfigView {
        version: snapshot.config.version.clone(),
        file_version: promoted.map(|active| active.file),
        sections: sections.collect(),
        warnings: warnings
            .map(|warning| masked(warning.to_string()))
            .collect(),
        needs_restart: app.settings_for_restart(),
        revisions: revisions(app),
        rollout: rollout(&snapshot),
        bundles: bundles(app),
        refused,
    }
}

/// Returns the configs that are or were in use, newest first.
pub fn revisions(app: &App) -> Vec<RevisionView> {
    let revisions = (0..).zip(app.revisions());
    let views = revisions.map(|(number, revision)| RevisionView {
        number,
        version: revision.config.version.clone(),
        applied: rfc3339(revision.applied),
        cause: revision.cause.to_string(),
    });
    views.collect()
}

/// Returns the time since which the config is in use.
pub fn applied(app: &App) -> Option<Timestamp> {
    app.revisions().first().map(|revision| revision.applied)
}

/// Returns the stored configs: that in use first, the others by their time, newest first, damaged
/// ones last. Blocks.
///
/// # Errors
///
/// Fails if none are kept, or if their folder cannot be read.
pub fn history(app: &App) -> Result<Vec<StoredRevisionView>, ReloadError> {
    let stored = app.stored_revisions()?;
    let active = app.active_revision();
    let view = |version| stored_revision(version, active.as_ref());
    let revisions = stored.revisions.into_iter();
    let revisions = revisions.map(|revision| StoredRevisionView {
        applied: revision.applied,
        cause: revision.cause,
        ..view(revision.version)
    });
    let damaged = stored.damaged.into_iter();
    let damaged = damaged.map(|(version, error)| StoredRevisionView {
        damage: Some(error.to_string()),
        ..view(version)
    });
    Ok(revisions.chain(damaged).collect())
}

/// Returns a stored config that has only its version and state.
fn stored_revision(version: String, active: Option<&ActiveRevision>) -> StoredRevisionView {
    let is = |other: &String| *other == version;
    let state = match active {
        Some(active) if is(&active.revision) => "in use",
        Some(active) if active.previous.as_ref().is_some_and(is) => "previous",
        _ => "",
    };
    StoredRevisionView {
        is_file: active.is_some_and(|active| is(&active.file)),
        state,
        version,
        applied: String::new(),
        cause: String::new(),
        damage: None,
    }
}

/// Returns the difference of two revisions, each by its number or its version. Blocks.
///
/// # Errors
///
/// Fails if one does not exist, or cannot be loaded.
pub fn diff(app: &App, from: &str, to: &str) -> Result<ConfigDiff, ApiError> {
    let find = |revision: &str| {
        let revisions = app.revisions();
        let number = revision.parse().ok();
        match number.and_then(|number: usize| revisions.get(number)) {
            Some(revision) => Ok(Arc::clone(&revision.config)),
            None => app
                .config_of(revision)
                .map_err(|error| ApiError::new(ErrorReason::BadQuery, error.to_string())),
        }
    };
    let (from, to) = (find(from)?, find(to)?);
    Ok(ConfigDiff {
        from: from.version.clone(),
        to: to.version.clone(),
        diff: unified_diff(&compared_text(app, &from), &compared_text(app, &to)),
    })
}

/// Returns the config as YAML, with the hash of the masked values of a line behind it.
fn compared_text(app: &App, config: &Config) -> String {
    let sections = config.document.sections().iter().map(|section| {
        let yaml = app.resources.trace.contents.masked_text(&section.yaml());
        let hashes = section.masked_value_hashes(&yaml).into_iter();
        let hashes = hashes.chain(iter::repeat(String::new()));
        let lines = yaml.lines().zip(hashes);
        let lines = lines.map(|(line, hash)| format!("{line}{HASH_SEPARATOR}{hash}\n"));
        lines.collect::<Vec<String>>().concat()
    });
    sections.collect::<Vec<String>>().join("\n")
}

/// Compares two texts of `compared_text`. The hashes are not in the result.
fn unified_diff(old: &str, new: &str) -> String {
    let mut differ = TextDiff::configure();
    let diff = differ.timeout(DIFF_TIMEOUT).diff_lines(old, new);
    let mut unified = diff.unified_diff();
    let hunks = unified.context_radius(CONTEXT_LINES).iter_hunks();
    let lines = hunks.flat_map(|hunk| {
        let changes: Vec<Change<&str>> = hunk.iter_changes().collect();
        let lines = changes.iter().map(|change| {
            let note = if differs_in_masked_value(change, &changes) {
                " (changed)"
            } else {
                ""
            };
            format!("{}{}{note}\n", change.tag(), shown_line(change).0)
        });
        let header = format!("{}\n", hunk.header());
        iter::once(header).chain(lines).collect::<Vec<String>>()
    });
    lines.collect::<Vec<String>>().concat()
}

/// Returns whether `change` removes or adds a line that another of `changes` adds or removes
/// with another masked value.
fn differs_in_masked_value(change: &Change<&str>, changes: &[Change<&str>]) -> bool {
    let (line, hash) = shown_line(change);
    let is_counterpart = |other: &Change<&str>| {
        let (other_line, other_hash) = shown_line(other);
        let is_opposite = other.tag() != ChangeTag::Equal && other.tag() != change.tag();
        is_opposite && other_line == line && other_hash != hash
    };
    let may_differ = change.tag() != ChangeTag::Equal && !hash.is_empty();
    may_differ && changes.iter().any(is_counterpart)
}

/// Returns a line as it is shown, and the hash behind it.
fn shown_line<'a>(change: &Change<&'a str>) -> (&'a str, &'a str) {
    let line = change.value().trim_end_matches('\n');
    line.split_once(HASH_SEPARATOR).unwrap_or((line, ""))
}

fn rollout(snapshot: &Snapshot) -> Option<RolloutView> {
    let (to, status) = snapshot.rollout_status()?;
    let versions = [snapshot.config.version.as_str(), to].into_iter();
    let arms = versions.zip(status.denied).zip(status.hook_failures);
    let arms = arms.map(|((version, denied), failures)| RolloutArmView {
        version: version.to_owned(),
        calls: denied.of,
        denied: denied.count,
        hook_failures: failures.count,
    });
    Some(RolloutView {
        to: to.to_owned(),
        percent: status.share,
        is_aborted: status.is_aborted,
        awaits_comparison: status.awaits_comparison,
        arms: arms.collect(),
    })
}

/// Returns the bundles in use, the organisation's first.
fn bundles(app: &App) -> Vec<BundleView> {
    let snapshot = app.snapshot();
    let bundles = snapshot.config.layers.iter().filter_map(|layer| {
        let manifest = layer.bundle.as_ref()?.bundle().manifest();
        let status = app.resources.bundles.get(&layer.name);
        Some(BundleView {
            name: layer.name.clone(),
            revision: manifest.revision.to_string(),
            created: rfc3339(manifest.created),
            digest: layer.digest.clone(),
            checked: status.checked.map(rfc3339),
            error: status.error().map(str::to_owned),
        })
    });
    bundles.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_a_masked_value_is_shown_without_its_hash() {
        let text = |lines: &[(&str, &str)]| {
            let lines = lines.iter();
            let lines = lines.map(|(line, hash)| format!("{line}{HASH_SEPARATOR}{hash}\n"));
            lines.collect::<Vec<String>>().concat()
        };
        let old = text(&[("a: 1", ""), ("b: \"***\"", "h1"), ("c: \"***\"", "h2")]);
        let new = text(&[("a: 1", ""), ("b: \"***\"", "h3"), ("d: \"***\"", "h4")]);

        let diff = unified_diff(&old, &new);

        let expected = [
            "@@ -1,3 +1,3 @@",
            " a: 1",
            "-b: \"***\" (changed)",
            "-c: \"***\"",
            "+b: \"***\" (changed)",
            "+d: \"***\"",
            "",
        ];
        assert_eq!(diff, expected.join("\n"));
        assert_eq!(unified_diff(&old, &old), "");
    }
}
