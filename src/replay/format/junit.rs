//! The report as a test suite of `JUnit`: a case for a recording that can be read, and one for each
//! rule and one for unknown calls, or one for `--fail-on`.

use maud::html;

use super::{rows::plain, text};
use crate::replay::{
    fail_on::FailCondition,
    report::{ChangeCounts, ReplayReport},
};

pub(super) fn report(report: &ReplayReport, condition: Option<&FailCondition>) -> String {
    let mut cases = Vec::new();
    let mut failures = 0;
    let mut case = |name: &str, failure: Option<String>| {
        let name = escaped(name);
        let start = format!("    <testcase classname=\"hookgate.replay\" name=\"{name}\"");
        match failure {
            Some(message) => {
                failures += 1;
                let message = escaped(&message);
                cases.push(format!(
                    "{start}>\n      <failure message=\"{message}\"/>\n    </testcase>"
                ));
            }
            None => cases.push(format!("{start}/>")),
        }
    };
    case("calls can be read", report.failure());
    if let Some(condition) = condition {
        let holds = condition.holds(report);
        let failure = holds.then(|| format!("{} holds", condition.text()));
        case(&format!("not {}", condition.text()), failure);
    } else {
        for (rule, counts) in &report.rules {
            case(&format!("rule {rule}"), Some(difference(counts)));
        }
        let unknown = report.counts.unknown;
        let failure = (unknown > 0).then(|| format!("{unknown} calls cannot be compared"));
        case("every call is known", failure);
    }
    let output = escaped(&text::report(report));
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"hookgate \
         replay\" tests=\"{}\" failures=\"{failures}\" errors=\"0\" time=\"{}.{:03}\">\n{}\n    \
         <system-out>{output}</system-out>\n  </testsuite>\n</testsuites>",
        cases.len(),
        report.effort.elapsed_ms / 1000,
        report.effort.elapsed_ms % 1000,
        cases.join("\n"),
    )
}

fn difference(counts: &ChangeCounts) -> String {
    format!(
        "{} newly denied, {} newly allowed, {} edited otherwise",
        counts.newly_denied, counts.newly_allowed, counts.edited
    )
}

/// Returns text for XML 1.0, which has no control characters.
fn escaped(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(plain).collect();
    let text = lines.join("\n");
    html! { (text.replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")) }.into_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::report::CallCounts;

    #[test]
    fn unknown_calls_fail_a_report_without_condition_and_are_no_case_of_one_with_it() {
        let report_of_unknown = ReplayReport {
            counts: CallCounts {
                calls: 5,
                unknown: 5,
                ..CallCounts::default()
            },
            ..ReplayReport::default()
        };
        let condition: FailCondition = "newly_denied > 0".parse().unwrap();

        let without = report(&report_of_unknown, None);
        let with = report(&report_of_unknown, Some(&condition));

        assert!(
            without.contains("<failure message=\"5 calls cannot"),
            "{without}"
        );
        assert!(!with.contains("every call is known"), "{with}");
    }

    #[test]
    fn a_recording_of_which_nothing_can_be_read_is_a_failure() {
        let mut unread = ReplayReport::default();
        unread.damaged.add(&"corrupt");
        let mut read = unread.clone();
        read.counts.calls = 1;
        let condition: FailCondition = "newly_denied > 0".parse().unwrap();

        for condition in [None, Some(&condition)] {
            let suite = report(&unread, condition);
            assert!(suite.contains("tests=\"2\" failures=\"1\""), "{suite}");
            assert!(suite.contains("no call could be read"), "{suite}");
            assert!(report(&read, condition).contains("failures=\"0\""));
        }
    }
}
