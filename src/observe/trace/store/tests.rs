use std::time::Instant;

use bytes::Bytes;
use proptest::{collection::vec, prelude::*};

use super::*;
use crate::{
    config::{ContentSettings, FailureMode, HookMode},
    event::{
        Action, Caller, Context, EventName, EventOrigin, HookOutput, HookResult, HookRun, RuleId,
        SkipReason,
    },
    observe::{
        recorder::{
            BodyPart, ChunkFacts, EventDecision, ExchangeEvent, ExchangeSummary, PlanSummary, Sink,
        },
        trace::{record::RecordKind, rule::RulePosition, sink::TraceSink},
    },
};

fn limits(exchanges: usize, memory: usize) -> TraceSettings {
    TraceSettings {
        exchanges,
        memory,
        ..TraceSettings::default()
    }
}

fn store(exchanges: usize, memory: usize) -> Arc<TraceStore> {
    Arc::new(TraceStore::new(&limits(exchanges, memory), Arc::default()))
}

fn rule(name: &str, line: u64) -> RuleIdentity {
    RuleIdentity {
        name: name.to_owned(),
        kind: "command".to_owned(),
        policy: None,
        at: RulePosition {
            file: "hookgate.yaml".to_owned(),
            line,
        },
        events: vec![EventName::BeforeTool],
        mode: HookMode::Enforce,
        on_failure: Some(FailureMode::Open),
        when: None,
        disabled: false,
    }
}

fn exchange(id: &str, caller: &str) -> ExchangeSummary {
    let caller = Caller {
        name: caller.to_owned(),
        ..Caller::default()
    };
    ExchangeSummary::new(id.into(), caller)
}

fn run(decision: HookOutput) -> HookRun {
    let action = match decision.decision {
        Some(crate::event::Decision::Deny) => Action::Deny,
        _ => Action::Proceed,
    };
    HookRun {
        rule: RuleId(0),
        name: "guard".to_owned(),
        result: HookResult {
            output: decision,
            ..HookResult::default()
        },
        elapsed: Duration::from_millis(3),
        ended: SystemTime::now(),
        action,
        would: None,
        edited: false,
        refused: Vec::new(),
        input: Bytes::new(),
    }
}

fn decided(sink: &mut TraceSink, exchange: &ExchangeSummary, output: HookOutput, tool: &str) {
    let run = run(output);
    sink.record(
        exchange,
        &ExchangeEvent::HookFinished {
            event: EventName::BeforeTool,
            run: &run,
        },
    );
    let decision = EventDecision {
        event: EventName::BeforeTool,
        origin: EventOrigin::Derived,
        subject: Some(tool),
        input: None,
        plan: PlanSummary {
            started: Instant::now(),
            sequential: false,
            skipped: &[(RuleId(1), SkipReason::Matcher)],
        },
        verdict: run.action,
        output: &run.result.output.clone(),
        runs: &[run],
        diagnostics: &[],
    };
    sink.record(exchange, &ExchangeEvent::EventDecided(&decision));
}

/// A call with one event on which `guard` decides and `other` does not run.
fn call(store: &Arc<TraceStore>, rules: &TracedRules, id: &str, output: HookOutput) {
    let mut sink =
        TraceSink::new(store, rules, ContentSettings::default(), RecordKind::Call).unwrap();
    let exchange = exchange(id, "ci");
    decided(&mut sink, &exchange, output, "shell");
    sink.record(&exchange, &ExchangeEvent::Finished);
}

fn two_rules(store: &TraceStore) -> TracedRules {
    store.register(&[rule("guard", 7), rule("other", 9)], None, None)
}

#[test]
fn a_search_that_ends_at_its_time_is_not_complete_and_has_no_further_page() {
    let store = store(5, 4 << 20);
    let rules = two_rules(&store);
    let later = TraceFilter::parse("since:2999-01-01T00:00:00Z").unwrap();
    let empty = store.list(&later, None, 2);
    call(&store, &rules, "a", HookOutput::default());

    let none = store.list(&later, None, 2);
    let all = store.list(&TraceFilter::parse("since:1h").unwrap(), None, 2);

    let shape = |page: &CallList| (page.scanned.records, page.scanned.is_complete, page.next);
    assert_eq!(shape(&empty), (0, true, None));
    assert_eq!(shape(&none), (0, false, None));
    assert_eq!(shape(&all), (1, true, None));
}

#[test]
fn equal_rules_of_one_config_have_statistics_of_their_own() {
    let store = store(1, 4 << 20);

    let first = store.register(&[rule("guard", 1), rule("guard", 2)], None, None);
    let second = store.register(&[rule("guard", 1), rule("guard", 2)], None, None);

    let statistics =
        |rules: &TracedRules, index: usize| Arc::as_ptr(&rules[index].as_ref().unwrap().statistics);
    assert_ne!(statistics(&first, 0), statistics(&first, 1));
    let mut all = vec![
        statistics(&first, 0),
        statistics(&first, 1),
        statistics(&second, 0),
        statistics(&second, 1),
    ];
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 2);
}

