//! The config in use, the revisions before it, and their differences.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use similar::TextDiff;
use utoipa::ToSchema;

use super::timestamp::rfc3339;
use crate::state::{App, ConfigRevision};

/// Time after which a difference may be coarser than the smallest one.
const DIFF_TIMEOUT: Duration = Duration::from_millis(500);

/// Unchanged lines around each change.
const CONTEXT_LINES: usize = 3;

/// The config in use, without secrets.
#[derive(Debug, Serialize, ToSchema)]
pub struct ConfigView {
    /// Version of the config, as in the decision log.
    pub version: String,
    /// Sections with defaults filled in, those of settings files last.
    pub sections: Vec<SectionView>,
    /// Settings that are valid but probably not intended.
    pub warnings: Vec<String>,
    /// Configs that are or were in use, newest first. Of many, the last ones.
    pub revisions: Vec<RevisionView>,
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
    /// Reason why it was loaded: `start`, `signal`, `file change` or `user NAME`.
    pub cause: String,
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
    /// Changed lines in the unified format; empty if there are none.
    pub diff: String,
}

/// Returns the config in use.
pub fn current(app: &App) -> ConfigView {
    let snapshot = app.snapshot();
    let sections = snapshot.config.document.sections().iter();
    let sections = sections.map(|section| {
        let yaml = app.resources.trace.masked_text(&section.yaml());
        SectionView {
            name: section.name.clone(),
            origin: section.origin(),
            line_origins: section.line_origins(&yaml),
            yaml,
        }
    });
    let refused = app.refused_reload().map(|refused| RefusedView {
        time: rfc3339(refused.time),
        cause: refused.cause.to_string(),
        problems: refused
            .error
            .to_string()
            .lines()
            .map(str::to_owned)
            .collect(),
    });
    ConfigView {
        version: snapshot.config.version.clone(),
        sections: sections.collect(),
        warnings: snapshot
            .config
            .warnings
            .iter()
            .map(ToString::to_string)
            .collect(),
        revisions: revisions(app),
        refused,
    }
}

/// Returns the configs that are or were in use, newest first.
pub fn revisions(app: &App) -> Vec<RevisionView> {
    (0..).zip(&app.revisions()).map(revision).collect()
}

/// Returns the time since which the config is in use.
pub fn applied(app: &App) -> Option<Timestamp> {
    app.revisions().first().map(|revision| revision.applied)
}

/// Returns the difference of two revisions by their numbers; `None` if one does not exist.
pub fn diff(app: &App, from: usize, to: usize) -> Option<ConfigDiff> {
    let revisions = app.revisions();
    let (from, to) = (revisions.get(from)?, revisions.get(to)?);
    let masked = |revision: &ConfigRevision| {
        let yaml = revision.config.document.to_yaml();
        app.resources.trace.masked_text(&yaml)
    };
    let (old, new) = (masked(from), masked(to));
    let changes = TextDiff::configure()
        .timeout(DIFF_TIMEOUT)
        .diff_lines(&old, &new);
    let diff = changes
        .unified_diff()
        .context_radius(CONTEXT_LINES)
        .to_string();
    Some(ConfigDiff {
        from: from.config.version.clone(),
        to: to.config.version.clone(),
        diff,
    })
}

fn revision((number, revision): (usize, &ConfigRevision)) -> RevisionView {
    RevisionView {
        number,
        version: revision.config.version.clone(),
        applied: rfc3339(revision.applied),
        cause: revision.cause.to_string(),
    }
}
