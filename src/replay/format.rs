//! Forms of the report: text, JSON, `JUnit`, Markdown, HTML. Pure.

mod html;
mod junit;
mod markdown;
mod rows;
mod text;

pub use self::html::report as html_report;
use super::{fail_on::FailCondition, report::ReplayReport};

/// Form of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ReportFormat {
    /// Text for a terminal.
    Text,
    /// The report as one JSON object.
    Json,
    /// A test suite, as CI systems read it.
    Junit,
    /// Markdown for a pull request.
    Markdown,
    /// A page that needs nothing else.
    Html,
}

/// Returns the report in a form.
pub fn render(
    report: &ReplayReport,
    format: ReportFormat,
    condition: Option<&FailCondition>,
) -> String {
    match format {
        ReportFormat::Text => text::report(report),
        // A struct of strings and numbers always becomes JSON.
        ReportFormat::Json => serde_json::to_string_pretty(report).unwrap_or_default(),
        ReportFormat::Junit => junit::report(report, condition),
        ReportFormat::Markdown => markdown::report(report),
        ReportFormat::Html => html_report(report).into_string(),
    }
}