#[test]
fn a_rule_of_a_rollout_shares_statistics_only_with_an_equal_one() {
    let store = store(1, 4 << 20);
    let observed = |line: u64| RuleIdentity {
        mode: HookMode::Observe,
        ..rule("guard", line)
    };
    let statistics =
        |rules: &TracedRules, index: usize| Arc::as_ptr(&rules[index].as_ref().unwrap().statistics);
    let before = store.register(&[rule("guard", 1), rule("other", 2)], None, None);

    let current = store.register(&[observed(1), rule("other", 2)], Some(&before), None);
    let revision = [rule("guard", 1), rule("other", 2)];
    let candidate = store.register(&revision, Some(&current), Some(&current));
    let moved = store.register(&[observed(5), rule("other", 6)], Some(&current), None);
    let candidate_again = store.register(&revision, Some(&moved), Some(&moved));

    assert_eq!(statistics(&current, 0), statistics(&before, 0));
    assert_ne!(statistics(&candidate, 0), statistics(&current, 0));
    assert_eq!(statistics(&candidate, 1), statistics(&current, 1));
    assert_eq!(statistics(&moved, 0), statistics(&current, 0));
    assert_eq!(moved[0].as_ref().unwrap().summary().rule.at.line, 5);
    assert_eq!(statistics(&candidate_again, 0), statistics(&candidate, 0));
}

#[test]
fn a_subscription_continues_behind_a_position_and_counts_what_was_evicted_since() {
    let store = store(3, 4 << 20);
    let rules = two_rules(&store);
    let start = store.status().last_seq;
    for number in 1..=10 {
        call(&store, &rules, &number.to_string(), HookOutput::default());
    }
    for (after, expected, lost) in [
        (Some(start + 8), vec!["9", "10"], 0),
        (Some(start + 2), vec!["8", "9", "10"], 5),
        (Some(start + 10), vec![], 0),
        (None, vec![], 0),
        // Positions of earlier processes, the second one before the clock was set back.
        (Some(start - 1), vec!["8", "9", "10"], 7),
        (Some(u64::MAX), vec!["8", "9", "10"], 7),
    ] {
        let mut subscription = store.subscribe(TraceFilter::default(), after);

        let batch = subscription.take();

        let ids: Vec<&str> = batch.calls.iter().map(|call| &*call.id).collect();
        assert_eq!((ids, batch.lost), (expected, lost), "{after:?}");
        assert_eq!(subscription.position(), start + 10, "{after:?}");
    }
}

#[tokio::test]
async fn a_subscription_finds_a_call_behind_many_that_do_not_match() {
    let store = store(3000, 64 << 20);
    let rules = two_rules(&store);
    for number in 0..2500 {
        call(&store, &rules, &number.to_string(), HookOutput::default());
    }
    call(&store, &rules, "last", HookOutput::denial("no"));
    let filter = TraceFilter::parse("verdict:deny").unwrap();
    let mut subscription = store.subscribe(filter, Some(0));

    let batch = timeout(Duration::from_secs(10), subscription.next()).await;

    let batch = batch.expect("no further call is needed").unwrap();
    assert_eq!(&*batch.calls[0].id, "last");
}

#[test]
fn a_disabled_trace_keeps_nothing() {
    let store = store(0, 4 << 20);
    let rules = two_rules(&store);

    call(&store, &rules, "a", HookOutput::default());

    assert_eq!(store.status().records, 0);
    let unused = TraceStore::new(&limits(0, 4 << 20), Arc::default());
    unused.register(&[rule("guard", 7), rule("other", 9)], None, None);
    assert_eq!(store.status().bytes, unused.status().bytes);
}

#[test]
fn ten_thousand_exchanges_in_flight_stay_within_the_bound() {
    let store = store(2000, 8 << 20);
    let rules = two_rules(&store);
    for number in 0..2000 {
        call(&store, &rules, &number.to_string(), HookOutput::default());
    }

    let mut in_flight = Vec::new();
    for number in 0..10_000 {
        let sink = TraceSink::new(&store, &rules, ContentSettings::default(), RecordKind::Call);
        let Some(mut sink) = sink else { continue };
        let exchange = exchange(&number.to_string(), "ci");
        decided(&mut sink, &exchange, HookOutput::default(), "shell");
        let facts = ChunkFacts {
            received_bytes: 10,
            held_bytes: 0,
            is_edited: false,
        };
        sink.record(&exchange, &ExchangeEvent::ChunkFiltered(facts));
        in_flight.push((sink, exchange));
        assert!(store.status().bytes <= 8 << 20);
    }
    let busy = store.status();
    for (mut sink, exchange) in in_flight {
        sink.record(&exchange, &ExchangeEvent::Finished);
        assert!(store.status().bytes <= 8 << 20);
    }

    assert!(busy.dropped_details > 0, "{busy:?}");
    assert!(busy.in_flight_bytes <= 4 << 20, "{busy:?}");
    let idle = store.status();
    assert_eq!(idle.in_flight_bytes, 0);
    assert_eq!(idle.records, 2000);
}

/// One thing that can happen to the trace.
#[derive(Debug, Clone)]
enum Step {
    /// An exchange with this number of events, whose reasons have this length.
    Call { events: usize, reason: usize },
    /// An exchange that stays in flight.
    Begin { events: usize },
    /// The oldest exchange in flight ends.
    End,
    Reload {
        exchanges: usize,
        memory: usize,
        rules: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..60_usize, 0..2000_usize).prop_map(|(events, reason)| Step::Call { events, reason }),
        4 => (0..200_usize).prop_map(|events| Step::Begin { events }),
        2 => Just(Step::End),
        1 => (0..50_usize, 4..9_usize, 0..20_usize).prop_map(|(exchanges, mebibytes, rules)| {
            Step::Reload { exchanges, memory: mebibytes << 20, rules }
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The bytes in use are never above the bound, and equal what is kept when nothing is in
    /// flight.
    #[test]
    fn the_memory_never_exceeds_its_bound(steps in vec(step(), 1..120)) {
        let mut memory = 4 << 20;
        let store = store(50, memory);
        let mut rules = two_rules(&store);
        let mut in_flight = std::collections::VecDeque::new();
        let begin = |rules: &TracedRules, events: usize, reason: usize| {
            let limits = ContentSettings { reasons: true, ..ContentSettings::default() };
            let mut sink = TraceSink::new(&store, rules, limits, RecordKind::Call)?;
            let exchange = exchange("id", "ci");
            for _ in 0..events {
                let output = HookOutput::denial("x".repeat(reason));
                decided(&mut sink, &exchange, output, "a tool with a name of some length");
            }
            Some((sink, exchange))
        };
        for step in steps {
            match step {
                Step::Call { events, reason } => {
                    if let Some((mut sink, exchange)) = begin(&rules, events, reason) {
                        sink.record(&exchange, &ExchangeEvent::Finished);
                    }
                }
                Step::Begin { events } => in_flight.extend(begin(&rules, events, 0)),
                Step::End => {
                    if let Some((mut sink, exchange)) = in_flight.pop_front() {
                        sink.record(&exchange, &ExchangeEvent::Finished);
                    }
                }
                Step::Reload { exchanges, memory: new, rules: count } => {
                    // What is in flight is not evicted, so a lower bound holds once it has ended.
                    memory = new.max(memory);
                    store.configure(&limits(exchanges, memory), &MaskPatterns::new());
                    let named = (0..count).map(|number| rule(&number.to_string(), number as u64));
                    rules = store.register(&named.collect::<Vec<_>>(), None, None);
                }
            }
            let status = store.status();
            prop_assert!(status.bytes <= memory, "{:?}", status);
            prop_assert!(status.in_flight_bytes <= memory / 2, "{:?}", status);
        }
        for (mut sink, exchange) in in_flight {
            sink.record(&exchange, &ExchangeEvent::Finished);
        }
        let kept: usize = store.ring.before(u64::MAX).map(|record| record.bytes()).sum();
        let rules: usize = store.rules.lock().iter().map(|rule| rule.bytes()).sum();
        let tables = DenialTable::max_bytes() + PromptCache::max_bytes();
        prop_assert_eq!(store.status().bytes, kept + rules + tables);
        prop_assert_eq!(store.status().in_flight_bytes, 0);
    }
}

#[test]
fn a_call_without_memory_for_its_details_counts_them() {
    let store = store(10, 4 << 20);
    let rules = two_rules(&store);
    let mut hog = store.no_bytes();
    let mut sink =
        TraceSink::new(&store, &rules, ContentSettings::default(), RecordKind::Call).unwrap();
    while store.grow(&mut hog, 64) {}
    let exchange = exchange("a", "ci");

    decided(&mut sink, &exchange, HookOutput::default(), "shell");
    sink.record(&exchange, &ExchangeEvent::Finished);

    let detail = &store.find("a").unwrap().detail;
    assert!(detail.as_ref().unwrap().dropped_details > 0);
}

#[test]
fn a_record_with_very_many_events_is_bounded() {
    let store = store(10, 16 << 20);
    let rules = two_rules(&store);
    let mut sink = TraceSink::new(
        &store,
        &rules,
        ContentSettings::default(),
        RecordKind::Event,
    )
    .unwrap();
    let exchange = ExchangeSummary::from_context(&Context::default());
    for _ in 0..5000 {
        decided(&mut sink, &exchange, HookOutput::default(), "shell");
    }

    sink.record(&exchange, &ExchangeEvent::Closed);

    let record = store.list(&TraceFilter::default(), None, 1).calls.remove(0);
    assert!(record.bytes() <= 128 * 1024, "{}", record.bytes());
    assert!(record.detail.as_ref().unwrap().dropped_details > 4000);
}

#[test]
fn a_denial_after_very_many_events_without_effect_is_kept() {
    let store = store(10, 16 << 20);
    let rules = two_rules(&store);
    let mut sink =
        TraceSink::new(&store, &rules, ContentSettings::default(), RecordKind::Call).unwrap();
    let exchange = exchange("a", "ci");
    for _ in 0..5000 {
        decided(&mut sink, &exchange, HookOutput::default(), "shell");
    }

    decided(
        &mut sink,
        &exchange,
        HookOutput::denial("no shell"),
        "shell",
    );
    sink.record(&exchange, &ExchangeEvent::Finished);

    let record = store.find("a").unwrap();
    assert_eq!(record.decided_by().unwrap().name, "guard");
    assert!(record.detail.as_ref().unwrap().dropped_details > 4000);
}

#[test]
fn a_denial_after_very_many_edits_is_kept() {
    let store = store(10, 16 << 20);
    let rules = two_rules(&store);
    let mut sink =
        TraceSink::new(&store, &rules, ContentSettings::default(), RecordKind::Call).unwrap();
    let exchange = exchange("a", "ci");
    let mut edit = HookOutput::default();
    let fields = &mut edit.hook_specific_output;
    fields.insert("additionalContext".to_owned(), "noted".into());
    for _ in 0..5000 {
        decided(&mut sink, &exchange, edit.clone(), "shell");
    }

    let denial = HookOutput::denial("no shell");
    decided(&mut sink, &exchange, denial, "shell");
    sink.record(&exchange, &ExchangeEvent::Finished);

    let record = store.find("a").unwrap();
    assert_eq!(record.decided_by().unwrap().action, Action::Deny);
    assert!(record.detail.as_ref().unwrap().dropped_details > 4000);
}

/// A call whose request holds a secret.
fn call_with_secret(store: &Arc<TraceStore>, rules: &TracedRules, id: &str, retention: Duration) {
    let content = ContentSettings {
        sample: 1.0,
        retention,
        ..ContentSettings::default()
    };
    store.contents.configure(&content, &MaskPatterns::new());
    let mut sink = TraceSink::new(store, rules, content, RecordKind::Call).unwrap();
    let exchange = exchange(id, "ci");
    let body = Bytes::from_static(br#"{"text":"key AKIAIOSFODNN7EXAMPLE"}"#);
    for part in [BodyPart::AgentRequest, BodyPart::ModelAnswer] {
        sink.record(&exchange, &ExchangeEvent::BodyInspected(part, &body));
    }
    sink.record(&exchange, &ExchangeEvent::Finished);
    store.contents.mask_pending();
}

#[test]
fn patterns_of_the_config_are_masked_from_the_reload_on() {
    let store = store(10, 4 << 20);
    let masked = |patterns: &MaskPatterns| {
        store
            .contents
            .configure(&ContentSettings::default(), patterns);
        store
            .contents
            .masked_text("see TCK-123456, AKIAIOSFODNN7EXAMPLE")
    };
    let pattern = ("ticket".to_owned(), "TCK-[0-9]{6}".to_owned());

    let before = masked(&MaskPatterns::new());
    let after = masked(&MaskPatterns::from([pattern]));

    assert_eq!(before, "see TCK-123456, [REDACTED:aws_key]");
    assert_eq!(after, "see [REDACTED:ticket], [REDACTED:aws_key]");
}

#[test]
fn content_is_masked_before_it_is_kept_and_removed_after_its_time() {
    let store = store(10, 4 << 20);
    let rules = two_rules(&store);

    call_with_secret(&store, &rules, "00000000-a", Duration::ZERO);
    let is_expired = store.contents.find("00000000-a").is_none();
    let bytes = store.status().content_bytes;
    call_with_secret(&store, &rules, "00000000-b", Duration::from_mins(1));

    assert!(is_expired);
    assert_eq!(bytes, 0);
    let kept = store.contents.find("00000000-b").unwrap();
    let json = serde_json::to_string(&*kept).unwrap();
    assert!(
        !json.contains("AKIA") && json.contains("[REDACTED:aws_key]"),
        "{json}"
    );
    assert!(store.status().content_bytes > 0);
}
